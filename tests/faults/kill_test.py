#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""kill_test.py TTQ COUNTER [SEED]: SIGKILL to the program, to the recorder, to both, each at many moments.

Whatever was killed, the recording opens, checks and answers up to the last finished block, and says
that it is incomplete; `ttq record` gives 137 when the program was killed; a program without its
recorder runs to its own end; and nothing is left in /dev/shm. The same of one that is asked while
it is being made."""

import concurrent.futures
import contextlib
import os
import random
import signal
import sys
import time

import faults

MOMENTS = 10  # of each kind
AT_ONCE = 4
SMALL_BLOCKS = ["--block-size", "1"]  # more of them to be killed in, in less time


def one(ttq, counter, kind, number, delay):
    directory, stop = ttq.place(f"{kind}-{number}"), ttq.place(f"stop-{kind}-{number}")
    record = ttq.start("record", *SMALL_BLOCKS, "-o", directory, counter, stop)
    time.sleep(delay)
    program = next(iter(faults.children_of(record.pid)), None)
    while program is None and os.path.exists(f"/proc/{record.pid}"):
        time.sleep(0.01)  # a slow machine
        program = next(iter(faults.children_of(record.pid)), None)
    if kind == "program":
        os.kill(program, signal.SIGKILL)
        out, error = record.communicate(timeout=60)
        assert record.returncode == 137, (record.returncode, error)
        if not os.path.exists(directory):
            assert "before anything was recorded" in error, error
            return None
    elif kind == "recorder":
        os.kill(record.pid, signal.SIGKILL)
        record.wait(timeout=60)  # on a busy machine it takes its time to end
        with open(stop, "w", encoding="ascii"):
            pass
        # We are its parent now: see main.
        _, status = os.waitpid(program, 0)
        assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 7, status
        out, error = record.communicate(timeout=60)
        assert int(out) > 0, out
        assert not faults.ring_directories([record.pid])
    else:
        first, second = random.sample([record.pid, program], 2)
        os.kill(first, signal.SIGKILL)
        os.kill(second, signal.SIGKILL)
        record.communicate(timeout=60)
        with contextlib.suppress(ChildProcessError):  # ours only if the recorder died first
            os.waitpid(program, 0)
    info, value = ttq.expect_readable(directory)
    assert info["finished"] == (kind == "program"), info
    assert os.stat(directory).st_mode & 0o777 == 0o700
    if kind == "recorder" and value:
        assert value <= int(out), (value, out)
    return record.pid, sum(p["blocks"] for p in info["processes"])


def ask_while_recording(ttq, counter):
    """How long it takes until something can be asked, in seconds."""
    directory, stop = ttq.place("live"), ttq.place("stop-live")
    started = time.monotonic()
    record = ttq.start("record", *SMALL_BLOCKS, "-o", directory, counter, stop)
    soon, values = None, []
    while len(values) < 2:
        assert time.monotonic() < started + 60, values
        if not os.path.exists(directory + "/db/CURRENT"):
            time.sleep(0.01)
            continue
        status, out, _ = ttq.run("info", "-f", "json", directory)
        if status != 0 or '"blocks":0' in out or '"processes":[]' in out:
            continue
        if soon is None:
            soon = time.monotonic() - started
        info, value = ttq.expect_readable(directory)
        assert "still being made" in info["processes"][0]["note"], info
        if value > 0 and value not in values:
            values.append(value)
    assert values == sorted(values), values
    with open(stop, "w", encoding="ascii"):
        pass
    out, error = record.communicate(timeout=60)
    assert record.returncode == 7, error
    assert ttq.expect_readable(directory, complete=True)[1] == int(out)
    return soon


def main():
    faults.adopt_orphans()
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
    print("seed", seed)
    random.seed(seed)
    with faults.Ttq(sys.argv[1]) as ttq, \
            concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        soon = ask_while_recording(ttq, sys.argv[2])
        jobs = [pool.submit(one, ttq, sys.argv[2], kind, number, random.uniform(0, 1.6 * soon))
                for number in range(MOMENTS) for kind in ("program", "recorder", "both")]
        done = [job.result() for job in jobs]
        pids = [d[0] for d in done if d]
        blocks = sorted(d[1] for d in done if d)
        print(f"{len(done)} kills; {len(blocks)} recordings, of {blocks[0]} to {blocks[-1]} blocks, "
              f"{blocks.count(0)} of none")
        assert blocks[-1] > 0, "every kill came too early to test anything"
        # The next recorder takes away what those that were killed could not.
        status, _, error = ttq.run("record", "-o", ttq.place("next"), "/bin/true")
        assert status == 0, error
        assert not faults.ring_directories(pids), faults.ring_directories(pids)
        assert not faults.children(), "a program still runs"


if __name__ == "__main__":
    main()

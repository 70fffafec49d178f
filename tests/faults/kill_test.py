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
import subprocess
import sys
import time

import faults

MOMENTS = 10  # of each kind
AT_ONCE = 4
# Of histories that are stored while the program runs; inputs_test has the others. Small blocks: more of them to be
# killed in, in less time.
HISTORY = ["--index=now", "--block-size", "1"]


def one(ttq, counter, kind, number, delay):
    directory, stop = ttq.place(f"{kind}-{number}"), ttq.place(f"stop-{kind}-{number}")
    record = ttq.start("record", *HISTORY, "-o", directory, counter, stop)
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
    record = ttq.start("record", *HISTORY, "-o", directory, counter, stop)
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


def without_recorder(ttq):
    """A program whose recorder was killed before it began, and whose directory the next recorder has
    taken away, runs to its own end; so does what a program executes after its recorder is gone."""
    tools = os.path.join(os.path.dirname(ttq.path), "libexec/ttq")
    gone = "/dev/shm/ttq-00000000-4194303"  # a recorder's number that no process has
    for words in (["/usr/bin/valgrind.bin", "--tool=ttq", "-q", "--vgdb=no", "--trace-children=yes",
                   f"--log-file={gone}/log.%p", f"--ring={gone}", "/bin/sh"],
                  [f"{tools}/ttq-engine", f"--ring={gone}", "--", "/bin/sh", "sh"]):
        p = subprocess.run([*words, "-c", "/bin/echo $(/bin/echo 1); exit 7"], text=True, timeout=60,
                           env=dict(os.environ, VALGRIND_LIB=tools), stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, check=False)
        assert (p.returncode, p.stdout, p.stderr) == (7, "1\n", ""), p
    for engine in ("valgrind", "native"):
        directory, stop = ttq.place(f"gone-{engine}"), ttq.place(f"stop-gone-{engine}")
        # The shell's own process goes on to the end; those that it starts come after the kill.
        record = ttq.start("record", f"--engine={engine}", "-o", directory, "/bin/sh", "-c",
                           f"echo ready; while ! [ -e {stop} ]; do :; done; "
                           "for i in 1 2 3; do /bin/echo $i || exit 8; done; exec sh -c 'exit 7'")
        assert record.stdout.readline() == "ready\n"
        program = faults.children_of(record.pid)[0]
        os.kill(record.pid, signal.SIGKILL)
        record.wait(timeout=60)
        status, _, error = ttq.run("record", "-o", ttq.place(f"after-{engine}"), "/bin/true")
        assert status == 0, error
        assert not faults.ring_directories([record.pid])
        with open(stop, "w", encoding="ascii"):
            pass
        _, status = os.waitpid(program, 0)
        assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 7, (engine, status)
        assert record.stdout.read() == "1\n2\n3\n"
        status, _, error = ttq.run("check", directory)
        assert status == 0, error


def main():
    faults.adopt_orphans()
    faults.seed_from(3)
    with faults.Ttq(sys.argv[1]) as ttq, \
            concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        without_recorder(ttq)
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
        assert not faults.children_of("self"), "a program still runs"


if __name__ == "__main__":
    main()

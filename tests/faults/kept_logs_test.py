#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""kept_logs_test.py TTQ SHARED_LATER [SEED]: processes that are recorded by their inputs up to where they
cannot be run again, and by their log from there on.

The history has all of both, each write once; what happens to a log happens as to inputs: it is cut, flipped, its
program or recorder killed."""

import json
import os
import random
import signal
import sys
import time

import faults

N = 150_000


def writes(ttq, directory, process, which):
    """How often a process wrote a counter, and the values of the first and last write."""
    def rows(query):
        status, out, error = ttq.run("-t", directory, "-p", str(process), "-f", "json", query)
        assert status == 0, (query, status, error)
        return json.loads(out)["rows"]
    target = f"counter[{which}]"
    last = rows(f"last write to {target}")
    if not last:
        return 0, None, None
    return (rows(f"writes to {target} | count")[0]["count"], int(rows(f"first write to {target}")[0]["value"], 16),
            int(last[0]["value"], 16))


def record(ttq, program, how, number, *flags):
    directory = ttq.place(f"{how}-{number}")
    status, out, error = ttq.run("record", "--index=none", "--block-size", "1", "-o", directory, *flags, program,
                                 how, str(number), ttq.place("shared"))
    assert status == 0, (how, status, error)
    assert "and from some point on the log, since " in error, error
    return directory, out


def all_is_there(ttq, program):
    for how in ("anonymous", "file", "protect", "sysv", "large"):
        directory, out = record(ttq, program, how, N)
        ttq.index(directory)
        info = json.loads(ttq.run("info", "-f", "json", directory)[1])
        pids = {p["pid"]: p for p in info["processes"]}
        lines = [line.split() for line in out.splitlines()]
        assert len(lines) == len(pids) == (3 if how == "anonymous" else 1), (out, info)
        for who, pid, *ends in lines:
            p = pids[int(pid)]
            assert p["exit_status"] == 0 and (p["parent"] is None) == (who == "parent"), (how, p)
            for which, end in enumerate(map(int, ends)):
                count, first, last = writes(ttq, directory, p["process"], which)
                assert last == (end if count else None), (how, who, which, count, first, last, end)
                if who == "parent":
                    assert (count, first) == (end, 1), (how, which, count, first, end)
                else:
                    assert count == (N if which == 0 else 0), (how, which, count)
        assert ttq.run("check", directory)[::2] == (0, ""), how
        again = ttq.answer(directory, "calls to count_to")
        ttq.index(directory, "--drop")
        ttq.index(directory, "--to", "200000")  # a part, which begins at the start
        assert ttq.answer(directory, "calls to count_to")["rows"] == again["rows"], how
    print("all of both: 5")
    return directory


def killed(ttq, program):
    for number in range(4):
        kind = ("program", "recorder")[number % 2]
        directory = ttq.place(f"killed-{number}")
        started = ttq.start("record", "--index=none", "--block-size", "1", "-o", directory, program, "large", "0",
                            ttq.place("shared"))
        # 1 million rounds have 40 kB of inputs; a block of the log has more.
        faults.wait_for_inputs(started, directory, 1 << 20)
        recorded = next(iter(faults.children_of(started.pid)))
        time.sleep(random.random() / 16)
        os.kill(recorded if kind == "program" else started.pid, signal.SIGKILL)
        if kind == "recorder":
            started.wait(timeout=60)
            os.kill(recorded, signal.SIGKILL)
            os.waitpid(recorded, 0)
        started.communicate(timeout=60)
        ttq.index(directory)
        status, out, error = ttq.run("info", "-f", "json", directory)
        assert status == 0, error
        process = json.loads(out)["processes"][0]
        assert not process["complete"] and process["note"] and process["exit_status"] is None, process
        count, first, last = writes(ttq, directory, 1, 0)
        assert first == 1 and count == last > 1_000_000, (count, first, last)
    print("killed: 4")


def damaged(ttq, directory):
    path = os.path.join(directory, "inputs", "1")
    with open(path, "rb") as file:
        right = file.read()
    noticed = 0
    for number in range(16):
        data = bytearray(right)
        at = random.randrange(len(data) // 2, len(data))  # of the log
        if number % 4 == 0:
            del data[at:]
        else:
            data[at] ^= 1 << random.randrange(8)
        with open(path, "wb") as file:
            file.write(data)
        ttq.index(directory, "--drop")
        status, out, error = ttq.run("index", directory)
        if status != 0:
            faults.one_line((status, out, error), number, at)
            noticed += 1
            continue
        info = json.loads(ttq.run("info", "-f", "json", directory)[1])["processes"][0]
        if number % 4 == 0:
            assert not info["complete"] and info["exit_status"] is None, (number, at, info)
        count, first, last = writes(ttq, directory, 1, 0)
        assert first == 1 and count == last <= N, (number, at, count, first, last)
    with open(path, "wb") as file:
        file.write(right)
    assert noticed >= 6, noticed
    ttq.index(directory, "--drop")
    ttq.index(directory)
    assert ttq.run("check", directory)[0] == 0
    with open(path, "r+b") as file:
        file.seek(len(right) * 3 // 4)
        file.write(b"\xff" * 8)
    status, _, error = ttq.run("check", directory)
    assert status == 3 and path in error, (status, error)
    print("damaged: 16, noticed:", noticed)


def main():
    faults.seed_from(3)
    faults.adopt_orphans()
    with faults.Ttq(sys.argv[1]) as ttq:
        program = os.path.abspath(sys.argv[2])
        directory = all_is_there(ttq, program)
        killed(ttq, program)
        damaged(ttq, directory)


if __name__ == "__main__":
    main()

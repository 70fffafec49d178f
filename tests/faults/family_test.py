#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""family_test.py TTQ FAMILY [SEED [TIMES]]: SIGKILL to the recorder of a program that forks, execs and spawns,
or to the program, many of them in the first tenths of a second.

Each process is stored by itself, and a forked one is nothing without what its parent did until then. Whatever
was killed, the recording opens and checks; each process answers every question, or says why nothing of it was
recorded; no answer is called complete that is not; and of a process that answers, `counter` is what its
program counted: one more with each write, from where the parent was."""

import collections
import concurrent.futures
import json
import os
import random
import signal
import sys
import time

import faults

TIMES = 16
AT_ONCE = 3
ASKED = 3  # processes of each recording
QUESTIONS = ("backtrace at end", "memory counter len 8 at end", "writes to counter", "calls to step | count",
             "maps at end", "executions of step | count", "registers at end", "threads", "modules at end",
             "events | count", "origin of $rax at end", "print counter at end", "heap leaks at end")


def ask_all(ttq, directory, process):
    """Every question about one process; the values that were written to `counter`."""
    written = None
    for question in QUESTIONS:
        status, out, error = ttq.run("-t", directory, "-p", str(process["process"]), "-f", "json", question)
        where = (directory, process, question, status, out[-500:], error)
        if process["blocks"] == 0:
            assert status == 3 and out == "" and error.count("\n") == 1, where
            assert error.startswith(f"ttq: nothing of process {process['process']} was recorded: "), where
            assert process["note"] in error, where
            continue
        assert status == 0, where
        answer = json.loads(out)
        assert process["complete"] or not answer["complete"] and answer["note"], where
        if question == "writes to counter":
            written = answer["rows"]
    if written:
        values = [(int(row["previous"], 16), int(row["value"], 16)) for row in written]
        assert all(value == before + 1 for before, value in values), (directory, process)
        assert all(a[1] == b[0] for a, b in zip(values, values[1:])), (directory, process)
    return written


def look_at(ttq, directory):
    """What a recording holds, after it was seen to hold it; the number of processes of each sort."""
    status, out, error = ttq.run("info", "-f", "json", directory)
    assert status == 0, (directory, error)
    info = json.loads(out)
    status, out, error = ttq.run("check", directory, timeout=300)
    assert status == 0 and error == "", (directory, status, error)
    processes = info["processes"]
    if not processes:
        status, out, error = ttq.run("-t", directory, "events")
        assert status == 3 and "nothing was recorded" in error and error.count("\n") == 1, error
    cut_off = [p for p in processes if "which forked this one, is not stored" in (p["note"] or "")]
    assert all(p["blocks"] == 0 and p["parent"] for p in cut_off), cut_off
    for process in random.sample(processes, min(len(processes), ASKED)) + cut_off[:1]:
        written = ask_all(ttq, directory, process)
        if not written or process["by_exec"] or process["parent"] is None:
            continue
        # The fork: some write of the parent left what the child found.
        parent = next(p for p in processes if p["process"] == process["parent"])
        status, out, error = ttq.run("-t", directory, "-p", str(parent["process"]), "-f", "json",
                                     "writes to counter")
        assert status == 0, error
        found = written[0]["previous"]
        assert int(found, 16) == 0 or any(row["value"] == found for row in json.loads(out)["rows"]), \
            (directory, process, found)
    return collections.Counter(recordings=1, processes=len(processes), cut_off=len(cut_off),
                               empty=sum(p["blocks"] == 0 for p in processes), none=not processes)


def one(ttq, family, number, victim, delay):
    directory, stop = ttq.place(f"family-{number}"), ttq.place(f"stop-{number}")
    stored = random.choice(("--index=now", "--index=none"))
    record = ttq.start("record", "-q", stored, "-o", directory, family, stop)
    time.sleep(delay)
    if victim == "recorder":
        record.kill()
    else:  # that of the first process, whose children run on
        for pid in faults.children_of(record.pid):
            os.kill(pid, signal.SIGKILL)
    with open(stop, "w", encoding="ascii"):
        pass
    _, error = record.communicate(timeout=60)
    if victim == "program":
        assert record.returncode in (7, 137), (delay, record.returncode, error)
    # Killed before there was anything, or nothing was recorded.
    if not os.path.exists(directory):
        return collections.Counter(absent=1)
    if victim == "recorder" and not os.path.exists(directory + "/db/CURRENT"):
        # No store yet: nothing is known of it, or what was to be recorded is (it opens, and is empty).
        status, out, error = ttq.run("info", directory)
        if status != 0:
            assert status == 3 and error.startswith("ttq: ") and error.count("\n") == 1, (directory, status, error)
            return collections.Counter(absent=1)
        found = look_at(ttq, directory)
        assert (found["none"] or stored == "--index=none") and "not finished: its recorder was killed" in out, (directory, out, found)
        return found
    return look_at(ttq, directory)


def main():
    faults.adopt_orphans()
    faults.seed_from(3)
    times = int(sys.argv[4]) if len(sys.argv) > 4 else TIMES
    with faults.Ttq(sys.argv[1]) as ttq, concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        # One that nobody kills, and how long it takes to begin with.
        whole = ttq.place("whole")
        started = time.monotonic()
        status, _, error = ttq.run("record", "-q", "-o", whole, sys.argv[2], ttq.place("none"), "1")
        assert status == 7 and error == "", (status, error)
        long = time.monotonic() - started
        done = look_at(ttq, whole)
        assert done["processes"] == 9 and done["empty"] == 0, done
        moments = [(number, random.choice(("recorder", "recorder", "program")),
                    random.choice((random.uniform(0, 0.2), random.uniform(0, long), random.uniform(0, 3 * long))))
                   for number in range(times)]
        total = sum(pool.map(lambda m: one(ttq, sys.argv[2], *m), moments), collections.Counter())
        print(f"{times} kills:", dict(total))
        faults.end_children()


if __name__ == "__main__":
    main()

#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""fail_nth_test.py TTQ FAIL_NTH FAMILY [SEED [POINTS]]: makes the N-th write, open, mmap, allocation, sync,
thread or the like of ttq fail, of a short recording and of questions; once, or from then on.

ttq ends by itself and soon, with 0 or with a status and one line that say that it failed; what was recorded
opens and checks, and is called complete only if nothing failed; an answer is the right one, or incomplete.

Calls that are made from the same places are of one sort. POINTS sorts of each kind are tried, chosen by chance;
0: all of them. Questions are asked where POINTS is given."""

import json
import os
import random
import shutil
import sys

import faults

POINTS = 2
# What each kind of call may fail with; 0: half of it is written.
ERRORS = {"write": (28, 0, 5), "open": (24, 13), "mmap": (12,), "malloc": (12,), "sync": (5,), "thread": (11,),
          "file": (28, 5), "system": (24,)}
QUESTIONS = ("last write to counter", "backtrace at end", "memory counter len 64 at end", "calls to step | count")


class Failing:
    def __init__(self, ttq, library, points):
        self.ttq, self.library, self.points = ttq, os.path.abspath(library), points

    def run(self, kind, at, error, on, *arguments, log=None):
        environment = dict(self.ttq.environment, LD_PRELOAD=self.library, FAIL_KIND=kind, FAIL_AT=str(at),
                           FAIL_ERROR=str(error), FAIL_ON=str(int(on)),
                           XDG_CACHE_HOME=self.ttq.place("cache"))
        if log:
            environment["FAIL_LOG"] = log
        shutil.rmtree(self.ttq.place("cache"), ignore_errors=True)
        return self.ttq.run(*arguments, env=environment, timeout=60)

    def calls(self, kind, *arguments):
        """The numbers of the calls that are to fail."""
        log = self.ttq.place("log")
        self.run(kind, 0, 0, False, *arguments, log=log)
        first = {}
        with open(log, encoding="ascii") as file:
            for line in file:
                number, place = line.split()
                first.setdefault(place, int(number))
        numbers = sorted(first.values())
        return random.sample(numbers, min(self.points, len(numbers))) if self.points else numbers

    def each(self, *arguments):
        """Runs the command with each failure; gives what failed, and what came of it."""
        for kind, errors in ERRORS.items():
            for at in self.calls(kind, *arguments):
                if "-o" in arguments:
                    shutil.rmtree(arguments[arguments.index("-o") + 1], ignore_errors=True)
                for error in errors if not self.points else [random.choice(errors)]:
                    on = random.random() < 0.5
                    yield (kind, at, error, on), self.run(kind, at, error, on, *arguments)


def disk_full_at_the_seal(failing, directory):
    """All is stored, and what is written last, that it is whole, is not: that is what is said."""
    ttq, log = failing.ttq, failing.ttq.place("log")
    record = ("record", "-q", "-o", directory, "/bin/echo", "hello")
    failing.run("write", 0, 0, False, *record, log=log)
    shutil.rmtree(directory)
    with open(log, encoding="ascii") as file:
        last = max(int(line.split()[0]) for line in file)
    said = []
    for at in range(last, last - 5, -1):  # a few more or less, as threads come by
        status, out, error = failing.run("write", at, 28, True, *record)
        where = (at, last, status, out, error)
        if "could not be finished" in error:
            assert status == 125 and out == "hello\n" and error.count("\n") == 1, where
            assert error.startswith(f"ttq: the disk is full: {directory}; the program had ended"), where
            answer = ttq.answer(directory, "events output")
            assert answer["rows"] and answer["complete"] == (answer["note"] is None), answer
            assert answer["complete"] or "seal" in answer["note"], answer
            said.append(at)
        assert "unrecorded" not in error or out == "hello\n", where
        shutil.rmtree(directory, ignore_errors=True)
    assert said, last


def main():
    faults.seed_from(4)
    points = int(sys.argv[5]) if len(sys.argv) > 5 else POINTS
    with faults.Ttq(sys.argv[1]) as ttq:
        failing = Failing(ttq, sys.argv[2], points)
        directory, runs, failed = ttq.place("recording"), 0, 0
        for what, (status, out, error) in failing.each("record", "-q", "-o", directory, "/bin/echo", "hello"):
            where = (what, status, out, error)
            lines = error.splitlines()
            assert status in (0, 125, 126), where
            assert all(line.startswith("ttq: ") for line in lines), where
            assert len(lines) == 1 or status == 0, where
            assert status != 0 or out == "hello\n", where
            runs, failed = runs + 1, failed + (status != 0)
            if not os.path.exists(directory):
                assert status != 0, where
                continue
            opened, info, error = ttq.run("info", "-f", "json", directory)
            if "holds no store" in error:  # out of memory before there was one
                assert status == 125 and "not recorded any further" in lines[0], (where, error)
                shutil.rmtree(directory)
                continue
            assert opened == 0, (where, error)
            checked, _, error = ttq.run("check", directory)
            assert checked == 0, (where, error)
            info = json.loads(info)
            whole = info["finished"] and info["processes"] and all(p["complete"] for p in info["processes"])
            # Without a descriptor for a file that is mapped its contents are missing, and the recording says so.
            noted = what[0] in ("open", "system") and info["finished"] and info["processes"] and all(
                p["complete"] or "were not kept" in p["note"] for p in info["processes"])
            assert status != 0 or whole or lines or noted, (where, info)
            shutil.rmtree(directory)
        print(f"{runs} recordings, of which {failed} failed")
        assert 0 < failed < runs
        disk_full_at_the_seal(failing, directory)
        if len(sys.argv) <= 5:
            return

        status, _, error = ttq.run("record", "-q", "-o", directory, sys.argv[3], ttq.place("none"), "1")
        assert status == 7, error
        runs = failed = 0
        for question in QUESTIONS:
            asked = ("-t", directory, "-f", "json", question)
            status, right, error = ttq.run(*asked)
            assert status == 0, error
            rows = json.loads(right)["rows"]
            for what, (status, out, error) in failing.each(*asked):
                where = (question, what, status, out, error)
                lines = [line for line in error.splitlines() if not line.startswith("ttq: note: ")]
                if status == 0:
                    answer = json.loads(out)
                    # A debug file that may not be read is as one that is not there.
                    assert answer["rows"] == rows or not answer["complete"] or what[::2] == ("open", 13), where
                else:
                    assert status == 3 and len(lines) == 1, where
                assert all(line.startswith("ttq: ") for line in lines), where
                runs, failed = runs + 1, failed + (status != 0)
        print(f"{runs} questions, of which {failed} failed")
        assert 0 < failed < runs


if __name__ == "__main__":
    main()

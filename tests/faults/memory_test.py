#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""memory_test.py TTQ DAMAGED: RLIMIT_AS and RLIMIT_NOFILE too small for the recorder, its tool or a question.

One line and the status of a failure, or the right answer; what was recorded opens and checks."""

import json
import os
import re
import resource
import shutil
import sys

import faults

RECORD_MIB = (60, 80, 100, 120, 140, 170, 200, 300)
ASK_MIB = (45, 60, 90, 150, 250, 1500)
FILES = (5, 8, 12, 20)
QUESTIONS = ("backtrace at end", "calls to add | count", "last write to total", "memory total len 16 at end")


def limit(kind, value):
    return {"preexec_fn": lambda: resource.setrlimit(kind, (value, value))}


def record(ttq, what, **options):
    directory = ttq.place("limited")
    status, out, error = ttq.run("record", "-q", "-o", directory, "/bin/echo", "hello", **options)
    where = (what, status, out, error)
    # Valgrind needs less; where it has too little as well, it says so.
    lines = [line for line in error.splitlines() if not re.fullmatch(
        r"ttq: the native engine cannot record this program: the engine gets no memory.*; recording it with Valgrind", line)]
    # The program has the limit too.
    said = [line for line in lines if not line.startswith("/bin/echo: error while loading")]
    if status != 0:
        assert status == 125 and len(said) == 1 and said[0].startswith("ttq: "), where
    else:
        assert out == "hello\n" and not lines, where
    if os.path.exists(directory):
        checked, _, error = ttq.run("check", directory)
        assert checked == 0, (where, error)
        info = json.loads(ttq.run("info", "-f", "json", directory)[1])
        whole = [p["complete"] for p in info["processes"]]
        assert (whole != [] and all(whole)) == (status == 0), (where, info)
        shutil.rmtree(directory)
    else:
        assert status != 0, where
    return status


def ask(ttq, directory, right, what, **options):
    failed = 0
    for question, rows in right.items():
        status, out, error = ttq.run("-t", directory, "-f", "json", question, **options)
        where = (what, question, status, out, error)
        lines = [line for line in error.splitlines() if not line.startswith("ttq: note: ")]
        if status == 0:
            answer = json.loads(out)
            assert answer["rows"] == rows or not answer["complete"], where
        else:
            assert status == 3 and len(lines) == 1 and lines[0].startswith("ttq: "), where
        failed += status != 0
    for command in ("check", "info"):
        status, out, error = ttq.run(command, directory, **options)
        lines = error.splitlines()
        # What `check` could not open is a problem of its own, and there may be several.
        few = len(lines) == 1 or command == "check" and "Too many open files" in error
        assert status == 0 or status == 3 and few and all(line.startswith("ttq: ") for line in lines), \
            (what, command, status, out, error)
    return failed


def least_to_start(ttq):
    """MiB of addresses that the loader needs for ttq, whose size depends on how it is built."""
    return next(mib for mib in range(10, 1000, 5)
                if ttq.run("--version", **limit(resource.RLIMIT_AS, mib << 20))[0] == 0)


def main():
    with faults.Ttq(sys.argv[1]) as ttq:
        if b"__asan_init" in open(ttq.path, "rb").read():
            faults.skip("ASan needs all addresses")
        least = least_to_start(ttq)
        recorded = [record(ttq, f"{mib} MiB", **limit(resource.RLIMIT_AS, max(mib, least) << 20)) for mib in RECORD_MIB]
        assert recorded[0] == 125 and recorded[-1] == 0, recorded
        recorded += [record(ttq, f"{n} files", **limit(resource.RLIMIT_NOFILE, n)) for n in FILES]
        directory = ttq.place("whole")
        ttq.run("record", "-q", "-o", directory, sys.argv[2])
        right = {question: ttq.answer(directory, question)["rows"] for question in QUESTIONS}
        assert all(right.values()), right
        failed = [ask(ttq, directory, right, f"{mib} MiB", **limit(resource.RLIMIT_AS, max(mib, least) << 20))
                  for mib in ASK_MIB]
        assert failed[0] == len(QUESTIONS) and failed[-1] == 0, failed
        few = [ask(ttq, directory, right, f"{n} files", **limit(resource.RLIMIT_NOFILE, n)) for n in FILES]
        print("recorded:", recorded, "of", RECORD_MIB, "MiB and", FILES, "files; questions that failed:", failed, few)


main()

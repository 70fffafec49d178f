# SPDX-License-Identifier: MIT
"""The lines of an activation that `trace of` tells equal, one for one, those at which gdb stops when it
steps through the same program with `next`, without optimization and with.

    trace_test.py TTQ
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

TTQ = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "programs", "steps.c")
FUNCTIONS = ["collatz", "sort", "count_words", "fill", "recurse", "search", "main"]


def ask(recording, query):
    run = subprocess.run([TTQ, "query", "-t", recording, "-f", "json", "--limit", "0", query],
                         capture_output=True, text=True, timeout=300)
    if run.returncode != 0:
        raise SystemExit(f"{query}: {run.stderr}")
    return json.loads(run.stdout)["rows"]


def check(level, scratch):
    program = os.path.join(scratch, "steps" + level)
    subprocess.run(["gcc", "-g", level, "-o", program, PROGRAM], check=True)
    out = os.path.join(scratch, "out")
    environment = dict(os.environ, OUT=out, FUNCTIONS=",".join(FUNCTIONS), LC_ALL="C")
    gdb = subprocess.run(["gdb", "-nx", "-batch", "-x", os.path.join(HERE, "steps_in_gdb.py"), program],
                         env=environment, capture_output=True, text=True, timeout=300)
    if not os.path.exists(out):
        raise SystemExit("gdb gave nothing: " + gdb.stdout + gdb.stderr)
    recording = program + ".ttq"
    subprocess.run([TTQ, "record", "-q", "-o", recording, "--", program], check=True,
                   stdout=subprocess.DEVNULL, timeout=300)
    wrong = seen = 0
    for line in open(out):
        function, want = json.loads(line)
        if not want:
            continue
        seen += 1
        got = [row["line"] for row in ask(recording, f"trace of {function} unfolded | select time, line")]
        if got != want:
            at = next((i for i, (g, w) in enumerate(zip(got, want)) if g != w), min(len(got), len(want)))
            print(f"{level} {function}: from line {at} on gdb {want[max(0, at - 3):at + 6]}, "
                  f"ttq {got[max(0, at - 3):at + 6]} ({len(want)} and {len(got)})")
            wrong += 1
        folded = ask(recording, f"trace of {function} | select times, line")
        if sum(row["times"] for row in folded) != len(got) or len(folded) > 3 * len(set(got)):
            print(f"{level} {function}: {len(folded)} folded rows for {len(got)} lines")
            wrong += 1
    if seen < len(FUNCTIONS) - 1:
        print(f"{level}: gdb stepped through {seen} functions only: {gdb.stderr}")
        wrong += 1
    return wrong


def main():
    if not shutil.which("gdb") or not shutil.which("gcc"):
        print("skipped: no gdb or no gcc here")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        wrong = sum(check(level, scratch) for level in ("-O0", "-O1"))
    if not wrong:
        print("the lines are those of gdb")
    return 1 if wrong else 0


sys.exit(main())

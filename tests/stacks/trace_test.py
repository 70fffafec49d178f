# SPDX-License-Identifier: MIT
"""The lines of an activation that `trace of` tells equal, one for one, those at which gdb stops when it
steps through the same program with `next`, without optimization and with. The text shown is that of
the line in its file, and a function is called as often as `calls to` says, inlined or not.

    trace_test.py TTQ
"""

import json
import linecache
import os
import shutil
import subprocess
import sys
import tempfile

TTQ = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "programs")
STEPS = ["collatz", "sort", "count_words", "fill", "recurse", "search", "main"]
CATCHES = ["Leaf", "Middle", "Sum", "Factorial", "main"]
THROWS = 3  # Middle's third call in catches.cc


def ask(recording, query):
    run = subprocess.run([TTQ, "query", "-t", recording, "-f", "json", "--limit", "0", query],
                         capture_output=True, text=True, timeout=300)
    if run.returncode != 0:
        raise SystemExit(f"{query}: {run.stderr}")
    return json.loads(run.stdout)["rows"]


def build_and_record(source, level, scratch):
    program = os.path.join(scratch, source + level)
    compiler = "g++" if source.endswith(".cc") else "gcc"
    subprocess.run([compiler, "-g", level, "-o", program, os.path.join(PROGRAMS, source)], check=True)
    recording = program + ".ttq"
    subprocess.run([TTQ, "record", "-q", "-o", recording, "--", program], check=True,
                   stdout=subprocess.DEVNULL, timeout=300)
    return program, recording


def check_lines(level, functions, program, recording, scratch):
    out = os.path.join(scratch, "out")
    if os.path.exists(out):
        os.unlink(out)
    environment = dict(os.environ, OUT=out, FUNCTIONS=",".join(functions), LC_ALL="C")
    gdb = subprocess.run(["gdb", "-nx", "-batch", "-x", os.path.join(HERE, "steps_in_gdb.py"), program],
                         env=environment, capture_output=True, text=True, timeout=300)
    if not os.path.exists(out):
        raise SystemExit("gdb gave nothing: " + gdb.stdout + gdb.stderr)
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
    if seen < len(functions) - 1:
        print(f"{level}: gdb stepped through {seen} functions only: {gdb.stderr}")
        wrong += 1
    return wrong


def check_copies(level, recording):
    """Of catches.cc, whatever of it was inlined."""
    wrong = 0
    for function in CATCHES:
        for row in ask(recording, f"trace of {function} depth 3"):
            text = linecache.getline(row["file"] or "", row["line"] or 0).strip()
            if (row["source"] or "").strip() != text:
                print(f"{level} {function}: {row['file']}:{row['line']} is {text!r}, not {row['source']!r}")
                wrong += 1
    for outer, inner, count in (("Sum", "Middle", 4), ("Factorial", "Factorial", 1)):
        rows = ask(recording, f"trace of {outer}")
        called = sum(call["times"] for row in rows for call in row["calls"] or []
                     if call["function"] == inner)
        if rows and called not in (count, 0 if inner == outer else count):
            print(f"{level}: {outer} calls {inner} {called} times, not {count}")
            wrong += 1
    rows = ask(recording, f"trace of (calls to Middle | first {THROWS} | last 1)")
    lines = [row["source"].strip() for row in rows]
    if not lines or "result = Leaf(x);" not in lines[:4] or "result = -1;" not in lines:
        print(f"{level}: Middle, when Leaf throws: {lines}")
        wrong += 1
    return wrong


def main():
    if not shutil.which("gdb") or not shutil.which("gcc"):
        print("skipped: no gdb or no gcc here")
        return 0
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        for level in ("-O0", "-O1", "-O2"):
            wrong += check_lines(level, STEPS, *build_and_record("steps.c", level, scratch), scratch)
        for level in ("-O0", "-O1", "-O2"):
            program, recording = build_and_record("catches.cc", level, scratch)
            if level != "-O2":  # Middle is inlined everywhere there
                wrong += check_lines(level, CATCHES, program, recording, scratch)
            wrong += check_copies(level, recording)
    if not wrong:
        print("the lines are those of gdb")
    return 1 if wrong else 0


sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares stacks and all variables in scope, at random times of programs that csmith makes and that are compiled
with optimisation, with what gdb makes of the same recorded state by the same debug information.

    random_test.py TTQ PACKAGES [SEED...]

PACKAGES: BUILD/python. Without seeds, four programs whose variables are in all kinds of places: pointers to what
is not in memory, parameters that were removed, numbers computed with types and in floating point.
Where gdb has no value, ttq may have one (as it last was, as it was passed), or says why it has none.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
HEADERS = "/usr/include/csmith"
COMPILERS = [["gcc", "-O2"], ["gcc", "-O1"], ["clang-14", "-O2"], ["gcc", "-O3", "-march=x86-64-v3"], ["gcc", "-Os"],
             ["gcc", "-O2", "-gdwarf-4"], ["clang-14", "-O1"], ["gcc", "-Og"], ["gcc", "-O2", "-flto"]]
SEEDS = (241, 250, 306, 342)
MOST_VARIABLES = 600
LOST = ("whose value in this frame is not known", "which is not recorded")


def make(place, seed):
    """The program; nothing where the compiler is missing, or it runs for long."""
    compiler = COMPILERS[seed % len(COMPILERS)]
    if shutil.which(compiler[0]) is None:
        return None
    with open(place + "/a.c", "w", encoding="ascii") as source:
        subprocess.run(["csmith", "--seed", str(seed), "--max-funcs", "8", "--inline-function", "--max-block-depth", "3",
                        *(["--float"] if seed % 3 == 0 else [])], cwd=place, stdout=source, check=True)
    subprocess.run([*compiler, "-g", "-w", "-I" + HEADERS, place + "/a.c", "-o", place + "/a", "-lm"], check=True)
    try:
        subprocess.run([place + "/a"], stdout=subprocess.DEVNULL, timeout=2, check=False)
    except subprocess.TimeoutExpired:
        return None
    return place + "/a"


def times_of(trace, choose):
    main = trace.query("calls to main")[0]
    begin, end = main["time"], main["return_time"]
    times = {choose.randrange(begin, end) for _ in range(8)}
    try:
        calls = list(trace.query("calls to /^func_/ | first 400 | select time, return_time"))
    except Exception as error:  # all are inlined
        if "no module has a function" not in str(error):
            raise
        calls = []
    for call in choose.sample(calls, min(len(calls), 12)):
        times.add(choose.randrange(call["time"], call["return_time"] or end))
    return sorted(times)


def in_gdb(ttq, recording, times, place):
    out = place + "/seen"
    ran = subprocess.run([ttq, "gdb", recording, "--", "-nx", "-batch", "-ex", "source " + HERE + "/random_in_gdb.py"],
                         env=dict(os.environ, OUT=out, TIMES=" ".join(map(str, times))), stdin=subprocess.DEVNULL,
                         capture_output=True, text=True, timeout=600, check=False)
    with open(out, encoding="utf-8") as lines:
        seen = [json.loads(line) for line in lines]
    if {frame["time"] for frame in seen} != set(times):
        sys.exit("gdb stopped early: " + ran.stdout + ran.stderr)
    return seen


def name(function):
    """The C library's own names for what it also exports are one; a jump to what is chosen at run time has none."""
    if not function or function.startswith("*ABS*"):
        return ""
    return function.removeprefix("__GI_").strip("_").split("@")[0]


def same(ours, gdbs):
    if isinstance(gdbs, str):  # an address
        return ours == gdbs
    if isinstance(gdbs, list):
        # Characters are a text in ttq; expressions.gdb compares those.
        texts = all(isinstance(n, int) for n in gdbs) and isinstance(ours, str)
        return texts or len(ours) == len(gdbs) and all(map(same, ours, gdbs))
    if isinstance(gdbs, dict):
        return list(ours) == list(gdbs) and all(map(same, ours.values(), gdbs.values()))
    if isinstance(gdbs, float):  # ttq's has the digits that tell a float from others
        return abs(ours - gdbs) <= 1e-7 * abs(gdbs)
    # From 2^63 on ttq's are hexadecimal.
    return ours == (hex(gdbs) if gdbs >= 1 << 63 else gdbs)


def compare(trace, seen, choose):
    """How many variables were compared, and what differs."""
    wrong, variables = [], []
    for time in sorted({frame["time"] for frame in seen}):
        gdbs = [frame for frame in seen if frame["time"] == time]
        ours = [row for row in trace.query(f"backtrace at {time}") if row["kind"] != "tail"]
        # Line 0 is nobody's code; gdb takes the line before.
        if len(ours) < len(gdbs) or any(name(a["function"]) != name(b["function"]) or a["line"] not in (b["line"], None)
                                        for a, b in zip(ours, gdbs)):
            # A function whose code begins with that of another, which is inlined there, has not called it yet.
            innermost = ours[0]["function"]
            if innermost and len(trace.query(f"calls to `{innermost}` between {time} and {time + 1}")) > 0:
                continue
            wrong.append(f"stack at {time}: {[(f['function'], f['line']) for f in ours]}, "
                         f"gdb: {[(f['function'], f['line']) for f in gdbs]}")
            continue
        for a, b in zip(ours, gdbs):
            outer = b["pc"] != gdbs[0]["pc"]
            variables += [(time, a["frame"], outer, variable, value) for variable, value in b["variables"].items()
                          if value is not None]
    choose.shuffle(variables)
    compared = 0
    for time, frame, outer, variable, value in variables[:MOST_VARIABLES]:
        answer = trace.query(f"print `{variable}` at {time} in frame {frame}")
        row = answer[0]
        # In callers gdb takes the registers that a callee may change for the caller's.
        if outer and (row["known_at"] is not None or any(reason in (answer.note or "") for reason in LOST)):
            continue
        compared += 1
        if row["data"] is None or row["known_at"] is not None or not same(row["data"], value):
            wrong.append(f"{variable} at {time} in frame {frame}: {row['value']} {answer.note}, gdb: {value}")
    return compared, wrong


def main():
    ttq, packages = (os.path.abspath(p) for p in sys.argv[1:3])
    seeds = [int(seed) for seed in sys.argv[3:]] or SEEDS
    if shutil.which("csmith") is None or not os.path.exists(HEADERS):
        print("skipped: csmith is not installed")
        return 0
    sys.path.insert(0, packages)
    import ttq as package  # noqa: E402
    failures = 0
    for seed in seeds:
        with tempfile.TemporaryDirectory(prefix="ttq-random-") as place:
            choose = random.Random(seed)
            program = make(place, seed)
            if program is None:
                print(f"seed {seed}: skipped")
                continue
            recording = place + "/a.ttq"
            subprocess.run([ttq, "record", "-q", "-o", recording, "--", program], stdout=subprocess.DEVNULL, check=False)
            with package.open(recording) as trace:
                seen = in_gdb(ttq, recording, times_of(trace, choose), place)
                compared, wrong = compare(trace, seen, choose)
        print(f"seed {seed}, {' '.join(COMPILERS[seed % len(COMPILERS)])}: {len(seen)} frames, {compared} variables, "
              f"{len(wrong)} differ")
        for line in wrong[:20]:
            print("  FAILED", line[:600])
        failures += len(wrong)
    return 1 if failures else 0


sys.exit(main())

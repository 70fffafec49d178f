# SPDX-License-Identifier: MIT
"""Compares the stacks of recorded programs, frame for frame, with what gdb shows of the same program
stopped at the same place: function, file and line of every frame.

    stacks_test.py TTQ PROGRAMS [NAME...]     PROGRAMS: where programs/ was built
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

TTQ, PROGRAMS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
HERE = os.path.dirname(os.path.abspath(__file__))
ENVIRONMENT = dict(os.environ, LC_ALL="C", PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1")

# name: command, functions to stop at (at their first instruction), how often at most.
CASES = {
    "throws": (["throws"], ["Guard::~Guard", "Note", "Descend", "__cxa_throw",
                            "_Unwind_RaiseException"], 40),
    "signals": (["signals"], ["inside", "siglongjmp", "raise"], 20),
    "coroutines": (["coroutines"], ["step", "swapcontext"], 60),
    "tails": (["tails"], ["probe"], 40),
    "calls": (["calls"], ["mark", "factorial", "longjmp", "puts", "even"], 60),
    "stripped": (["calls.stripped"], ["write", "qsort", "longjmp"], 10),
    "python": (["/usr/bin/python3", "-S", "-E", os.path.join(HERE, "programs/nested.py")],
               ["builtin_id"], 30),
}


def gdb_frames(command, functions, most, scratch):
    out = os.path.join(scratch, "gdb")
    # `*f` is the address of f's first instruction.
    environment = dict(ENVIRONMENT, OUT=out, MOST=str(most),
                       BREAK="\n".join("*'" + f + "'" if ":" in f else "*" + f for f in functions))
    p = subprocess.run(["gdb", "-nx", "-batch", "-x", os.path.join(HERE, "frames_in_gdb.py"),
                        "--args", *command], env=environment, capture_output=True, text=True,
                       timeout=300)
    stops = {}
    for line in open(out) if os.path.exists(out) else []:
        place, frames = json.loads(line)
        stops.setdefault(place.lstrip("*").strip("'"), []).append(frames)
    if not stops:
        raise SystemExit("gdb gave nothing: " + p.stdout + p.stderr)
    return stops


def our_frames(recording, function, most):
    query = f'calls to {function} where kind == "call" | first {most} | backtrace'
    p = subprocess.run([TTQ, "query", "-t", recording, "-f", "json", "--limit", "0", query],
                       capture_output=True, text=True, timeout=300)
    if p.returncode != 0:
        raise SystemExit(f"{query}: {p.stderr}")
    answer = json.loads(p.stdout)
    stops = [[[f["function"], f["file"] and os.path.basename(f["file"]), f["line"] or 0]
              + (["tail"] if f["kind"] == "tail" else []) for f in row["backtrace"]]
             for row in answer["rows"]]
    depths = [row["depth"] for row in answer["rows"]]
    assert depths == [len(s) - 1 for s in stops], (function, depths, [len(s) - 1 for s in stops])
    callers = [row["caller"] for row in answer["rows"]]
    wrong = [(c, s[1]) for c, s in zip(callers, stops) if len(s) > 1 and c != s[1][0]
             and not s[1][0].startswith("<")]
    assert not wrong, (function, wrong[:3])
    return stops


def jumps(stack):
    return [frame for frame in stack if frame[-1] == "tail"]


def without_jumps(stack):
    return [frame for frame in stack if frame[-1] != "tail"]


def all_there(ours, theirs):
    """gdb only shows functions that jumped on where one way alone leads from call to callee."""
    mine = iter(ours)
    return all(any(same(frame, wanted) for frame in mine) for wanted in theirs)


def trails():
    """The functions that jumped on, as the program itself tells them."""
    names = {"f": "first", "m": "middle", "l": "last", "p": "pointed", "i": "ping", "o": "pong",
             "s": "sort"}
    with tempfile.TemporaryDirectory() as scratch:
        recording = os.path.join(scratch, "recording")
        run = subprocess.run([TTQ, "record", "-q", "-o", recording, os.path.join(PROGRAMS, "tails")],
                             capture_output=True, text=True, timeout=300, check=False)
        told = run.stdout.split()
        stacks = our_frames(recording, "probe", len(told) + 1)
        if len(stacks) != len(told):
            raise SystemExit(f"tails: {len(stacks)} calls of probe, {len(told)} told")
        for trail, stack in zip(told, stacks):
            # What ran more than once is there once.
            wanted = list(dict.fromkeys(names[letter] for letter in trail))
            if trail == "s":
                # The C library's own functions stand between, and may jump too.
                ok = stack[1][0] == "order" and [f[0] for f in jumps(stack)
                                                 if f[0] in names.values()] == ["sort"]
            else:
                found = [f[0] for f in stack[1:-1]][::-1]
                ok = found[-1] == "last" and [f[0] for f in jumps(stack)] == found[:-1][::-1]
                # Of two that jump to each other one way is told, the shortest.
                taken_turns = {"ping", "pong"} <= set(wanted) and found == [wanted[0], "last"]
                ok = ok and (found == wanted or taken_turns)
            if not ok or stack[-1][0] != "main":
                raise SystemExit(f"tails: the program says {trail}, the stack is {stack}")
    print(f"tails: {len(told)} stacks as the program tells them")


def plain(name):
    """gdb names C++ functions with their parameters."""
    if name is None or name.startswith("<"):
        return name
    name = name.split("(")[0].split("@")[0]
    # The C library's own names for what it also exports.
    return name[5:] if name.startswith("__GI_") else name


def same(ours, theirs):
    # Of a stripped program gdb knows neither.
    if theirs[0] is None and ours[0] in ("main", "_start"):
        return ours[1:3] == theirs[1:3]
    if plain(ours[0]) != plain(theirs[0]):
        # Two names of one address, where there is no DWARF.
        if ours[1] or theirs[1] or ours[0] is None or theirs[0] is None:
            return False
        if plain(ours[0]).strip("_") != plain(theirs[0]).strip("_"):
            return False
    return ours[1:3] == theirs[1:3]


def check(name):
    command, functions, most = CASES[name]
    if os.path.isabs(command[0]) and not os.path.exists(command[0]):
        print("skipped:", name)
        return 0
    if not os.path.isabs(command[0]):
        command = [os.path.join(PROGRAMS, command[0]), *command[1:]]
    compared = 0
    with tempfile.TemporaryDirectory() as scratch:
        recording = os.path.join(scratch, "recording")
        subprocess.run([TTQ, "record", "-q", "-o", recording, "--", *command], env=ENVIRONMENT,
                       stdout=subprocess.DEVNULL, timeout=300, check=False)
        expected = gdb_frames(command, functions, most, scratch)
        for function in functions:
            theirs = expected.get(function, [])
            ours = our_frames(recording, function, most)
            # Before main the loader and the recorder's start-up differ: only what main calls counts.
            def inside(stops):
                return [s for s in stops if any(f[0] in ("main", "Py_BytesMain", "step", "body",
                                                         "order", None) for f in s)]
            if name != "stripped":
                ours, theirs = inside(ours), inside(theirs)
            if len(ours) != len(theirs) or not ours:
                raise SystemExit(f"{name}: {function}: {len(ours)} stops, gdb has {len(theirs)}")
            if not any(frame[0] == "_start" for stack in ours for frame in stack) and name == "stripped":
                raise SystemExit("stripped: no frame is named _start")
            for number, (mine, gdbs) in enumerate(zip(ours, theirs)):
                # Beyond the first frame of a stack made by makecontext gdb reads what is not there.
                while (len(without_jumps(gdbs)) > len(without_jumps(mine))
                       and gdbs[-1] == [None, None, 0]):
                    gdbs.pop()
                on_stack = without_jumps(mine), without_jumps(gdbs)
                if len(on_stack[0]) == len(on_stack[1]) and all(map(same, *on_stack)) and (
                        all_there(mine, gdbs)):
                    compared += 1
                    continue
                lines = [f"{name}: stack {number} at {function} differs"]
                for i in range(max(len(mine), len(gdbs))):
                    a = mine[i] if i < len(mine) else None
                    b = gdbs[i] if i < len(gdbs) else None
                    mark = " " if a and b and same(a, b) else "*"
                    lines.append(f"  {mark} {a!s:70} {b}")
                raise SystemExit("\n".join(lines))
    print(f"{name}: {compared} stacks equal")
    return compared


def main():
    if shutil.which("gdb") is None:
        print("skipped: gdb is not installed")
        return
    for name in sys.argv[3:] or [*CASES, "trails"]:
        trails() if name == "trails" else check(name)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# The lines of Python that a recording tells as executed equal, event for event, what sys.settrace
# says in a second run of the same script.
# Usage: lines_test.py TTQ [INTERPRETER...]

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import asking  # noqa: E402
from interpreters import interpreters  # noqa: E402

HERE = pathlib.Path(__file__).parent
SCRIPT = str(HERE / "lines.py")


def difference(want, got):
    for n, (w, g) in enumerate(zip(want, got)):
        if w != g:
            return f"event {n}: want {want[max(0, n - 3):n + 3]}, got {got[max(0, n - 3):n + 3]}"
    if len(want) != len(got):
        return f"{len(want)} events, but {len(got)} were found"
    return None


def check(ttq, interpreter):
    run = subprocess.run([interpreter, "-S", SCRIPT, "lines"], check=True, capture_output=True, text=True)
    want = [(name, int(line)) for name, line in map(str.split, run.stdout.splitlines())]
    with tempfile.TemporaryDirectory() as directory:
        recording = f"{directory}/lines.ttq"
        subprocess.run([ttq, "record", "-o", recording, "--", interpreter, "-S", SCRIPT], check=True,
                       capture_output=True)
        def ask(*questions):
            return asking.rows(ttq, recording, questions)

        (called,), = ask("py calls to lines!run")
        between = f"between {called['time']} and {called['return_time']}"
        rows, = ask(f"py executions of lines!/./ {between}")
        wrong = difference(want, [(r["function"].split(".")[-1], r["line"]) for r in rows])
        if wrong:
            return wrong
        if [r["time"] for r in rows] != sorted(r["time"] for r in rows):
            return "not in order of time"
        # One line, by either name, is those of all that are on it.
        lines = sorted({r["line"] for r in rows})[::20]
        for source in ("py executions of", "executions of"):
            for line, found in zip(lines, ask(*[f"{source} lines.py:{line} {between}" for line in lines])):
                expected, got = [r["time"] for r in rows if r["line"] == line], [r["time"] for r in found]
                if got != expected:
                    return f"{source} line {line}: want {expected}, got {got}"
            run = subprocess.run([ttq, "-t", recording, "-f", "json", f"{source} lines.py:{10**6} {between}"],
                                 capture_output=True, text=True)
            if run.returncode != 2 or "no function of lines.py that ran has code on line" not in run.stderr:
                return f"line {10**6}: {run.stdout}{run.stderr}"
        # One activation has those of its frame, and folded they are as many.
        own = [r for r in rows if r["frame_address"] == rows[0]["frame_address"]
               and r["function"] == rows[0]["function"]]
        trace, folded = ask("py trace of (py calls to lines!run) unfolded", "py trace of lines!run")
        if [(r["time"], r["line"]) for r in trace] != [(r["time"], r["line"]) for r in own]:
            return f"py trace of run: want {[r['line'] for r in own]}, got {[r['line'] for r in trace]}"
        if sum(r["times"] for r in folded) != len(own):
            return f"py trace of run has {sum(r['times'] for r in folded)} lines of {len(own)}"
        # A call is shown with each of its arguments once.
        for row in folded:
            for call in row["calls"] or []:
                names = [a["name"] for a in call["args"] or []]
                if len(names) != len(set(names)):
                    return f"py trace of run: {call['function']} has the arguments {names}"
        # A span that begins in the middle of a function.
        middle = rows[len(rows) // 2]["time"] + 1
        got, = ask(f"py executions of lines!/./ between {middle} and {called['return_time']}")
        if got != [r for r in rows if r["time"] >= middle]:
            return "a span that begins within a function has other lines"
        # Where a line begins, Python's stack says that line.
        some = rows[::100]
        for row, stack in zip(some, ask(*[f"py backtrace at {row['time'] + 1}" for row in some])):
            if (stack[0]["function"], stack[0]["line"]) != (row["function"], row["line"]):
                return f"at {row['time'] + 1}: {stack[0]} is not {row}"
    print(f"{interpreter}: {len(rows)} line events are equal")
    return None


def main():
    failed = tried = 0
    for _, interpreter in interpreters(sys.argv[2:]):
        tried += 1
        wrong = check(sys.argv[1], interpreter)
        if wrong:
            failed += 1
            print(f"{interpreter}: WRONG: {wrong}")
    if tried == 0:
        print("skipped: no interpreter was found")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

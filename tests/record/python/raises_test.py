#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# The exceptions that a recording tells equal what sys.settrace says in a second run of the same
# script: where each was raised, its text, which frames it went through, which clause caught it.
# Usage: raises_test.py TTQ [INTERPRETER...]

import ast
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import asking  # noqa: E402
from interpreters import interpreters  # noqa: E402

SCRIPT = pathlib.Path(__file__).parent / "raises.py"
CLAUSES = {node.lineno for node in ast.walk(ast.parse(SCRIPT.read_text())) if isinstance(node, ast.ExceptHandler)}


def ask(ttq, recording, *questions):
    return asking.rows(ttq, recording, questions)


def ask_alone(ttq, recording, question):
    """Of the part of the history that is there, where that is enough: a batch has all of it made."""
    answer = subprocess.run([ttq, "query", "-t", recording, "-f", "json", question], check=True, capture_output=True,
                            timeout=120)
    return json.loads(answer.stdout)["rows"]


def name_of(function):
    return function.split(".")[-1]


def clause_of(want):
    """The line of the clause that caught it, as far as the lines that ran next say so."""
    if want["file"] != str(SCRIPT):
        return None
    lines = []
    for line in want["lines"]:
        if line not in CLAUSES:
            break
        lines.append(line)
    return lines[-1] if lines and len(lines) < len(want["lines"]) else None


def difference(want, got):
    for n, (w, g) in enumerate(zip(want, got)):
        row = {"type": name_of(g["type"]), "message": g["message"], "at": [name_of(g["function"]), g["line"]],
               "file": g["file"], "traceback": [[name_of(e["function"]), e["line"]] for e in g["traceback"]]}
        expected = {k: w[k] for k in row}
        if w["file"].startswith("<frozen importlib"):  # a thread's number
            expected["message"] = row["message"]
        if row != expected:
            return f"raise {n}:\n  want {expected}\n  got  {row}"
        clause = clause_of(w)
        if clause is None:
            continue
        caught = g["caught_at"] and [name_of(g["caught_at"]["function"]), g["caught_at"]["line"]]
        if caught != [w["frame"], clause] or g["caught_by"] != "python":
            return f"raise {n} {expected}:\n  want caught at {w['frame'], clause}, got {caught} by {g['caught_by']}"
    if len(want) != len(got):
        return f"{len(want)} raises, but {len(got)} were found: next {(want + got)[min(len(want), len(got))]}"
    return None


def interpreter_has_groups(rows):
    return any(r["file"] == "groups.py" for r in rows)


def check(ttq, interpreter):
    run = subprocess.run([interpreter, "-S", str(SCRIPT), "trace"], check=True, capture_output=True, text=True)
    want = json.loads(run.stdout)
    with tempfile.TemporaryDirectory() as directory:
        recording = f"{directory}/raises.ttq"
        # Small blocks: what is found must go on from one to the next.
        subprocess.run([ttq, "record", "--block-size", "1", "-o", recording, "--", interpreter, "-S", str(SCRIPT)],
                       check=True, capture_output=True)
        (called,), = ask(ttq, recording, "py calls to raises!run")
        between = f"between {called['time']} and {called['return_time']}"
        rows, = ask(ttq, recording, f"py exceptions {between}")
        wrong = difference(want, rows)
        if wrong:
            return wrong
        if [r["time"] for r in rows] != sorted(r["time"] for r in rows):
            return "not in order of time"
        # Where it was raised, Python's stack says so.
        some = rows[::10]
        # A span that begins among them.
        middle = rows[len(rows) // 2]["time"]
        later, in_thread, *stacks = ask(
            ttq, recording, f"py exceptions between {middle} and {called['return_time']}", "py exceptions in thread 2",
            *[f"py backtrace at {row['time'] + 1}" for row in some])
        for row, stack in zip(some, stacks):
            if (stack[0]["function"], stack[0]["line"]) != (row["function"], row["line"]):
                return f"at {row['time'] + 1}: {stack[0]} is not {row}"
        if [r["time"] for r in later] != [r["time"] for r in rows if r["time"] >= middle]:
            return "a span that begins among them has others"
        # The same of a part of the history that begins among them.
        subprocess.run([ttq, "index", "--drop", recording], check=True)
        subprocess.run([ttq, "index", "--from", str(middle), recording], check=True, capture_output=True)
        part = ask_alone(ttq, recording, f"py exceptions after {middle - 1}")
        if part[:len(later)] != later:
            return f"a part of the history has {len(part)}, not {len(later)}"
        chains = {r["message"]: [(c["relation"], c["type"], c["message"], c["raised"] and c["raised"]["line"])
                                 for c in r["chain"] or []] for r in rows if r["function"].endswith("chains")}
        line = next(r["line"] for r in rows if r["message"] == "'missing'")
        key_error = ("KeyError", "'missing'", line)
        own = ("context", "Own", "from", line + 2)
        if chains != {"'missing'": [], "from": [("cause", *key_error)],
                      "while handling": [own, ("cause", *key_error)], "alone": [("suppressed context", *own[1:])]}:
            return f"chains: {chains}"
        groups = [r["exceptions"] for r in rows if r["message"] == "several (3 sub-exceptions)"]
        if interpreter_has_groups(rows) and [[(e["type"], e["message"], len(e.get("exceptions", []))) for e in g]
                                             for g in groups] != [[
                ("KeyError", "'k'", 0), ("ValueError", "v", 0), ("ExceptionGroup", "more (1 sub-exception)", 1)]]:
            return f"groups: {groups}"
        row, = in_thread
        if (row["message"], row["caught_by"]) != ("in a thread", "python"):
            return f"in the second thread: {row}"
    print(f"{interpreter}: {len(rows)} exceptions are equal")
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

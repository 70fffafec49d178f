#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# Who is out of balance: an extension of which every function counts one reference too many or too few,
# beside its twin that counts right, and scripts in which Python itself keeps an object. What is right
# is known by construction (balance/faults.inc says which function and line, balance/leaks.py which name).
# Usage: balance_test.py TTQ [INTERPRETER...]

import concurrent.futures
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
from interpreters import interpreters  # noqa: E402

HERE = pathlib.Path(__file__).parent / "balance"
problems = []


class Recording:
    def __init__(self, ttq, interpreter, path, script, *arguments):
        self.ttq, self.interpreter, self.path = ttq, interpreter, path
        subprocess.run([ttq, "record", "-o", path, "--", interpreter, HERE / script, *arguments], check=True,
                       capture_output=True)

    def ask(self, query):
        run = subprocess.run([self.ttq, "query", "-t", self.path, "-f", "json", query], capture_output=True, text=True)
        if run.returncode != 0:
            self.fail(query, run.stderr)
            return []
        return json.loads(run.stdout)["rows"]

    def said(self):
        for row in self.ask("events output"):
            yield row["time"], bytes.fromhex(row["bytes"]).decode().rstrip("\n").split(" ", 2)

    def fail(self, what, got):
        problems.append(f"{self.interpreter}: {what}: {got}")


def places():
    """The lines at which a function of faults.inc goes wrong, by its name."""
    lines = {}
    for number, text in enumerate((HERE / "faults.inc").read_text().splitlines(), 1):
        if match := re.search(r"// at: (\w+)$", text):
            lines.setdefault(match[1], []).append(number)
    lines["boxed"] = lines["box_dealloc"]
    return lines


def brief(rows):
    return [{k: row[k] for k in ("verdict", "function", "line", "held_in")} for row in rows if row["verdict"] != "balanced"]


def check_extension(recording, time, name, address):
    base, right = name.removesuffix("_right"), name.endswith("_right")
    where = places()[base]
    # An object that is right where it is, or gone when it should be, is asked about the other way.
    too_few = min(where) > places()["boxed"][0]
    question = "freed too early" if too_few != right else "still alive"
    rows = recording.ask(f"why is {address} {question} at {time}")
    verdicts = [row["verdict"] for row in rows]
    if verdicts != sorted(verdicts, key=["unbalanced", "holder", "balanced"].index):
        recording.fail(f"order of {name}", verdicts)
    if right:
        if not rows or "unbalanced" in verdicts:
            recording.fail(f"{name} {question}", brief(rows))
        if base in ("borrowed_kept", "state_borrowed"):
            held = rows[0]["held_in"] or ""
            if not held.startswith("C global `kept_right` in balance" if base == "borrowed_kept"
                                   else "state of module balance"):
                recording.fail(f"who holds that of {name}", brief(rows))
        return
    # A result is returned by what ends the function, and a type's function has no line of its own.
    function, exact = ("box_dealloc", False) if base == "boxed" else (base, base != "borrowed_returned")
    if verdicts.count("unbalanced") != 1 or rows[0]["function"] != function or (exact and rows[0]["line"] not in where):
        recording.fail(f"{name} {question}", brief(rows))


def check_correct(recording, time, name, address):
    question = "still alive" if name.endswith("-kept") else "freed too early"
    rows = recording.ask(f"why is {address} {question} at {time}")
    want = "holder" if name.endswith("-kept") else "balanced"
    if not rows or rows[0]["verdict"] != want:
        recording.fail(f"{name} {question}", brief(rows) or rows)


def check_leak(recording, time, name, address, words):
    rows = recording.ask(f"why is {address} still alive at {time}")
    held = rows[0]["held_in"] if rows and rows[0]["verdict"] == "holder" else None
    for word in words.split("|"):
        if held is None or word not in held:
            recording.fail(f"leak by {name}", brief(rows) or rows)
            return


def build(interpreter, directory):
    """The extension for that interpreter; False where its headers are not installed."""
    ask = "import sysconfig as s; print(s.get_path('include')); print(s.get_config_var('EXT_SUFFIX'))"
    include, suffix = subprocess.run([interpreter, "-c", ask], check=True, capture_output=True,
                                     text=True).stdout.split()
    if not pathlib.Path(include, "Python.h").exists():
        return False
    subprocess.run(["cc", "-shared", "-fPIC", "-g", "-O2", f"-I{include}", HERE / "balance.c", "-o",
                    f"{directory}/balance{suffix}"], check=True)
    return True


def main():
    ttq = sys.argv[1]
    if shutil.which("cc") is None:
        print("skipped: there is no C compiler")
        return
    found = [path for _, path in interpreters(sys.argv[2:])]
    for interpreter in found:
        # The functions that count right are the longest part: with the oldest and the newest.
        thorough = interpreter in (found[0], found[-1])
        with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(2) as pool:
            cases = []
            if build(interpreter, directory):
                recording = Recording(ttq, interpreter, f"{directory}/extension.ttq", "extension.py", directory)
                said = list(recording.said())
                cases += [pool.submit(check_extension, recording, time, *words) for time, words in said
                          if thorough or not words[0].endswith("_right")]
                if len(said) != 48:
                    recording.fail("functions called", len(said))
            else:
                print(f"skipped: {interpreter} has no headers")
            recording = Recording(ttq, interpreter, f"{directory}/leaks.ttq", "leaks.py")
            leaks = [pool.submit(check_leak, recording, time, *words) for time, words in recording.said()]
            if len(leaks) != 13:
                recording.fail("leaks", len(leaks))
            correct = []
            if thorough:
                recording = Recording(ttq, interpreter, f"{directory}/correct.ttq", "correct.py")
                correct = [pool.submit(check_correct, recording, time, *words) for time, words in recording.said()]
                if len(correct) != 26:
                    recording.fail("correct", len(correct))
            for case in cases + leaks + correct:
                case.result()
    if not found:
        print("skipped: no interpreter was found")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()

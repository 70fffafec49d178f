#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# Who is out of balance: an extension of which every function counts one reference too many or too few,
# beside its twin that counts right, and scripts in which Python itself keeps an object. What is right
# is known by construction (balance/faults.inc says which function and line, balance/leaks.py which name).
# Usage: balance_test.py TTQ [INTERPRETER...]

import concurrent.futures
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import asking  # noqa: E402
from interpreters import interpreters  # noqa: E402

HERE = pathlib.Path(__file__).parent / "balance"
problems = []


class Recording:
    def __init__(self, ttq, interpreter, path, script, *arguments):
        self.ttq, self.interpreter, self.path = ttq, interpreter, path
        run = subprocess.run([ttq, "record", "-o", path, "--", interpreter, "-S", HERE / script, *arguments],
                             check=False, capture_output=True)
        if run.returncode not in (0, 128 + signal.SIGABRT):
            self.fail(script, run)

    def said(self):
        for row in asking.rows(self.ttq, self.path, ["events output"])[0]:
            yield row["time"], bytes.fromhex(row["bytes"]).decode().rstrip("\n").split(" ", 2)

    def check(self, question, check, said):
        """Asks of each that the program named, and checks the answers."""
        questions = [f"why is {words[1]} {question(words[0])} at {time}" for time, words in said]
        for (_, words), rows in zip(said, asking.rows(self.ttq, self.path, questions)):
            check(self, rows, *words)

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


def of_extension(name):
    # An object that is right where it is, or gone when it should be, is asked about the other way.
    too_few = min(places()[name.removesuffix("_right")]) > places()["boxed"][0]
    return "freed too early" if too_few != name.endswith("_right") else "still alive"


def check_extension(recording, rows, name, address):
    base, right = name.removesuffix("_right"), name.endswith("_right")
    where, question = places()[base], of_extension(name)
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


def of_correct(name):
    return "still alive" if name.endswith("-kept") else "freed too early"


def check_correct(recording, rows, name, address):
    want = "holder" if name.endswith("-kept") else "balanced"
    if not rows or rows[0]["verdict"] != want:
        recording.fail(f"{name} {of_correct(name)}", brief(rows) or rows)


def of_leak(name):
    return "still alive"


def check_leak(recording, rows, name, address, words):
    held = rows[0]["held_in"] if rows and rows[0]["verdict"] == "holder" else None
    for word in words.split("|"):
        if held is None or word not in held:
            recording.fail(f"leak by {name}", brief(rows) or rows)
            return


def build(interpreter, directory, name="balance"):
    """An extension for that interpreter; False where its headers are not installed."""
    ask = "import sysconfig as s; print(s.get_path('include')); print(s.get_config_var('EXT_SUFFIX'))"
    include, suffix = subprocess.run([interpreter, "-c", ask], check=True, capture_output=True,
                                     text=True).stdout.split()
    if not pathlib.Path(include, "Python.h").exists():
        return False
    subprocess.run(["cc", "-shared", "-fPIC", "-g", "-O2", f"-I{include}", HERE / f"{name}.c", "-o",
                    f"{directory}/{name}{suffix}"], check=True)
    return True


def main():
    ttq = sys.argv[1]
    if shutil.which("cc") is None:
        print("skipped: there is no C compiler")
        return
    found = [path for _, path in interpreters(sys.argv[2:])]
    def of_extensions(interpreter, thorough, directory):
        if not build(interpreter, directory):
            print(f"skipped: {interpreter} has no headers")
            return
        recording = Recording(ttq, interpreter, f"{directory}/extension.ttq", "extension.py", directory)
        said = list(recording.said())
        if len(said) != 48:
            recording.fail("functions called", len(said))
        recording.check(of_extension, check_extension,
                        [s for s in said if thorough or not s[1][0].endswith("_right")])

    def of_script(interpreter, directory, script, question, check, count):
        recording = Recording(ttq, interpreter, f"{directory}/{script}.ttq", script)
        said = list(recording.said())
        if len(said) != count:
            recording.fail(script, len(said))
        recording.check(question, check, said)

    def of_none(interpreter, directory):
        if not build(interpreter, directory, "nothing"):
            return
        recording = Recording(ttq, interpreter, f"{directory}/nothing.ttq", "nothing.py", directory)
        _, (address,) = next(recording.said())
        rows = asking.rows(ttq, recording.path, [f"why was {address} freed too early"])[0]
        text = (HERE / "nothing.c").read_text().splitlines()
        line = next(number for number, line in enumerate(text, 1) if "// at: wrong" in line)
        if [(row["function"], row["line"]) for row in rows if row["verdict"] == "unbalanced"] != [("wrong", line)]:
            recording.fail("who gave back None", brief(rows) or rows)

    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(2) as pool:
        cases = []
        for number, interpreter in enumerate(found):
            # The functions that count right are the longest part: with the oldest and the newest.
            thorough = interpreter in (found[0], found[-1])
            directory = f"{scratch}/{number}"
            pathlib.Path(directory).mkdir()
            cases.append(pool.submit(of_extensions, interpreter, thorough, directory))
            cases.append(pool.submit(of_script, interpreter, directory, "leaks.py", of_leak, check_leak, 14))
            if thorough:
                cases.append(pool.submit(of_script, interpreter, directory, "correct.py", of_correct, check_correct, 26))
        mortal = [path for version, path in interpreters(sys.argv[2:]) if version < (3, 12)]  # None can die
        if mortal:
            directory = f"{scratch}/nothing"
            pathlib.Path(directory).mkdir()
            cases.append(pool.submit(of_none, mortal[-1], directory))
        for case in cases:
            case.result()
    if not found:
        print("skipped: no interpreter was found")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()

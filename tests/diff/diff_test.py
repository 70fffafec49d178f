# SPDX-License-Identifier: MIT
"""`ttq diff` against programs with exactly one difference in a known place.

    diff_test.py TTQ [CASE…]

cases.c and cases.py hold many small programs; each case runs in a process of its own of one recording.
The second recording differs in each case in one constant, one byte of input or one environment variable.
The line that the comparison names must be the one marked HERE(case): in all of them.
"""

import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TTQ = os.path.abspath(sys.argv.pop(1))
ONLY = [int(a) for a in sys.argv[1:] if a.isdigit()]
sys.argv = sys.argv[:1] + [a for a in sys.argv[1:] if not a.isdigit()]
ENVIRONMENT = [
    {"CASE32": "slow", "CASE33": "3", "CASE34": "alpha", "CASE35": "xxxx", "CASE36": "abcc", "SAME": "1",
     "PYCASE6": "12"},
    {"CASE32": "fast", "CASE33": "5", "CASE34": "bravo", "CASE35": "xxxxxxx", "CASE36": "abcd", "SAME": "1",
     "PYCASE6": "21"},
]
# Cases of cases.c in which nothing differs but where things lie in memory.
ALIKE = (37, 38)
# Cases of cases.py that are recorded in a process of their own. What differs in one of them is read
# before any child could be forked; starting Python is what takes long, so most share it.
ALONE = (0, 4)
BEFORE_THE_FORK = 4
# The input's and the environment's: the optimizer folds the constants of the others into other lines.
OPTIMIZED = range(25, 37)


def run(*command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def record(name, side, *command):
    path = os.path.join(PLACE, name)
    p = run(TTQ, "record", "-o", path, "--", *command,
            env=dict(os.environ, TTQ_HOME=PLACE, PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1",
                     **ENVIRONMENT[side]))
    if not os.path.isdir(path):
        raise RuntimeError(p.stderr)
    return path


def diff(*arguments):
    p = run(TTQ, "diff", "-f", "json", *arguments, env=dict(os.environ, TTQ_HOME=PLACE))
    if p.returncode not in (0, 1) or p.stderr:
        raise RuntimeError("diff %s: %d %s" % (arguments, p.returncode, p.stderr))
    return json.loads(p.stdout)


def marks(path):
    """The line of each HERE(case)."""
    found = {}
    with open(path) as f:
        for number, line in enumerate(f, 1):
            m = re.search(r"HERE\((\d+)\)", line)
            if m:
                found[int(m.group(1))] = number
    return found


def in_parallel(function, items):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(function, items))


def place_found(answer, case):
    """Of the case itself: a helper that reads a byte for all of them is not what differs."""
    if answer["python"]:
        return answer["python"]["origin"]["place"]
    if not answer["native"]:
        return None
    stack = answer["native"]["origin"]["stack"]
    return next((f for f in stack if f["function"] == "case%d" % case), None)


class Diff(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        for side, flags in (("a", []), ("b", ["-DCHANGED"])):
            os.mkdir(os.path.join(PLACE, side))
            for level in ("-O0", "-O1"):
                subprocess.run(["cc", "-g", level, "-w", *flags, os.path.join(HERE, "cases.c"), "-o",
                                os.path.join(PLACE, side, "cases" + level)], check=True)
            with open(os.path.join(PLACE, side, "input"), "w") as f:
                f.write(("a" if side == "a" else "z") * 64)
            with open(os.path.join(HERE, "cases.py")) as f:
                script = f.read()
            if side == "b":
                script = re.sub(r"PICK\((.*?), (.*?)\)", r"PICK(\2, \1)", script)
            script = re.sub(r"PICK\((.*?), (.*?)\)", r"\1", script)
            with open(os.path.join(PLACE, side, "cases.py"), "w") as f:
                f.write(script)
        of = lambda side, name: os.path.join(PLACE, "ab"[side], name)
        jobs = [lambda s=s, l=l: record("c%d%s.ttq" % (s, l), s, of(s, "cases" + l), of(s, "input"))
                for l in ("-O0", "-O1") for s in (0, 1)]
        python = [c for c in sorted(marks(os.path.join(HERE, "cases.py"))) if not ONLY or c in ONLY]
        cls.python_alone = [c for c in python if c in ALONE]
        cls.python_forked = [c for c in python if c != BEFORE_THE_FORK]
        cls.python_recordings = {}
        for cases in [[c] for c in cls.python_alone] + [["fork", *cls.python_forked]]:
            name, words = "python-%s" % cases[0], [str(c) for c in cases]
            cls.python_recordings[cases[0]] = len(jobs)
            jobs += [lambda s=s, n=name, w=words: record("%s%d.ttq" % (n, s), s, "/usr/bin/python3", "-S",
                                                         of(s, "cases.py"), of(s, "input"), *w)
                     for s in (0, 1)]
        recordings = in_parallel(lambda job: job(), jobs)
        cls.recordings, cls.optimized = recordings[:2], recordings[2:4]
        cls.python_recordings = {c: recordings[i:i + 2] for c, i in cls.python_recordings.items()}

    def check(self, source, cases, arguments, expected):
        """The places found against `expected`."""
        answers = in_parallel(lambda case: diff(*arguments(case)), cases)
        wrong = {}
        for case, answer in zip(cases, answers):
            found = place_found(answer, case)
            if found is None or found["line"] != expected[case] or not found["file"].endswith(source):
                way = answer["native"] and answer["native"]["origin"]
                wrong[case] = (found and found["line"], expected[case], way, answer["passed_over"])
        print("%s: %d of %d found" % (source, len(cases) - len(wrong), len(cases)), file=sys.stderr)
        self.assertEqual(wrong, {})

    def test_c(self):
        lines = marks(os.path.join(HERE, "cases.c"))
        cases = [c for c in sorted(lines) if not ONLY or c in ONLY]
        self.check("cases.c", cases, lambda case: (*self.recordings, "-p", str(case + 2)), lines)

    def test_c_optimized(self):
        lines = marks(os.path.join(HERE, "cases.c"))
        cases = [c for c in sorted(lines) if c in OPTIMIZED and (not ONLY or c in ONLY)]
        self.check("cases.c", cases, lambda case: (*self.optimized, "-p", str(case + 2)), lines)

    def test_python(self):
        self.check("cases.py", self.python_alone, lambda case: self.python_recordings[case],
                   marks(os.path.join(HERE, "cases.py")))

    def test_python_in_forked_children(self):
        self.check("cases.py", self.python_forked,
                   lambda case: (*self.python_recordings["fork"], "-p",
                                 str(self.python_forked.index(case) + 2)),
                   marks(os.path.join(HERE, "cases.py")))

    def test_only_the_layout_differs(self):
        for case in ALIKE:
            answer = diff(*self.recordings[:2], "-p", str(case + 2))
            self.assertTrue(answer["same"], (case, answer["native"]))

    def test_the_decision_and_both_values(self):
        native = diff(*self.recordings[:2], "-p", "2")["native"]
        self.assertEqual(native["kind"], "control flow")
        self.assertEqual(native["decision"]["values"], ["10, rax = 10", "12, rax = 10"])
        self.assertEqual([f[0]["function"] for f in native["stacks"]], ["case0", "case0"])
        self.assertEqual([f[1]["function"] for f in native["stacks"]], ["main", "main"])
        self.assertEqual(native["origin"]["kind"], "code")

    def test_summary(self):
        summary = diff(*self.recordings[:2], "-p", "6")["summary"]  # fib(6) and fib(8)
        calls = {f["function"]: f["calls"] for f in summary["functions"]}
        self.assertEqual(calls["fib"], [25, 67])
        self.assertEqual(summary["outputs"][0]["text"], ["8\n", "21\n"])
        summary = diff(*self.recordings[:2], "-p", "7")["summary"]
        calls = {f["function"]: f["calls"] for f in summary["functions"]}
        self.assertEqual((calls["twice"], calls["thrice"]), ([1, 0], [0, 1]))
        summary = diff(*self.recordings[:2], "-p", "23")["summary"]
        self.assertEqual(summary["exit"], ["exit status 3", "exit status 4"])
        summary = diff(*self.recordings[:2], "-p", "24")["summary"]
        self.assertEqual(summary["exit"], ["exit status 0", "killed by SIGSEGV"])

    def test_ignore(self):
        native = diff(*self.recordings, "-p", "41")["native"]
        self.assertEqual(native["place"]["function"], "case39")
        answer = diff(*self.recordings, "-p", "41", "--ignore", "^noise$")
        self.assertTrue(answer["same"], answer["native"])
        self.assertEqual(answer["passed_over"]["ignored"], 1)

    def test_two_processes_of_one_recording(self):
        answer = diff(self.recordings[0], self.recordings[0], "-p", "2,3")
        self.assertEqual(answer["processes"], [2, 3])
        self.assertEqual(answer["native"]["place"]["function"], "main")  # calls another case

    def test_bad_input(self):
        a, b = self.recordings[:2]
        for arguments, status, text in (
                ((a,), 2, "ttq: B is required"),
                ((a, b, "--ignore", "("), 2, "ttq: --ignore: not a regular expression"),
                ((a, b, "-p", "x"), 2, "ttq: diff: -p takes a number"),
                ((a, b, "-p", "999"), 2, "999"),
                ((a, os.path.join(PLACE, "gone")), 3, "gone")):
            p = run(TTQ, "diff", *arguments, env=dict(os.environ, TTQ_HOME=PLACE))
            self.assertEqual((p.returncode, p.stdout), (status, ""))
            self.assertIn(text, p.stderr)
        self.assertEqual(run(TTQ, "diff", a, b, "-p", "2", "--exit-code").returncode, 1)
        self.assertEqual(run(TTQ, "diff", a, b, "-p", "39", "--exit-code").returncode, 0)

    def test_table(self):
        text = run(TTQ, "diff", *self.recordings[:2], "-p", "2").stdout
        self.assertIn("first difference, in control flow: case0 (cases.c:", text)
        self.assertIn("origin: the code of case0 (cases.c:", text)
        self.assertLess(len(text.splitlines()), 50)


if __name__ == "__main__":
    PLACE = tempfile.mkdtemp(prefix="ttq-diff-")
    try:
        unittest.main()
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)

# SPDX-License-Identifier: MIT
"""`ttq batch` over small recordings: verdicts, formats, exit statuses, resuming, bad input.

    batch_test.py TTQ RECORD_TEXT
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

TTQ, RECORD_TEXT = (os.path.abspath(p) for p in sys.argv[1:3])

HISTORY = """map 0x10000 0x11000 rw
thread 1
0x401000 store 0x10000 4 = 7
0x401004 store 0x10004 4 = %d
"""


def ttq(*arguments):
    p = subprocess.run([TTQ, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                       env=dict(os.environ, TTQ_HOME=PLACE))
    return p.returncode, p.stdout, p.stderr


def write(name, text):
    path = os.path.join(PLACE, name)
    with open(path, "w") as f:
        f.write(text)
    return path


def verdicts(output):
    lines = [json.loads(line) for line in output.splitlines()]
    return {(os.path.basename(r["trace"]), r["question"]): r["verdict"] for r in lines}


class Batch(unittest.TestCase):
    def test_expectations(self):
        rows = write("rows.jsonl", ttq("-t", A, "-f", "jsonl", "writes to 0x10000 len 8")[1])
        table = write("rows.csv", ttq("-t", A, "-f", "csv", "writes to 0x10000 len 8")[1])
        questions = write("all.yaml", f"""
- {{name: none met, query: writes to 0x10100, expect: none}}
- {{name: none not, query: writes to 0x10000, expect: none}}
- {{name: some met, query: writes to 0x10000, expect: some}}
- {{name: some not, query: writes to 0x10100, expect: some}}
- {{name: count met, query: writes to 0x10000 len 8, expect: count <= 2}}
- {{name: count not, query: writes to 0x10000 len 8, expect: count > 2}}
- {{name: answer, query: writes to 0x10000}}
- {{name: same, query: "writes to 0x10000 len 8 | select address, value", expect: same as {A}}}
- {{name: rows, query: writes to 0x10000 len 8, expect: rows equal {rows}}}
- {{name: table, query: writes to 0x10000 len 8, expect: rows equal rows.csv}}
- {{name: failed, query: writes to nosuch, expect: none}}
""")
        self.assertTrue(os.path.exists(table))
        status, out, err = ttq("batch", "-f", "jsonl", questions, A, B)
        self.assertEqual((status, err), (1, ""))
        got = verdicts(out)
        for trace in ("a.ttq", "b.ttq"):
            other = trace == "b.ttq"  # it differs in one value
            expected = {"none met": "met", "none not": "not met", "some met": "met",
                        "some not": "not met", "count met": "met", "count not": "not met",
                        "answer": "met", "same": "not met" if other else "met",
                        "rows": "not met" if other else "met",
                        "table": "not met" if other else "met", "failed": "failed"}
            self.assertEqual({q: v for (t, q), v in got.items() if t == trace}, expected)

    def test_scripts_and_exit_statuses(self):
        script = write("two.ttql", "# name: first\n# expect: some\nwrites to 0x10000\n\n"
                                   "# expect: none\nwrites to 0x10100; reads of 0x10000\n")
        status, out, _ = ttq("batch", "-f", "jsonl", script, A)
        self.assertEqual(status, 0)
        self.assertEqual(verdicts(out), {("a.ttq", "first"): "met",
                                         ("a.ttq", "writes to 0x10100"): "met",
                                         ("a.ttq", "reads of 0x10000"): "met"})
        status, out, _ = ttq("batch", "-f", "jsonl", script, A, os.path.join(PLACE, "gone"))
        self.assertEqual(status, 3)  # and the others are answered
        self.assertEqual(sorted(verdicts(out).values()), ["met"] * 3 + ["unreadable"] * 3)
        status, out, _ = ttq("batch", script, A)
        self.assertEqual(out, "first: 1 of 1\nwrites to 0x10100: 1 of 1\nreads of 0x10000: 1 of 1\n\n3 met\n")

    def test_summary(self):
        runs = []
        for number in (10, 1, 2, 3):  # natural order, not that of the command
            runs.append(os.path.join(PLACE, f"run-{number}"))
            os.path.exists(runs[-1]) or shutil.copytree(B if number in (2, 10) else A, runs[-1])
        questions = write("s.yaml", "- {name: quiet, query: writes to 0x10004 where value == 1, expect: none}\n"
                                    "- {name: written, query: writes to 0x10000, expect: some}\n")
        status, out, err = ttq("batch", questions, *runs, os.path.join(PLACE, "gone"))
        self.assertEqual((status, err), (3, ""))
        lines = out.splitlines()
        self.assertEqual(lines[:3], ["quiet: 2 of 5, not met in run-2, run-10, unreadable in gone",
                                     "written: 4 of 5, unreadable in gone", ""])
        self.assertEqual([line.replace("not met", "notmet").split()[:3] for line in lines[3:7]],
                         [["unreadable", "gone", "quiet"], ["unreadable", "gone", "written"],
                          ["notmet", "run-2", "quiet"], ["notmet", "run-10", "quiet"]])
        self.assertEqual(lines[7:], ["", "6 met, 2 not met, 2 unreadable"])
        verbose = ttq("batch", "-v", questions, *runs)[1].splitlines()
        self.assertEqual([line.split()[1 if line.startswith("met") else 2] for line in verbose[3:11]],
                         ["run-1"] * 2 + ["run-2"] * 2 + ["run-3"] * 2 + ["run-10"] * 2)
        more = ttq("batch", questions, *(f"/no/{n}" for n in range(12)))[1].splitlines()
        self.assertEqual(more[0], "quiet: 0 of 12, unreadable in " + ", ".join(map(str, range(9))) + " and 3 more")

    def test_junit(self):
        questions = write("j.yaml", "- {name: a<b, query: writes to 0x10000, expect: none}\n"
                                    "- {query: writes to 0x10000, expect: some}\n")
        target = os.path.join(PLACE, "j.xml")
        status, out, err = ttq("batch", "-f", "junit", "-o", target, questions, A)
        self.assertEqual((status, out, err), (1, "", ""))
        suite = xml.etree.ElementTree.parse(target).getroot().find("testsuite")
        self.assertEqual((suite.get("tests"), suite.get("failures"), suite.get("errors")),
                         ("2", "1", "0"))
        failed = [c for c in suite if c.find("failure") is not None]
        self.assertEqual([c.get("name") for c in failed], ["a<b"])
        self.assertIn("expected none: 1 row", failed[0].find("failure").get("message"))

    def test_resume(self):
        questions = write("r.yaml", "- {query: writes to 0x10000, expect: some}\n"
                                    "- {query: writes to 0x10004, expect: some}\n")
        journal = os.path.join(PLACE, "journal")
        _, whole, _ = ttq("batch", "-f", "jsonl", "--resume", journal, questions, A, B)
        with open(journal) as f:
            lines = f.read().splitlines(keepends=True)
        self.assertEqual(len(lines), 4)
        # Killed while it wrote the third: two are known, and one of those is not asked again but
        # taken as it was.
        changed = json.loads(lines[0])
        changed["rows"] = 77
        write("journal", json.dumps(changed) + "\n" + lines[1] + lines[2][:40])
        status, again, _ = ttq("batch", "-f", "jsonl", "--resume", journal, questions, A, B)
        self.assertEqual(status, 0)
        self.assertEqual(verdicts(again), verdicts(whole))
        self.assertEqual(sum('"rows":77' in line for line in again.splitlines()), 1)

    def test_bad_input(self):
        for text, said in [
                ("- {query: writes to 0x10, expct: none}", "bad.yaml:1: there is no key 'expct', "
                                                           "did you mean 'expect'?"),
                ("- name: x\n  query: wries to 0x10", "bad.yaml:2: "),
                ("- {query: threads, expect: few}", "cannot expect 'few'"),
                ("- {name: x}", "has no query"),
                ("questions: 3", "expected a list"),
                ("[", "bad.yaml:"),
                ("- {query: threads, process: none}", "a process is named by its number"),
                ("[]", "has no questions")]:
            status, out, err = ttq("batch", write("bad.yaml", text), A)
            self.assertEqual((status, out), (2, ""), text)
            self.assertIn(said, err)
            self.assertEqual(err.count("\n"), 1, err)
        status, _, err = ttq("batch", write("bad.ttql", "threads\n\nwries to 0x10\n"), A)
        self.assertEqual(status, 2)
        self.assertIn("bad.ttql:3: ", err)
        self.assertEqual(ttq("batch", A)[0], 2)
        self.assertEqual(ttq("batch", write("ok.ttql", "threads"))[0], 2)


with tempfile.TemporaryDirectory(prefix="ttq-batch-") as PLACE:
    A, B = (os.path.join(PLACE, name) for name in ("a.ttq", "b.ttq"))
    for number, place in enumerate((A, B)):
        subprocess.run([RECORD_TEXT, place], input=HISTORY % number, text=True, check=True)
    unittest.main(argv=sys.argv[:1], verbosity=2)

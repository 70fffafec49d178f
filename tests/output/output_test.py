# SPDX-License-Identifier: MIT
"""What a recorded program is called, says and holds is data wherever it is shown.

    output_test.py TTQ PYTHONPATH

Two programs with names, arguments and strings full of escape sequences, characters that turn text round,
markup and formulas are recorded. On a terminal (a real pty) no byte of theirs arrives raw; csv, jsonl and JUnit
are what their readers take back exactly; a notebook's HTML holds text and no element or script of theirs.
"""

import csv
import html.parser
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

TTQ, PACKAGE = (os.path.abspath(p) for p in sys.argv[1:3])
HERE = os.path.dirname(os.path.abspath(__file__))
SYMBOL = "take\x1b[31m\u202e<b>&"
FILE = "map\x1b[31m\u202e<b>&.bin"
ARGUMENT = "\x1b]0;title\x07\u202e"
# What ttq itself sends to a terminal: colours, and taking a line away.
OWN = re.compile(rb"\x1b\[[0-9;]*m|\r?\x1b\[K|\r\n")


def environment():
    return {**os.environ, "TTQ_HOME": PLACE, "TERM": "xterm", "PAGER": "cat", "HOSTILE": ARGUMENT, "PYTHONHASHSEED": "0"}


def on_terminal(*command):
    """What arrives at the terminal that `command` runs in."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(command[0], command, environment())
    output = b""
    while True:
        try:
            piece = os.read(fd, 1 << 16)
        except OSError:
            break
        if not piece:
            break
        output += piece
    os.close(fd)
    os.waitpid(pid, 0)
    return output


def ask(*arguments):
    run = subprocess.run([TTQ, *arguments], capture_output=True, env=environment())
    if run.returncode != 0:
        raise AssertionError(f"{arguments}: {run.returncode}\n{run.stderr.decode()}")
    return run.stdout.decode()


def record(name, *command):
    trace = os.path.join(PLACE, name)
    subprocess.run([TTQ, "record", "-q", "-o", trace, *command], cwd=PLACE, env=environment(),
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return trace


def build():
    program = os.path.join(PLACE, "hos\x1b[31m\u202etile")
    plain = os.path.join(PLACE, "plain")
    subprocess.run(["cc", "-O1", "-w", os.path.join(HERE, "hostile.c"), "-o", plain, "-pthread"], check=True)
    subprocess.run(["objcopy", "--redefine-sym", "take=" + SYMBOL, plain, program], check=True)
    shutil.copy("/bin/true", os.path.join(PLACE, FILE))
    return program


class Terminal(unittest.TestCase):
    def check(self, *command):
        output = on_terminal(*command)
        rest = OWN.sub(b"", output)
        text = rest.decode()  # nothing that is not UTF-8 either
        raw = sorted({c for c in text if not c.isprintable() and c not in "\n"})
        self.assertEqual(raw, [], f"{command[1:]} sends {raw}:\n{output[-2000:]}")
        return text

    def test_native(self):
        said = ""
        for command in (["ls"], ["info", C], ["crash", C], ["check", C], ["diff", C, PYTHON],
                        ["query", "-t", C, "events"], ["query", "-t", C, "modules"],
                        ["query", "-t", C, "maps at end"], ["query", "-t", C, "threads at end"],
                        ["query", "-t", C, "backtrace at crash"],
                        ["query", "-t", C, "calls to /^take/ | select function, string(arg0)"],
                        ["query", "-t", C, "calls to /^take/ | select string(arg0) | first 3 | backtrace"],
                        ["query", "-t", C, "--explain", "calls to /^take/"],
                        ["query", "-t", C, "calls to take"],
                        ["query", "-t", C, "no\x1b[31m\u202esuch"]):
            said += self.check(TTQ, *command)
        for form in ("csv", "jsonl", "json"):
            for question in ("calls to /^take/ | select function, string(arg0)", "events", "modules"):
                said += self.check(TTQ, "query", "-t", C, "-f", form, question)
        self.assertIn(r"take\x1b[31m\u202e<b>&", said)
        self.assertIn(r"map\x1b[31m\u202e<b>&.bin", said)
        self.assertIn(r"\x1b[31m\u009b2J\u202e<b onclick", said)
        self.assertIn(r"\x1b]0;title", said)

    def test_python(self):
        said = ""
        for command in (["crash", PYTHON], ["info", PYTHON],
                        ["query", "-t", PYTHON, "py backtrace at crash"],
                        ["query", "-t", PYTHON, "py locals at crash"],
                        ["query", "-t", PYTHON, "py source at crash"],
                        ["query", "-t", PYTHON, "backtrace mixed at crash"],
                        ["query", "-t", PYTHON, "py print text at crash"],
                        ["query", "-t", PYTHON, "py calls to /=1/"],
                        ["query", "-t", PYTHON, "-f", "csv", "py calls to /=1/"]):
            said += self.check(TTQ, *command)
        self.assertIn(r"=1+1 \x1b[31m", said)

    def test_batch(self):
        questions = os.path.join(PLACE, "terminal.yaml")
        with open(questions, "w") as f:
            json.dump([{"name": "b\x1b[31m\u202ead", "query": "calls to /^take/ | select string(arg0)",
                        "expect": "none"}], f)
        self.assertIn(r"b\x1b[31m\u202ead", self.check(TTQ, "batch", questions, C))

class Machine(unittest.TestCase):
    QUESTION = "calls to /^take/ | select function, string(arg0), arg0"

    def rows(self):
        return json.loads(ask("query", "-t", C, "-f", "json", self.QUESTION))["rows"]

    def test_csv_is_what_json_is(self):
        table = list(csv.reader(io.StringIO(ask("query", "-t", C, "-f", "csv", self.QUESTION), newline="")))
        rows = self.rows()
        self.assertGreater(len(rows), 100)
        self.assertEqual(table[0], list(rows[0]))
        self.assertEqual(table[1:], [["" if v is None else v for v in row.values()] for row in rows])
        self.assertIn("two\nlines, \"quoted\"\r", [row[1] for row in table])
        self.assertTrue(any("\x1b[31m\x9b2J\u202e" in row[1] for row in table))

    def test_jsonl(self):
        lines = ask("query", "-t", C, "-f", "jsonl", self.QUESTION).split("\n")
        self.assertEqual([json.loads(line) for line in lines if line], self.rows())

    def test_csv_safe(self):
        def formulas(*options):
            text = ask("query", "-t", C, "-f", "csv", *options, "calls to /^take/ | select string(arg0) | first 1")
            return list(csv.reader(io.StringIO(text, newline="")))[1][0][:5]
        self.assertEqual(formulas(), "=1+1 ")
        self.assertEqual(formulas("--csv-safe"), "'=1+1")
        # Numbers are no formulas.
        self.assertEqual(ask("query", "-t", C, "-f", "csv", "--csv-safe", "print -5 at crash | select value"),
                         ask("query", "-t", C, "-f", "csv", "print -5 at crash | select value"))

    def test_export(self):
        path = os.path.join(PLACE, "out.csv")
        ask("export", "-t", C, "--to", "csv", "--csv-safe", "-o", path, "calls to /^take/ | select string(arg0)")
        with open(path, newline="") as f:
            self.assertTrue(list(csv.reader(f))[1][0].startswith("'=1+1"))

    def test_a_row_of_nothing_is_a_row(self):
        text = ask("query", "-t", C, "-f", "csv", "events thread | select python")
        self.assertEqual(len(list(csv.reader(io.StringIO(text)))),
                         1 + len(ask("query", "-t", C, "-f", "jsonl", "events thread | select python").splitlines()))

    def test_junit_is_well_formed(self):
        questions = os.path.join(PLACE, "questions.yaml")
        with open(questions, "w") as f:
            json.dump([{"name": "b\x1b\ufffe<a>\"'&]]>", "expect": "none",
                        "query": "calls to /^take/ | select string(arg0)"},
                       {"name": "met", "expect": "some", "query": "calls to /^take/ | last 1"}], f)
        run = subprocess.run([TTQ, "batch", "-f", "junit", questions, C], capture_output=True, env=environment())
        self.assertEqual(run.returncode, 1, run.stderr)
        suites = xml.etree.ElementTree.fromstring(run.stdout)
        cases = {case.get("name"): case for case in suites.iter("testcase")}
        bad = r"""b\x1b\ufffe<a>"'&]]>"""
        self.assertEqual(set(cases), {bad, "met"})
        self.assertIsNone(cases["met"].find("failure"))
        self.assertIn(r"\u202e", cases[bad].find("failure").text)

    def test_rows_equal_a_csv_file_with_lines_in_its_cells(self):
        with open(os.path.join(PLACE, "rows.csv"), "w", newline="") as f:
            f.write(ask("query", "-t", C, "-f", "csv", self.QUESTION))
        questions = os.path.join(PLACE, "equal.ttql")
        with open(questions, "w") as f:
            f.write(f"# name: same\n# expect: rows equal rows.csv\n{self.QUESTION}\n")
        run = subprocess.run([TTQ, "batch", questions, C], capture_output=True, env=environment())
        self.assertEqual(run.returncode, 0, run.stdout.decode())


class Tags(html.parser.HTMLParser):
    """The elements of a page, with their attributes' names."""

    def __init__(self, page):
        super().__init__()
        self.found, self.text = set(), ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.add((tag, tuple(sorted(name for name, _ in attributes))))

    def handle_data(self, data):
        self.text += data


class Notebook(unittest.TestCase):
    ALLOWED = {"style", "div", "table", "tr", "td", "th", "a", "span", "details", "summary"}

    def test_html_holds_no_element_of_the_programs(self):
        sys.path.insert(0, PACKAGE)
        import ttq
        from ttq import html as page
        questions = {C: ["events", "modules", "maps at end", "threads at end", "backtrace at crash",
                         "calls to /^take/ | select function, string(arg0)", "calls to /^take/ | first 2 | backtrace",
                         "print (char*)$rsp at crash", "crash"],
                     PYTHON: ["py backtrace at crash", "py locals at crash", "py source at crash",
                              "py calls to /=1/", "backtrace mixed at crash", "crash"]}
        said = ""
        for trace, texts in questions.items():
            with ttq.open(trace) as opened:
                for text in texts:
                    tags = Tags(page.result(opened.query(text)))
                    self.assertLessEqual({tag for tag, _ in tags.found}, self.ALLOWED, text)
                    for tag, attributes in tags.found:
                        self.assertLessEqual(set(attributes),
                                             {"class", "title", "href", "data-ttq", "onclick", "colspan"}, text)
                        self.assertTrue("onclick" not in attributes or tag == "a", text)
                    raw = {c for c in tags.text if not c.isprintable() and c not in "\n\t"}
                    self.assertEqual(raw, set(), text)
                    said += tags.text
        self.assertIn("<b onclick=", said)
        self.assertIn("<img src=x onerror=", said)
        self.assertIn("take\\x1b[31m\\u202e<b>&", said)


def setUpModule():
    global C, PYTHON
    program = build()
    C = record("c.ttq", program, FILE, ARGUMENT)
    PYTHON = record("python.ttq", "/usr/bin/python3", os.path.join(HERE, "hostile.py"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="ttq-output-") as PLACE:
        unittest.main(argv=sys.argv[:1])

# SPDX-License-Identifier: MIT
"""Answers, the pager, the shell and the line of `ttq record` on real terminals.

    terminal_test.py TTQ TOUR DOCUMENT

TOUR (examples/tour) and examples/python-tour are recorded and asked in ptys of several widths: no line is longer
than the terminal, each question that is suggested next can be asked, what is longer than the screen goes to
$PAGER. `ttq shell` is typed at, the example of DOCUMENT (docs/shell.md) included. tmux shows what
`ttq record` leaves of a program's own output.
"""

import codecs
import fcntl
import os
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unicodedata
import unittest

TTQ, TOUR, DOCUMENT = (os.path.abspath(p) for p in sys.argv[1:4])
TOUR_PY = os.path.join(os.path.dirname(DOCUMENT), "../examples/python-tour/tour.py")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
ERASE = re.compile(r"\r?\x1b\[K")

NATIVE = ["last write to counter", "writes to counter", "reads of items", "accesses to counter", "memory counter",
          "memory items len 16", "registers at (last write to counter)", "disassemble push", "disassemble push at crash",
          "threads", "modules", "maps at start", "print counter at crash", "source at (last write to counter)",
          "backtrace at crash", "executions of push", "events", "events syscall", "calls to push",
          "calls to push | backtrace", "writes to counter | backtrace", "crash", "heap backup", "heap leaks",
          "origin of counter at crash", "writes to counter | count by function, thread", "events output",
          "calls to pop | select time, result, return_time, caller", "no rows at all: writes to 0x10"]
PYTHON = ["py backtrace at crash", "py locals at crash in frame 2", "py source at crash in frame 1",
          "backtrace mixed at crash", "py exceptions", "events output", "objects of type Account at crash",
          "py calls to /./ | first 20", "py calls to /./ | first 3 | py backtrace", "crash",
          "py executions of /./ | first 10", "events output | py backtrace"]
WIDTHS = (80, 120)


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if k not in ("PAGER", "TTQ_PAGER", "LESS", "NO_COLOR", "TTQ_TRACE")}
    return {**kept, "TTQ_HOME": PLACE, "TERM": "xterm", "LC_ALL": "C.UTF-8", "PAGER": "cat", "HOME": PLACE, **more}


def width(text):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


class Screen:
    """A program in a pty of a size."""

    def __init__(self, command, columns=80, rows=24, **more):
        self.seen = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(command[0], command, environment(**more))
        self.resize(columns, rows)

    def resize(self, columns, rows):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            piece = os.read(self.fd, 1 << 16)
        except OSError:
            return False
        self.seen += self.decoder.decode(piece)
        return bool(piece)

    def until(self, pattern, seconds=60):
        """What came up to a pattern."""
        deadline = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            if time.monotonic() > deadline or not self.read(1) and self.ended():
                raise AssertionError(f"no {pattern!r} in {self.seen!r}")
        text, self.seen = self.seen[:found.end()], self.seen[found.end():]
        return text

    def ended(self):
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None and not self.read(0)
        except ChildProcessError:
            return True

    def send(self, text):
        os.write(self.fd, text.encode())

    def finish(self):
        """All the rest, and the exit status."""
        while self.read(60):
            pass
        os.close(self.fd)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.seen, status


def run(command, columns=80, rows=24, **more):
    """What a command shows on a terminal, without colours, and its status."""
    # The size is there before the program asks for it.
    words = ["/bin/sh", "-c", f"stty cols {columns} rows {rows}; exec \"$@\"", "sh", *command]
    text, status = Screen(words, columns, rows, **more).finish()
    # Lines that were there for a while, as progress is, go whole.
    text = re.sub(r"[^\n]*\r\x1b\[K", "", COLOURS.sub("", text))
    return ERASE.sub("", text).replace("\r\n", "\n"), status


def plain(*arguments, input=None):
    return subprocess.run([TTQ, *arguments], capture_output=True, text=True, env=environment(), input=input)


def record(name, *command):
    trace = os.path.join(PLACE, name)
    subprocess.run([TTQ, "record", "-q", "-o", trace, *command], cwd=PLACE, env=environment(), timeout=300,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return trace


def setUpModule():
    global C
    C = record("c.ttq", TOUR)


class WithPython(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        global P
        P = os.path.join(PLACE, "p.ttq")
        if not os.path.exists(P):
            record("p.ttq", "/usr/bin/python3", TOUR_PY)


class Rows(WithPython):
    # Sentences, which the terminal breaks.
    SENTENCE = re.compile(r"^(ttq: |note: |no rows|not shown, |cut to |… only |next: |.*bytes not mapped)")

    def check(self, trace, question):
        for columns in WIDTHS:
            text, status = run([TTQ, "query", "-q", "-t", trace, question.split(": ")[-1]], columns)
            self.assertEqual(status, 0, text)
            for line in text.split("\n"):
                if not self.SENTENCE.match(line):
                    self.assertLessEqual(width(line), columns, f"{question} at {columns}:\n{text}")

    def test_native_rows_fit(self):
        for question in NATIVE:
            with self.subTest(question):
                self.check(C, question)

    def test_python_rows_fit(self):
        for question in PYTHON:
            with self.subTest(question):
                self.check(P, question)

    def test_crash_and_info_fit_and_lose_nothing(self):
        for trace in C, P:
            for words in ["crash", "--no-pager", trace], ["info", "--no-pager", trace]:
                for columns in 60, *WIDTHS:
                    text, status = run([TTQ, *words], columns)
                    self.assertEqual(status, 0, text)
                    for line in text.split("\n"):
                        self.assertLessEqual(width(line), columns, f"{words} at {columns}:\n{text}")
                    self.assertEqual("".join(text.split()), "".join(plain(*words).stdout.split()))

    def test_wide_shows_all_that_a_pipe_gets(self):
        text, _ = run([TTQ, "query", "-q", "--wide", "-t", C, "writes to counter"], 60)
        self.assertEqual(text.rstrip(), plain("query", "-t", C, "writes to counter").stdout.rstrip())

    def test_what_is_cut_is_said(self):
        text, _ = run([TTQ, "query", "-q", "-t", C, "writes to counter"], 50)
        self.assertRegex(text, r"(?m)^(not shown, for want of room: .*|cut to the width of the terminal); --wide shows all$")
        text, _ = run([TTQ, "query", "-q", "-t", C, "writes to counter"], 200)
        self.assertNotIn("--wide", text)

    def test_a_wide_single_row_is_one_name_per_line(self):
        text, _ = run([TTQ, "query", "-q", "-t", C, "last write to counter"], 60)
        self.assertRegex(text, r"(?m)^time +\d+$")
        self.assertRegex(text, r"(?m)^where +corrupt at tour.c:\d+")

    def test_places_and_arguments_are_readable(self):
        text, _ = run([TTQ, "query", "-q", "-t", C, "calls to push"], 120)
        self.assertRegex(text, r" value=3 ")
        text, _ = run([TTQ, "query", "-q", "-t", P, "events output"], 200)
        self.assertNotIn("{", text)
        columns = run([TTQ, "query", "-q", "-t", P, "events output | select python"], 100)[0]
        self.assertRegex(columns, r"(?m)^[\w.<>]+ at tour\.py:\d+$")

    def test_common_frames_are_folded(self):
        text, _ = run([TTQ, "query", "-q", "-t", P, "events output | first 3 | backtrace"], 100)
        self.assertRegex(text, r"same \d+ frames as above")
        text, _ = run([TTQ, "query", "-q", "--wide", "-t", P, "events output | first 3 | backtrace"], 100)
        self.assertNotIn("as above", text)


class Pages(unittest.TestCase):
    LONG, SHORT = "disassemble main", "print counter at crash"

    def setUp(self):
        self.page = os.path.join(PLACE, "page")
        if os.path.exists(self.page):
            os.remove(self.page)

    def ask(self, question, *options, pager=None, rows=8, **more):
        pager = f"cat > {self.page}" if pager is None else pager
        return run([TTQ, "query", "-q", *options, "-t", C, question], 80, rows, PAGER=pager, **more)

    def test_what_does_not_fit_goes_to_the_pager(self):
        text, status = self.ask(self.LONG)
        self.assertEqual(status, 0, text)
        self.assertEqual(text, "")
        with open(self.page) as f:
            self.assertGreater(len(f.read().splitlines()), 8)

    def test_otherwise_there_is_none(self):
        for question, options, more in ((self.SHORT, [], {}), (self.LONG, ["--no-pager"], {}),
                                        (self.LONG, [], {"TERM": "dumb"}), (self.LONG, [], {"TTQ_PAGER": ""}),
                                        (self.LONG, ["-f", "json"], {})):
            text, status = self.ask(question, *options, **more)
            self.assertEqual(status, 0)
            self.assertNotEqual(text, "")
            self.assertFalse(os.path.exists(self.page), (question, options, more))

    def test_a_pager_that_is_left_or_is_not_there(self):
        text, status = self.ask(self.LONG, pager="head -1")
        self.assertEqual((status, text.count("\n")), (0, 1), text)
        text, status = self.ask(self.LONG, pager="no-such-pager")
        self.assertEqual(status, 0)
        self.assertIn("current" if "current" in text else "instruction", text)

    @unittest.skipUnless(shutil.which("less"), "there is no less")
    def test_less(self):
        screen = Screen(["/bin/sh", "-c", 'stty cols 80 rows 8; exec "$@"', "sh", TTQ, "query", "-q", "-t", C, self.LONG],
                        80, 8, PAGER="less")
        screen.until("instruction")
        screen.until(":")
        screen.send("q")
        self.assertEqual(screen.finish()[1], 0)


class Next(WithPython):
    def suggested(self, trace, question):
        text, _ = run([TTQ, "query", "-t", trace, question], 300)
        found = re.search(r"(?m)^next: (.*)$", text)
        return re.split(r"   (?=ttq )", found[1]) if found else []

    def test_each_suggestion_can_be_asked(self):
        asked = 0
        for trace, questions in ((C, NATIVE), (P, PYTHON)):
            for question in questions:
                for command in self.suggested(trace, question.split(": ")[-1]):
                    words = shlex.split(command)
                    self.assertEqual(words[0], "ttq")
                    answer = plain(*words[1:])
                    self.assertEqual(answer.returncode, 0, f"{question}: {command}\n{answer.stderr}")
                    asked += 1
        self.assertGreater(asked, 40)

    def test_it_can_be_left_out(self):
        text, _ = run([TTQ, "query", "-t", C, "last write to counter"], 200)
        self.assertIn("\nnext: ttq ", text)
        for options in (["-q"], ["-f", "csv"]):
            text, _ = run([TTQ, "query", *options, "-t", C, "last write to counter"], 200)
            self.assertNotIn("next:", text)
        self.assertNotIn("next:", plain("-t", C, "last write to counter").stdout)


class Shell(unittest.TestCase):
    PROMPT = r"ttq[^>\n]*> "

    def start(self, *arguments, **more):
        screen = Screen(["/bin/sh", "-c", 'stty cols 100 rows 40; exec "$@"', "sh", TTQ, "shell", *arguments], 100, 40,
                        **more)
        screen.until(self.PROMPT)
        return screen

    def ask(self, screen, line):
        """What a line gives, without its echo."""
        screen.send(line + "\n")
        screen.until(r"\n")
        text = screen.until(self.PROMPT)
        self.prompt = text[text.rfind("ttq"):]
        return COLOURS.sub("", ERASE.sub("", text[:text.rfind("ttq")])).replace("\r", "")

    def test_a_moment_and_a_frame(self):
        screen = self.start(C)
        crash = plain("query", "-t", C, "-f", "csv", "registers at crash | select time").stdout.split()[1]
        writes = plain("query", "-t", C, "-f", "csv", "writes to counter | select time").stdout.split()[1:]
        self.assertIn("#0   push at tour.c", self.ask(screen, "at crash"))
        self.assertEqual(self.prompt, f"ttq {crash}> ")
        self.assertIn("main at tour.c", self.ask(screen, "up"))
        self.assertEqual(self.prompt, f"ttq {crash} #1> ")
        self.assertIn("outermost", self.ask(screen, "up 99"))
        self.ask(screen, "down")
        self.assertIn("#0   push", self.ask(screen, "frame"))
        self.assertIn("268435456", self.ask(screen, "print counter"))
        for time_ in reversed(writes):  # from one write to the one before
            self.assertIn(time_, self.ask(screen, "last write to counter"))
            self.assertEqual(self.prompt, f"ttq {time_}> ")
        self.assertIn("no rows", self.ask(screen, "last write to counter"))
        self.assertIn(writes[1], self.ask(screen, "next write to counter"))
        self.ask(screen, "forget")
        self.assertEqual(self.prompt, "ttq> ")
        screen.send("\x04")
        self.assertEqual(screen.finish()[1], 0)

    def test_rows_of_the_last_answer(self):
        screen = self.start(C)
        table = self.ask(screen, "writes to counter")
        rows = re.findall(r"(?m)^\$(\d+) +(\d+) ", table)
        self.assertEqual([int(n) for n, _ in rows], list(range(1, len(rows) + 1)))
        self.ask(screen, "at $3")
        self.assertEqual(self.prompt, f"ttq {rows[2][1]}> ")
        self.ask(screen, "writes to counter")
        self.assertRegex(self.ask(screen, "$2"), rf"(?m)^time +{rows[1][1]}$")
        self.ask(screen, "writes to counter")
        self.assertIn(rows[0][1], self.ask(screen, "writes to $1.address len 4 | first 1"))
        self.assertIn("there is no $99", self.ask(screen, "at $99"))
        self.assertIn("no column nothing", self.ask(screen, "print $1.nothing"))
        screen.send("quit\n")
        self.assertEqual(screen.finish()[1], 0)

    def test_completion_and_history(self):
        screen = self.start(C)
        # Only what is new is sent to the terminal.
        for typed, added in (("backt", "race "), ("calls to corr", "upt "), ("last write to counte", "r "),
                             ("writes to counter | count by func", "tion "), ("open c.", "ttq "), ("at cra", "sh ")):
            screen.send(typed)
            screen.until(re.escape(typed))
            screen.send("\t")
            screen.until(re.escape(added))
            screen.send("\x15")  # the line goes
        screen.send("p\t")
        self.assertIn("print", screen.until(r"process[^\n]*\n(?s:.)*" + self.PROMPT))
        screen.send("\x15")
        self.ask(screen, "print counter + 41")
        screen.send("\x04")
        screen.finish()
        screen = self.start(C)
        screen.send("\x1b[A")
        screen.until(r"print counter \+ 41")
        screen.send("\x03")
        screen.until(self.PROMPT)
        screen.send("\x04")
        self.assertEqual(screen.finish()[1], 0)

    def test_interruption_ends_the_question_only(self):
        screen = self.start(C)
        screen.send("print coun\x03")
        screen.until(self.PROMPT)
        screen.send("!echo begins; sleep 60\n")
        screen.until(r"\nbegins|\rbegins")
        screen.send("\x03")
        screen.until(self.PROMPT)
        self.assertIn("268435456", self.ask(screen, "print counter at crash"))
        screen.send("\x04")
        self.assertEqual(screen.finish()[1], 0)

    def test_on_a_dumb_terminal(self):
        screen = self.start(C, TERM="dumb")
        self.assertIn("268435456", self.ask(screen, "print counter at crash"))
        screen.send("\x04")
        text, status = screen.finish()
        self.assertEqual(status, 0)
        self.assertNotIn("\x1b", text)

    def test_the_documents_example(self):
        with open(DOCUMENT, encoding="utf-8") as f:
            example = re.search(r"(?ms)^```ttq-shell\n(.*?)^```", f.read())[1]
        asked = re.findall(r"(?m)^ttq[^>\n]*> (.*)$", example)
        self.assertGreater(len(asked), 5)
        screen = self.start(C)
        text = ""
        for line in asked:
            text += self.ask(screen, line)
            self.assertNotIn("ttq: ", text)
        screen.send("\x04")
        screen.finish()
        # Times and addresses are this recording's own.
        for line in example.splitlines():
            if not line.startswith("ttq"):
                self.assertRegex(text, re.sub(r"0x[0-9a-f]+|\d{4,}", r"(0x[0-9a-f]+|\\d+)", re.escape(line)))

    def test_a_script(self):
        script = "# a comment\nat crash\nprint counter\n\nwrites to counter |\n  count\nquit\nprint nonsense\n"
        run_ = plain("shell", C, input=script)
        self.assertEqual(run_.returncode, 0, run_.stderr)
        self.assertIn("268435456", run_.stdout)
        self.assertRegex(run_.stdout, r"(?m)^count\n +\d+$")
        self.assertNotIn("ttq>", run_.stdout)
        run_ = plain("shell", C, input="print nonsense\nprint counter\n")
        self.assertEqual(run_.returncode, 2)
        self.assertIn("nonsense", run_.stderr)
        self.assertIn("268435456", run_.stdout)
        answer = plain("shell", "-f", "jsonl", C, input="at crash\nprint counter\n").stdout
        self.assertIn('"268435456"', answer)

    def test_bad_input(self):
        os.makedirs(os.path.join(PLACE, "empty.ttq"), exist_ok=True)
        for arguments, status in ((["nosuch"], 3), (["empty.ttq"], 3), (["-p", "99", C], 2), (["-f", "xml", C], 2)):
            answer = plain("shell", *arguments, input="")
            self.assertEqual(answer.returncode, status, arguments)
            self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
            self.assertEqual(answer.stdout, "")
        for line in ("at", "at noon", "at crash | count", "frame x", "down", "up 99", "thread 99", "process nosuch",
                     "open nosuch", "limit x", "!", "help nosuch", "$1", "at $1"):
            answer = plain("shell", C, input=line + "\n")
            self.assertEqual(answer.returncode, 0 if line == "at" else 3 if line == "open nosuch" else 2, (line, answer))


@unittest.skipUnless(shutil.which("tmux"), "tmux shows what a terminal looks like, and is not there")
class Recording(unittest.TestCase):
    PROGRAM = r"""
import sys, time
for i in range(40): print("line", i)
print("name? ", end="", flush=True)
t = time.time()
while not __import__("os").path.exists(sys.argv[1]): time.sleep(0.05)
print("done")
"""

    def tmux(self, *words):
        return subprocess.run(["tmux", "-L", "ttq-test-" + str(os.getpid()), "-f", "/dev/null", *words], env=environment(),
                              capture_output=True, text=True, check=True).stdout

    def wait(self, condition, what):
        deadline = time.monotonic() + 120
        while not condition(self.tmux("capture-pane", "-p").split("\n")):
            if time.monotonic() > deadline:
                self.fail(f"{what}:\n{self.tmux('capture-pane', '-p')}")
            time.sleep(0.2)
        return self.tmux("capture-pane", "-p").split("\n")

    def test_the_line_leaves_the_programs_output_alone(self):
        program, flag = os.path.join(PLACE, "prompts.py"), os.path.join(PLACE, "flag")
        with open(program, "w") as f:
            f.write(self.PROGRAM)
        command = shlex.join([TTQ, "record", "-o", os.path.join(PLACE, "status.ttq"), "/usr/bin/python3", program, flag])
        self.tmux("new-session", "-d", "-x", "80", "-y", "24", f"{command}; echo ended; sleep 100")
        try:
            status = re.compile(r"^ttq: \d+ s, [\d.]+ \w+, 1 process$")
            seen = self.wait(lambda lines: status.match(lines[23]) and any(line.startswith("name?") for line in lines),
                             "no line at the bottom, or no prompt above it")
            prompt = [line for line in seen if line.startswith("name?")]
            self.assertEqual(prompt, ["name?"])
            self.assertEqual([line for line in seen if line.startswith("line")][-1], "line 39")
            with open(flag, "w"):
                pass
            seen = self.wait(lambda lines: "ended" in lines, "it did not end")
            self.assertIn("name? done", seen)
            self.assertEqual([line for line in seen if status.match(line)], [])
            self.assertEqual(len([line for line in seen if line.startswith("ttq: recorded")]), 1)
            # The whole screen scrolls again: what ttq and echo print is the last.
            self.assertEqual([line for line in seen if line][-1], "ended")
        finally:
            self.tmux("kill-server")


if __name__ == "__main__":
    signal.alarm(900)
    with tempfile.TemporaryDirectory(prefix="ttq-terminal-") as PLACE:
        unittest.main(argv=sys.argv[:1] + sys.argv[4:])

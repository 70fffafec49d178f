# SPDX-License-Identifier: MIT
"""`ttq diff` names what made two runs differ.

    causes_test.py TTQ [CASE…]

Each pair of runs of causes.cc differs in one thing that matters, and in others that do not: two variables
of other lengths, the order of the environment, process numbers, the time. The cause must be the one thing,
and established. It is what this script gave the program, not anything that ttq said before.
"""

import concurrent.futures
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TTQ = os.path.abspath(sys.argv.pop(1))
ONLY = sys.argv[1:]
sys.argv = sys.argv[:1]

# What each side has: variables, arguments, data.txt, standard input. And the cause: its kind, and a regular
# expression for its text. And the first system call that differs, of some.
CASES = {
    "environment": dict(env=({"LEVEL": "3"}, {"LEVEL": "28"}),
                        cause=("environment variable", r"LEVEL=3 \| LEVEL=28")),
    "entry": dict(env=({"LEVEL": "3"}, {"LEVEL": "28"}), cause=("environment variable", r"LEVEL=3 \| LEVEL=28")),
    "present": dict(env=({}, {"EXTRA": "9"}), cause=("environment variable", "EXTRA=9, only in B")),
    "argument": dict(args=(["abc"], ["abcdefghijkl"]), cause=("argument", r'2: "abc" \| "abcdefghijkl"')),
    "file": dict(data=("name=x\nlimit=7\n", "name=x\nlimit=29\n"),
                 cause=("file", r'data\.txt, byte 13: "7\n" \| "29\n"')),
    "stdin": dict(stdin=("7\n", "29\n"), cause=("file", r'standard input, byte 0: "7\n" \| "29\n"')),
    "clock": dict(cause=("time", "clock_gettime: .*")),
    "random": dict(cause=("random bytes", "getrandom: .*")),
    "device": dict(cause=("random bytes", "/dev/urandom, byte 0: .*")),
    "counted": dict(stdin=("7\n", "29\n"), cause=("file", r'standard input, byte 0: "7\n" \| "29\n"')),
    "heap": dict(cause=("uninitialised memory", "byte 20 of the 200 bytes that malloc gave .*HeapNotWritten.*")),
    "stack": dict(cause=("uninitialised memory", "a variable of .*TakeFromStack.*")),
    "threads": dict(fifos=True, cause=("order of threads",
                           ".*(order was last written by nobody yet .*thread 3|places was last written by thread 3"
                           " .*by thread 2|places was last written by thread 2 .*by thread 3).*"),
                    # Not the reads, though another thread's comes first: each thread's own are alike.
                    syscall=["write(1, …, 20) = 20", "write(1, …, 21) = 21"]),
    "directory": dict(directory=True, cause=("directory", "the order of the names in .*three.*")),
    "sorted": dict(directory=True, env=({"LEVEL": "3"}, {"LEVEL": "28"}),
                   cause=("environment variable", r"LEVEL=3 \| LEVEL=28")),
    "status": dict(data=("same", "same"), cause=("file status", "data.txt: modified 2000.* modified 2007.*")),
    "locale": dict(env=({"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}),
                   cause=("environment variable", r"LC_ALL=C \| LC_ALL=C\.UTF-8")),
    "process": dict(cause=("process number", r"getpid: \d+ \| \d+")),
    "cwd": dict(cwd=("here", "elsewhere"), cause=("system call", r"getcwd: .*/here \| .*/elsewhere")),
}
# In which the order of a directory's names is that of their making, the last one first.
MEMORY_FILES = "/dev/shm"


def environment(side, more):
    e = {"PATH": os.environ["PATH"], "HOME": PLACE, "TTQ_HOME": PLACE, "LANG": "C", "SAME": "1",
         "PWD": ("/x", "/some/longer/place")[side], "UNRELATED": ("a" * 40, "z" * 47)[side], **more}
    return dict(reversed(e.items())) if side else e


def record(name, side):
    case = CASES[name]
    recording = os.path.join(PLACE, "%s%d.ttq" % (name, side))
    here = os.path.join(PLACE, name, case["cwd"][side] if "cwd" in case else "")
    os.makedirs(here, exist_ok=True)
    words = [os.path.join(PLACE, "causes"), name, *case.get("args", ([], []))[side]]
    if "data" in case:
        path = os.path.join(here, "data.txt")
        with open(path, "w") as f:
            f.write(case["data"][side])
        os.utime(path, (1000 + side, 2000 + 7 * side))
    if "directory" in case:
        directory = os.path.join(MEMORY, name)
        shutil.rmtree(directory, ignore_errors=True)
        os.mkdir(directory)
        for entry in (["one", "two", "three"], ["three", "two", "one"])[side]:
            open(os.path.join(directory, entry), "w").close()
        words.append(directory)
    fifos = [os.path.join(here, f) for f in ("first.fifo", "second.fifo")] if "fifos" in case else []
    for f in fifos:
        if not os.path.exists(f):
            os.mkfifo(f)
    p = subprocess.Popen([TTQ, "record", "-q", "-o", recording, "--", *words], cwd=here,
                         env=environment(side, case.get("env", ({}, {}))[side]), stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if fifos:
        ends = [os.open(f, os.O_WRONLY) for f in fifos]
        if side:
            ends.reverse()
        for end in ends:
            os.write(end, b"x")
            turn = select.poll()
            turn.register(end, 0)  # POLLERR alone: nobody has the end to read from any more
            if not turn.poll(60_000):
                raise RuntimeError("the program did not take its turn")
            os.close(end)
    error = p.communicate(case.get("stdin", ("", ""))[side])[1]
    if not os.path.isdir(recording):
        raise RuntimeError(error)
    return recording


def answer(name):
    a, b = record(name, 0), record(name, 1)
    p = subprocess.run([TTQ, "diff", "-f", "json", a, b], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True, errors="replace", env=dict(os.environ, TTQ_HOME=PLACE))
    if p.returncode or p.stderr:
        raise RuntimeError("diff %s: %d %s" % (name, p.returncode, p.stderr))
    return json.loads(p.stdout)


class Causes(unittest.TestCase):
    maxDiff = None

    def test_each_cause_is_named(self):
        subprocess.run(["c++", "-g", "-O1", "-pthread", os.path.join(HERE, "causes.cc"), "-o",
                        os.path.join(PLACE, "causes")], check=True)
        names = [n for n in CASES if not ONLY or n in ONLY]
        if MEMORY is None:
            print("no %s: the order of names in directories is not tried" % MEMORY_FILES, file=sys.stderr)
            names = [n for n in names if "directory" not in CASES[n]]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            answers = dict(zip(names, pool.map(answer, names)))
        wrong = {}
        for name, found in answers.items():
            kind, text = CASES[name]["cause"]
            cause = found["cause"] or {"kind": None, "text": "", "established": False}
            if (cause["kind"], cause["established"]) != (kind, True) or not re.fullmatch(
                    text, cause["text"], re.S):
                way = found["native"] and found["native"]["origin"]
                wrong[name] = (cause["kind"], cause["text"], cause["established"], way)
            call = found["summary"]["first_syscall"]
            if "syscall" in CASES[name] and (call is None or call["text"] != CASES[name]["syscall"]):
                wrong[name] = call
        print("%d of %d causes named" % (len(names) - len(wrong), len(names)), file=sys.stderr)
        self.assertEqual(wrong, {})


if __name__ == "__main__":
    PLACE = tempfile.mkdtemp(prefix="ttq-causes-")
    MEMORY = None
    try:
        if os.path.isdir(MEMORY_FILES) and os.access(MEMORY_FILES, os.W_OK):
            MEMORY = tempfile.mkdtemp(prefix="ttq-causes-", dir=MEMORY_FILES)
        unittest.main()
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)
        if MEMORY is not None:
            shutil.rmtree(MEMORY, ignore_errors=True)

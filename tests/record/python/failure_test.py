#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# What `crash`, `ttq crash` and `ttq info` say of Python programs that fail by an exception: its text, its
# traceback as the program printed it, the variables when it was raised, the test that failed.
# Usage: failure_test.py TTQ [INTERPRETER...]

import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
from interpreters import interpreters  # noqa: E402

TTQ = os.path.abspath(sys.argv[1])

UNCAUGHT = """
class Missing(LookupError):
    pass

def look(table, key):
    size = len(table)
    try:
        return table[key]
    except KeyError as e:
        raise Missing(key, size) from e

def main(words):
    table = {}
    for n, word in enumerate(words):
        look(table, word)

main(["one"])
"""
# Long after it was raised, and by way of a thread: what ends the program is raised again.
LATE = """
import threading

def fail(number):
    parts = [number, "two"]
    return {}[number]

def main():
    caught = []
    def work():
        try:
            fail(7)
        except KeyError as e:
            caught.append(e)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    try:
        raise caught[0]
    finally:
        total = sum(range(2_000_000))

main()
"""
# C that makes entries of its own, as Cython does, before Python has the exception.
MADE = """
import ctypes, sys

def inner():
    number = 7
    try:
        {}[number]
    except KeyError:
        pass
    library.fail()

library = ctypes.PyDLL(sys.argv[1])
library.relay.argtypes, library.relay.restype = [ctypes.py_object], ctypes.py_object
library.relay(inner)
"""
LIBRARY = """
extern void *PyExc_KeyError;
void PyErr_SetString(void *, const char *);
void _PyTraceback_Add(const char *, const char *, int);
void *PyObject_CallObject(void *, void *);
void *relay(void *function) {
  void *result = PyObject_CallObject(function, 0);
  if (!result) _PyTraceback_Add("relays", "made.pyx", 50);
  return result;
}
void fail(void) {
  PyErr_SetString(PyExc_KeyError, "four");
  _PyTraceback_Add("compute", "made.pyx", 47);
  _PyTraceback_Add("raises", "made.pyx", 43);
}
"""
# Built-in functions of C++, made without CPython's headers, so that one library serves all versions.
NATIVE = """
import ctypes, sys

def work(function):
    number = 7
    function()

library = ctypes.PyDLL(sys.argv[1])
library.make.argtypes, library.make.restype = [ctypes.c_char_p], ctypes.py_object
work(library.make(sys.argv[2].encode()))
"""
FUNCTIONS = """
#include <cstring>
#include <stdexcept>
#define API extern "C" __attribute__((noinline))
struct Method { const char *name; void *(*function)(void *, void *); int flags; const char *text; };
extern "C" {
extern void *PyExc_ValueError;
extern char _Py_NoneStruct;
void PyErr_SetString(void *, const char *);
void PyErr_Clear();
void PyErr_Fetch(void **, void **, void **);
void PyErr_Restore(void *, void *, void *);
void *PyCFunction_NewEx(Method *, void *, void *);
void *PyTuple_New(long);
void Py_DecRef(void *);
}
API void check(int n) { if (n > 2) throw std::out_of_range("thrown"); }
API void deeper(int n) { check(n + 1); }
API void fail() { PyErr_SetString(PyExc_ValueError, "set"); }
API void *find(int n) { return n > 2 ? nullptr : &_Py_NoneStruct; }
API void *throws(void *, void *) {
  try { check(9); } catch (const std::exception &) {}
  try {
    try { deeper(2); } catch (...) {
      try { check(8); } catch (...) {}
      throw;
    }
  } catch (const std::exception &e) { PyErr_SetString(PyExc_ValueError, e.what()); }
  return nullptr;
}
API void *sets(void *, void *) {
  try { check(9); } catch (const std::exception &) {}
  PyErr_SetString(PyExc_ValueError, "set");
  PyErr_Clear();
  fail();
  void *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Py_DecRef(PyTuple_New(3));
  PyErr_Restore(type, value, traceback);
  return nullptr;
}
API void *null(void *, void *) { return find(9); }
API void *result(void *, void *) { fail(); return &_Py_NoneStruct; }
API void *make(const char *name) {
  static Method methods[] = {{"throws", throws, 4, 0}, {"sets", sets, 4, 0}, {"null", null, 4, 0}, {"result", result, 4, 0}};
  for (Method &m : methods) if (!strcmp(name, m.name)) return PyCFunction_NewEx(&m, nullptr, nullptr);
  return nullptr;
}
"""
# What each of them does, and where: how, the function, the text that its line has.
MADE_BY = {"throws": ("thrown", "check", "throw std::out_of_range"), "sets": ("set", "fail", "void fail()"),
           "null": ("returned NULL", "find", "void *find"), "result": ("set", "fail", "void fail()")}
SAYS = """
import sys

def leave(reason):
    sys.exit("left: " + reason)

leave("no input")
"""
INTERRUPTED = """
import os, signal

def wait(turns):
    os.kill(os.getpid(), signal.SIGINT)
    for turn in range(turns):
        pass

wait(100000)
"""
GROUP = """
def main():
    within = ExceptionGroup("within", [KeyError("k")])
    raise ExceptionGroup("several", [ValueError("one"), within])

main()
"""
TESTS = """
import unittest

class Sums(unittest.TestCase):
    def test_right(self):
        self.assertEqual(1 + 1, 2)
    def test_skipped(self):
        self.skipTest("not today")
    @unittest.expectedFailure
    def test_to_fail(self):
        self.assertEqual(1, 2)
    def test_wrong(self):
        total = sum([1, 2])
        self.assertEqual(total, 4)
    def test_wrong_too(self):
        raise ValueError("too")

if __name__ == "__main__":
    unittest.main()
"""
PYTEST = """
import pytest

@pytest.mark.parametrize("n", [1, 2, 3])
def test_small(n):
    twice = 2 * n
    assert twice < 6

@pytest.mark.xfail
def test_to_fail():
    assert False

def test_skipped():
    pytest.skip("not today")
"""


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def check(scratch, interpreter, name, text, arguments, expected):
    """What is wrong with the answer; nothing: None."""
    script = f"{scratch}/{name}.py"
    pathlib.Path(script).write_text(text)
    recording = f"{scratch}/{name}.ttq"
    arguments = [a.format(script=script, scratch=scratch) for a in arguments]
    program = run(TTQ, "record", "-q", "-o", recording, "--", interpreter, *arguments)
    answer = json.loads(run(TTQ, "query", "-t", recording, "-f", "json", "crash").stdout)
    if expected is None:
        told = "did not crash: it exited with status" in (answer["note"] or "")
        return None if answer["rows"] == [] and told else f"{name}: {answer}"
    if len(answer["rows"]) != 1 or not answer["complete"]:
        return f"{name}: {answer} {program.stderr}"
    number = answer["rows"][0]["signal"]
    if number != ("SIGINT" if expected["type"] == "KeyboardInterrupt" else None):
        return f"{name}: signal {number}"
    exception = answer["rows"][0]["exception"]
    got = {key: exception[key] for key in expected if key in exception}
    variables = next(frame["locals"] for frame in exception["frames"] if frame["locals"] is not None)
    got["locals"] = {k: v for k, v in variables.items() if k in expected["locals"]}
    got["chain"] = [(c["relation"], c["type"]) for c in exception["chain"] or []]
    got["tests"] = [t["test"].split("/")[-1] for t in exception["failed_tests"] or []]
    if got["test"]:
        got["test"] = got["test"].split("/")[-1]
    if got != expected:
        return f"{name}:\n  want {expected}\n  got  {got}"
    if not expected["tests"] and expected["type"] != "SystemExit":
        last = program.stderr.split("following exception:")[-1]
        printed = re.findall(r'File "(.*)", line (\d+), in (.*)', last)
        entries = [(e["file"], str(e["line"]), e["function"].split(".")[-1]) for e in exception["traceback"]]
        if printed != entries:
            return f"{name}: printed {printed}, got {entries}"
        frames = [(e["file"], str(e["line"]), e["function"].split(".")[-1]) for e in reversed(exception["frames"])]
        if name == "made" and printed != frames:
            return f"{name}: printed {printed}, the frames are {frames}"
    native = exception["native"]
    if name in MADE_BY:
        how, function, text = MADE_BY[name]
        line = next(n for n, l in enumerate(FUNCTIONS.split("\n"), 1) if text in l)
        if native is None or (native["how"], native["function"], native["line"]) != (how, function, line):
            return f"{name}: want {how} in {function}, line {line}, got {native}"
        if name not in [frame["function"] for frame in native["frames"]]:
            return f"{name}: the frames are {native['frames']}"
        if f"\n{how} in C{'++' if how == 'thrown' else ''} at " not in run(TTQ, "crash", recording).stdout:
            return f"{name}: ttq crash does not say where it was {how}"
    elif (exception["raised_by"] == "raise") and native is not None:
        return f"{name}: Python raised it, not {native}"
    head = ": ".join(part for part in (expected["type"], expected["message"]) if part)
    variable = next(iter(expected["locals"]))
    for command in ("crash", "info"):
        shown = run(TTQ, command, recording).stdout
        for part in (head, f"{variable} = ", expected["test"] or "where it was raised"):
            if part not in shown:
                return f"{name}: ttq {command} says nothing of {part}: {shown}"
    info = json.loads(run(TTQ, "info", "-f", "json", recording).stdout)
    if info["processes"][0]["exception"]["message"] != exception["message"]:
        return f"{name}: {info}"
    return None


# How each version keeps an exception differs; how a program leaves, from the oldest to the newest.
OF_ALL = {"uncaught", "late", "made", "tests", "test_small", "throws", "null"}


def cases(interpreter):
    missing = {"type": "Missing", "message": "('one', 0)", "line": 10, "raised_by": "raise", "test": None,
               "locals": {"table": "{}", "key": "'one'", "size": 0}, "chain": [("cause", "KeyError")], "tests": []}
    yield "uncaught", UNCAUGHT, ["-S", "{script}"], missing
    yield "late", LATE, ["-S", "{script}"], {
        "type": "KeyError", "message": "7", "line": 6, "raised_by": "C", "test": None, "thread": 2,
        "locals": {"number": 7, "parts": "[7, 'two']"}, "chain": [], "tests": []}
    yield "made", MADE, ["-S", "{script}", "{scratch}/made.so"], {
        "type": "KeyError", "message": "'four'", "line": 10, "raised_by": "C", "test": None,
        "locals": {"number": 7}, "chain": [], "tests": []}
    of_native = {"line": 6, "raised_by": "C", "test": None, "locals": {"number": 7}, "chain": [], "tests": []}
    # Debug builds end by what is no more than a SystemError elsewhere.
    is_debug = run(interpreter, "-c", "import sys; sys.gettotalrefcount()").returncode == 0
    of_310 = run(interpreter, "-c", "import sys; sys.exit(sys.version_info < (3, 10))").returncode == 0
    exception = "exception" if of_310 else "error"
    for name in ("throws", "sets") if is_debug else MADE_BY:
        type_, message, chain = {
            "throws": ("ValueError", "thrown", []), "sets": ("ValueError", "set", []),
            "null": ("SystemError", f"<built-in function null> returned NULL without setting an {exception}", []),
            "result": ("SystemError", f"<built-in function result> returned a result with an {exception} set",
                       [("cause", "ValueError")])}[name]
        yield name, NATIVE, ["-S", "{script}", "{scratch}/native.so", name], {
            **of_native, "type": type_, "message": message, "chain": chain}
    yield "says", SAYS, ["-S", "{script}"], {
        "type": "SystemExit", "message": "left: no input", "line": 5, "raised_by": "C", "test": None,
        "locals": {"reason": "'no input'"}, "chain": [], "tests": []}
    yield "interrupted", INTERRUPTED, ["-S", "{script}"], {
        "type": "KeyboardInterrupt", "message": "", "raised_by": "C", "test": None,
        "locals": {"turns": 100000}, "chain": [], "tests": []}
    if run(interpreter, "-c", "ExceptionGroup").returncode == 0:
        yield "group", GROUP, ["-S", "{script}"], {
            "type": "ExceptionGroup", "message": "several (2 sub-exceptions)", "line": 4, "raised_by": "raise",
            "test": None, "locals": {"within": "ExceptionGroup('within', [KeyError('k')])"}, "chain": [], "tests": []}
    yield "leaves", "import sys\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    sys.exit(3)\n", ["-S", "{script}"], None
    yield "tests", TESTS, ["-S", "{script}"], {
        "type": "AssertionError", "message": "3 != 4", "raised_by": "raise", "test": "__main__.Sums.test_wrong",
        "locals": {"msg": "'3 != 4'"}, "chain": [],
        "tests": ["__main__.Sums.test_wrong", "__main__.Sums.test_wrong_too"]}
    if run(interpreter, "-c", "import pytest").returncode == 0:
        yield "test_small", PYTEST, ["-m", "pytest", "-q", "-p", "no:cacheprovider", "{script}"], {
            "type": "AssertionError", "message": "assert 6 < 6", "line": 7, "raised_by": "raise",
            "test": "test_small.py::test_small[3]", "locals": {"n": 3, "twice": 6}, "chain": [],
            "tests": ["test_small.py::test_small[3]"]}


def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which nohup ignores, here and in what is started
    failed = tried = 0
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = []
        found = interpreters(sys.argv[2:])
        for n, (_, interpreter) in enumerate(found):
            directory = f"{scratch}/{n}"
            os.mkdir(directory)
            subprocess.run(["cc", "-shared", "-fPIC", "-xc", "-", "-o", f"{directory}/made.so"], input=LIBRARY,
                           text=True, check=True)
            subprocess.run(["c++", "-g", "-O1", "-shared", "-fPIC", "-xc++", "-", "-o", f"{directory}/native.so"],
                           input=FUNCTIONS, text=True, check=True)
            for case in cases(interpreter):
                if case[0] in OF_ALL or n in (0, len(found) - 1):
                    jobs.append((interpreter, pool.submit(check, directory, interpreter, *case)))
        for interpreter, job in jobs:
            tried += 1
            wrong = job.result()
            if wrong:
                failed += 1
                print(f"{interpreter}: WRONG: {wrong}")
    print(f"{tried} programs, {failed} wrong" if tried else "skipped: no interpreter was found")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

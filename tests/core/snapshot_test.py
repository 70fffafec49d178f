# SPDX-License-Identifier: MIT
"""Snapshots of running processes: what they say, and that the process does not notice.

    snapshot_test.py TTQ PROGRAMS
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

from cores import HERE, SKIPPED, check, end, finish, program, rows, run, start

sys.path.insert(0, os.path.join(HERE, "../support"))
from interpreters import interpreters  # noqa: E402

PYTHON = """
import threading, time
def worker(name):
    secret = name * 2
    print("ready", flush=True)
    time.sleep(1000)
worker("ab")
"""


def may_trace(scratch):
    process = start([program("crash"), "wait"], scratch)
    p = run("snapshot", str(process.pid), "-o", os.path.join(scratch, "may.ttq"), status=None)
    end(process)
    if p.returncode != 0:
        print(p.stderr.strip())
    return p.returncode == 0


def states(scratch):
    for how in ([], ["--stop"]):
        process = start([program("crash"), "wait"], scratch)
        trace = os.path.join(scratch, "state" + "".join(how) + ".ttq")
        p = run("snapshot", *how, str(process.pid), "-o", trace)
        check("2 threads" in p.stderr, p.stderr)
        functions = [r["function"] for r in rows(trace, "backtrace all threads")]
        check("main" in functions and "waiter" in functions, functions)
        check("hello from main" in str(rows(trace, "print text in frame 1"))
              or "hello from main" in str(rows(trace, "print text in frame 2")), "print text")
        check("77" in str(rows(trace, "print tls_value in thread 2")), "a thread's own variable")
        check([r["name"] for r in rows(trace, "threads")][0] == "crash", "thread names")
        check(process.poll() is None, "the process lives")
        with open(f"/proc/{process.pid}/status") as status:
            text = status.read()
        check("TracerPid:\t0" in text, "nobody traces it any more")
        end(process)


def unmoved(scratch):
    process = start([program("unmoved")], scratch, stdin=subprocess.PIPE)
    for i in range(12):
        trace = os.path.join(scratch, f"unmoved{i}.ttq")
        run("snapshot", str(process.pid), "-o", trace, "-q", *(["--stop"] if i % 4 == 3 else []))
        check(len(rows(trace, "threads")) == 5, "five threads")
    process.stdin.close()
    said = process.stdout.read().strip()
    check(said == "odd 0 signals 0", f"the process noticed: {said}")
    check(process.wait() == 0, "how it ended")


def questions(scratch):
    script = os.path.join(scratch, "worker.py")
    with open(script, "w") as file:
        file.write(PYTHON)
    process = start(["/usr/bin/python3", script], scratch)
    before = set(os.listdir(scratch))
    p = run("snapshot", str(process.pid), "--", "py", "backtrace", "all", "threads")
    check("worker" in p.stdout, p.stdout + p.stderr)
    p = run("snapshot", str(process.pid), "--", "-f", "json", "py locals")
    local = {r["name"]: r["value"] for r in json.loads(p.stdout)["rows"]}
    check(local.get("secret") == "'abab'", local)
    # A question reads the copy's memory where it is; a recording has it stored.
    trace = os.path.join(scratch, "stored.ttq")
    run("snapshot", "-q", "-o", trace, str(process.pid))
    for query in ("py locals", "backtrace all threads", "memory $rsp len 200", "print environ", "maps at end",
                  "objects of type dict | count", "py backtrace mixed", "print *(char*)0"):
        stored = run("query", "-t", trace, query, status=None)
        asked = run("snapshot", str(process.pid), "--", query, status=None)
        check(asked.stdout == stored.stdout and asked.returncode == stored.returncode,
              f"{query}: {asked.stdout} {asked.stderr} {stored.stdout} {stored.stderr}")
    before = set(os.listdir(scratch))
    p = run("snapshot", str(process.pid), "--", "writes to 0x1000", status=2)
    check("before this snapshot is unknown" in p.stderr, p.stderr)
    check(set(os.listdir(scratch)) == before, "nothing is kept")
    end(process)


# What is in hand is what sys.exc_info() gives where it is asked.
EXCEPTIONS = """
import ctypes, sys, threading, time
lib = ctypes.PyDLL(sys.argv[1])
def raises(n):
    raise ValueError("bad %d" % n)
def resumed():
    try:
        raises(1)
    except ValueError:
        yield sys.exc_info()[1]
        yield asks()
def asks():
    print(type(sys.exc_info()[1]).__name__, sys.exc_info()[1], sep=": ", flush=True)
    print("ready", flush=True)
    lib.fails_and_waits()
def handles():
    try:
        raises(7)
    except ValueError:
        try:
            {}["k"]
        except KeyError:
            for _ in resumed():
                pass
def left():
    try:
        open("/nonexistent")
    finally:
        time.sleep(1000)
def calm():
    try:
        raises(8)
    except ValueError:
        pass
    time.sleep(1000)
class Odd(Exception):
    def __str__(self):
        return "not asked"
def odd():
    try:
        raise Odd("its argument")
    finally:
        time.sleep(1000)
for function in (left, calm, odd):
    threading.Thread(target=function, daemon=True).start()
    time.sleep(0.2)
handles()
"""
FAILS = """
#include <unistd.h>
extern void* PyExc_OSError;
void PyErr_SetString(void*, const char*);
void fails_and_waits(void) { PyErr_SetString(PyExc_OSError, "set in C"); for (;;) pause(); }
"""


def exceptions(scratch):
    library, script = os.path.join(scratch, "fails.so"), os.path.join(scratch, "exceptions.py")
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-x", "c", "-o", library, "-"], input=FAILS, text=True, check=True)
    with open(script, "w") as file:
        file.write(EXCEPTIONS)
    for version, interpreter in interpreters():
        if version[1] > 13:
            continue
        process = start([interpreter, script, library], scratch, until="ValueError: ")
        process.stdout.readline()
        time.sleep(0.2)
        p = run("snapshot", str(process.pid), "--", "-f", "json", "py exceptions")
        end(process)
        found = [(r["thread"], r["type"], r["message"], r["function"], (r["caught_at"] or {}).get("function"))
                 for r in json.loads(p.stdout)["rows"]]
        check(found == [(1, "OSError", "set in C", "asks", None), (1, "ValueError", "bad 1", "raises", "resumed"),
                        (1, "KeyError", "'k'", "handles", "handles"),
                        (2, "FileNotFoundError", "[Errno 2] No such file or directory: '/nonexistent'", "left", "left"),
                        (4, "Odd", "its argument", "odd", "odd")],
              f"{version}: {found}")
        check("Odd has a __str__ of its own" in str(json.loads(p.stdout)["note"]), p.stdout)
        check(process.said == "ValueError: bad 1\n", process.said)


# What jumps on has no frame. One way leads from one() to stays(), two lead from two().
TAILS = """
#include <stdio.h>
#include <unistd.h>
volatile int zero;
__attribute__((noinline)) int stays(int n) { puts("ready"); fflush(stdout); while (!zero) pause(); return n + zero; }
__attribute__((noinline)) int inner(int n) { zero = n - n; return stays(n + 1); }
__attribute__((noinline)) int one(int n) { zero = 0; return inner(n * 3); }
__attribute__((noinline)) int left(int n) { zero = 0; return stays(n * 5); }
__attribute__((noinline)) int two(int n) { if (n > 2) return left(n); return inner(n); }
int main(int argc, char** argv) { return (argc > 1 ? two(argc) : one(argc)) + 1; }
"""


def tails(scratch):
    binary = os.path.join(scratch, "tails")
    subprocess.run(["cc", "-O2", "-g", "-w", "-x", "c", "-o", binary, "-"], input=TAILS, text=True, check=True)
    for words, right in (([], ["stays", "inner", "one", "main"]), (["x"], ["stays", "main"])):
        process = start([binary, *words], scratch)
        p = run("snapshot", str(process.pid), "--", "-f", "json", "backtrace")
        debugger = subprocess.run(["gdb", "-nx", "-batch", "-p", str(process.pid), "-ex", "bt"], capture_output=True,
                                  text=True, timeout=60)
        end(process)
        found = [r["function"] for r in json.loads(p.stdout)["rows"]]
        check(found[-len(right):] == right, f"tail calls: {found}")
        shown = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\w+)", debugger.stdout, re.M)
        if shown:
            check(shown[-len(right):] == right, f"tail calls: gdb has {shown}, not {right}")


def errors(scratch):
    check("no process" in run("snapshot", "3999999", status=3).stderr, "no such process")
    check("is no process" in run("snapshot", "abc", status=2).stderr, "no number")
    if os.path.exists("/usr/bin/gdb"):
        process = start([program("crash"), "wait"], scratch)
        debugger = subprocess.Popen(["gdb", "-nx", "-batch", "-p", str(process.pid), "-ex",
                                     "shell sleep 20"], stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        for _ in range(200):
            with open(f"/proc/{process.pid}/status") as status:
                if "TracerPid:\t0" not in status.read():
                    break
            time.sleep(0.05)
        p = run("snapshot", str(process.pid), status=3)
        check("traced by process" in p.stderr, p.stderr)
        debugger.kill()
        debugger.wait()
        end(process)


def main():
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["TMPDIR"] = scratch
        if not may_trace(scratch):
            sys.exit(SKIPPED)
        states(scratch)
        unmoved(scratch)
        questions(scratch)
        exceptions(scratch)
        tails(scratch)
        errors(scratch)
    finish()


main()

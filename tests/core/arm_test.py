# SPDX-License-Identifier: MIT
"""Programs that take snapshots of themselves (`ttq arm`, ttq.arm()): what those say, against gdb's gcore and
what the programs know; that the programs go on, or end as they would.

    arm_test.py TTQ PROGRAMS
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from cores import ENVIRONMENT, HERE, TTQ, ask, check, end, finish, gcore, imported, program, rows, start

sys.path.insert(0, os.path.join(HERE, "../support"))
from interpreters import interpreters  # noqa: E402

PYTHON = """
import ctypes, os, signal, sys, threading, time
%s
started = threading.Event()
def sleeps(secret):
    local = [secret, secret * 2]
    started.set()
    threading.Event().wait()
threading.Thread(target=sleeps, args=("ab",), daemon=True).start()
started.wait()
def deaf():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    time.sleep(1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2])
    threading.Event().wait()
def asks(n):
    here = {"n": n}
    os.kill(os.getpid(), signal.SIGUSR2)
    return here
if "deaf" in sys.argv:
    threading.Thread(target=deaf, daemon=True).start()
    time.sleep(0.2)
print(asks(41), flush=True)
if "crash" in sys.argv:
    time.sleep(1.5)
    ctypes.string_at(0)
"""


class Home:
    """Where the recordings of one test go."""

    def __init__(self, scratch, name):
        self.path = os.path.join(scratch, name)
        os.mkdir(self.path)
        ENVIRONMENT["TTQ_HOME"] = self.path

    def recordings(self, count):
        """Waits until there are so many, finished."""
        for _ in range(300):
            names = sorted(n for n in os.listdir(self.path) if n.endswith(".ttq"))
            # The core dump goes when its recording is finished.
            if len(names) >= count and not left_over():
                return [os.path.join(self.path, n) for n in names]
            time.sleep(0.1)
        check(False, f"{count} recordings in {self.path}: {os.listdir(self.path)} {left_over()}")
        return []


def left_over():
    return [n for n in os.listdir(ENVIRONMENT["TMPDIR"]) if n.endswith(".core")]


def equal_to_gcore(scratch):
    home = Home(scratch, "order")
    process = start([TTQ, "arm", program("hangs"), "order"], scratch)
    os.kill(process.pid, signal.SIGUSR2)
    own, = home.recordings(1) or [None]
    core = gcore(process.pid, os.path.join(scratch, "gcore"))
    check(process.poll() is None, "it goes on")
    if own and core:
        other = imported(core, os.path.join(scratch, "gcore.ttq"))
        stack = rows(own, "registers in thread 2")[0]["rsp"]
        for query in ("backtrace in thread 2", "backtrace in thread 3", "waits | where thread > 1", "print lock_a",
                      f"memory {stack} len 2048", "modules at end | select path, build_id"):
            a, b = ask(own, query), ask(other, query)
            check(a["rows"] == b["rows"] and a["rows"] and a["complete"], f"{query}: {a} {b}")
        with open(f"/proc/{process.pid}/maps") as file:
            lines = [line.split() for line in file]
        kernel = {int(line[0].split("-")[0], 16) for line in lines if line[1] != "---p" and "[v" not in line[-1]}
        known = {int(r["address"], 16) for r in rows(own, "maps at end")}
        check(kernel <= known, f"mappings: {[hex(a) for a in kernel - known]}")
        for thread in (2, 3):
            a, b = (rows(t, f"registers in thread {thread}")[0] for t in (own, other))
            # What the kernel gives an interrupted call as its result is its own matter.
            wrong = {n: (a[n], b[n]) for n in b if n not in ("rax", "rcx", "r11") and a.get(n) != b[n]}
            check(not wrong, f"registers in thread {thread}: {wrong}")
    os.kill(process.pid, signal.SIGUSR2)
    check(len(home.recordings(2)) == 2, "a second snapshot")
    end(process)


def deaths(scratch):
    for how, status, cause in (([], -signal.SIGSEGV, "SIGSEGV"), (["abort"], -signal.SIGABRT, "SIGABRT")):
        home = Home(scratch, "died" + "".join(how))
        p = subprocess.run([TTQ, "arm", program("crash"), *how], env=ENVIRONMENT, capture_output=True, text=True,
                           cwd=scratch, timeout=120)
        check(p.returncode == status and f"imported {cause}" in p.stderr, f"{how}: {p}")
        trace, = home.recordings(1) or [None]
        if not trace:
            continue
        crash = subprocess.run([TTQ, "crash", trace], env=ENVIRONMENT, capture_output=True, text=True).stdout
        check(cause in crash and re.search(r"#0 +(depth at|__pthread_kill_impl).*\n(.*\n)*.*main at crash.c", crash), crash)
        check("77" in str(rows(trace, "print tls_value in thread 2")), "a thread's own variable")
        frame = next((r["frame"] for r in rows(trace, "backtrace") if r["function"] == "main"), 0)
        check("hello from main" in str(rows(trace, f"print text in frame {frame}")), "a variable")
    # A stack without room; a disk without room.
    home = Home(scratch, "deep")
    code = "f = lambda n: f(n)\nimport sys, threading\nsys.setrecursionlimit(10**9)\nf(1)"
    p = subprocess.run([TTQ, "arm", "/usr/bin/python3", "-S", "-c", code.replace("f(n)", "[*map(f, [n])]")],
                       env=ENVIRONMENT, capture_output=True, text=True, cwd=scratch, timeout=120)
    check(p.returncode == -signal.SIGSEGV and len(home.recordings(1)) == 1, f"stack overflow: {p.stderr[-500:]}")
    place = dict(ENVIRONMENT, TMPDIR=os.path.join(scratch, "none"))
    p = subprocess.run([TTQ, "arm", program("crash")], env=place, capture_output=True, text=True, timeout=120)
    check(p.returncode == -signal.SIGSEGV and p.stderr.startswith("ttq: no snapshot: cannot make a file in ")
          and p.stderr.count("\n") == 1, f"no folder: {p}")
    p = subprocess.run([TTQ, "arm", "./no-such-program"], env=ENVIRONMENT, capture_output=True, text=True)
    check(p.returncode == 127 and p.stderr.count("\n") == 1, f"no program: {p}")


def pythons(scratch):
    script = os.path.join(scratch, "armed.py")
    for version, interpreter in interpreters():
        # The package needs cffi, which only the system's Python has for certain.
        of_package = interpreter == "/usr/bin/python3"
        with open(script, "w") as file:
            file.write(PYTHON % ("import ttq; ttq.arm()" if of_package else ""))
        home = Home(scratch, f"python{version[0]}.{version[1]}{'p' if of_package else ''}-{len(os.listdir(scratch))}")
        package = os.path.join(os.path.dirname(TTQ), "python")
        words = [] if of_package else [TTQ, "arm"]
        p = subprocess.run([*words, interpreter, script], env=dict(ENVIRONMENT, PYTHONPATH=package if of_package else ""),
                           capture_output=True, text=True, cwd=scratch, timeout=120)
        check(p.returncode == 0 and p.stdout == "{'n': 41}\n", f"{version}: {p}")
        trace, = home.recordings(1) or [None]
        if not trace:
            continue
        stack = ask(trace, "py backtrace all threads")
        functions = [(r["thread"], r["function"]) for r in stack["rows"]]
        check((1, "asks") in functions and (2, "sleeps") in functions, f"{version}: {functions}")
        known = {r["name"]: r["value"] for r in rows(trace, "py locals in thread 1")}
        check(known.get("here") == "{'n': 41}" and known.get("n") == "41", f"{version}: {known}")
        frame = next((r["frame"] for r in stack["rows"] if r["function"] == "sleeps"), 0)
        known = {r["name"]: r["value"] for r in rows(trace, f"py locals in thread 2 in frame {frame}")}
        check(known.get("local") == "['ab', 'abab']", f"{version}: {known}")
        if not of_package:
            continue
        home = Home(scratch, "deaf")
        p = subprocess.run([interpreter, script, "deaf", "crash"], capture_output=True, text=True, cwd=scratch,
                           env=dict(ENVIRONMENT, PYTHONPATH=package), timeout=120)
        check(p.returncode == -signal.SIGSEGV and "did not answer" in p.stderr, f"deaf: {p}")
        asked, crashed = home.recordings(2) or [None, None]
        answer = ask(asked, "threads")
        check(not answer["complete"] and len(answer["rows"]) == 2, f"deaf: {answer}")
        check("string_at" in str(rows(crashed, "py backtrace")), "where it crashed")
        check(ask(crashed, "threads")["complete"], "no thread is deaf any more")
        check(len(home.recordings(2)) == 2, "no snapshot of its own when the thread hears again")


def main():
    with tempfile.TemporaryDirectory() as scratch:
        ENVIRONMENT["TMPDIR"] = os.path.join(scratch, "tmp")
        os.mkdir(ENVIRONMENT["TMPDIR"])
        equal_to_gcore(scratch)
        deaths(scratch)
        pythons(scratch)
    finish()


main()

# SPDX-License-Identifier: MIT
"""Who waits for whom, in programs that hang in known ways.

    waits_test.py TTQ PROGRAMS
"""

import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time

from cores import HERE, SKIPPED, check, end, finish, gcore, imported, program, rows, run, start

sys.path.insert(0, os.path.join(HERE, "../support"))
from interpreters import interpreters  # noqa: E402


def waits(trace, when="end"):
    return {r["thread"]: r for r in rows(trace, f"waits at {when}")}


def lock_order(found, what):
    for one, other, name in ((2, 3, "lock_b"), (3, 2, "lock_a")):
        row = found[one]
        check(row["kind"] == "mutex" and name in row["what"] and row["held_by"] == other,
              f"{what}: thread {one}: {row}")
        check(re.match(r"deadlock: thread \d → lock_. \S+ → thread \d → lock_. \S+ → thread \d$",
                       row["cycle"] or ""), f"{what}: {row['cycle']}")
    check(found[1]["cycle"] is None, f"{what}: {found[1]}")


def snapshot(how, scratch, pid=None, until="ready"):
    process = start([program("hangs"), how], scratch, until=until)
    trace = os.path.join(scratch, how + ".ttq")
    run("snapshot", "-q", "-o", trace, str(pid(process) if pid else process.pid))
    found = waits(trace)
    return process, trace, found


def natives(scratch):
    process, trace, found = snapshot("order", scratch)
    lock_order(found, "snapshot")
    text = run("-t", trace, "waits").stdout
    check("deadlock: thread 2" in text and "lock_b" in text, text)
    core = gcore(process.pid, os.path.join(scratch, "core"))
    end(process)
    if core:
        lock_order(waits(imported(core, os.path.join(scratch, "core.ttq"))), "core dump")

    process, trace, found = snapshot("self", scratch)
    end(process)
    row = found[1]
    check(row["kind"] == "mutex" and row["held_by"] == 1 and "thread 1 → lock_a" in row["cycle"],
          f"self: {row}")

    process, trace, found = snapshot("join", scratch)
    end(process)
    check(found[2]["kind"] == "join" and found[2]["held_by"] == 3 and found[3]["held_by"] == 2
          and "deadlock" in (found[2]["cycle"] or ""), f"join: {found}")

    process, trace, found = snapshot("condition", scratch)
    end(process)
    row = found[2]
    check(row["kind"] == "condition" and "never" in row["what"] and row["held_by"] is None,
          f"condition: {row}")

    process, trace, found = snapshot("semaphore", scratch)
    end(process)
    check(found[2]["kind"] == "semaphore" and "empty" in found[2]["what"], f"{found}")

    process, trace, found = snapshot("pipes", scratch)
    end(process)
    for thread in (2, 3):
        row = found[thread]
        check(row["kind"] == "write" and "pipe:[" in row["what"]
              and "write end" in row["what"], f"pipes: {row}")

    process, trace, found = snapshot("fork", scratch, until="child",
                                     pid=lambda p: int(p.said.split()[1]))
    os.kill(int(process.said.split()[1]), signal.SIGKILL)
    end(process)
    check(found[1]["kind"] == "mutex" and "not in this process" in found[1]["what"],
          f"fork: {found}")


# Of each way that hangs.cc knows: the kind, a part of what, and who holds it, by thread.
CPP = {
    "order": {2: ("mutex", "second (", 3), 3: ("mutex", "first (", 2)},
    "members": {2: ("mutex", "two", 3), 3: ("mutex", "one", 2)},
    "lost": {2: ("condition", "never (", None)},
    "future": {2: ("futex", "0x", None)},
    "reader": {2: ("sleep", "", None), 3: ("rwlock", "table (", None)},
    "writer": {3: ("rwlock", "table (", 2), 4: ("rwlock", "table (", 2)},
    "semaphore": {2: ("futex", "empty (", None)},
    "latch": {2: ("futex", "gate (", None)},
    "atomic": {2: ("futex", "word (", None)},
    "recursive": {2: ("sleep", "", None), 3: ("mutex", "again (", 2)},
    "timed": {3: ("mutex", "timed (", 2)},
    "once": {3: ("futex", "once (", None)},
}


def asked(process):
    """The rows of a process that is asked once, and then ended."""
    p = run("snapshot", str(process.pid), "--", "-f", "json", "waits")
    end(process)
    return {r["thread"]: r for r in json.loads(p.stdout)["rows"]}


def cpp(scratch):
    for how, right in CPP.items():
        process = start([program("hangs_cc"), how], scratch)
        found = asked(process)
        for thread, (kind, what, held_by) in right.items():
            row = found.get(thread, {"kind": None, "what": "", "held_by": None, "cycle": None})
            check(row["kind"] == kind and what in row["what"] and row["held_by"] == held_by,
                  f"{how}: thread {thread}: {row}")
            check(bool(row["cycle"]) == (how in ("order", "members")), f"{how}: {row}")
        check(found[1]["kind"] == "join" and found[1]["held_by"] == 2, f"{how}: {found[1]}")
        if how == "reader":
            check(found[3]["what"].endswith("read by 1 thread"), found[3])


# What a thread of Python's does in a system call: the kind, and a part of what.
CALLS = {
    "r, w = os.pipe(); os.read(r, 1)": ("read", "pipe:["),
    "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); s.accept()": ("accept", "listening"),
    "a, b = socket.socketpair(); a.recv(5)": ("read", "unix"),
    "r, w = os.pipe(); select.select([r], [], [])": ("poll", "(read end)"),
    "r, w = os.pipe(); p = select.poll(); p.register(r); p.poll()": ("poll", "(read end)"),
    "e = select.epoll(); e.poll()": ("poll", "eventpoll"),
    "os.mkfifo('fifo'); open('fifo')": ("open", "fifo"),
    "os.waitpid(os.posix_spawn('/bin/sleep', ['sleep', '9'], {}), 0)": ("child", "process "),
    "f = open('f', 'w'); g = open('f'); fcntl.flock(f, 2); fcntl.flock(g, 2)": ("file lock", "/f"),
    "signal.sigwait([signal.SIGUSR1])": ("signal", "rt_sigtimedwait"),
    "threading.Semaphore(0).acquire()": ("semaphore", "Semaphore.acquire"),
    "threading.Barrier(2).wait()": ("barrier", "Barrier.wait"),
    "q = queue.Queue(1); q.put(1); q.put(2)": ("queue", "Queue.put of q ("),
    "q = queue.Queue(); q.put(1); q.join()": ("queue", "Queue.join of q ("),
    "l = multiprocessing.Lock(); l.acquire(); l.acquire()": ("semaphore", "0x"),
    "concurrent.futures.Future().result()": ("future", "Future.result"),
}


def calls(scratch):
    script = os.path.join(scratch, "calls.py")
    for code, (kind, what) in CALLS.items():
        with open(script, "w") as file:
            file.write("import concurrent.futures, fcntl, multiprocessing, os, queue, select, signal, socket\n"
                       "import threading, time\n"
                       f"def waits():\n    {code}\n"
                       "threading.Thread(target=waits, daemon=True).start()\n"
                       "time.sleep(0.3)\nprint('ready', flush=True)\ntime.sleep(1000)\n")
        process = start(["/usr/bin/python3", script], scratch)
        found = asked(process)
        row = found.get(2, {"kind": None, "what": ""})
        check(row["kind"] == kind and what in row["what"], f"{code}: {row}")


PYTHON = {
    "gil": ("""
import ctypes, threading, time
libc = ctypes.PyDLL(None)
def holds():
    print("ready", flush=True)
    libc.usleep(100000000)
threading.Thread(target=holds, daemon=True).start()
while True: time.sleep(0.01)
""", lambda w: any(r["kind"] == "GIL" and r["held_by"] == 2 for r in w.values())),
    "queue": ("""
import queue, threading, time
q = queue.Queue()
def takes(): q.get()
threading.Thread(target=takes, daemon=True).start()
print("ready", flush=True)
time.sleep(1000)
""", lambda w: w[2]["kind"] == "queue" and w[2]["what"].startswith("Queue.get of q (0x")
             and w[1]["kind"] in ("sleep", "poll")),
    "join": ("""
import threading
done = threading.Event()
def worker(): done.wait()
t = threading.Thread(target=worker, daemon=True)
t.start()
print("ready", flush=True)
t.join()
""", lambda w: w[1]["kind"] == "join" and w[1]["held_by"] == 2 and "Thread.join of t " in w[1]["what"]
             and w[2]["kind"] == "event" and "Event.wait of done " in w[2]["what"]),
    "self": ("""
import threading
lock = threading.RLock()
other = threading.Lock()
other.acquire()
def worker():
    with lock:
        other.acquire()
threading.Thread(target=worker, daemon=True).start()
print("ready", flush=True)
lock.acquire()
""", lambda w: w[1]["kind"] == "RLock" and w[1]["held_by"] == 2 and "lock (" in w[1]["what"]
             and w[2]["kind"] == "lock" and "other (" in w[2]["what"] and w[2]["held_by"] is None
             and not w[1]["cycle"] and not w[2]["cycle"]),
}
# Of each CPython: who holds a plain lock is known from 3.11 on.
ORDER = """
import threading, time
lock_a, lock_b = threading.Lock(), threading.Lock()
def takes(one, other):
    with one:
        time.sleep(0.2)
        with other:
            pass
threading.Thread(target=takes, args=(lock_a, lock_b), daemon=True).start()
time.sleep(0.1)
threading.Thread(target=takes, args=(lock_b, lock_a), daemon=True).start()
time.sleep(1)
print("ready", flush=True)
time.sleep(1000)
"""
TASKS = """
import asyncio
tasks = {}
async def waits(other):
    await asyncio.sleep(0.05)
    await tasks[other]
async def never(event):
    await event.wait()
async def main():
    tasks["a"] = asyncio.create_task(waits("b"), name="a")
    tasks["b"] = asyncio.create_task(waits("a"), name="b")
    event = asyncio.Event()
    some = [asyncio.create_task(never(event), name=name) for name in ("one", "two")]
    await asyncio.sleep(0.2)
    print("ready", flush=True)
    await asyncio.gather(*some)
asyncio.run(main())
"""


def python(scratch, interpreter, name, code):
    script = os.path.join(scratch, f"hangs_{name}.py")
    with open(script, "w") as file:
        file.write(code)
    process = start([interpreter, script], scratch)
    time.sleep(0.3)
    trace = os.path.join(scratch, name + ".ttq")
    shutil.rmtree(trace, ignore_errors=True)
    run("snapshot", "-q", "-o", trace, str(process.pid))
    end(process)
    return rows(trace, "waits")


def versions(scratch):
    for version, interpreter in interpreters():
        found = {r["thread"]: r for r in python(scratch, interpreter, "order", ORDER)}
        for one, other in ((2, 3), (3, 2)) if version[1] <= 13 else ():
            row = found[one]
            known = version >= (3, 11) and other
            check(row["kind"] == "lock" and row["what"].startswith("other (")
                  and row["held_by"] == (known or None)
                  and bool(row["cycle"]) == bool(known), f"{version}: thread {one}: {row}")
        found = python(scratch, interpreter, "tasks", TASKS)
        check(any(r["kind"] == "poll" and "eventpoll" in r["what"] for r in found),
              f"{version}: the loop's thread: {found}")
        tasks = {r["task"]: r for r in found if r["kind"] == "task"}
        check(set(tasks) == {"a", "b", "one", "two", "Task-1"}, f"{version}: {sorted(tasks)}")
        if len(tasks) != 5:
            continue
        check(tasks["a"]["awaits"] == "b" and tasks["a"]["awaited_by"] == "b"
              and tasks["a"]["cycle"] in ("deadlock: a → b → a", "deadlock: b → a → b")
              and tasks["b"]["cycle"] == tasks["a"]["cycle"], f"{version}: {tasks['a']}")
        check(tasks["Task-1"]["awaits"] == "one, two (gather)" and not tasks["Task-1"]["cycle"]
              and tasks["Task-1"]["thread"] == 1, f"{version}: {tasks['Task-1']}")
        check("wait() at locks.py:" in tasks["one"]["awaits"] and not tasks["one"]["cycle"]
              and tasks["one"]["awaited_by"] == "Task-1"
              and "never() at hangs_tasks.py:8" in tasks["one"]["what"], f"{version}: {tasks['one']}")


def pythons(scratch):
    for name, (code, right) in PYTHON.items():
        found = {r["thread"]: r for r in python(scratch, "/usr/bin/python3", name, code)}
        check(right(found), f"{name}: {found}")


def recorded(scratch):
    """A recording knows since when."""
    trace = os.path.join(scratch, "recorded.ttq")
    run("record", "-q", "-o", trace, "--", program("hangs"), "order", "4", status=None)
    found = waits(trace)
    lock_order(found, "recording")
    for thread in (2, 3):
        since = found[thread]["since"]
        called = rows(trace, f"calls to pthread_mutex_lock in thread {thread} | last 1")
        check(since is not None and called and since >= called[0]["time"],
              f"recording: since {since}, called {called}")


def main():
    with tempfile.TemporaryDirectory() as scratch:
        process = start([program("hangs"), "order"], scratch)
        p = run("snapshot", "-q", "-o", os.path.join(scratch, "may.ttq"), str(process.pid),
                status=None)
        end(process)
        recorded(scratch)
        if p.returncode != 0:
            print(p.stderr.strip())
            sys.exit(SKIPPED)
        natives(scratch)
        cpp(scratch)
        calls(scratch)
        pythons(scratch)
        versions(scratch)
    finish()


main()

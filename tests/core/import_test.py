# SPDX-License-Identifier: MIT
"""Core dumps of a C program and of Python against gdb, and damaged ones.

    import_test.py TTQ PROGRAMS     PROGRAMS: where programs/ was built
"""

import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

from cores import (SKIPPED, Failures, ask, check, end, finish, gcore, gdb, imported, kernel_core,
                   program, rows, run, start)

GPRS = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
        "r13", "r14", "r15", "rip"]


def gdb_stacks(exe, core):
    """By os thread id, the functions of each frame."""
    stacks, current = {}, None
    for line in gdb(exe, core, "thread apply all backtrace").splitlines():
        thread = re.match(r"Thread \d+ \((?:Thread 0x[0-9a-f]+ )?\(?LWP (\d+)\)?", line)
        if thread:
            current = stacks.setdefault(int(thread[1]), [])
        frame = re.match(r"#\d+ +(?:0x[0-9a-f]+ in )?([^ (]+)", line)
        if frame and current is not None:
            current.append(frame[1])
    return stacks


def our_stacks(trace):
    tids = {r["thread"]: r["os_tid"] for r in rows(trace, "threads")}
    stacks = {}
    for row in rows(trace, "backtrace all threads"):
        stacks.setdefault(tids[row["thread"]], []).append(row["function"])
    return stacks


def bare(function):
    """Without what tells one alias of glibc's from another."""
    return re.sub(r"^_*(GI_)?_*", "", function.split("@")[0])


def same_stacks(exe, core, trace, what):
    theirs, ours = gdb_stacks(exe, core), our_stacks(trace)
    if not check(theirs and set(theirs) == set(ours), f"{what}: threads {theirs} and {ours}"):
        return
    for tid, frames in theirs.items():
        # How far below main or a thread's first function a debugger goes is a matter of taste.
        mine = [f for f in ours[tid] if f]
        until = min(len(frames), len(mine))
        named = [(a, b.split("@")[0]) for a, b in zip(frames[:until], mine[:until]) if a != "??"]
        alike = [a for a, b in named if bare(a) == bare(b)]
        check(until > 1 and len(alike) == len(named), f"{what}: thread {tid}: {frames} and {mine}")


def same_registers(exe, core, trace, what):
    text = gdb(exe, core, "info registers")
    theirs = {m[1]: int(m[2], 16) for m in re.finditer(r"^(\w+) +(0x[0-9a-f]+)", text, re.M)}
    ours = rows(trace, "registers")[0]
    for name in GPRS:
        check(int(ours[name], 16) == theirs[name], f"{what}: {name}: {ours[name]}, {theirs[name]}")


def c_program(scratch):
    cores = []
    for name in ("crash", "crash_optimised"):
        core = kernel_core([program(name)], scratch)
        if core:
            cores.append((name, core))
    for name, core in cores:
        trace = imported(core, os.path.join(scratch, name + ".ttq"))
        same_stacks(program(name), core, trace, name)
        same_registers(program(name), core, trace, name)
        crash = rows(trace, "crash")[0]
        check(crash["cause"] == "a null pointer" and crash["signal"] == "SIGSEGV",
              f"{name}: crash says {crash['cause']}")
        check(crash["access"] == "read" and crash["instruction"], f"{name}: {crash['instruction']}")
    if not cores:
        return ""
    name, core = cores[0]
    trace = os.path.join(scratch, "crash.ttq")
    for query, value in (("print n->value", 42), ("print k in frame 2", 2),
                         ("print tls_value in thread 2", 77), ("print lock.__data.__lock", 2)):
        row = rows(trace, query)[0]
        check(str(row.get("value")) in (str(value), hex(value)), f"{query}: {row}")
    # gdb says `(const char *) 0x… "first"`, and of arrays their text.
    check("first" in str(rows(trace, "print n->name")[0]), "print n->name")
    check("hello from main" in str(rows(trace, "print text in frame 4")[0]), "print text")
    check("2.5" in str(rows(trace, "print ratio")[0]), "print ratio")
    check(any(r["path"].endswith("/crash") for r in rows(trace, "modules")), "modules")
    check(any(r["protection"].startswith("rw") for r in rows(trace, "maps")), "maps")
    node = rows(trace, "print n")[0]["value"]
    heap = ask(trace, f"heap {node}")
    check(heap["rows"] and heap["rows"][0]["usable"] == 24, f"heap {node}: {heap}")
    return core


def filters(scratch):
    for value in ("0x3f", "0"):
        core = kernel_core([program("crash")], scratch, value)
        if not core:
            continue
        trace = imported(core, os.path.join(scratch, "filter.ttq"))
        if value == "0x3f":
            same_stacks(program("crash"), core, trace, "coredump_filter 0x3f")
            continue
        # No memory at all: registers, and no more is claimed.
        same_registers(program("crash"), core, trace, "coredump_filter 0")
        memory = ask(trace, "registers")
        check(len(memory["rows"]) == 1, "registers without memory")
        rsp = memory["rows"][0]["rsp"]
        row = rows(trace, f"memory {rsp} len 8")[0]
        check(row["bytes"] is None, f"memory that was not dumped: {row}")


def packed(core, scratch):
    for tool, suffix in (("zstd", ".zst"), ("lz4", ".lz4"), ("gzip", ".gz")):
        if not shutil.which(tool):
            print(f"no {tool} here")
            continue
        path = os.path.join(scratch, "packed" + suffix)
        with open(path, "wb") as out:
            subprocess.run([tool, "-qc" if tool != "gzip" else "-c", core], stdout=out, check=True)
        trace = imported(path, os.path.join(scratch, "packed.ttq"))
        check(rows(trace, "crash")[0]["cause"] == "a null pointer", f"packed by {tool}")
        with open(path, "r+b") as out:
            out.truncate(os.path.getsize(path) // 2)
        p = run("import", path, "-o", os.path.join(scratch, f"half{suffix}.ttq"), status=None)
        check(p.returncode in (0, 3) and "cut off" in p.stderr, f"half of {suffix}: {p.stderr}")


def damaged(core, scratch):
    with open(core, "rb") as file:
        whole = file.read()
    path = os.path.join(scratch, "damaged")
    trace = os.path.join(scratch, "damaged.ttq")

    def attempt(content, status=None):
        shutil.rmtree(trace, ignore_errors=True)
        with open(path, "wb") as file:
            file.write(content)
        p = run("import", path, "-o", trace, "-q", status=None)
        check(p.returncode in (0, 3) if status is None else p.returncode == status,
              f"status {p.returncode}: {p.stderr}")
        return p.stderr

    check("not a core dump" in attempt(b"#!/bin/sh\n", 3), "a script")
    check("empty" in attempt(b"", 3), "an empty file")
    check("not a core dump" in attempt(open(program("crash"), "rb").read(), 3), "a program")
    check("aarch64" in attempt(whole[:18] + struct.pack("<H", 183) + whole[20:], 3), "a foreign one")
    check("32-bit" in attempt(whole[:4] + b"\1" + whole[5:], 3), "a 32-bit one")
    check("cut off" in attempt(whole[:200], 3), "cut off in its headers")
    # Cut off in memory: what is there still answers, and no answer is called complete.
    check("cut off" in attempt(whole[:len(whole) // 2], 0), "half of it")
    answer = ask(trace, "registers")
    check(len(answer["rows"]) == 1 and answer["complete"] is False, f"half of it: {answer}")
    # Anything may be wrong in it: an error or a recording, never a crash of ttq.
    random.seed(24)
    head = min(len(whole), 24000)
    for _ in range(40):
        content = bytearray(whole[:400000])
        for _ in range(random.choice((1, 3, 20))):
            at = random.randrange(head)
            content[at] = random.choice((0, 0xff, random.randrange(256)))
        attempt(bytes(content))
        if os.path.isdir(trace):
            run("query", "-t", trace, "-f", "json", "backtrace all threads", status=None)


def other_version(scratch):
    """A file of the same name with another build-id is not used, and said."""
    # One that no other test needs: it goes away.
    binary = os.path.join(scratch, "mine", "crash")
    os.mkdir(os.path.dirname(binary))
    shutil.copy(program("crash"), binary)
    core = kernel_core([binary], scratch)
    root = os.path.join(scratch, "root")
    place = root + binary
    os.makedirs(os.path.dirname(place), exist_ok=True)
    shutil.copy(program("hangs"), place)
    away = os.path.join(scratch, "away")
    moved = imported(core, os.path.join(scratch, "exe.ttq"), "--exe", program("hangs"))
    p = run("import", core, "-o", os.path.join(scratch, "exe2.ttq"), "--exe", program("hangs"))
    check("not used" in p.stderr, f"another program: {p.stderr}")
    check(rows(moved, "crash")[0]["cause"] == "a null pointer", "the right one is found all the same")
    os.makedirs(away, exist_ok=True)
    shutil.copy(binary, os.path.join(away, "renamed"))
    os.rename(binary, binary + ".away")
    try:
        p = run("import", core, "-o", os.path.join(scratch, "gone.ttq"))
        check("build-id" in p.stderr or "not there" in p.stderr, f"a program that is gone: {p.stderr}")
        found = imported(core, os.path.join(scratch, "found.ttq"), "--search", away)
        check(rows(found, "crash")[0]["function"] == "depth", "--search, by build-id")
        p = run("import", core, "-o", os.path.join(scratch, "rooted.ttq"), "--sysroot", root)
        check("build-id" in p.stderr, f"another version in the sysroot: {p.stderr}")
    finally:
        os.rename(binary + ".away", binary)


PYTHON = """
import sys, threading, time
class Account:
    def __init__(self, owner): self.owner = owner; self.balance = 12
def inner(account, amount):
    note = "why " + account.owner
    try:
        raise ValueError("in flight")
    except ValueError as error:
        print("ready", flush=True)
        time.sleep(1000)
def outer(n):
    values = [1, 2, {"k": n}]
    inner(Account("ann"), n * 2)
def other():
    held = "other thread"
    time.sleep(1000)
threading.Thread(target=other, daemon=True).start()
time.sleep(0.1)
outer(21)
"""


def python_program(scratch):
    script = os.path.join(scratch, "program.py")
    with open(script, "w") as file:
        file.write(PYTHON)
    pythons = ["/usr/bin/python3"]
    for version in ("3.9", "3.10", "3.12", "3.13"):
        home = os.path.expanduser("~/.pyenv/versions")
        if os.path.isdir(home):
            pythons += [os.path.join(home, d, "bin/python3") for d in sorted(os.listdir(home))
                        if d.startswith(version + ".")][:1]
    for python in pythons:
        process = start([python, script], scratch)
        core = gcore(process.pid, os.path.join(scratch, "python.core"))
        end(process)
        if not core:
            return
        trace = imported(core, os.path.join(scratch, "python.ttq"))
        stack = rows(trace, "py backtrace all threads")
        names = [(r["function"], r["line"]) for r in stack]
        for expected in (("inner", 11), ("outer", 14), ("<module>", 20), ("other", 17)):
            check(expected in names, f"{python}: {expected} is not in {names}")
        local = {r["name"]: r["value"] for r in rows(trace, "py locals in frame 1")}
        check(local.get("n") == "21" and "'k': 21" in local.get("values", ""), f"{python}: {local}")
        local = {r["name"]: r["value"] for r in rows(trace, "py locals")}
        check(local.get("note") == "'why ann'" and local.get("amount") == "42",
              f"{python}: {local}")
        value = rows(trace, "py print account.balance")
        check(value and "12" in str(value[0]), f"{python}: py print: {value}")
        found = rows(trace, "objects of type Account")
        check(len(found) == 1, f"{python}: objects of type Account: {found}")
        if found:
            row = rows(trace, f"object {found[0]['address']}")[0]
            check(row["attributes"].get("owner") in ("'ann'", "ann") or "ann" in str(row["attributes"]),
                  f"{python}: {row['attributes']}")
        mixed = [r["function"] for r in rows(trace, "backtrace mixed all threads")]
        check("inner" in mixed and "outer" in mixed and any("EvalFrame" in f for f in mixed if f),
              f"{python}: mixed {mixed}")
        check(mixed.index("inner") < mixed.index("outer"), f"{python}: mixed {mixed}")
        os.unlink(core)


def main():
    if not shutil.which("gdb"):
        print("no gdb here")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as scratch:
        core = c_program(scratch)
        if not core:
            process = start([program("crash"), "wait"], scratch)
            core = gcore(process.pid, os.path.join(scratch, "g.core"))
            end(process)
            if not core:
                sys.exit(SKIPPED)
            trace = imported(core, os.path.join(scratch, "g.ttq"))
            same_stacks(program("crash"), core, trace, "gcore")
            python_program(scratch)
            finish()
        filters(scratch)
        packed(core, scratch)
        damaged(core, scratch)
        other_version(scratch)
        python_program(scratch)
    finish()


main()

# SPDX-License-Identifier: MIT
"""Of a core dump's or a snapshot's past nothing is known: every question about it is an error, in
every front end, and never an answer without rows.

    truth_test.py TTQ PROGRAMS
"""

import json
import os
import re
import subprocess
import sys
import tempfile

from cores import (ENVIRONMENT, SKIPPED, TTQ, check, end, finish, imported, kernel_core, gcore,
                   program, rows, run, start)

# One of each source that is about what happened.
HISTORY = [
    "last write to 0x404000", "first write to ratio", "next write to ratio after 0",
    "writes to ratio", "reads of ratio", "accesses to ratio", "events", "events signal",
    "executions of depth", "calls to depth", "py calls to f", "py executions of f",
    "py changes of x in f", "creation of 0x404000", "deallocation of 0x404000",
    "lifetime of 0x404000", "refcounts of 0x404000", "heap leaks", "why is 0x404000 still alive",
    "why was 0x404000 freed too early", "origin of ratio",
    "trace of depth", "trace of (crash)", "py trace of f", "next read of ratio after 0",
    "py executions of f:1", "who last wrote ratio", "calls to depth | count",
    "print ratio at (last write to ratio)", "backtrace at (calls to depth | first 1)",
]
STATE = ["crash", "registers", "backtrace", "backtrace all threads", "memory $rsp len 8", "maps",
         "modules", "threads", "print ratio", "print n->value", "source", "disassemble depth",
         "py backtrace", "py locals", "objects of type int"]


def questions(trace):
    for query in HISTORY:
        for how in ([], ["--explain"], ["--full-scan"]):
            p = run("query", "-t", trace, *how, query, status=2)
            # What the language itself does not take would prove nothing.
            check("is unknown" in p.stderr and "no recording" in p.stderr and not p.stdout,
                  f"{query} {how}: {p.stderr}{p.stdout}")


# What has a word for the time before.
BEFORE = ["print ratio at start", "registers at start", "backtrace at start + 1", "maps at start"]


def states(trace):
    for query in BEFORE:
        p = run("query", "-t", trace, query, status=2)
        check("is unknown" in p.stderr and not p.stdout, f"{query}: {p.stderr}{p.stdout}")
    for row in rows(trace, "crash"):
        check(row["origin"] is None and row["last_writes"] is None, f"crash: {row}")
    for query in STATE:
        p = run("query", "-t", trace, "-f", "json", query, status=None)
        check(p.returncode == 0 or "is unknown" not in p.stderr, f"{query}: {p.stderr}")
        check("never" not in p.stderr, f"{query}: {p.stderr}")
    for column in ("start", "instructions"):
        check(rows(trace, "threads")[0][column] is None, f"threads tell {column}")
    check(rows(trace, "maps")[0]["since"] is None, "maps tell since when")
    modules = rows(trace, "modules")
    check(modules[0]["loaded"] is None, "modules tell when they were loaded")
    # The page that RELRO made read-only is no module of its own.
    paths = [m["path"] for m in modules]
    check(len(paths) == len(set(paths)), f"a module twice: {paths}")
    info = run("info", trace).stdout
    check("unknown" in info and "writes" not in info, info)


def front_ends(trace, scratch):
    p = run("diff", trace, trace, status=None)
    check(p.returncode in (2, 3) and "is unknown" in p.stderr and not p.stdout.strip(),
          f"diff: {p.returncode} {p.stderr}{p.stdout}")
    questions = os.path.join(scratch, "questions.yaml")
    with open(questions, "w") as file:
        file.write("- {name: nobody wrote it, query: writes to ratio, expect: none}\n")
    p = run("batch", "-f", "jsonl", questions, trace, status=None)
    check(p.returncode != 0 and '"failed"' in p.stdout and "is unknown" in p.stdout,
          f"batch takes it for proof: {p.stdout}{p.stderr}")
    python = os.path.join(os.path.dirname(TTQ), "python")
    code = ("import sys, ttq\n"
            "with ttq.open(sys.argv[1]) as t:\n"
            "    for q in ('writes to ratio', 'calls to depth', 'events', 'py calls to f'):\n"
            "        try:\n"
            "            r = list(t.query(q))\n"
            "        except ttq.Error as e:\n"
            "            assert 'is unknown' in str(e), e\n"
            "        else:\n"
            "            raise SystemExit(f'{q}: {r}')\n"
            "    assert len(list(t.query('registers'))) == 1\n"
            "    assert t.history_unknown and t.processes[0].history_unknown\n"
            "    assert 'one moment' in repr(t) and 'instructions' not in repr(t), repr(t)\n"
            "    try:\n"
            "        raise SystemExit(t.at('start'))\n"
            "    except ttq.Error as e:\n"
            "        assert 'is unknown' in str(e), e\n")
    if not os.path.isdir(python):
        print("no Python package is built here")
        return
    p = subprocess.run([sys.executable, "-c", code, trace], capture_output=True, text=True,
                       env=dict(ENVIRONMENT, PYTHONPATH=python))
    check(p.returncode == 0, f"Python, which stands on the C API: {p.stderr}")


# Front ends that do not show a query's rows as they are.
def others(trace, scratch):
    home = dict(ENVIRONMENT, TTQ_HOME=scratch)
    listed = json.loads(subprocess.run([TTQ, "ls", "-f", "json"], capture_output=True, text=True,
                                       env=home).stdout)
    check([r["instructions"] for r in listed] == [None], f"ls: {listed}")
    page = os.path.join(scratch, "page.html")
    run("report", "-o", page, trace)
    with open(page) as file:
        text = file.read()
    check("What happened before this core dump is unknown" in text, "report says so")
    check(not re.search(r"\d instructions", text) and '"instructions":0' not in text,
          "report counts instructions")
    p = run("shell", trace, input="writes to ratio\nregisters at start\n", status=None)
    check((p.stdout + p.stderr).count("is unknown") == 2, f"shell: {p.stdout}{p.stderr}")
    said = agent(trace)
    check(said.count("is unknown") >= 3 and "no rows" not in said and " | unknown | " in said,
          f"mcp: {said}")
    if os.path.exists("/usr/bin/gdb"):
        p = run("gdb", trace, "--", "-nx", "-batch", "-ex", "bt", "-ex", "monitor ttq writes to ratio",
                "-ex", "reverse-continue", status=None)
        check("is unknown" in p.stderr and "depth (n=" in p.stdout
              and "No more reverse-execution history" in p.stdout + p.stderr
              and (p.stdout + p.stderr).count("is unknown") == 2, f"gdb: {p.stdout}{p.stderr}")


def agent(trace):
    lines = [{"method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                                                 "clientInfo": {"name": "test", "version": "1"}}}]
    for name, more in (("query", {"text": "writes to ratio"}), ("query", {"text": "events"}),
                       ("autopsy", {}), ("recordings", {"folder": os.path.dirname(trace)})):
        lines.append({"method": "tools/call",
                      "params": {"name": name, "arguments": more if "folder" in more else
                                 {"recording": trace, **more}}})
    text = "".join(json.dumps({"jsonrpc": "2.0", "id": i, **line}) + "\n"
                   for i, line in enumerate(lines))
    return run("mcp", input=text, status=None).stdout


def main():
    with tempfile.TemporaryDirectory() as scratch:
        core = kernel_core([program("crash")], scratch)
        if not core:
            process = start([program("crash"), "wait"], scratch)
            core = gcore(process.pid, os.path.join(scratch, "core"))
            end(process)
        if not core:
            sys.exit(SKIPPED)
        trace = imported(core, os.path.join(scratch, "core.ttq"))
        questions(trace)
        states(trace)
        front_ends(trace, scratch)
        others(trace, scratch)
    finish()


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Conditions on the arguments of calls, for functions that are inlined, that begin with others that
are, and whose arguments have the names of columns. gdb says with what each call was made.

    conditions_test.py TTQ FOLDER-OF-PROGRAMS
"""

import collections
import json
import os
import subprocess
import sys
import tempfile

TTQ, FOLDER = sys.argv[1:3]
HERE = os.path.dirname(os.path.abspath(__file__))

# A function, what gdb is asked for, and ways to say the same of a call.
ASKED = [
    ("inner", "v", ["v", "args.v", "(long)args.v"]),
    ("middle", "q->value", ["q->value", "args.q->value", "(*args.q).value"]),
    ("plain", "q", ["q", "args.q", "(char)args.q"]),
    ("direct", "p->value", ["p->value", "args.p->value", "((Node*)args.p)->value"]),
    ("direct", "line", ["line", "args.line"]),
    ("simple", "q", ["q", "args.q"]),
    ("either", "w", ["w", "args.w + 0"]),
    ("Sum::add", "line", ["line", "args.line"]),
    ("Sum::add", "this->total", ["this->total", "args.this->total", "total"]),
    ("Sum::begins", "thread", ["thread", "args.thread"]),
    ("Sum::begins", "file", ["file", "(int)args.file"]),
]
failures = []


def check(condition, *about):
    if not condition:
        failures.append(" ".join(str(a) for a in about))


def ask(trace, query):
    run = subprocess.run([TTQ, "query", "-t", trace, "-f", "json", query], capture_output=True,
                         text=True, timeout=120)
    if run.returncode != 0:
        failures.append(f"{query}\n{run.stderr}")
        return {"rows": [], "complete": None, "note": run.stderr}
    return json.loads(run.stdout)


def error(trace, query, *wanted):
    run = subprocess.run([TTQ, "query", "-t", trace, query], capture_output=True, text=True,
                         timeout=120)
    check(run.returncode == 2 and all(text in run.stderr for text in wanted), query, run.returncode,
          run.stdout, run.stderr)


def in_gdb(program, function, expression):
    run = subprocess.run(
        ["gdb", "-batch", "-nx", "-iex", "set auto-load safe-path /", "-ex",
         f"python function, expression = {function!r}, {expression!r}",
         "-x", f"{HERE}/arguments_in_gdb.py", program], capture_output=True, text=True, timeout=120)
    values = [line.split()[1] for line in run.stdout.splitlines() if line.startswith("value ")]
    check(values, program, function, run.stdout, run.stderr)
    return [None if value == "?" else int(value) for value in values]


def conditions(name, trace):
    for function, expression, forms in ASKED:
        values = in_gdb(f"{FOLDER}/{name}", function, expression)
        known = collections.Counter(v for v in values if v is not None)
        for form in forms:
            about = f"{name}: calls to {function} where {form}"
            answer = ask(trace, f"calls to {function} where {form} > 45 | count")
            count = answer["rows"][0]["count"] if answer["rows"] else None
            wanted = sum(n for value, n in known.items() if value > 45)
            # Where gdb knows none, the recording may.
            least, most = wanted, wanted + values.count(None)
            check(count is not None and least <= count <= most, about, count, "not", wanted,
                  answer["note"])
            all_known = count == wanted and None not in values
            check(answer["complete"] or not all_known, about, answer["note"])
            both = ask(trace, f"calls to {function} where {form} > 45 or {form} <= 45 | count")
            total = both["rows"][0]["count"] if both["rows"] else None
            check(total == len(values) or not both["complete"], about, "is null in",
                  len(values) - (total or 0), "rows, and the answer says that it is complete")
            check(total is not None and total >= len(values) - values.count(None), about, total)


def frames(trace):
    """`at (calls to F)` is about F, not about what is inlined where it begins."""
    for function, variable in (("plain", "q"), ("middle", "q->value"), ("simple", "q"),
                               ("Sum::add", "this->total"), ("direct", "p->value")):
        calls = f"calls to {function} where args.{variable} is not null"
        row = ask(trace, f"{calls} | first 1 | select function, args, {variable}")["rows"][0]
        printed = ask(trace, f"print {variable} at ({calls})")["rows"][0]
        check(printed["value"] == str(row[variable]), function, printed, row)
        stack = ask(trace, f"backtrace at ({calls})")["rows"]
        check(stack and stack[0]["function"] == row["function"], function, stack[:1])
        check(stack and stack[0]["args"] == row["args"], function, stack[:1], row)
        rows = ask(trace, f"{calls} | first 1 | select time, thread | backtrace")["rows"]
        check([f["function"] for f in rows[0]["backtrace"]] == [f["function"] for f in stack],
              function, rows)
        if len(stack) > 1:
            outer = ask(trace, f"source at ({calls}) in frame 1")["rows"]
            check(any(line["current"] == 1 and line["line"] == stack[1]["line"] for line in outer),
                  function, outer)


# A source, and names that are nothing there: one that is nearly a column's, one that is only a
# variable of another function's, one that nothing has.
SOURCES = [
    ("calls to direct", "tim", "time"), ("calls to direct", "z", None),
    ("calls to direct", "argz.p", None), ("calls to plain", "v", None),
    ("writes to sink", "previus", "previous"), ("reads of sink", "funktion", "function"),
    ("executions of simple", "instructon", "instruction"), ("backtrace at end", "fram", "frame"),
    ("events", "detal", "detail"), ("threads", "nothing_at_all", None),
    ("modules", "nam", "name"), ("maps", "pth", "path"),
    ("memory sum", "addres", "address"), ("registers", "raxx", "rax"),
    ("print sum", "typ", "type"), ("disassemble simple", "addres", "address"),
    ("source at (calls to simple)", "lin", "line"), ("origin of sink", "hopp", "hop"),
    ("heap leaks", "blocs", "blocks"), ("crash", "signul", "signal"),
]


def names(trace):
    """A name that is nothing is an error before there are rows, whatever stage it is in."""
    for source, name, meant in SOURCES:
        where = f"{name} = 1"
        for stage in (f"select {name}", f"where {where}", f"where 1 = 1 and {name} is null",
                      f"sort by {name}", f"count by {name}", f"distinct {name}"):
            wanted = ["there is no column " + name.split(".")[0]]
            if meant:
                wanted.append(f"did you mean {meant}")
            error(trace, f"{source} | {stage}", *wanted)
    error(trace, "calls to direct where args.lin = 3", "there is no argument lin", "line")
    error(trace, "writes to sink where size == 4 and value != args", "only the rows of `calls to`")
    error(trace, "writes to sink | select args", "only the rows of `calls to`")
    error(trace, "calls to direct where 3 == args", "neither")
    check("error" not in ask(trace, "calls to direct | select python.line, args.p"), "python.line")
    # What is in scope somewhere is no mistake, nor are globals, members, enumerators, types.
    for query in ("writes to sink | select w | first 1", "calls to Sum::add | select total",
                  "calls to simple | select sum.count", "writes to sink where w = 3",
                  "calls to simple | select sizeof(Node)", "calls to direct | select p->next"):
        check("error" not in ask(trace, query), query)
    # An argument's name wins over a column's in a condition, and the answer says so.
    answer = ask(trace, "calls to direct where line = 45")
    check(len(answer["rows"]) == 1 and "args.line" in answer["note"], answer)
    after = ask(trace, "calls to direct | select line, time | where line > 1000")
    check(after["rows"] == [], after)


def main():
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("conditions_O1", "conditions_O2"):
            trace = f"{scratch}/{name}.ttq"
            subprocess.run([TTQ, "record", "-q", "-o", trace, f"{FOLDER}/{name}"], check=True,
                           capture_output=True, timeout=120)
            conditions(name, trace)
            frames(trace)
        names(trace)


try:
    main()
finally:
    for failure in failures:
        print(failure, file=sys.stderr)
sys.exit(1 if failures else 0)

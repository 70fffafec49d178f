#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# What a recording says of objects, variables and calls, compared with what the recorded script
# printed of itself (lives.py) or is known to do (variables.py).
# Usage: history_test.py TTQ [INTERPRETER...]

import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import asking  # noqa: E402
from interpreters import every, interpreters  # noqa: E402

HERE = pathlib.Path(__file__).parent
problems = []


class Recording:
    def __init__(self, ttq, directory, interpreter, script):
        self.ttq, self.interpreter = ttq, interpreter
        self.script = str(HERE / script)
        self.path = f"{directory}/{script}.ttq"
        # Small blocks: what is found must go on from one to the next.
        run = subprocess.run([ttq, "record", "--block-size", "1", "-o", self.path, "--", interpreter, "-S", self.script],
                             check=True, capture_output=True, text=True)
        self.output = run.stdout

    def ask(self, query, process=None):
        of = ["-p", str(process)] if process else []
        run = subprocess.run([self.ttq, "-t", self.path, "-f", "json", *of, query],
                             capture_output=True, text=True)
        if run.returncode != 0:
            self.fail(query, run.stderr)
            return []
        return json.loads(run.stdout)["rows"]

    def ask_all(self, queries, process=None):
        try:
            return asking.rows(self.ttq, self.path, queries, *(["-p", str(process)] if process else []))
        except AssertionError as error:
            self.fail("questions", error)
            return [[] for _ in queries]

    def forget_frames(self):
        """The history of frames is to be made again."""
        for file in pathlib.Path(self.path).glob("python-frames-*"):
            file.unlink()

    def fail(self, what, got):
        problems.append(f"{self.interpreter}: {what}: {got}")

    def expect(self, what, got, want):
        if got != want:
            self.fail(what, f"want {want}, got {got}")

    def changes(self, wanted):
        """`wanted`: of each query the values, and of some the lines."""
        for (query, (want, lines)), rows in zip(wanted.items(), self.ask_all(wanted)):
            self.expect(query, [(row["old"], row["new"]) for row in rows], want)
            if lines:
                self.expect(query, [row["python"]["line"] for row in rows], lines)


def line_of(script, text):
    lines = (HERE / script).read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if text in line)


def check_lives(r):
    objects = [(row[0], row[1], int(row[2]), int(row[3]), int(row[4]))
               for row in (line.split() for line in r.output.splitlines())]
    lifetimes = r.ask_all([f"lifetime of {kind} {address:#x}" for _, kind, address, _, _ in objects])
    for (name, kind, address, made, freed), lives in zip(objects, lifetimes):
        # Its life is the one during which it was printed of: choose it by the line it is made on.
        lives = [life for life in lives
                 if life["python"] and life["python"]["line"] == made
                 and life["python"]["file"] == r.script]
        r.expect(f"lives of {name} made at line {made}", len(lives), 1)
        if not lives:
            continue
        life = lives[0]
        end = life["freed_time"] or life["created_time"] + 10**12
        created, counts, *of_end = r.ask_all(
            [f"when was {kind} {address:#x} created before {life['created_time'] + 1}",
             f"refcounts of {address:#x} between {life['created_time']} and {end + 1}"] +
            ([f"who freed {address:#x} before {end + 1}", f"why was {address:#x} freed too early at {end + 1}"]
             if life["freed_time"] else []))
        r.expect(f"creation of {name}", [c["time"] for c in created], [life["created_time"]])
        if created:
            stack = created[0]["py_backtrace"]
            r.expect(f"stack of {name}", stack[0]["line"], made)
            r.expect(f"outermost of {name}", stack[-1]["function"], "<module>")
            if not created[0]["backtrace"]:
                r.fail(f"creation of {name}", "no native stack")
        if freed:
            r.expect(f"{name} is freed at line", life["freed_by"]["line"], freed)
            gone = of_end[0] if of_end else []
            r.expect(f"deallocation of {name}", [g["time"] for g in gone], [life["freed_time"]])
        # Counts go from 1 to 0, each from where the one before it ended.
        after = [c["after"] for c in counts]
        # The first is from nothing, whatever was in that memory before.
        r.expect(f"first count of {name}",
                 [(c["before"], c["delta"], c["after"]) for c in counts[:1]], [(0, 1, 1)])
        r.expect(f"counts of {name} follow each other", [c["before"] for c in counts[1:]],
                 after[:-1])
        if life["freed_time"]:
            r.expect(f"last count of {name}", after[-1:], [0])
            r.expect(f"balance of {name}", sum(w["balance"] for w in of_end[1]), 0)
    line = line_of("lives.py", "total += item")
    calls, added, none, on_line = r.ask_all(["py calls to churn", "py calls to add_up", "py calls to churn where n > 50",
                                             f"py calls to lives.py:{line}"])
    r.expect("py calls to churn", [c["args"] for c in calls], [{"n": 50}] * 2)
    r.expect("py calls to add_up", [(c["args"]["items"], c["result"], c["ended"]) for c in added],
             [("[1, 2, 3]", 6, "return"), ("[10, 20]", 30, "return")])
    r.expect("callers of add_up", [c["caller"]["line"] for c in added],
             [line_of("lives.py", "add_up([1"), line_of("lives.py", "add_up([10")])
    r.expect("py calls where", len(none), 0)
    r.expect("py calls to a line", len(on_line), 2)


def check_variables(r):
    totals = [(None, "0"), ("0", "1"), ("1", "3"), ("3", "6")]
    counts = [("0", "1"), ("1", "2"), ("2", "3")]
    r.changes({
        "py changes of total in accumulate | last 5":
            ([(None, "0"), ("0", "0"), ("0", "1"), ("1", "3"), ("3", "6")], None),
        "py changes of level": ([(None, "0"), ("0", "1"), ("1", "2"), ("2", "3")], None),
        "py changes of counter.total": (totals, None),
        "py changes of self.total in add": (totals, None),
        "py changes of slotted.total": ([(None, "0"), ("0", "1"), ("1", "2"), ("2", "3")], None),
        "py changes of d['k']":
            ([(None, "10"), ("10", "20"), ("20", "30"), ("30", "99")],
             [line_of("variables.py", 'd["k"] = level')] * 3 + [line_of("variables.py", 'd["k"] = 99')]),
        "py changes of json.marker": ([(None, "1"), ("1", "2")], None),
        "py changes of count in closure": ([(None, "0")] + counts, None),
        "py changes of count in step": (counts, None),
        "py changes of `last` in countdown": ([(None, "3"), ("3", "2"), ("2", "1")], None),
    })
    rows = r.ask("writes to 0x0..0x7fffffffffff by python accumulate | count by python")
    lines = {row["python"]["line"] for row in rows}
    first = line_of("variables.py", "def accumulate")
    if not lines or not all(line is None or first <= line <= first + 4 for line in lines):
        r.fail("by python accumulate", lines)


def check_children(r):
    fork = line_of("children.py", "os.fork()")
    for process, n, outermost in ((2, 3, "<module>"), (3, 4, None)):
        def expect(what, got, want):
            r.expect(f"process {process}: {what}", got, want)

        calls = r.ask("py calls to double", process)
        expect("calls", [(c["args"], c["result"]) for c in calls],
               [({"n": i}, 2 * i) for i in range(n)])
        expect("callers", {c["caller"]["line"] for c in calls},
               {line_of("children.py", "total += double")})
        totals = [(None, "0")] + [(str(i * (i - 1)), str(i * (i + 1))) for i in range(n)]
        changes = r.ask("py changes of total in work", process)
        expect("changes", [(c["old"], c["new"]) for c in changes], totals)
        # From the first instruction on, before the interpreter knows that it was forked.
        for time in (1, calls[0]["time"] if calls else 1):
            stack = r.ask(f"py backtrace at {time}", process)
            frames = [f["function"].rsplit(".", 1)[-1] for f in stack]
            expect(f"frames at {time}", [f for f in frames if f == "fork_and_work"],
                   ["fork_and_work"])
            expect(f"line at {time}", [f["line"] for f in stack if f["function"] == "fork_and_work"],
                   [fork if time == 1 else line_of("children.py", "os._exit")])
            if outermost:
                expect(f"outermost at {time}", frames[-1:], [outermost])
            if calls and time > 1:
                # The function called is the innermost; `depth` counts those below it.
                expect("frames", frames[:2], ["double", "work"])
                expect("depth", calls[0]["depth"], len(frames) - 1)


def check_other_processes(r, directory):
    """A process has a number and a pid; where nobody names one, the answer says that there are more."""
    info = subprocess.run([r.ttq, "info", "-f", "json", r.path], check=True, capture_output=True, text=True)
    pids = {p["process"]: p["pid"] for p in json.loads(info.stdout)["processes"]}
    r.expect("by its pid", r.ask("py calls to double", pids[2]), r.ask("py calls to double", 2))
    said = subprocess.run([r.ttq, "-t", r.path, "py calls to double"], capture_output=True, text=True).stderr
    if "asked of process 1" not in said or "one of 3" not in said:
        r.fail("of which process", said)
    path = f"{directory}/exec.ttq"
    subprocess.run([r.ttq, "record", "-o", path, "--", "sh", "-c", "exec true"], check=True, capture_output=True)
    said = subprocess.run([r.ttq, "-t", path, "py calls to double"], capture_output=True, text=True).stderr
    if not re.search(r"asked of process 2, \S*true, one of 2", said):
        r.fail("what it became", said)
    named = subprocess.run([r.ttq, "-t", path, "-p", "sh", "events exec"], capture_output=True, text=True)
    if named.returncode != 0 or "true" not in named.stdout:
        r.fail("by its name", named)
    every = subprocess.run([r.ttq, "-t", path, "-p", "all", "events exit | count"], capture_output=True, text=True)
    if [line[:9] for line in every.stdout.splitlines() if line.startswith("process")] != ["process 1", "process 2"]:
        r.fail("of all", every)
    nobody = subprocess.run([r.ttq, "-t", path, "-p", "nobody", "threads"], capture_output=True, text=True)
    if nobody.returncode != 2 or not nobody.stderr.startswith("ttq: no process ran nobody; there are "):
        r.fail("of nobody", nobody)


def check_by_python(r):
    """What a source gives `by python` are those of its rows that have that Python function."""
    call = r.ask("py calls to accumulate")[0]
    between = f"between {call['time'] - 20000} and {call['return_time'] + 20000}"
    first = line_of("variables.py", "def accumulate")
    found, line = 0, first + 2
    for source in ('calls to "Py*"', 'executions of "_Py*"', "events", "writes to 0x0..0x7fffffffffff"):
        rows, of_function, of_line = r.ask_all(
            [f"{source} {between}", f"{source} by python accumulate {between}",
             f"{source} by python variables.py:{line} {between}"])
        rows = [row for row in rows if row["python"] and row["python"]["function"] == "accumulate"]
        found += len(rows)
        r.expect(f"{source} by python accumulate", [row["time"] for row in of_function], [row["time"] for row in rows])
        r.expect(f"{source} by python variables.py:{line}", [row["time"] for row in of_line],
                 [row["time"] for row in rows if row["python"]["line"] == line])
    if found < 100:
        r.fail("by python accumulate", f"{found} rows")
    got = r.ask(f"last write to 0x0..0x7fffffffffff by python accumulate {between}")
    r.expect("last by python", [row["python"]["function"] for row in got], ["accumulate"])


def check_growing(r):
    """Rows that are given while the history of frames is still made are those of the whole one."""
    for query in ("py calls to accumulate", "py calls to /^(add|step)$/", "py changes of total in accumulate",
                  "py changes of count in step"):
        whole = r.ask(f"{query} | first 1000000")
        if len(whole) < 2:
            r.fail(query, f"{len(whole)} rows")
        for part, want in (("", whole), (" | first 2", whole[:2]), (" | last 2", whole[-2:])):
            r.forget_frames()
            r.expect(f"{query}{part}, while they are made", r.ask(query + part), want)
    r.forget_frames()
    r.expect("a call that ends long after", [(c["result"], c["ended"]) for c in r.ask("py calls to outlast")],
             [(60000, "return")])
    # Asked of a part, they are made that far, and that is kept.
    first = r.ask("py calls to accumulate | first 1")
    r.forget_frames()
    for _ in range(2):
        r.expect("the calls until then", r.ask(f"py calls to accumulate before {first[0]['time'] + 1}"), first)
        if not list(pathlib.Path(r.path).glob("python-frames-*")):
            r.fail("what was made", "is not kept")


def main():
    ttq = sys.argv[1]
    found = interpreters(sys.argv[2:])
    for _, interpreter in found:
        with tempfile.TemporaryDirectory() as directory:
            check_lives(Recording(ttq, directory, interpreter, "lives.py"))
            variables = Recording(ttq, directory, interpreter, "variables.py")
            check_variables(variables)
            check_by_python(variables)
            check_growing(variables)
            children = Recording(ttq, directory, interpreter, "children.py")
            check_children(children)
            # Which process is asked is no matter of the interpreter.
            if interpreter == every(sys.argv[2:])[0][1]:
                check_other_processes(children, directory)
    if not found:
        print("skipped: no interpreter was found")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()

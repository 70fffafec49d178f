# SPDX-License-Identifier: MIT
"""run.py TTQ DIRECTORY [PYTHON...] [CHECK...]: what ttq says of Python, compared with what Python says itself.

Each interpreter found on this machine runs the programs beside this file under the recorder. The
programs write their own tracebacks and repr of their variables; at the time of each write ttq must
say the same, from memory alone. Without a CPython of a version that ttq knows the test is skipped.
"""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))
import asking  # noqa: E402
from interpreters import interpreters  # noqa: E402

SKIPPED = 77


class Wrong(Exception):
    pass


class Ttq:
    def __init__(self, ttq, home):
        self.ttq, self.home = ttq, home

    def record(self, *command, status=(0,)):
        trace = os.path.join(self.home, os.path.basename(command[-1]) + ".ttq")
        subprocess.run(["rm", "-rf", trace], check=True)
        run = subprocess.run([self.ttq, "record", "-o", trace, "--", *command], text=True,
                             capture_output=True, timeout=600, env={**os.environ, "PYTHONHASHSEED": "0"})
        if run.returncode not in status:
            raise Wrong(f"record: exit {run.returncode}: {run.stderr}")
        return trace

    def ask(self, trace, query, *options):
        run = subprocess.run([self.ttq, "query", "-t", trace, "-f", "json", *options, query], text=True,
                             capture_output=True, timeout=600)
        if run.returncode != 0:
            raise Wrong(f"{query}: exit {run.returncode}: {run.stderr}")
        return json.loads(run.stdout)

    def ask_all(self, trace, queries, *options):
        """The answers, in the order of the queries."""
        try:
            return asking.answers(self.ttq, trace, queries, *options)
        except AssertionError as error:
            raise Wrong(str(error)) from error

    def rows(self, trace, *queries):
        return [answer["rows"] for answer in self.ask_all(trace, queries)]

    def outputs(self, trace, text):
        """(time, thread, text) of each write to stdout that begins with `text`."""
        rows = self.ask(trace, "events output")["rows"]
        return self.writes(rows, text)

    @staticmethod
    def writes(rows, text):
        rows = [(r["time"], r["thread"], bytes.fromhex(r["bytes"]).decode()) for r in rows]
        return [r for r in rows if r[2].startswith(text)]


def same(what, got, wanted):
    if got != wanted:
        raise Wrong(f"{what}:\n  ttq     {got}\n  Python  {wanted}")


# Where repr(locals()) and ttq differ on purpose: ttq shows attributes, as gdb does.
def without_instances(text):
    return re.sub(r"<(?:\w+\.)*(\w+)(?: object at|\([^<>]*\) at remote) 0x[0-9a-f]+>", r"<\1>", text)


def check_situations(ttq, python, version):
    trace = ttq.record(python, "-S", f"{HERE}/programs/situations.py")
    output, backtraces = ttq.rows(trace, "events output", "events output | py backtrace")
    writes = ttq.writes(output, "@")
    if len(writes) < 20:
        raise Wrong(f"only {len(writes)} reports")
    stacks = {r["time"]: r["py_backtrace"] for r in backtraces}
    variables = ttq.rows(trace, *[f"py locals at {at} in thread {thread} in frame 1" for at, thread, _ in writes])
    for (at, thread, text), locals_ in zip(writes, variables):
        said = json.loads(text[1:])
        frames = stacks[at]
        # Frame 0 is report() itself, at the line that writes.
        got = [[f["file"], f["line"], f["function"].split(".")[-1]] for f in frames[1:]]
        same(said["what"] + ", stack", got, [list(f) for f in said["stack"]])
        values = {r["name"]: r["value"] for r in locals_}
        for name, value in said["variables"].items():
            same(f"{said['what']}, {name}", without_instances(values.get(name, "(none)")),
                 without_instances(value))
    # An instruction before the first report, the end: no crash and no false stack.
    if ttq.ask(trace, "py backtrace at start")["rows"]:
        raise Wrong("a Python stack before the first instruction")
    end = ttq.ask(trace, "py backtrace at end all threads")
    if end["rows"] or "interpreter" not in (end["note"] or ""):
        raise Wrong(f"after the end: {end}")
    info = subprocess.run([ttq.ttq, "info", trace, "-f", "json"], capture_output=True, text=True)
    wanted = ".".join(map(str, version))
    if not json.loads(info.stdout)["processes"][0]["python"].startswith(wanted):
        raise Wrong(f"info does not say {wanted}: {info.stdout}")
    # Any time at all must be answered.
    end_time = json.loads(info.stdout)["processes"][0]["instructions"]
    ttq.ask_all(trace, [f"py backtrace at {end_time * i // 40} all threads" for i in range(40)])
    return len(writes)


INSTANCES = {
    "foo": r"<Foo\(an_int=42\) at remote 0x[0-9a-f]+>",
    "deleted": r"<Foo\(a=1, c=3\) at remote 0x[0-9a-f]+>",
    "dict_taken": r"<Foo\(x=1, y=2\) at remote 0x[0-9a-f]+>",
    "large": r"<Foo\(a0=0, a1=1, .*, a39=39\) at remote 0x[0-9a-f]+>",
    "slots": r"<Slots\(a=1, b=\[2\]\) at remote 0x[0-9a-f]+>",
    "both": r"<SlotsAndDict\(extra=3, a=1, b=\[2\]\) at remote 0x[0-9a-f]+>",
    "shown": r"<Shown\(x=1\) at remote 0x[0-9a-f]+>",
    "shown_list": r"ShownList\(\[1\]\)",
    "looped": r"<Foo\(me=<\.\.\.>\) at remote 0x[0-9a-f]+>",
    "null": r"<no object at 0x[0-9a-f]+: its type is a null pointer>",
    "bad": r"<no object at 0x[0-9a-f]+: its type, 0xdeadbeef, is not a type>",
    "freed": r"<no object at 0x[0-9a-f]+: freed: filled with 0xdd by the debug allocator>",
}


def check_instances(ttq, python, version):
    program = shutil.copy(f"{HERE}/programs/instances.py", ttq.home)
    trace = ttq.record(python, "-S", program)
    output = ttq.outputs(trace, "")
    text, ready = "".join(t for _, _, t in output), output[-1][0]
    rows = ttq.ask(trace, f"py locals at {ready}")["rows"]
    values = {r["name"]: r["value"] for r in rows}
    wanted = dict(re.findall(r"^@(\w+)=(.*)$", text, re.M))
    if len(wanted) < 15:
        raise Wrong(f"the program wrote only {sorted(wanted)}")
    for name, value in wanted.items():
        same(name, values[name], value)
    for name, pattern in INSTANCES.items():
        if not re.fullmatch(pattern, values[name]):
            raise Wrong(f"{name}: {values[name]} is not {pattern}")
    addresses = {r["name"]: r["address"] for r in rows}
    expressions = {"foo.an_int + 1": "43", "point[1]": "2", "itself['self']": "{'self': {...}}", "len(my_list)": "2",
                   "data.values[0]": "1", "space.y": "'z'", "Foo": "<class '__main__.Foo'>",
                   "len": "<built-in function len>"}
    (foo,), objects, listing, *printed = ttq.rows(
        trace, f"object Foo {addresses['foo']} at {ready}", f"objects of type Foo at {ready}", f"py source at {ready}",
        *[f"py print {expression} at {ready}" for expression in expressions])
    same("object foo", [foo["type"], foo["repr"], foo["attributes"]],
         ["__main__.Foo", f"<__main__.Foo object at {addresses['foo']}>", {"an_int": "42"}])
    same("objects of type Foo", {r["address"] for r in objects},
         {addresses[n] for n in ("foo", "deleted", "dict_taken", "large", "looped")})
    for (expression, value), got in zip(expressions.items(), printed):
        same(f"py print {expression}", got[0]["value"], value)
    same("py source", [r["source"].strip() for r in listing if r["current"] == ">"], ['print("ready", flush=True)'])
    # The script is edited, then removed, after it ran: its lines come out of the recording.
    with open(program, "w", encoding="utf-8") as file:
        file.write("# Something else.\n" * 200)
    query = f"py source at {ready}"
    same("edited", ttq.ask(trace, query)["rows"], listing)
    os.unlink(program)
    same("removed", ttq.ask(trace, query)["rows"], listing)
    return len(wanted) + len(INSTANCES) + 2


def check_library(ttq, python, version):
    """Objects of the standard library: the repr is the one that Python gives, character by character."""
    trace = ttq.record(python, "-S", f"{HERE}/programs/library.py")
    output = ttq.outputs(trace, "")
    wanted = dict(re.findall(r"^@(\w+)=0x([^\n]*)$", "".join(t for _, _, t in output), re.M))
    if len(wanted) < 150:
        raise Wrong(f"the program wrote only {len(wanted)}")
    ready = [at for at, _, text in output if text.startswith("ready")][-1]
    rows = ttq.ask(trace, f"py locals at {ready} in frame 1")["rows"]
    values = {r["name"][2:]: r["value"] for r in rows if r["name"].startswith("x_")}
    wrong = [f"{name}:\n  ttq     {values.get(name)}\n  Python  {said.split(' ', 1)[1]}"
             for name, said in wanted.items() if values.get(name) != said.split(" ", 1)[1]]
    if wrong:
        raise Wrong(f"{len(wrong)} of {len(wanted)}:\n" + "\n".join(wrong))
    # An enum's own __repr__ is not run and not guessed at.
    if not re.fullmatch(r"<Own\(.*_value_=1.*\) at remote 0x[0-9a-f]+>", values["own"]):
        raise Wrong(f"own: {values['own']}")
    some = [(name, *wanted[name].split(" ", 1)) for name in ("micro", "decimal_7", "task", "items", "rw")]
    objects = ttq.rows(trace, *[f"object 0x{address} at {ready}" for _, address, _ in some])
    for (name, _, said), (row, *_) in zip(some, objects):
        same(f"object {name}", row["repr"], said)
    return len(wanted) + 6


def check_arrays(ttq, python, version):
    if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode != 0:
        return None
    trace = ttq.record(python, f"{HERE}/programs/arrays.py")  # numpy is found by site
    writes = ttq.ask(trace, "events output")["rows"]
    text = "".join(bytes.fromhex(r["bytes"]).decode() for r in writes)
    values = {r["name"]: r["value"] for r in ttq.ask(trace, f"py locals at {writes[-1]['time']}")["rows"]}
    wanted = dict(re.findall(r"^@(\w+)=(.*)$", text, re.M))
    for name, value in wanted.items():
        same(name, " ".join(values[name].split()), value)
    return len(wanted)


def check_hung(ttq, python, version):
    """A program that is ended while all its threads wait: by kill, and by Ctrl-C (of which Python
    sends itself a second one when it has cleaned up)."""
    for number, at in ((signal.SIGTERM, "end"), (signal.SIGINT, "(events signal | first 1)")):
        compare_hung(ttq, python, number, at)
    return 8


def compare_hung(ttq, python, number, at):
    trace = os.path.join(ttq.home, "hung.ttq")
    subprocess.run(["rm", "-rf", trace], check=True)
    program = f"{HERE}/programs/hung.py"
    with subprocess.Popen([ttq.ttq, "record", "-o", trace, "--", python, "-S", program], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as record:
        if record.stdout.readline() != "ready\n":
            raise Wrong("the program did not get ready")
        children = f"/proc/{record.pid}/task/{record.pid}/children"
        child = int(open(children).read().split()[0])
        # The threads have begun to wait when the program writes; give them time to go to sleep.
        time.sleep(2)
        os.kill(child, number)
        record.wait(timeout=120)
    answer = ttq.ask(trace, f"py backtrace at {at} all threads")
    if number == signal.SIGINT:
        end = ttq.ask(trace, "py backtrace at end all threads")
        if end["rows"] or "a signal came at" not in (end["note"] or ""):
            raise Wrong(f"the end after Ctrl-C does not lead to the signal: {end}")
    where = {}
    for row in answer["rows"]:
        where.setdefault(row["thread"], []).append((row["name"], row["waits"]))
    for function, waits in (("waiter", "waits for a lock"), ("evwait", "waits for a lock"),
                            ("sleeper", "sleeps"), ("<module>", "sleeps")):
        # The main thread is woken by Ctrl-C.
        waits = "" if number == signal.SIGINT and function == "<module>" else waits
        stacks = [s for s in where.values() if any(name == function for name, _ in s)]
        if len(stacks) != 1 or not (stacks[0][0][1] or "").startswith(waits):
            raise Wrong(f"{number.name}: {function} does not say {waits!r}: {where}")


EVALUATION = "_PyEval_EvalFrameDefault"


def check_mixed(ttq, python, version):
    """The Python frames of `backtrace mixed` are those that the program wrote, and the C functions
    that run them stand between them where the program called through C."""
    trace = ttq.record(python, "-S", f"{HERE}/programs/mixed.py")
    output, both, python_only, native_only, last_calls, returned = ttq.rows(
        trace, "events output", "events output | backtrace mixed", "events output | py backtrace",
        "events output | backtrace", "py calls to /./ | last 60 | py backtrace",
        "py backtrace at (py calls to from_map | first 1 | select return_time)")
    writes = ttq.writes(output, "@")
    mixed = {r["time"]: r["backtrace"] for r in both}
    python_frames = {r["time"]: r["py_backtrace"] for r in python_only}
    native = {r["time"]: r["backtrace"] for r in native_only}
    for at, thread, text in writes:
        said = json.loads(text[1:])
        frames = mixed[at]
        own = [f for f in frames if f["language"] == "python"]
        # Frame 0 is report() itself.
        same(f"{said['what']} at {at}, Python's frames", [[f["function"].split(".")[-1], f["line"]] for f in own[1:]],
             said["stack"])
        same("their numbers", [f["frame"] for f in own], [f["frame"] for f in python_frames[at]])
        same("native frames", [f["frame"] for f in frames if f["language"] == "native"],
             [f["frame"] for f in native[at]])
        # Where evaluations have a name, one follows each run of Python frames, and there is no other.
        runs = [f["function"] for before, f in zip(frames, frames[1:])
                if before["language"] == "python" and f["language"] == "native"]
        evaluations = [f["function"] for f in frames if f["function"] == EVALUATION]
        if evaluations and version[:2] != (3, 11) or ".pyenv" in python:
            same(f"{said['what']}, evaluations", runs, evaluations)
        if version < (3, 11):
            same(f"{said['what']}, one evaluation each", len(runs), len(own))
    nested = [json.loads(t[1:]) for _, _, t in writes if '"nested"' in t]
    same("nested", [len([n for n, _ in s["stack"] if n == "nested"]) for s in nested], [4])
    # At a time, in a thread, of all threads.
    at, thread, _ = writes[-1]
    queries = [f"backtrace mixed at {at}", f"backtrace --mixed at {at} in thread {thread}",
               f"backtrace mixed at {at} all threads"]
    *one_thread, all_threads = ttq.rows(trace, *queries)
    for query, rows in zip(queries, one_thread):
        same(query, [(r["language"], r["function"]) for r in rows],
             [(f["language"], f["function"]) for f in mixed[at]])
        same("args", [r["args"] for r in rows if r["function"] == "from_map"], [{"n": 1}])
    same("threads", {r["thread"] for r in all_threads if r["language"] == "python"}, {1, 2})
    # Calls from Python and from C: at its time a function is the innermost, above all its callers.
    for call in last_calls:
        same(f"the stack when {call['function']} begins, at {call['time']}",
             (call["py_backtrace"][0]["function"], len(call["py_backtrace"])), (call["function"], call["depth"] + 1))
    same("the stack when from_map ends", returned[0]["name"].split(".")[-1], "from_map")
    return len(writes)


def check_forks(ttq, python, version):
    """Python in children: of os.fork in the first thread and in another, of multiprocessing."""
    trace = ttq.record(python, "-S", f"{HERE}/programs/forks.py")
    of_main = ["main", "<module>"]
    of_thread = ["run", "_bootstrap_inner", "_bootstrap"]
    inside = {3: ["child", "forks"] + of_main, 4: ["child", "forks"] + of_thread, 5: ["target", "run"]}
    for number, n in enumerate((3, 4, 5), 2):
        calls, added, output, start, events = [answer["rows"] for answer in ttq.ask_all(
            trace, ["py calls to work", "py calls to add", "events output | py backtrace", "py backtrace at start",
                    "events | first 40"], "-p", str(number))]
        same(f"calls in child {number}", [(c["args"], c["result"], c["thread"]) for c in calls],
             [({"n": n}, n * (n - 1) // 2, 1)])
        same("their callers", calls[0]["caller"]["function"], inside[n][0])
        same("calls of add", len(added), n)
        row, = [r for r in output if bytes.fromhex(r["bytes"]).startswith((b"child", b"process"))]
        stack = [f["function"].split(".")[-1] for f in row["py_backtrace"]]
        same("stack", stack[:len(inside[n]) + 1], ["say"] + inside[n])
        if n == 5:
            same("stack", stack[-len(of_main):], of_main)
        same("python column", row["python"]["function"], "say")
        # The child begins where its parent was.
        start = [r["name"] for r in start]
        same("stack at the start", start[-len(inside[n]) + 1:] if n < 5 else start[-2:],
             inside[n][1:] if n < 5 else of_main)
        # Frames that the child never entered are known from the first block on.
        same("python column in the beginning", [e for e in events if e["thread"] and not e["python"]], [])
    return 3


def check_shared(ttq, python, version):
    """When an object that one thread made and another freed lived, against the program's weak reference."""
    trace = ttq.record(python, "-S", f"{HERE}/programs/shared.py")
    output = ttq.ask(trace, "events output")["rows"]
    said = [(bytes.fromhex(row["bytes"]).decode().strip(), row["time"]) for row in output]
    (address, made), (alive, then), (gone, after) = [s for s in said if s[0]]
    same("the program", (alive, gone), ("alive 3", "gone"))
    life, = [row for row in ttq.ask(trace, f"lifetime of {address}")["rows"]
             if row["type"] == "__main__.Box" and row["created_time"] < made]
    same("created", life["python"]["function"], "make")
    if not then < life["freed_time"] < after:
        raise Wrong(f"freed at {life['freed_time']}, not from {then} to {after}")
    same("freed", life["freed_by"]["function"], "empty")
    counted = ttq.ask(trace, f"refcounts of {address} between {life['created_time']} and {then} | last 1")["rows"]
    same("references when it was alive", [row["after"] for row in counted], [3])
    owners = ttq.ask(trace, f"why was {address} freed too early at {life['freed_time'] + 1}")["rows"]
    same("balance", sum(row["balance"] for row in owners), 0)
    given = sum(row["balance"] for row in owners if row["python"] and row["python"]["function"] == "empty")
    same("given back at the end", given, -3)
    return 5


def check_interpreters(ttq, python, version):
    """Several interpreters in one thread, one of which runs code on behalf of another."""
    trace = ttq.record(python, "-S", f"{HERE}/programs/subinterpreters.py")
    output, stacks, both, calls = ttq.rows(trace, "events output", "events output | py backtrace",
                                           "events output | backtrace mixed", "py calls to inside")
    writes = ttq.writes(output, "@")
    rows = {r["time"]: r for r in stacks}
    mixed = {r["time"]: r["backtrace"] for r in both}
    details = ttq.rows(trace, *[f"{what} at {at}" for at, _, _ in writes for what in ("py backtrace", "py locals")])
    details = {at: details[2 * n:2 * n + 2] for n, (at, _, _) in enumerate(writes)}
    caller = iter(("by_module", "by_module", "by_test"))
    for at, thread, text in writes:
        stack = [f["function"] for f in rows[at]["py_backtrace"]]
        own = [f["function"] for f in mixed[at] if f["language"] == "python"]
        frames, locals_ = details[at]
        interpreter = frames[0]["interpreter"]
        if text.startswith("@inside"):
            same(text, stack, ["inside", "<module>"])
            same("all of it", own, ["inside", "<module>", next(caller), "<module>"])
            same("another interpreter", interpreter != 0, True)
            same("python column", rows[at]["python"]["function"], "inside")
            same("locals", {r["name"]: r["value"] for r in locals_}, {"n": "5", "total": "10", "i": "4"})
        else:
            what = text[1:].strip()
            same(text, stack, ["report", what] + (["<module>"] if what != "<module>" else []))
            same("all of it", own, stack)
            same("the first interpreter", interpreter, 0)
            same("python column", rows[at]["python"]["function"], "report")
    inside = [t for _, _, t in writes if t.startswith("@inside")]
    same("calls", [(c["args"], c["result"]) for c in calls], [({"n": 5}, 10)] * len(inside))
    # Told from the history of frames too.
    again = {r["time"]: r for r in ttq.ask(trace, "events output")["rows"]}
    same("python column by the history", [again[at]["python"] for at, _, _ in writes],
         [rows[at]["python"] for at, _, _ in writes])
    return len(writes)


def check_embedded(ttq, python, version):
    """A C program that has Python in it, twice."""
    config = json.loads(subprocess.run(
        [python, "-c", "import json, sysconfig; print(json.dumps(sysconfig.get_config_vars()))"],
        capture_output=True, text=True, check=True).stdout)
    if not os.path.exists(config["INCLUDEPY"] + "/Python.h"):
        return None
    program = os.path.join(ttq.home, "embed")
    built = subprocess.run(["cc", "-g", "-o", program, f"{HERE}/programs/embed.c", "-I" + config["INCLUDEPY"],
                            "-L" + config["LIBDIR"], "-Wl,-rpath," + config["LIBDIR"],
                            f"-lpython{version[0]}.{version[1]}"], capture_output=True, text=True)
    if built.returncode != 0:
        if "cannot find -lpython" in built.stderr:
            return None
        raise Wrong(built.stderr)
    os.environ["PYTHONHOME"] = config["prefix"]
    try:
        trace = ttq.record(program)
    finally:
        del os.environ["PYTHONHOME"]
    rows = ttq.ask(trace, "events output | py backtrace")["rows"]
    mixed = {r["time"]: r["backtrace"] for r in ttq.ask(trace, "events output | backtrace mixed")["rows"]}
    rows = [r for r in rows if bytes.fromhex(r["bytes"]).startswith(b"@")]
    same("writes", len(rows), 6)
    for row in rows:
        what = bytes.fromhex(row["bytes"]).decode()[1:].strip()
        want = ["inner", "outer", "<module>"] if what == "inner" else ["second", "<module>"]
        same(what, [f["function"] for f in row["py_backtrace"]], want)
        both = [f["function"] for f in mixed[row["time"]]]
        known = [n for n in both if n in ("inner", "outer", "second", "native", "run", "round_of", "main")]
        same("between C", known, (["inner", "native", "outer"] if what == "inner" else ["second"]) +
             ["run", "round_of", "main"])
        interpreter = ttq.ask(trace, f"py backtrace at {row['time']}")["rows"][0]["interpreter"]
        same("interpreter", interpreter != 0, what == "second")
    for name, want in (("outer", [1, 1, 2, 2]), ("second", [2, 2])):
        same(f"calls to {name}", [c["args"]["n"] for c in ttq.ask(trace, f"py calls to {name}")["rows"]], want)
    # From before there is an interpreter on, while it is made and taken apart.
    made = ttq.ask(trace, "calls to /^_?Py(Interpreter|Thread)State_(New|Swap|Clear|Delete).*/ "
                          "| py backtrace | select time, py_backtrace")["rows"]
    for row in [made[0], made[1]] + made[2::len(made) // 8]:
        alone = ttq.ask(trace, f"py backtrace at {row['time']}")["rows"]
        same(f"stack at {row['time']}", [f["function"] for f in row["py_backtrace"] or []],
             [f["function"] for f in alone])
    same("a stack at most of them", sum(bool(row["py_backtrace"]) for row in made) > len(made) // 2, True)
    return len(rows)


def line_of(program, text):
    with open(f"{HERE}/programs/{program}", encoding="utf-8") as file:
        return next(n for n, line in enumerate(file, 1) if text in line)


def check_crashes(ttq, python, version):
    """The object at fault, with its life; Python's stacks of all threads."""
    traces = {}

    def crash(way):
        trace = traces[way] = ttq.record(python, "-S", f"{HERE}/programs/crashes.py", way,
                                          status=(128 + signal.SIGSEGV, 128 + signal.SIGBUS))
        (row,), (said,) = ttq.rows(trace, "crash", "events output | first 1")
        address = bytes.fromhex(said["bytes"]).decode().strip()
        stacks = [[f["function"] for f in b["py_frames"] or []] for b in row["backtraces"]]
        # Some versions get into the function that was freed.
        innermost = [f for f in stacks[0] if not f.endswith("victim")][0]
        same(f"{way}: innermost function", innermost, "string_at" if way == "null" else way)
        same(f"{way}: its caller", stacks[0][-1], "<module>")
        if not any("wait" in stack for stack in stacks[1:]):
            raise Wrong(f"{way}: the waiting thread has no Python stack: {stacks}")
        return row["python_object"], address

    def brief(object_):
        return [object_["address"], object_["type"], object_["state"]]

    found, address = crash("freed")
    same("freed", brief(found or dict.fromkeys(["address", "type", "state"])), [address, "function", "freed"])
    same("created", [found["created_by"]["function"].split(".")[-1], found["created_by"]["line"]],
         ["make", line_of("crashes.py", "def victim")])
    same("freed", [found["freed_by"]["function"], found["freed_by"]["line"]],
         ["release", line_of("crashes.py", "Py_DecRef")])
    same("given back", [(o["balance"], o["python"]["function"]) for o in found["references"]
                        if o["balance"] and o["python"]["function"] == "release"], [(-1, "release")])
    # Who gave it back has a name where the interpreter has symbols.
    back = rf"-1 (Py_D\w+ )?at crashes.py:{line_of('crashes.py', 'Py_DecRef')}"
    run = subprocess.run([ttq.ttq, "crash", traces["freed"]], capture_output=True, text=True, timeout=600)
    if run.returncode != 0:
        raise Wrong(f"ttq crash: exit {run.returncode}: {run.stderr}")
    for part in ("in Python", "Python object", f"function at {address}", "by crashes.py:", back):
        if not re.search(part, run.stdout):
            raise Wrong(f"ttq crash does not say {part!r}:\n{run.stdout}")
    found, address = crash("overwritten")
    same("overwritten", brief(found or dict.fromkeys(["address", "type", "state"])),
         [address, "__main__.Victim", "overwritten"])
    same("created", [found["created_by"]["function"], found["created_by"]["line"]],
         ["overwritten", line_of("crashes.py", "victim = Victim()")])
    # What it was when it was made, though it no longer is.
    made, = ttq.ask(traces["overwritten"], f"who created {address}")["rows"]
    same("its type", made["type"], "__main__.Victim")
    if version >= (3, 12):  # an int's size has its sign in it
        found, address = crash("beside")
        same("beside", brief(found or dict.fromkeys(["address", "type", "state"])),
             [address, "__main__.Slotted", "overwritten"])
    crash("null")
    return 3


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    # Under nohup it is ignored, here and in all that is started.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ttq, directory = sys.argv[1], sys.argv[2]
    only = [a for a in sys.argv[3:] if not os.path.isabs(a)]
    found = interpreters([a for a in sys.argv[3:] if os.path.isabs(a)])
    if not found:
        print("no CPython 3.9 to 3.14 on this machine")
        sys.exit(SKIPPED)
    wrong = 0
    for version, python in found:
        for check in (check_situations, check_instances, check_library, check_arrays, check_hung,
                      check_mixed, check_forks, check_crashes, check_shared, check_interpreters,
                      check_embedded):
            if only and check.__name__[6:] not in only:
                continue
            name = f"{'.'.join(map(str, version))} ({python}) {check.__name__[6:]}"
            with tempfile.TemporaryDirectory(prefix="python-", dir=directory) as home:
                before = cpu_seconds()
                try:
                    count = check(Ttq(ttq, home), python, version)
                    print(f"{name}: " + ("not installed" if count is None else f"{count} compared") +
                          f", {cpu_seconds() - before:.1f} s of CPU", flush=True)
                except Wrong as error:
                    wrong += 1
                    print(f"{name}: WRONG: {error}", flush=True)
    sys.exit(1 if wrong else 0)


main()

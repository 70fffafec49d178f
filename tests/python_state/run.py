# SPDX-License-Identifier: MIT
"""run.py TTQ DIRECTORY [PYTHON...]: what ttq says of Python, compared with what Python says itself.

Each interpreter found on this machine runs the programs beside this file under the recorder. The
programs write their own tracebacks and repr of their variables; at the time of each write ttq must
say the same, from memory alone. Without a CPython of a version that ttq knows the test is skipped.
"""

import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77


class Wrong(Exception):
    pass


def interpreters():
    """Real paths of the interpreters of 3.9 to 3.14, one for each version."""
    found = {}
    places = ["/usr/bin/python3", "/usr/local/bin/python3"]
    places += sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python3")))
    for place in places:
        if not os.path.exists(place):
            continue
        run = subprocess.run([place, "-c", "import sys; print(sys.version_info[:3], sys.implementation.name)"],
                             capture_output=True, text=True)
        match = re.match(r"\((\d+), (\d+), (\d+)\) cpython", run.stdout)
        if match and (3, 9) <= tuple(map(int, match.groups()[:2])) <= (3, 14):
            found.setdefault(tuple(map(int, match.groups())), place)
    return found


class Ttq:
    def __init__(self, ttq, home):
        self.ttq, self.home = ttq, home

    def record(self, python, program):
        trace = os.path.join(self.home, os.path.basename(program) + ".ttq")
        subprocess.run(["rm", "-rf", trace], check=True)
        run = subprocess.run([self.ttq, "record", "-o", trace, "--", python, program], text=True,
                             capture_output=True, timeout=600, env={**os.environ, "PYTHONHASHSEED": "0"})
        if run.returncode != 0:
            raise Wrong(f"record: exit {run.returncode}: {run.stderr}")
        return trace

    def ask(self, trace, query):
        run = subprocess.run([self.ttq, "query", "-t", trace, "-f", "json", query], text=True,
                             capture_output=True, timeout=600)
        if run.returncode != 0:
            raise Wrong(f"{query}: exit {run.returncode}: {run.stderr}")
        return json.loads(run.stdout)

    def outputs(self, trace, text):
        """(time, thread, text) of each write to stdout that begins with `text`."""
        rows = self.ask(trace, "events output")["rows"]
        rows = [(r["time"], r["thread"], bytes.fromhex(r["bytes"]).decode()) for r in rows]
        return [r for r in rows if r[2].startswith(text)]


def same(what, got, wanted):
    if got != wanted:
        raise Wrong(f"{what}:\n  ttq     {got}\n  Python  {wanted}")


# Where repr(locals()) and ttq differ on purpose: ttq shows attributes, as gdb does.
def without_instances(text):
    return re.sub(r"<(?:\w+\.)*(\w+)(?: object at|\([^<>]*\) at remote) 0x[0-9a-f]+>", r"<\1>", text)


def check_situations(ttq, python, version):
    trace = ttq.record(python, f"{HERE}/programs/situations.py")
    writes = ttq.outputs(trace, "@")
    if len(writes) < 20:
        raise Wrong(f"only {len(writes)} reports")
    stacks = {r["time"]: r["py_backtrace"] for r in ttq.ask(trace, "events output | py backtrace")["rows"]}
    for at, thread, text in writes:
        said = json.loads(text[1:])
        frames = stacks[at]
        # Frame 0 is report() itself, at the line that writes.
        got = [[f["file"], f["line"], f["function"].split(".")[-1]] for f in frames[1:]]
        same(said["what"] + ", stack", got, [list(f) for f in said["stack"]])
        locals_ = ttq.ask(trace, f"py locals at {at} in thread {thread} in frame 1")["rows"]
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
    for i in range(40):
        ttq.ask(trace, f"py backtrace at {end_time * i // 40} all threads")
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
    trace = ttq.record(python, f"{HERE}/programs/instances.py")
    text = "".join(t for _, _, t in ttq.outputs(trace, ""))
    ready = [r for r in ttq.ask(trace, "events output")["rows"]][-1]["time"]
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
    foo = ttq.ask(trace, f"object Foo {addresses['foo']} at {ready}")["rows"][0]
    same("object foo", [foo["type"], foo["repr"], foo["attributes"]],
         ["__main__.Foo", f"<__main__.Foo object at {addresses['foo']}>", {"an_int": "42"}])
    found = {r["address"] for r in ttq.ask(trace, f"objects of type Foo at {ready}")["rows"]}
    same("objects of type Foo", found,
         {addresses[n] for n in ("foo", "deleted", "dict_taken", "large", "looped")})
    for expr, value in (("foo.an_int + 1", "43"), ("point[1]", "2"), ("itself['self']", "{'self': {...}}"),
                        ("len(my_list)", "2"), ("data.values[0]", "1"), ("space.y", "'z'"),
                        ("Foo", "<class '__main__.Foo'>"), ("len", "<built-in function len>")):
        same(f"py print {expr}", ttq.ask(trace, f"py print {expr} at {ready}")["rows"][0]["value"], value)
    listing = ttq.ask(trace, f"py source at {ready}")["rows"]
    same("py source", [r["source"].strip() for r in listing if r["current"] == ">"], ['print("ready", flush=True)'])
    return len(wanted) + len(INSTANCES)


def check_edited(ttq, python, version):
    """A script that is edited, then removed, after it ran: its lines come out of the recording."""
    program = os.path.join(ttq.home, "edited.py")
    with open(program, "w", encoding="utf-8") as file:
        file.write("def f():\n    x = 'original'\n    print(x, flush=True)\nf()\n")
    trace = ttq.record(python, program)
    with open(program, "w", encoding="utf-8") as file:
        file.write("# Something else.\n" * 10)
    query = "py source at (events output | first 1)"
    lines = ["def f():", "    x = 'original'", "    print(x, flush=True)", "f()"]
    same("edited", [r["source"] for r in ttq.ask(trace, query)["rows"]], lines)
    os.unlink(program)
    same("removed", [r["source"] for r in ttq.ask(trace, query)["rows"]], lines)
    return 2


def check_arrays(ttq, python, version):
    if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode != 0:
        return None
    trace = ttq.record(python, f"{HERE}/programs/arrays.py")
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
    with subprocess.Popen([ttq.ttq, "record", "-o", trace, "--", python, program], text=True,
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


def main():
    ttq, directory = sys.argv[1], sys.argv[2]
    found = interpreters()
    if sys.argv[3:]:
        found = {v: p for v, p in found.items() if p in sys.argv[3:]}
    if not found:
        print("no CPython 3.9 to 3.14 on this machine")
        sys.exit(SKIPPED)
    wrong = 0
    for version, python in sorted(found.items()):
        for check in (check_situations, check_instances, check_edited, check_arrays, check_hung):
            name = f"{'.'.join(map(str, version))} ({python}) {check.__name__[6:]}"
            with tempfile.TemporaryDirectory(prefix="python-", dir=directory) as home:
                try:
                    count = check(Ttq(ttq, home), python, version)
                    print(f"{name}: " + ("not installed" if count is None else f"{count} compared"), flush=True)
                except Wrong as error:
                    wrong += 1
                    print(f"{name}: WRONG: {error}", flush=True)
    sys.exit(1 if wrong else 0)


main()

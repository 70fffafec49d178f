#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# The lives of objects of every kind, in memory that is used again and again, and the changes of items
# and attributes, compared with what the recorded scripts (kinds.py, items.py) know of them.
# Usage: kinds_test.py TTQ PACKAGE [INTERPRETER...]     PACKAGE: where the Python package lies

import collections
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
from interpreters import interpreters  # noqa: E402

HERE = pathlib.Path(__file__).parent
problems = []


def line(place):
    return place["line"] if place else None


def check_used(fail, trace, address, used):
    """A use after free is told by every question about the object."""
    life = trace.query("lifetime of ?", address)[-1]
    then = life.used_after_free
    if then is None:
        return fail("its use after free is not in its lifetime", life)
    counts = trace.query("refcounts of ? between ? and ?", address, life.created_time, then + 1)
    events = [(r.before, r.after, r.event) for r in counts]
    if events[0] != (0, 1, "created") or (1, 0, "freed") not in events or \
            events[-1] != (0, 1, "used after free"):
        fail("what happened to its count", events)
    if line(counts[-1].python) != used:
        fail("where it was used", counts[-1])
    now = trace.query("object ? at ?", address, then + 1)[0]
    if (now.state, now.freed_time, now.refcount) != ("freed", life.freed_time, 1):
        fail("what it is after that", (now.state, now.freed_time, now.refcount))
    before = trace.query("object ? at ?", address, life.freed_time)[0]
    if (before.state, before.freed_time) != ("alive", None):
        fail("what it is before", (before.state, before.freed_time))


def check_items(trace, output, interpreter):
    wanted = collections.defaultdict(list)
    for text in output.splitlines():
        what, value, at = text.split("|")
        wanted[what].append((None if value == "None" else value, int(at)))
    if len(wanted) < 15:
        problems.append(f"{interpreter}: {len(wanted)} items")
    for what, want in wanted.items():
        got = [(r.new, line(r.python)) for r in trace.query("py changes of " + what)]
        if got != want:
            problems.append(f"{interpreter}: py changes of {what}: want {want}, got {got}")


def check_lives(trace, output, interpreter):
    wanted = collections.defaultdict(list)
    for text in output.splitlines():
        kind, *numbers = text.split()
        address, *rest = map(int, numbers)
        wanted[address].append((kind, *rest))
    if len(wanted) < 100:
        problems.append(f"{interpreter}: {len(wanted)} addresses")
    for address, told in wanted.items():
        def fail(what, got):
            problems.append(f"{interpreter}: {told} at {address:#x}: {what}: {got}")
        rows = trace.query("lifetime of ?", address)[:]
        if any(r.created_time is None for r in rows):
            fail("one without a beginning", rows)
        for one, after in zip(rows, rows[1:]):
            if one.freed_time is None or one.freed_time > after.created_time:
                fail("it outlives the next", (one, after))
        # In this order, with others of the same address between.
        lives = iter([(line(r.python), line(r.freed_by) if r.freed_time else 0) for r in rows])
        for kind, made, freed, *used in told:
            if (made, freed) not in lives:
                fail(f"no {kind} made on {made} and freed on {freed}", [(r.type, r.state) for r in rows[-3:]])
                break
            if used:
                check_used(fail, trace, address, used[0])
        if told[-1][2] == 0:
            created = trace.query("when was ? created", address)
            if [line(r.python) for r in created] != [told[-1][1]]:
                fail("where the one that lives on was made", created)
            if rows and rows[-1].state != "alive":
                fail("the one that lives on", rows[-1])


def main():
    ttq, package = sys.argv[1:3]
    sys.path.insert(0, package)
    try:
        import ttq as of_package
    except ImportError as e:
        print(e)
        return 77
    found = interpreters(sys.argv[3:])
    if not found:
        print("no CPython 3.9 to 3.14 here")
        return 77
    with tempfile.TemporaryDirectory() as directory:
        for version, interpreter in found:
            before = len(problems)
            for script, check in [("kinds.py", check_lives), ("items.py", check_items)]:
                path = f"{directory}/{'.'.join(map(str, version))}-{script}.ttq"
                run = subprocess.run([ttq, "record", "-q", "-o", path, "--", interpreter, "-S", "-W", "ignore",
                                      str(HERE / script)], check=True, capture_output=True, text=True)
                check(of_package.open(path), run.stdout, interpreter)
            print(f"{'FAIL' if len(problems) > before else 'ok'}: {version} {interpreter}")
    for problem in problems[:50]:
        print(problem)
    return 1 if problems else 0


sys.exit(main())

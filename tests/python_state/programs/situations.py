# SPDX-License-Identifier: MIT
"""Python in many situations; in each it writes its own stack and its variables as Python sees them."""

import asyncio
import json
import sys
import threading
import traceback


def report(what, variables):
    """One write: the stack below this frame, innermost first, and repr of the caller's variables."""
    stack = [(f.filename, f.lineno, f.name) for f in traceback.extract_stack()[:-1]]
    text = json.dumps({"what": what, "stack": stack[::-1],
                       "variables": {k: repr(v) for k, v in variables.items()}})
    sys.stdout.write("@" + text + "\n")
    sys.stdout.flush()


def values(first, second=2, *rest, keyword=3, **more):
    none, yes, no = None, True, False
    zero, small, negative, big, huge = 0, 42, -7, 10**15, -(2**200 + 1)
    real, tiny, large, inf, whole = 1.5, 1e-7, 1e22, float("-inf"), 3.0
    pair, imaginary = 1 + 2j, -3.5j
    empty, quotes, both = "", "it's", "\"it's\"\t\\\n"
    latin, wide, astral, control, lone = "caf\xe9\xa0", "\u2620\u4e2d", "\U0001d121", "\x00\x7f", "\udc80"
    raw, array = b"a\x00'\"\xff", bytearray(b"xy")
    listed, tupled, single, nested = [1, [2, [3]]], (1, "a"), (None,), {"k": [(), {}, set()]}
    keys, frozen = {1: "a", "b": 2.0, (3,): None}, frozenset([7])
    ranges, steps, part = range(5), range(1, 10, 3), slice(1, None, -1)
    builtin, method, klass, plain = len, [].append, ValueError, int
    error = KeyError("missing", 3)
    dots, missing = ..., NotImplemented
    del negative
    loop = [1]
    loop.append(loop)
    report("values", {k: v for k, v in locals().items() if k != "method"})


def dictionaries():
    grown = {i: str(i) for i in range(40)}
    for i in range(0, 40, 2):
        del grown[i]
    holes = set(range(20))
    for i in range(19):
        holes.discard(i)
    ordered = {"z": 1, "a": 2}
    ordered["m"] = 3
    report("dictionaries", dict(locals()))


def recursive(n):
    if n == 0:
        report("recursion", {"n": n})
    else:
        recursive(n - 1)


def closures(argument):
    cell = "c"
    unset = 1
    del unset

    def inner(own):
        report("closure", {"own": own, "cell": cell, "argument": argument})

    inner("o")
    report("owner of cells", {"argument": argument, "cell": cell, "inner": inner})


def generator(start):
    total = start
    while True:
        report("generator", {"start": start, "total": total})
        total += yield total


def outer_generator():
    inner = generator(10)
    yield from inner


async def awaited(depth):
    await asyncio.sleep(0)
    report("coroutine", {"depth": depth})


async def main_coroutine():
    await awaited(5)


class Decorated:
    def __init__(self, size):
        self.size = size
        report("__init__", {"size": size})

    @property
    def double(self):
        report("property", {})
        return 2 * self.size

    @staticmethod
    def static(x):
        report("staticmethod", {"x": x})

    def __del__(self):
        report("__del__", {})


def decorator(function):
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper


@decorator
def wrapped(a):
    report("decorated", {"a": a})


def key(item):
    if item == 2:
        report("called by sorted", {"item": item})
    return item


def mapped(item):
    report("called by map", {"item": item})
    return item


def comprehension(rows):
    def look(row):
        report("in a comprehension", {"row": row})
        return row
    return [look(row) for row in rows]


def handler():
    try:
        int("x")
    except ValueError as error:
        report("handler", {})


def thread_body(number):
    report("thread", {"number": number})


if __name__ == "__main__":
    values(1, 5, 6, 7, keyword=8, extra=9)
    dictionaries()
    recursive(30)
    closures("arg")
    g = generator(1)
    next(g)
    g.send(5)
    next(outer_generator())
    asyncio.run(main_coroutine())
    d = Decorated(3)
    d.double
    Decorated.static(4)
    del d
    wrapped(1)
    sorted([3, 2, 1], key=key)
    list(map(mapped, [1]))
    comprehension([1])
    handler()
    exec("def made():\n  q = 1\n  report('exec', {'q': q})\nmade()")

    class Body:
        inside = 1
        report("class body", {})

    t = threading.Thread(target=thread_body, args=(1,))
    t.start()
    t.join()
    (lambda argument: report("lambda", {"argument": argument}))(3)

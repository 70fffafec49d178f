# SPDX-License-Identifier: MIT
# Python called by C called by Python, several deep. Where it says so it writes its own stack.
import ctypes
import functools
import json
import re
import sys
import threading
import traceback


def report(what):
    stack = [[f.name, f.lineno] for f in reversed(traceback.extract_stack()[:-1])]
    sys.stdout.write("@" + json.dumps({"what": what, "stack": stack}) + "\n")
    sys.stdout.flush()
    return 1


class Key:
    def __init__(self, value):
        self.value = value
        inner("init")

    def __lt__(self, other):
        report("compare")
        return self.value < other.value

    def __del__(self):
        report("finalise")


def inner(what):
    return deepest(what)


def deepest(what):
    return report(what)


def from_sort(n):
    return inner("sort") and n


def generator():
    yield inner("generator")
    yield from delegate()


def delegate():
    yield inner("delegate")


def from_map(n):
    return list(generator())


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
def callback(n):
    inner("callback")
    return n and callback(n - 1)


def nested(n):
    # Three times through C: a callback of libffi, sorted, map.
    if n == 0:
        return inner("nested")
    calls = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(
        lambda k: sorted([k], key=lambda x: list(map(lambda y: nested(n - 1), [x]))[0])[0])
    return calls(n)


def recursive(n):
    return inner("recursive") if n == 0 else recursive(n - 1)


def main():
    inner("plain")
    sorted([2], key=from_sort)
    list(map(from_map, [1]))
    sorted([Key(2), Key(1)])
    callback(2)
    nested(3)
    recursive(30)
    functools.reduce(lambda a, b: inner("reduce"), [1, 2, 3])
    re.sub("a", lambda match: str(inner("sub")), "a")
    exec("inner('exec')", globals())
    thread = threading.Thread(target=from_map, args=(1,))
    thread.start()
    thread.join()


main()

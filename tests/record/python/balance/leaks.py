# SPDX-License-Identifier: MIT
"""Ways in which Python itself keeps an object for longer than was meant.

A line is "case address words": what an answer must name, between "|".
"""

import collections
import ctypes
import functools
import gc
import os
import sys

gc.disable()


class Thing:
    pass


def say(name, thing, words):
    os.write(1, f"{name} {thing:#x} {words}\n".encode())


seen = []


def into_list():
    seen.extend([1, 2])
    seen.append(Thing())
    return id(seen[-1])


def into_closure():
    thing = Thing()

    def callback():
        return thing

    callbacks["closure"] = callback
    return id(thing)


callbacks = {}


class Node:
    def __init__(self):
        self.thing = Thing()

    def __del__(self):
        self.closed = True


def into_cycle():
    first, second = Node(), Node()
    first.other, second.other = second, first
    return id(first.thing)


cache = {}


def into_cache():
    cache["key", 7] = Thing()
    return id(cache["key", 7])


failures = []


def fails():
    culprit = Thing()
    failures.append(id(culprit))
    raise ValueError("kept")


def into_traceback():
    global last_error
    try:
        fails()
    except ValueError as error:
        last_error = error
    return failures.pop()


class Registry:
    instances = []
    by_name = {}


def into_class():
    Registry.by_name["thing"] = Thing()
    return id(Registry.by_name["thing"])


def remember(thing, known=[]):
    known.append(thing)
    return id(thing)


def into_default():
    return remember(Thing())


def beside_text():
    """Behind a short str its block ends with what was there before: here a pointer to what is kept elsewhere."""
    global beside, text
    unused = []
    for _ in range(20000):
        beside = [Thing()]
        if id(beside[0]) % 256 == 0:  # its lowest byte is the one that ends the text
            break
        unused.append(beside)
    text = "x" * 24
    if not hasattr(sys, "gettotalrefcount"):  # whose allocator looks after it
        ctypes.memmove(id(text) + sys.getsizeof(text), (id(beside[0]) >> 8).to_bytes(7, "little"), 7)
    return id(beside[0])


def into_attribute():
    sys.left_behind = Thing()
    return id(sys.left_behind)


class Listener(Thing):
    def notify(self):
        pass


listeners = []


def into_method():
    listener = Listener()
    listeners.append(listener.notify)
    return id(listener)


def generate():
    waiting = Thing()
    yield id(waiting)
    yield waiting


def into_generator():
    global running
    running = generate()
    return next(running)


recent = collections.deque(maxlen=5)


def into_deque():
    recent.append(Thing())
    return id(recent[-1])


def into_set():
    unique.add(thing := Thing())
    return id(thing)


unique = set()


@functools.lru_cache(None)
def computed(n):
    return Thing()


def into_lru_cache():
    return id(computed(3))


say("list", into_list(), "seen|[2]|__main__")
say("closure", into_closure(), "callbacks|closure|__closure__|cell_contents|__main__")
say("cycle", into_cycle(), "cycle|.thing")
say("cache", into_cache(), "cache|('key', 7)|__main__")
say("traceback", into_traceback(), "last_error|__traceback__|culprit|fails")
say("class", into_class(), "Registry|by_name|['thing']")
say("default", into_default(), "remember|__defaults__|[0]")
say("beside_text", beside_text(), "`beside[0]`|__main__")
say("attribute", into_attribute(), "left_behind|sys")
say("method", into_method(), "listeners|[0]|__self__")
say("generator", into_generator(), "running|waiting|generate")
say("deque", into_deque(), "recent[0]|__main__")
say("set", into_set(), "unique|__main__")
say("lru_cache", into_lru_cache(), "computed|__main__")
os._exit(0)

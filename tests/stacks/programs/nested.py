# SPDX-License-Identifier: MIT
# Calls id() from twenty different depths of the interpreter.
import functools
import json
import re


class Thing:
    def __init__(self, n):
        self.n = n
        id(n)

    def __getattr__(self, name):
        return id(name)

    def __eq__(self, other):
        return id(other) > 0

    def __len__(self):
        id(self)
        return self.n

    def __del__(self):
        id(1)

    @property
    def size(self):
        return id(self)

    def __iter__(self):
        for i in range(2):
            id(i)
            yield i

    def __enter__(self):
        id(2)
        return self

    def __exit__(self, *about):
        id(3)


@functools.lru_cache(maxsize=None)
def cached(n):
    return id(n) and (cached(n - 1) if n else 0)


id(0)
thing = Thing(3)
thing.absent
thing.size
thing == 1
len(thing)
list(thing)
sorted([3, 1, 2], key=id)
re.sub("a", lambda m: str(id(m)), "banana")
with thing:
    cached(3)
json.loads('{"a": [1, 2]}', object_hook=lambda d: id(d))
json.dumps({"x": Thing(1)}, default=lambda t: id(t))
try:
    functools.reduce(lambda a, b: id(a) and 1 // 0, [1, 2])
except ZeroDivisionError:
    id(4)
exec("eval('id(5)')")
del thing

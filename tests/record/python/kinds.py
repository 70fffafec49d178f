# SPDX-License-Identifier: MIT
#
# Objects of many kinds, made and freed at known lines, in memory that was used for other things
# before; prints what is to be found out: a kind, id(), the line it is made on, the line that frees
# it (0: it lives on).
import array
import collections
import contextvars
import ctypes
import datetime
import decimal
import functools
import gc
import io
import itertools
import os
import sys
import threading
import types
import weakref

log = []


def line():
    return sys._getframe(1).f_lineno


class Plain:
    pass


class Slots:
    __slots__ = ("a", "b", "c")


class Finalised:
    def __del__(self):
        self.gone = True


class Weakly:
    __slots__ = ("__weakref__", "x")


class MyInt(int):
    pass


class MyList(list):
    pass


class MyTuple(tuple):
    def __del__(self):
        pass


class MyDict(dict):
    pass


class MyIO(io.StringIO):
    pass


class Error(Exception):
    pass


Named = collections.namedtuple("Named", "x y")


def generate(n):
    x = n
    yield x


async def coroutine(n):
    return n


async def agenerate(n):
    yield n


def inner_of(k):
    def inner():
        return k
    return inner


def churn(k):
    a = [("x" * n) + str(n) for n in range(5, 60)]
    b = [{chr(97 + j): j for j in range(m)} for m in range(1, 12)]
    c = [bytes(range(n)) for n in range(1, 70)]
    d = [10 ** n for n in range(1, 60)]
    e = [tuple(range(n)) for n in range(1, 12)]
    f = [array.array("q", [1, 2, 3, 1, 2, 1, 1, 2] * (n % 5 + 1)) for n in range(40)]
    g = [bytearray(b"\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0" * n) for n in range(1, 20)]
    h = [Plain() for n in range(20)] + [Slots() for n in range(20)]
    i = [inner_of(n) for n in range(20)] + [generate(n) for n in range(20)]
    j = [coroutine(n) for n in range(5)]
    for one in j:
        one.close()
    h[0].me = h[1]
    h[1].me = h[0]
    return k


makers = [
    ("function", lambda k: (lambda: k)),
    ("list", lambda k: [k, 1, 2]),
    ("list_of_iterator", lambda k: list(iter((1, 2, k)))),
    ("empty_list", lambda k: []),
    ("dict", lambda k: {"a": k}),
    ("empty_dict", lambda k: {}),
    ("dict_call", lambda k: dict(a=k, b=2)),
    ("dict_comp", lambda k: {i: k for i in range(20)}),
    ("set", lambda k: {1, 2, k}),
    ("frozenset", lambda k: frozenset([k, 5])),
    ("tuple", lambda k: (k, k + 1, k + 2)),
    ("long_tuple", lambda k: tuple(range(k, k + 40))),
    ("huge_tuple", lambda k: tuple(range(k, k + 400))),
    ("tuple_of_generator", lambda k: tuple(i for i in range(k + 30))),
    ("int", lambda k: k + 100000),
    ("big_int", lambda k: (k + 3) ** 77),
    ("float", lambda k: k * 1.5 + 0.25),
    ("complex", lambda k: complex(k, 2.5)),
    ("str", lambda k: "v%d" % k),
    ("str_join", lambda k: ",".join(str(i) for i in range(k + 30))),
    ("long_str", lambda k: "abc" * (k + 300)),
    ("wide_str", lambda k: "\u20ac" * (k + 30)),
    ("str_format", lambda k: f"{k}-{k:5d}-{'x' * 30}"),
    ("bytes", lambda k: b"%d" % (k + 1000)),
    ("long_bytes", lambda k: bytes(k + 1000)),
    ("bytearray", lambda k: bytearray(k + 30)),
    ("memoryview", lambda k: memoryview(b"abc")),
    ("Plain", lambda k: Plain()),
    ("Slots", lambda k: Slots()),
    ("Finalised", lambda k: Finalised()),
    ("Weakly", lambda k: Weakly()),
    ("MyInt", lambda k: MyInt(k)),
    ("MyList", lambda k: MyList([k])),
    ("MyTuple", lambda k: MyTuple((k, 1))),
    ("MyDict", lambda k: MyDict(a=k)),
    ("MyIO", lambda k: MyIO("x")),
    ("StringIO", lambda k: io.StringIO("y")),
    ("BytesIO", lambda k: io.BytesIO(b"y")),
    ("Error", lambda k: Error(k)),
    ("ValueError", lambda k: ValueError(k, 2)),
    ("OSError", lambda k: OSError(2, "no")),
    # Made by a __new__ of a file of its own.
    ("Named", lambda k: Named(k, 2)),
    ("generator", lambda k: generate(k)),
    ("genexp", lambda k: (i for i in range(k + 3))),
    ("coroutine", lambda k: coroutine(k)),
    ("async_generator", lambda k: agenerate(k)),
    ("bound", lambda k: log.append),
    ("method", lambda k: churn.__get__(k)),
    ("builtin_method", lambda k: "abc".join),
    ("partial", lambda k: functools.partial(churn, k)),
    ("range", lambda k: range(k, 1000 + k)),
    ("slice", lambda k: slice(k, 1000 + k)),
    ("iterator", lambda k: iter([k])),
    ("tuple_iterator", lambda k: iter((k, 2))),
    ("range_iterator", lambda k: iter(range(k + 4))),
    ("dict_keys", lambda k: {k: 1}.keys()),
    ("dict_iterator", lambda k: iter({k: 1})),
    ("enumerate", lambda k: enumerate([k])),
    ("zip", lambda k: zip([k])),
    ("map", lambda k: map(str, [k])),
    ("chain", lambda k: itertools.chain([k])),
    ("reversed", lambda k: reversed([k])),
    ("cell", lambda k: types.CellType(k)),
    ("module", lambda k: types.ModuleType("m")),
    ("namespace", lambda k: types.SimpleNamespace(x=k)),
    ("type", lambda k: type("T", (), {"k": k})),
    ("code", lambda k: churn.__code__.replace(co_firstlineno=k + 7)),
    ("proxy", lambda k: types.MappingProxyType({k: k})),
    ("property", lambda k: property(churn)),
    ("staticmethod", lambda k: staticmethod(churn)),
    ("weakref", lambda k: weakref.ref(churn, lambda r: k)),
    ("deque", lambda k: collections.deque([k])),
    ("OrderedDict", lambda k: collections.OrderedDict(a=k)),
    ("defaultdict", lambda k: collections.defaultdict(int)),
    ("Counter", lambda k: collections.Counter("aab")),
    ("datetime", lambda k: datetime.datetime(2020, 1, 1 + k % 20)),
    ("timedelta", lambda k: datetime.timedelta(k + 1)),
    ("Decimal", lambda k: decimal.Decimal(k) / 7),
    ("lock", lambda k: threading.Lock()),
    ("ContextVar", lambda k: contextvars.ContextVar("x")),
    ("Context", lambda k: contextvars.copy_context()),
    ("object", lambda k: object()),
    ("array", lambda k: array.array("d", [k])),
    ("compile", lambda k: compile("1+%d" % k, "f", "eval")),
]

# Each by a function of its own: made on the line that the lambda is on.
def made_on(make):
    return make.__code__.co_firstlineno


def all_made(k):
    for kind, make in makers:
        x = make(k)
        keep.append((kind, x))
        log.append((kind, id(x), made_on(make) if kind != 'Named' else 1, 0))
        x = None


def all_freed(k):
    for kind, make in makers:
        x = make(k)
        address = id(x)
        x = None; freed = line()
        if kind == 'type':
            gc.collect(); freed = line()
        log.append((kind, address, made_on(make) if kind != 'Named' else 1, freed))


revived = []


class Phoenix:
    def __del__(self):
        revived.append(self)


def phoenix():
    p = Phoenix(); made = line()
    address = id(p)
    del p
    churn(1)
    del revived[:]; freed = line()
    log.append(("Phoenix", address, made, freed))


def cycle():
    p = Plain(); made = line()
    p.me = p
    address = id(p)
    del p
    gc.collect(); freed = line()
    log.append(("cycle", address, made, freed))


def used_after_free():
    """Dead when the first reference is taken to it."""
    f = lambda: 1; made = line()
    address = id(f)
    dead = ctypes.c_void_p(address)
    count = ctypes.pythonapi.Py_IncRef
    del f; freed = line()
    count(dead); used = line()
    log.append(("used_after_free", address, made, freed, used))


def resized():
    s = "q" * 40; made = line()
    for i in range(3000):
        s += "abcdef"
    log.append(("resized_str", id(s), line() - 1, 0))
    keep.append(("", s))


keep = []
gc.disable()
rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1
for k in range(rounds):
    churn(k)
    all_freed(k)
    churn(k)
    all_made(k)
    phoenix()
    cycle()
resized()
used_after_free()
for entry in log:
    print(*entry)
sys.stdout.flush()
os._exit(0)

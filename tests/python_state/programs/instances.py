# SPDX-License-Identifier: MIT
"""What CPython's own Lib/test/test_gdb prints, and more: instances, subclasses, corrupt objects."""

import collections
import ctypes
import dataclasses
import enum
import sys
import types
import weakref


class Foo:
    pass


class Slots:
    __slots__ = ("a", "b", "unset")

    def __init__(self):
        self.a = 1
        self.b = [2]


class SlotsAndDict(Slots):
    pass


class MyList(list):
    pass


class MyTuple(tuple):
    pass


class MyInt(int):
    pass


class MyFloat(float):
    pass


class Shown:
    def __init__(self):
        self.x = 1

    def __repr__(self):
        return "never run"


class ShownList(list):
    def __repr__(self):
        return "never run"


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Data:
    name: str
    values: list = dataclasses.field(default_factory=list)


class Colour(enum.Enum):
    RED = 1


def many(**attributes):
    foo = Foo()
    foo.__dict__.update(attributes)
    return foo


def main():
    foo = Foo()
    foo.an_int = 42
    deleted = Foo()
    deleted.a, deleted.b, deleted.c = 1, 2, 3
    del deleted.b
    dict_taken = Foo()
    dict_taken.x = 1
    dict_taken.__dict__["y"] = 2
    large = many(**{"a%d" % i: i for i in range(40)})
    slots, both = Slots(), SlotsAndDict()
    both.extra = 3
    my_list, my_tuple, my_int, my_float = MyList([1, 2]), MyTuple((1, 2)), MyInt(5), MyFloat(1.5)
    my_list.foo = 1
    shown, shown_list = Shown(), ShownList([1])
    point, data, colour = Point(1, 2), Data("n", [1]), Colour.RED
    error = RuntimeError("I am an error")
    looped = Foo()
    looped.me = looped
    itself = {}
    itself["self"] = itself
    queue = collections.deque(range(3), maxlen=10)
    counts = collections.defaultdict(int, a=1)
    ordered = collections.OrderedDict([("a", 1), ("b", 2)])
    ordered.move_to_end("a")
    space = types.SimpleNamespace(x=1, y="z")
    weak = weakref.ref(foo)
    generator = (i for i in [1])
    function, method, code = main, foo.__init__, main.__code__
    module, builtin_module = collections, sys
    names = ("my_list", "my_tuple", "my_int", "my_float", "point", "data", "colour", "error", "itself", "queue",
             "counts", "ordered", "space", "weak", "generator", "function", "code", "module",
             "builtin_module")
    here = locals()
    for name in names:
        sys.stdout.write("@%s=%r\n" % (name, here[name]))
    # An object whose type is overwritten, as test_gdb does it, and one of freed memory. The type is
    # the last word of every object's head.
    type_at = object.__basicsize__ - 8
    null, bad, freed = [Foo(), Foo(), Foo()]
    saved = {}
    for victim, value in ((null, 0), (bad, 0xdeadbeef), (freed, 0xdddddddddddddddd)):
        word = ctypes.c_uint64.from_address(id(victim) + type_at)
        saved[id(victim)] = word.value
        word.value = value
    print("ready", flush=True)
    for address, value in saved.items():
        ctypes.c_uint64.from_address(address + type_at).value = value


main()

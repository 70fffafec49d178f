# SPDX-License-Identifier: MIT
# python_objects.py EXPRESSIONS RESULTS: what Python makes of each line of the file EXPRESSIONS, into RESULTS; then a crash,
# with all these objects alive. For python_test.py.
import array
import collections
import ctypes
import decimal
import enum
import fractions
import functools
import sys
import types
import warnings

warnings.simplefilter("ignore")


class Point:
    kind = 7

    def __init__(self, x, y):
        self.x, self.y, self.t = x, y, (x, [y, {"k": x}])


class Slots:
    __slots__ = ("a", "b", "unset")

    def __init__(self):
        self.a, self.b = 1.5, b"by\x00te"


class Flag(enum.IntFlag):
    A = 1
    B = 2


class Number(enum.IntEnum):
    X = 5


class Word(str):
    def __eq__(self, other):
        return True
    __hash__ = str.__hash__


class Items(list):
    def __len__(self):
        return 99

    def __getitem__(self, at):
        return "got"

    def __bool__(self):
        return False


class Dict(dict):
    def __missing__(self, key):
        return "missing"


class Descriptor:
    def __get__(self, instance, owner):
        return "made"


class Base:
    over = 2


class Class(Base):
    made = Descriptor()

    def __init__(self):
        self.a = 1
        self.__dict__["prop"] = "hidden"
        self.__dict__["made"] = "mine"

    @property
    def prop(self):
        return "property"

    @functools.cached_property
    def cached(self):
        return 3

    @staticmethod
    def static():
        return 1


class Equal:
    def __eq__(self, other):
        return True


Pair = collections.namedtuple("Pair", "u v")


class Sub(Pair):
    __slots__ = ()


i0, i1, i2, i3, i4 = 0, 7, -3, 2**40, -2**70
big, least, x53, f53 = 2**62, -2**63, 2**53 + 1, float(2**53)
f0, f1, f2, nan = 0.5, -2.25, 1e300, float("nan")
s0, s1, s2, s3 = "", "hello", "h\xe9llo", "\U0001f600 x"
b0, b1 = b"abc\xff", bytearray(b"xyz")
c0 = 3 - 4j
l0, l1, l2, l3 = [1, 2, 3, [4, "x"]], [], [1], [1]
t0, t1 = (1, "b", None), (2.5,)
d0, d1 = {"a": 1, 2: [3], (1, 2): "t"}, {}
e0, e1 = {1, 2}, frozenset("z")
n0, n1, n2 = None, True, False
key = (1, 2)
p0, p1, slots, pair = Point(5, 6), Point(1, "two"), Slots(), Sub(1, l0)
ordered, default = collections.OrderedDict(a=1, b=2), collections.defaultdict(list, x=[1])
queue, count = collections.deque([1, 2], 5), collections.Counter("aab")
ratio, space, reals = fractions.Fraction(3, 4), types.SimpleNamespace(w=1, v="q"), array.array("d", [1.5])
amount = decimal.Decimal("1.50")
flag, number, word, items, mapping = Flag.A, Number.X, Word("x"), Items([1, 2]), Dict(a=1)
one, two, equal = Class(), Class(), Equal()
two.cached

with open(sys.argv[1], encoding="utf-8") as asked, open(sys.argv[2], "w", encoding="utf-8") as results:
    for line in asked:
        try:
            results.write(repr(repr(eval(line))) + "\n")
        except Exception as error:
            results.write(repr("!" + type(error).__name__) + "\n")
ctypes.string_at(0)

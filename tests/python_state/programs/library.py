# SPDX-License-Identifier: MIT
"""Objects of the standard library, with their repr as Python gives it: "@name=ADDRESS repr"."""

import array
import asyncio
import collections
import datetime
import decimal
import enum
import fractions
import functools
import os
import pathlib
import sys
import types
import typing
import uuid
from datetime import date, datetime as moment, time, timedelta, timezone
from decimal import Decimal


class Colour(enum.Enum):
    RED = 1
    GREEN = "g"
    ALSO_RED = 1
    PAIR = (1, 2)


class Number(enum.IntEnum):
    ONE = 1
    LARGE = 1 << 70


class Perm(enum.IntFlag):
    R = 4
    W = 2
    X = 1
    RW = 6


class Style(enum.Flag):
    BOLD = enum.auto()
    ITALIC = enum.auto()
    SMALL = enum.auto()


class Text(str, enum.Enum):
    A = "a"


class Own(enum.Enum):
    A = 1

    def __repr__(self):
        return "never run"


class Day(date):
    pass


class When(moment):
    pass


class Money(Decimal):
    pass


class Numbers(array.array):
    pass


class Tally(collections.Counter):
    pass


class Place(type(pathlib.Path())):
    pass


class Pair(typing.NamedTuple):
    left: int
    right: str = "r"


class Attributes:
    def __init__(self):
        self.a = 1
        self.b = "two"


def dates():
    cet = timezone(timedelta(hours=1), "CET")
    yield from {
        "date": date(2024, 2, 29), "date_min": date.min, "date_max": date.max, "day": Day(1999, 12, 31),
        "minute": moment(2024, 1, 2, 3, 4), "second": moment(2024, 1, 2, 3, 4, 5),
        "micro": moment(2024, 1, 2, 3, 4, 0, 6), "micro_max": moment.max, "moment_min": moment.min,
        "fold": moment(2024, 1, 2, 3, 4, fold=1), "when": When(2024, 1, 2, 3, 4, 5),
        "utc": timezone.utc, "moment_utc": moment(2024, 1, 2, 3, 4, 5, tzinfo=timezone.utc),
        "fold_zone": moment(2024, 1, 2, 3, 4, 5, 6, cet, fold=1),
        "time": time(1, 2), "time_second": time(1, 2, 3), "time_micro": time(1, 2, 0, 99999),
        "time_zone": time(1, 2, tzinfo=cet, fold=1), "time_fold": time(1, 2, fold=1), "time_zero": time(),
        "delta_zero": timedelta(0), "delta": timedelta(days=1, hours=2, microseconds=3),
        "delta_negative": timedelta(microseconds=-1), "delta_max": timedelta.max, "delta_min": timedelta.min,
        "delta_seconds": timedelta(seconds=90),
        "zone": timezone(timedelta(hours=-5, minutes=-30)), "zone_named": cet, "zone_min": timezone.min,
        "zone_zero_named": timezone(timedelta(0), "Z"),
    }.items()
    try:
        import zoneinfo
        yield "zone_info", zoneinfo.ZoneInfo("UTC")
    except (ImportError, KeyError):
        pass


def decimals():
    texts = ("0", "-0", "0.00", "-0E+3", "1", "-1.50", "123.456", "1E+5", "1E-6", "1E-7", "0.000001", "1.234E-10",
             "12345678901234567890", "1234567890123456789", "10000000000000000000", "-99999999999999999999.99",
             "NaN", "-NaN", "sNaN", "NaN123", "sNaN98765432109876543210", "Infinity", "-Infinity", "0E-10",
             "1E+1000", "9.99E-999999", "1.0E+2", "100", "1" + "0" * 40, "3." + "14159" * 60)
    for i, text in enumerate(texts):
        yield f"decimal_{i}", Decimal(text)
    yield "money", Money("12.30")
    with decimal.localcontext() as context:
        context.prec = 200
        yield "third", Decimal(1) / 3
        yield "power", Decimal(7) ** 200


def containers():
    split = Attributes()
    ordered = collections.OrderedDict([("a", 1), ("b", 2), ("c", 3)])
    ordered.move_to_end("a")
    mapping = {"a": 1, 2: [3], None: {}}
    emptied = {i: i for i in range(3000)}
    for i in range(2990):
        del emptied[i]
    few = set(range(100000))
    few -= set(range(99995))
    looped = {}
    looped["keys"] = looped.values()
    counter = collections.Counter("abracadabra")
    yield from {
        "keys": mapping.keys(), "values": mapping.values(), "items": mapping.items(),
        "empty_keys": {}.keys(), "empty_items": {}.items(), "long_ones": dict.fromkeys(range(150)).keys(),
        "split_keys": split.__dict__.keys(), "split_items": split.__dict__.items(),
        "proxy": types.MappingProxyType(mapping), "proxy_ordered": types.MappingProxyType(ordered),
        "ordered": ordered, "ordered_keys": ordered.keys(), "ordered_items": ordered.items(),
        "ordered_empty": collections.OrderedDict(), "looped": looped, "emptied": emptied, "few": few,
        "emptied_values": emptied.values(), "defaults": collections.defaultdict(list, a=[1]),
        "defaults_none": collections.defaultdict(None, {1: 2}),
        "counter": counter, "counter_empty": collections.Counter(), "tally": Tally(x=1, y=5, z=5),
        "counter_mixed": collections.Counter(a=1.5, b=-2, c=2), "queue": collections.deque("abc"),
        "queue_most": collections.deque(range(200), maxlen=150), "queue_empty": collections.deque(),
        "pair": Pair(1), "slice": slice(None, 5, -1), "range": range(5), "range_step": range(10, 0, -3),
        "range_large": range(1 << 70),
    }.items()


def arrays():
    for code in "bhilq":
        yield "array_" + code, array.array(code, [-3, 0, 100])
        yield "array_" + code.upper() + "_", array.array(code.upper(), [0, 7, 250])
    yield from {
        "array_f": array.array("f", [0.5, 0.1, -1e30]), "array_d": array.array("d", [0.1, 1e300, float("inf")]),
        "array_u": array.array("u", "h\u00e9llo'\U0001f600"), "array_empty": array.array("d"),
        "array_long": array.array("i", range(199)), "numbers": Numbers("i", [1]),
    }.items()
    if sys.version_info >= (3, 13):
        yield "array_w", array.array("w", "w\u00efde")
    released = memoryview(b"abc")
    released.release()
    yield "released", released
    yield "view", memoryview(b"abc")
    yield "view_array", memoryview(array.array("i", [1, 2]))


def enums():
    yield from {
        "red": Colour.RED, "green": Colour.GREEN, "pair_member": Colour.PAIR, "one": Number.ONE,
        "large": Number.LARGE, "r": Perm.R, "rw": Perm.RW, "rx": Perm.R | Perm.X, "rwx": Perm.R | Perm.W | Perm.X,
        "none": Perm(0), "unknown": Perm(64), "partly": Perm(65), "inverse": ~Perm.R, "inverse_all": ~Perm(7),
        "bold": Style.BOLD, "both": Style.BOLD | Style.SMALL, "no_style": Style(0), "no_bold": ~Style.BOLD,
        "text": Text.A, "colours": [Colour.RED, Perm.X], "colour_class": Colour, "perm_class": Perm,
    }.items()
    if hasattr(enum, "StrEnum"):
        yield "str_enum", enum.StrEnum("Words", "A B").A
        yield "kept", enum.IntFlag("Kept", "A B", boundary=enum.KEEP)(9)


def others():
    joined = pathlib.PurePosixPath("/a//b", "./c", "d/../e/")
    said = pathlib.PurePosixPath("x/y")
    str(said)
    windows = pathlib.PureWindowsPath("c:\\a\\b")
    repr(windows)
    yield from {
        "path": pathlib.Path("/usr/lib"), "path_joined": joined, "path_said": said, "path_dot": pathlib.Path(),
        "path_slashes": pathlib.PurePosixPath("//x//y"), "path_three": pathlib.PurePosixPath("///x"),
        "path_root": pathlib.PurePosixPath("/"), "path_name": pathlib.Path("it's \u00e9"), "place": Place("p") / "q",
        "path_parent": joined.parent, "path_over": pathlib.PurePosixPath("a", "/b", "c"), "windows": windows,
        "fraction": fractions.Fraction(-3, 9), "fraction_large": fractions.Fraction(1 << 80, 3),
        "uuid": uuid.UUID(int=5), "uuid_full": uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
    }.items()


async def sleeper(future):
    try:
        await future
    finally:
        pass


async def outer(future):
    await sleeper(future)


async def finisher(result):
    return result


async def failer():
    raise ValueError("no")


class Host:
    async def method(self):
        await asyncio.sleep(1000)

    def called(self, future):
        pass


def called(future):
    pass


@functools.wraps(called)
def wrapper(future):
    pass


def tasks(loop):
    forever, done, failed, cancelled = [loop.create_future() for _ in range(4)]
    done.set_result(1.5)
    failed.set_exception(KeyError("k"))
    cancelled.cancel()
    looped = loop.create_future()
    looped.set_result([looped])
    itself = loop.create_future()
    itself.set_result(itself)
    many = loop.create_future()
    for callback in (called, Host().called, print, called):
        many.add_done_callback(callback)
    one = loop.create_future()
    one.add_done_callback(wrapper)
    two = loop.create_future()
    two.add_done_callback(called)
    two.add_done_callback([].append)
    made = {
        "task": loop.create_task(outer(forever)), "task_name": loop.create_task(Host().method(), name="it's mine"),
        "task_none": loop.create_task(finisher(None)), "task_int": loop.create_task(finisher(10 ** 50)),
        "task_text": loop.create_task(finisher("a'" * 40)), "task_short": loop.create_task(finisher("short")),
        "task_object": loop.create_task(finisher(datetime.datetime(2024, 1, 2, 3, 4, 5))),
        "task_failed": loop.create_task(failer()), "task_cancelled": loop.create_task(sleeper(loop.create_future())),
        "task_zeros": loop.create_task(finisher("\0" * 10)), "task_lines": loop.create_task(finisher("\n" * 20)),
        "task_29": loop.create_task(finisher("x" * 27 + "yz")), "task_28": loop.create_task(finisher("x" * 28)),
        "task_plain": loop.create_task(finisher(Attributes())), "task_none_list": loop.create_task(finisher(...)),
        "task_list": loop.create_task(finisher([1, (2,), [], ()])), "task_items": loop.create_task(finisher([0] * 7)),
        "task_dict": loop.create_task(finisher({"b": 1, "a": [2]})), "task_empty": loop.create_task(finisher({})),
        "task_rows": loop.create_task(finisher({i: i for i in (5, 3, 1, 2, 4)})),
        "task_deep": loop.create_task(finisher([[[[[[[[1]]]]]]]])),
        "task_enum": loop.create_task(finisher(Colour.RED)),
    }
    gathered = asyncio.gather(made["task"], many, return_exceptions=True)

    async def settle():
        for _ in range(3):
            await asyncio.sleep(0)
        made["task_cancelled"].cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    loop.run_until_complete(settle())
    made["task_begun"] = loop.create_task(outer(forever))
    made["task_cancelling"] = loop.create_task(sleeper(forever))
    made["task_cancelling"].cancel()
    made["task_failed"].exception()
    failed.exception()
    if sys.version_info >= (3, 11):
        # Before, the inner one is written out once more.
        yield "future_itself", itself
        yield "future_looped", looped
    yield from made.items()
    yield from {"future": forever, "future_done": done, "future_failed": failed, "future_cancelled": cancelled,
                "future_many": many, "future_one": one, "future_two": two, "gathered": gathered}.items()


def main():
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    made = {}
    for source in (dates(), decimals(), containers(), arrays(), enums(), others(), tasks(loop)):
        made.update(source)
    # One write for all of them; at the next one they are variables of the module.
    sys.stdout.write("".join("@%s=%#x %r\n" % (name, id(value), value) for name, value in made.items()))
    sys.stdout.flush()
    globals().update({"x_" + name: value for name, value in made.items()}, x_own=Own.A)
    print("ready", flush=True)
    # Without the warnings of what is left pending.
    os._exit(0)


main()

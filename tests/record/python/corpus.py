# SPDX-License-Identifier: MIT
#
# Functions entered and left in every way there is. `corpus.py profile` prints what sys.setprofile
# says of run(): event, function, the function's first line, the frame's line. `corpus.py monitor`
# does so with sys.monitoring (3.12 on). Without an argument it only runs.
import sys
import threading


class Account:
    def __init__(self, value):
        self.value = value

    @property
    def half(self):
        return self.value / 2

    def __getitem__(self, key):
        return key

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True


class Base:
    def __init_subclass__(cls):
        cls.known = True


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def add(a, b=2, *rest, c=3, **more):
    return a + b + c


def raiser(depth):
    if depth == 0:
        raise KeyError("deep")
    raiser(depth - 1)


def catcher():
    try:
        raiser(3)
    except KeyError:
        return "caught"
    finally:
        add(1)


def generator():
    try:
        yield 1
        got = yield 2
        yield got
    except ValueError:
        yield 4


def plain():
    yield "a"
    yield "b"


def delegating():
    result = yield from plain()
    return result


def catching():
    try:
        yield from generator()
    except RuntimeError:
        pass


async def inner(n):
    return n


class Awaitable:
    def __await__(self):
        yield "suspended"
        return 5


async def outer():
    a = await inner(1)
    b = await Awaitable()
    return a + b


async def ticker():
    yield 1
    yield 2


async def collect():
    return [n async for n in ticker()]


def decorator(f):
    def wrapper(*args):
        return f(*args)

    return wrapper


@decorator
def decorated(n):
    return n * 2


def closure():
    count = 0

    def step():
        nonlocal count
        count += 1
        return count

    return step


def key(n):
    return -n


def drive(coroutine):
    try:
        while True:
            coroutine.send(None)
    except StopIteration as stop:
        return stop.value


def in_thread():
    for i in range(3):
        add(i)


def run():
    fib(5)
    add(1, 2, 3, c=4, d=5)
    catcher()
    for _ in plain():
        pass
    list(delegating())
    g = generator()
    next(g)
    g.send(None)
    g.throw(ValueError)
    g.close()
    g = catching()
    next(g)
    try:
        g.throw(KeyError("thrown past"))
    except KeyError:
        pass
    g = generator()
    try:
        g.throw(KeyError("not begun"))
    except KeyError:
        pass
    unfinished = plain()
    next(unfinished)
    unfinished.close()
    drive(outer())
    drive(collect())
    list(map(add, [1, 2]))
    sorted([3, 1, 2], key=key)
    for i in range(40):
        account = Account(i)
        account.half
        account[i]
    with Account(1):
        raise ValueError
    decorated(4)
    step = closure()
    step()
    step()
    [add(n) for n in range(2)]
    {n: add(n) for n in range(2)}
    sum(add(n) for n in range(3))
    (lambda: add(7))()

    class Local(Base):
        x = add(1)

        def method(self):
            return self.x

    Local().method()
    eval("add(5)")
    exec("def f():\n    return add(6)\nf()\n")
    str(Text())
    hash(Text())


class Text:
    def __repr__(self):
        return "text"

    def __hash__(self):
        return 5


def mine(code):
    return code.co_filename in (__file__, "<string>")


def profiled():
    events = []

    def profile(frame, event, arg):
        code = frame.f_code
        if event in ("call", "return") and mine(code):
            events.append((event, code.co_name, code.co_firstlineno, frame.f_lineno))

    sys.setprofile(profile)
    run()
    sys.setprofile(None)
    return events


def monitored():
    events = []
    names = {"call": "PY_START", "resume": "PY_RESUME", "throw": "PY_THROW", "return": "PY_RETURN",
             "yield": "PY_YIELD", "unwind": "PY_UNWIND"}
    tool = sys.monitoring.PROFILER_ID
    sys.monitoring.use_tool_id(tool, "ttq")

    def seen(name):
        def callback(code, *rest):
            if mine(code):
                frame = sys._getframe(1)
                events.append((name, code.co_name, code.co_firstlineno, frame.f_lineno))

        return callback

    kinds = 0
    for name, event in names.items():
        event = getattr(sys.monitoring.events, event)
        kinds |= event
        sys.monitoring.register_callback(tool, event, seen(name))
    sys.monitoring.set_events(tool, kinds)
    run()
    sys.monitoring.set_events(tool, 0)
    return events


def main():
    if len(sys.argv) > 1:
        for event in profiled() if sys.argv[1] == "profile" else monitored():
            print(*event)
        return
    run()
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()


main()

# SPDX-License-Identifier: MIT
#
# Lines executed in every order there is. `lines.py lines` prints what sys.settrace says of run():
# function and line of each line event. Without an argument it only runs.
import sys


def loops(n):
    total = 0
    for i in range(n):
        if i == 1:
            continue
        elif i == 3:
            break
        total += i
    else:
        total = -1
    while n > 0:
        n -= 1
    while True:
        total += 1
        if total > 5: break
    for i in range(3): total += i
    while total > 3: total -= 1
    for i in range(2):
        pass
    for _ in []:
        never = 1
    return total


def empty():
    pass


def many_lines(
    a,
    b=2,
):
    value = [
        a,
        b,
        empty(),
    ]
    text = ("one"
            "two")
    result = empty() or \
        len(value) + \
        len(text)
    return (a if a > b
            else b)


def comprehensions(n):
    a = [i for i in range(n)]
    b = [i * j for i in range(n)
         for j in range(n)
         if i != j]
    c = {i: str(i)
         for i in a}
    d = sum(i
            for i in b)
    return len(c) + d


def exceptions(kind):
    try:
        try:
            if kind == 0:
                raise KeyError
            elif kind == 1:
                raise ValueError("one")
            elif kind == 2:
                return "returned"
            empty()
        except KeyError:
            kind = 10
        else:
            kind += 1
        finally:
            empty()
    except (TypeError,
            ValueError) as error:
        kind = str(error)
    return kind


class Manager:
    attribute = 1

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True


def managers():
    with Manager() as a:
        empty()
    with Manager(), \
         Manager():
        raise KeyError
    for i in range(2):
        with Manager():
            continue
    return a


def generator(n):
    got = 0
    for i in range(n):
        got = yield i
        if got:
            yield -1
    try:
        yield 100
    finally:
        got = 1


def delegating():
    yield from generator(2)
    result = yield from ()
    return result


async def sleeper():
    return Awaited()


class Awaited:
    def __await__(self):
        yield 1
        return 2


async def waiting():
    a = await Awaited()
    async for i in ticks():
        a += i
    return a


async def ticks():
    yield 1
    yield 2


def decorator(f):
    return f


def nested():
    @decorator
    @decorator
    def inner(x=1,
              y=2):
        def innermost():
            nonlocal x
            x += 1
            return y
        return innermost()

    class Local:
        """Its text."""
        a = 1
        b = [a, 2]

        def method(self):
            return self.a

    f = lambda: empty()
    f()
    return inner() + Local().method()


def assertions(n):
    assert n, "no"
    assert n > 0
    global_value = n; n += 1; n += 2
    del global_value
    x, y = n, \
        n
    x = y = 3
    (x,
     y) = 1, 2
    if x and y \
       or n:
        n = 2
    if not n: n = 1
    return x < y < n


def unreachable(n):
    if n:
        return 1
    else:
        return 2
    empty()


def conditional(n):
    return n and \
        (n > 1
         or n < 0)


def run():
    loops(5)
    loops(1)
    empty()
    many_lines(1)
    many_lines(3)
    comprehensions(3)
    for kind in range(4):
        exceptions(kind)
    managers()
    list(generator(2))
    g = generator(1)
    next(g)
    g.send(1)
    g.close()
    g = generator(0)
    next(g)
    try:
        g.throw(KeyError)
    except KeyError:
        pass
    list(delegating())
    coroutine = waiting()
    try:
        while True:
            coroutine.send(None)
    except StopIteration:
        pass
    nested()
    assertions(1)
    unreachable(0)
    unreachable(1)
    conditional(0)
    conditional(1)
    for n in range(60):
        conditional(n)
    sorted([3, 1, 2], key=lambda n:
           -n)


def traced():
    events = []

    def trace(frame, event, arg):
        if frame.f_code.co_filename != __file__:
            return None
        if event == "line":
            events.append((frame.f_code.co_name, frame.f_lineno))
        return trace

    sys.settrace(trace)
    run()
    sys.settrace(None)
    return events


def main():
    if len(sys.argv) > 1:
        for event in traced():
            print(*event)
        return
    run()


main()

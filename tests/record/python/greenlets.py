# SPDX-License-Identifier: MIT
# Greenlets that call, return, raise, yield and switch to each other in an order drawn from a seed. What they do is
# printed as they do it: a call's number where it begins, with its stack, and again where it ends.
import os
import random
import sys

import greenlet

draw = random.Random(7)
made = []
calls = 0
main = greenlet.getcurrent()


def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def stack():
    frame, lines = sys._getframe(1), []
    while frame:
        lines.append(f"{frame.f_code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return ",".join(lines)


def switch():
    others = [g for g in made if not g.dead and g is not greenlet.getcurrent()]
    draw.choice([main, *others]).switch()


def numbers(count):
    for k in range(count):
        if draw.random() < 0.4:
            switch()
        yield k


def work(number, depth):
    global calls
    say("begin", number, stack())
    total = number
    for _ in range(draw.randrange(4)):
        what = draw.randrange(5)
        if what == 0:
            switch()
        elif what == 1:
            total += sum(numbers(draw.randrange(3)))
        elif what == 2 and depth > 1:
            raise_in = draw.random() < 0.3
            say("raise", number) if raise_in else None
            if raise_in:
                raise KeyError(number)
        elif depth < 6:
            calls += 1
            try:
                total += work(calls, depth + 1)
            except KeyError as error:
                say("caught", number, error.args[0])
    say("end", number, total)
    return total


def begin():
    global calls
    while calls < 400:
        calls += 1
        work(calls, 0)


def run():
    for _ in range(6):
        made.append(greenlet.greenlet(begin))
    while any(not g.dead for g in made):
        draw.choice([g for g in made if not g.dead]).switch()


run()

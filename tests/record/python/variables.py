# SPDX-License-Identifier: MIT
#
# Variables of every kind, changed a known number of times.
import json


class Counter:
    def __init__(self):
        self.total = 0

    def add(self, n):
        self.total += n
        return self


class Slotted:
    __slots__ = ("total",)

    def __init__(self):
        self.total = 0


def accumulate(items):
    total = 0
    for item in items:
        total += item
    return total


def closure():
    count = 0

    def step():
        nonlocal count
        count += 1
    for _ in range(3):
        step()
    return count


def countdown(n):
    while n:
        last = n
        yield last
        n -= 1


level = 0
d = {"a": 1}
counter = Counter()
slotted = Slotted()
for level in (1, 2, 3):
    accumulate(range(4))
    counter.add(level)
    slotted.total = level
    d["k"] = level * 10
for i in range(100):
    d["filler%d" % i] = i
d["k"] = 99
json.marker = 1
json.marker = 2
closure()
list(countdown(3))


def outlast():
    q = 0
    while q < 60000:
        q += 1
    return q


outlast()

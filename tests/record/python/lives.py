# SPDX-License-Identifier: MIT
#
# Objects made and freed at known lines; prints what is to be found out: a name, a type, id(), the
# line it is made on, the line that frees it (0: it lives on).
import sys


class Point:
    def __init__(self, x):
        self.x = x


def line():
    return sys._getframe(1).f_lineno


def make_function():
    def inner(a, b=2):
        return a + b
    return inner, line() - 2


def churn(n):
    # Addresses are used again and again.
    for i in range(n):
        lambda: i
        Point(i)
        [i, i]


def add_up(items):
    total = 0
    for item in items:
        total += item
    return total


def main():
    found = []
    churn(50)
    function, made = make_function()
    found.append(("function", "PyFunction", id(function), made, 0))
    address = id(function)
    churn(50)
    point = Point(1); made = line()
    address = id(point)
    del point; freed = line()
    found.append(("point", "Point", address, made, freed))
    numbers = [1000, 2000]; made = line()
    address = id(numbers)
    numbers = None; freed = line()
    found.append(("list", "list", address, made, freed))
    add_up([1, 2, 3])
    add_up([10, 20])
    holder = Point(5)
    found.append(("holder", "Point", id(holder), line() - 1, 0))
    keep = [holder, holder]
    keep.pop()
    for row in found:
        print(*row)
    return function, keep


result = main()

# SPDX-License-Identifier: MIT
# Many small programs in one, for diff_test.py: the second argument says which. diff_test.py
# writes two scripts from this one, with the first and the second of each PICK(…, …). The line that
# a comparison must find holds HERE(case). After the word "fork" each case runs in a child.
import os
import sys

data = open(sys.argv[1], "rb").read()  # HERE(4)


def step(n):
    return n * 2 + 1


def case0():
    limit = PICK(3, 5)  # HERE(0)
    total = 0
    for i in range(limit):
        total += step(i)
    print(total)


def case1():
    words = ["a", "b", "c"]
    words[1] = PICK("b", "x")  # HERE(1)
    for w in words:
        if w == "x":
            print("found")
    print(words)


def case2():
    def inner(n):
        if n > PICK(10, 20):  # HERE(2)
            return step(n)
        return n

    print(inner(15))


class Thing:
    def __init__(self, size):
        self.size = size

    def large(self):
        return self.size > 4


def case3():
    things = [Thing(n) for n in (1, 2, PICK(3, 9))]  # HERE(3)
    if any(t.large() for t in things):
        print("large")
    print(len(things))


def case5():
    try:
        value = PICK(1, 0)  # HERE(5)
        print(10 // value)
    except ZeroDivisionError:
        print("zero")


def case4():
    first = data[6]
    second = first + 3
    if second > 110:
        step(second)
    print("x")


def case6():
    count = int(os.environ["PYCASE6"])  # HERE(6)
    while count > 0:
        count -= 5
        step(count)
    print(count)


forks = sys.argv[2] == "fork"
for case in sys.argv[3:] if forks else sys.argv[2:]:
    child = os.fork() if forks else 0
    if child == 0:
        globals()["case" + case]()
        break
    os.waitpid(child, 0)

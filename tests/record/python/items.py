# SPDX-License-Identifier: MIT
#
# Items of dicts and attributes in all the ways in which they come and go; prints what `py changes of`
# is to find: an expression, a new value, the line, in order.
import sys


def line():
    return sys._getframe(1).f_lineno


log = []


def note(what, value, at):
    log.append((what, repr(value) if value is not None else None, at))


empty = {}
display = {"k": 1, "other": 2}; display_line = line()
called = dict(k=1); called_line = line()
updated = {}
popped = {}
defaulted = {}
cleared = {"k": 5}; cleared_line = line()
grown = {}
numbered = {}
varied = {}


class Thing:
    pass


def in_function():
    empty["k"] = 1; note('empty["k"]', 1, line())
    empty["l"] = 2
    empty["k"] = 3; note('empty["k"]', 3, line())
    note('display["k"]', 1, display_line)
    display["k"] = 7; note('display["k"]', 7, line())
    note('called["k"]', 1, called_line)
    updated.update(k=4); note('updated["k"]', 4, line())
    updated.update({"k": 5}); note('updated["k"]', 5, line())
    popped["k"] = 8; note('popped["k"]', 8, line())
    popped.pop("k"); note('popped["k"]', None, line())
    popped["k"] = 9; note('popped["k"]', 9, line())
    del popped["k"]; note('popped["k"]', None, line())
    popped["x"] = 1
    popped["k"] = 10; note('popped["k"]', 10, line())
    defaulted.setdefault("k", 11); note('defaulted["k"]', 11, line())
    defaulted.setdefault("k", 12)
    note('cleared["k"]', 5, cleared_line)
    cleared.clear(); note('cleared["k"]', None, line())
    cleared["k"] = 6; note('cleared["k"]', 6, line())
    grown["k"] = 1; note('grown["k"]', 1, line())
    for i in range(100):
        grown["x%d" % i] = i
    grown["k"] = 2; note('grown["k"]', 2, line())
    numbered[5] = 1; note('numbered[5]', 1, line())
    numbered["s"] = 1
    numbered[5] = 2; note('numbered[5]', 2, line())
    varied["k"] = 1; note('varied["k"]', 1, line())
    varied[7] = 1
    varied["k"] = 2; note('varied["k"]', 2, line())


thing = Thing()
other = Thing()
gone = Thing()
dicted = Thing()
many = Thing()


def attributes():
    thing.a = 1; note("thing.a", 1, line())
    thing.b = 2
    thing.a = 3; note("thing.a", 3, line())
    other.b = 1
    other.a = 2; note("other.a", 2, line())
    gone.a = 1; note("gone.a", 1, line())
    del gone.a; note("gone.a", None, line())
    gone.a = 2; note("gone.a", 2, line())
    dicted.a = 1; note("dicted.a", 1, line())
    d = dicted.__dict__
    d["a"] = 2; note("dicted.a", 2, line())
    d["z"] = 3
    dicted.a = 4; note("dicted.a", 4, line())
    many.a = 1; note("many.a", 1, line())
    for i in range(60):
        setattr(many, "n%d" % i, i)
    many.a = 2; note("many.a", 2, line())


def keywords(**kw):
    note('kw["k"] in keywords', 1, call_line)
    kw["k"] = 2; note('kw["k"] in keywords', 2, line())


in_function()
attributes()
call_line = line() + 1
keywords(k=1)
for entry in log:
    print(*entry, sep="|")

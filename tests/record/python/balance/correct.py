# SPDX-License-Identifier: MIT
"""Gives objects to extensions of the standard library, which count right.

A line is "case address": what is kept is alive and held, the rest is gone.
"""

import collections
import csv
import ctypes
import datetime
import io
import json
import os
import pickle
import sqlite3
import struct
import xml.etree.ElementTree as tree
import zlib


class Thing:
    def __init__(self, n=0):
        self.n = n

    def __lt__(self, other):
        return self.n < other.n

    def __reduce__(self):
        return Thing, (self.n,)


kept = {}


def use(name, work):
    """Twice: once the result is kept, once it is dropped."""
    for keep in (True, False):
        thing = Thing(7)
        result = work(thing)
        if keep:
            kept[name] = result, thing
        address = id(thing)
        del result, thing
        os.write(1, f"{name}-{'kept' if keep else 'gone'} {address:#x}\n".encode())


def element(thing):
    root = tree.Element("root")
    child = tree.SubElement(root, "child")
    child.text = thing
    root.append(tree.Element("other", {"key": thing}))
    root.remove(root[1])
    return root.find("child").text


def database(thing):
    connection = sqlite3.connect(":memory:")
    connection.create_function("n", 1, lambda x, thing=thing: thing.n + x)
    rows = connection.execute("select n(?)", (1,)).fetchall()
    connection.close()
    return rows


def parsed(thing):
    return json.loads('{"a": [1, 2]}', object_hook=lambda d: (d, thing))


def encoded(thing):
    return json.JSONEncoder(default=lambda o: o.n).encode({"thing": thing, "things": [thing, thing]})


def table(thing):
    class Row(list):
        pass

    out = io.StringIO()
    csv.writer(out).writerow([thing, 1])
    return list(csv.reader(out.getvalue().splitlines())), thing


def pickled(thing):
    out = io.BytesIO()
    pickler = pickle.Pickler(out)
    pickler.dump([thing, thing, (thing, {"k": thing})])
    return pickle.loads(out.getvalue()), out


def boxed(thing):
    box = ctypes.py_object(thing)
    array = (ctypes.py_object * 2)(thing, box.value)
    array[1] = None
    return array


def fails(thing):
    try:
        json.dumps(thing)
    except TypeError:
        return None


def zoned(thing):
    class Zone(datetime.tzinfo):
        def utcoffset(self, when):
            return datetime.timedelta(hours=thing.n)

    return datetime.datetime(2000, 1, 1, tzinfo=Zone()).utcoffset()


use("element", element)
use("database", database)
use("parsed", parsed)
use("encoded", encoded)
use("table", table)
use("pickled", pickled)
use("boxed", boxed)
use("fails", fails)
use("zoned", zoned)
use("packed", lambda thing: struct.pack("i", thing.n))
use("sorted", lambda thing: sorted([thing, Thing(1), Thing(9)]))
use("queued", lambda thing: collections.deque([thing, thing], 3))
use("squeezed", lambda thing: zlib.compress(bytes(thing.n)))
os._exit(0)

# SPDX-License-Identifier: MIT
# `crashes.py WAY`: dies by an object that was freed, or written over, while another thread waits.
import ctypes
import sys
import threading


class Victim:
    def __init__(self):
        self.name = "victim"


class Slotted:
    __slots__ = ("name", "other")  # with the collector's header 48 bytes, in all versions


def make():
    def victim():
        return sys  # a global: some versions get as far as here
    return victim


def wait(ready):
    ready.set()
    threading.Event().wait()


def freed():
    function = make()
    print(hex(id(function)), flush=True)
    release(id(function))
    function()


def release(address):
    # One reference too many is given back.
    ctypes.pythonapi.Py_DecRef(ctypes.c_void_p(address))


def overwritten():
    victim = Victim()
    print(hex(id(victim)), flush=True)
    overrun(id(victim))
    victim.name


def beside():
    # The block before the victim's is free, and becomes an int's that is longer than it seems.
    many = [Slotted() for _ in range(64)]
    at = next(i for i in range(63) if 0 < id(many[i + 1]) - id(many[i]) <= 64)
    victim = many[at + 1]
    victim.name = "victim"
    many[at] = None
    print(hex(id(victim)), flush=True)
    overrun(id(victim))
    victim.name


def overrun(address):
    ctypes.memset(address + object.__basicsize__ - 8, 0x66, 8)  # its type, the last word of its head


def null():
    print(hex(0), flush=True)
    ctypes.string_at(0)


ready = threading.Event()
threading.Thread(target=wait, args=(ready,), daemon=True).start()
ready.wait()
{"freed": freed, "overwritten": overwritten, "beside": beside, "null": null}[sys.argv[1]]()

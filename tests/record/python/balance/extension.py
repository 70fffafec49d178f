# SPDX-License-Identifier: MIT
"""Calls the functions of the extension `balance` and says of each which object it was about.

A line is "case address": written when nobody but the extension, or those who still count on the object, has it.
"""

import os
import sys

sys.path.insert(0, sys.argv[1])
import balance  # noqa: E402

TOO_MANY = ["item_kept", "error_path", "early_return", "append", "made_and_stored", "attribute", "loop_left",
            "callback_result", "callback_argument", "packed", "state_replaced", "global_replaced", "returned_twice",
            "exported", "boxed"]
TOO_FEW = ["borrowed_kept", "state_borrowed", "tuple_stolen", "list_stolen", "given_back", "given_back_by_key",
           "borrowed_returned", "error_twice", "packed_borrowed"]


class Thing:
    pass


class Owner:
    pass


def say(text):
    os.write(1, text.encode() + b"\n")


def call(function, argument):
    try:
        return function(argument)
    except ValueError:
        return None


def leave(name, function):
    """Everything that Python has of the object is given up; it should go."""
    thing = bytearray(b"thing") if "exported" in name else Thing()
    address = id(thing)
    argument = [thing]
    if "attribute" in name:
        argument[0] = Owner()
        argument[0].value = thing
    elif "callback_result" in name:
        made = []

        def make():
            """What it returns only its caller has."""
            made.append(hex(id(made_thing := Thing())))
            return made_thing

        argument.append(make)
    elif "callback_argument" in name:
        argument.append(lambda same: same is None)
    elif "replaced" in name:
        call(function, argument)
        argument[0] = Thing()
    del thing
    call(function, argument)
    if "callback_result" in name:
        address = int(made[0], 16)
    del argument
    say(f"{name} {address:#x}")


kept = []


def stay(name, function):
    """Python goes on to hold the object; or the extension does."""
    thing = Thing()
    address = id(thing)
    argument = [thing, {"key": thing}]
    if "kept" in name or "state" in name:
        argument.pop()
        del thing
        call(function, argument)
        argument.clear()
    elif "key" in name:
        del thing
        argument[0] = None
        call(function, argument)
        kept.append(argument)
    else:
        argument.pop()
        del thing
        result = call(function, argument)
        del result
        kept.append(argument)
    say(f"{name} {address:#x}")


for wrong in TOO_MANY:
    leave(wrong, getattr(balance, wrong))
    leave(wrong + "_right", getattr(balance, wrong + "_right"))
for wrong in TOO_FEW:
    stay(wrong + "_right", getattr(balance, wrong + "_right"))
    stay(wrong, getattr(balance, wrong))
os._exit(0)

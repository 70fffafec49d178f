# SPDX-License-Identifier: MIT
"""Run inside `ttq gdb`: goes to each time of $TIMES and writes to $OUT, a line of JSON for each frame,
what gdb makes of the same registers and memory: the frame's function and line, all variables in scope.

A pointer to what is not in memory is {"points_to": …}, as in ttq's `data`. null: gdb has no value, or
not all of it.
"""

import json
import os

import gdb

MOST_FRAMES = 30
NUMBERS = (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_BOOL)


class NoValue(Exception):
    pass


def plain(value):
    kind = value.type.strip_typedefs()
    if value.is_optimized_out:
        raise NoValue
    if kind.code in NUMBERS:
        return int(value)
    if kind.code == gdb.TYPE_CODE_ENUM:
        return str(value)
    if kind.code == gdb.TYPE_CODE_FLT:
        return float(value)
    if kind.code == gdb.TYPE_CODE_PTR:
        if "synthetic pointer" in str(value):
            return {"points_to": plain(value.dereference())}
        return hex(int(value))
    if kind.code == gdb.TYPE_CODE_ARRAY:
        first, last = kind.range()
        return [plain(value[i]) for i in range(first, last + 1)]
    if kind.code not in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        raise NoValue
    return {field.name: plain(value[field]) for field in kind.fields() if field.name}


def variables(frame):
    found = {}
    try:
        block = frame.block()
    except RuntimeError:  # no debug information
        return found
    while block is not None and not block.is_global and not block.is_static:
        for symbol in block:
            if symbol.name in found or not (symbol.is_variable or symbol.is_argument):
                continue
            try:
                found[symbol.name] = plain(symbol.value(frame))
            except (gdb.error, NoValue):
                found[symbol.name] = None
        if block.function is not None:
            break
        block = block.superblock
    return found


gdb.execute("set pagination off")
with open(os.environ["OUT"], "w", encoding="utf-8") as out:
    for time in os.environ["TIMES"].split():
        gdb.execute("ttq seek " + time, to_string=True)
        frame, number = gdb.newest_frame(), 0
        while frame is not None and number < MOST_FRAMES:
            # Functions that jumped on: gdb shows them where one way alone leads there, ttq all.
            if frame.type() != gdb.TAILCALL_FRAME:
                place = frame.find_sal()
                out.write(json.dumps({"time": int(time), "frame": number, "function": frame.name(), "pc": frame.pc(),
                                      "line": place.line if place.symtab else 0,
                                      "variables": variables(frame)}) + "\n")
            frame, number = frame.older(), number + 1

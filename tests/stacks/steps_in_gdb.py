# SPDX-License-Identifier: MIT
# Run by gdb: steps through the first call of each function of FUNCTIONS with `next`, and writes a JSON
# line each to OUT: the function and the lines at which gdb stopped in it, from its first instruction on.
import json
import os

import gdb

gdb.execute("set confirm off")
gdb.execute("set pagination off")
gdb.execute("set startup-with-shell off")
gdb.execute("set environment LC_ALL C")
MOST = 3000


def steps(function):
    gdb.execute("delete")
    gdb.execute("tbreak *" + function)
    gdb.execute("run", to_string=True)
    frame = gdb.newest_frame()
    if not frame.find_sal().symtab:
        return None
    # As the caller sees it: that does not change while the function runs.
    caller = frame.older()
    outer, back = caller.read_register("rsp"), caller.pc()
    lines = [frame.find_sal().line]
    for _ in range(MOST):
        gdb.execute("next", to_string=True)
        if not gdb.selected_inferior().pid:
            break
        frame = gdb.newest_frame()
        older = frame.older()
        while frame.type() == gdb.INLINE_FRAME and older:
            frame, older = older, older.older()
        if not older or older.read_register("rsp") != outer or older.pc() != back:
            break
        lines.append(gdb.newest_frame().find_sal().line)
    return lines


with open(os.environ["OUT"], "w") as out:
    for name in os.environ["FUNCTIONS"].split(","):
        print(json.dumps([name, steps(name)]), file=out)
try:
    gdb.execute("kill")
except gdb.error:
    pass

# SPDX-License-Identifier: MIT
"""Run by gdb: the value of an expression each time that a function begins, one a line; "?" where gdb
knows none.

    gdb -batch -nx -ex "python function, expression = ..." -x arguments_in_gdb.py PROGRAM
"""

import gdb

gdb.execute("set pagination off")
breakpoint_ = gdb.Breakpoint(function)  # noqa: F821
breakpoint_.silent = True
gdb.execute("run", to_string=True)
while gdb.selected_inferior().pid:
    try:
        value = str(int(gdb.parse_and_eval(expression)))  # noqa: F821
    except (gdb.error, gdb.MemoryError):
        value = "?"
    print("value", value)
    gdb.execute("continue", to_string=True)

# SPDX-License-Identifier: MIT
"""Run inside gdb: does the commands of the file $COMMANDS, one after the other. After each a line
`@@@ COMMAND @@@ PLACE` says where the program is then; what the command printed stands before it.
"""

import os

import gdb


def place():
    try:
        frame = gdb.newest_frame()
    except gdb.error as error:
        return str(error)
    function = frame.name() or "?"
    offset = frame.pc() - int(gdb.lookup_global_symbol(function).value().address) \
        if gdb.lookup_global_symbol(function) else 0
    return f"{function}+{offset}:{frame.find_sal().line}"


def main():
    gdb.execute("set pagination off")
    gdb.execute("set confirm off")
    gdb.execute("set width 0")
    for command in open(os.environ["COMMANDS"]).read().split("\n"):
        if not command:
            continue
        try:
            gdb.execute(command)
        except gdb.error as error:
            gdb.write(f"error: {error}\n")
        gdb.write(f"@@@ {command} @@@ {place()}\n")
        gdb.flush()



main()

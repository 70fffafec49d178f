// SPDX-License-Identifier: MIT
//
// See script.h. A seek goes by way of a step, whose end makes gdb look at threads, registers and
// frames anew.

#include "gdb/script.h"

namespace ttq::gdb {

const char kGdbScript[] = R"python(set remotetimeout 3600
set sysroot target:
set may-write-memory off
set may-write-registers off
set may-call-functions off
python
import os
import sys

import gdb


def linked():
    """Whether gdb would find the linker in the linker's list of libraries. It reads the list where the linker
    reports a new one, and a seek passes over that. Where the program does not say yet where the list is, and
    for moments in which the linker is not in it, gdb would take that the linker is not there."""
    def word(address):
        return int.from_bytes(bytes(gdb.selected_inferior().read_memory(address, 8)), "little")

    try:
        debug = int(gdb.parse_and_eval("(long) &_r_debug"))
        program, linker = word(debug + 8), word(debug + 32)  # struct r_debug: r_map, r_ldbase
        if program == 0:
            return False
        tag = word(program + 16)  # struct link_map: l_addr, l_name, l_ld, l_next
        while word(tag) not in (0, 21):  # DT_NULL, DT_DEBUG
            tag += 16
        if word(tag + 8) != debug:
            return False
        entry, seen = program, set()
        while entry != 0 and entry not in seen:
            if word(entry) == linker:
                return True
            seen.add(entry)
            entry = word(entry + 24)
        return False
    except gdb.error:
        return True


class TtqCommand(gdb.Command):
    """Ask the recording, or move in it.

ttq QUERY           a question in ttq's language; $now is the time here
ttq when            the time here
ttq seek TIME       go there: a number, start, end, crash, (QUERY), TIME + N"""

    def __init__(self):
        super().__init__("ttq", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        word, _, rest = argument.strip().partition(" ")
        if not word:
            gdb.execute("help ttq")
        elif word == "when" and not rest:
            gdb.execute("monitor when")
        elif word == "seek":
            refused = gdb.execute("monitor jump " + rest, to_string=True)
            if refused:
                raise gdb.GdbError(refused.rstrip())
            stopped = gdb.execute("stepi", to_string=True)
            if linked():
                gdb.execute("sharedlibrary", to_string=True)
            for line in stopped.splitlines():
                if line.startswith("[Switching"):
                    gdb.write(line + "\n")
            gdb.execute("frame")
        else:
            gdb.execute("monitor ttq " + argument)


TtqCommand()


def load_script(event):
    """What gdb itself does for files of this machine: libpython.py, libstdc++'s printers."""
    prefix, path = "target:", event.new_objfile.filename or ""
    if not path.startswith(prefix):
        return
    script = os.path.realpath(path[len(prefix):]) + "-gdb.py"
    script = gdb.parameter("data-directory") + "/auto-load" + script
    if os.path.exists(script):
        modules = "/usr/share/gcc/python"
        if os.path.isdir(modules) and modules not in sys.path:
            sys.path.insert(0, modules)
        gdb.execute("source " + script)


gdb.events.new_objfile.connect(load_script)
end
)python";

}  // namespace ttq::gdb

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
    """Whether the linker has a list of libraries. gdb reads it where the linker reports a new one, and a
    seek passes over that; of an empty list it would take that the linker itself is not there."""
    try:
        return int(gdb.parse_and_eval("*(long *) ((char *) &_r_debug + 8)")) != 0
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

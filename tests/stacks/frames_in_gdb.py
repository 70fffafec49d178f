# SPDX-License-Identifier: MIT
"""Run by gdb: stops at the breakpoints of $BREAK (one per line), writes the frames of each stop as a
line of JSON to $OUT, at most $MOST of each."""

import json
import os
import re

import gdb

out = open(os.environ["OUT"], "w")
most = int(os.environ["MOST"])
for setting in ("pagination off", "confirm off", "width 0", "backtrace limit 300"):
    gdb.execute("set " + setting)
for name in ("SIGUSR1", "SIGUSR2", "SIGSEGV"):
    gdb.execute(f"handle {name} nostop noprint pass", to_string=True)
places = os.environ["BREAK"].split("\n")
# At the program's entry point its libraries are loaded.
gdb.execute("starti", to_string=True)
entry = re.search(r"Entry point: (0x\w+)", gdb.execute("info files", to_string=True)).group(1)
at_entry = gdb.Breakpoint("*" + entry)
gdb.execute("continue", to_string=True)
at_entry.delete()
breakpoints = {gdb.Breakpoint(place).number: place for place in places}
hits = dict.fromkeys(places, 0)


def frames():
    found = []
    frame = gdb.newest_frame()
    while frame is not None:
        if frame.type() == gdb.SIGTRAMP_FRAME:
            found.append(["<signal handler called>", None, 0])
        else:
            sal = frame.find_sal()
            file = os.path.basename(sal.symtab.filename) if sal.symtab else None
            found.append([frame.name(), file, sal.line if sal.symtab else 0])
            # One that gdb concludes was left by a jump: it is on no stack.
            if frame.type() == gdb.TAILCALL_FRAME:
                found[-1].append("tail")
        frame = frame.older()
    return found


stopped = []
gdb.events.stop.connect(lambda event: stopped.append(event))
gdb.execute("continue", to_string=True)
while gdb.selected_inferior().pid:
    event = stopped.pop() if stopped else None
    if not isinstance(event, gdb.BreakpointEvent):
        raise SystemExit(f"gdb stopped for {event}")
    for b in event.breakpoints:
        place = breakpoints[b.number]
        out.write(json.dumps([place, frames()]) + "\n")
        hits[place] += 1
        if hits[place] >= most:
            b.enabled = False
    if all(n >= most for n in hits.values()):
        gdb.execute("kill")
        break
    gdb.execute("continue", to_string=True)
out.close()

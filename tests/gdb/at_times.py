# SPDX-License-Identifier: MIT
"""Run inside gdb: goes to each time of $TIMES and writes to $OUT what gdb then shows: registers,
memory round rsp, the stack; a JSON object by time."""

import json
import os

import gdb

NAMES = ("rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip").split()


def look():
    frame = gdb.newest_frame()
    registers = {name: int(frame.read_register(name)) & (1 << 64) - 1 for name in NAMES}
    at = registers["rsp"]
    try:
        memory = bytes(gdb.selected_inferior().read_memory(at, 64)).hex()
    except gdb.MemoryError:
        memory = None
    frames = []
    while frame is not None and len(frames) < 50:
        # Functions that jumped on: gdb shows them where one way alone leads there, ttq all.
        if frame.type() != gdb.TAILCALL_FRAME:
            frames.append([frame.pc(), frame.name()])
        frame = frame.older()
    return {"registers": registers, "memory": memory, "frames": frames,
            "threads": len(gdb.selected_inferior().threads())}


gdb.execute("set pagination off")
seen = {}
for time in os.environ["TIMES"].split():
    gdb.execute("ttq seek " + time, to_string=True)
    seen[time] = look()
with open(os.environ["OUT"], "w") as out:
    json.dump(seen, out)

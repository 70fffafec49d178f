#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How long `ttq gdb` takes to go back to the last write of some bytes, over gdb's own protocol:

    tests/bench/gdb_bench.py build/ttq RECORDING [COUNT]

COUNT (default 300) times: go to a random moment, take a register that points to memory, watch eight bytes
there, `reverse-continue`. Prints the median and the slowest hundredth in ms, of those that found a write
and of those that found none down to the recording's beginning.
"""

import os
import random
import re
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from gdb_client import Server  # noqa: E402

TTQ, RECORDING = (os.path.abspath(p) for p in sys.argv[1:3])
COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else 300


def general_registers(client):
    """The sixteen of x86-64 as numbers, in gdb's order."""
    text = client.ask("g")
    pieces = [text[16 * i:16 * i + 16] for i in range(16)]
    return [int.from_bytes(bytes.fromhex(piece), "little") for piece in pieces if "x" not in piece]


def main():
    choose = random.Random(5)
    server = Server(TTQ, RECORDING)
    try:
        client = server.connect()
        client.ask("QStartNoAckMode")
        end = int(re.search(r" of (\d+)", client.monitor("when")).group(1))
        found, none = [], []
        while len(found) + len(none) < COUNT:
            client.monitor(f"seek {choose.randrange(end)}")
            address = choose.choice(general_registers(client)) + 8 * choose.randrange(4)
            if client.ask(f"m{address:x},8").startswith("E"):
                continue
            client.ask(f"Z2,{address:x},8")
            begin = time.monotonic()
            reply = client.ask("bc")
            (found if "watch:" in reply else none).append(1e3 * (time.monotonic() - begin))
            client.ask(f"z2,{address:x},8")
        for what, times in ("a write found", found), ("none down to the beginning", none):
            if times:
                times.sort()
                print(f"reverse-continue to a watchpoint, {what} ({len(times)}, {end / 1e6:.0f} M instructions): "
                      f"p50 {statistics.median(times):.1f}, p99 {times[int(0.99 * len(times))]:.1f} ms")
    finally:
        server.end()


if __name__ == "__main__":
    main()

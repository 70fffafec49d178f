#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""python_bench.py TTQ PYTHONPATH: opening a recording, and a million rows as a DataFrame, each several times, in
seconds. The rows are got from the recording, every time anew."""

import os
import statistics
import subprocess
import sys
import tempfile
import time

TTQ, PACKAGE = map(os.path.abspath, sys.argv[1:])
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, PACKAGE)


def measure(name, times, what):
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        what()
        seconds.append(time.perf_counter() - start)
    print(f"{name}: first {seconds[0]:.3f}, median {statistics.median(seconds):.3f}, worst {max(seconds):.3f}")


def main():
    with tempfile.TemporaryDirectory(prefix="ttq-bench-") as scratch:
        program, trace = os.path.join(scratch, "million"), os.path.join(scratch, "million.ttq")
        subprocess.run(["cc", "-O1", "-g", os.path.join(HERE, "programs", "million.c"), "-o", program], check=True)
        subprocess.run([TTQ, "record", "--index=now", "-o", trace, program], check=True, stderr=subprocess.DEVNULL)
        start = time.perf_counter()
        import ttq
        print(f"import ttq: {time.perf_counter() - start:.3f}")
        import pandas  # noqa: F401  the library's own time is not ours
        measure("ttq.open", 20, lambda: ttq.open(trace))
        opened = ttq.open(trace)

        def frame():
            rows = len(opened.query("writes to counter").df())
            if rows != 1_000_000:
                sys.exit(f"{rows} rows, not a million")

        measure("a million rows to a DataFrame", 5, frame)


main()

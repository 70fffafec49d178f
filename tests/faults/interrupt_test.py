#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""interrupt_test.py TTQ COUNTER: Ctrl-C in the middle of a question that takes long.

It ends soon, with 130, the rows found so far, and words that say that they are not all."""

import json
import os
import signal
import sys
import time

import faults

COUNT = 3_000_000


def wait_for_handler(pid):
    """Until the process catches SIGINT: it does so as soon as the question runs."""
    for _ in range(1200):
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            caught = next(line for line in f if line.startswith("SigCgt:"))
        if int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1:
            return
        time.sleep(0.05)
    raise AssertionError("the question never began")


def interrupt(ttq, query, form, first_bytes):
    """Ctrl-C after so many bytes of the answer; the status and all it printed."""
    process = ttq.start("-t", ttq.place("x"), "-f", form, query)
    if first_bytes:
        # Not by the object, which would read ahead of `communicate`.
        start = os.read(process.stdout.fileno(), first_bytes).decode()
    else:
        start = ""
        wait_for_handler(process.pid)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    took = time.monotonic() - begun
    assert process.returncode == 130, (query, process.returncode, error[-500:])
    assert took < 10, took
    assert "interrupted" in error, error
    assert all(line.startswith("ttq: ") for line in error.splitlines()), error
    return start + out


def main():
    with faults.Ttq(sys.argv[1]) as ttq:
        status, _, error = ttq.run("record", "-o", ttq.place("x"), sys.argv[2], "/nonexistent",
                                   str(COUNT))
        assert status == 7, error

        rows = interrupt(ttq, "writes to counter", "jsonl", 100).splitlines()
        assert 0 < len(rows) < COUNT, len(rows)
        assert all(int(json.loads(row)["value"], 16) == n + 1 for n, row in enumerate(rows))

        answer = json.loads(interrupt(ttq, "writes to counter | count by function", "json", 0))
        assert answer["complete"] is False and "interrupted" in answer["note"], answer
        assert sum(row["count"] for row in answer["rows"]) < COUNT, answer

        out = interrupt(ttq, "writes to counter | count by function", "table", 0)
        assert "interrupted" in out, out


if __name__ == "__main__":
    main()

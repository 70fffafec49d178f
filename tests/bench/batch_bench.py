#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The batch figure of docs/performance.md: 20 questions over 50 small recordings, on two cores.

    tests/bench/batch_bench.py build/ttq

Half the recordings are of a small C program (examples/tour), half of a small Python script; each is
made anew. Prints the wall clock of `ttq batch`, its CPU time, and how many questions were met.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TTQ = os.path.abspath(sys.argv[1])
EACH = 25
BOXES = os.path.join(HERE, "../support/programs/boxes.py")
# Asked of all: what both programs can answer.
QUESTIONS = [
    ("it was recorded", "modules at end | where path matches /libc/", "some"),
    ("no signal but the expected", "events signal | where not detail matches /SEGV/", "none"),
    ("it ends", "events exit", None),
    ("little output", "events output | count", "some"),
    ("threads", "threads", "count = 1"),
    ("nothing is left writable and executable", 'maps at end | where protection matches "*w?x*"', None),
    ("system calls", "events syscall | count by detail", "some"),
    ("files opened", "events syscall | where detail matches /openat/", "some"),
    ("the stack at the end", "backtrace at end - 1", "some"),
    ("registers half-way", "registers at 50000", "some"),
    ("code", "disassemble malloc at end - 1", "some"),
    ("first write to the stack", "first write to 0x1fff000000..0x1fff001000", "some"),
    ("last write to the stack", "last write to 0x1fff000000..0x1fff001000", "some"),
    ("writes there", "writes to 0x1ffeffff00..0x1fff000000 | count", "some"),
    ("calls to malloc", "calls to malloc | count", "some"),
    ("large blocks", "calls to malloc where arg0 > 100000 | count", "some"),
    ("who allocates", "calls to malloc | first 20 | backtrace", "some"),
    ("freed", "calls to free | count", "some"),
    ("the last allocation", "executions of malloc | last 1", "some"),
    ("nothing was read at 0", "reads of 0x0 len 4096", "none"),
]


def main():
    with tempfile.TemporaryDirectory(prefix="ttq-bench-") as place:
        environment = dict(os.environ, TTQ_HOME=place, PYTHONDONTWRITEBYTECODE="1")
        program = os.path.join(place, "tour")
        subprocess.run(["cc", "-g", "-O1", os.path.join(HERE, "../../examples/tour/tour.c"), "-o", program],
                       check=True)
        recordings = []
        begin = time.monotonic()
        for n in range(EACH):
            for name, command in (("tour", (program,)),
                                  ("python", ("/usr/bin/python3", "-S", BOXES, "200", "20"))):
                recordings.append(os.path.join(place, "%s-%d.ttq" % (name, n)))
                subprocess.run([TTQ, "record", "-q", "--index=now", "-o", recordings[-1], "--", *command],
                               env=environment, stdout=subprocess.DEVNULL)
        recorded = time.monotonic() - begin
        instructions = 0
        for path in recordings:
            info = json.loads(subprocess.check_output([TTQ, "info", "-f", "json", path]))
            instructions += sum(p["instructions"] for p in info["processes"])
        questions = os.path.join(place, "questions.yaml")
        with open(questions, "w", encoding="utf-8") as f:
            json.dump([dict(name=n, query=q, **({"expect": e} if e else {})) for n, q, e in QUESTIONS], f)
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        p = subprocess.run([TTQ, "batch", "-j", "2", "-f", "jsonl", questions, *recordings], env=environment,
                           stdout=subprocess.PIPE, text=True)
        wall, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        verdicts, took = {}, {}
        for line in p.stdout.splitlines():
            answer = json.loads(line)
            took[answer["question"]] = took.get(answer["question"], 0) + answer["elapsed_ms"] / 1e3
            verdicts.setdefault(answer["verdict"], set()).add(answer["question"])
        print("%d questions over %d recordings (%.0f M instructions, recorded in %.0f s): %.1f s, %.1f s of CPU"
              " (must: 60 s)" % (len(QUESTIONS), len(recordings), instructions / 1e6, recorded, wall,
                                 after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
        for verdict, names in sorted(verdicts.items()):
            print("  %s: %s" % (verdict, len(names) if verdict == "met" else ", ".join(sorted(names))))
        for name in sorted(took, key=took.get, reverse=True)[:5]:
            print("  %.1f s in all: %s" % (took[name], name))


main()

# SPDX-License-Identifier: MIT
"""Runs the examples of docs/core.md and docs/hang.md: each command, and of what it printed each line
that the page shows, where `…` stands for anything.

    docs_test.py TTQ PROGRAMS
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

from cores import (BUILD, ENVIRONMENT, HERE, SKIPPED, TTQ, check, end, finish, kernel_core, program,
                   run, start)

DOCS = os.path.join(HERE, "../../docs")


def play(page, scratch):
    with open(os.path.join(DOCS, page), encoding="utf-8") as file:
        blocks = re.findall(r"^```sh-example\n(.*?)^```$", file.read(), re.M | re.S)
    check(blocks, f"{page} has no examples")
    steps = [(step.split("\n")[0], step.split("\n")[1:])
             for block in blocks for step in re.split(r"^\$ ", block, flags=re.M)[1:]]
    # One shell for all: what a step printed stands between marks.
    script = "".join(f"{command}\nsleep 0; echo '=== {i}'\n" for i, (command, _) in enumerate(steps))
    p = subprocess.run(["bash", "-c", script], cwd=scratch, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, timeout=200,
                       env=dict(ENVIRONMENT, PATH=os.path.dirname(TTQ) + ":" + os.environ["PATH"],
                                TTQ_HOME=scratch))
    outputs = re.split(r"^=== \d+\n", p.stdout, flags=re.M)
    for (command, expected), output in zip(steps, outputs):
        at = 0
        for line in filter(None, expected):
            pattern = ".*".join(re.escape(part) for part in line.split("…"))
            found = re.compile(pattern).search(output, at)
            if not check(found, f"{page}: {command}: no line like {line!r} in\n{output}"):
                break
            at = found.end()


def main():
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("crash", "hangs"):
            shutil.copy(program(name), scratch)
        if not kernel_core(["./crash"], scratch):
            print("the kernel writes no core dump to a file here")
            sys.exit(SKIPPED)
        process = start([program("crash"), "wait"], scratch)
        may = run("snapshot", "-q", "-o", os.path.join(scratch, "may.ttq"), str(process.pid),
                  status=None)
        end(process)
        play("core.md", scratch)
        if may.returncode == 0:
            play("hang.md", scratch)
    finish()


main()

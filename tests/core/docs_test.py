# SPDX-License-Identifier: MIT
"""Runs the examples of docs/core.md and docs/hang.md, as support/pages.py says.

    docs_test.py TTQ PROGRAMS
"""

import os
import shutil
import sys
import tempfile

from cores import (BUILD, ENVIRONMENT, HERE, SKIPPED, TTQ, check, end, finish, kernel_core, program,
                   run, start)

sys.path.insert(0, os.path.join(HERE, "../support"))
from pages import differences  # noqa: E402

DOCS = os.path.join(HERE, "../../docs")


def play(page, scratch):
    environment = dict(ENVIRONMENT, PATH=os.path.dirname(TTQ) + ":" + os.environ["PATH"], TTQ_HOME=scratch)
    wrong = differences(os.path.join(DOCS, page), environment, scratch)
    check(not wrong, "\n".join(wrong))


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

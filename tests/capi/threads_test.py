# SPDX-License-Identifier: MIT
"""Records two programs and lets threads_test ask about them from several threads.

    threads_test.py THREADS_TEST TTQ TOUR
"""

import os
import shutil
import subprocess
import sys
import tempfile

THREADS_TEST, TTQ, TOUR = (os.path.abspath(p) for p in sys.argv[1:4])
BOXES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support/programs/boxes.py")
# What fills each kind of cache: symbols, types, unwinding, the heap, Python's frames and objects. Of the
# first recording the first query is the one that is interrupted.
PYTHON = """writes to 0x0..0x800000000000 | count
py backtrace at crash
py locals at crash
py calls to grow | last 3
py changes of total in grow | last 3
py print boxes[3].size at crash
backtrace at crash
calls to PyObject_Malloc | first 20
writes to 0x0..0x800000000000 | last 20 | py backtrace
events | count by kind
modules at end
crash
"""
TOUR_QUERIES = """who last wrote counter
writes to items | select time, value, function, line
backtrace at crash
print items at crash
print &items[counter] at start
executions of push
calls to push | select time, args, result
calls to malloc | first 3 | backtrace
source at crash
disassemble push
origin of $rax at crash
heap backup at crash
registers at crash
memory items at crash
crash
"""


def main():
    place = tempfile.mkdtemp(prefix="ttq-threads-")
    try:
        environment = dict(os.environ, TTQ_HOME=place, XDG_CACHE_HOME=os.path.join(place, "cache"),
                           PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1")
        arguments = []
        for name, queries, command in (("python", PYTHON, ("/usr/bin/python3", "-S", BOXES, "20", "5", "crash")),
                                       ("tour", TOUR_QUERIES, (TOUR,))):
            recording, asked = os.path.join(place, name + ".ttq"), os.path.join(place, name + ".queries")
            p = subprocess.run([TTQ, "record", "-q", "-o", recording, "--", *command], env=environment)
            if p.returncode != 128 + 11:
                sys.exit("%s: status %d" % (name, p.returncode))
            with open(asked, "w", encoding="utf-8") as f:
                f.write(queries)
            arguments += [recording, asked]
        return subprocess.run([THREADS_TEST, *arguments], env=environment).returncode
    finally:
        shutil.rmtree(place)


sys.exit(main())

# SPDX-License-Identifier: MIT
"""shim_test.py TTQ: `ttq record` says when what led to a program cost more than the program, and the command that
leaves it out, which a shell can run."""

import os
import subprocess
import sys
import tempfile

TTQ = os.path.abspath(sys.argv[1])


def record(place, *command, quiet=False):
    done = subprocess.run([TTQ, "record", *(["-q"] if quiet else []), *command], cwd=place, capture_output=True, text=True,
                          env={**os.environ, "TTQ_HOME": place, "TTQ": TTQ}, timeout=300)
    assert done.returncode == 0, done
    return done.stderr


def script(place, name, text):
    path = os.path.join(place, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


with tempfile.TemporaryDirectory(prefix="ttq-shim-") as place:
    shim = script(place, "shim", "for i in 1 2 3; do /bin/echo $i > /dev/null; done\nexec /bin/echo one 'two three' \"it's\"\n")
    said = record(place, shim)
    assert said.count("\n") == 2, said
    words = said.split("this records the program alone: ttq ")
    assert len(words) == 2 and "7 processes" in words[0], said
    # It does record the program alone, with the same arguments.
    again = subprocess.run(["sh", "-c", '"$TTQ" ' + words[1].strip()], capture_output=True, text=True, timeout=300,
                           env={**os.environ, "TTQ_HOME": place, "TTQ": TTQ}, check=True)
    assert again.stdout == "one two three it's\n", again
    assert "1 process " in again.stderr and "alone" not in again.stderr, again.stderr
    assert record(place, shim, quiet=True) == ""

    # A shim that costs less is not worth a word, nor is a program that only has children.
    small = script(place, "small", "exec /bin/sh -c 'i=0; while [ $i -lt 4000 ]; do i=$((i+1)); done'\n")
    assert "alone" not in record(place, small)
    parent = script(place, "parent", "/bin/echo x > /dev/null\n")
    assert "alone" not in record(place, parent)
print("ok")

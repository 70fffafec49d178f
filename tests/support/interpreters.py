# SPDX-License-Identifier: MIT
"""The CPythons of this machine that tests run."""

import glob
import os
import re
import subprocess
import sys

SKIPPED = 77  # an exit status, as ctest is told

# Those with a table in ttq.
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../query/cpython/versions.h"),
          encoding="utf-8") as file:
    MINORS = [int(minor) for minor in re.findall(r"&kVersion3(\d\d)", file.read())]


def require_module(python, module, package):
    """Ends the test as skipped where that interpreter lacks a module."""
    if subprocess.run([python, "-c", f"import {module}"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print(f"skipped: {module} is missing: install the {package} package")
        sys.exit(SKIPPED)


def every(given=()):
    """[((major, minor, micro), path)] of each CPython whose version ttq knows, in order of version.

    Those `given`; without any, one of each minor version and ABI (Debian's before pyenv's), and all that the
    variable TTQ_TEST_PYTHONS names, with ":" between them. One that cannot be run is left out.
    """
    wanted = list(given) or list(filter(None, os.environ.get("TTQ_TEST_PYTHONS", "").split(":")))
    places = list(wanted)
    if not given:
        places += ["/usr/bin/python3", "/usr/local/bin/python3"]
        places += sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python3")))
    found = {}
    for place in places:
        if not os.path.exists(place):
            continue
        run = subprocess.run([place, "-c", "import sys; print(sys.version_info[:3], sys.implementation.name, "
                              "sys.abiflags)"], capture_output=True, text=True)
        match = re.match(r"\((\d+), (\d+), (\d+)\) cpython (\w*)", run.stdout)
        if not match:
            continue
        version = tuple(map(int, match.groups()[:3]))
        if version[0] == 3 and version[1] in MINORS:
            found.setdefault((version[:2], match[4], place if place in wanted else ""), (version, place))
    return sorted(found.values())


def interpreters(given=()):
    """Those of every() that this test is for: of one minor version where TTQ_TEST_MINOR names it ("3.11")."""
    minor = os.environ.get("TTQ_TEST_MINOR")
    return [(version, path) for version, path in every(given) if minor in (None, name_of(version))]


def name_of(version):
    return f"{version[0]}.{version[1]}"


if __name__ == "__main__":
    # The minor versions that are here, for CMake.
    print(*dict.fromkeys(name_of(version) for version, _ in every()), sep=";", end="")

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the examples of pages of docs/, as support/pages.py says.

    pages_test.py TTQ EXAMPLES PAGE...
"""

import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from pages import differences  # noqa: E402


def main():
    ttq, examples, *pages = sys.argv[1:]
    wrong = []
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            build = os.path.dirname(os.path.abspath(ttq))
            # The system's python3, which has pytest.
            environment = dict(os.environ, PATH=f"{build}:/usr/bin:{os.environ['PATH']}", PYTHONPATH=f"{build}/python",
                               TTQ_HOME=f"{folder}/home", EXAMPLES=os.path.abspath(examples), PYTHONHASHSEED="0",
                               PYTHONDONTWRITEBYTECODE="1")
            environment.pop("TTQ_TRACE", None)
            wrong += differences(page, environment, folder)
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


main()

# SPDX-License-Identifier: MIT
"""keeps_function.py [MODULE...]: with those modules imported."""
import importlib
import sys

import kept_function

for name in sys.argv[1:]:
    importlib.import_module(name)


def make_handlers():
    def on_open(name):
        return name.upper()

    def on_close(name):
        return name.lower()

    return on_open, on_close


for handler in make_handlers():
    kept_function.keep(handler)

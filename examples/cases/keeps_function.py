# SPDX-License-Identifier: MIT
import kept_function


def make_handlers():
    def on_open(name):
        return name.upper()

    def on_close(name):
        return name.lower()

    return on_open, on_close


for handler in make_handlers():
    kept_function.keep(handler)

# SPDX-License-Identifier: MIT
"""A Python program whose names and strings would do things to whatever shows them."""

import ctypes
import sys

BAD = "=1+1 \x1b[31m\x9b2J\u202e<img src=x onerror=\"document.title='hit'\">&amp;'"


def innocent(text):
    kept = {BAD: text, "list": [text]}
    if text == "crash":
        ctypes.memmove(8, b"x", 1)
    return kept


names = {BAD: 1}
bad = type(innocent)(innocent.__code__.replace(co_name=BAD, co_filename=BAD + ".py",
                                               **({"co_qualname": BAD} if sys.version_info >= (3, 11) else {})),
                     globals(), BAD)
bad("a" + BAD)
bad("crash")

# SPDX-License-Identifier: MIT
"""Completing queries: the words that the grammar allows next."""

from __future__ import annotations

from typing import Any

from ._cdef import ffi
from ._library import check, lib, text_of


def words(text: str) -> list[str]:
    """Words of the language that can stand at the end of `text`, or complete the word there."""
    found: list[str] = []

    @ffi.callback("void(void*, char*)")
    def collect(_context: Any, word: Any) -> None:
        found.append(text_of(word))

    encoded = text.encode("utf-8", "surrogatepass")
    check(lib.ttq_complete(encoded, len(encoded), collect, ffi.NULL))
    return found

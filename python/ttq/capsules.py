# SPDX-License-Identifier: MIT
"""Structures of the Arrow C data interface in PyCapsules, as other libraries take them."""

from __future__ import annotations

import ctypes
from typing import Any

from ._cdef import ffi

_STREAM = b"arrow_array_stream"
# The structures that live capsules point to, by address.
_alive: dict[int, Any] = {}

_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _destroy(capsule: int) -> None:
    stream = _alive.pop(_pointer(capsule, _STREAM), None)
    # Whoever imported it has taken it over and cleared `release`.
    if stream is not None and stream.release:
        stream.release(stream)


def of_stream(stream: Any) -> object:
    """A capsule that owns the stream, a `struct ArrowArrayStream*`."""
    address = int(ffi.cast("uintptr_t", stream))
    _alive[address] = stream
    return _new(address, _STREAM, ctypes.cast(_destroy, ctypes.c_void_p))

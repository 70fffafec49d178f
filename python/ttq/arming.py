# SPDX-License-Identifier: MIT
"""Snapshots that a process takes of itself: a small library of ttq's does it, in handlers of signals."""

from __future__ import annotations

import ctypes
import os
import shutil

from . import errors

_HERE = os.path.dirname(os.path.abspath(__file__))
# The build tree (BUILD/python/ttq), an installation (PREFIX/lib/pythonX.Y/dist-packages/ttq).
_ROOTS = [os.path.normpath(os.path.join(_HERE, *up)) for up in (("..", ".."), ("..",) * 4)]


def _found(what: str, names: "tuple[str, ...]") -> str:
    for root in _ROOTS:
        for name in names:
            path = os.path.join(root, name)
            if os.path.isfile(path):
                return path
    raise errors.UnavailableError(f"{what} is in none of " + ", ".join(os.path.join(r, n) for r in _ROOTS for n in names))


def arm() -> None:
    """From here on SIGUSR2, and a crash, makes a recording of this process as it is then.

    It needs no right to trace: the process writes its memory itself, in a fork. After SIGUSR2 it goes on. The
    recording is the latest of $TTQ_HOME, as those of `ttq snapshot`. UnavailableError where ttq is not installed
    completely; OSError where a handler cannot be installed.
    """
    library = ctypes.CDLL(_found("libttq_arm.so", ("libexec/ttq/libttq_arm.so",)))
    command = shutil.which("ttq") or _found("the command ttq", ("ttq", "bin/ttq"))
    error = library.ttq_arm(os.fsencode(os.path.abspath(command)))
    if error:
        raise OSError(error, os.strerror(error))

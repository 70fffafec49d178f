# SPDX-License-Identifier: MIT
"""ttq: asks recordings of programs, made by `ttq record`, what happened in them.

    import ttq
    trace = ttq.open("crash.ttq")
    trace.query("last write to :address", address=0x20003302710)
    trace.at("crash").backtrace()

docs/python.md explains it with examples; `ttq help language` the questions.
"""

from ._library import lib as _lib, text_of as _text_of
from .errors import (ClosedError, DamagedError, Error, InterruptedQuery, NotARecordingError, NotFoundError,
                     OutOfRangeError, QueryError, UnavailableError, UnsupportedError)
from .result import Column, Result, Row
from .trace import Info, Moment, ProcessInfo, Trace, Trail, open_trace as open  # pylint: disable=redefined-builtin
from .values import Address, Name, Time

__version__ = _text_of(_lib.ttq_version())
__all__ = ["Address", "ClosedError", "Column", "DamagedError", "Error", "Info", "InterruptedQuery", "Moment",
           "Name", "NotARecordingError", "NotFoundError", "OutOfRangeError", "ProcessInfo", "QueryError",
           "Result", "Row", "Time", "Trace", "Trail", "UnavailableError", "UnsupportedError", "arm", "batch", "complete",
           "mark", "open"]


def arm() -> None:
    """From here on SIGUSR2, and a crash, makes a recording of this process as it is then: see ttq.arming.arm."""
    from . import arming

    arming.arm()


def mark(text: str) -> None:
    """Leaves a mark in the history of this program, when `ttq record` is making one; see `events mark`."""
    _lib.ttq_mark(text.encode())


def complete(text: str) -> "list[str]":
    """Words of the language that can stand at the end of `text`, or complete the word there."""
    from .completion import words

    return words(text)


def batch(questions: object, traces: object, **options: object) -> object:
    """Questions over many recordings, on a Dask cluster: see ttq.cluster.batch."""
    from . import cluster

    return cluster.batch(questions, traces, **options)


def load_ipython_extension(ipython: object) -> None:
    """`%load_ext ttq`"""
    from . import magics

    magics.load(ipython)


def unload_ipython_extension(ipython: object) -> None:
    from . import magics

    magics.unload(ipython)

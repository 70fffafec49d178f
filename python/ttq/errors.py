# SPDX-License-Identifier: MIT
"""What can go wrong, as exceptions. Each carries `status`, the name of its code in ttq.h."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """The base of all that the library reports."""

    status: str = ""


class QueryError(Error):
    """A bad query. `str()` shows the place; `begin` and `end` are bytes of `query` in UTF-8, or None."""

    def __init__(self, rendered: str, message: str, hint: str, begin: Optional[int], end: Optional[int]):
        super().__init__(rendered)
        self.message, self.hint, self.begin, self.end = message, hint, begin, end


class NotFoundError(Error):
    """No such recording, process, thread or moment."""


class NotARecordingError(Error):
    """Not a recording, or one of a version that this ttq cannot read."""


class DamagedError(Error):
    """A file of the recording is damaged."""


class OutOfRangeError(Error):
    """A time or an address that was not recorded."""


class UnavailableError(Error):
    """The system refused: permissions, too many open files, input and output errors."""


class UnsupportedError(Error):
    """A question that this version cannot answer."""


class ClosedError(Error):
    """The trace was closed."""

    status = "closed"


class InterruptedQuery(Error):
    """The query was interrupted: by its progress function, or from another thread."""


BY_STATUS = {
    "TTQ_ERROR_NOT_FOUND": NotFoundError,
    "TTQ_ERROR_NOT_A_RECORDING": NotARecordingError,
    "TTQ_ERROR_DAMAGED": DamagedError,
    "TTQ_ERROR_OUT_OF_RANGE": OutOfRangeError,
    "TTQ_ERROR_INTERRUPTED": InterruptedQuery,
    "TTQ_ERROR_UNAVAILABLE": UnavailableError,
    "TTQ_ERROR_UNSUPPORTED": UnsupportedError,
}
for _status, _class in BY_STATUS.items():  # also of those that Python's side raises
    _class.status = _status

# SPDX-License-Identifier: MIT
"""libttq: finding it, calling it, and its errors as exceptions.

Every call lets other Python threads run. A call that may take long is made in a thread of its own when
the main thread asks, so that Ctrl-C (and a notebook's stop button) is seen at once.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Callable

from . import _backend  # noqa: F401, before _cdef, which imports it
from . import errors
from ._cdef import ffi


def _candidates() -> list[str]:
    here = os.path.dirname(os.path.abspath(__file__))
    name = "libttq.so.0"
    chosen = os.environ.get("TTQ_LIBRARY")
    if chosen:
        return [chosen]
    # The build tree (BUILD/python/ttq), an installation (PREFIX/lib/pythonX.Y/dist-packages/ttq; also of a
    # wheel), the dynamic linker's own places.
    nearby = [os.path.join(here, *up, name) for up in (("..", ".."), ("..", "..", ".."))]
    return [path for path in nearby if os.path.exists(path)] + [name]


def _load() -> Any:
    reasons = []
    for path in _candidates():
        try:
            return ffi.dlopen(path)
        except OSError as e:
            reasons.append(str(e))
    raise ImportError("ttq: the library cannot be loaded: " + "; ".join(reasons))


lib = _load()


def text_of(pointer: Any) -> str:
    """A NUL-terminated text of the library's."""
    return ffi.string(pointer).decode("utf-8", "replace") if pointer else ""


def _exception(status: int) -> Exception:
    error = lib.ttq_last_error()
    name, message = text_of(lib.ttq_status_name(status)), text_of(error.message)
    exception: Exception
    if name == "TTQ_ERROR_QUERY":
        nowhere = ffi.cast("size_t", -1)
        begin, end = error.begin, error.end
        placed = begin != int(nowhere)
        rendered = text_of(error.rendered).rstrip("\n")
        if rendered.startswith("ttq: "):
            rendered = rendered[len("ttq: "):]
        exception = errors.QueryError(rendered, message, text_of(error.hint),
                                      begin if placed else None, end if placed else None)
    elif name == "TTQ_ERROR_INVALID_ARGUMENT":
        return ValueError(message)
    elif name == "TTQ_ERROR_OUT_OF_MEMORY":
        return MemoryError(message)
    else:
        exception = errors.BY_STATUS.get(name, errors.Error)(message)
    exception.status = name  # type: ignore[attr-defined]
    return exception


def check(status: int) -> int:
    """Raises what a negative status means. Must run in the thread that made the call."""
    if status < 0:
        raise _exception(status)
    return status


def interruptibly(call: Callable[[], Any], interrupt: Callable[[], None]) -> Any:
    """`call()`, which `interrupt()` ends early on Ctrl-C; then KeyboardInterrupt is raised."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    answer: list[Any] = []
    failure: list[BaseException] = []
    done = threading.Event()

    def work() -> None:
        try:
            answer.append(call())
        except BaseException as e:  # pylint: disable=broad-except
            failure.append(e)
        finally:
            done.set()

    threading.Thread(target=work, name="ttq query", daemon=True).start()
    stopped = None
    while not done.is_set():
        try:
            # A second Ctrl-C does not help: the call ends soon, and must end before its data goes.
            # (An interrupt that is not a signal, as some kernels make them, does not end a wait.)
            done.wait(0.05 if stopped else 0.25)
            if stopped:
                interrupt()
        except KeyboardInterrupt as e:
            stopped = e
            interrupt()
    if stopped:
        raise stopped
    if failure:
        raise failure[0]
    return answer[0]

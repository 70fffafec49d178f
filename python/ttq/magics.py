# SPDX-License-Identifier: MIT
"""`%ttq` and `%%ttq` in IPython and Jupyter.

    %load_ext ttq
    %ttq open crash.ttq              the trace of the questions that follow; `%ttq open` alone: the latest
    %ttq last write to counter       a question; the value of the line is its Result
    %ttq memory :address len 64      :address is the notebook's variable
    %%ttq [NAME]                     a question of several lines; NAME: the variable that gets the Result
"""

from __future__ import annotations

import re
import types
from typing import Any, Iterator, Optional

from . import completion
from .errors import Error
from .result import Result
from .trace import Moment, Trace, open_trace

_LINE = re.compile(r"^(?:.*=)?\s*%ttq\s+(.*)$", re.S)
_CELL = re.compile(r"^\s*%%ttq[^\n]*\n(.*)$", re.S)


class Magics:
    """What the two magics share: the current trace."""

    def __init__(self, shell: Any):
        self.shell = shell
        self.trace: Optional[Trace] = None

    def _current(self) -> Trace:
        chosen = self.shell.user_ns.get("trace")
        if self.trace is None and isinstance(chosen, Trace) and not chosen.closed:
            return chosen
        if self.trace is None or self.trace.closed:
            self.trace = open_trace()
        return self.trace

    def _values(self, text: str) -> dict[str, Any]:
        """The variables that :name in the text stand for."""
        names = set(re.findall(r"(?<![:\w]):([A-Za-z_]\w*)", re.sub(r'"(?:[^"\\]|\\.)*"|#[^\n]*', "", text)))
        return {name: self.shell.user_ns[name] for name in names if name in self.shell.user_ns}

    def _ask(self, text: str) -> Optional[Result]:
        try:
            return self._current().query(text, **self._values(text))
        except (Error, TypeError, ValueError, OverflowError) as e:
            # A mistake in a question is no reason for a screen of Python's stack.
            print(f"ttq: {e}")
            return None

    def line(self, line: str) -> Any:
        """%ttq QUERY | %ttq open [RECORDING] [-p PROCESS]"""
        words = line.split()
        if words and words[0] != "open":
            return self._ask(line)
        try:
            if not words:
                return self._current()
            process = words[words.index("-p") + 1] if "-p" in words[:-1] else None
            if process is not None and not process.isdecimal():
                raise ValueError(f"-p takes the number of a process, not {process}")
            names = [w for i, w in enumerate(words[1:], 1) if w != "-p" and words[i - 1] != "-p"]
            self.trace = open_trace(names[0] if names else None, process and int(process))
            return self.trace
        except (Error, ValueError) as e:
            print(f"ttq: {e}")
            return None

    def cell(self, line: str, cell: str) -> Any:
        """%%ttq [NAME]"""
        name = line.strip()
        if name and not name.isidentifier():
            print(f"ttq: {name!r} is no name of a variable")
            return None
        result = self._ask(cell)
        if name and result is not None:
            self.shell.user_ns[name] = result
        return result


def _completions(self: Any, code: str, offset: int) -> Iterator[Any]:
    """In place of Completer.completions: questions are completed by ttq's grammar, the rest as before."""
    from IPython.core.completer import Completion

    before = code[:offset]
    match = _CELL.match(before) or _LINE.match(before[before.rfind("\n") + 1:])
    if not match:
        yield from self.ttq_before(code, offset)
        return
    question = match[1]
    start = offset - len(re.search(r"\w*$", question)[0])  # type: ignore[index]
    for word in completion.words(question):
        yield Completion(start, offset, word, type="keyword")
    begun = question[len(question) - (offset - start):]
    if begun:
        for name, value in self.shell.user_ns.items() if question[:-len(begun)].endswith(":") else ():
            if name.startswith(begun) and not name.startswith("_") and isinstance(value, (int, str, Moment)):
                yield Completion(start, offset, name, type="instance")


def load(shell: Any) -> None:
    magics = Magics(shell)
    shell.register_magic_function(magics.line, "line", "ttq")
    shell.register_magic_function(magics.cell, "cell", "ttq")
    completer = shell.Completer
    if not hasattr(completer, "ttq_before"):
        completer.ttq_before = completer.completions
        completer.completions = types.MethodType(_completions, completer)


def unload(shell: Any) -> None:
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("ttq", None)
    if hasattr(shell.Completer, "ttq_before"):
        shell.Completer.completions = shell.Completer.ttq_before
        del shell.Completer.ttq_before

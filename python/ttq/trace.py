# SPDX-License-Identifier: MIT
"""A process of a recording: questions about it, and its state at a time."""

from __future__ import annotations

import numbers
import operator
import os
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Optional, Union

from . import plots
from ._cdef import ffi
from ._library import check, interruptibly, lib, text_of
from .errors import ClosedError, NotFoundError, OutOfRangeError
from .result import Result, Row
from .values import Address, Name, Time


class ProcessInfo(NamedTuple):
    """One process of a recording."""

    number: int
    parent: int
    pid: int
    by_exec: bool
    program: str
    end: Time
    crash: Optional[Time]
    fatal_signal: int
    exit_status: Optional[int]
    complete: bool
    incomplete_reason: str
    history_unknown: bool


class Info(NamedTuple):
    """A recording."""

    path: str
    name: str
    command: list[str]
    working_directory: str
    host: str
    start_wall_ns: int
    finished: bool
    default_process: int


def _open_recording(path: Union[str, "os.PathLike[str]", None]) -> Any:
    name = ffi.NULL if path is None else os.fsencode(path)
    out = ffi.new("ttq_recording**")
    check(lib.ttq_open(name, out))
    return ffi.gc(out[0], lib.ttq_close)


def open_trace(path: Union[str, "os.PathLike[str]", None] = None, process: Optional[int] = None) -> "Trace":
    """Opens a recording: a directory, or a name as `ttq ls` shows it; None: the latest. `process`: one of its
    processes by number, else the one that a signal ended, else what the first became by exec."""
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"a recording is opened by its path, not by {type(path).__name__}")
    if path is not None and "\0" in os.fsdecode(path):
        raise ValueError("a path has no NUL in it")
    return Trace(_open_recording(path), process)


class Trace:
    """A process of a recording. Threads may share it. `with ttq.open(…) as trace:` closes it at the end."""

    def __init__(self, recording: Any, number: Optional[int] = None):
        self._recording = recording
        # 0 is the C API's word for the default one.
        if number is not None and not 0 < operator.index(number) < 1 << 32:
            raise NotFoundError(f"there is no process {number} in this recording")
        out = ffi.new("ttq_process**")
        check(lib.ttq_process_open(recording, 0 if number is None else operator.index(number), out))
        self._process: Any = ffi.gc(out[0], lib.ttq_process_close)
        self.number: int = lib.ttq_process_number(self._process)
        info = ffi.new("ttq_recording_info*")
        info.size = ffi.sizeof("ttq_recording_info")
        check(lib.ttq_describe_recording(recording, info))
        self.info = Info(text_of(info.path), text_of(info.name),
                         [text_of(info.arguments[i]) for i in range(info.argument_count)],
                         text_of(info.working_directory), text_of(info.host), info.start_wall_ns,
                         bool(info.finished), info.default_process)
        self.processes: list[ProcessInfo] = [self._describe(recording, i)
                                             for i in range(info.process_count)]
        self._me = next(p for p in self.processes if p.number == self.number)

    @staticmethod
    def _describe(recording: Any, index: int) -> ProcessInfo:
        p = ffi.new("ttq_process_info*")
        p.size = ffi.sizeof("ttq_process_info")
        check(lib.ttq_describe_process(recording, index, p))
        return ProcessInfo(p.number, p.parent, p.pid, bool(p.by_exec), text_of(p.program), Time(p.end),
                           Time(p.crash) if p.has_crash else None, p.fatal_signal,
                           p.exit_status if p.has_exit_status else None, bool(p.complete),
                           text_of(p.incomplete_reason), bool(p.history_unknown))

    # ---- The process ----

    @property
    def path(self) -> str:
        return self.info.path

    @property
    def program(self) -> str:
        return self._me.program

    @property
    def end(self) -> Time:
        """Instructions retired; 0 where `history_unknown`."""
        return self._me.end

    @property
    def history_unknown(self) -> bool:
        """Whether this is one moment, of a core dump or a snapshot: what was before it is unknown."""
        return self._me.history_unknown

    @property
    def crash(self) -> Optional[Time]:
        """The time of the instruction that raised the fatal signal; None: no signal ended it."""
        return self._me.crash

    def process(self, number: int) -> "Trace":
        """Another process of the same recording."""
        self._handle()
        return Trace(self._recording, number)

    def _handle(self) -> Any:
        process = self._process  # whoever holds it keeps it open
        if process is None:
            raise ClosedError("the trace is closed")
        return process

    def close(self) -> None:
        """Results that were got before stay usable."""
        self._process = self._recording = None

    @property
    def closed(self) -> bool:
        return self._process is None

    def __enter__(self) -> "Trace":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " (closed)" if self.closed else ""
        ending = f"ended by signal {self._me.fatal_signal}" if self._me.fatal_signal else \
            "running" if self._me.history_unknown else f"exit {self._me.exit_status}"
        length = "one moment" if self._me.history_unknown else f"{int(self.end):,} instructions"
        return f"<ttq trace {self.info.name}, process {self.number}: {self.program}, {length}, {ending}>{state}"

    # ---- Queries ----

    def query(self, text: str, *values: Any, limit: Optional[int] = None,
              progress: Optional[Callable[[int, int], Any]] = None, full_scan: bool = False,
              **named: Any) -> Result:
        """Asks a question. Its rows are got when they are looked at.

        `?` in the text stand for `values` in their order, `:name` for `named`: numbers, texts, names
        (ttq.Name). `limit`: rows at most. `progress(done, total)` is called now and then, from another
        thread, with blocks of the recording; a true value from it interrupts the query.
        """
        if not isinstance(text, str):
            raise TypeError(f"a query is a text, not {type(text).__name__}")
        if limit is not None and operator.index(limit) <= 0:
            raise ValueError("limit must be positive")
        process = self._handle()
        encoded = text.encode("utf-8", "surrogatepass")
        out = ffi.new("ttq_query**")
        check(lib.ttq_prepare(process, encoded, len(encoded), out))
        query = ffi.gc(out[0], lib.ttq_query_free)
        _bind(query, values, named)
        options = ffi.new("ttq_run_options*")
        options.size = ffi.sizeof("ttq_run_options")
        options.full_scan = bool(full_scan)
        options.limit = 0 if limit is None else operator.index(limit)
        callback = _progress_callback(progress)
        if callback is not None:
            options.progress = callback
        result_out = ffi.new("ttq_result**")
        try:
            interruptibly(lambda: check(lib.ttq_run(query, options, result_out)),
                          lambda: lib.ttq_query_interrupt(query))
        except BaseException:
            # Ctrl-C may come when the run has just ended well.
            lib.ttq_result_free(result_out[0])
            raise
        # The callback must live as long as the result may call it.
        handle = ffi.gc(result_out[0], lambda h, _keep=callback: lib.ttq_result_free(h))

        def again() -> Result:
            return self.query(text, *values, limit=limit, full_scan=full_scan, **named)

        return Result(self, text, handle, again)

    def explain(self, text: str, *values: Any, **named: Any) -> str:
        """How the query would be run: its steps, one per line."""
        encoded = text.encode()
        out = ffi.new("ttq_query**")
        check(lib.ttq_prepare(self._handle(), encoded, len(encoded), out))
        query = ffi.gc(out[0], lib.ttq_query_free)
        _bind(query, values, named)
        steps = ffi.new("const char**")
        check(lib.ttq_explain(query, steps))
        return text_of(steps[0])

    # ---- Times ----

    def time(self, when: Any) -> Time:
        """A time: a number, "start", "end", "crash", a row (its time), a query (its first row's time), or what
        one of these is in a text: "1234", "(last write to x) + 1". NotFoundError: there is no such moment."""
        if isinstance(when, Moment):
            return when.time
        if isinstance(when, (Row, Result)):
            row = when.first() if isinstance(when, Result) else when
            if row is None or "time" not in row.keys() or row.time is None:
                raise NotFoundError("there is no row with a time")
            return Time(row.time)
        if isinstance(when, str):
            word = when.strip().lower()
            if word.isdigit():
                return Time(word)
            if word == "end" or (word == "start" and not self.history_unknown):
                return Time(0) if word == "start" else self.end
            if word == "crash":
                if self.crash is None:
                    raise NotFoundError("no signal ended this process, so it has no crash")
                return self.crash
            # The language knows more; `registers at` answers for every time, with the time.
            row = self.query(f"registers at {when}").first()
            if row is None:
                raise NotFoundError(f"there is no state at {when}")
            return Time(row.time)
        try:
            return Time(operator.index(when))
        except TypeError:
            raise TypeError(f"{type(when).__name__} is no time") from None

    def at(self, when: Any, thread: Optional[int] = None) -> "Moment":
        """The state at a time (see `time`), before its instruction; of the thread that runs then, or of another."""
        self._handle()
        return Moment(self, self.time(when), thread)

    def wall_clock(self, when: Any) -> int:
        """Nanoseconds since 1970 at that time, interpolated between samples."""
        out = ffi.new("int64_t*")
        check(lib.ttq_wall_clock(self._handle(), self.time(when), out))
        return out[0]

    # ---- Following ----

    def follow(self, what: Any, size: int = 8, before: Any = None, steps: int = 10,
               window: int = 20_000) -> "Trail":
        """Where a word of memory came from: who wrote it last, where the writer had read that value, who wrote
        that, and so on, at most `steps` times. `what`: an address or a row with one (of its time).

        The step from a write to the read before it goes by the value: the same thread's last read of the same
        number, at most `window` instructions earlier. So it can be led astray by a value that is common; it
        does not follow numbers that were computed. `origin of` is the exact answer.
        """
        if isinstance(what, Row):
            if before is None:
                before = what.time
            what = what.address
        address = operator.index(what)
        time = self.end if before is None else self.time(before)
        trail: list[Row] = []
        for _ in range(steps):
            write = self.query("last write to ? len ? before ?", address, size, time).first()
            if write is None:
                break
            trail.append(write)
            # Small numbers are everywhere; they lead nowhere.
            if isinstance(write.value, bytes) or write.value is None or write.value < 4096:
                break
            read = self.query("last read of 0..0x7fffffffffff between ? and ? in thread ? where value == ? and "
                              "size == ?", max(0, int(write.time) - window), write.time, write.thread,
                              write.value, write.size).first()
            if read is None or read.address == write.address:
                break
            trail.append(read)
            address, size, time = read.address, read.size, read.time
        return Trail(self, trail)

    # ---- Pictures ----

    def plot_writes(self, location: Union[int, str], **options: Any) -> Any:
        """Writes to an address and its values over time; see ttq.plots.writes."""
        return plots.writes(self, location, **options)

    def plot_refcounts(self, address: int, **options: Any) -> Any:
        """An object's reference count over time; see ttq.plots.refcounts."""
        return plots.refcounts(self, address, **options)

    def plot_failures(self, failures: str, events: str, **options: Any) -> Any:
        """Events around failures; see ttq.plots.failures."""
        return plots.failures(self, failures, events, **options)

    def plot_calls(self, calls: str = 'calls to "*"', **options: Any) -> Any:
        """A flame graph of calls; see ttq.plots.flame."""
        return plots.flame(self, calls, **options)

    def plot_threads(self, **options: Any) -> Any:
        """The threads' lanes; see ttq.plots.threads."""
        return plots.threads(self, **options)


def _expression(text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"an expression is a text, not {type(text).__name__}")
    return text


def _bind(query: Any, values: tuple, named: Mapping[str, Any]) -> None:
    left, missing = list(values), []
    unknown = set(named)
    for i in range(lib.ttq_query_parameter_count(query)):
        name = text_of(lib.ttq_query_parameter_name(query, i))
        if name in named:
            unknown.discard(name)
            _bind_one(query, i, named[name], ":" + name)
        elif not name and left:
            _bind_one(query, i, left.pop(0), "?")
        else:
            missing.append(":" + name if name else "?")
    if missing:
        raise TypeError(f"the query needs a value for {', '.join(missing)}")
    if unknown:
        raise TypeError(f"the query has no parameter :{', :'.join(sorted(unknown))}")
    if left:
        raise TypeError(f"the query has fewer ? than there are values: {len(values)}")


def _bind_one(query: Any, index: int, value: Any, shown: str) -> None:
    if isinstance(value, Name):
        encoded = value.encode()
        check(lib.ttq_bind_name(query, index, encoded, len(encoded)))
    elif isinstance(value, str):
        encoded = value.encode("utf-8", "surrogatepass")
        check(lib.ttq_bind_text(query, index, encoded, len(encoded)))
    elif isinstance(value, numbers.Integral) or hasattr(value, "__index__"):
        number = operator.index(value)
        if not -(1 << 63) <= number < 1 << 64:
            raise OverflowError(f"{number} for {shown} does not fit 64 bits")
        bind = lib.ttq_bind_uint64 if number >= 0 else lib.ttq_bind_int64
        check(bind(query, index, number))
    elif isinstance(value, numbers.Real):
        check(lib.ttq_bind_double(query, index, float(value)))
    elif isinstance(value, Moment):
        check(lib.ttq_bind_uint64(query, index, value.time))
    else:
        raise TypeError(f"{shown} cannot be {type(value).__name__}: values are numbers and texts")


def _progress_callback(progress: Optional[Callable[[int, int], Any]]) -> Any:
    if progress is None:
        return None
    if not callable(progress):
        raise TypeError(f"progress is a function of two numbers, not {type(progress).__name__}")

    def call(_context: Any, done: int, total: int) -> int:
        return 1 if progress(done, total) else 0

    # An exception in it is printed by cffi, and interrupts the query.
    return ffi.callback("int(void*, uint64_t, uint64_t)", call, error=1)


class Moment:
    """The state of a process at a time, before the instruction of that time."""

    def __init__(self, trace: Trace, time: Time, thread: Optional[int]):
        if time < 0:
            raise OutOfRangeError(f"time {int(time)} is before the start, which is 0")
        if thread is not None and not 0 < operator.index(thread) < 1 << 32:
            raise NotFoundError(f"there is no thread {thread}")
        if time > trace.end:
            raise OutOfRangeError(f"time {int(time)} is after the end, which is {int(trace.end)}")
        self.trace, self.time, self.thread = trace, time, thread
        self.memory = Memory(self)
        self.py = PythonMoment(self)
        self._registers: Optional[Registers] = None

    def _ask(self, what: str, frame: Optional[int] = None, in_thread: bool = True) -> Result:
        clauses, values = " at ?", [self.time]
        if self.thread is not None and in_thread:
            clauses += " in thread ?"
            values.append(self.thread)
        if frame is not None:
            clauses += " in frame ?"
            values.append(operator.index(frame))
        return self.trace.query(what + clauses, *values)

    @property
    def registers(self) -> "Registers":
        """The general registers and pc, as attributes."""
        if self._registers is None:
            values = ffi.new("ttq_register_values*")
            values.size = ffi.sizeof("ttq_register_values")
            check(lib.ttq_registers(self.trace._handle(), self.time, self.thread or 0, values))
            names = [text_of(lib.ttq_register_name(i)) for i in range(len(values.general))]
            known = {n: Address(values.general[i]) for i, n in enumerate(names)}
            self._registers = Registers({**known, "rip": Address(values.pc)}, values.thread)
        return self._registers

    def backtrace(self, all_threads: bool = False) -> Result:
        """The native stack."""
        if all_threads:
            return self.trace.query("backtrace at ? all threads", self.time)
        return self._ask("backtrace")

    def print(self, expression: str, frame: Optional[int] = None) -> Result:
        """The value of a C expression, with types from the debug information."""
        return self._ask("print " + _expression(expression), frame)

    def source(self, frame: Optional[int] = None) -> Result:
        """The source around the instruction."""
        return self._ask("source", frame)

    def disassemble(self, place: Union[int, str, None] = None) -> Result:
        """The function at `place` (a name or an address), or the one that runs."""
        return self.trace.query("disassemble ? at ?", self.registers.pc if place is None else place, self.time)

    def threads(self) -> Result:
        return self._ask("threads", in_thread=False)

    def maps(self) -> Result:
        return self._ask("maps", in_thread=False)

    def modules(self) -> Result:
        return self._ask("modules", in_thread=False)

    def object(self, address: int) -> Result:
        """The Python object at an address."""
        return self.trace.query("object ? at ?", address, self.time)

    def heap(self, address: int) -> Result:
        """The block of malloc's around an address."""
        return self.trace.query("heap ? at ?", address, self.time)

    def __index__(self) -> int:
        return int(self.time)

    def __repr__(self) -> str:
        thread = "" if self.thread is None else f", thread {self.thread}"
        return f"<moment {int(self.time):,} of {self.trace.info.name}{thread}>"


class PythonMoment:
    """The Python program's state at a moment."""

    def __init__(self, moment: Moment):
        self._moment = moment

    def backtrace(self, all_threads: bool = False) -> Result:
        """The Python stack."""
        if all_threads:
            return self._moment.trace.query("py backtrace at ? all threads", self._moment.time)
        return self._moment._ask("py backtrace")

    def locals(self, frame: Optional[int] = None) -> Result:
        """The local variables of a frame."""
        return self._moment._ask("py locals", frame)

    def source(self, frame: Optional[int] = None) -> Result:
        return self._moment._ask("py source", frame)

    def print(self, expression: str, frame: Optional[int] = None) -> Result:
        """The value of a Python expression: names, attributes, subscripts, arithmetic."""
        return self._moment._ask("py print " + _expression(expression), frame)


class Registers(Mapping[str, Address]):
    """Registers by name: `r.rax`, `r["rax"]`; `r.pc` is `r.rip`."""

    def __init__(self, values: dict[str, Address], thread: int):
        self._values, self.thread = values, thread

    def __getitem__(self, name: str) -> Address:
        return self._values["rip" if name == "pc" else name]

    def __getattr__(self, name: str) -> Address:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no register {name!r}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<registers of thread {self.thread}: " + ", ".join(f"{n}={v}" for n, v in self.items()) + ">"


class Memory:
    """Memory at a moment: `memory[0x1000]` a byte, `memory[0x1000:0x1010]` bytes, `u64`, `cstring`, …"""

    def __init__(self, moment: Moment):
        self._moment = moment

    def read(self, address: int, size: int, fill: Optional[int] = None) -> bytes:
        """`size` bytes. Where nothing is mapped or the content is not known: `fill`, or OutOfRangeError."""
        address, size = operator.index(address), operator.index(size)
        if size < 0 or address < 0:
            raise ValueError("addresses and sizes are not negative")
        if size > 1 << 30:
            raise ValueError("at most 1 GiB at once")
        data, known = ffi.new("uint8_t[]", max(size, 1)), ffi.new("uint8_t[]", max(size, 1))
        trace = self._moment.trace
        check(lib.ttq_memory(trace._handle(), address, size, self._moment.time, data, known))
        there = bytes(ffi.buffer(known, size))
        gap = there.find(b"\0")
        if gap < 0:
            return bytes(ffi.buffer(data, size))
        if fill is None:
            raise OutOfRangeError(f"{address + gap:#x} was not mapped, or its content is not known, at time "
                                  f"{int(self._moment.time)}")
        return bytes(b if k else fill for b, k in zip(ffi.buffer(data, size)[:], there))

    def __getitem__(self, key: Union[int, slice]) -> Union[int, bytes]:
        if isinstance(key, slice):
            if key.step not in (None, 1) or key.start is None or key.stop is None:
                raise ValueError("memory is read as memory[start:stop]")
            start = operator.index(key.start)
            return self.read(start, max(0, operator.index(key.stop) - start))
        return self.read(key, 1)[0]

    def _number(self, address: int, size: int, signed: bool = False) -> int:
        return int.from_bytes(self.read(address, size), "little", signed=signed)

    def u8(self, address: int) -> int:
        return self._number(address, 1)

    def u16(self, address: int) -> int:
        return self._number(address, 2)

    def u32(self, address: int) -> int:
        return self._number(address, 4)

    def u64(self, address: int) -> int:
        return self._number(address, 8)

    def i32(self, address: int) -> int:
        return self._number(address, 4, signed=True)

    def i64(self, address: int) -> int:
        return self._number(address, 8, signed=True)

    def pointer(self, address: int) -> Address:
        return Address(self._number(address, 8))

    def cstring(self, address: int, limit: int = 4096) -> bytes:
        """The bytes up to a NUL, at most `limit`."""
        text = b""
        address = operator.index(address)
        while len(text) < limit:
            # Up to the end of a page: the next one may not be mapped.
            size = min(4096 - (address + len(text)) % 4096, limit - len(text))
            part = self.read(address + len(text), size)
            end = part.find(b"\0")
            if end >= 0:
                return text + part[:end]
            text += part
        return text


class Trail:
    """What `Trace.follow` found: writes and reads in turn, the latest first."""

    def __init__(self, trace: Trace, rows: list[Row]):
        self.trace, self.rows = trace, rows

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Row:
        return self.rows[index]

    def _lines(self) -> list[tuple[str, Row]]:
        return [("read" if i % 2 else "written", row) for i, row in enumerate(self.rows)]

    def __repr__(self) -> str:
        if not self.rows:
            return "nothing wrote it"
        lines = []
        for what, row in self._lines():
            place = row.function or hex(row.pc)
            if row.file:
                place += f" at {os.path.basename(row.file)}:{row.line}"
            lines.append(f"{row.value!r} {what} at {row.address}, time {int(row.time)}, by {place}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from . import html

        return html.trail(self)

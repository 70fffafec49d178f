# SPDX-License-Identifier: MIT
"""Answers: rows with attributes, whole columns for pandas and Arrow, tables for notebooks.

Rows arrive as arrays of the Arrow C data interface and become Python objects (or numpy arrays that use
the library's memory as it is) when they are looked at. A result may be shared between threads: they take
turns.
"""

from __future__ import annotations

import json
import threading
from typing import Any, Callable, Iterator, Optional, Sequence, Union

from . import capsules, html
from ._cdef import ffi
from ._library import check, interruptibly, lib, text_of
from .errors import InterruptedQuery
from .values import Address, Time

# Rows that are got at once: few at first, so that the first are seen soon.
_FIRST_ROWS = 256
_MORE_ROWS = 1 << 17


class Column:
    """The name of a column and its type: time, address, integer, real, string, bytes, object, list or value."""

    def __init__(self, name: str, type_: str, shown: bool):
        self.name, self.type, self.shown = name, type_, shown

    def __repr__(self) -> str:
        return f"{self.name}: {self.type}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Column) and (self.name, self.type) == (other.name, other.type)

    def __hash__(self) -> int:
        return hash((self.name, self.type))


class Row:
    """One row: `row.time`, `row["time"]`, `row[0]`. Missing values are None."""

    __slots__ = ("_columns", "_values")

    def __init__(self, columns: Sequence[Column], values: tuple):
        self._columns, self._values = columns, values

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            for column, value in zip(self._columns, self._values):
                if column.name == name:
                    return value
        raise AttributeError(f"the row has no column {name!r}; it has {', '.join(self.keys())}")

    def __getitem__(self, key: Union[str, int, slice]) -> Any:
        if isinstance(key, str):
            for column, value in zip(self._columns, self._values):
                if column.name == key:
                    return value
            raise KeyError(f"no column {key!r}; there are {', '.join(self.keys())}")
        return self._values[key]

    def keys(self) -> list[str]:
        return [column.name for column in self._columns]

    def asdict(self) -> dict[str, Any]:
        return dict(zip(self.keys(), self._values))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Row):
            return self.keys() == other.keys() and self._values == other._values
        return self._values == other

    def __hash__(self) -> int:
        return hash(self._values)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.keys()]

    def __repr__(self) -> str:
        return "Row(" + ", ".join(f"{c.name}={v!r}" for c, v in zip(self._columns, self._values)) + ")"


class _Array:
    """One column of one batch, in the library's memory for as long as this lives."""

    def __init__(self, owner: Any, array: Any, format_: str):
        self.owner, self.array, self.format = owner, array, format_
        self.length = array.length

    def _buffer(self, index: int, size: int) -> Any:
        # What is made from the pointer keeps it, and it keeps the batch.
        if size == 0:
            return b""
        owner = self.owner
        pointer = ffi.gc(ffi.cast("char*", self.array.buffers[index]), lambda _: owner and None)
        return ffi.buffer(pointer, size)

    def numbers(self) -> memoryview:
        code, size = {"L": ("Q", 8), "l": ("q", 8), "g": ("d", 8), "i": ("i", 4)}[self.format]
        return memoryview(self._buffer(1, self.length * size)).cast(code)

    def missing(self) -> Optional[list[bool]]:
        """Which values are; None when none is."""
        if self.array.null_count == 0:
            return None
        bits = bytes(self._buffer(0, (self.length + 7) // 8))
        return [not bits[i >> 3] >> (i & 7) & 1 for i in range(self.length)]

    def blobs(self) -> list[bytes]:
        offsets = memoryview(self._buffer(1, (self.length + 1) * 8)).cast("q")
        data = self._buffer(2, offsets[self.length])
        return [bytes(data[offsets[i]:offsets[i + 1]]) for i in range(self.length)]

    def dictionary(self) -> list[str]:
        words = _Array(self.owner, self.array.dictionary, "U")
        return [word.decode("utf-8") for word in words.blobs()]


class _Batch:
    """A struct array; released when nothing uses it."""

    def __init__(self, owner: Any, formats: Sequence[str]):
        array = owner[0]
        self.length = array.length
        self.columns = [_Array(owner, array.children[i], f) for i, f in enumerate(formats)]


def _owned(kind: str) -> Any:
    """A structure of the interface that is released when it goes."""

    def release(pointer: Any) -> None:
        if pointer.release:
            pointer.release(pointer)

    return ffi.gc(ffi.new(f"struct {kind}*"), release)


class Result:
    """The rows of a query, which are got when they are needed.

    `for row in result`, `result[3]`, `len(result)`, `result.one()`; `result.df()` for pandas. `complete` is
    False when the answer could miss something, and `note` says why.
    """

    def __init__(self, trace: Any, text: str, handle: Any, again: Callable[[], "Result"]):
        self.trace = trace
        self.query = text
        self._handle = handle
        self._again = again
        self._lock = threading.RLock()
        self._batches: list[_Batch] = []
        self._got = 0
        self._ended = False
        self._rows: list[Row] = []  # of the batches that were looked at as rows
        self._rows_from = 0  # batches
        self.columns: list[Column] = []
        for i in range(lib.ttq_result_column_count(handle)):
            column = ffi.new("ttq_column*")
            column.size = ffi.sizeof("ttq_column")
            check(lib.ttq_result_column(handle, i, column))
            self.columns.append(Column(text_of(column.name), text_of(lib.ttq_type_name(column.type)),
                                       bool(column.shown)))
        stream, schema = _owned("ArrowArrayStream"), _owned("ArrowSchema")
        check(lib.ttq_result_arrow(handle, ffi.NULL, stream))
        self._stream_check(stream, stream.get_schema(stream, schema))
        self._fields = [(text_of(schema.children[i].name), text_of(schema.children[i].format))
                        for i in range(schema.n_children)]
        self._field_of = {}  # column → field; a value's bytes are the field after it
        at = 0
        for i, c in enumerate(self.columns):
            self._field_of[i] = at
            at += 2 if c.type == "value" else 1

    # ---- Getting rows ----

    @staticmethod
    def _stream_check(stream: Any, status: int) -> None:
        if status == 0:
            return
        message = text_of(stream.get_last_error(stream)) or "the rows could not be read"
        error = lib.ttq_last_error()
        if error.status < 0 and text_of(error.message) == message:
            check(error.status)
        raise InterruptedQuery(message)

    def _pull(self, rows: int) -> None:
        """Gets about so many more rows, or finds the end."""
        def pull() -> Any:
            stream, array = _owned("ArrowArrayStream"), _owned("ArrowArray")
            options = ffi.new("ttq_arrow_options*")
            options.size = ffi.sizeof("ttq_arrow_options")
            options.batch_rows = rows
            check(lib.ttq_result_arrow(self._handle, options, stream))
            self._stream_check(stream, stream.get_next(stream, array))
            return array

        array = interruptibly(pull, lambda: lib.ttq_result_interrupt(self._handle))
        if not array.release:
            self._ended = True
            return
        batch = _Batch(array, [f for _, f in self._fields])
        self._batches.append(batch)
        self._got += batch.length

    def fetch(self, rows: Optional[int] = None) -> "Result":
        """Gets the first `rows` rows (None: all) from the recording, and gives the result itself."""
        with self._lock:
            while not self._ended and (rows is None or self._got < rows):
                if rows is None:
                    self._pull(_MORE_ROWS)
                else:
                    self._pull(max(rows - self._got, _FIRST_ROWS if not self._batches else _MORE_ROWS))
        return self

    def interrupt(self) -> None:
        """Ends the query early; any thread may call this."""
        lib.ttq_result_interrupt(self._handle)

    def _summary(self) -> Any:
        summary = ffi.new("ttq_summary*")
        summary.size = ffi.sizeof("ttq_summary")
        check(lib.ttq_result_summary(self._handle, summary))
        return summary

    @property
    def complete(self) -> bool:
        """False when the answer could miss something; gets all rows."""
        with self._lock:
            return bool(self.fetch()._summary().complete)

    @property
    def note(self) -> str:
        """Facts beside the rows; gets all rows."""
        with self._lock:
            summary = self.fetch()._summary()
            parts = [text_of(summary.no_rows) if self._got == 0 else "", text_of(summary.note)]
            return "; ".join(part for part in parts if part)

    @property
    def truncated(self) -> bool:
        """Whether the limit was reached, so that there may be more rows; gets all rows."""
        with self._lock:
            return bool(self.fetch()._summary().truncated)

    @property
    def layout(self) -> str:
        """How it is best shown: "rows", "record" or "hex dump"."""
        with self._lock:
            return ("rows", "record", "hex dump")[self._summary().layout]

    # ---- Rows ----

    def _values(self, batch: _Batch, column: int) -> list[Any]:
        """A column of a batch as Python objects."""
        type_ = self.columns[column].type
        array = batch.columns[self._field_of[column]]
        values: list[Any]
        if type_ in ("string", "object", "list"):
            words: list[Any] = array.dictionary()
            if type_ != "string":
                words = [json.loads(word) for word in words]
            values = [words[i] if words else None for i in array.numbers()]
        elif type_ == "bytes":
            values = list(array.blobs())
        elif type_ == "time":
            values = [Time(n) for n in array.numbers()]
        elif type_ in ("address", "value"):
            values = [Address(n) for n in array.numbers()]
        else:
            values = list(array.numbers())
        missing = array.missing()
        if missing:
            values = [None if m else v for m, v in zip(missing, values)]
        if type_ == "value":
            wide = batch.columns[self._field_of[column] + 1]
            if wide.array.null_count < wide.length:
                none = wide.missing() or [False] * wide.length
                values = [v if m else b for v, m, b in zip(values, none, wide.blobs())]
        return values

    def _make_rows(self) -> None:
        for batch in self._batches[self._rows_from:]:
            columns = [self._values(batch, i) for i in range(len(self.columns))]
            self._rows.extend(Row(self.columns, values) for values in zip(*columns))
        self._rows_from = len(self._batches)

    def rows(self, first: Optional[int] = None) -> list[Row]:
        """The first so many rows (None: all)."""
        with self._lock:
            self.fetch(first)
            self._make_rows()
            return self._rows[:first]

    def __iter__(self) -> Iterator[Row]:
        i = 0
        while True:
            with self._lock:
                self.fetch(i + 1)
                if i >= self._got:
                    return
                self._make_rows()
                row = self._rows[i]
            yield row
            i += 1

    def __len__(self) -> int:
        self.fetch()
        return self._got

    def __bool__(self) -> bool:
        self.fetch(1)
        return self._got > 0

    def __getitem__(self, index: Union[int, slice, str]) -> Any:
        if isinstance(index, str):
            return self.column(index)
        if isinstance(index, int) and index >= 0:
            rows = self.rows(index + 1)
            if index >= len(rows):
                raise IndexError(f"there are {len(rows)} rows" + (f": {self.note}" if self.note else ""))
            return rows[index]
        return self.rows()[index]

    def first(self) -> Optional[Row]:
        """The first row; None when there is none."""
        rows = self.rows(1)
        return rows[0] if rows else None

    def one(self) -> Row:
        """The only row; LookupError when there is none or more than one."""
        rows = self.rows(2)
        if len(rows) != 1:
            raise LookupError("more than one row" if rows else self.note or "no rows")
        return rows[0]

    def column(self, name: str) -> list[Any]:
        """All values of a column."""
        for i, column in enumerate(self.columns):
            if column.name == name:
                self.fetch()
                return [value for batch in self._batches for value in self._values(batch, i)]
        raise KeyError(f"no column {name!r}; there are {', '.join(c.name for c in self.columns)}")

    # ---- Other libraries ----

    def df(self, hex: bool = False) -> Any:  # pylint: disable=redefined-builtin
        """A pandas.DataFrame. With `hex`, addresses and values are objects that show as 0x….

        Times, addresses and values are uint64 (UInt64 where some are missing), integers int64, reals
        float64 (Float64 where some are missing), text, bytes and objects Python's own. A value of
        more than 8 bytes is missing, and its bytes are in the column with `_bytes` after its name,
        which is there when any value is so wide.
        """
        try:
            import numpy
            import pandas
        except ImportError as e:
            raise ImportError("Result.df() needs pandas (Debian: python3-pandas)") from e
        with self._lock:
            self.fetch()
            data = {}
            for i, column in enumerate(self.columns):
                field = self._field_of[i]
                data[column.name] = self._series(field, column.type, numpy, pandas)
                if hex and column.type in ("address", "value"):
                    data[column.name] = pandas.Series(
                        [None if n is pandas.NA else Address(n) for n in data[column.name]], dtype=object)
                if column.type == "value":
                    arrays = [batch.columns[field + 1] for batch in self._batches]
                    if any(a.array.null_count < a.length for a in arrays):
                        data[column.name + "_bytes"] = self._series(field + 1, "bytes", numpy, pandas)
            frame = pandas.DataFrame(data, copy=False)
        frame.attrs["ttq.query"] = self.query
        return frame

    def _series(self, field: int, type_: str, numpy: Any, pandas: Any) -> Any:
        arrays = [batch.columns[field] for batch in self._batches]
        masks = []
        for a in arrays:
            mask = numpy.zeros(a.length, dtype=bool)
            if a.array.null_count:
                bits = numpy.frombuffer(a._buffer(0, (a.length + 7) // 8), dtype=numpy.uint8)
                mask = ~numpy.unpackbits(bits, count=a.length, bitorder="little").view(bool)
            masks.append(mask)
        parts = []
        if type_ in ("time", "address", "value", "integer", "real"):
            dtype = {"integer": numpy.int64, "real": numpy.float64}.get(type_, numpy.uint64)
            parts = [numpy.frombuffer(a._buffer(1, a.length * 8), dtype=dtype) for a in arrays]
            values = parts[0] if len(parts) == 1 else numpy.concatenate(parts or [numpy.empty(0, dtype)])
            if any(a.array.null_count for a in arrays):
                array = pandas.arrays.FloatingArray if type_ == "real" else pandas.arrays.IntegerArray
                return array(values.copy(), numpy.concatenate(masks))
            return values
        for a, mask in zip(arrays, masks):
            if type_ == "bytes":
                words: list[Any] = a.blobs()
                part = numpy.empty(len(words), dtype=object)
                part[:] = words
            else:
                words = a.dictionary() or [None]
                if type_ != "string":
                    words = [json.loads(word) if word is not None else None for word in words]
                table = numpy.empty(len(words), dtype=object)
                for k, word in enumerate(words):
                    table[k] = word
                part = table[numpy.frombuffer(a._buffer(1, a.length * 4), dtype=numpy.int32)]
            part[mask] = None
            parts.append(part)
        return numpy.concatenate(parts) if parts else numpy.empty(0, dtype=object)

    def arrow(self) -> Any:
        """A pyarrow.Table of the rows, without copying."""
        try:
            import pyarrow
        except ImportError as e:
            raise ImportError("Result.arrow() needs pyarrow (pip install pyarrow); "
                              "Result.df() and the rows need nothing but pandas") from e
        reader = pyarrow.RecordBatchReader._import_from_c(*self._exported_stream())
        return reader.read_all()

    def _new_stream(self) -> Any:
        """A stream that gives all rows. The query runs again when some were read already."""
        result = self
        if self._batches or self._ended:
            result = self._again()
        stream = ffi.new("struct ArrowArrayStream*")
        check(lib.ttq_result_arrow(result._handle, ffi.NULL, stream))
        return stream

    def _exported_stream(self) -> tuple[int]:
        with self._lock:
            stream = self._new_stream()
        self._exported = stream  # the structure itself must live until it was imported
        return (int(ffi.cast("uintptr_t", stream)),)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow PyCapsule protocol, by which polars, duckdb and others take the rows."""
        with self._lock:
            return capsules.of_stream(self._new_stream())

    # ---- Showing ----

    def _repr_html_(self) -> str:
        return html.result(self)

    def __repr__(self) -> str:
        return html.plain(self)

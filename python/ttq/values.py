# SPDX-License-Identifier: MIT
"""Numbers that know how they are written. They are ints in every other respect."""

from __future__ import annotations


class Address(int):
    """An address, or a value of memory or a register: written in hexadecimal."""

    def __repr__(self) -> str:
        return hex(self)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else hex(self)

    def __add__(self, other: int) -> "Address":
        return Address(int(self) + other)

    __radd__ = __add__


class Time(int):
    """A time: instructions retired since the process started."""

    def __add__(self, other: int) -> "Time":
        return Time(int(self) + other)

    __radd__ = __add__

    def __sub__(self, other: int) -> int:
        return int(self) - other if isinstance(other, Time) else Time(int(self) - other)


class Name(str):
    """A name, where a text would mean something else: `trace.query("last write to ?", Name("counter"))`."""

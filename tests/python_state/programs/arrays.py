# SPDX-License-Identifier: MIT
"""numpy arrays and scalars with their repr."""

import sys

import numpy as np


def main():
    empty, ints, small = np.array([]), np.arange(5), np.array([1, -20], dtype=np.int8)
    floats, table, flags = np.array([1.0, 2.5, -3.25]), np.arange(4).reshape(2, 2), np.array([True, False])
    view, turned = np.arange(10)[::3], np.arange(4).reshape(2, 2).T
    single, texts = np.float32([0.1, 1]), np.array(["ab", "c"])
    scalar, number, truth, half = np.float64(1.5), np.int64(-3), np.bool_(True), np.float16(0.5)
    wave, upright, low = np.complex128(1 + 2j), np.complex64(0.5j), np.complex64(-0.5 - 2j)
    waves, slight = np.array([1 + 2j, 10 - 20.5j]), np.array([1 + 2j, 0.25 - 3j], dtype=np.complex64)
    odd, near = np.array([np.nan, 1.0, np.inf, -np.inf]), np.array([0.1, 0.2, 0.1 + 0.2])
    hollow, things = np.empty((0, 3)), np.array([None, [1], "x"], dtype=object)
    square, bare, upside = np.matrix([[1, 2], [3, 4]]), np.array(2.5), np.arange(3)[::-1]
    here = locals()
    for name in list(here):
        sys.stdout.write("@%s=%s\n" % (name, " ".join(repr(here[name]).split())))
    sys.stdout.write("ready\n")
    sys.stdout.flush()


main()

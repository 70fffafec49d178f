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
    here = locals()
    for name in list(here):
        sys.stdout.write("@%s=%s\n" % (name, " ".join(repr(here[name]).split())))
    sys.stdout.write("ready\n")
    sys.stdout.flush()


main()

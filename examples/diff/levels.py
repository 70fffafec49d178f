# SPDX-License-Identifier: MIT
# The level comes from the environment; two runs of docs/diff.md differ in it.
import os


def level():
    return int(os.environ.get("LEVEL", "1"))


def compute(values, k):
    total = 0
    for value in values:
        if value > k:
            total += value
    return total


k = level()
print(compute(range(10), k))

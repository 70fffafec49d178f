# SPDX-License-Identifier: MIT
"""As damaged.c: objects, a loop, output, and an end by abort."""

import os


class Day:
    def __init__(self, readings):
        self.readings = readings

    def mean(self):
        return sum(self.readings) / len(self.readings)


def read(count):
    days = []
    for i in range(count):
        days.append(Day([i, i + 1, i * 2]))
    return days


total = 0
for day in read(20):
    total += day.mean()
print(total, flush=True)
os.abort()

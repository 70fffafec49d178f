# SPDX-License-Identifier: MIT
# A CPython program that corrupts an object through a C extension, and crashes long after.
#
# What it shows: the crash is in the interpreter, in innocent code, on an object that looks like
# garbage; every tool that looks at the end of the program sees only that. ttq is asked who last
# wrote the garbage, and names the line of C. Run it with `make demo` from the top of the tree.

import csv
import io
import random

import weather

random.seed(2)


def measurements():
    """What the stations sent, as a file: all at 6, 12 and 18 hours, a few at 24 hours as well."""
    out = io.StringIO()
    for hour in (6, 12, 18, 24):
        for station in range(2000):
            if hour < 24 or station % 100 == 77:
                print(station, hour, round(random.uniform(-5, 30), 1), sep=",", file=out)
    return out.getvalue()


def read(text):
    days = [weather.Day(station) for station in range(2000)]
    for station, hour, celsius in csv.reader(io.StringIO(text)):
        days[int(station)].add(int(hour), float(celsius))
    return days


days = read(measurements())
means = sorted(day.mean() for day in days)
print("median of the means:", means[len(means) // 2])

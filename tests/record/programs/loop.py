# SPDX-License-Identifier: MIT
"""A loop that a JIT compiles."""


def loop(n):
    t = 0
    for i in range(n):
        t = (t * 31 + i) & 0xFFFFFF
        if t & 1:
            t ^= i
    return t


print(loop(200000), sum(i * i for i in range(50000)), len({str(i) for i in range(2000)}))

# SPDX-License-Identifier: MIT
"""boxes.py COUNT BY [crash]: objects that a function changes; then it ends, or dies of SIGSEGV."""
import sys


class Box:
    def __init__(self, size):
        self.size = size


def grow(box, by):
    total = box.size
    for i in range(by):
        total += i
    box.size = total
    return box


boxes = [grow(Box(n), int(sys.argv[2])) for n in range(int(sys.argv[1]))]
print(sum(box.size for box in boxes))
if sys.argv[3:] == ["crash"]:
    import os, signal
    os.kill(os.getpid(), signal.SIGSEGV)

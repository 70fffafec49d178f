# SPDX-License-Identifier: MIT
"""Forks twice: from the main thread, and from another one. Each child works on in its parent's frames."""

import os
import sys
import threading


def double(n):
    return 2 * n


def work(n):
    total = 0
    for i in range(n):
        total += double(i)
    return total


def fork_and_work(n):
    child = os.fork()
    if child == 0:
        os._exit(work(n))
    if os.waitpid(child, 0)[1] != work(n) << 8:
        sys.exit("the child counted otherwise")


fork_and_work(3)
thread = threading.Thread(target=fork_and_work, args=(4,))
thread.start()
thread.join()

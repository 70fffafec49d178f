# SPDX-License-Identifier: MIT
# Children by os.fork and by multiprocessing, from a thread too. Each does work of its own.
import multiprocessing
import os
import sys
import threading


def work(n):
    total = 0
    for i in range(n):
        total = add(total, i)
    return total


def add(a, b):
    return a + b


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def child(n):
    say(f"child {work(n)}")
    return os._exit(0)


def forks(n):
    pid = os.fork()
    if pid == 0:
        child(n)
    os.waitpid(pid, 0)


def target(n):
    say(f"process {work(n)}")


def main():
    work(2)
    forks(3)
    thread = threading.Thread(target=forks, args=(4,))
    thread.start()
    thread.join()
    process = multiprocessing.get_context("fork").Process(target=target, args=(5,))
    process.start()
    process.join()


if __name__ == "__main__":
    main()

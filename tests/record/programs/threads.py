# SPDX-License-Identifier: MIT
"""Threads of the interpreter's: queues, a pool, a barrier, and a signal to the first of them."""

import concurrent.futures
import os
import queue
import signal
import threading
import time

numbers, taken = queue.Queue(5), []


def produce(start):
    for i in range(20):
        numbers.put(1000 * start + i)


def consume():
    while (number := numbers.get()) is not None:
        taken.append(number)


producers = [threading.Thread(target=produce, args=(i,)) for i in range(3)]
consumers = [threading.Thread(target=consume) for _ in range(2)]
for t in producers + consumers:
    t.start()
for t in producers:
    t.join()
for _ in consumers:
    numbers.put(None)
for t in consumers:
    t.join()
print(len(taken), sum(taken))

with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print(sum(pool.map(lambda n: n * n, range(50))))

local, barrier, go = threading.local(), threading.Barrier(3), threading.Event()


def wait():
    local.own = barrier.wait()
    go.wait()
    signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)


signals = []
signal.signal(signal.SIGUSR1, lambda *_: signals.append(threading.current_thread().name))
waiting = [threading.Thread(target=wait) for _ in range(3)]
for t in waiting:
    t.start()
go.set()
for t in waiting:
    t.join()
while not signals:
    time.sleep(0.01)
print(set(signals), hasattr(local, "own"))
child = os.fork()
if child == 0:
    os._exit(threading.active_count())
print(os.waitpid(child, 0)[1] >> 8)

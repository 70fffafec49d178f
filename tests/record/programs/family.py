# SPDX-License-Identifier: MIT
# A process, a child that it forks, threads of both, and a signal every 10 ms: each takes a while.

import os
import signal
import threading

ticks = 0


def tick(number, frame):
    global ticks
    ticks += 1


def work(count):
    texts = {}
    for i in range(count):
        texts[i % 997] = str(i)
    return len(texts)


signal.signal(signal.SIGALRM, tick)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
work(60000)
child = os.fork()
thread = threading.Thread(target=work, args=(60000,))
thread.start()
work(60000)
thread.join()
if child == 0:
    os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), ticks > 0)

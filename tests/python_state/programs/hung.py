# SPDX-License-Identifier: MIT
"""Three threads that wait for ever, and a main thread that sleeps."""

import threading, time, sys
lock = threading.Lock()
lock.acquire()
ev = threading.Event()
def waiter(n):
    with lock:
        pass
def evwait():
    ev.wait()
def sleeper():
    time.sleep(1000)
def spin():
    pass
for f, a in ((waiter, (1,)), (evwait, ()), (sleeper, ())):
    threading.Thread(target=f, args=a, daemon=True).start()
print("ready", flush=True)
time.sleep(500)

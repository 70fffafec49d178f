# SPDX-License-Identifier: MIT
import threading
import time

lock = threading.Lock()


def work(queue):
    with lock:
        queue.append(1)


def wait_for(thread):
    while thread.is_alive():
        time.sleep(0.05)


lock.acquire()
worker = threading.Thread(target=work, args=([],), daemon=True)
worker.start()
print("waiting", flush=True)
wait_for(worker)

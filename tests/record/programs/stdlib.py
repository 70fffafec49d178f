# SPDX-License-Identifier: MIT
"""Much of the standard library, threads, a subprocess and forked workers."""

import hashlib
import json
import multiprocessing
import re
import sqlite3
import subprocess
import sys
import threading
import time
import zlib


def work(results, n):
    results.put(sum(range(n)))


def main():
    database = sqlite3.connect(":memory:")
    database.execute("create table t(a, b)")
    database.executemany("insert into t values (?, ?)", [(i, str(i)) for i in range(200)])
    print(database.execute("select sum(a), count(b) from t where b like '%3%'").fetchone())
    print(len(json.dumps(json.loads("[%s]" % ",".join('{"a":%d}' % i for i in range(100))))))
    print(len(re.findall(r"(\w+)@(\w+)", "a@b c@dd " * 50)))
    print(hashlib.sha256(b"x" * 3000).hexdigest(), len(zlib.compress(b"abc" * 999)))
    out, lock = [], threading.Lock()

    def append(i):
        for _ in range(10):
            with lock:
                out.append(i)
        time.sleep(0.001)

    threads = [threading.Thread(target=append, args=(i,)) for i in range(10)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(len(out), subprocess.run(["sh", "-c", "echo hi; exit 3"], stdout=subprocess.PIPE))
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    workers = [context.Process(target=work, args=(results, 1000 * i)) for i in range(1, 3)]
    for w in workers:
        w.start()
    print(sorted(results.get() for _ in workers))
    for w in workers:
        w.join()
    try:
        json.loads("{")
    except ValueError as e:
        print(e)
    sys.exit(4)


main()

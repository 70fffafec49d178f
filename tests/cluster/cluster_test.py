# SPDX-License-Identifier: MIT
"""ttq.cluster on a real Dask scheduler with two workers on loopback, one of which is killed in mid-batch.

    cluster_test.py TTQ RECORD_TEXT SOURCE
"""

import importlib.util
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

TTQ, RECORD_TEXT, SOURCE = (os.path.abspath(p) for p in sys.argv[1:4])
sys.argv = sys.argv[:1] + sys.argv[4:]
try:
    import distributed
except ImportError:
    print("skipped: no python3-distributed")
    sys.exit(77)

# By itself: the workers, and this test, need nothing of libttq.
spec = importlib.util.spec_from_file_location("ttq_cluster", os.path.join(SOURCE, "python", "ttq", "cluster.py"))
cluster = importlib.util.module_from_spec(spec)
sys.modules["ttq_cluster"] = cluster
spec.loader.exec_module(cluster)

HISTORY = """map 0x10000 0x11000 rw
thread 1
0x401000 store 0x10000 4 = 7
0x401004 store 0x10004 4 = %d
"""
QUESTIONS = """- {name: written, query: writes to 0x10000, expect: some}
- {name: two, query: writes to 0x10000 len 8, expect: count = 2}
- {name: not eight, query: "writes to 0x10004 | where value = 8", expect: none}
"""
COUNT = 12


def start(*command):
    return subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, cwd=PLACE)


class Cluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.traces = []
        for i in range(COUNT):
            cls.traces.append(os.path.join(PLACE, "%d.ttq" % i))
            subprocess.run([RECORD_TEXT, cls.traces[-1]], input=HISTORY % (8 if i == 5 else i + 20), text=True,
                           check=True, stdout=subprocess.DEVNULL)
        cls.questions = os.path.join(PLACE, "questions.yaml")
        with open(cls.questions, "w") as f:
            f.write(QUESTIONS)
        # Says which worker has begun what, and takes its time over it.
        cls.slow = os.path.join(PLACE, "slow-ttq")
        with open(cls.slow, "w") as f:
            f.write("#!/bin/sh\necho $PPID >> %s/begun\nsleep 0.5\nexec %s \"$@\"\n" % (PLACE, TTQ))
        os.chmod(cls.slow, stat.S_IRWXU)
        address = os.path.join(PLACE, "scheduler.json")
        cls.processes = [start("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0",
                               "--scheduler-file", address, "--no-dashboard")]
        deadline = time.time() + 60
        while not os.path.exists(address) and time.time() < deadline:
            time.sleep(0.1)
        cls.workers = [start("distributed.cli.dask_worker", "--scheduler-file", address, "--nthreads", "1",
                             "--no-nanny", "--no-dashboard", "--host", "127.0.0.1", "--name", name)
                       for name in ("one", "two")]
        cls.processes += cls.workers
        cls.client = distributed.Client(scheduler_file=address)
        cls.client.wait_for_workers(2, timeout=60)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        for p in cls.processes:
            p.kill()
            p.wait()

    def expected(self):
        out = []
        for i, trace in enumerate(self.traces):
            out += [(trace, "written", "met"), (trace, "two", "met"),
                    (trace, "not eight", "not met" if i == 5 else "met")]
        return sorted(out)

    def test_1_results_of_all(self):
        results = list(cluster.batch(self.questions, self.traces, client=self.client, ttq=TTQ))
        self.assertEqual(sorted((r["trace"], r["question"], r["verdict"]) for r in results), self.expected())

    def test_2_recording_that_is_not_there(self):
        gone = os.path.join(PLACE, "gone.ttq")
        results = list(cluster.batch(self.questions, [gone, self.traces[0]], client=self.client, ttq=TTQ))
        self.assertEqual({r["verdict"] for r in results if r["trace"] == gone}, {"unreadable"})
        self.assertEqual([r["verdict"] for r in results if r["trace"] == self.traces[0]], ["met"] * 3)
        results = list(cluster.batch(self.questions, self.traces[:1], client=self.client, ttq="/nowhere/ttq"))
        self.assertEqual([r["verdict"] for r in results], ["unreadable"])
        self.assertIn("/nowhere/ttq cannot be run: No such file", results[0]["detail"])

    def test_3_bad_questions(self):
        bad = os.path.join(PLACE, "bad.yaml")
        with open(bad, "w") as f:
            f.write("- {naem: x, query: events}\n")
        with self.assertRaisesRegex(cluster.BatchError, "bad.yaml.*naem"):
            list(cluster.batch(bad, self.traces[:2], client=self.client, ttq=TTQ))

    def test_4_results_stream(self):
        results = cluster.batch(self.questions, self.traces, client=self.client, ttq=self.slow)
        next(results)
        with open(os.path.join(PLACE, "begun")) as f:
            self.assertLess(len(f.readlines()), COUNT)  # not all had to be done for the first
        results.close()  # and the rest is cancelled

    def test_5_a_worker_killed_in_mid_batch(self):
        begun = os.path.join(PLACE, "begun")
        open(begun, "w").close()
        results = cluster.batch(self.questions, self.traces, client=self.client, ttq=self.slow)
        got = [next(results)]
        victim = self.workers[0]
        deadline = time.time() + 60
        while str(victim.pid) not in open(begun).read().split() and time.time() < deadline:
            got.append(next(results))
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        got += results
        self.assertIn(str(victim.pid), open(begun).read().split())
        self.assertEqual(sorted((r["trace"], r["question"], r["verdict"]) for r in got), self.expected())
        self.assertEqual(len(self.client.scheduler_info()["workers"]), 1)

    def test_6_local_cluster_by_default(self):
        results = list(cluster.batch([self.questions], self.traces[:2], ttq=TTQ))
        self.assertEqual([r["verdict"] for r in results], ["met"] * 6)


if __name__ == "__main__":
    PLACE = tempfile.mkdtemp(prefix="ttq-cluster-")
    try:
        unittest.main()
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)

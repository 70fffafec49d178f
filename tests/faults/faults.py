# SPDX-License-Identifier: MIT
"""What the tests of faults share: running ttq, and what must hold of any recording whatever
happened while it was made."""

import ctypes
import glob
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from processes import children_of  # noqa: E402

SKIPPED = 77  # as automake's tests do; see CMakeLists.txt


def skip(why):
    print("skipped:", why)
    sys.exit(SKIPPED)


class Ttq:
    """The program under test, with a home of its own that goes when the test ends."""

    def __init__(self, path):
        self.path = os.path.abspath(path)
        self.scratch = tempfile.mkdtemp(prefix="ttq-faults.")
        self.environment = dict(os.environ, TTQ_HOME=os.path.join(self.scratch, "home"))
        self.environment.pop("TTQ_TRACE", None)
        self.started = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        end_children()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def place(self, name):
        return os.path.join(self.scratch, name)

    def start(self, *arguments, **options):
        options.setdefault("env", self.environment)
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen([self.path, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   **options)
        self.started.append(process)
        return process

    def run(self, *arguments, timeout=60, **options):
        process = self.start(*arguments, **options)
        try:
            out, error = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"ttq {' '.join(arguments)}: no end after {timeout} s")
        return process.returncode, out, error

    def index(self, directory, *flags):
        status, _, error = self.run("index", *flags, directory)
        assert (status, error) == (0, ""), (status, error)

    def answer(self, directory, query):
        status, out, error = self.run("-t", directory, "-f", "json", query)
        assert status == 0, (directory, query, status, error)
        return json.loads(out)

    def expect_readable(self, directory, complete=False):
        """The recording opens, checks, answers, and says that it is (in)complete; the number of the
        last increment of `counter` that it holds."""
        status, out, error = self.run("info", "-f", "json", directory)
        assert status == 0, (directory, status, error)
        info = json.loads(out)
        # Checking reads the whole log, and a slow machine makes a long one.
        status, out, error = self.run("check", directory, timeout=300)
        assert status == 0 and error == "", (directory, status, error)
        assert len(info["processes"]) <= 1, info
        if not info["processes"]:
            assert not complete
            return info, 0
        process = info["processes"][0]
        assert process["complete"] == complete and (process["note"] is None) == complete, process
        if process["blocks"] == 0:
            status, _, error = self.run("-t", directory, "events")
            assert status == 3 and "nothing of process 1 was recorded" in error, (status, error)
            return info, 0
        events = self.answer(directory, "events | count")
        assert events["complete"] == complete and (events["note"] is None) == complete, events
        if process["instructions"] < 300_000:  # the loop has hardly begun
            return info, 0
        last = self.answer(directory, "last write to counter")
        assert last["complete"] == complete and (last["note"] is None) == complete, last
        if not last["rows"]:
            return info, 0
        row = last["rows"][0]
        value = int(row["value"], 16)
        assert int(row["previous"], 16) == value - 1, row
        memory = self.answer(directory, "memory counter len 8 at end")
        assert memory["rows"], memory
        if value > 1:
            before = self.answer(directory, f"last write to counter before {row['time']}")
            assert int(before["rows"][0]["value"], 16) == value - 1, before
        leftovers = glob.glob(directory + "/db/new-*.sst")
        assert not info["finished"] or not leftovers, leftovers
        return info, value


def seed_from(argument):
    """Seeds `random` by a word of the command line, where there is one, and says by what."""
    seed = int(sys.argv[argument]) if len(sys.argv) > argument else random.randrange(1 << 32)
    print("seed", seed, flush=True)
    random.seed(seed)


def one_line(result, *about):
    """An answer that is refused: one line, and status 3."""
    status, out, error = result
    assert status == 3 and out == "" and error.startswith("ttq: ") and error.count("\n") == 1, (about, result)


def wait_for_inputs(started, directory, size):
    """Until the first process has so many bytes of inputs."""
    path = os.path.join(directory, "inputs", "1")
    while not os.path.exists(path) or os.path.getsize(path) < size:
        assert started.poll() is None, started.communicate()
        time.sleep(0.001)


def adopt_orphans():
    """Programs whose recorder is killed run on; from now on they become our children."""
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER


def end_children():
    """Ends what a test that failed half-way left running, and the children of that."""
    while left := children_of("self"):
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def ring_directories(pids):
    wanted = {str(pid) for pid in pids}
    return [path for base in ("/dev/shm", "/tmp") for path in glob.glob(base + "/ttq-*-*")
            if path.rsplit("-", 1)[1] in wanted]

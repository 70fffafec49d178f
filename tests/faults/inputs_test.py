#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""inputs_test.py TTQ COUNTER [SEED]: what may happen to a recording that has its inputs only.

SIGKILL to the program, to the recorder, and to who makes the history; inputs that are cut, flipped, or of another
version; two that ask at once; a disk that is full. Each time there is one line or a right answer, and what was
recorded stays."""

import contextlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time

import faults
from full_disk_test import small_disk

QUESTION = "last write to counter"


def record(ttq, counter, name, *flags, most="300000"):
    directory = ttq.place(name)
    status, out, error = ttq.run("record", "-q", "--block-size", "1", *flags, "-o", directory, counter,
                                 ttq.place("never"), most)
    assert (status, out, error) == (7, most + "\n", ""), (status, out, error)
    return directory


def ask_while_recorded(ttq, directory):
    """A question about a recording that has just begun."""
    result = ttq.run("-t", directory, "-f", "json", QUESTION)
    if result[0] != 0:
        faults.one_line(result, "while it is recorded")
        return
    answer = json.loads(result[1])
    # Without a row the note goes on: where the bytes come from that nothing has written yet.
    note = answer["note"] if answer["rows"] else answer["note"].split(";")[0]
    assert not answer["complete"] and note == "the recording is still being made", answer


def ask_while_it_runs(ttq, counter):
    """What is asked while the program runs is true of when it is asked, and is asked anew later on; of one that waits,
    all is there. SIGKILL to the program leaves what it did until its last system call."""
    directory, stop = ttq.place("live"), ttq.place("stop-live")
    started = ttq.start("record", "-o", directory, "/usr/bin/python3", "-S", "-c",
                        # os.access is not Python's: no other frame is innermost when it is asked.
                        "import os, sys, time\nn = 0\nwhile not os.access(sys.argv[1], os.F_OK):\n    n += 1\n"
                        "    print(n, flush=True)\n    time.sleep(0.05)\nsys.exit(7)", stop)
    assert started.stdout.readline() == "1\n"
    values = []
    while len(values) < 3:
        time.sleep(1)
        answer = ttq.answer(directory, "py locals at end in frame 0 | where name = \"n\"")
        assert not answer["complete"] and answer["note"] == "the recording is still being made", answer
        values.append(int(answer["rows"][0]["value"]))
        status, out, error = ttq.run("info", "--indexed", directory)
        assert status == 0 and "not finished: it is still being made" in out, (status, out, error)
    assert values == sorted(set(values)), values
    with open(stop, "w", encoding="ascii"):
        pass
    out, error = started.communicate(timeout=60)
    assert started.returncode == 7, (out, error)
    answer = ttq.answer(directory, "events output | count")
    assert answer["complete"] and answer["rows"][0]["count"] == 2 * (out.count("\n") + 1) > 2 * values[-1], (answer, out)
    assert sorted(os.listdir(directory)) == ["db", "inputs", "seal"], os.listdir(directory)

    for victim in ("nobody", "program", "recorder"):
        directory = ttq.place(f"waits-{victim}")
        started = ttq.start("record", "-o", directory, "/usr/bin/python3", "-S", "-c",
                            "import os\nfor i in range(1000): os.getppid()\nprint(i, flush=True)\nos.read(0, 1)",
                            stdin=subprocess.PIPE)
        assert started.stdout.readline() == "999\n"
        time.sleep(1.5)  # half a second is what it takes
        program = faults.children_of(started.pid)[0]
        if victim == "program":
            os.kill(program, signal.SIGKILL)
            started.communicate(timeout=60)
        elif victim == "recorder":
            started.kill()
            started.wait(timeout=60)
        answer = ttq.answer(directory, "events syscall | where detail matches /getppid/ | count")
        assert answer["rows"][0]["count"] == 1000 and not answer["complete"], answer
        answer = ttq.answer(directory, "py backtrace at end")
        assert answer["rows"][-1]["line"] == 4 and not answer["complete"], answer
        answer = ttq.answer(directory, "events output | last 2")
        assert "999" in answer["rows"][0]["detail"], answer
        if victim != "program":
            started.stdin.write("x")
            started.stdin.close()
        if victim == "recorder":
            os.waitpid(program, 0)
        else:
            started.wait(timeout=60)
        done = ttq.answer(directory, "py backtrace at end")["complete"]
        assert done == (victim == "nobody"), (victim, done)
    print("asked while it ran")


def kill_recorders(ttq, counter):
    for number in range(6):
        kind, early = ("program", "recorder")[number % 2], number < 2
        directory, stop = ttq.place(f"{kind}-{number}"), ttq.place(f"stop-{number}")
        started = ttq.start("record", "--block-size", "1", "-o", directory, counter, stop)
        program = None
        while program is None:
            time.sleep(0.01)
            program = next(iter(faults.children_of(started.pid)), None)
        ask_while_recorded(ttq, directory)
        # The start takes some 16 kB of inputs, each block of the loop 2 kB.
        if not early:
            faults.wait_for_inputs(started, directory, 1 << 15)
        time.sleep(random.random() / 32)
        os.kill(program if kind == "program" else started.pid, signal.SIGKILL)
        if kind == "program":
            started.communicate(timeout=60)
            assert started.returncode == 137
        else:
            started.wait(timeout=60)
            with open(stop, "w", encoding="ascii"):
                pass
            _, status = os.waitpid(program, 0)
            assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 7, status
            started.communicate(timeout=60)
        ttq.index(directory)
        info, value = ttq.expect_readable(directory)
        assert info["finished"] == (kind == "program") and (early or value > 0), (kind, info, value)
    print("killed while recording: 6")


def kill_while_translating(ttq, _):
    """A program that executes new code all the time: blocks end wherever a recipe has no room."""
    for number in range(10):
        directory = ttq.place(f"new-code-{number}")
        started = ttq.start("record", "-q", "--block-size", "1", "-o", directory, "/usr/bin/python3", "-c",
                            "import json, decimal, re, ast, inspect, argparse")
        time.sleep(0.05 + 0.04 * number)
        for program in list(faults.children_of(started.pid)):
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(program, signal.SIGKILL)
        started.communicate(timeout=60)
        if os.path.exists(directory):
            ttq.index(directory)
    print("killed while it was translated: 10")


def kill_indexers(ttq, counter):
    directory = record(ttq, counter, "whole", most="6000000")
    killed = 0
    for number in range(5):
        indexer = ttq.start("index", directory)
        time.sleep(0.05 + 0.08 * number)
        indexer.kill()
        killed += indexer.wait(timeout=60) == -signal.SIGKILL
        indexer.communicate(timeout=60)
        ttq.run("index", "--drop", directory)
    assert killed > 0
    both = [ttq.start("-t", directory, "-f", "json", QUESTION) for _ in range(2)]
    answers = [json.loads(p.communicate(timeout=120)[0]) for p in both]
    assert answers[0]["rows"] == answers[1]["rows"] != [] and answers[0]["complete"], answers
    assert ttq.expect_readable(directory, complete=True)[1] == 6000000
    ttq.index(directory)
    assert sorted(os.listdir(directory)) == ["db", "inputs", "seal"], os.listdir(directory)
    print("killed while making the history:", killed)


def damage(ttq, counter):
    directory = record(ttq, counter, "damaged", most="100000")
    path = os.path.join(directory, "inputs", "1")
    with open(path, "rb") as file:
        right = file.read()
    ttq.index(directory)
    rows = ttq.answer(directory, QUESTION)["rows"]
    noticed = 0
    for number in range(24):
        data = bytearray(right)
        at = random.randrange(len(data))
        if number % 4 == 0:
            del data[at:]
        else:
            data[at] ^= 1 << random.randrange(8)
        with open(path, "wb") as file:
            file.write(data)
        assert ttq.run("index", "--drop", directory)[0] == 0
        result = ttq.run("index", directory)
        if result[0] != 0:
            faults.one_line(result, number, at)
            noticed += 1
            continue
        status, out, error = ttq.run("-t", directory, "-f", "json", QUESTION)
        if status != 0:
            faults.one_line((status, out, error), number, at)
        else:
            answer = json.loads(out)
            assert answer["rows"] == rows or not answer["complete"], (number, at, answer)
    assert noticed > 8, noticed
    # With a history beside them the damage is found by checking.
    with open(path, "wb") as file:
        file.write(right)
    ttq.run("index", "--drop", directory)
    ttq.index(directory)
    assert ttq.run("check", directory)[0] == 0
    data = bytearray(right)
    data[16] ^= 1  # the hash of the first frame
    with open(path, "wb") as file:
        file.write(data)
    status, _, error = ttq.run("check", directory)
    assert status == 3 and path in error, (status, error)
    assert ttq.run("index", "--drop", directory)[0] == 0
    # Of a later version: its number is in the first frame, behind the frame's own head and the magic number.
    with open(path, "wb") as file:
        file.write(right[:24 + 8] + struct.pack("<I", 99) + right[24 + 12:])
    faults.one_line(ttq.run("index", directory), "of another version")
    os.remove(path)
    os.mkdir(path)
    faults.one_line(ttq.run("index", directory), "no file")
    print("damaged: 24, noticed:", noticed)


def changed_file(ttq, counter):
    """The recording has what it needs of the program."""
    program = ttq.place("program")
    shutil.copy(counter, program)
    directory = record(ttq, program, "changed", most="1000")
    shutil.copy("/bin/true", program)
    assert ttq.answer(directory, "writes to counter | count")["rows"][0]["count"] == 1000
    ttq.run("index", "--drop", directory)
    shutil.rmtree(os.path.join(directory, "inputs", "files"))
    result = ttq.run("index", directory)
    faults.one_line(result)
    assert program in result[2], result
    print("a program that changed")


def failed_long_before_the_end(ttq, _):
    """A program goes on for long after the exception that ended it. What is indexed first has that."""
    directory = ttq.place("failed")
    status, _, error = ttq.run("record", "-q", "--block-size=512Ki", "-o", directory, "/usr/bin/python3", "-S", "-c",
                               "class Last:\n    def __del__(self):\n        work(80_000)\n"
                               "def work(n):\n    while n > 0: n -= 1\n"
                               "def fail(x):\n    raise ValueError(x)\n"
                               "last = Last()\nwork(800_000)\nfail(5)")
    assert status == 1 and error.endswith("ValueError: 5\n"), (status, error)
    answer = ttq.answer(directory, "crash")
    assert answer["rows"][0]["exception"]["message"] == "5" and answer["complete"], answer
    assert ttq.run("info", "--indexed", directory)[1].count("indexed       from") == 1
    ttq.index(directory)
    assert ttq.answer(directory, "crash")["rows"] == answer["rows"]
    print("failed long before the end")


def shared_copies(ttq, counter):
    """Recordings of a program have one copy of it; of another program that looks the same they have another. What
    becomes of one recording, or of the cache, is nothing to the others."""
    program = ttq.place("shared-program")
    shutil.copy(counter, program)

    def copy_of(name):
        time.sleep(1.1)  # a file that has just changed is copied for itself
        st = os.stat(program)
        return os.path.join(record(ttq, program, name, most="1000"), "inputs", "files",
                            f"{st.st_dev:x}-{st.st_ino:x}-{st.st_size:x}-{st.st_mtime_ns:x}")

    before = ttq.environment
    ttq.environment = dict(before, XDG_CACHE_HOME=ttq.place("shared-cache"))
    first, second = copy_of("shared-1"), copy_of("shared-2")
    assert os.path.samefile(first, second)
    was = os.stat(program)
    with open(program, "r+b") as file:
        content = file.read()
        file.seek(content.index(b"GCC: "))
        file.write(b"gcc: ")
    os.utime(program, ns=(was.st_atime_ns, was.st_mtime_ns))
    third = copy_of("shared-3")
    assert not os.path.samefile(second, third)
    shutil.rmtree(ttq.place("shared-1"))
    shutil.rmtree(ttq.place("shared-cache"))
    os.remove(program)
    for name in ("shared-2", "shared-3"):
        assert ttq.answer(ttq.place(name), "writes to counter | count")["rows"][0]["count"] == 1000
    ttq.run("index", "--drop", ttq.place("shared-2"))
    os.chmod(second, 0o600)
    with open(second, "r+b") as file:
        file.seek(os.path.getsize(second) // 2)
        flipped = bytes([file.read(1)[0] ^ 1])
        file.seek(-1, os.SEEK_CUR)
        file.write(flipped)
    result = ttq.run("index", ttq.place("shared-2"))
    faults.one_line(result)
    assert second in result[2] and "is damaged" in result[2], result
    shutil.copy(counter, program)
    ttq.environment["XDG_CACHE_HOME"] = "/dev/null"
    assert os.stat(copy_of("shared-4")).st_nlink == 1
    ttq.environment = before
    print("copies that are shared")


def full_disk(ttq, counter):
    said = 0
    for kib in (20, 60, 3000):
        disk = ttq.place("disk")
        with small_disk(disk, kib):
            directory = disk + "/a"
            status, _, error = ttq.run("record", "-q", "--free-space=0", "--block-size", "1", "-o", directory,
                                       counter, ttq.place("never"), "1000000", timeout=120)
            if status != 7:
                assert error.startswith("ttq: ") and "disk is full" in error, error
                said += 1
                continue
            result = ttq.run("index", directory)
            if result[0] != 0:
                faults.one_line(result, kib)
                assert "disk is full" in result[2], result
                said += 1
                assert sorted(os.listdir(directory)) == ["inputs"], os.listdir(directory)
                kept = ttq.place(f"kept-{kib}")
                shutil.copytree(directory, kept)
                ttq.index(kept)
                assert ttq.expect_readable(kept, complete=True)[1] == 1000000
    assert said == 3
    print("disks that were full:", said)


def main():
    faults.seed_from(3)
    faults.adopt_orphans()
    with faults.Ttq(sys.argv[1]) as ttq:
        for test in (damage, ask_while_it_runs, kill_recorders, kill_while_translating, kill_indexers, changed_file,
                     failed_long_before_the_end, shared_copies, full_disk):
            test(ttq, os.path.abspath(sys.argv[2]))


if __name__ == "__main__":
    main()

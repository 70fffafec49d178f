#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""limits_test.py TTQ COUNTER: what ends a recording before its program does: --max-size, --max-time,
--free-space, Ctrl-C twice. What was recorded before stays, and says why there is no more."""

import os
import signal
import subprocess
import sys
import time

import faults


def ended(ttq, counter, name, *options, said):
    directory = ttq.place(name)
    status, out, error = ttq.run("record", *options, "-o", directory, counter, ttq.place("stop"),
                                 timeout=300)
    assert status == 125 and out == "", (status, out, error)
    lines = [line for line in error.splitlines() if said in line]
    assert len(lines) == 1 and "the program was ended" in lines[0], error
    info, _ = ttq.expect_readable(directory)
    assert said in info["processes"][0]["note"], info
    return info


def detached(ttq, counter):
    directory = ttq.place("detached")
    status, out, error = ttq.run("record", "--max-time=0.4s", "--on-full=detach", "-o", directory,
                                 counter, ttq.place("stop"), "600000000", timeout=300)
    assert status == 7 and out == "600000000\n" and "went on unrecorded" in error, (status, out, error)
    info, value = ttq.expect_readable(directory)
    assert 0 < value < 600000000 and "--max-time" in info["processes"][0]["note"], (info, value)


def interrupted(ttq, counter):
    """A Ctrl-C is the program's, which ignores it here; a second one soon after it ends the program."""
    directory = ttq.place("interrupted")
    recorder = ttq.start("record", "-o", directory, "sh", "-c",
                         f"trap '' INT; exec {counter} {ttq.place('stop')}", start_new_session=True)
    time.sleep(3)
    for pause in (2.5, 1, 0):
        assert recorder.poll() is None, "it ended too early"
        os.killpg(recorder.pid, signal.SIGINT)
        time.sleep(pause)
    try:
        _, error = recorder.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        raise AssertionError("Ctrl-C twice did not end it")
    assert recorder.returncode == 128 + 9 and "recorded" in error, (recorder.returncode, error)
    status, out, error = ttq.run("info", directory)
    assert status == 0 and "the process was killed" in out, (out, error)


def refused(ttq, counter):
    for option, said in (("--max-size=much", "a size is a number"), ("--max-size=-1", "a size is"),
                         ("--max-time=3y", "a duration is a number")):
        status, out, error = ttq.run("record", option, "-o", ttq.place("refused"), "true")
        assert status == 125 and said in error and error.count("\n") == 1, (option, status, error)
        assert not os.path.exists(ttq.place("refused"))


def main():
    with faults.Ttq(sys.argv[1]) as ttq:
        counter = sys.argv[2]
        info = ended(ttq, counter, "size", "--index=now", "--max-size=20M", said="reached 20 MB (--max-size)")
        assert 10e6 < info["bytes_on_disk"] < 400e6, info["bytes_on_disk"]
        info = ended(ttq, counter, "time", "--max-time=0.4s", said="0.4 s have passed (--max-time)")
        ended(ttq, counter, "space", "--free-space=900T", said="(--free-space)")
        detached(ttq, counter)
        interrupted(ttq, counter)
        refused(ttq, counter)


main()

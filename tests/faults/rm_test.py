#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""rm_test.py TTQ COUNTER: `ttq rm` removes the recordings that it is told to, and nothing else; and
a command that is no command is told from a query."""

import json
import os
import sys
import time

import faults


def main():
    with faults.Ttq(sys.argv[1]) as ttq:
        counter, home = os.path.abspath(sys.argv[2]), ttq.environment["TTQ_HOME"]
        latest = os.path.join(home, "latest")

        def record(name):
            status, out, error = ttq.run("record", "-q", "-o", name, "/bin/true", cwd=home)
            assert status == 0, (name, out, error)

        def listed():
            status, out, error = ttq.run("ls", "-f", "json")
            assert status == 0, error
            return json.loads(out)

        def expect_left(*names):
            names = [name + ".ttq" for name in names]
            left = sorted(n for n in os.listdir(home) if n != "latest")
            assert left == sorted(names), (left, names)
            assert [r["name"] for r in listed()] == names, (listed(), names)

        def remove(*arguments):
            status, out, error = ttq.run("rm", *arguments)
            assert status == 0 and error == "", (arguments, status, error)
            return out

        def expect_error(status, words, *arguments):
            before = sorted(os.listdir(home))
            got, out, error = ttq.run(*arguments)
            assert got == status, (arguments, got, out, error)
            assert error.startswith("ttq: ") and error.count("\n") == 1, (arguments, error)
            assert words in error, (arguments, error)
            assert sorted(os.listdir(home)) == before, arguments

        os.makedirs(home)
        for name in ("one", "two", "three", "four", "five"):
            record(name + ".ttq")
        expect_left("five", "four", "three", "two", "one")
        assert os.path.realpath(latest) == os.path.join(home, "five.ttq")

        # By name, by path, the same twice; `latest` names the newest that is left.
        size, path = remove("-n", "five").splitlines()[0].split("  ")
        assert path == os.path.join(home, "five.ttq"), path
        assert remove("-n", "five").endswith(f"\nwould remove 1 recording, {size}\n")
        expect_left("five", "four", "three", "two", "one")
        assert remove("five", os.path.join(home, "five.ttq")).startswith("removed 1 recording, ")
        expect_left("four", "three", "two", "one")
        assert os.path.realpath(latest) == os.path.join(home, "four.ttq")
        remove("latest")
        expect_left("three", "two", "one")
        assert os.path.realpath(latest) == os.path.join(home, "three.ttq")

        # What is wrong is said, and what is right is done.
        expect_error(3, "no-such", "rm", "no-such")
        plain = ttq.place("plain")
        os.makedirs(plain)
        open(os.path.join(plain, "kept"), "w", encoding="ascii").close()
        expect_error(3, "not a recording", "rm", plain)
        assert os.path.exists(os.path.join(plain, "kept"))
        status, out, error = ttq.run("rm", "no-such", "two")
        assert status == 3 and "no-such" in error and out.startswith("removed 1 "), (out, error)
        expect_left("three", "one")
        expect_error(2, "--keep N or --older-than", "rm")
        expect_error(2, "not both", "rm", "--keep", "1", "one")
        expect_error(2, "an age is a number", "rm", "--older-than", "soon")
        expect_error(2, "did you mean record?", "recrod", "-o", "x", "/bin/true")
        expect_error(2, "did you mean info?", "inof", "one")

        # By age: those recorded before the middle of two.
        assert remove("--older-than", "7d").startswith("removed 0 recordings")
        time.sleep(6)
        record("six.ttq")
        start = {r["name"]: r["start_wall_ns"] / 1e9 for r in listed()}
        age = time.time() - (start["three.ttq"] + start["six.ttq"]) / 2
        remove("--older-than", f"{age:.1f}s")
        expect_left("six")

        # By number; one that is being recorded stays, whatever is asked.
        record("seven.ttq")
        recorder = ttq.start("record", "-q", "-o", "running.ttq", counter, ttq.place("stop"), cwd=home)
        deadline = time.monotonic() + 60
        while not any(r["name"] == "running.ttq" and r["running"] for r in listed()):
            assert time.monotonic() < deadline and recorder.poll() is None, listed()
            time.sleep(0.2)
        expect_error(3, "is being recorded", "rm", "running")
        remove("--keep", "2")
        expect_left("running", "seven")
        remove("--keep", "0")
        expect_left("running")
        recorder.terminate()
        recorder.communicate(timeout=60)
        remove("running")
        expect_left()
        assert not os.path.lexists(latest)
    print("ok")


if __name__ == "__main__":
    main()

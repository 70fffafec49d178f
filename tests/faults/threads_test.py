#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""threads_test.py TTQ: where the system gives few threads, or none. Of questions the store needs one of its
own: without it one line says so; with it, whatever more there is, the answers are those of plenty. A program
that cannot be recorded so is not begun, or goes on unrecorded, and one line says that."""

import os
import resource
import sys

import faults

SCRIPT = "def f(n):\n    total = n\n    return total\nfor i in range(30):\n    f(i)\n"
QUESTIONS = ("py calls to f | count", "py changes of total in f | count", "calls to malloc | count",
             "writes to 0x10000..0x7fffffffffff after 100000 | first 5", "heap leaks at end | count")


def main():
    if os.geteuid() != 0:
        faults.skip("only root can be another user, whose processes are counted")
    with faults.Ttq(sys.argv[1]) as ttq:
        os.chmod(ttq.scratch, 0o755)
        recording, script = ttq.place("recording"), ttq.place("script.py")
        with open(script, "w", encoding="ascii") as file:
            file.write(SCRIPT)
        status, _, error = ttq.run("record", "--index=all", "-o", recording, "/usr/bin/python3", "-S", script)
        assert status == 0, error
        os.chmod(recording, 0o755)
        os.chmod(recording + "/db", 0o755)
        for name in os.listdir(recording + "/db"):
            os.chmod(f"{recording}/db/{name}", 0o644)

        def ask(question, most):
            for name in os.listdir(recording):
                if name.startswith("python-frames"):
                    os.remove(f"{recording}/{name}")
            return ttq.run("-t", recording, "-f", "csv", question, user="nobody", group="nogroup",
                           extra_groups=[],
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (most, most)))

        answered = 0
        for question in QUESTIONS:
            plenty = ask(question, 1000)
            assert plenty[0] == 0 and plenty[1].count("\n") > 1, (question, plenty)
            for most in (1, 2, 4, 16):
                status, out, error = ask(question, most)
                if status == 0:
                    assert out == plenty[1], (question, most, out, plenty)
                    answered += 1
                else:
                    assert status == 3 and error.count("\n") == 1, (question, most, status, error)
                    assert "temporarily unavailable" in error, (question, most, error)
        print(f"{answered} questions answered with few threads")

        home = ttq.place("home")
        os.makedirs(home, exist_ok=True)
        os.chmod(home, 0o777)
        for most in (1, 2, 4, 5, 6, 8, 10, 64):
            recording = f"{home}/{most}"
            status, out, error = ttq.run(
                "record", "-o", recording, "/bin/echo", "done", user="nobody", group="nogroup", extra_groups=[],
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (most, most)))
            lines = [line for line in error.splitlines() if "recorded" not in line or "unrecorded" in line]
            assert (status, lines) == (0, []) or status == 125 and len(lines) == 1 and \
                "temporarily unavailable" in lines[0], (most, status, out, error)
            assert out in ("", "done\n") and (status or out), (most, status, out, error)
            if status == 0:  # what a thread of its own would have stored is stored
                checked, out, error = ttq.run("check", recording)
                assert checked == 0, (most, out, error)
                checked, out, error = ttq.run("-t", recording, "-f", "csv", 'events syscall | last 1')
                assert "exit_group" in out, (most, out, error)
        assert answered > 0, "none was answered"


if __name__ == "__main__":
    main()

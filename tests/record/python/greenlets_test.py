#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""greenlets_test.py TTQ: calls, stacks, exceptions and variables of greenlets are what the program printed of them."""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
import asking  # noqa: E402
from interpreters import require_module  # noqa: E402

PYTHON = "/usr/bin/python3"
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "greenlets.py")
TRACED = 25


def stack_of(rows):
    return [f"{row['function']}:{row['line']}" for row in rows]


def main():
    ttq = sys.argv[1]
    require_module(PYTHON, "greenlet", "python3-greenlet")
    with tempfile.TemporaryDirectory() as place:
        directory = os.path.join(place, "greenlets")
        told = subprocess.run([ttq, "record", "-q", "--block-size", "1", "-o", directory, PYTHON, PROGRAM],
                              capture_output=True, text=True, check=True)
        said = [line.split() for line in told.stdout.splitlines()]
        begun = [(int(words[1]), words[2].split(",")) for words in said if words[0] == "begin"]
        ended = {int(words[1]): words[2] for words in said if words[0] == "end"}
        raised = [words[1] for words in said if words[0] == "raise"]
        caught = [words[2] for words in said if words[0] == "caught"]
        questions = ["py calls to work", "py calls to begin", "py calls to run",
                     "py exceptions where type = 'KeyError' and python.function = 'work'",
                     "events output where detail matches /begin/"]
        calls, roots, run, exceptions, outputs = asking.rows(ttq, directory, questions)

        # Each call once, in the order in which they began, with its caller and what came of it.
        assert [row["args"]["number"] for row in calls] == [number for number, _ in begun]
        for row, (number, stack) in zip(calls, begun):
            assert f"{row['caller']['function']}:{row['caller']['line']}" == stack[1], (row, stack)
            assert row["depth"] == len(stack) - 1, (row, stack)
            assert row["ended"] == ("return" if number in ended else "unwind"), row
            assert number not in ended or str(row["result"]) == ended[number], (row, ended[number])
        ends = sorted((row["return_time"], row["args"]["number"]) for row in calls if row["ended"] == "return")
        assert [number for _, number in ends] == list(ended), "the order of returns"
        assert len(roots) == 6 and all(row["depth"] == 0 and row["ended"] == "return" for row in roots), roots
        assert len(run) == 1 and run[0]["ended"] == "return", run
        assert run[0]["return_time"] > max(row["return_time"] for row in roots)

        assert [row["message"] for row in exceptions] == raised
        assert sorted(row["message"] for row in exceptions if row["caught_at"]) == sorted(caught)

        stacks = asking.rows(ttq, directory, [f"py backtrace at {row['time']}" for row in outputs])
        for rows, (_, stack) in zip(stacks, begun):
            assert stack_of(rows)[2:] == stack[1:], (stack_of(rows), stack)

        # Variables and lines are those of the activation that goes on.
        traced = [row for row in calls if row["args"]["number"] in ended][:TRACED]
        locals_ = asking.rows(ttq, directory, [f"py locals at {row['return_time']}" for row in traced])
        for row, variables in zip(traced, locals_):
            values = {v["name"]: v["value"] for v in variables}
            assert values["number"] == str(row["args"]["number"]), (row, values)
            assert values["total"] == ended[row["args"]["number"]], (row, values)
        traces = asking.answers(ttq, directory, [f"py trace of work between {row['time'] - 1} and {row['time'] + 1}"
                                                 for row in traced])
        for row, trace in zip(traced, traces):
            assert f"returned {ended[row['args']['number']]}, at time {row['return_time']}" in trace["note"], trace
    print(f"calls: {len(calls)}, exceptions: {len(exceptions)}")


main()

# SPDX-License-Identifier: MIT
"""Many questions about one recording, asked of one `ttq`.

To start and to open the recording takes longer than most answers do."""

import json
import subprocess


def answers(ttq, recording, questions, *options, timeout=1200):
    """The answer to each question, in their order. AssertionError where one has none."""
    questions = list(questions)
    if not questions:
        return []
    assert not any(c in q for q in questions for c in "\n;"), questions
    run = subprocess.run([ttq, "query", "-t", str(recording), "-f", "json", *options, "-F", "-"], text=True,
                         input="\n".join(questions), capture_output=True, timeout=timeout)
    found = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode != 0 or [a["query"] for a in found] != questions:
        missing = [q for q in questions if q not in {a["query"] for a in found}]
        raise AssertionError(f"exit {run.returncode}, no answer to {missing[:3]}: {run.stderr}")
    return found


def rows(ttq, recording, questions, *options):
    """The rows of each answer."""
    return [answer["rows"] for answer in answers(ttq, recording, questions, *options)]

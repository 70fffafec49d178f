#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""readme_test.py TTQ README: what README.md shows of its crash, on the recording that the demo made.

The lines of `ttq crash` are there as shown, but for numbers and for what only debug symbols of the
interpreter tell; each question has rows and is answered completely, with the addresses of this
machine in the place of the shown ones.
"""

import json
import os
import re
import subprocess
import sys

# "weather.Day at ADDRESS (the word at ADDRESS)"
OBJECT = re.compile(r"weather\.Day at (0x[0-9a-f]+) \(the word at (0x[0-9a-f]+)\)")
# Of the interpreter's own files.
DEBUG_SYMBOLS = re.compile(r"(?:ceval|floatobject|dtoa|object)\.[ch]:\d+")


def shape(line):
    """A line without its numbers."""
    return re.sub(r"\s+", " ", re.sub(r"0x[0-9a-f]+|\d+", "N", line)).strip()


def main():
    ttq, readme = sys.argv[1:]
    home = os.path.join(os.path.dirname(os.path.abspath(ttq)), "examples", "corrupted-object", "recordings")
    environment = {**os.environ, "TTQ_HOME": home}
    environment.pop("TTQ_TRACE", None)

    def run(*arguments):
        return subprocess.run([ttq, *arguments], env=environment, capture_output=True, text=True, timeout=300)

    with open(readme, encoding="utf-8") as file:
        text = file.read()
    crash = run("crash")
    if crash.returncode != 0:
        sys.exit(f"ttq crash: exit {crash.returncode}: {crash.stderr}")
    shown, here = OBJECT.search(text), OBJECT.search(crash.stdout)
    if not shown or not here:
        sys.exit(f"no object at fault: {crash.stdout}")
    wrong = []

    block = re.search(r"^\$ ttq crash\n(.*?)^```$", text, re.M | re.S)[1]
    lines = {shape(line) for line in crash.stdout.splitlines()}
    for line in block.splitlines():
        if not DEBUG_SYMBOLS.search(line) and line.strip() != "…" and shape(line) not in lines:
            wrong.append(f"ttq crash does not say: {line}")

    questions = re.findall(r'^(?:\$|   ) ttq "(.*)"', text, re.M)
    for question in questions:
        for old, new in zip(shown.groups(), here.groups()):
            question = question.replace(old, new)
        asked = run("query", "-f", "json", question)
        if asked.returncode != 0:
            wrong.append(f"{question}: exit {asked.returncode}: {asked.stderr}")
            continue
        answer = json.loads(asked.stdout)
        if not answer["rows"] or not answer["complete"]:
            wrong.append(f"{question}: {len(answer['rows'])} rows, complete: {answer['complete']}, {answer['note']}")
    print(f"{len(questions)} questions")
    print("\n".join(wrong))
    sys.exit(1 if wrong or len(questions) < 8 else 0)


main()

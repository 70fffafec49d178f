#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""demo_test.py TTQ README AGENTS PYTHON: what these three pages show of the crash of README.md, on the recording
that the demo made.

README.md: the lines of `ttq crash` are there as shown, but for numbers and for what only debug symbols of the
interpreter tell; each question has rows and is answered completely. AGENTS: each ```mcp block has calls (`> TOOL
ARGUMENTS`) and lines of their answers, in their order, where `…` stands for anything. PYTHON: each ```python
block runs, one after another. The addresses and times of this machine are in the place of the shown ones.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile

# "weather.Day at ADDRESS (the word at ADDRESS)"
OBJECT = re.compile(r"weather\.Day at (0x[0-9a-f]+) \(the word at (0x[0-9a-f]+)\)")
WRITE = re.compile(r"^ *(\d+) .* in day_add \(weather\.c:40\)", re.M)
# Of the interpreter's own files.
DEBUG_SYMBOLS = re.compile(r"(?:ceval|floatobject|dtoa|object)\.[ch]:\d+")
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "demo_test", "version": "1"}}

TTQ, README, AGENTS, PYTHON = (os.path.abspath(p) for p in sys.argv[1:])
BUILD = os.path.dirname(TTQ)
HOME = os.path.join(BUILD, "examples", "corrupted-object", "recordings")
ENVIRONMENT = {**os.environ, "TTQ_HOME": HOME}
ENVIRONMENT.pop("TTQ_TRACE", None)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def run(*arguments, **options):
    return subprocess.run([TTQ, *arguments], env=ENVIRONMENT, capture_output=True, text=True, timeout=300, **options)


def shape(line):
    """A line without its numbers."""
    return re.sub(r"\s+", " ", re.sub(r"0x[0-9a-f]+|\d+", "N", line)).strip()


class Here:
    """The addresses of the object, the word and the write, shown in README.md and on this machine."""

    def __init__(self, shown, here):
        self.pairs = []
        for pattern in (OBJECT, WRITE):
            old, new = pattern.search(shown), pattern.search(here)
            if not old or not new:
                sys.exit(f"no object at fault: {here}")
            self.pairs += zip(old.groups(), new.groups())

    def put(self, text):
        for old, new in self.pairs:
            text = text.replace(old, new)
        return text


def readme(text, crash, here):
    """What is wrong with the README."""
    block = re.search(r"^\$ ttq crash\n(.*?)^```$", text, re.M | re.S)[1]
    lines = {shape(line) for line in crash.splitlines()}
    wrong = [f"ttq crash does not say: {line}" for line in block.splitlines()
             if not DEBUG_SYMBOLS.search(line) and line.strip() != "…" and shape(line) not in lines]
    questions = re.findall(r'^(?:\$|   ) ttq "(.*)"', text, re.M)
    if len(questions) < 8:
        wrong.append("the README has lost its questions")
    for question in questions:
        asked = run("query", "-f", "json", here.put(question))
        if asked.returncode != 0:
            wrong.append(f"{question}: exit {asked.returncode}: {asked.stderr}")
            continue
        answer = json.loads(asked.stdout)
        if not answer["rows"] or not answer["complete"]:
            wrong.append(f"{question}: {len(answer['rows'])} rows, complete: {answer['complete']}, {answer['note']}")
    return wrong


def agents(text, here):
    """What is wrong with the session of the page for agents."""
    calls = []
    for block in re.findall(r"^```mcp\n(.*?)^```$", text, re.M | re.S):
        for call in re.split(r"^> ", block, flags=re.M)[1:]:
            head, *lines = call.splitlines()
            tool, arguments = head.split(" ", 1)
            calls.append((tool, json.loads(here.put(arguments)), lines))
    if len(calls) < 6:
        return ["the page for agents has lost its session"]
    asked = run("mcp", input="".join(json.dumps(
        {"jsonrpc": "2.0", "id": i, "method": "tools/call",
         "params": {"name": tool, "arguments": arguments, "_meta": META}}) + "\n"
        for i, (tool, arguments, _) in enumerate(calls)))
    answers = {a["id"]: a["result"] for a in map(json.loads, asked.stdout.splitlines())}
    wrong = []
    for i, (tool, arguments, lines) in enumerate(calls):
        answer = "\n".join(part["text"] for part in answers[i]["content"])
        shapes, at = "\n".join(map(shape, answer.splitlines())), 0
        for line in lines:
            if DEBUG_SYMBOLS.search(line):
                continue
            found = re.compile(".*".join(re.escape(shape(part)) for part in line.strip("…").split("…"))).search(shapes, at)
            if not found:
                wrong.append(f"{tool} {arguments}: no line like {line!r} in\n{answer}")
                break
            at = found.end()
    return wrong


def python(text, here):
    """What is wrong with the Python of its page."""
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S))
    if importlib.util.find_spec("pyarrow") is None:  # it is in no package of Debian
        code = re.sub(r"^.*\.arrow\(\).*$", "", code, flags=re.M)
    with tempfile.TemporaryDirectory(prefix="ttq-docs-") as place:
        os.symlink(os.path.join(HOME, "latest"), os.path.join(place, "crash.ttq"))
        ran = subprocess.run(["/usr/bin/python3", "-c", here.put(code)], cwd=place, capture_output=True, text=True,
                             timeout=300, env={**ENVIRONMENT, "PYTHONPATH": os.path.join(BUILD, "python")})
    return [f"{PYTHON}: {ran.stderr}\n{code}"] if ran.returncode != 0 else []


def main():
    crash = run("crash")
    if crash.returncode != 0:
        sys.exit(f"ttq crash: exit {crash.returncode}: {crash.stderr}")
    text = read(README)
    here = Here(text, crash.stdout)
    wrong = readme(text, crash.stdout, here) + agents(read(AGENTS), here) + python(read(PYTHON), here)
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


main()

#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""golden_test.py TTQ RECORD_TEXT PYTHONPATH FILE...: every question of the golden tests, asked from Python (and so through
the C API): the same columns, rows, notes and errors as the command line's JSON has."""

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

TTQ, RECORD_TEXT, PACKAGE = sys.argv[1:4]
sys.path.insert(0, PACKAGE)

import ttq  # noqa: E402

here = os.path.dirname(os.path.abspath(__file__))
loader = importlib.machinery.SourceFileLoader("golden", os.path.join(here, "..", "golden", "golden_test"))
golden = importlib.util.module_from_spec(importlib.util.spec_from_loader("golden", loader))
loader.exec_module(golden)


def as_json(value, type_):
    """A value as the command line's JSON writes it."""
    if isinstance(value, bytes):
        return ("hex:" if type_ == "value" else "") + value.hex()
    if isinstance(value, ttq.Address):
        return hex(value)
    return value


def of_command_line(trace, query):
    run = subprocess.run([TTQ, "query", "-t", trace, "-f", "json", query], capture_output=True, text=True, timeout=120)
    if run.returncode != 0:
        return {"error": run.stderr.rstrip("\n")}
    answer = json.loads(run.stdout)
    return {name: answer[name] for name in ("columns", "rows", "complete")}


def of_python(trace, query):
    try:
        answer = trace.query(query)
        rows = [{c.name: as_json(v, c.type) for c, v in zip(answer.columns, row)} for row in answer]
        return {"columns": [{"name": c.name, "type": c.type} for c in answer.columns], "rows": rows,
                "complete": answer.complete}
    except ttq.Error as e:
        return {"error": f"ttq: {e}"}


def main():
    asked = wrong = 0
    with tempfile.TemporaryDirectory(prefix="ttq-golden-") as scratch:
        for path in sys.argv[4:]:
            trace = directory = None
            for kind, options, text in golden.sections(path):
                if kind in golden.HISTORIES:
                    directory, names = golden.make_history(TTQ, RECORD_TEXT, kind, options, text, scratch)
                    trace = ttq.open(directory)
                elif kind == "query" and not options:
                    asked += 1
                    query = golden.with_values(text.rstrip("\n"), names)
                    expected, got = of_command_line(directory, query), of_python(trace, query)
                    if expected != got:
                        wrong += 1
                        print(f"{os.path.basename(path)}: {query}\n  command line: {expected}\n  Python:       {got}")
    if asked < 40:
        sys.exit(f"only {asked} questions were found")
    print(f"{asked} questions, {wrong} answered differently")
    sys.exit(wrong != 0)


main()

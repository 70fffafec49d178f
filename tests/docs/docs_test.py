# SPDX-License-Identifier: MIT
"""docs_test.py TTQ PROGRAM DOCUMENT: every example of the language manual, asked for real.

Records PROGRAM (examples/tour), examples/python-tour and model.py. Each ```ttq block is asked of the
first, each ```ttq-python block of the second, each ```ttq-history block of the third, whose printed
address takes the place of the manual's. Each must be answered, by the index and by a full scan alike,
and with at least one row; each ```ttq-later block must be refused with the words that the manual
promises.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

ADDRESS = "0x20003302710"
# Right questions whose answer is "none".
EMPTY = {"writes to counter where file is null"}


def ask(ttq, home, query, *options):
    return subprocess.run([ttq, "query", *options, "-"], input=query, capture_output=True, text=True,
                          env={**os.environ, "TTQ_HOME": home}, timeout=120)


def check_answered(ttq, home, query):
    """What is wrong with the answer, or None."""
    run = ask(ttq, home, query, "-f", "json")
    if run.returncode != 0:
        return f"exit {run.returncode}: {run.stderr}"
    answer = json.loads(run.stdout)
    bare = query.split("#")[0].strip()
    if bool(answer["rows"]) == (bare in EMPTY):
        return f"{len(answer['rows'])} rows"
    if not answer["complete"]:
        return f"not complete: {answer['note']}"
    scanned = ask(ttq, home, query, "-f", "json", "--full-scan")
    if scanned.returncode != 0:
        return f"--full-scan: exit {scanned.returncode}: {scanned.stderr}"
    if json.loads(scanned.stdout)["rows"] != answer["rows"]:
        return "--full-scan gives other rows"
    table = ask(ttq, home, query, "-f", "table")
    if table.returncode != 0:
        return f"as a table: exit {table.returncode}: {table.stderr}"
    return None


def check_refused(ttq, home, query):
    run = ask(ttq, home, query)
    if run.returncode != 2 or "not yet available in this version" not in run.stderr:
        return f"exit {run.returncode}, expected 2 and a refusal: {run.stdout}{run.stderr}"
    return None


def main():
    ttq, program, document = sys.argv[1:]
    with open(document, encoding="utf-8") as file:
        blocks = re.findall(r"^```(ttq|ttq-later|ttq-python|ttq-history)\n(.*?)^```$", file.read(),
                            re.M | re.S)
    assert len(blocks) > 50, "the manual has lost its examples"
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="ttq-docs-") as home:
        record = subprocess.run([ttq, "record", program], capture_output=True, text=True,
                                env={**os.environ, "TTQ_HOME": home}, timeout=120)
        if record.returncode != 128 + 11:
            sys.exit(f"record: exit {record.returncode}, expected SIGSEGV: {record.stderr}")
        # The test itself runs in an interpreter; a virtual environment's link is not what is asked.
        python_home, history_home = home + "/python", home + "/history"
        tour = os.path.join(os.path.dirname(document), "../examples/python-tour/tour.py")
        model = os.path.join(os.path.dirname(os.path.abspath(__file__)), "model.py")
        address = None
        for place, script in ((python_home, tour), (history_home, model)):
            record = subprocess.run([ttq, "record", "/usr/bin/python3", script],
                                    capture_output=True, text=True, timeout=300,
                                    env={**os.environ, "TTQ_HOME": place})
            if record.returncode != 128 + 11:
                sys.exit(f"record: exit {record.returncode}, expected SIGSEGV: {record.stderr}")
            address = record.stdout.strip()
        for kind, query in blocks:
            if kind == "ttq-history":
                problem = check_answered(ttq, history_home, query.replace(ADDRESS, address))
            elif kind == "ttq-python":
                problem = check_answered(ttq, python_home, query)
            else:
                problem = (check_answered if kind == "ttq" else check_refused)(ttq, home, query)
            if problem:
                wrong += 1
                print(f"--- {query.strip()}\n{problem}\n")
    print(f"{len(blocks)} examples, {wrong} wrong")
    sys.exit(1 if wrong else 0)


main()

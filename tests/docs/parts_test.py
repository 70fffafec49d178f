# SPDX-License-Identifier: MIT
"""parts_test.py TTQ PROGRAM DOCUMENT: every example of the language manual, asked of parts of a history.

The programs of docs_test.py, recorded by their inputs. What an example gives when all of the history is
indexed is what it must give when a part is (its end, its middle, its beginning), or the answer must not
claim to be complete.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

ADDRESS = "0x20003302710"
HERE = os.path.dirname(os.path.abspath(__file__))
# In hundredths of the run: what is indexed; times and spans that are asked about beside the examples.
PARTS = [(70, None), (35, 65), (None, 40)]
TIMES = [10, 37, 50, 64, 90]
SPANS = [(5, 30), (40, 60), (60, 75), (75, 99)]
AT = ["registers", "backtrace", "maps", "memory {stack} len 512"]
PYTHON_AT = ["py backtrace", "py locals"]
BETWEEN = ["all writes to {stack} len 512", "last write to {stack} len 512", "first read of {stack} len 512",
           "calls to memcpy | first 3", "events"]


def run(*command, check=True, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    if check and done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}: {done.stderr}")
    return done


class Answer:
    """What a query gives: rows, or an error."""

    def __init__(self, ttq, trace, query, *options):
        done = run(ttq, "query", "-t", trace, "-f", "json", *options, "-", input=query, check=False)
        self.error = done.stderr if done.returncode != 0 else None
        self.rows, self.complete = None, False
        if self.error is None:
            answer = json.loads(done.stdout)
            self.rows, self.complete, self.note = answer["rows"], answer["complete"], answer["note"]


def compare(ttq, trace, queries, wanted, part):
    """How many queries a part of the history was enough for; what is wrong, as texts."""
    enough, wrong = 0, []
    for query in queries:
        answer = Answer(ttq, trace, query, "--indexed")
        whole = wanted[query]
        if answer.error is not None:
            if "is indexed; `ttq index` does the rest" not in answer.error and answer.error != whole.error:
                wrong.append(f"{query.strip()} ({part}): {answer.error}")
        elif answer.complete:
            enough += 1
            if answer.rows != whole.rows:
                wrong.append(f"{query.strip()} ({part}):\n  all  {whole.rows}\n  part {answer.rows}")
        elif "indexed" not in (answer.note or "") and whole.complete:
            wrong.append(f"{query.strip()} ({part}): {answer.note}")
    return enough, wrong


def more_queries(ttq, trace, end, is_python):
    """Questions of states and spans all over the run, to which `end` is the end."""
    queries = []
    for hundredths in TIMES:
        time = end * hundredths // 100
        stack = Answer(ttq, trace, f"registers at {time} | select rsp").rows[0]["rsp"]
        queries += [f"{what.format(stack=stack)} at {time}"
                    for what in AT + (PYTHON_AT if is_python else [])]
    for begin, until in SPANS:
        span = f"between {end * begin // 100} and {end * until // 100}"
        stack = Answer(ttq, trace, f"registers at {end * until // 100} | select rsp").rows[0]["rsp"]
        for what in BETWEEN:
            source, *stages = what.format(stack=stack).split(" | ")
            queries.append(" | ".join([f"{source} {span}", *stages]))
    return queries


def main():
    ttq, program, document = sys.argv[1:]
    with open(document, encoding="utf-8") as file:
        blocks = re.findall(r"^```(ttq|ttq-python|ttq-history)\n(.*?)^```$", file.read(), re.M | re.S)
    tour = os.path.join(os.path.dirname(document), "../examples/python-tour/tour.py")
    programs = {"ttq": [program], "ttq-python": ["/usr/bin/python3", tour],
                "ttq-history": ["/usr/bin/python3", os.path.join(HERE, "model.py")]}
    failed = False
    with tempfile.TemporaryDirectory(prefix="ttq-parts-") as home:
        for kind, command in programs.items():
            trace = os.path.join(home, kind)
            # The linker, which tells what it does, makes several blocks of a short program.
            environment = {**os.environ, "LD_DEBUG": "all"} if kind == "ttq" else None
            recorded = run(ttq, "record", "-q", "--index=none", "--block-size=512Ki", "-o", trace, *command,
                           check=False, env=environment)
            if recorded.returncode != 128 + 11:
                sys.exit(f"record: exit {recorded.returncode}, expected SIGSEGV: {recorded.stderr}")
            address = recorded.stdout.strip()
            queries = [query.replace(ADDRESS, address) if kind == "ttq-history" else query
                       for found, query in blocks if found == kind]
            end = Answer(ttq, trace, "registers").rows[0]["time"]
            queries += more_queries(ttq, trace, end, kind != "ttq")
            wanted = {query: Answer(ttq, trace, query) for query in queries}
            for begin, until in PARTS:
                run(ttq, "index", "--drop", trace)
                span = []
                if begin is not None:
                    span += ["--from", str(end * begin // 100)]
                if until is not None:
                    span += ["--to", str(end * until // 100)]
                made = run(ttq, "index", *span, trace).stdout
                if "a part of the history" not in made:
                    sys.exit(f"{kind} {span}: {made}")
                run(ttq, "check", trace)
                enough, wrong = compare(ttq, trace, queries, wanted, " ".join(span))
                print(f"{kind} {' '.join(span)}: {len(queries)} examples, {enough} answered")
                # Without --indexed, what is missing is indexed.
                lacking = next(query for query in queries if Answer(ttq, trace, query, "--indexed").error)
                if Answer(ttq, trace, lacking).rows != wanted[lacking].rows:
                    wrong.append(f"{lacking}: not as when all was indexed at once")
                if run(ttq, "index", trace).stdout != f"{trace} has its history\n":
                    wrong.append(f"{lacking}: not all was indexed for it")
                for what in wrong:
                    failed = True
                    print(f"--- {what}\n")
    sys.exit(1 if failed else 0)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# The entries into and exits from Python functions that a recording holds equal, event for event,
# what sys.setprofile (and from 3.12 on sys.monitoring) says in a second run of the same script.
# Usage: transitions_test.py TTQ DUMP_TRANSITIONS [INTERPRETER...]

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
from interpreters import interpreters  # noqa: E402

HERE = pathlib.Path(__file__).parent
CORPUS = str(HERE / "corpus.py")
ENTERS = ("call", "resume", "throw")


def events_of(interpreter, how):
    run = subprocess.run([interpreter, "-S", CORPUS, how], capture_output=True, text=True)
    if run.returncode != 0:
        return None
    return [line.split() for line in run.stdout.splitlines()]


def recorded(ttq, dump, interpreter, directory):
    recording = f"{directory}/corpus.ttq"
    # Small blocks: what is found must go on from one to the next.
    subprocess.run([ttq, "record", "--index=all", "--block-size", "1", "-o", recording, "--", interpreter, "-S", CORPUS],
                   check=True, capture_output=True)
    # Begun by the recorder, then whole, from its file, made at once, made in steps.
    lists = []
    for forget, how in ((False, []), (False, []), (True, []), (True, ["--steps"])):
        if forget:
            for file in pathlib.Path(recording).glob("python-frames-*"):
                file.unlink()
        run = subprocess.run([dump, *how, recording], check=True, capture_output=True, text=True)
        lists.append(run.stdout)
    if any(other != lists[0] for other in lists):
        sys.exit(f"{interpreter}: the history is another one when it is made or read in another way")
    rows = []
    for line in lists[0].splitlines():
        time, thread, depth, kind, first, at, file, name = line.split(" ", 7)
        if file in (CORPUS, "<string>"):
            rows.append((int(thread), kind, name, int(first), int(at)))
    return rows


def differs(want, got):
    """What is wrong with got, or None."""
    for n, (w, g) in enumerate(zip(want, got)):
        event, name, first, line = w[0], w[1], int(w[2]), int(w[3])
        _, kind, got_name, got_first, got_line = g
        if want.kinds == "profile":
            same = (kind in ENTERS) == (event == "call")
        else:
            same = kind == event
        if name != got_name or first != got_first or not same:
            return f"event {n}: want {w}, got {g}"
        # A call's line is its function's first; the interpreter may say 0 there.
        if kind == "call" and got_line != first:
            return f"event {n}: called at line {got_line}, its first is {first}"
        if kind != "call" and line != got_line and want.kinds == "profile":
            return f"event {n}: want {w}, got line {got_line}"
    if len(want) != len(got):
        return f"{len(want)} events, but {len(got)} were found"
    return None


def as_unwatched(want, got):
    """Since 3.13 close() ends a generator that has nothing to clean up without running it, unless sys.monitoring has
    changed its code, as it has for the oracle (Objects/genobject.c, gen_close)."""
    if any(kind == "throw" and name == "plain" for _, kind, name, _, _ in got):
        return want
    entered = {"profile": "call", "monitor": "throw"}[want.kinds]
    kept = Events()
    kept.kinds = want.kinds
    closing = False
    for event, after in zip(want, want[1:] + [None]):
        if closing:  # and left
            closing = False
        elif event[:2] == [entered, "plain"] and int(event[3]) == int(event[2]) + 1 == int(after[3]):
            closing = True
        else:
            kept.append(event)
    return kept


class Events(list):
    kinds = ""


def main():
    ttq, dump = sys.argv[1:3]
    failed = tried = 0
    for version, interpreter in interpreters(sys.argv[3:]):
        with tempfile.TemporaryDirectory() as directory:
            rows = recorded(ttq, dump, interpreter, directory)
        begin = next(i for i, row in enumerate(rows) if row[1:3] == ("call", "run"))
        end = next(i for i, row in enumerate(rows) if row[1:3] == ("return", "run"))
        got = [row for row in rows[begin:end + 1] if row[0] == 1]
        threads = [row[1:3] for row in rows if row[0] == 2]
        if threads != [("call", "in_thread")] + 3 * [("call", "add"), ("return", "add")] + [
                ("return", "in_thread")]:
            print(f"{interpreter}: the second thread did {threads}")
            failed += 1
        for how in ("profile", "monitor"):
            want = events_of(interpreter, how)
            if want is None:
                if how == "profile":
                    sys.exit(f"{interpreter}: the oracle failed")
                continue
            want = Events(want)
            want.kinds = how
            if version >= (3, 13):
                want = as_unwatched(want, got)
            wrong = differs(want, got)
            tried += 1
            failed += wrong is not None
            print(f"{interpreter} {how}:",
                  wrong or f"{len(got)} events are equal")
    if tried == 0:
        print("skipped: no interpreter was found")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

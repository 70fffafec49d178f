#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""damage_test.py TTQ RECORD_TEXT PROGRAM [--seed N] [--times N] [--keep] [RECORDING...]

Damage done to the files of recordings. What the undamaged recording answers is the truth: after a
damage each answer is the same, or is an error (exit status 3, one line), or says that it is not
complete, and why. Nothing ends by a signal or takes long, and reading changes nothing of the
recording itself.

The recordings are one made of text, one of PROGRAM and one of a Python program; or those given, each
asked what is fit for it. --keep leaves a copy that was answered wrongly."""

import argparse
import collections
import hashlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys

import faults

TIMES = 500
HERE = os.path.dirname(os.path.abspath(__file__))
LONGEST = 180  # seconds, of a busy machine

TEXT_QUESTIONS = """
writes to 0x10000..0x50000
memory 0x40000 len 64 at end
registers at 5
executions of 0x401000
events
maps at end
last read of 0x10000
writes to 0x40000 | last 1
threads
"""
# Of any process; then of PROGRAM's, and of any CPython.
QUESTIONS = """
events | count by kind
events output
events signal
modules
maps at end | select address, end, protection, path
threads
registers at end
backtrace at end all threads
disassemble main | first 5
crash
"""
PROGRAM_QUESTIONS = """
writes to total | last 3
last write to head
last write to head | backtrace
reads of total | first 2
memory total len 16 at end
print *head at 300000
print mean at end
print head->name at (last write to total)
executions of sum | first 3
calls to add | count
calls to add | last 2
calls to malloc where arg0 > 10 | count by function
writes to head | count by function, line
source at crash
origin of $rdi at crash
heap head at end
heap leaks | count
"""
PYTHON_QUESTIONS = """
py backtrace at end
py calls to read
py calls to Day.mean | count by line
py locals at (py calls to read | last 1)
py changes of total | last 2
"""


def fingerprint(directory):
    """Names, times and contents of the store and its seal: to see that reading changes none."""
    seen = []
    for path in [directory + "/seal", *sorted(
            os.path.join(directory, "db", name) for name in os.listdir(directory + "/db"))]:
        if not os.path.exists(path):
            continue
        with open(path, "rb") as file:
            seen.append((path, os.stat(path).st_mtime_ns, hashlib.sha1(file.read()).digest()))
    return seen


def copy(good, to):
    """By links: damage() gives a file that it changes a new place."""
    for folder, _, names in os.walk(good):
        there = os.path.join(to, os.path.relpath(folder, good))
        os.makedirs(there)
        for name in names:
            os.link(os.path.join(folder, name), os.path.join(there, name))


def files_of(directory):
    """Paths below it; those that nobody reads come last."""
    found = [os.path.relpath(os.path.join(folder, name), directory)
             for folder, _, names in os.walk(directory) for name in names]
    unread = ("LOCK", "LOG", "IDENTITY", "OPTIONS")
    return sorted(found, key=lambda path: (os.path.basename(path).startswith(unread), path))


def damage(directory):
    """Does one thing to one file; says what."""
    files = files_of(directory)
    name = random.choice(files if random.random() < 0.1 else
                         [f for f in files if not f.startswith(("db/LO", "db/OPT", "db/ID"))])
    path = os.path.join(directory, name)
    with open(path, "rb") as file:
        data = bytearray(file.read())
    what = random.choice(("delete", "cut", "flip", "flip", "flip", "zero", "swap", "append"))
    if what == "delete":
        os.remove(path)
        return f"{name} deleted"
    if what == "cut":
        at = random.choice((random.randrange(len(data) + 1), max(0, len(data) - random.randrange(99))))
        del data[at:]
        what = f"cut at {at}"
    elif what == "append":
        data += random.randbytes(random.randrange(1, 5000))
    elif what == "swap":
        other = random.choice(files)
        what = f"swapped with {other}"
        with open(os.path.join(directory, other), "rb") as file:
            others = file.read()
        os.remove(os.path.join(directory, other))
        with open(os.path.join(directory, other), "wb") as file:
            file.write(data)
        data = others
    elif data:
        places = []
        for _ in range(random.choice((1, 1, 1, 8, 64))):
            # The end of a file says where everything else is.
            at = len(data) - random.randrange(1, min(len(data), 1500) + 1)
            if random.random() < 0.6:
                at = random.randrange(len(data))
            places.append(at)
            if what == "flip":
                data[at] ^= 1 << random.randrange(8)
            else:
                size = random.choice((1, 4, 64, 4096))
                data[at:at + size] = bytes(len(data[at:at + size]))
        what += f" at {places[:3]}{'…' if len(places) > 3 else ''} of {len(data)}"
    if os.path.lexists(path):
        os.remove(path)
    with open(path, "wb") as file:
        file.write(data)
    return f"{name}: {what}"


class Truth:
    """A recording, its questions, and the answers to them: of one process where one is named."""

    def __init__(self, ttq, good, questions, process=None):
        self.ttq, self.good = ttq, good
        self.process = [] if process is None else ["-p", str(process)]
        self.script = ttq.place(f"questions-{os.path.basename(good)}")
        with open(self.script, "w", encoding="utf-8") as file:
            file.write(questions)
        before = fingerprint(good)
        assert ttq.run("check", good)[0] == 0, good
        self.info = self.ask_info(good)
        self.answers, status, errors = self.ask(good)
        assert fingerprint(good) == before, "reading changed the recording"
        # What has no answer has none: the same question is then no question.
        self.errors = errors
        assert status in (0, 2) and len(self.answers) >= 8, (good, status, errors)
        incomplete = [q for q, a in self.answers.items() if not a["complete"]]
        assert not incomplete, (good, incomplete)

    def ask(self, directory):
        status, out, error = self.ttq.run("query", "-t", directory, "-f", "json", *self.process, "-F",
                                          self.script, timeout=LONGEST)
        answers = {}
        for document in out.splitlines():
            answer = json.loads(document)
            answers[answer["query"]] = answer
        errors = [line for line in error.splitlines() if not line.startswith("ttq: note: ")]
        return answers, status, errors

    def ask_info(self, directory):
        status, out, error = self.ttq.run("info", "-f", "json", directory, timeout=LONGEST)
        assert status in (0, 3), ("info", status, error[-3000:])
        if status == 3:
            assert error.count("\n") == 1 and error.startswith("ttq: "), error
            return None
        info = json.loads(out)
        # What caches add and damage takes away is not told by the recording.
        del info["trace"], info["name"], info["bytes_on_disk"]
        return info

    def compare(self, directory):
        """Whether all answers are there and complete; AssertionError when one is wrong."""
        before = fingerprint(directory)
        answers, status, errors = self.ask(directory)
        assert status in (0, 2, 3), (status, errors[-5:])
        assert all(line.startswith(("ttq: ", "query:", " ", "did you mean ")) for line in errors), errors
        whole = status != 3
        for query, truth in self.answers.items():
            answer = answers.get(query)
            if answer is None:
                assert status == 3 and errors, ("no answer and no error", query, status, errors)
                continue
            if not answer["complete"]:
                assert answer["note"], (query, answer)
                whole = False
                continue
            for part in ("columns", "rows", "truncated", "note"):
                assert answer[part] == truth[part], (
                    "a wrong answer", query, part, str(answer[part])[:1500], str(truth[part])[:1500])
        if whole:
            assert errors == self.errors, ("another error", errors, self.errors)
        info = self.ask_info(directory)
        if info is not None:
            if info != self.info:
                assert not info["finished"] or not all(
                    p["complete"] for p in info["processes"]), ("wrong info", info, self.info)
                whole = False
        else:
            whole = False
        assert fingerprint(directory) == before, "reading changed the recording"
        return whole

    def check(self, directory):
        status, out, error = self.ttq.run("check", directory, timeout=LONGEST)
        assert status in (0, 3), ("check", status, error[-3000:])
        assert all(line.startswith("ttq: ") for line in error.splitlines()), error[-3000:]
        assert status == 0 or error, "check says nothing"
        return status == 0 and "incomplete" not in out


def expect(ttq, words, *prepare):
    """After `prepare` in the recording's directory (a shell script), one line with `words` in it."""
    damaged = ttq.place("damaged")
    subprocess.run(["rm", "-rf", damaged], check=True)
    shutil.copytree(ttq.place("text"), damaged)
    subprocess.run(["sh", "-ec", *prepare], cwd=damaged, check=True)
    for command in (["info", damaged], ["check", damaged], ["-t", damaged, "events"]):
        status, out, error = ttq.run(*command, timeout=LONGEST)
        assert status == 3 and out == "" and error.count("\n") == 1, (prepare, status, out, error)
        assert error.startswith("ttq: ") and words in error, (prepare, error)


def expect_incomplete(ttq, words, *prepare):
    """After it, answers that say that they are incomplete."""
    damaged = ttq.place("damaged")
    subprocess.run(["rm", "-rf", damaged], check=True)
    shutil.copytree(ttq.place("text"), damaged)
    subprocess.run(["sh", "-ec", *prepare], cwd=damaged, check=True)
    answer = ttq.answer(damaged, "events")
    assert not answer["complete"] and words in answer["note"], answer
    status, out, _ = ttq.run("info", "-f", "json", damaged)
    assert status == 0 and not json.loads(out)["processes"][0]["complete"], out


def what_files_may_be(ttq):
    """Errors with words, one line each."""
    good = ttq.place("text")
    expect(ttq, "is missing", "rm db/CURRENT")
    expect(ttq, "holds no store", "rm -r db")
    expect(ttq, "not a directory", "rm -r db; touch db")
    expect(ttq, "symbolic link", "mv db real; ln -s real db")
    expect(ttq, "symbolic link", "f=$(ls db/*.sst | head -1); mv $f ../moved; ln -s ../../moved $f")
    expect(ttq, "not a plain file", "rm db/CURRENT; mkfifo db/CURRENT")
    expect(ttq, "not a recording", "rm db/*; touch db/CURRENT db/MANIFEST-000001; rm db/CURRENT")
    expect(ttq, "MANIFEST", "rm db/MANIFEST-*")
    expect(ttq, "not a plain file", "mkfifo python-frames-1")
    expect(ttq, "symbolic link", "ln -s /etc/passwd python-frames-1.begun")
    expect(ttq, "symbolic link", "mv seal ../sealed; ln -s ../sealed seal")
    expect(ttq, "differs from its seal", "truncate -s -1 db/MANIFEST-*")
    expect(ttq, "seal is damaged", "truncate -s -1 seal")
    expect(ttq, "seal is damaged", ": > seal")
    expect(ttq, "does not belong", "echo x > db/999999.log")
    expect_incomplete(ttq, "seal is missing", "rm seal")
    for place, words in (("/dev/null", "not a directory"), ("/nowhere/at/all", "no recording")):
        status, _, error = ttq.run("info", place)
        assert status == 3 and words in error and error.count("\n") == 1, error
    status, _, error = ttq.run("info", good + "/db")
    assert status == 3 and "holds no store" in error, error
    if os.geteuid() == 0:
        os.chmod(ttq.scratch, 0o711)
        status, _, error = ttq.run("info", good, user="nobody", group="nogroup", extra_groups=[])
        assert status == 3 and "ermission denied" in error and error.count("\n") == 1, error


def record(ttq, name, program, *arguments):
    """A recording of a program that is gone by the time that it is asked about."""
    own = ttq.place(os.path.basename(program))
    shutil.copy(program, own)
    status, _, error = ttq.run("record", "--index=now", "-o", ttq.place(name), "--", own, *arguments, timeout=300)
    assert status == 134 or status == 139, (program, status, error)
    os.remove(own)
    return ttq.place(name)


def recordings(ttq, record_text, program):
    good = ttq.place("text")
    with open(os.path.join(HERE, "history.txt"), encoding="utf-8") as history:
        subprocess.run([record_text, good], stdin=history, check=True)
    yield good, TEXT_QUESTIONS, 2
    yield record(ttq, "program", program), QUESTIONS + PROGRAM_QUESTIONS, 3
    if os.path.exists("/usr/bin/python3"):
        python = record(ttq, "python", os.path.realpath("/usr/bin/python3"), "-S", "-E",
                        os.path.join(HERE, "damaged.py"))
        yield python, QUESTIONS + PYTHON_QUESTIONS, 1
    else:
        print("without Python: there is none")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ttq")
    parser.add_argument("record_text")
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--keep")
    parser.add_argument("recordings", nargs="*")
    options = parser.parse_intermixed_args()
    print("seed", options.seed, flush=True)
    random.seed(options.seed)
    with faults.Ttq(options.ttq) as ttq:
        # Debug information elsewhere is not the recording's.
        ttq.environment["XDG_CACHE_HOME"] = ttq.place("cache")
        truths, weights = [], []
        for good, questions, weight in recordings(ttq, options.record_text, options.program):
            truths.append(Truth(ttq, good, questions))
            weights.append(weight)
        for i, given in enumerate(options.recordings):
            good = ttq.place(f"given-{i}")
            shutil.copytree(given, good)
            info = json.loads(ttq.run("info", "-f", "json", good)[1])
            for process in info["processes"]:
                truths.append(Truth(ttq, good, QUESTIONS, process["process"]))
                weights.append(4 / len(info["processes"]))
        what_files_may_be(ttq)

        seen = collections.Counter()
        damaged = ttq.place("damaged")
        for _ in range(options.times):
            shutil.rmtree(damaged, ignore_errors=True)
            truth = random.choices(truths, weights)[0]
            copy(truth.good, damaged)
            if random.random() < 0.5:  # what questions left there
                for name in os.listdir(damaged):
                    if name not in ("db", "seal"):
                        os.remove(os.path.join(damaged, name))
            what = ", ".join(damage(damaged) for _ in range(random.choice((1, 1, 2))))
            try:
                whole = truth.compare(damaged)
                sound = truth.check(damaged)
                assert whole or not sound, "check finds nothing"
            except AssertionError as wrong:
                print(f"{os.path.basename(truth.good)}, {what}: {wrong}", flush=True)
                seen["wrong"] += 1
                if options.keep:
                    shutil.copytree(damaged, f"{options.keep}-{seen['wrong']}")
                continue
            seen["answered" if whole else "told"] += 1
            seen["found by check"] += not sound
        print(f"{options.times} recordings damaged:",
              ", ".join(f"{count} {what}" for what, count in sorted(seen.items())))
        assert seen["wrong"] == 0, "see above"
        assert seen["told"] > options.times / 4 and seen["found by check"] > options.times / 2, seen
        # ASan keeps memory back; without it, no damage may cost much.
        if b"__asan_init" not in open(ttq.path, "rb").read():
            most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
            assert most < 1 << 20, f"{most} KiB"


if __name__ == "__main__":
    main()

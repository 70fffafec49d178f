#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""damage_test.py TTQ RECORD_TEXT [SEED [TIMES]]: recordings with damage done to their files.

Whatever is damaged, `ttq info`, `ttq check` and a query end soon, in little memory, with 0 (the damage
does not matter to the question) or with 3 and words; and they change nothing themselves."""

import hashlib
import os
import random
import resource
import shutil
import subprocess
import sys

import faults

TIMES = 120
HISTORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "history.txt")
QUESTIONS = ("writes to 0x10000..0x50000", "memory 0x40000 len 64 at end", "registers at 5",
             "executions of 0x401000", "events", "maps at end", "last read of 0x10000")


def fingerprint(directory):
    """Names, times and contents: to see that reading changes none."""
    seen = []
    for folder, folders, names in os.walk(directory):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                seen.append((path, os.stat(path).st_mtime_ns, hashlib.sha1(file.read()).digest()))
        seen.append((folder, os.stat(folder).st_mtime_ns, sorted(names)))
    return seen


def damage(directory):
    """Does one thing to one file; says what."""
    path = os.path.join(directory, "db", random.choice(sorted(os.listdir(directory + "/db"))))
    name = os.path.basename(path)
    with open(path, "rb") as file:
        data = bytearray(file.read())
    what = random.choice(("delete", "truncate", "flip", "flip", "flip", "zero", "swap", "append"))
    if what == "delete":
        os.remove(path)
        return f"{name} deleted"
    if what == "truncate":
        del data[random.randrange(len(data) + 1):]
    elif what == "append":
        data += random.randbytes(random.randrange(1, 5000))
    elif what == "swap":
        other = random.choice(sorted(os.listdir(directory + "/db")))
        with open(os.path.join(directory, "db", other), "rb") as file:
            data = bytearray(file.read())
    elif data:
        for _ in range(random.choice((1, 1, 1, 8, 64))):
            at = random.randrange(len(data))
            if what == "flip":
                data[at] ^= 1 << random.randrange(8)
            else:
                size = random.choice((1, 4, 64))
                data[at:at + size] = bytes(len(data[at:at + size]))
    with open(path, "wb") as file:
        file.write(data)
    return f"{name}: {what}"


def ask(ttq, what, *arguments):
    before = fingerprint(ttq.place("damaged"))
    status, out, error = ttq.run(*arguments, timeout=60)
    assert status in (0, 3), (what, arguments, status, out[-500:], error[-3000:])
    lines = error.splitlines()
    assert all(line.startswith("ttq: ") for line in lines), (what, arguments, error[-3000:])
    assert status == 0 or lines, (what, arguments)
    assert len(lines) <= 1 or arguments[0] == "check", (what, arguments, lines)
    assert fingerprint(ttq.place("damaged")) == before, (what, arguments)
    return status, error


def expect(ttq, words, *prepare):
    """After `prepare` in the recording's directory (a shell script), one line with `words` in it."""
    damaged = ttq.place("damaged")
    subprocess.run(["rm", "-rf", damaged], check=True)
    shutil.copytree(ttq.place("good"), damaged)
    subprocess.run(["sh", "-ec", *prepare], cwd=damaged, check=True)
    for command in (["info", damaged], ["check", damaged], ["-t", damaged, "events"]):
        status, out, error = ttq.run(*command, timeout=60)
        assert status == 3 and out == "" and error.count("\n") == 1, (prepare, status, out, error)
        assert error.startswith("ttq: ") and words in error, (prepare, error)


def main():
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
    times = int(sys.argv[4]) if len(sys.argv) > 4 else TIMES
    print("seed", seed)
    random.seed(seed)
    with faults.Ttq(sys.argv[1]) as ttq:
        good, damaged = ttq.place("good"), ttq.place("damaged")
        with open(HISTORY, encoding="utf-8") as history:
            subprocess.run([sys.argv[2], good], stdin=history, check=True)
        before = fingerprint(good)
        assert ttq.run("check", good)[0] == 0
        for question in QUESTIONS:
            assert ttq.run("-t", good, question)[0] == 0, question
        assert fingerprint(good) == before, "reading changed the recording"

        found = 0
        for _ in range(times):
            shutil.copytree(good, damaged)
            what = ", ".join(damage(damaged) for _ in range(random.choice((1, 1, 2))))
            opened, _ = ask(ttq, what, "info", damaged)
            checked, _ = ask(ttq, what, "check", damaged)
            asked, _ = ask(ttq, what, "-t", damaged, random.choice(QUESTIONS))
            assert checked == 3 or (opened, asked) == (0, 0), what
            found += checked == 3
            shutil.rmtree(damaged)
        print(f"{times} recordings damaged, check found {found}")
        assert found > times / 3

        expect(ttq, "is missing", "rm db/CURRENT")
        expect(ttq, "holds no store", "rm -r db")
        expect(ttq, "not a directory", "rm -r db; touch db")
        expect(ttq, "symbolic link", "mv db real; ln -s real db")
        expect(ttq, "symbolic link", "f=$(ls db/*.sst | head -1); mv $f ../moved; "
                                     "ln -s ../../moved $f")
        expect(ttq, "not a plain file", "rm db/CURRENT; mkfifo db/CURRENT")
        expect(ttq, "not a recording", "rm db/*; touch db/CURRENT db/MANIFEST-000001; rm db/CURRENT")
        expect(ttq, "MANIFEST", "rm db/MANIFEST-*")
        for place, words in (("/dev/null", "not a directory"), ("/nowhere/at/all", "no recording")):
            status, _, error = ttq.run("info", place)
            assert status == 3 and words in error and error.count("\n") == 1, error
        status, _, error = ttq.run("info", good + "/db")
        assert status == 3 and "holds no store" in error, error
        if os.geteuid() == 0:
            os.chmod(ttq.scratch, 0o711)
            status, _, error = ttq.run("info", good, user="nobody", group="nogroup", extra_groups=[])
            assert status == 3 and "ermission denied" in error and error.count("\n") == 1, error
        # ASan keeps memory back; without it, no damage may cost much.
        if b"__asan_init" not in open(ttq.path, "rb").read():
            most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
            assert most < 512 << 10, f"{most} KiB"


if __name__ == "__main__":
    main()

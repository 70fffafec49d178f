#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""code_cache_test.py TTQ: translations kept from one recording to the next. Whatever the file of them holds, a program
does what it does by itself, and its history can be made; and the file is used where it fits."""

import glob
import os
import random
import subprocess
import sys

import faults

# Some ten thousand superblocks, and a library whose code is another one at the same addresses.
PROGRAM = """
import ctypes, json, re, sys
library = ctypes.CDLL(sys.argv[1])
print(library.answer(), json.loads(json.dumps({"a": [1, 2.5]})), re.sub("b+", "x", "abbc"))
"""


def kept(cache):
    return glob.glob(cache + "/ttq/code-*")


def main():
    with faults.Ttq(sys.argv[1]) as ttq:
        cache = ttq.environment["XDG_CACHE_HOME"] = ttq.place("cache")
        library = ttq.place("answer.so")

        def compile_library(number):
            source = ttq.place("answer.c")
            with open(source, "w", encoding="ascii") as file:
                file.write(f"int answer(void) {{ return {number}; }}\n")
            subprocess.run(["gcc", "-g", "-shared", "-fPIC", "-o", library, source], check=True)

        command = ["/usr/bin/python3", "-S", "-c", PROGRAM, library]
        recordings = 0

        def record():
            """Records it, compares what it prints, and makes its history, which compares each block."""
            nonlocal recordings
            recordings += 1
            directory = ttq.place(f"recording-{recordings}")
            by_itself = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            status, out, error = ttq.run("record", "-q", "-o", directory, *command)
            assert (status, out, error) == (0, by_itself, ""), (status, out, error)
            ttq.index(directory)
            rows = ttq.answer(directory, "calls to answer | select result")["rows"]
            assert [row["result"] for row in rows] == [int(by_itself.split()[0])], rows
            subprocess.run(["rm", "-rf", directory], check=True)

        compile_library(41)
        record()
        [file] = kept(cache)
        with open(file, "rb") as opened:
            whole = opened.read()
        written = os.stat(file).st_mtime_ns

        # It is used: nothing new is left to write. Where it may not be used, it is written anew.
        record()
        assert os.stat(file).st_mtime_ns == written
        os.chmod(file, 0o666)
        record()
        assert os.stat(file).st_mtime_ns != written and os.stat(file).st_mode & 0o777 == 0o600

        # What was not used for longest goes, where all take too much room.
        old = os.path.dirname(file) + "/code-0123456789abcdef"
        with open(old, "wb") as opened:
            opened.truncate(600 << 20)
        os.utime(old, (1e9, 1e9))
        record()
        assert kept(cache) == [file], kept(cache)

        # Other code at the same place.
        compile_library(42)
        record()

        seed = random.randrange(1 << 32)
        print("seed", seed)
        rng = random.Random(seed)

        def put(content):
            with open(file, "wb") as opened:
                opened.write(content)
            os.chmod(file, 0o600)

        for _ in range(4):
            damaged = bytearray(whole)
            for _ in range(rng.choice((1, 1000, 20000))):
                damaged[rng.randrange(4096, len(damaged))] ^= 1 << rng.randrange(8)
            put(damaged)
            record()
        for content in (whole[:rng.randrange(len(whole))], whole[:4096], b"", whole + b"more",
                        b"TTQCODE2" + bytes(8184)):
            put(content)
            record()
        os.remove(file)
        os.mkdir(file)
        record()
        os.rmdir(file)
        os.symlink("/dev/zero", file)
        record()

        # Several at once write it.
        os.remove(file)
        started = [ttq.start("record", "-q", "-o", ttq.place(f"at-once-{n}"), *command) for n in range(4)]
        for process in started:
            out, error = process.communicate(timeout=60)
            assert process.returncode == 0 and out.startswith("42 ") and error == "", (out, error)
        assert kept(cache) == [file], kept(cache)
        record()

        # Limits that the program sets itself, on the size of files and on memory, do not end it.
        os.remove(file)
        for name, limit in (("FSIZE", "1000"), ("AS", "4096 * int(open('/proc/self/statm').read().split()[0])")):
            limited = ttq.place("limited-" + name)
            program = f"{PROGRAM}\nimport resource\nresource.setrlimit(resource.RLIMIT_{name}, ({limit}, -1))\n"
            status, out, error = ttq.run("record", "-q", "-o", limited, *command[:3], program, library)
            assert (status, out.split()[0], error) == (0, "42", ""), (status, out, error)
            ttq.index(limited)
            assert not kept(cache), kept(cache)


if __name__ == "__main__":
    main()

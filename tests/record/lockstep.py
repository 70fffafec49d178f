# SPDX-License-Identifier: MIT
"""The recording of a program has the instructions that a processor executes: the same, in the same
order, the same number of times.

Programs of lockstep/ are built by gcc and clang at -O0 to -O3, recorded, and executed natively one
instruction at a time from main to their end; so is the start of CPython. See lockstep.cc.

    lockstep.py [--engine valgrind|native] [--all] [--keep DIRECTORY] TTQ LOCKSTEP [NAME...]

Without --all each program is built in a few of the ways, all of which have their turn.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent

# What the C library would choose by the processor: Valgrind shows another one. Without AVX-512,
# which it does not know, and with the thresholds of no processor in particular.
OFF = ("AVX512F AVX512VL AVX512BW AVX512DQ AVX512CD AVX512ER AVX512PF FSRM RTM MOVBE BMI1 LZCNT FMA4 "
       "Slow_BSF Slow_SSE4_2 Fast_Rep_String Fast_Copy_Backward Fast_Unaligned_Load "
       "Fast_Unaligned_Copy Prefer_PMINUB_for_stringop Prefer_No_VZEROUPPER Prefer_ERMS Prefer_FSRM "
       "Avoid_Short_Distance_REP_MOVSB")
TUNABLES = ":".join(
    ["glibc.cpu.hwcaps=" + ",".join("-" + name for name in OFF.split())] +
    [f"glibc.cpu.{name}={value}" for name, value in [
        ("x86_rep_movsb_threshold", 2112), ("x86_rep_stosb_threshold", 2048),
        ("x86_non_temporal_threshold", 786432), ("x86_data_cache_size", 32768),
        ("x86_shared_cache_size", 1048576)]])
ENVIRONMENT = {"GLIBC_TUNABLES": TUNABLES, "LD_BIND_NOW": "1", "LC_ALL": "C", "PATH": "/usr/bin:/bin",
               "PYTHONHASHSEED": "0", "PYTHONMALLOC": "malloc"}

# No tunable undoes what glibc chooses for a processor with short repeated moves that are fast (FSRM):
# it looks at the distance of the two ends before them. There, no copy gets so far.
with open("/proc/cpuinfo", encoding="ascii", errors="replace") as cpuinfo:
    if " fsrm" in cpuinfo.read():
        ENVIRONMENT["GLIBC_TUNABLES"] = TUNABLES.replace("x86_rep_movsb_threshold=2112",
                                                         "x86_rep_movsb_threshold=1073741824")

LEVELS = ["-O0", "-O1", "-O2", "-O3"]
COMPILERS = [("gcc", "g++"), ("clang", "clang++")]
# Of CPython, from the start of its main function on. Its own allocator would go by addresses.
PYTHON, PYTHON_MAIN = "/usr/bin/python3", "Py_BytesMain"


def run(command, **options):
    options = {"stdout": subprocess.PIPE, **options}
    return subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, timeout=600, **options)


def ways():
    """[(name, C compiler, C++ compiler, level)]"""
    return [(cc + level, cc, cxx, level) for level in LEVELS for cc, cxx in COMPILERS
            if shutil.which(cc) and shutil.which(cxx)]


def builds(all_of_them):
    """[(name, source, way, linking)]. Exceptions look for their code among the libraries in the order in
    which they lie in memory: programs in C++ have few."""
    sources = sorted((HERE / "lockstep").iterdir())
    for n, source in enumerate(sources):
        for k, way in enumerate(ways()):
            every = 4 if source.stem in ("conditions", "machine") else 8
            if all_of_them or k % every == 3 * n % every:
                yield f"{source.stem}.{way[0]}", source, way, (
                    ["-static"] if source.suffix == ".c" else ["-static-libgcc", "-static-libstdc++"])
    for source in sources:
        if source.suffix == ".c" and (all_of_them or source.stem == "formats"):
            yield f"{source.stem}.shared", source, ways()[0], ["-no-pie"]


def is_fixed(program):
    """A program that lies at the same addresses natively and recorded: CPython hashes those of its types."""
    with contextlib.suppress(OSError), open(program, "rb") as f:
        return f.read(18)[16:] == b"\x02\0"  # ET_EXEC
    return False


def symbol(program, name):
    for line in run(["nm", "--defined-only", program]).stdout.splitlines() + \
            run(["nm", "-D", "--defined-only", program]).stdout.splitlines():
        words = line.split()
        if len(words) == 3 and words[2] == name:
            return words[0]
    raise AssertionError(f"{program} has no {name}")


class Lockstep:
    def __init__(self, ttq, lockstep, engine, work):
        self.ttq, self.lockstep, self.engine, self.work = ttq, lockstep, engine, work

    def environment(self):
        """The native engine also hides that repeated string instructions are fast."""
        tunables = ENVIRONMENT["GLIBC_TUNABLES"]
        if self.engine == "native":
            tunables = tunables.replace("hwcaps=", "hwcaps=-ERMS,")
        return {**ENVIRONMENT, "GLIBC_TUNABLES": tunables}

    def compare(self, command, start, *limits):
        """What lockstep says of a program, and whether all is equal."""
        place = self.work / "recording"
        shutil.rmtree(place, ignore_errors=True)
        recorded = run([self.ttq, "record", "-q", f"--engine={self.engine}", "--index=all", "-o", place, "--",
                         *command], env=self.environment(),
                       stdout=subprocess.DEVNULL)
        if recorded.returncode != 0 or recorded.stderr:
            return f"recording: status {recorded.returncode} {recorded.stderr}", False
        done = run([self.lockstep, place, "--from", symbol(command[0], start), *limits])
        return (done.stdout + done.stderr).strip(), done.returncode == 0

    def program(self, name, source, way, linking):
        _, cc, cxx, level = way
        program = self.work / name
        built = run([cxx if source.suffix == ".cc" else cc, level, "-g1", "-w", "-no-pie", *linking,
                     "-std=c++17" if source.suffix == ".cc" else "-std=gnu11", source, "-o", program,
                     "-lm"])
        if built.returncode != 0:
            return built.stderr, False
        return self.compare([program], "main")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ttq", type=pathlib.Path)
    parser.add_argument("lockstep", type=pathlib.Path)
    parser.add_argument("--engine", default="native")
    parser.add_argument("--all", action="store_true", help="every program in every way")
    parser.add_argument("--keep", type=pathlib.Path, help="work here and leave everything")
    parser.add_argument("names", nargs="*", help="only programs whose names begin so")
    options = parser.parse_args()
    failed = count = 0
    with tempfile.TemporaryDirectory(prefix="ttq-lockstep-") as scratch:
        work = options.keep.resolve() if options.keep else pathlib.Path(scratch)
        work.mkdir(exist_ok=True)
        bench = Lockstep(options.ttq.resolve(), options.lockstep.resolve(), options.engine,
                         work)
        tests = [(name, lambda b=(name, *rest): bench.program(*b))
                 for name, *rest in builds(options.all)]
        if not is_fixed(PYTHON):
            print(f"python: skipped: {PYTHON} is not there, or goes where memory has room")
        else:
            limit = 1000000 if options.all else 100000
            tests.append(("python", lambda: bench.compare(
                [os.path.realpath(PYTHON), "-S", "-c", "pass"], PYTHON_MAIN, "--count", limit)))
        for name, test in tests:
            if options.names and not name.startswith(tuple(options.names)):
                continue
            begin = time.monotonic()
            said, equal = test()
            failed += not equal
            count += 1
            print(f"{name:24} {time.monotonic() - begin:5.1f} s  {'' if equal else 'FAILED '}{said}",
                  flush=True)
    print(f"{count} programs, {failed} not equal")
    sys.exit(1 if failed or not count else 0)


main()

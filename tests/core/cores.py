# SPDX-License-Identifier: MIT
"""What the tests of this folder share: processes, core dumps of them, questions."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

TTQ, BUILD = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
HERE = os.path.dirname(os.path.abspath(__file__))
ENVIRONMENT = dict(os.environ, LC_ALL="C", PYTHONDONTWRITEBYTECODE="1")
SKIPPED = 77


class Failures:
    count = 0


def check(condition, what):
    if not condition:
        Failures.count += 1
        print("FAILED:", what, flush=True)
    return condition


def finish():
    print(f"{Failures.count} failures")
    sys.exit(1 if Failures.count else 0)


def program(name):
    return os.path.join(BUILD, name)


def start(command, scratch, until="ready", **more):
    """Runs a program until it has printed a line that begins with `until`; that line is `.said`."""
    p = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=scratch, env=ENVIRONMENT,
                         **more)
    p.said = ""
    while not p.said.startswith(until):
        p.said = p.stdout.readline()
        if p.said == "":
            raise SystemExit(f"{command} ended early")
    time.sleep(0.2)
    return p


def end(process):
    process.kill()
    process.wait()


def gcore(pid, path):
    """A core dump by gdb; "" where gdb may not."""
    p = subprocess.run(["gdb", "-nx", "-batch", "-p", str(pid), "-ex",
                        f"generate-core-file {path}"], capture_output=True, text=True, timeout=120)
    if not os.path.exists(path):
        print("no core dump by gdb:", p.stderr.strip()[-200:])
        return ""
    return path


def kernel_core(command, scratch, coredump_filter="0x33"):
    """The kernel's core dump of a program that crashes; "" where it writes none to a file here."""
    for old in os.listdir(scratch):
        if old == "core" or old.startswith("core."):
            os.unlink(os.path.join(scratch, old))
    subprocess.run(["sh", "-c", 'echo "$0" > /proc/self/coredump_filter; ulimit -c unlimited; "$@"',
                    coredump_filter, *command], cwd=scratch, env=ENVIRONMENT, capture_output=True)
    for name in os.listdir(scratch):
        if name == "core" or name.startswith("core."):
            kept = os.path.join(scratch, f"kernel-{coredump_filter}-{len(os.listdir(scratch))}")
            os.rename(os.path.join(scratch, name), kept)
            return kept
    return ""


def run(*words, status=0, **more):
    p = subprocess.run([TTQ, *words], capture_output=True, text=True, env=ENVIRONMENT, timeout=240,
                       **more)
    if status is not None and p.returncode != status:
        check(False, f"{' '.join(words)}: status {p.returncode}, not {status}: {p.stderr.strip()}")
    return p


def imported(core, directory, *options):
    shutil.rmtree(directory, ignore_errors=True)
    run("import", core, "-o", directory, *options)
    return directory


def ask(trace, query):
    p = run("query", "-t", trace, "-f", "json", "--limit", "0", query)
    return json.loads(p.stdout) if p.returncode == 0 else {"rows": [], "complete": False}


def rows(trace, query):
    return ask(trace, query)["rows"]


def gdb(exe, core, *commands):
    words = ["gdb", "-nx", "-batch", "-ex", "set print frame-arguments none"]
    for command in commands:
        words += ["-ex", command]
    p = subprocess.run([*words, exe, core], capture_output=True, text=True, timeout=120,
                       env=ENVIRONMENT)
    return p.stdout

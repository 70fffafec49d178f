# SPDX-License-Identifier: MIT
"""What gdb shows of a recording, against what ttq's own answers say and what the programs print:
registers, memory and stacks at random times, threads, libraries, thread-local variables, Python's
frames; what it may not do; a program that is no longer there; editors that drive gdb/MI.

    state_test.py TTQ PROGRAMS [TIMES]      TIMES: how many random times to look at (default: 40)
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from gdb_client import Server  # noqa: E402

TTQ, PROGRAMS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
TIMES = int(sys.argv[3]) if len(sys.argv) > 3 else 40
HERE = os.path.dirname(os.path.abspath(__file__))
DOCS = os.path.join(HERE, "../../docs/gdb.md")
ENVIRONMENT = dict(os.environ, LC_ALL="C", PYTHONHASHSEED="0")
# Where a process begins; the linker goes on at the second when it is done.
OUTERMOST = ("_start", "_dl_start_user")
failures = 0


def check(name, fine, detail=""):
    global failures
    if fine:
        print("ok", name)
    else:
        failures += 1
        print("FAILED", name, str(detail)[-3000:])


def record(scratch, name, *command):
    path = os.path.join(scratch, name + ".ttq")
    subprocess.run([TTQ, "record", "-q", "-o", path, "--", *command], env=ENVIRONMENT,
                   capture_output=True)
    return path


def in_gdb(recording, *commands, **environment):
    words = [TTQ, "gdb", recording, "--", "-nx", "-batch"]
    for command in commands:
        words += ["-ex", command]
    p = subprocess.run(words, capture_output=True, text=True, timeout=300,
                       stdin=subprocess.DEVNULL, env=dict(ENVIRONMENT, **environment))
    return p.stdout + p.stderr


def ask(recording, queries):
    p = subprocess.run([TTQ, "query", "-t", recording, "-f", "json", "--limit", "0", "-"],
                       input="\n".join(queries), capture_output=True, text=True, timeout=300)
    decoder, answers, text = json.JSONDecoder(), [], p.stdout.lstrip()
    while text:
        answer, end = decoder.raw_decode(text)
        answers.append(answer["rows"])
        text = text[end:].lstrip()
    if len(answers) != len(queries):
        raise SystemExit(f"{len(answers)} answers of {len(queries)}: {p.stderr}")
    return answers


def random_times(recording, end, count, scratch, name):
    choose = random.Random(23)
    times = sorted(choose.sample(range(end), count), key=lambda t: choose.random())
    out = os.path.join(scratch, "seen")
    text = in_gdb(recording, "source " + os.path.join(HERE, "at_times.py"), OUT=out,
                  TIMES=" ".join(map(str, times)))
    if not os.path.exists(out):
        check(name, False, text)
        return
    seen = json.load(open(out))
    queries = []
    for time in times:
        rsp = seen[str(time)]["registers"]["rsp"]
        queries += [f"registers at {time}", f"memory {rsp:#x} len 64 at {time}",
                    f"backtrace at {time}"]
    answers = ask(recording, queries)
    wrong, same_stacks = [], 0
    for i, time in enumerate(times):
        registers, memory, stack = answers[3 * i:3 * i + 3]
        mine = seen[str(time)]
        theirs = {n: int(registers[0][n], 16) for n in mine["registers"]}
        if theirs != mine["registers"]:
            wrong.append((time, "registers", mine["registers"], theirs))
        text = "".join(row["bytes"] or "" for row in memory)
        if mine["memory"] is not None and text != mine["memory"]:
            wrong.append((time, "memory", mine["memory"], text))
        # gdb counts inlined functions as frames of the same pc, as ttq does; neither goes past main.
        pcs = [int(frame["pc"], 16) for frame in stack if frame.get("kind") != "tail"]
        # gdb does not know that nothing called a program's or the linker's first instructions.
        first = [i for i, (_, name) in enumerate(mine["frames"]) if name in OUTERMOST]
        ends = first[0] + 1 if first else len(pcs) if stack and stack[-1]["function"] in OUTERMOST else 50
        if pcs[:50] == [pc for pc, _ in mine["frames"][:ends]]:
            same_stacks += 1
        else:
            print("  stacks differ at", time, [hex(p) for p in pcs][:8], mine["frames"][:8])
    check(f"{name}: {count} random times", not wrong, wrong[:3])
    check(f"{name}: stacks ({same_stacks} of {count} alike)", same_stacks >= count * 0.95)


def threads(scratch):
    recording = record(scratch, "threads", os.path.join(PROGRAMS, "threads"))
    out = in_gdb(recording, "bt", "info threads", "info sharedlibrary", "up", "print counter",
                 "print first", "print mine", "x/2gx &first", "info registers rip eflags",
                 "print $_siginfo.si_signo", "print $_siginfo._sifields._sigfault.si_addr",
                 "info proc mappings", "find &buffer, +300, 'x', 'x', 'x'")
    check("crash: stops at SIGSEGV", "crash (node=" in out, out)
    check("crash: stack", re.search(r"#0 .*crash.*\n#1 .*main", out), out)
    check("crash: libraries", "libc.so.6" in out, out)
    check("crash: variables", "= 150" in out and "next = 0x0" in out, out)
    check("crash: thread-local variable", re.search(r"^\$3 = 5$", out, re.M), out)
    check("crash: registers that are unknown", re.search(r"eflags +<unavailable>", out), out)
    check("crash: siginfo", re.search(r"^\$4 = 11$", out, re.M) and "(void *) 0x8" in out, out)
    check("crash: mappings", re.search(r"0x[0-9a-f]+ +0x[0-9a-f]+ .*/threads$", out, re.M), out)
    check("crash: find", "<buffer>" in out, out)

    out = in_gdb(recording, "print first.value = 3", "print crash(&first)", "print $rax = 1",
                 "set var counter = 1", "print counter")
    check("refused: memory", out.count("Writing to memory is not allowed") >= 2, out)
    check("refused: calls", "may-call-functions is off" in out, out)
    check("refused: registers", "Writing to registers is not allowed" in out, out)
    check("refused: nothing changed", "$1 = 150" in out or "= 150" in out, out)

    out = in_gdb(recording, "watch buffer", "reverse-continue", "bt 3", "reverse-continue")
    check("watch of 300 bytes", "memset" in out, out)
    out = in_gdb(recording, "break work if argument == 2", "reverse-continue", "info threads",
                 "print mine", "finish", "print counter", "print *(int *)$1")
    check("condition, in another thread", "argument=0x2" in out, out)
    check("threads come and go", re.search(r"\* [0-9]+ .*work", out), out)
    out = in_gdb(recording, "ttq seek (last write to counter)", "monitor when",
                 "ttq print counter at $now", "ttq seek start", "info threads", "ttq seek 99999999",
                 "ttq prnt counter", "ttq seek crash", "bt 1", "monitor help")
    check("seek", "past the end of the recording" in out and "ld-linux" in out, out)
    check("seek back", re.search(r"crash \(node=", out), out)
    check("questions", re.search(r"14[89]", out), out)
    check("questions: errors", "^" in out or "did you mean" in out, out)
    end = ask(recording, ["registers at end"])[0][0]["time"]
    random_times(recording, end, TIMES, scratch, "threads")


def stripped(scratch):
    """A program without symbols that does not crash: gdb is at its first instruction, without its libraries."""
    recording = record(scratch, "ls", shutil.which("ls"), "/")
    end = ask(recording, ["registers at end"])[0][0]["time"]
    out = in_gdb(recording, f"ttq seek {end - 1000}", "info sharedlibrary", "ttq seek start", "info sharedlibrary")
    later, _, first = out.rpartition("From  ")
    check("libraries after a seek", "libc.so.6" in later and "libc.so.6" not in first, out)
    random_times(recording, end, TIMES, scratch, "ls")


def gone(scratch):
    program = os.path.join(scratch, "gone")
    shutil.copy(os.path.join(PROGRAMS, "threads"), program)
    recording = record(scratch, "gone", program)
    os.remove(program)
    out = in_gdb(recording, "bt", "print counter")
    check("a program that is no longer there", "main ()" in out and "= 150" in out, out)


def python(scratch):
    script = os.path.join(scratch, "nested.py")
    with open(script, "w") as f:
        f.write("import os\ndef inner(n):\n    os.getppid()\n    return n\n"
                "def outer(n):\n    return inner(n + 1)\nouter(41)\n")
    recording = record(scratch, "python", "/usr/bin/python3", "-S", "-E", script)
    out = in_gdb(recording, "break getppid", "ttq seek start", "continue", "py-bt", "py-up",
                 "py-print n")
    if "Undefined command: \"py-bt\"" in out:
        print("SKIPPED py-bt: no libpython.py for this Python (python3-dbg)")
        return
    check("py-bt", re.search(r"nested.py\", line 3, in inner[\s\S]*line 6, in outer", out), out)
    check("py-print", "local 'n' = 42" in out, out)


def editors(scratch):
    """The launch.json of docs/gdb.md: what VS Code does with it, over gdb/MI."""
    recording = os.path.join(scratch, "threads.ttq")
    text = re.search(r"```json\n(.*?)```", open(DOCS).read(), re.S)
    launch = json.loads(text.group(1))["configurations"][0]
    check("launch.json", launch["type"] == "cppdbg" and launch["MIMode"] == "gdb", launch)
    server = Server(TTQ, recording)
    try:
        check("launch.json's address", re.fullmatch(r"(127\.0\.0\.1|localhost):\d+",
                                                    launch["miDebuggerServerAddress"]), launch)
        commands = [f'-interpreter-exec console "{c["text"]}"' for c in launch["setupCommands"]]
        commands += ["-gdb-set mi-async on", f"-target-select remote 127.0.0.1:{server.port}",
                     "-stack-list-frames", "-break-insert -f work", "-exec-continue --reverse"]
        mi = subprocess.Popen([shutil.which(launch["miDebuggerPath"]) or "gdb", "-nx", "-q",
                               "--interpreter=mi"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True)
        out, stops = "", 0
        for command in commands:
            mi.stdin.write(command + "\n")
            mi.stdin.flush()
            runs = command.startswith("-exec")
            while True:
                line = mi.stdout.readline()
                out += line
                if line == "" or line.startswith("*stopped" if runs else ("^done", "^connected",
                                                                          "^error")):
                    break
        mi.stdin.write("-thread-info\n-stack-list-variables --all-values\n-gdb-exit\n")
        mi.stdin.close()
        out += mi.stdout.read()
        mi.wait(timeout=60)
        check("MI: connects", "^connected" in out or "*stopped" in out, out)
        check("MI: stack at the crash", 'func="crash"' in out and 'func="main"' in out, out)
        check("MI: backwards to a breakpoint", 'reason="breakpoint-hit"' in out and
              'func="work"' in out, out)
        check("MI: variables", 'name="argument"' in out, out)
        check("MI: no errors", "^error" not in out, out)
    finally:
        server.end()


def main():
    if shutil.which("gdb") is None:
        print("SKIPPED: gdb is not installed")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        threads(scratch)
        stripped(scratch)
        gone(scratch)
        python(scratch)
        editors(scratch)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: MIT
"""Drives gdb on recordings through `ttq gdb`, and on the same programs with gdb's own `record full`:
after every command both must be at the same instruction and have printed the same values. What
`record full` cannot follow has its expected places here.

    reverse_test.py TTQ PROGRAMS
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile

TTQ, PROGRAMS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
HERE = os.path.dirname(os.path.abspath(__file__))
ENVIRONMENT = dict(os.environ, LC_ALL="C", LD_BIND_NOW="1")
PLACES = os.path.join(HERE, "places.py")
failures = 0


def fail(text):
    global failures
    failures += 1
    print("FAILED", text)


KEPT = ("Old value", "New value", "Value returned", "Value = ", "$", "No more reverse", "error: ",
        "Program received signal", "Thread ", "Process record")


def walk(command, commands, scratch, everything=False):
    """[command, place, what it printed] for each, as far as gdb got."""
    script = os.path.join(scratch, "commands")
    with open(script, "w") as f:
        f.write("\n".join(commands) + "\n")
    p = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
                       env=dict(ENVIRONMENT, COMMANDS=script))
    done, printed = [], []
    for line in p.stdout.split("\n"):
        if line.startswith("@@@ "):
            _, command, place = line.split("@@@ ")
            done.append([command.strip(), place, "\n".join(printed)])
            printed = []
        elif everything or line.startswith(KEPT):
            printed.append(line)
    if not done:
        raise SystemExit("gdb did nothing: " + p.stdout + p.stderr)
    return done


def native(program, commands, scratch):
    # All of it is recorded before it is looked at: the log's end is none of the history.
    with open(os.path.join(HERE, f"programs/{program}.c")) as f:
        last = max(n for n, line in enumerate(f, 1) if line.startswith("  return"))
    start = ["break main", "run", "record full", f"break {program}.c:{last}", "continue",
             "record goto begin", "delete",
             # Its replay does not look at debug registers on every machine.
             "set can-use-hw-watchpoints 0"]
    return walk(["gdb", "-nx", "-batch", "-x", PLACES, os.path.join(PROGRAMS, program)],
                start + commands, scratch)[len(start):]


def on_recording(recording, commands, scratch, start=("break main", "continue", "delete"), everything=False):
    return walk([TTQ, "gdb", recording, "--", "-nx", "-batch", "-x", PLACES],
                list(start) + commands, scratch, everything)[len(start):]


def compare(name, program, recording, commands, scratch):
    theirs = native(program, commands, scratch)
    ours = on_recording(recording, commands[:len(theirs)], scratch)
    compared = 0
    for mine, wanted in zip(ours, theirs):
        # Where it meets what `record full` does not know, or its end, it tells nothing more.
        if "does not support" in wanted[2] or "Process record" in wanted[2] \
                or "No more reverse" in wanted[2]:
            break
        if mine != wanted:
            fail(f"{name}: after {compared} commands: {mine}, gdb's record: {wanted}")
            return
        compared += 1
    print(f"{name}: {compared} of {len(commands)} commands alike")
    if compared < min(len(commands), 12):
        fail(f"{name}: compared only {compared}")


def expect(name, ours, wanted):
    for (command, place, printed), (function, text) in zip(ours, wanted):
        if not place.replace('__GI_', '').startswith(function) or text not in printed:
            fail(f"{name}: {command}: at {place}, {printed!r}; expected {function} and {text!r}")
            return
    if len(ours) != len(wanted):
        fail(f"{name}: {len(ours)} commands, {len(wanted)} expected")
    print(f"{name}: {len(wanted)} places as expected")


SCRIPTS = {
    "step": ["next", "next", "step", "step", "step", "step", "reverse-step", "reverse-step",
             "reverse-step", "reverse-next", "next", "step", "finish", "reverse-step", "stepi",
             "reverse-stepi", "nexti", "reverse-nexti", "reverse-stepi", "reverse-finish"],
    "finish": ["break recursive if n == 1", "continue", "reverse-finish", "reverse-finish",
               "finish", "finish", "step", "reverse-finish", "delete", "tbreak callee",
               "reverse-continue", "reverse-finish", "step", "finish"],
    "until": ["tbreak loop", "continue", "next", "next", "next", "until", "until", "until", "until",
              "reverse-next", "reverse-next", "reverse-next", "advance 31"],
    "watch": ["watch watched", "continue", "continue", "continue", "reverse-continue",
              "reverse-continue", "continue", "print watched", "watch table[3]", "continue",
              "continue", "continue", "continue", "print table[3]", "reverse-continue",
              "reverse-continue"],
    "break": ["break callee", "break outer", "break 31 if i == 7", "continue", "continue",
              "continue", "print x", "continue", "continue", "continue", "print i",
              "reverse-continue", "reverse-continue", "print x", "reverse-continue",
              "reverse-continue"],
}
WALK = ["step", "next", "stepi", "nexti", "finish", "until", "reverse-step", "reverse-next",
        "reverse-stepi", "reverse-nexti", "reverse-finish", "step", "next"]


def main():
    if shutil.which("gdb") is None:
        print("SKIPPED: gdb is not installed")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        recordings = {}
        for program in ("reverse", "solib", "signals"):
            recordings[program] = os.path.join(scratch, program + ".ttq")
            subprocess.run([TTQ, "record", "-q", "-o", recordings[program], "--",
                            os.path.join(PROGRAMS, program)], env=ENVIRONMENT, capture_output=True)
        for name, commands in SCRIPTS.items():
            compare(name, "reverse", recordings["reverse"], commands, scratch)
        for seed in range(3):
            choose = random.Random(seed)
            commands = ["tbreak outer", "continue"] + [choose.choice(WALK) for _ in range(40)]
            compare(f"walk {seed}", "reverse", recordings["reverse"], commands, scratch)
        compare("solib", "solib", recordings["solib"],
                ["next", "step", "step", "finish", "reverse-step", "reverse-finish", "next", "step",
                 "reverse-next", "watch library_counter", "continue", "continue",
                 "reverse-continue", "reverse-continue"], scratch)
        ours = on_recording(
            recordings["reverse"],
            ["rwatch table[5]", "awatch table[2]", "continue", "print i", "continue",
             "reverse-continue", "reverse-continue"], scratch)
        expect("reads", ours, [("main", ""), ("main", ""), ("loop", "value = "), ("loop", "= 2"),
                               ("main", "Value = "), ("main", "Value = "), ("loop", "value = ")])
        # `record full` does not know of signals' handlers.
        ours = on_recording(
            recordings["signals"],
            ["handle all stop print", "break on_usr1", "break on_term", "continue", "continue",
             "print number", "continue", "continue", "continue", "continue", "continue",
             "reverse-continue", "reverse-continue", "bt 2", "reverse-stepi", "reverse-stepi",
             "reverse-stepi", "reverse-stepi", "reverse-stepi", "stepi"], scratch,
            start=("ttq seek start", "break main", "continue", "delete"), everything=True)
        expect("signals", ours, [
            ("main", ""), ("main", ""), ("main", ""), ("kill", "SIGUSR1"), ("on_usr1", "on_usr1"),
            ("on_usr1", "= 10"), ("kill", "SIGTERM"), ("on_term", "on_term"), ("main", "SIGSEGV"),
            ("", "SIGABRT"), ("", "No more"), ("on_term", "on_term"), ("on_usr1", "on_usr1"),
            ("on_usr1", "signal handler called"), ("on_usr1+4", ""), ("on_usr1+1", ""),
            ("on_usr1+0", ""), ("kill+7", ""), ("kill+5", ""), ("kill+7", "SIGUSR1")])
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

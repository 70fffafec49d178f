# SPDX-License-Identifier: MIT
"""`ttq diff` names what made two runs of a Python program differ.

    python_causes_test.py TTQ [--python=PROGRAM] [CASE…]

As causes_test.py for C: each pair of runs of python_causes.py differs in one thing that matters, and in
eight variables, their order, process numbers and the time, which do not. The cause must be the one thing;
where a value can be followed through the interpreter, it must be established.
"""

import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TTQ = os.path.abspath(sys.argv.pop(1))
PYTHON = next((a.split("=", 1)[1] for a in sys.argv if a.startswith("--python=")), "/usr/bin/python3")
ONLY = [a for a in sys.argv[1:] if not a.startswith("-")]
sys.argv = sys.argv[:1]

# What each side has: variables, arguments, data.json, the array's last item. The cause: its kind, a regular
# expression for its text, whether it is established. Random numbers are followed no further than the
# generator, whose every word depends on all of the seed.
# Where the environment is alike but for the cause (quiet), os.environ has its entries in the same places, and
# a value is copied beside its key's hash, in the same wide moves: the seed must not be taken for the cause.
CASES = {
    "environment": dict(env=({"LEVEL": "3"}, {"LEVEL": "28"}),
                        cause=("environment variable", r"LEVEL=3 \| LEVEL=28", True)),
    "other_hashes": dict(env=({"LEVEL": "3", "PYTHONHASHSEED": "1"}, {"LEVEL": "28", "PYTHONHASHSEED": "2"}),
                         quiet=True, cause=("environment variable", r"LEVEL=3 \| LEVEL=28", True)),
    "default": dict(env=({"PYTHONHASHSEED": "1"}, {"LEVEL": "28", "PYTHONHASHSEED": "2"}), quiet=True,
                    cause=("environment variable", r"LEVEL=28, only in B", None)),
    "module": dict(env=({"LEVEL": "3"}, {"LEVEL": "28"}), cause=("environment variable", r"LEVEL=3 \| LEVEL=28", True)),
    "argument": dict(args=(["abc"], ["abcdefghijkl"]),
                     cause=("argument", r'4: "abc" \| "abcdefghijkl"', True)),
    "file": dict(data=('{"limits": {"min": 1, "max": 7}}', '{"limits": {"min": 1, "max": 29}}'),
                 cause=("file", r'data\.json, byte 29: "7}}" \| "29}}"', True)),
    "clock": dict(cause=("time", "clock_gettime: .*", True)),
    "seed": dict(cause=("random bytes", "getrandom: .*", None)),
    "hashes": dict(env=({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2"}),
                   cause=("environment variable", r"PYTHONHASHSEED=1 \| PYTHONHASHSEED=2", None)),
    "array": dict(array=("7", "29"), cause=("file", r"data\.npy, byte \d+: .*", None)),
}
# Not in the suite: numpy's start takes long.
LONG = ("array",)


def record(name, side):
    case = CASES[name]
    recording = os.path.join(PLACE, "%s%d.ttq" % (name, side))
    here = os.path.join(PLACE, name)
    os.makedirs(here, exist_ok=True)
    if "data" in case:
        with open(os.path.join(here, "data.json"), "w") as f:
            f.write(case["data"][side])
    if "array" in case:
        subprocess.run([PYTHON, "-c", "import numpy, sys; a = numpy.arange(5.0); a[3] = float(sys.argv[1]); "
                        "numpy.save('data.npy', a)", case["array"][side]], cwd=here, check=True)
    noise = {} if case.get("quiet") else {
        **{"NOISE%d" % k: ("q" * (3 + k), "r" * (17 - k))[side] for k in range(6)},
        "PWD": ("/x", "/some/longer/place")[side], "UNRELATED": ("a" * 40, "z" * 47)[side]}
    e = {"PATH": os.environ["PATH"], "HOME": PLACE, "TTQ_HOME": PLACE, "LANG": "C", **noise,
         "PYTHONDONTWRITEBYTECODE": "1", **case.get("env", ({}, {}))[side]}
    p = subprocess.run([TTQ, "record", "-q", "-o", recording, "--", PYTHON,
                        *(["-S"] if "array" not in case else []), os.path.join(HERE, "python_causes.py"), name,
                        *case.get("args", ([], []))[side]], cwd=here,
                       env=dict(reversed(e.items())) if side and noise else e, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if p.returncode:
        raise RuntimeError(p.stderr)
    return recording, p.stdout


def answer(name):
    """The answer, or None where both came to the same: a clock or a seed may."""
    for _ in range(5):
        (a, out_a), (b, out_b) = record(name, 0), record(name, 1)
        if out_a != out_b:
            break
        shutil.rmtree(a)
        shutil.rmtree(b)
    else:
        return None
    p = subprocess.run([TTQ, "diff", "-f", "json", a, b], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True, errors="replace", env=dict(os.environ, TTQ_HOME=PLACE))
    if p.returncode or p.stderr:
        raise RuntimeError("diff %s: %d %s" % (name, p.returncode, p.stderr))
    return json.loads(p.stdout)


class Causes(unittest.TestCase):
    maxDiff = None

    def test_each_cause_is_named(self):
        names = [n for n in CASES if n in ONLY or (not ONLY and n not in LONG)]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            answers = dict(zip(names, pool.map(answer, names)))
        wrong = {}
        for name, found in answers.items():
            if found is None:
                print("%s: both runs came to the same, five times" % name, file=sys.stderr)
                continue
            kind, text, established = CASES[name]["cause"]
            cause = found["cause"] or {"kind": None, "text": "", "established": False}
            if cause["kind"] != kind or not re.fullmatch(text, cause["text"], re.S) or (
                    established is not None and cause["established"] != established):
                wrong[name] = (cause["kind"], cause["text"], cause["established"])
                # Hashes are seeded anew in each run: this is all that is left of it.
                print("%s: %s" % (name, json.dumps(found)), file=sys.stderr)
        print("%d of %d causes named" % (len(names) - len(wrong), len(names)), file=sys.stderr)
        self.assertEqual(wrong, {})


if __name__ == "__main__":
    if not os.path.exists(PYTHON):
        print("no %s" % PYTHON)
        sys.exit(77)
    PLACE = tempfile.mkdtemp(prefix="ttq-python-causes-")
    try:
        unittest.main()
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares `print EXPRESSION` with what the C compiler makes of the same expression: its type, and its value.

    compiler_test.py TTQ PACKAGES RECORDING-PROGRAM [SEED [COUNT]]

The expressions are made at random: literals with their endings, casts, all operators, a conditional. None has
undefined behaviour but what -fwrapv defines; one that the compiler refuses is left out.
PACKAGES: BUILD/python. RECORDING-PROGRAM: any program written in C that ends.
"""

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

TYPES = ("char", "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned int", "long",
         "unsigned long", "float", "double", "long double")
WHOLE, REALS = TYPES[:9], TYPES[9:]
QUOTED = ("'a'", "'0'", "'\\n'", "'\\x7f'")


def literal(r):
    """A text, and whether it is real."""
    kind = r.randrange(9)
    value = r.choice((0, 1, 2, 3, 7, 100, 255, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, r.randrange(1 << 40)))
    ending = r.choice(("", "", "u", "l", "ul", "ull", "ll", "U", "L"))
    if kind < 4:
        return f"{value}{ending}", False
    if kind < 6:
        return f"{value:#x}{ending}", False
    if kind == 6:
        return f"+{r.choice(QUOTED)}", False  # an int in C, a char in C++
    return r.choice(("0.5", "1.5f", "3.0", "1e10", "16777217.0", "0.1", "0.1f", "2.5e-3", "7.0f")), True


def expression(r, depth):
    """A text, and whether its value is real. No real number becomes a whole one: it may not fit, which C does not
    define."""
    if depth == 0 or r.random() < 0.15:
        return literal(r)
    (a, real_a), (b, real_b), (c, real_c) = (expression(r, depth - 1) for _ in range(3))
    kind = r.randrange(12)
    if kind == 0:
        sign = r.choice("-+!" if real_a else "-+~!")
        return f"{sign}({a})", real_a and sign != "!"
    if kind < 3:
        to = r.choice((*(REALS if real_a else TYPES), "_Bool"))
        return f"({to})({a})", to in REALS
    if kind < 4:
        return f"({a}) ? ({b}) : ({c})", real_b or real_c
    if kind < 6 and not real_a:
        return f"({a}) {r.choice(('<<', '>>'))} {r.randrange(31)}{r.choice(('', 'u', 'l'))}", False
    if kind < 8 and not (real_a or real_b):
        return f"({r.choice(WHOLE)})({a}) {r.choice('&|^')} ({r.choice(WHOLE)})({b})", False
    if kind < 9:  # not by zero
        by, real_by = r.choice(((f"{r.randrange(1, 100)}", False), ("7u", False), ("3l", False), ("0.3", True), ("2.5f", True)))
        return f"({a}) {'/' if real_a or real_by or kind == 8 else '%'} {by}", real_a or real_by
    if kind < 10:
        operator = r.choice(("&&", "||", "<", "<=", ">", ">=", "==", "!="))
        return f"({a}) {operator} ({b})", False
    return f"({a}) {r.choice('+-*')} ({b})", real_a or real_b


def compiled(place, expressions):
    """(type, value) of each; None where the compiler finds a mistake."""
    formats = {**dict.fromkeys(WHOLE, "%ld"), "unsigned long": "%lu", "unsigned long long": "%llu", "long long": "%lld",
               "_Bool": "%ld", "float": "%.9g", "double": "%.17g", "long double": "%.18Lg"}
    wide = {"unsigned long": "unsigned long", "unsigned long long": "unsigned long long", "long long": "long long",
            "float": "double", "double": "double", "long double": "long double"}
    cases = ",\\\n  ".join(f'{t}: printf("{t} {f}\\n", ({wide.get(t, "long")})(v))' for t, f in formats.items())
    source = os.path.join(place, "e.c")
    wanted = list(range(len(expressions)))
    while True:
        with open(source, "w", encoding="ascii") as file:
            file.write(f"#define SHOW(i) printf(#i \" \"), _Generic(v, {cases})\n#include <stdio.h>\nint main(void) {{\n")
            begin = len(cases.split("\n")) + 3
            file.write("".join(f"  {{ __auto_type v = {expressions[i]}; SHOW({i}); }}\n" for i in wanted) + "}\n")
        p = subprocess.run(["gcc", "-w", "-O0", "-fwrapv", "-Werror=shift-count-overflow", "-o", place + "/e", source], capture_output=True, text=True, check=False)
        if p.returncode == 0:
            break
        bad = {int(n) - begin for n in re.findall(r"e\.c:(\d+):\d+: error", p.stderr)}
        if not bad:
            sys.exit(p.stderr[:2000])
        wanted = [i for k, i in enumerate(wanted) if k not in bad]
    out = subprocess.run([place + "/e"], capture_output=True, text=True, check=True).stdout
    found = [None] * len(expressions)
    for line in out.splitlines():
        number, rest = line.split(" ", 1)
        kind, value = rest.rsplit(" ", 1)
        found[int(number)] = (kind.replace("long long", "long"), value)
    return found


def normal(value):
    """A number as the compiler's printf shows it."""
    value = str(value).split(" ")[0]
    value = {"true": "1", "false": "0"}.get(value, value)
    return re.sub(r"^-?(nan|inf).*", r"\1", value)


def main():
    ttq, packages, program = (os.path.abspath(p) for p in sys.argv[1:4])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1 << 32)
    count = int(sys.argv[5]) if len(sys.argv) > 5 else 400
    print("seed", seed)
    r = random.Random(seed)
    place = tempfile.mkdtemp(prefix="ttq-compiler-")
    try:
        expressions = [expression(r, r.randrange(1, 4))[0] for _ in range(count)]
        expected = compiled(place, expressions)
        subprocess.run([ttq, "record", "-q", "-o", place + "/r.ttq", "--", program], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        sys.path.insert(0, packages)
        import ttq as package  # noqa: E402
        wrong = compared = 0
        with package.open(place + "/r.ttq") as trace:
            time = trace.query("executions of main | first 1")[0].time
            for text, wanted in zip(expressions, expected):
                if wanted is None:
                    continue
                compared += 1
                try:
                    row = trace.query(f"print ({text}) at {time}")[0]
                    got = (row.type, row.value)
                except package.Error as error:
                    got = ("error", str(error))
                if (got[0], normal(got[1])) != (wanted[0], normal(wanted[1])):
                    wrong += 1
                    if wrong < 20:
                        print(f"{text}\n  the compiler: {wanted[0]} {wanted[1]}\n  ttq: {got[0]} {got[1]}")
    finally:
        shutil.rmtree(place)
    print(f"{compared} of {count} expressions compared, {wrong} wrong")
    sys.exit(1 if wrong or compared < count / 3 else 0)


if __name__ == "__main__":
    main()

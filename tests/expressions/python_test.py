#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares `py print EXPRESSION` with what Python makes of the same expression.

    python_test.py TTQ PACKAGES [SEED [COUNT [INTERPRETER...]]]

Some expressions are written down, for what classes can change; the others are made at random. Each is answered as Python
does, or refused: never with another value. Those written down say whether they are answered.
"""

import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ANSWERED = """number == 5;number < 6;mapping['a'];two.cached;one.over;Class.over;slots.a;pair.u;pair.v;pair[1];one.a;one.made
d0[key];d0['a'];l2 == l2;n0 == 0;l2 == n0;n0 == None;x53 == f53;x53 > f53;x53 * 1.0;True & n2;True + True;~True;-True
not n0;not l1;not d1;l2 and n0;0 or l2;i1 / 3;7 % -3;-7 % 3;least % -1;1 << 62;-1 >> 70;'a' < 'b';'a' != 1;1 == True
'1' == 1;i1 == n0;s2[1];s3[0];s1[-1];b0[3];len(s3);len(b0);len(count);len(ordered);type(number);type(pair);p0.t[1][1]['k']
Point.kind;p0.kind;space.w;nan == nan;least - 0;big + 1;f1 == -2.25;l0[3][1] == 'x';i4;count['a'];default['x'][0]"""
REFUSED = """flag & 2;word == 'y';word + 'z';len(items);items[0];not items;mapping['b'];one.prop;two.prop;one.static
equal == 3;3 == equal;equal == None;slots.unset;big * 4;big + big;-least;least - 1;9223372036854775808;l2 == l3
i4 + 1;i3 * i3;1 << 63;i1 / 0;'a' < 1;c0 + 1;amount + 1;ratio == 1;len(i1);reals[0] + 1"""
WHOLE = ("i0 i1 i2 i3 i4 l0[0] p0.x p1.x d0['a'] Point.kind p0.kind len(l0) len(s1) len(d0) pair.u n1 ordered['b'] default['x'][0] "
         "space.w t0[0] p0.t[0] p0.t[1][1]['k'] len(s3) len(b0) b0[1] pair[0] l0[3][0] len(e0) l0[-2] count['a'] big least x53").split()
REAL = "f0 f1 f2 f53 t1[0] slots.a 2.5 1e3".split()
TEXT = "s0 s1 s2 s3 p1.y l0[3][1] t0[1] 'lit' s1[1] s2[1] s3[0] space.v".split()
OTHER = "b0 b1 c0 l0 l1 t0 t1 d0 d1 e1 n0 slots.b pair ordered default queue p0.t d0[2] type(i0) type(p0) ratio count amount".split()


def tree(r, depth, leaves, signs, by_constant, constants, operators):
    if depth == 0 or r.random() < 0.15:
        return r.choice(leaves)
    operand = f"({tree(r, depth - 1, leaves, signs, by_constant, constants, operators)})"
    kind = r.randrange(8)
    if kind == 0:
        return r.choice(signs) + operand
    if kind < 3:
        return f"{operand} {r.choice(by_constant)} {r.choice(constants)}"
    return f"{operand} {r.choice(operators)} ({tree(r, depth - 1, leaves, signs, by_constant, constants, operators)})"


def arithmetic(r, depth):
    return tree(r, depth, [*WHOLE, *REAL, str(r.randrange(20))], "-+", "%/", "1234567", "+-*")


def of_bits(r, depth):
    return tree(r, depth, WHOLE, "~", ("<<", ">>"), range(70), "&|^+-*")


def expression(r):
    kind = r.randrange(12)
    if kind < 4:
        return arithmetic(r, r.randrange(4))
    if kind < 6:
        return of_bits(r, r.randrange(3))
    if kind == 6:
        return r.choice(TEXT + OTHER)
    if kind == 7:
        return f"({arithmetic(r, 1)}) {r.choice(('<', '<=', '==', '!=', '>', '>='))} ({arithmetic(r, 1)})"
    if kind == 8:
        return f"({r.choice(TEXT)}) {r.choice(('+', '<', '==', '!=', '>='))} ({r.choice(TEXT)})"
    if kind == 9:
        return f"({r.choice(TEXT + OTHER)}) {r.choice(('==', '!='))} ({r.choice(TEXT + OTHER + WHOLE)})"
    if kind == 10:
        a, b = (r.choice(WHOLE + TEXT + OTHER) for _ in range(2))
        return f"({a}) {r.choice(('and', 'or'))} ({b})"
    return f"not ({r.choice(WHOLE + TEXT + OTHER)})"


def compare(ttq, package, python, place, expressions):
    with open(place + "/asked", "w", encoding="utf-8") as file:
        file.write("\n".join(expressions) + "\n")
    subprocess.run([ttq, "record", "-q", "-o", place + "/r.ttq", "--", python, "-S", HERE + "/python_objects.py", place + "/asked",
                    place + "/results"], stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=False)
    with open(place + "/results", encoding="utf-8") as file:
        expected = [ast.literal_eval(line) for line in file]
    answered, refused = (set(text.replace("\n", ";").split(";")) for text in (ANSWERED, REFUSED))
    wrong = same = 0
    with package.open(place + "/r.ttq") as trace:
        for text, wanted in zip(expressions, expected):
            try:
                got = trace.query(f"py print ({text}) at crash in frame 1")[0]["value"]
            except package.Error as error:
                got = "!" + str(error).split("\n", 1)[0]
            is_refused = got.startswith("!")
            same += got == wanted
            if is_refused if text in answered else not is_refused and (got != wanted or text in refused):
                wrong += 1
                print(f"{text}\n  Python: {wanted}\n  ttq: {got}")
    print(f"{python}: {same} of {len(expressions)} answered, {wrong} wrong")
    shutil.rmtree(place + "/r.ttq")
    return wrong > 0 or same < len(expressions) / 3


def main():
    ttq, packages = (os.path.abspath(p) for p in sys.argv[1:3])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 300
    print("seed", seed)
    r = random.Random(seed)
    expressions = (ANSWERED + "\n" + REFUSED).replace("\n", ";").split(";") + [expression(r) for _ in range(count)]
    sys.path.insert(0, packages)
    import ttq as package
    wrong = False
    with tempfile.TemporaryDirectory(prefix="ttq-python-") as place:
        for python in sys.argv[5:] or ["/usr/bin/python3"]:
            wrong |= compare(ttq, package, python, place, expressions)
    sys.exit(wrong)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares `print` with gdb's at the same place of the same program, expression by expression.

Each program is recorded once. A place is the Nth call of stop_here and a frame of its stack.
Addresses differ between the two runs, and spacing is gdb's business: both are normalised. Where gdb
says <optimized out>, ttq must give a value that it marks as past, or a reason.

    gdb_test.py TTQ FOLDER-OF-PROGRAMS
"""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

C_GLOBALS = """counter; file_static; ratio; half; precise; quad; quad*2; sixteen
least; turn; (float)sixteen; letter; byte_value; negative_char; truth
text; escaped; words; numbers; zeros; matrix; colour; some_flags; origin; *origin_pointer
origin_pointer; bits; bits.b; number; points; small; large; size; nothing; hidden; *hidden; wide
per_thread; callback; twice; &twice; &counter; &numbers[2]; numbers[2]*2+1; sizeof(matrix)
sizeof(struct only_here); *(struct only_here*)&elsewhere; (char)65; 1.5*2; 7/2; -7/2; 7%3; 1<<4
5>3; $rip; (long)counter; (unsigned char)300; GREEN; (enum colour)1; (enum colour)9; (enum flags)7
(enum flags)8; elsewhere; &origin; &points; origin_pointer->y; (*origin_pointer).x; words[1]
&words; matrix[1]; matrix[1][2]; !counter; ~counter; -ratio; counter==42; ratio>3; &points[1]
&points[1]-&points[0]; points[1].x; &callback; *callback; sizeof(int); letter+1; counter&&0
(long*)0; (unsigned long*)0; (char**)0; &words[1]; by_value; main; stop_here; make_hidden
&matrix; &matrix[1]; nearly_all; ~nearly_all; -nearly_all; nearly_all+32; 1ull<<40; -1>0u; 1.5f*nearly_all"""
C_BY_VALUE = """full_args; full_args.in; full_args.out; label; sum; extra; &full_args; *label; label[1]
&label"""
C_SUM_TO = """list; *list; list->next->name; *list->next; list->next->inner; list->callback
list->next->callback; limit; total; length; scratch; calls; list->next->next"""
CC_CONTAINERS = """text; empty; long_text; vector; words; flags; map; empty_map; set; table; unique
shared; none; maybe; never; pair; list; alias; shape; *shape; name; number; circle; stack; both
shapes::level; shapes::Shape::count; shapes::Kind::kSquare; circle.kind; circle.radius_
wave; ripple; choice; other_choice; triple; flag_bits; no_bits; trio; trio._M_elems[1]; verb
view; wide; sixteen; thirty_two; atomic; atomic_flag; atomic_real; atomic_pointer; any_number
any_text; any_nothing; forward; no_forward; pile; line; best; initial; span; fixed_span; released
*released
diamond; diamonds; chosen; chosen.facet; chosen.no_facet; chosen.work; chosen.no_work
chosen.virtual_work; diamond.shared; *(West*)&diamond
Verb::kRun; sizeof(Both); sizeof(Left); sizeof(Made); made; stack.items[1]; &alias
sizeof(circle); (shapes::Stack<int>*)&stack; *(shapes::Circle*)shape
shape->id_; both.left; &circle; &name; *(Spot*)&spot; *(library::Spot*)&far_spot"""
CC_MEMBER = "radius_; id_; *this; this; kind; this->radius_ * 2"
CC_OPTIMIZED = "text; empty; vector; map; set; maybe; number; alias; shape; name; list"

# Program, Nth call of stop_here, frame, expressions.
PLACES = [
    ("values_c_O0", 1, 1, C_GLOBALS + ";" + C_BY_VALUE),
    ("values_c_O0", 2, 1, C_SUM_TO),
    ("values_c_O2", 1, 1, C_GLOBALS + ";full_args; full_args.in; extra; label; sum"),
    ("values_cc_O0", 1, 1, CC_CONTAINERS),
    ("values_cc_O0", 2, 1, CC_MEMBER),
    ("values_cc_O2", 1, 1, CC_OPTIMIZED),
]
PLACES += [(program.replace("values", name), *where) for name in ("clang", "types") for program, *where in PLACES
           if name == "clang" or program.endswith("O0")]
# What gdb calls optimized out and the recording knows: the struct that by_value was given.
PAST = {("values_c_O2", "full_args"): "{in = 10, out = 20}", ("values_c_O2", "full_args.in"): "10"}

failures = []


def split(text):
    return [e.strip() for e in re.split(r"[;\n]", text) if e.strip()]


def normal(text):
    # Addresses, and names of the addresses of stack and heap, are of one run.
    return re.sub(r"0x[0-9a-f]{5,}", "ADDRESS", re.sub(r"\s+", "", text))


def ask_gdb(program, call, frame, expressions):
    commands = ["set host-charset UTF-8", "set style enabled off", "set width 0", "break stop_here", "run"]
    commands += ["continue"] * (call - 1) + [f"frame {frame}"]
    for expression in expressions:
        commands += ["echo @@@\\n", f"print {expression}"]
    arguments = [word for command in commands for word in ("-ex", command)]
    run = subprocess.run(
        ["gdb", "-batch", "-nx", "-iex", "set auto-load safe-path /", *arguments, program],
        capture_output=True, text=True, timeout=120)
    answers = []
    for part in run.stdout.split("@@@\n")[1:]:
        found = re.match(r"\$\d+ = (.*)", part.strip(), re.S)
        answers.append(found.group(1).strip() if found else None)
    if len(answers) != len(expressions):
        sys.exit(f"gdb gave {len(answers)} answers to {len(expressions)} questions: {run.stderr}")
    return answers


def ask_ttq(ttq, trace, time, frame, expression):
    run = subprocess.run(
        [ttq, "-t", trace, "-f", "json", f"print {expression} at {time} in frame {frame}"],
        capture_output=True, text=True, timeout=120)
    if run.returncode != 0:
        return None, run.stderr.strip()
    answer = json.loads(run.stdout)
    return answer["rows"][0], answer["note"]


@functools.cache
def is_clangs(path):
    with open(path, "rb") as file:
        return b"clang version" in file.read()


def compare(ttq, folder, traces, place):
    program, call, frame, text = place
    expressions = split(text)
    trace = traces[program]
    times = subprocess.run(
        [ttq, "-t", trace, "-f", "json", "executions of stop_here"],
        capture_output=True, text=True, check=True)
    time = json.loads(times.stdout)["rows"][call - 1]["time"]
    for expression, wanted in zip(expressions, ask_gdb(f"{folder}/{program}", call, frame,
                                                        expressions)):
        row, note = ask_ttq(ttq, trace, time, frame, expression)
        where = f"{program}, call {call}: print {expression}"
        if row is None and wanted is None and is_clangs(f"{folder}/{program}"):
            continue  # it has left out what nobody reads
        if row is None or wanted is None:
            failures.append(f"{where}\n  gdb: {wanted}\n  ttq: {note if row is None else row}")
        elif wanted == "<optimized out>":
            known = PAST.get((program, expression))
            if row["value"] == wanted or not note:
                failures.append(f"{where}\n  gdb: {wanted}\n  ttq: {row['value']} without a reason")
            elif known and (row["value"] != known or row["known_at"] is None):
                failures.append(f"{where}\n  known: {known}\n  ttq: {row['value']} ({note})")
        elif normal(row["value"]) != normal(wanted):
            failures.append(f"{where}\n  gdb: {wanted}\n  ttq: {row['value']}")
    return len(expressions)


def check(ttq, trace, query, wanted):
    """`wanted` is a piece of the answer's text, or of the error's."""
    run = subprocess.run([ttq, "-t", trace, query], capture_output=True, text=True, timeout=120)
    if wanted not in run.stdout + run.stderr:
        failures.append(f"{query}\n  wanted: {wanted}\n  got: {run.stdout}{run.stderr}")


def check_forms(ttq, traces):
    c = traces["values_c_O0"]
    at = "at (executions of stop_here | first 1)"
    check(ttq, c, "writes to counter", "0x2a")
    check(ttq, c, "writes to counter", "main")
    check(ttq, c, "memory origin_pointer->y", "04 00 00 00")
    second = "at (executions of stop_here | first 2 | last 1) in frame 1"
    check(ttq, c, f"memory list->next->value {second}", "02 00 00 00")
    check(ttq, c, f"last write to list->next->value {second}", "main")
    check(ttq, c, 'executions of stop_here where counter == 42 and text == "hello" | count', "2")
    check(ttq, c, "executions of stop_here where ratio > 3.5 | count", "0")
    check(ttq, c, "executions of stop_here where ~nearly_all == 15 and -nearly_all == 16 | count", "3")
    check(ttq, c, f"source {at} in frame 1", "sum = full_args.in")
    check(ttq, c, f"print {'origin.z'} {at}", "struct point has no member named z\n")
    check(ttq, c, f"print (struct poin*)0 {at}", "no module has a type named struct poin")
    check(ttq, c, f"print (struct poin*)0 {at}", "did you mean point")
    check(ttq, c, f"print sizeof(poin) {at}", "did you mean point")
    check(ttq, c, f"print 1/0 {at}", "division by zero")
    check(ttq, c, f"print countr {at} in frame 1", "nothing is called countr here")
    check(ttq, c, f"print sum {at}", "frame 1 has one: `in frame 1`")
    check(ttq, c, f"print sum {at} in frame 99", "there is no frame 99")
    check(ttq, c, f"print bits.a {at}", "5")
    check(ttq, c, f"print &bits.a {at}", "a bit-field has no address")
    check(ttq, c, f"print *(int*)16 {at}", "its address is 0x10: never mapped")
    check(ttq, c, "print limit at (calls to sum_to where limit == 77)", "no row passes the cond")
    # At a function's first instruction its arguments are where they were passed, not in the frame
    # that the prologue will make, nor has what is inlined at its beginning been entered.
    check(ttq, c, "print limit at (calls to sum_to)", " 10 ")
    check(ttq, c, "print list->next->name at (calls to sum_to)", '"second"')
    check(ttq, c, 'calls to by_value where full_args.in == 10 and label == "label"'
          " | select caller", "main")
    check(ttq, c, "executions of by_value | select extra, full_args.out", "20\n")
    check(ttq, c, "first write to limit after (calls to sum_to)", "sum_to at values_c.c")
    check(ttq, c, "origin of total at (executions of stop_here | first 2 | last 1) in frame 1",
          "sum_to")
    # What only some copies of a constructor take is not passed to the others.
    check(ttq, traces["values_cc_O0"], "calls to Diamond::Diamond | first 1 | select args",
          '"low":4,"high":9')
    # gdb calls a function for these, or takes the enumerator first.
    cc = traces["values_cc_O0"]
    check(ttq, cc, "print trio[2]", "9")
    check(ttq, cc, "print trio[3]", "trio")
    check(ttq, cc, "print stop_there", "int (int)")
    at = "at (executions of stop_here | first 1)"
    check(ttq, cc, f"print view[1] {at}", "105 'i'")
    check(ttq, cc, f"print view[6] {at}", "it has 6 characters")
    check(ttq, cc, f"print sixteen[8] == 0xd83d and atomic + 1 == 42 {at}", "  1")
    check(ttq, cc, f"print line[0] {at}", '"first"')


def check_without_types(ttq, scratch, program):
    """A variable of the symbol table alone is bytes, and says so."""
    trace, stripped = os.path.join(scratch, "stripped.ttq"), os.path.join(scratch, "stripped")
    subprocess.run(["strip", "-g", "-o", stripped, program], check=True)
    subprocess.run([ttq, "record", "-o", trace, "--", stripped], check=True, capture_output=True, timeout=300)
    note = "no debug information has the type of ratio"
    for query in ("print ratio at end", "calls to stop_here where ratio > 3"):
        check(ttq, trace, query, note)
    answer = subprocess.run([ttq, "-t", trace, "print *(double*)&ratio at end"], capture_output=True, text=True, timeout=120)
    if "3.1415" not in answer.stdout or note in answer.stdout:
        failures.append(f"a type that was given: {answer.stdout}{answer.stderr}")


def check_cache(ttq, traces):
    """A damaged cache changes no answer."""
    folder = os.path.join(os.environ["XDG_CACHE_HOME"], "ttq")
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        with open(os.path.join(folder, name), "r+b") as file:
            file.seek(64)
            file.write(b"\xff" * 64)
    check(ttq, traces["values_cc_O0"], "print circle", "radius_ = 1.5")


def main():
    ttq, folder = sys.argv[1:]
    if not shutil.which("gdb"):
        sys.exit("gdb is needed")
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = os.path.join(scratch, "cache")
        traces = {}
        places = [place for place in PLACES if os.path.exists(f"{folder}/{place[0]}")]
        if len(places) < len(PLACES):
            print("no clang: its programs are left out")
        for program in sorted({place[0] for place in places}):
            traces[program] = os.path.join(scratch, program + ".ttq")
            subprocess.run([ttq, "record", "-o", traces[program], "--", f"{folder}/{program}"],
                           check=True, capture_output=True, timeout=300)
        count = sum(compare(ttq, folder, traces, place) for place in places)
        check_forms(ttq, traces)
        if "clang_c_O0" in traces:
            check(ttq, traces["clang_c_O0"], "first write to limit after (calls to sum_to)",
                  "sum_to at values_c.c")
            check(ttq, traces["clang_c_O0"], "writes to calls", "sum_to at values_c.c")
        check_without_types(ttq, scratch, f"{folder}/values_c_O0")
        check_cache(ttq, traces)
    for failure in failures:
        print(failure)
    print(f"{count} expressions compared with gdb, {len(failures)} failures")
    sys.exit(1 if failures or count < 150 else 0)


main()

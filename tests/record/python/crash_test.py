#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# What `crash` says of Python programs: the object at fault, the message, the cause. A program prints
# the address of the object that it breaks, where it knows it. Also that an answer that was cut says so.
# Usage: crash_test.py TTQ [INTERPRETER...]

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import asking  # noqa: E402
from interpreters import every, interpreters  # noqa: E402

TTQ = os.path.abspath(sys.argv[1])
DEBUG = "/usr/bin/python3-dbg"
WORD = "ctypes.c_size_t.from_address"

COUNTED = """import ctypes
class A: __slots__ = ("a", "b", "c")
drop = ctypes.pythonapi.Py_DecRef
drop.argtypes, drop.restype = [ctypes.py_object], None
"""

# What each program prints is the address of the object at fault; nothing: it does not know it.
PROGRAMS = {
    # The null is an argument, which lives in an object of ctypes'.
    "argument": ("import ctypes\ndef f(): ctypes.string_at(0)\nf()\n",
                 {"type": r"CArgObject$", "state": "alive"}),
    # A code object that lives, though others were where it is; up to 3.10 the tuple of its constants
    # is what the null was read behind. In a debug build it is what PyTuple_GetItem gave null for.
    "constant": ("def f():\n    return 12345\nf.__code__ = f.__code__.replace(co_consts=())\n"
                 "print(hex(id(f.__code__)), hex(id(f.__code__.co_consts)), flush=True)\nrepr(f())\n",
                 {"type": "^(code|tuple)$", "state": "alive", "repr": r"code object f at|^\("}),
    # The items of a list are no part of it.
    "item": (f"import ctypes\nx = [(1,), (2,)]\nprint(hex(id(x)), flush=True)\n"
             f"{WORD}({WORD}(id(x) + 24).value + 8).value = 16\nrepr(x)\n",
             {"type": "^list$", "state": "alive"}),
    # Broken by what writes and reads it with the same register; its memory was another list's.
    "type": (f"import ctypes\nfor i in range(3000): [i, (i, [i])]\nx = [None] * 4\nprint(hex(id(x)), flush=True)\n"
             f"{WORD}(id(x) + 8).value = 0x4242424242\nrepr(x)\n",
             {"type": "^list$", "state": "overwritten", "repr": r"\[None, None, None, None\]"}),
    # A list still has it when its count has become 0, and its memory is another's.
    "freed": (f"{COUNTED}x = [A()]\nat = id(x[0])\nprint(hex(at), flush=True)\ndrop(x[0])\n"
              f"{WORD}(at + 8).value = 0x4242424242\nrepr(x[0])\n",
              {"type": "A$", "state": "^freed$", "repr": r"<A\("}),
    # A neighbour in the collector's list, which lives, does not hold it.
    "collected": (f"{COUNTED}x = [[]]\ny = A()\nprint(hex(id(y)), flush=True)\nz = [[]]\n"
                  f"{WORD}(id(y) + 8).value = 0x4242424242\nimport gc\ngc.collect()\n",
                  {"type": "A$", "state": "^overwritten$"}),
    # Its deallocator may use it: that is no object that was freed and used.
    "dying": (f"{COUNTED}x = [A()]\nprint(hex(id(x[0])), flush=True)\n"
              f"{WORD}(id(x[0]) + 8).value = 0x4242424242\ndel x\n",
              {"type": "A$", "state": "^overwritten$", "repr": r"<A\("}),
    # Memory that is C's is no object's that was there before.
    "memory": ("import ctypes, sys\nlibrary = ctypes.CDLL(sys.argv[1])\napi = ctypes.pythonapi\n"
               "api.PyMem_Malloc.argtypes, api.PyMem_Malloc.restype = [ctypes.c_size_t], ctypes.c_void_p\n"
               "library.keep.argtypes = [ctypes.c_void_p]\nnames = [str(i) * 2 for i in range(10000, 10400)]\n"
               "del names\nlibrary.keep(api.PyMem_Malloc(60))\nlibrary.use()\n", None),
    # Said in many small writes.
    "fatal": ("import faulthandler, _testcapi\ndef f():\n    g = getattr(_testcapi, 'fatal_error', None)\n"
              "    g(b'boom here') if g else faulthandler._fatal_error(b'boom here')\nf()\n", None),
    "overflow": ("import faulthandler\nfaulthandler._stack_overflow()\n", None),
}

# What the program "memory" calls.
LIBRARY = """#include <string.h>
static struct { long first[3]; char *name; } *kept;
void keep(void *memory) { kept = memory; kept->name = (char *)0x4242424242; }
long use(void) { return strlen(kept->name); }
"""

# Mistakes that the debug hooks refuse a block of 20 bytes for: what is done, the cause, what the column `memory` or
# `word_memory` says.
HOOKS = """import ctypes, sys
api = ctypes.pythonapi
api.PyMem_Malloc.argtypes, api.PyMem_Malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
api.PyMem_Free.argtypes = api.PyObject_Free.argtypes = [ctypes.c_void_p]
block = api.PyMem_Malloc(20)
%s
kept = [i for i in range(100)]
api.PyMem_Free(block)
"""
REFUSED = {
    "after": ("ctypes.memset(block, 65, 23)", "bad trailing pad byte",
              "^right after a block of 20 bytes that PyMem_Malloc gave .* at [0-9]+$"),
    "before": ("ctypes.memset(block - 3, 65, 5)", "bad leading pad byte", "^8 bytes before a block of 20 bytes"),
    "far": ("ctypes.memset(block - 16, 65, 20)", "hooks was overwritten", "^8 bytes before a block of 20 bytes"),
    "twice": ("api.PyMem_Free(block)", "^double free$",
              "^the start of a block of 20 bytes that PyMem_Malloc gave .* at [0-9]+, freed at [0-9]+ by "),
    "inside": ("api.PyMem_Free(block + 16)", "^free of a pointer that the allocator did not give$", "memory|block"),
    "inside-freed": ("big = api.PyMem_Malloc(200); api.PyMem_Free(big); api.PyMem_Free(big + 64)",
                     "^free of a pointer that the allocator did not give$", "memory|block"),
    "other": ("api.PyObject_Free(block)", "bad ID", "^8 bytes before a block of 20 bytes"),
}


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300,
                          env={**os.environ, **more})


def ask(path, query):
    answer = run(TTQ, "query", "-t", path, "-f", "json", query)
    assert answer.returncode == 0, (query, answer.stderr)
    return json.loads(answer.stdout)


def check(scratch, version, interpreter, name):
    """What is wrong with the answer; nothing: None."""
    program, expected = PROGRAMS[name]
    label = f"{name} of {interpreter}"
    script = os.path.join(scratch, f"{name}.py")
    pathlib.Path(script).write_text(program)
    path = os.path.join(scratch, f"{name}-{version[1]}-{abs(hash(interpreter))}.ttq")
    recorded = run(TTQ, "record", "-q", "-o", path, "--", interpreter, "-S", script, f"{scratch}/library.so")
    if recorded.returncode <= 128:
        if "_testcapi" in recorded.stderr:
            return None  # this build has not got it
        return f"{label} did not die: {recorded.returncode} {recorded.stderr[-300:]}"
    answer, registers, maps = asking.answers(TTQ, path, ["crash", "registers at crash", "maps at crash"])
    row = answer["rows"][0]
    found = row["python_object"]
    if found:
        top = int(registers["rows"][0]["rsp"], 16)
        stack = next(m for m in maps["rows"] if int(m["address"], 16) <= top < int(m["end"], 16))
        if top <= int(found["address"], 16) < int(stack["end"], 16):
            return f"{label}: an object on the C stack: {found}"
    if name == "fatal":
        if not (row["message"].startswith("Fatal Python error: ") and "boom here" in row["cause"]) or found:
            return f"{label}: {row['cause']}, {row['message']}, {found}"
    if name == "overflow":
        if row["cause"] != "stack overflow" or found:
            return f"{label}: {row['cause']}, {found}"
        if answer["complete"] or "only the innermost" not in (answer["note"] or ""):
            return f"{label}: of many frames it gives {len(row['backtraces'][0]['frames'])}, and calls that complete"
    if name == "freed" and not row["cause"].startswith("use after free"):
        return f"{label}: {row['cause']}"
    if name == "memory" and (found or row["word"] is None):
        return f"{label}: {row['word']}, {found}"
    if expected is None:
        return None
    if not found:
        return f"{label}: no object"
    for field, pattern in expected.items():
        if not re.search(pattern, found[field]):
            return f"{label}: {field} is {found[field]}"
    known = [int(word, 16) for word in recorded.stdout.split()]
    of_tuple = version < (3, 11) or interpreter == DEBUG
    known = known[of_tuple:][:1] or known  # a second one is that of the tuple
    if known and int(found["address"], 16) not in known:
        return f"{label}: {found['address']} is not among {recorded.stdout}"
    return None


def check_refused(scratch, version, interpreter, name):
    """What the debug hooks refuse: the bytes that they print are those in the answer."""
    statement, cause, memory = REFUSED[name]
    label = f"{name} of {interpreter}"
    path = os.path.join(scratch, f"hooks-{name}-{version[1]}-{abs(hash(interpreter))}.ttq")
    recorded = run(TTQ, "record", "-q", "-o", path, "--", interpreter, "-S", "-c", HOOKS % statement,
                   PYTHONMALLOC="debug")
    row = ask(path, "crash")["rows"][0]
    is_pointers = name == "twice" or name.startswith("inside")
    told = row["memory"] if is_pointers else row["word_memory"]
    if not re.search(cause, row["cause"]) or not re.search(memory, told or ""):
        return f"{label}: {row['cause']}, {told}"
    block = int(re.search(r"block at address p=(0x\w+)", recorded.stderr)[1], 16)
    if is_pointers:
        return None if int(row["address"], 16) == block else f"{label}: {row['address']} is not {block:#x}"
    word = int(row["word"], 16)
    wrong = [block - int(n) for n in re.findall(r"at p-(\d): 0x\w\w \*\*\* OUCH", recorded.stderr)]
    if not wrong and name == "after":
        tail = int(re.search(r"at tail=(0x\w+)", recorded.stderr)[1], 16)
        wrong = [tail + int(n) for n in re.findall(r"at tail\+(\d): 0x\w\w \*\*\* OUCH", recorded.stderr)]
    if (not wrong and name != "other") or not all(word <= address < word + 8 for address in wrong):
        return f"{label}: {row['word']} is not where {recorded.stderr} says"
    if name != "other" and "memset" not in row["last_writes"][0]["by"]:
        return f"{label}: {row['last_writes']}"
    return None


def check_dict(scratch, interpreter):
    """Of a large dict not every row is followed: the answer says so."""
    script, path = os.path.join(scratch, "large.py"), os.path.join(scratch, "large.ttq")
    pathlib.Path(script).write_text("d = {}\nfor i in range(6000): d['k%d' % i] = i\n"
                                    "d['k7'] = 'new'\ndel d['k7']\nd['k7'] = 'again'\n")
    recorded = run(TTQ, "record", "-q", "-o", path, "--", interpreter, "-S", script)
    if recorded.returncode != 0:
        return f"large dict: {recorded.stderr}"
    answer = ask(path, 'py changes of d["k7"]')
    if answer["rows"][-1]["new"] != "'again'":
        return f"large dict: {answer['rows']}"
    if answer["complete"] and [row["new"] for row in answer["rows"]] != ["7", "'new'", None, "'again'"]:
        return f"large dict: {answer['rows']} is complete"
    return None


def main():
    pythons = interpreters(sys.argv[2:])
    if not pythons:
        print("no CPython that is supported is here: nothing was tested")
        return 0
    with tempfile.TemporaryDirectory(prefix="ttq-py-crash-") as scratch:
        subprocess.run(["cc", "-shared", "-fPIC", "-g", "-O2", "-xc", "-", "-o", f"{scratch}/library.so"], check=True,
                       input=LIBRARY, text=True)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            tasks = [pool.submit(check, scratch, version, path, name) for version, path in pythons for name in PROGRAMS]
            tasks += [pool.submit(check, scratch, version, path, "constant") for version, path in interpreters([DEBUG])]
            newest = every(sys.argv[2:])[-1]
            # The hooks are the same in each version: what differs is how they were compiled.
            refused = REFUSED if newest in pythons else ("after", "twice")
            tasks += [pool.submit(check_refused, scratch, version, path, name)
                      for version, path in pythons + interpreters([DEBUG]) for name in refused]
            if newest in pythons:
                tasks.append(pool.submit(check_dict, scratch, newest[1]))
            problems = [task.result() for task in tasks if task.result() is not None]
    print("\n".join(problems) or f"{len(tasks)} answers are right")
    return 1 if problems else 0


sys.exit(main())

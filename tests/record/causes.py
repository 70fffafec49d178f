# SPDX-License-Identifier: MIT
"""Records programs that do known things to their heap, pass known values about and die in known ways,
and asks where blocks, values and deaths came from.

    causes.py TTQ PROGRAMS [NAME...]      TTQ: the binary; PROGRAMS: where programs/ was built
"""

import json
import os
import re
import subprocess
import sys
import tempfile

TTQ, PROGRAMS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])


def check(condition, *about):
    if not condition:
        raise AssertionError(" ".join(str(a) for a in about))


class Recording:
    def __init__(self, directory, name, *arguments):
        self.path = os.path.join(directory, "-".join((os.path.basename(name),) + arguments) + ".ttq")
        run = subprocess.run([TTQ, "record", "-q", "-o", self.path, os.path.join(PROGRAMS, name),
                              *arguments], capture_output=True, text=True, timeout=300)
        self.status, self.out = run.returncode, run.stdout

    def address(self, name):
        """What the program printed after a word."""
        return re.search(r"\b%s (0x[0-9a-f]+)" % name, self.out)[1]

    def ask(self, query, *options):
        run = subprocess.run([TTQ, "query", "-t", self.path, "-f", "json", *options, query],
                             capture_output=True, text=True, timeout=300)
        check(run.returncode == 0, query, run.stderr)
        return json.loads(run.stdout)

    def rows(self, query):
        return self.ask(query)["rows"]


# ---- The heap ------------------------------------------------------------------------------------

def heap(scratch):
    """Blocks of every function that makes some, as the program itself knows them."""
    r = Recording(scratch, "heap")

    def block(address, at="end"):
        rows = r.rows(f"heap {address} at {at}")
        check(len(rows) == 1, address, rows)
        return rows[0]

    kept = block(r.address("kept"))
    check(kept["state"] == "allocated" and kept["size"] == 32 and kept["usable"] == 40, kept)
    check(kept["allocated_with"] == "malloc" and "make_node" in kept["allocated_by"], kept)
    check(kept["freed_at"] is None and kept["position"] == "inside", kept)
    dropped = block(r.address("dropped") + "+3")
    check(dropped["state"] == "freed" and dropped["offset"] == 3, dropped)
    check("drop_node" in dropped["freed_by"] and dropped["freed_with"] == "free", dropped)
    check(dropped["allocated_at"] > kept["allocated_at"], dropped, kept)
    # As of its own life, and before it.
    then = block(r.address("dropped"), dropped["freed_at"])
    check(then["state"] == "allocated" and then["freed_at"] is None, then)
    before = r.ask(f"heap {r.address('dropped')} at {dropped['allocated_at']}")["rows"]
    check(all(row["position"] != "inside" for row in before), before)
    # realloc ends one block and makes another.
    grown = block(r.address("grown"), "(executions of use_node)")
    usable = int(re.search(r"grown \S+ usable (\d+)", r.out)[1])
    check(grown["size"] == 5000 and grown["usable"] == usable, grown, usable)
    check(grown["allocated_with"] == "realloc" and "grow" in grown["allocated_by"], grown)
    old = block(r.address("before"), grown["allocated_at"])
    check(old["size"] == 100 and old["allocated_with"] == "malloc", old)
    for name, with_, size in (("aligned", "posix_memalign", 300), ("also", "aligned_alloc", 128),
                              ("large", "malloc", 1 << 20)):
        row = block(r.address(name))
        check((row["allocated_with"], row["size"]) == (with_, size), name, row)
        check(row["state"] == "freed" and "main" in row["freed_by"], row)
    mapped = block(r.address("mapped"))
    check(mapped["allocated_with"] == "mmap" and "main" in mapped["allocated_by"], mapped)
    unmapped = block(r.address("unmapped"))
    check(unmapped["state"] == "freed" and unmapped["freed_with"] == "munmap", unmapped)
    # Behind a block: its neighbours.
    outside = r.rows(f"heap {r.address('kept')}+40")
    check([row["position"] for row in outside][0] == "8 after its end", outside)
    check(outside[1]["begin"] > outside[0]["begin"], outside)
    # Nothing of the heap.
    none = r.ask("heap $rsp")
    check(none["rows"] == [] and "stack of thread 1" in none["note"], none)
    check("null pointer" in r.ask("heap 8")["note"], "null")
    leaks = {row["allocated_by"].split()[0]: row for row in r.rows("heap leaks")}
    check((leaks["leak_text"]["blocks"], leaks["leak_text"]["bytes"]) == (5, 150), leaks)
    check(leaks["make_node"]["blocks"] == 1, leaks)
    # The index is kept; without the file, and with a damaged one, the answer is the same.
    files = [f for f in os.listdir(r.path) if f.startswith("heap-")]
    check(len(files) == 1, files)
    again = r.rows("heap leaks")
    path = os.path.join(r.path, files[0])
    with open(path, "r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(b"damage")
    check(r.rows("heap leaks") == again, "after damage")
    os.unlink(path)
    check(r.rows("heap leaks") == again, "without the file")


def mistakes(scratch):
    """Use after free, double free."""
    r = Recording(scratch, "heap", "use-after-free")
    address = r.address("dropped")
    last = r.rows(f"last read of {address} len 32 by use_node")[0]
    check(last["function"] == "use_node", last)
    answer = r.ask(f"heap {last['address']} at {last['time']}")
    check("use after free: freed at" in answer["note"] and "drop_node" in answer["note"], answer)
    calm = r.ask(f"heap {last['address']} at {last['time']} + 1")
    check("use after free" not in calm["note"], calm)
    r = Recording(scratch, "heap", "double-free")
    check(r.status == 128 + 6, r.status)
    answer = r.ask(f"heap {r.address('dropped')}")
    check("double free: free again at" in answer["note"], answer["note"])


# ---- Origins -------------------------------------------------------------------------------------

def origins(scratch):
    """Values followed back through optimised code."""
    r = Recording(scratch, "origin")
    check(r.status == 0, r.status)

    def trace(query):
        hops = r.rows("origin of " + query)
        check(hops and [h["hop"] for h in hops] == list(range(len(hops))), query, hops)
        times = [h["time"] for h in hops]
        check(times == sorted(times, reverse=True), "times go back", times)
        return hops

    hops = trace("constant_result")
    check(hops[-1]["kind"] == "constant" and hops[-1]["origin"] == "$0x4d", hops)
    check(hops[-1]["function"] == "set_constant", hops)
    hops = trace("computed_result")
    check(hops[-1]["kind"] == "computation" and hops[-1]["function"] == "multiply", hops)
    check("0x4d" in hops[-1]["origin"] and "0x3" in hops[-1]["origin"], hops)
    hops = trace("input_result")
    check(hops[-1]["kind"] == "syscall" and hops[-1]["origin"].startswith("read("), hops)
    check(trace("small_copy")[-1]["kind"] == "syscall", "a copy by vector registers")
    # memcpy's vector registers, a heap block, a global: back to where the number was written.
    hops = trace("copied_result")
    check(hops[-1]["function"] == "set_constant" and hops[-1]["kind"] == "constant", hops)
    check(any("%ymm" in h["location"] or "%xmm" in h["location"] for h in hops), hops)
    check(all(h["value"] == "0x4d" for h in hops), hops)
    hops = trace("allocated_result")
    check(hops[-1]["kind"] == "allocation" and "malloc(200) for main" in hops[-1]["origin"], hops)
    hops = trace("file_result")
    check(hops[-1]["kind"] == "file" and hops[-1]["value"] == "0x1234", hops)
    check(trace("conditional_result")[-1]["kind"] == "syscall", "a conditional move")
    # The struct by value: `out` is what the caller passed, `in` was overwritten on the way.
    hops = trace("argument_result")
    check(hops[-1]["function"] == "set_constant" and len(hops) >= 4, hops)
    hops = trace("clobbered_result")
    check(hops[-1]["kind"] == "constant" and hops[-1]["function"] == "clear", hops)
    # The same, asked where the callee is entered: its first argument is in %rdi.
    hops = trace("$rdi at (executions of callee)")
    check(hops[0]["function"] == "caller" and hops[-1]["function"] == "clear", hops)
    # In full depth or not.
    cut = r.ask("origin of copied_result depth 2")
    check(len(cut["rows"]) == 2 and "depth" in cut["note"], cut)
    wrong = subprocess.run([TTQ, "query", "-t", r.path, "origin of $rzx"], capture_output=True,
                           text=True)
    check(wrong.returncode == 2 and "there is no register $rzx" in wrong.stderr, wrong.stderr)
    wrong = subprocess.run([TTQ, "query", "-t", r.path, "origin of counter depth 0"],
                           capture_output=True, text=True)
    check(wrong.returncode == 2, wrong.stderr)


def extensions(scratch):
    """A number that every instruction on its way leaves as it is has one origin; one that an
    instruction makes of it ends there, and the answer says from what."""
    r = Recording(scratch, "extensions")
    check(r.status == 0, r.status)
    count = 31
    values = [row["value"] for row in r.rows("writes to passed")]
    check(values == ["0x4d"] * count, values)
    for i in range(count):
        hops = r.rows(f"origin of passed[{i}] depth 40")
        check(hops[-1]["kind"] == "constant" and hops[-1]["function"] == "set_source", i, hops)
        check(all(int(hop["value"], 16) == 77 for hop in hops), i, hops)
    inputs = ["%rax = 0x4d"] * 8 + ["%rax = 0x4d, %rax = 0x4d", "%rax = 0x4d, $0x3", "%rax = 0x4d"]
    for i, text in enumerate(inputs):
        hops = r.rows(f"origin of made[{i}]")
        check(hops[-1]["kind"] == "computation" and hops[-1]["function"] == "make", i, hops)
        check(text == hops[-1]["origin"] if i >= 8 else text in hops[-1]["origin"], i, hops)
    for i, text in ((11, "%rax * 4 + 0x8"), (12, "%rax * 8")):
        hops = r.rows(f"origin of made[{i}]")
        check([h["origin"] for h in hops if h["kind"] == "address"] == [text], i, hops)
        check(hops[-1]["kind"] == "constant" and hops[-1]["function"] == "set_source", i, hops)


# ---- Crashes -------------------------------------------------------------------------------------

# name: signal, cause, other columns that must match
CRASHES = {
    "null": ("SIGSEGV", "a null pointer", {"address": "0x0", "access": "read",
                                           "function": "second_id", "word_memory": "new_item"}),
    "null-array": ("SIGSEGV", "a null pointer", {"address": "0x10", "function": "sum_from", "word_memory": "new_item"}),
    "use-after-free": ("SIGSEGV", "use after free", {"stale_pointer": '"dangling".*freed at .* by release'}),
    "read-after-free": ("SIGSEGV", "use after free", {"function": "second_id",
                                                      "word_memory": "freed at .* by release"}),
    "double-free": ("SIGABRT", "double free", {"memory": "freed at .* by release",
                                               "message": "double free"}),
    "double-free-kept": ("SIGABRT", "double free", {"origin": "malloc\\([0-9]+\\) for new_item"}),
    "bad-free": ("SIGABRT", "free of a pointer", {"memory": "16 bytes into a block of 64"}),
    "out-of-bounds": ("SIGSEGV", "wild pointer", {"operands": "0x4141414141414141"}),
    "overflow": ("SIGSEGV", "stack overflow", {"function": "deep"}),
    "corrupted-pointer": ("SIGSEGV", "a jump to where no code is",
                          {"address": "0x123456789a", "access": "execute"}),
    "null-member": ("SIGSEGV", "a null pointer", {"address": "0x8", "access": "read"}),
    "small": ("SIGSEGV", "a small number, 8, where a pointer should be",
              {"address": "0x8", "access": "read", "function": "weigh_first"}),
    "jump-8": ("SIGSEGV", "a jump to a small number, 8", {"address": "0x8", "access": "execute"}),
    "jump-0": ("SIGSEGV", "a jump to a null pointer", {"word_memory": "new_item"}),
    "return": ("SIGSEGV", "return address on the stack was overwritten",
               {"last_writes": "smash"}),
    "divide": ("SIGFPE", "division by zero", {"function": "main", "origin": "zero"}),
    "test": ("SIGSEGV", "a null pointer", {"address": "0xa9", "access": "read"}),
    "alarm": ("SIGALRM", "the kernel sent SIGALRM", {"function": "pause"}),
    "raise": ("SIGUSR1", "the program raised SIGUSR1", {}),
    "sent": ("SIGTERM", "process [0-9]+ sent SIGTERM", {"function": "pause"}),
    "illegal": ("SIGILL", "does not have", {"instruction": "ud2"}),
    "breakpoint": ("SIGTRAP", "a breakpoint", {"instruction": "int3"}),
    "privileged": ("SIGSEGV", "only the kernel may execute", {"instruction": "hlt"}),
    "abort": ("SIGABRT", "called abort", {"message": "this cannot be"}),
    "read-only": ("SIGSEGV", "may not be written", {"access": "write"}),
    "non-canonical": ("SIGSEGV", "a wild pointer", {"address": "0x4141414141414141"}),
    "unmapped": ("SIGSEGV", "nothing is mapped", {"memory": "by munmap", "origin": "mmap"}),
    "bus": ("SIGBUS", "no contents", {"access": "write"}),
    "guard": ("SIGABRT", "a buffer overrun in guarded: its stack guard",
              {"word_memory": "stack guard of guarded", "last_writes": "overrun",
               "backtraces": '"function": "guarded".*"function": "main"'}),
    "stale": ("SIGSEGV", "use after free: a pointer to a freed block",
              {"stale_pointer": '"dangling".*"list, .*"stored_by": "main .*new_item .*freed at .* by release'}),
    "stale-copy": ("SIGSEGV", "use after free: a pointer to a freed block",
                   {"stale_pointer": '"dangling".*the start of a block of 8 .*new_item .*freed at .* by release'}),
    "deleted": ("SIGSEGV", "use after free: a pointer to a freed block",
                {"stale_pointer": '"dangling".*kept.*operator new.*freed at .* by .*~Named'}),
    "grown": ("SIGSEGV", "a null pointer", {"word_memory": "block of 990"}),
    "not-set": ("SIGSEGV", "an uninitialised pointer",
                {"stale_pointer": '"uninitialised".*16 bytes into a block .*"stored_by": "main'}),
    "not-set-by-malloc": ("SIGSEGV", "an uninitialised pointer",
                          {"stale_pointer": '"uninitialised".*8 bytes into a block .*"stored_by": ".*malloc'}),
    "returned": ("SIGSEGV", "use after return",
                 {"stale_pointer": '"dangling".*"list, .*"stored_by": "keep_local.*local variable of keep_local'}),
    "returned-deeper": ("SIGSEGV", "use after return", {"stale_pointer": '"dangling".*local variable of keep_local'}),
    "local-not-set": ("SIGSEGV", "an uninitialised pointer",
                      {"stale_pointer": '"uninitialised".*local variable of id_of_local.*"stored_by": "leave_behind'}),
    "heap-not": ("SIGABRT", "called abort", {"word": "null", "last_writes": "\\[\\]"}),
    "pure": ("SIGABRT", "a pure virtual function was called", {}),
    "thrown": ("SIGABRT", "an exception that nobody caught", {"message": "nobody wants this"}),
    "noexcept": ("SIGABRT", "an exception that nobody caught", {"message": "nobody wants this"}),
    "terminate": ("SIGABRT", "called std::terminate", {}),
    "named": ("SIGABRT", "called abort", {}),
}
OF_CC = ("pure", "deleted", "thrown", "noexcept", "terminate", "named")


def crashes(scratch):
    """Every way to die, and what is said of it."""
    for name, (signal, cause, columns) in CRASHES.items():
        program = "faults_cc" if name in OF_CC else "faults"
        r = Recording(scratch, program, name)
        check(r.status > 128, name, "did not die:", r.status)
        rows = r.rows("crash")
        check(len(rows) == 1, name, rows)
        row = rows[0]
        check(row["signal"] == signal and re.search(cause, row["cause"]), name, row["signal"], row["cause"])
        for column, pattern in columns.items():
            check(re.search(pattern, json.dumps(row[column])), name, column, row[column])
        if "stale_pointer" in columns:
            said = subprocess.run(["valgrind", "-q", os.path.join(PROGRAMS, program), name], capture_output=True,
                                  text=True, timeout=300).stderr
            if name.startswith("returned"):
                continue  # memcheck does not tell
            of_memcheck = "free'd.*(release|~Named|Delete)" if row["stale_pointer"]["state"] == "dangling" else "ninitialised value"
            check(re.search(of_memcheck, said, re.S), name, "memcheck:", said)
        elif "free" not in name:
            check(row["stale_pointer"] is None, name, row["stale_pointer"])
        check(row["backtraces"][0]["thread"] == 1 and row["backtraces"][0]["frames"], name, row)
        text = subprocess.run([TTQ, "crash", r.path], capture_output=True, text=True, timeout=300)
        check(text.returncode == 0 and text.stdout.startswith(f"{signal}: "), name, text.stdout,
              text.stderr)
        check(len(text.stdout.splitlines()) <= 60, name, "more than a screen")
        first = subprocess.run([TTQ, "-t", r.path, "crash"], capture_output=True, text=True,
                               timeout=300)
        check(first.stdout == text.stdout, name, "ttq -t TRACE crash", first.stdout, first.stderr)
        as_json = subprocess.run([TTQ, "crash", "-f", "json", r.path], capture_output=True,
                                 text=True, timeout=300)
        check(json.loads(as_json.stdout)["rows"] == rows, name, "ttq crash -f json")
    r = Recording(scratch, "faults", "nothing")
    answer = r.ask("crash")
    check(answer["rows"] == [] and "did not crash: it exited with status 0" in answer["note"], answer)


# name: cause, what the word is, who wrote it
CORRUPTIONS = {
    "heap-after": ("outside of blocks", "block of 100 bytes that malloc gave give", "overrun"),
    "heap-before": ("outside of blocks", "8 bytes (after|before) a block of [0-9]+ bytes", "overrun"),
    "heap-freed": ("a freed block was written to", "freed at [0-9]+ by take", "overrun"),
    "heap-freed-large": ("a freed block was written to", "freed at [0-9]+ by take", "overrun"),
    "heap-divided": ("outside of blocks", "after a block of 80 bytes", "overrun"),
    "heap-read": ("outside of blocks", "block of 100 bytes", "read.* for read_too_much"),
}


def corruption(scratch):
    """Where the allocator gives up, the write that its data were overwritten by: the line that memcheck finds."""
    for name, (cause, memory, writer) in CORRUPTIONS.items():
        r = Recording(scratch, "faults", name)
        row = r.rows("crash")[0]
        check(re.search("heap corruption: .*" + cause, row["cause"]), name, row["cause"], row["message"])
        check(re.search(memory, row["word_memory"]), name, row["word_memory"])
        writers = [w["by"] for w in row["last_writes"]]
        check(re.search(writer, writers[0]), name, writers)
        check(row["origin"] and row["origin"][0]["time"] == row["last_writes"][0]["time"], name, row["origin"])
        found = subprocess.run(["valgrind", "-q", os.path.join(PROGRAMS, "faults"), name], capture_output=True,
                               text=True, timeout=300).stderr
        if "read" in writer:
            check(re.search(r"read\(buf\) points to unaddressable.*?read_too_much", found, re.S), name, found)
            continue
        places = re.findall(r"Invalid write of size.*\n.*: (\w+ \(faults.c:\d+\))", found)
        check(writers[0] in places, name, writers, found)
    for name in ("heap-trimmed", "heap-forked"):  # what glibc writes outside of malloc and free is its own
        row = Recording(scratch, "faults", name).rows("crash")[0]
        check(row["cause"] == "the memory there may not be read" and "malloc" in row["function"], name, row["cause"])


# The sanitizer: a program with a mistake, what the cause is.
SANITIZED = {
    "address": ("char* p = malloc(10); use(p); free(p); p[2] = 1;", "^AddressSanitizer: heap-use-after-free .*mistake"),
    "thread": ("pthread_t t; pthread_create(&t, 0, other, 0); count++; pthread_join(t, 0);",
               "^ThreadSanitizer: data race .* in "),
    "undefined": ("int three[3]; use(three); three[argc + 2] = 1;", "^UndefinedBehaviorSanitizer: .*mistake"),
}
WITH_MISTAKE = """#include <pthread.h>
#include <stdlib.h>
int count;
__attribute__((noinline)) void use(void* p) { __asm__ volatile("" : : "r"(p) : "memory"); }
void* other(void* p) { count++; return p; }
int main(int argc, char** argv) { %s return argc - 1; }
"""


def sanitizers(scratch):
    """Programs that a sanitizer watches: its own memory has room beside the engine's, and its report is the cause."""
    for name, (mistake, cause) in SANITIZED.items():
        source, program = os.path.join(scratch, "mistake.c"), os.path.join(scratch, "sanitized-" + name)
        with open(source, "w", encoding="utf-8") as file:
            file.write(WITH_MISTAKE % mistake)
        subprocess.run(["cc", "-g", "-pthread", f"-fsanitize={name}", "-fno-sanitize-recover=all", source, "-o", program],
                       check=True)
        for variable in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"):
            os.environ[variable] = "abort_on_error=1:halt_on_error=1:print_summary=1:detect_leaks=0"
        r = Recording(scratch, program)
        check(r.status == 134, name, r.status)
        row = r.rows("crash")[0]
        check(re.search(cause, row["cause"]), name, row["cause"], row["message"])
        check("anitizer: " in row["message"] or "runtime error" in row["message"], name, row["message"])
        check('"function": "main"' in json.dumps(row["backtraces"]) or name == "thread", name, row["backtraces"])


def threads(scratch):
    """A crash while other threads wait: all of their stacks."""
    r = Recording(scratch, "faults", "threads")
    check(r.status == 128 + 11, r.status)
    row = r.rows("crash")[0]
    check(row["cause"] == "a null pointer" and row["thread"] == 1, row["cause"])
    check(len(row["backtraces"]) == 4 and row["backtraces"][0]["thread"] == 1, row["backtraces"])
    for thread in row["backtraces"][1:]:
        check(any(f["function"] == "wait_for_ever" for f in thread["frames"]), thread)


def disassembly(scratch):
    """The current instruction is marked, with what its operands hold."""
    r = Recording(scratch, "faults", "null")
    rows = r.rows("disassemble second_id at crash")
    current = [row for row in rows if row["current"]]
    check(len(current) == 1 and "= 0x0" in current[0]["values"], rows)
    check(current[0]["address"] == r.rows("registers at crash")[0]["pc"], current)


def main():
    tests = {f.__name__: f for f in (heap, mistakes, origins, extensions, crashes, corruption, sanitizers,
                                      threads, disassembly)}
    failed = 0
    for name in sys.argv[3:] or list(tests):
        with tempfile.TemporaryDirectory(prefix="ttq-causes-") as scratch:
            try:
                tests[name](scratch)
                print(name, "ok", flush=True)
            except AssertionError as e:
                failed += 1
                print(name, "FAILED:", e, flush=True)
    sys.exit(1 if failed else 0)


main()

# SPDX-License-Identifier: MIT
"""Records real programs and checks that recording changes nothing and misses nothing.

Each case runs natively and under `ttq record --verify`, which compares all of the program's memory
with the recording at every block end and its registers at every block start. Output and exit status
must be the same, and no difference may be found. A case whose program is not installed is skipped.

    run.py [--engine=native|valgrind|PATH] TTQ PROGRAMS [NAME...]

TTQ: the binary; PROGRAMS: where programs/ was built; PATH: of a native engine other than TTQ's.

The part "programs" is all of the cases; "again" runs the first process of each again, from its control
records alone, and compares all of its stream (run_again.cc); "inputs" records the smaller cases by their inputs,
and makes the history of all its processes from these. "own" is all three of the programs made here.
"""

import bisect
import collections
import concurrent.futures
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from interpreters import interpreters  # noqa: E402
from processes import children_of  # noqa: E402

ENGINE = [sys.argv.pop(1)] if sys.argv[1].startswith("--engine=") else []
OTHER = ENGINE[0].partition("=")[2] if ENGINE and "/" in ENGINE[0] else None
if OTHER:
    ENGINE = ["--engine=native"]
TTQ, PROGRAMS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
RECORD = [TTQ, "record", "-q", *ENGINE]
HERE = os.path.dirname(os.path.abspath(__file__))
SCRATCH = tempfile.mkdtemp(prefix="ttq-record-")
TOOLS = os.path.join(os.path.dirname(TTQ), "libexec/ttq")
if OTHER:  # in place of its own, among its other tools
    tools = os.path.join(SCRATCH, "tools")
    os.mkdir(tools)
    for tool in os.listdir(TOOLS):
        os.symlink(OTHER if tool == "ttq-engine" else os.path.join(TOOLS, tool), os.path.join(tools, tool))
    TOOLS = tools

Case = collections.namedtuple("Case", "name command input")
Result = collections.namedtuple("Result", "status out err")


def run(command, given=b"", **options):
    p = subprocess.run(command, input=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       timeout=900, **options)
    return Result(p.returncode if p.returncode >= 0 else 128 - p.returncode, p.stdout, p.stderr)


def environment():
    return dict(os.environ, TTQ_HOME=os.path.join(SCRATCH, "home"), TTQ_TOOL_DIR=TOOLS, LC_ALL="C")


def record(command, *flags, given=b""):
    """Runs `ttq record`; the recording is thrown away."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as d:
        place = os.path.join(d, "recording")
        return run([*RECORD, "-o", place, *flags, *command], given, env=environment())


def check(condition, *about):
    if not condition:
        raise AssertionError(" ".join(str(a) for a in about))


# ---- Cases that are one command ------------------------------------------------------------------

def ours(name, *arguments, given=b""):
    label = " ".join((name,) + arguments)
    return Case(label, [os.path.join(PROGRAMS, name), *arguments], given)


def installed(name, command, given=b""):
    return Case(name, command if shutil.which(command[0]) else None, given)


def cases():
    for name in ("instructions", "avx2", "signals", "memory", "syscalls", "confined", "code",
                 "exceptions", "processes", "spawn", "threads", "bare", "siginfo", "fault_ends"):
        yield ours(name)
    if ENGINE != ["--engine=valgrind"]:  # its recording of it is compared with the native engine's, see native_threads
        yield ours("pthreads")
        yield ours("placed")
        yield ours("block_ends")
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            has = {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= set(file.read().split())
        yield ours("avx512") if has else Case("avx512", None, b"")
        yield installed("node", ["node", "-e", "console.log([3, 1, 2].sort(), JSON.stringify({a: 1}))"])
    # Every way to end.
    for end in ("exit 0", "exit 7", "thread 9", "last 3", "raise 1", "raise 4", "raise 6", "raise 8",
                "raise 9", "raise 11", "raise 15", "raise 31", "kill 2", "kill 9", "segv", "jump 0",
                "jump 64", "divide 0", "illegal", "trap", "general", "abort", "overflow", "privileged",
                "beyond 0", "beyond 1", "queue 10", "queue 31", "queue 40", "kill 7", "kill 31"):
        yield ours("end", *end.split())
    script = os.path.join(HERE, "programs", "stdlib.py")
    for version, path in interpreters():
        yield Case("python " + ".".join(map(str, version)), [path, script], b"")
    numpy = run(["/usr/bin/python3", "-c", "import numpy"]).status == 0
    yield Case("numpy", ["/usr/bin/python3", os.path.join(HERE, "programs", "arrays.py")]
               if numpy else None, b"")
    yield installed("pypy3", ["pypy3", os.path.join(HERE, "programs", "loop.py")])
    yield installed("gdb", ["gdb", "--version"])
    yield installed("git", ["git", "-C", HERE, "log", "-3", "--stat"])
    yield installed("sqlite3", ["sqlite3", ":memory:"], b"""
        create table t(a, b); insert into t values (1, 'x'), (2, 'y');
        with recursive c(x) as (select 1 union all select x + 1 from c where x < 3000)
        select sum(x), (select group_concat(b) from t) from c;""")
    source = os.path.join(HERE, "programs", "bare.c")
    yield installed("gcc", ["gcc", "-c", "-O2", source, "-o", os.path.join(SCRATCH, "bare.o")])
    yield Case("make", ["make", "-s", "-f", os.path.join(HERE, "programs", "Makefile")]
               if shutil.which("make") else None, b"")
    yield Case("shell", ["sh", "-c", "ls /usr | wc -l; cat | tr a-z A-Z; (exit 3); echo $?; exit 5"],
               b"through a pipe\n")
    yield Case("#!", [os.path.join(HERE, "programs", "script.sh"), "a b", "c"], b"")
    yield Case("env", ["env"], b"")
    # More than a block before the program begins.
    yield Case("arguments", ["echo", *["x" * 100000] * 19], b"")
    yield Case("env with LD_PRELOAD", ["env", "LD_PRELOAD=libm.so.6", "env"], b"")


def compare(case):
    if case.command is None:
        return "skipped: not installed"
    native = run(case.command, case.input, env=environment())
    ways = [["--verify", "--block-size", "1"]]
    if case.command[0].startswith(PROGRAMS):
        ways.append([])  # without the waits of --verify
    for flags in ways:
        compare_one(case, native, flags)
    return "ok"


def compare_one(case, native, flags):
    recorded = record(case.command, *flags, given=case.input)
    check(recorded.status == native.status, "exit status", recorded.status, "instead of",
          native.status, recorded.err.decode(errors="replace"))
    check(recorded.out == native.out, "output", recorded.out[:2000], "instead of", native.out[:2000])
    # A shell says on stderr what killed its child, and so on: that must be the same too.
    check(recorded.err == native.err, "stderr", recorded.err[:2000], "instead of", native.err[:2000])


def run_again(case, *flags, wanted=rb"the same: .* inputs\n"):
    if case.command is None:
        return "skipped: not installed"
    r = run([os.path.join(PROGRAMS, "run_again"), *flags, *case.command], case.input,
            env=environment())
    said = re.search(wanted, r.out)
    check(r.status == 0 and said, flags, r.out[-500:], r.err[-1000:].decode(errors="replace"))
    return said[0].decode().strip()


def comparable(answer):
    """Answers without what their own making determines."""
    documents = [json.loads(line) for line in answer.splitlines()]
    for document in documents:
        for key in ("bytes_on_disk", "trace", "elapsed_ms"):
            document.pop(key, None)
    return documents


def inputs(case):
    """A program that is recorded by its inputs alone behaves as it does natively, and has a history."""
    if case.command is None:
        return "skipped: not installed"
    native = run(case.command, case.input, env=environment())
    with tempfile.TemporaryDirectory(dir=SCRATCH) as d:
        place = os.path.join(d, "recording")

        def ask(*words):
            r = run([TTQ, *words], env=environment())
            check(r.status == 0 or b"nothing of process" in r.err, words, r.out[-500:], r.err[-1000:].decode(errors="replace"))
            return r.out

        recorded = run([*RECORD, "--block-size", "1", "-o", place, *case.command], case.input,
                       env=environment())
        check((recorded.status, recorded.out, recorded.err) == (native.status, native.out, native.err), "natively",
              native.status, native.out[-500:], native.err[-500:], "recorded", recorded)
        before = json.loads(ask("info", "--indexed", "-f", "json", place))
        ask("index", place)
        answers = [("info", "-f", "json", place), ("-t", place, "-p", "all", "-f", "json", "events")]
        if native.status != 128 + signal.SIGKILL:  # else nothing was handed over
            answers.append(("-t", place, "-f", "json", "registers at end"))
        first = [comparable(ask(*words)) for words in answers]
        check(len(first[0][0]["processes"]) == before["inputs"], "processes", first[0], before)
        if not case.command[0].startswith(PROGRAMS):
            return "%d processes" % before["inputs"]
        check(b"ok: " in ask("check", place))
        ask("index", "--drop", place)
        ask("index", place)
        check([comparable(ask(*words)) for words in answers] == first, "not the same a second time")
    return "%d processes" % before["inputs"]


def index_in_segments(place, kill=False):
    """By four threads; the largest number of segments that were logged at one time. Kills one of the first that
    there are."""
    most = 0
    with subprocess.Popen([TTQ, "index", "-j", "4", place], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment()) as p:
        while p.poll() is None:
            segments = [s for engine in children_of(p.pid) for s in children_of(engine)]
            most = max(most, len(segments))
            if kill and segments:
                os.kill(segments[-1], signal.SIGKILL)
                break
            time.sleep(0.002)
        out, err = p.communicate(timeout=600)
    return Result(p.returncode, out, err), most


def segments():
    """A second run that is divided into segments, logged side by side, has the rows of one that is not."""
    programs = os.path.join(HERE, "programs")
    commands = {"family": ["/usr/bin/python3", os.path.join(programs, "family.py")],
                "pypy3": ["pypy3", os.path.join(programs, "loop.py")],
                "node": ["node", "-e", "console.log([3, 1, 2].sort())"]}
    compared = []
    for name, command in commands.items():
        if shutil.which(command[0]) is None:
            continue
        with tempfile.TemporaryDirectory(dir=SCRATCH) as d:
            place = os.path.join(d, "recording")
            run([*RECORD, "--block-size", "1", "-o", place, *command], env=environment())

            def rows():
                return run([os.path.join(PROGRAMS, "store_rows"), place]).out.decode()

            check(run([TTQ, "index", "-j", "2", place], env=environment()).status == 0, name)
            whole = rows()
            check("block" in whole, whole)
            run([TTQ, "index", "--drop", place], env=environment())
            result, most = index_in_segments(place)
            check(result.status == 0 and most > 1, name, result, most)
            check(rows() == whole, name, "has", rows(), "instead of", whole)
            run([TTQ, "index", "--drop", place], env=environment())
            result, most = index_in_segments(place, kill=True)
            check(result.status == 3 and b"a process of the second run was killed" in result.err, result)
            check(os.listdir(place) == ["inputs"], os.listdir(place))
            compared.append(name)
    return " ".join(compared)


def again_damaged():
    """Inputs that are not what they were hurt nobody."""
    for seed in range(20):
        run_again(ours("signals"), "--damage=%d" % seed, wanted=rb"the same: |noticed: ")
    return "ok"


# ---- Others --------------------------------------------------------------------------------------

def moments():
    """The state at a time, however one got there, is what the store says of that time."""
    for name in ("memory", "threads", "processes", "exceptions"):
        with tempfile.TemporaryDirectory(dir=SCRATCH) as d:
            place = os.path.join(d, "recording")
            run([*RECORD, "--index=all", "-o", place, "--block-size", "1",
                 os.path.join(PROGRAMS, name)], env=environment())
            out = run([os.path.join(PROGRAMS, "compare_moments"), place, "80"])
            check(out.status == 0, name, out.out.decode())
    return "ok"


def spans():
    """What was written many groups ago is still there, and what was not written is not."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as d:
        place = os.path.join(d, "recording")
        run([*RECORD, "--index=all", "-o", place, "--block-size", "1", os.path.join(PROGRAMS, "spans")],
            env=environment())

        def ask(query):
            out = run([TTQ, "-t", place, "-f", "json", query], env=environment())
            check(out.status == 0, query, out.err.decode())
            return json.loads(out.out)["rows"]

        blocks = run([TTQ, "info", "-f", "json", place], env=environment())
        blocks = json.loads(blocks.out)["processes"][0]["blocks"]
        check(blocks > 17 * 32, blocks, "blocks are too few for a span of groups")
        # The log says when; the content of pages is what is looked at.
        marks = (0, 1, 12, 13, 31)
        times = [ask("last write to page_marks[%d][%d]" % (m, m))[0]["time"] for m in marks]
        check(times == sorted(times), times)
        for at in (times[1] + 1, times[-1] + 1):
            want = [m + 1 if t < at else 0 for m, t in zip(marks, times)]
            have = [int(ask("print page_marks[%d][%d] at %d" % (m, m, at))[0]["value"]) for m in marks]
            check(have == want, at, have)
        out = run([TTQ, "check", place], env=environment())
        check(out.status == 0, out.out.decode(), out.err.decode())
        return "%d blocks" % blocks


def slices(text):
    """The lines of kernel_writes and mappings: address, size, result, name."""
    lines = [line.split(" ", 3) for line in text.decode().splitlines()]
    check(len(lines) > 40, text)
    return [(int(a, 16), int(size), int(result), name) for a, size, result, name in lines]


def differences(place, recorded, want):
    """The slices of which the recording has other bytes at its end than `want`."""
    stride = recorded[1][0] - recorded[0][0]
    different = []
    for first_of_part in range(0, len(recorded), 60):
        part = recorded[first_of_part:first_of_part + 60]
        r = run([TTQ, "-t", place, "-f", "json", "memory %d len %d at end"
                 % (part[0][0], stride * len(part))], env=environment())
        check(r.status == 0, r)
        have = {}
        for row in json.loads(r.out)["rows"]:
            address, memory = int(row["address"], 16), bytes.fromhex(row["bytes"] or "")
            have.update(zip(range(address, address + len(memory)), memory))
        for i, (address, size, result, name) in enumerate(part, first_of_part):
            # What cannot be read is zero in `want`.
            if any(have.get(address + n, 0) != b
                   for n, b in enumerate(want[i * size:(i + 1) * size])):
                different.append((name, result))
    return different


def mappings():
    """What other means than stores did to memory is in the recording."""
    program = os.path.join(PROGRAMS, "mappings")
    with tempfile.TemporaryDirectory(dir=SCRATCH) as d:
        r = run([*RECORD, "-o", d + "/recording", program, d + "/recorded"],
                env=environment())
        check(r.status == 0, r)
        with open(d + "/recorded", "rb") as f:
            recorded = slices(r.out)
            lost = differences(d + "/recording", recorded, f.read())
        check(not lost, "lost:", lost)
        return "ok: %d cases" % len(recorded)


def shared_memory():
    """What others may write does not pass for complete, in the parent or in the child."""
    program = os.path.join(PROGRAMS, "shared")
    for how, processes, complete in (("private", "12", True), ("anonymous", "12", False),
                                     ("file", "12", False), ("sysv", "1", False)):
        with tempfile.TemporaryDirectory(dir=SCRATCH) as d:
            place = os.path.join(d, "recording")
            r = run([*RECORD, "-o", place, program, how], env=environment())
            check(r.status == 0, how, r)
            for process in processes:
                r = run([TTQ, "query", "-t", place, "-p", process, "-f", "json",
                         "memory 0x30000064 len 1 at end"], env=environment())
                answer = json.loads(r.out)
                check(answer["complete"] is complete, how, process, answer)
    return "ok"


def kernel_writes():
    """What each system call wrote is in the recording, and nothing that it did not write."""
    program = os.path.join(PROGRAMS, "kernel_writes")
    with tempfile.TemporaryDirectory(dir=SCRATCH) as d:
        # What three native runs leave as it was, whatever it was, the kernel does not write; of two,
        # one in 200 had a byte of getrandom's that is either by chance.
        natives = []
        for poison in ("165", "90", "60"):
            r = run([program, d + "/native", poison])
            check(r.status == 0, r)
            with open(d + "/native", "rb") as f:
                natives.append((slices(r.out), f.read()))
        (native, first), (_, second), (_, third) = natives
        lost, claimed = [], {}
        # With a thread that runs whenever it can, what is not told is not told from its doing.
        for flags, words in (["--verify"], []), ([], ["busy"]):
            place = os.path.join(d, "recording" + "".join(words))
            r = run([*RECORD, "-o", place, *flags, program, d + "/recorded", "165",
                     *words], env=environment())
            check(r.status == 0 and b"verify" not in r.err, r)
            recorded = slices(r.out)
            check([s[3] for s in recorded] == [s[3] for s in native], r.out)
            with open(d + "/recorded", "rb") as f:
                want = f.read()
            lost += differences(place, recorded, want)
        check(not lost, "lost:", lost)
        # Padding counts as written where all around it is.
        r = run([TTQ, "-t", place, "-f", "jsonl", "writes to %d..%d | where actor != 'instruction' | "
                 "select address, size" % (native[0][0], native[-1][0] + native[-1][1])],
                env=environment())
        starts = [s[0] for s in native]
        for line in r.out.splitlines():
            write = json.loads(line)
            address = int(write["address"], 16)
            i = bisect.bisect_right(starts, address) - 1
            for byte in range(address - starts[i], address - starts[i] + write["size"]):
                at = i * native[i][1] + byte
                if byte < native[i][1] and (first[at], second[at], third[at]) == (165, 90, 60):
                    claimed.setdefault(native[i][3], []).append(byte)
        check(starts and len(r.out) > 300, r)
        padded = ("getdents", "FS_IOC", "FIGETBSZ", "SIOCGIF", "recvmsg, credentials", "recvmmsg",
                  "SCM_RIGHTS", "waitid, pidfd")
        wrong = {name: b for name, b in claimed.items() if not name.startswith(padded)}
        check(not wrong, "not written, but recorded as written:", wrong)
        return "ok: %d calls" % len(native)


def descriptors():
    """Descriptors and signals are the program's own, whatever is closed and ignored."""
    program = os.path.join(PROGRAMS, "descriptors")
    for closed in ("", "<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-",
                   "3</dev/null 5>&1", "<&- 4</dev/null"):
        told = []
        for words in [], [*RECORD, "-o", os.path.join(SCRATCH, "descriptors")]:
            out = os.path.join(SCRATCH, "descriptors.out")
            ignored = "trap '' PIPE USR1; " if "3" in closed else ""
            r = run(["sh", "-c", ignored + 'exec "$@" ' + closed, "sh", *words, program, out],
                    env=environment())
            check(r.status == 0, closed, r)
            with open(out) as f:
                told.append(f.read())
            os.remove(out)
        check(told[0].count("\n") == 4, told)
        check(told[0] == told[1], closed, told[1], "instead of", told[0])
        check(run([TTQ, "check", os.path.join(SCRATCH, "descriptors")], env=environment()).status == 0)
        shutil.rmtree(os.path.join(SCRATCH, "descriptors"))
    return "ok"


def lackey():
    """Accesses of a program, count for count, as Valgrind's own lackey sees them. (Its instructions are not
    a processor's; see lockstep.py.)"""
    bare = os.path.join(PROGRAMS, "bare")
    log = os.path.join(SCRATCH, "lackey")
    run(["valgrind", "-q", "--tool=lackey", "--trace-mem=yes", "--basic-counts=no",
         "--vex-iropt-register-updates=allregs-at-each-insn", "--log-file=" + log, bare])
    valgrind = ENGINE == ["--engine=valgrind"]
    expected = collections.Counter()
    last = None
    for line in open(log):
        m = re.match(r"[I ]([LSM ])\s*([0-9a-f]+),(\d+)", line)
        if not m or line[0] == "I":
            last = None
            continue
        kind, address, size = m.group(1), int(m.group(2), 16), int(m.group(3))
        # Valgrind has two loads of an atomic instruction, of which a processor makes one.
        if not valgrind and (kind, last) == ("M", ("L", address, size)):
            kind = "S"
        last = (kind, address, size)
        for k in "LS" if kind == "M" else kind:
            expected[k, address, size] += 1
    tool = os.path.join(os.path.dirname(TTQ), "libexec", "ttq")
    out = run([os.path.join(PROGRAMS, "dump_accesses"), "valgrind" if valgrind else "native", tool, bare])
    check(out.status == 0, "dump_accesses", out.status, out.err)
    actual = collections.Counter()
    for line in out.out.decode().splitlines():
        kind, rest = line.split()
        address, size = rest.split(",")
        actual[kind, int(address, 16), int(size)] += 1
    check(sum(expected.values()) > 20000, "lackey saw only", sum(expected.values()), "accesses")
    check(actual == expected, "only recorded:", list((actual - expected).items())[:10],
          "only in lackey:", list((expected - actual).items())[:10])
    return "ok: %d accesses" % sum(actual.values())


def interrupted():
    """Ctrl-C goes to the program; ttq ends as it does."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as d:
        p = subprocess.Popen([*RECORD, "-o", d + "/recording", "--verify",
                              os.path.join(PROGRAMS, "end"), "wait"], stdout=subprocess.PIPE,
                             env=environment(), start_new_session=True)
        while b"waiting" not in p.stdout.readline():
            pass
        time.sleep(0.3)
        os.killpg(p.pid, signal.SIGINT)
        check(p.wait(60) == 130, "exit status", p.returncode)
        p.stdout.close()
    return "ok"


def refused():
    """What cannot be run is said plainly, with the statuses of env(1)."""
    def expect(command, status, *words):
        r = record(command)
        text = r.err.decode()
        check(r.status == status and all(w in text for w in words), command, r.status, text)

    expect(["no-such-program"], 127, "not found")
    expect(["/no/such/program"], 127, "/no/such/program")
    expect([HERE], 126, "not a program")
    expect([os.path.join(HERE, "run.py")], 126, "no permission")
    setuid = os.path.join(SCRATCH, "setuid")
    shutil.copy(os.path.join(PROGRAMS, "end"), setuid)
    if os.geteuid() == 0:
        os.chown(setuid, 65534, 65534)
        os.chmod(setuid, 0o4755)
        expect([setuid], 126, "set-user-id")
    # The header of a 32-bit program.
    narrow = os.path.join(SCRATCH, "narrow")
    with open(os.path.join(PROGRAMS, "end"), "rb") as f:
        image = bytearray(f.read())
    image[4] = 1
    image[18:20] = b"\x03\0"
    with open(narrow, "wb") as f:
        f.write(image)
    os.chmod(narrow, 0o755)
    expect([narrow], 126, "32-bit")
    return "ok"


def hostile():
    """Bytes that are no program: they end as they do by themselves, or are refused."""
    program = os.path.join(PROGRAMS, "hostile")
    refused = count = 0
    for seed in ("1", "2", "3"):
        native, recorded = run([program, seed, "200"]), record([program, seed, "200"])
        check(native.status == 0 and recorded.status == 0, recorded.status, recorded.err[-500:])
        for a, b in zip(native.out.splitlines(), recorded.out.splitlines(), strict=True):
            count += 1
            refused += a != b
            check(a == b or b.split()[1:3] == [b"exit", b"125"], a, "instead of", b)
        check(b"the engine failed" not in recorded.err, recorded.err)
    check(refused <= count // 20, refused, "of", count, "refused")
    # A file that is not quite a program is executed, or refused by one line, as by itself.
    choose = random.Random(1)
    with open("/usr/bin/true", "rb") as f:
        sound = f.read()
    broken = os.path.join(SCRATCH, "broken")
    for _ in range(60):
        content = bytearray(sound)
        for _ in range(choose.randrange(1, 4)):
            content[choose.randrange(0x400)] = choose.randrange(256)
        with open(broken, "wb") as f:
            f.write(content[:choose.choice((len(content), choose.randrange(len(content))))])
        os.chmod(broken, 0o755)
        r = record([broken])
        check(r.status < 256 and b"the engine failed" not in r.err and b"bug" not in r.err, r)
        check(len(r.err.splitlines()) <= 2, r.err)
    return "%d of %d refused" % (refused, count)


def numbers_of_threads():
    """Threads have numbers in the order in which they were made, whichever ran first."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as d:
        place = os.path.join(d, "recording")
        r = run([*RECORD, "--verify", "--block-size", "1", "-o", place,
                 os.path.join(PROGRAMS, "made")], env=environment())
        check(r.status == 0, r)
        for process, count in (("1", 24), ("2", 8)):
            r = run([TTQ, "query", "-t", place, "-p", process, "-f", "json", "calls to work | select thread, arg0"],
                    env=environment())
            rows = json.loads(r.out)["rows"]
            check(sorted(row["thread"] for row in rows) == list(range(2, 2 + count)), process, rows)
            check(all(row["thread"] == int(row["arg0"], 16) for row in rows), process, rows)
        check(run([TTQ, "check", place], env=environment()).status == 0)
    return "ok"


def native_threads():
    """Of threads, the native engine's recording says what Valgrind's says: which called what, and what is left. And
    the interpreter, a compressor and a library of arrays with threads of their own do what they do by themselves."""
    functions = ("Produce", "Consume", "Spin", "Phase", "TakeSignals", "OnUser", "Detached", "MakeChildren", "EndLast")
    questions = ["calls to %s | select thread, arg0" % f for f in functions]
    questions += ["print %s at end" % g for g in ("g_consumed", "g_phases", "g_guarded", "g_signals", "g_detached")]
    told = []
    with tempfile.TemporaryDirectory(dir=SCRATCH) as d:
        for engine in ("native", "valgrind"):
            place = os.path.join(d, engine)
            r = run([TTQ, "record", "-q", "--engine", engine, "-o", place, os.path.join(PROGRAMS, "pthreads")],
                    env=environment())
            check(r.status == 0, r)
            answers = []
            for question in questions:
                r = run([TTQ, "query", "-t", place, "-p", "1", "-f", "json", question], env=environment())
                check(r.status == 0, question, r.err)
                rows = json.loads(r.out)["rows"]
                # Arguments may be addresses, which differ.
                answers.append((question, sorted((row.get("thread"), row["data"] if "data" in row else
                                                  int(row["arg0"], 16) if int(row["arg0"], 16) < 4096 else "address")
                                                 for row in rows)
                                if "print" not in question else [row["data"] for row in rows]))
            check(all(rows for _, rows in answers), answers)
            check(run([TTQ, "check", place], env=environment()).status == 0)
            told.append(answers)
    for native, valgrind in zip(*told):
        check(native == valgrind, native, "instead of", valgrind)
    for case in (Case("", ["/usr/bin/python3", os.path.join(HERE, "programs", "threads.py")], b""),
                 installed("", ["sh", "-c", "xz -T2 --block-size=10000 -1 -c '%s' | cksum"
                                % os.path.join(PROGRAMS, "made")])):
        if case.command is not None:
            compare_one(case, run(case.command, env=environment()), ["--verify"])
    return "ok"


def auto_engine():
    """A program that the native engine cannot take runs again under Valgrind, unless something of it has been seen."""
    code = os.path.join(PROGRAMS, "refused")
    native = run([code])
    for command, given, again in (([code], b"", True), (["sh", "-c", "exec '%s'" % code], b"", True),
                                  (["sh", "-c", "echo once; exec '%s'" % code], b"", False),
                                  (["sh", "-c", "read line; exec '%s'" % code], b"one\n", False)):
        r = record(command, given=given)
        if again:
            check((r.status, r.out) == (native.status, native.out), command, r)
            check(re.fullmatch(rb"ttq: the native engine cannot record this program: system call 321, which the native engine does not "
                               rb"know, at 0x[0-9a-f]+; recording it with Valgrind\n", r.err), command, r)
        else:
            check(r.status == 125 and r.out == (b"" if given else b"once\n"), command, r)
            check(r.err.count(b"\n") == 1 and b"is not recorded any further: system call 321" in r.err
                  and b"; use --engine=valgrind" in r.err, command, r)
    return "ok"


def hostile_names():
    """Nothing that a terminal obeys comes from a program's name or from what it makes the tool say."""
    program = os.path.join(SCRATCH, "a\x1b[31m\u202eb\x9b\nc")
    shutil.copy(os.path.join(PROGRAMS, "end"), program)
    home = os.path.join(SCRATCH, "hostile\x1b]0;home\x07")
    for command, status in (([program, "exit", "3"], 3), ([program + "d"], 127),
                            ([program, "kill", "9"], 137)):
        r = run([TTQ, "record", *command], env=dict(environment(), TTQ_HOME=home, LC_ALL="C.UTF-8"))
        text = r.err.decode(errors="replace")
        check(r.status == status and text.startswith("ttq: ") and "31m" in text, r)
        check(all(c == "\n" or c.isprintable() for c in text) and text.count("\n") == 1, r)
    return "ok"


def unrecorded_child():
    """A child that cannot be recorded runs as it would by itself."""
    if os.geteuid() != 0:
        return "skipped: needs root to make a set-user-id program"
    setuid = os.path.join(SCRATCH, "other")
    shutil.copy(shutil.which("id"), setuid)
    os.chmod(SCRATCH, 0o755)
    os.chown(setuid, 65534, 65534)
    os.chmod(setuid, 0o4755)
    command = ["sh", "-c", setuid + " -u; " + setuid + " -u | cat; env | grep -c VALGRIND; exit 3"]
    native, recorded = run(command, env=environment()), record(command)
    check(native.out.startswith(b"65534"), native.out)
    check(recorded == native, recorded, "instead of", native)
    return "ok"


def crash():
    """The instruction that faulted is the last one recorded. It is the process that faulted which is asked, not
    another that was ended."""
    program = os.path.join(PROGRAMS, "end")
    # Valgrind loses a signal that comes between fork and exec.
    several = ["sh", "-c", "sleep 30 & while kill $!; do sleep 0.1; done; %s segv; true" % program]
    for command in [program, "segv"], several:
        crash_of(command)
    return "ok"


def crash_of(command):
    with tempfile.TemporaryDirectory(dir=SCRATCH) as d:
        place = os.path.join(d, "recording")
        run([*RECORD, "-o", place, *command], env=environment())
        r = run([TTQ, "query", "-t", place, "-f", "json", "registers at crash"], env=environment())
        check(r.status == 0, r.err)
        where = re.search(rb'"pc":"0x([0-9a-f]+)"', r.out.replace(b" ", b""))
        check(b'"function":"main"' in r.out.replace(b" ", b"") and where, r.out)
        last = run([TTQ, "query", "-t", place, "-f", "json", "registers at end"], env=environment())
        check(last.status == 0, last.err)


def open_calls():
    """A thread whose call has returned waits for nothing, whatever the result; one in its call does."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as d:
        place = os.path.join(d, "recording")
        run([*RECORD, "-o", place, os.path.join(PROGRAMS, "open_calls")], env=environment())

        def rows(question):
            r = run([TTQ, "query", "-t", place, "-f", "json", question], env=environment())
            check(r.status == 0, r.err)
            return json.loads(r.out)["rows"]

        returned = [e["time"] for e in rows("events syscall where thread == 1 | last 14")]
        check(len(returned) == 14, returned)
        for time_of_return in returned:
            waits = [(w["thread"], w["kind"]) for w in rows(f"waits at {time_of_return}")]
            check(waits == [(2, "read")], "waits at", time_of_return, waits)
    return "ok"


def main():
    all_cases = list(cases())
    tests = {c.name: (lambda c=c: compare(c)) for c in all_cases}
    again = [*all_cases, ours("kernel_writes", SCRATCH + "/memory", "165", "busy"),
             ours("mappings", SCRATCH + "/mappings")]
    tests["again damaged"] = again_damaged
    tests |= {"again " + c.name: (lambda c=c: run_again(c)) for c in again}
    # "again" has the large ones.
    small = [c for c in all_cases if c.name not in ("gdb", "gcc", "node")]
    tests |= {"inputs " + c.name: (lambda c=c: inputs(c)) for c in small}
    for f in (segments, hostile, moments, spans, kernel_writes, mappings, shared_memory, descriptors, lackey, interrupted, refused,
              numbers_of_threads, native_threads, auto_engine, hostile_names, unrecorded_child, crash,
              open_calls):
        tests[f.__name__] = f
    wanted = sys.argv[3:] or list(tests)
    if wanted == ["programs"]:
        wanted = [c.name for c in all_cases]
    if wanted == ["again"]:
        wanted = ["again damaged", *("again " + c.name for c in again)]
    if wanted == ["inputs"]:
        wanted = ["inputs " + c.name for c in small]
    if wanted == ["own"]:
        own = [c.name for c in all_cases if c.command and c.command[0].startswith(PROGRAMS)]
        wanted = [kind + name for kind in ("", "again ", "inputs ") for name in own]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        def one(name):
            start = time.time()
            try:
                return name, tests[name](), time.time() - start, True
            except (AssertionError, subprocess.TimeoutExpired) as e:
                return name, "FAILED: %s" % e, time.time() - start, False

        for name, result, seconds, ok in pool.map(one, wanted):
            failed += not ok
            print("%-24s %5.1f s  %s" % (name, seconds, result), flush=True)
    shutil.rmtree(SCRATCH, ignore_errors=True)
    sys.exit(1 if failed else 0)


main()

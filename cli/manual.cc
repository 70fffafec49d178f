// SPDX-License-Identifier: MIT
//
// See manual.h. A new command needs its entry here, and its function in commands.h.

#include "cli/manual.h"

#include "cli/commands.h"

namespace ttq {
namespace {

constexpr Command kCommands[] = {
    {"record", RunRecord, "ttq record [OPTIONS] [--] PROGRAM [ARG...]",
     "record a program, its threads and its children",
     R"(Runs PROGRAM and records everything it and its children do. Its input and
output are untouched, and ttq exits as it does. The recording is
$TTQ_HOME/PROGRAM-N.ttq, or the directory of -o.

Ctrl-C goes to the program; a second one within two seconds ends it, and what
was recorded stays. When the disk has no more room (--free-space), the
recording ends.

Exit status: that of the program, 128 + N after signal N; 125 when ttq itself
failed, 126 and 127 when the program could not be run or found.
)",
     R"(ttq record ./program --its-option  # everything it does
ttq record --repeat 3 --keep crash ./program  # 3 runs; keep those that crash
ttq record --max-time 30m --on-full detach ./program  # half an hour of it
)"},
    {"query", RunQuery, "ttq query [OPTIONS] (QUERY | -F FILE | -)\nttq [OPTIONS] QUERY",
     "ask a recording; `ttq help language` tells how",
     R"(Asks the latest recording, or the one of -t, a question. A file or the standard
input (`-`) holds one query per line, or several with `;` between them; each is
answered in turn.

Without -p the process asked is the one that died by a signal, else what the
first one became by exec.
)",
     R"(ttq last write to counter  # who changed it?
ttq "writes to counter | count by function, thread"
ttq -f json "events signal" --exit-code  # 1 when there is none
ttq -p all "events exit"  # of each process
)"},
    {"shell", RunShell, "ttq shell [OPTIONS] [TRACE]", "ask one question after another",
     R"(Asks the latest recording, or TRACE. What is none of these commands is a
question:

  at TIME                    questions are about this moment from here on: a
                             number, start, end, crash, (QUERY), $3
  at; forget                 where that is; no moment any more
  up [N], down [N], frame N  chooses a frame of the stack there; py up, py down,
                             py frame N
  thread N                   chooses a thread
  next write to LOCATION     also last, read, access: from the moment on, or
                             back; moves there
  process [P]                asks another process; without P lists them
  open TRACE; ls             asks another recording; lists them
  $3, $3.value               row 3 of the last answer, or a column of it; also
                             within a question
  limit N                    rows to show at most; 0: all
  !COMMAND                   a command of the system's shell
  help [TOPIC]; quit         Ctrl-D ends too

Tab completes words, functions, variables, columns and recordings. Ctrl-C
cancels a question. When the input is no terminal, lines are read from it.
)",
     R"(ttq shell program-1
echo "print counter at crash" | ttq shell program-1  # questions from a script
)"},
    {"info", RunInfo, "ttq info [OPTIONS] [TRACE]", "what a recording holds",
     R"(Program, exit, instructions, writes, threads, modules, Python and sizes of a
recording, and the exception that ended a Python program.
)",
     R"(ttq info
ttq info -f json program-1
)"},
    {"ls", RunLs, "ttq ls [OPTIONS]", "recordings, newest first",
     R"(The recordings in $TTQ_HOME, newest first, and how much they take.
)",
     R"(ttq ls
)"},
    {"rm", RunRm, "ttq rm RECORDING...\nttq rm --keep N | --older-than AGE", "remove recordings",
     R"(Removes recordings: those named, all but the N newest, or those recorded longer
than AGE ago (90s, 30m, 12h, 7d, 2w). One that is being made stays.
)",
     R"(ttq rm --older-than 7d --dry-run  # which would go?
)"},
    {"crash", RunCrash, "ttq crash [OPTIONS] [TRACE]", "why did it die?",
     R"(The signal, the faulting instruction with its operands, what the address is or
was, where it came from, who last wrote the memory it was read from, and all
threads' stacks. Of a Python program that no signal ended: the exception that
nobody caught, or that the first test of pytest or unittest failed by, with the
variables of each frame when it was raised. The query `crash` gives the same as
a row.
)",
     R"(ttq crash  # of the latest recording
ttq crash -f json program-1
)"},
    {"report", RunReport, "ttq report [OPTIONS] [TRACE]",
     "why it died, and how it came to it, as a page",
     R"(Writes the autopsy of the process as one page (NAME.html): the cause, how the
bad value came there, stacks with variables, the object and the memory at fault,
what happened around it, each with the question that gives it. Of a program that
did not crash: its state at the end. The page needs no network and no script,
and holds the same as JSON.

--redact takes a list of strings (texts the program had, and its output) and
paths. Environment variables and the contents of files are never in it.
)",
     R"(ttq report -o crash.html program-1
ttq report -f json program-1
)"},
    {"import", RunImport, "ttq import [OPTIONS] CORE", "a core dump, to be asked like a recording",
     R"(Makes a recording of the one moment that a core dump holds: the kernel's or
gdb's, plain or packed (.zst, .lz4, .gz), or a pid of `coredumpctl list`.
Programs and libraries are looked for where they were, and at $DEBUGINFOD_URLS;
only those of the same build-id are used. What happened before is unknown:
questions about it are errors.
)",
     R"(ttq import --help  # import core -o crash.ttq, for a core dump
)"},
    {"snapshot", RunSnapshot, "ttq snapshot [OPTIONS] PID\nttq snapshot [OPTIONS] PID -- QUERY",
     "a running process, to be asked like a recording",
     R"(Makes a recording of one moment of a running process, or answers one question
about it and keeps nothing. The process stands still while one of its threads
forks, some milliseconds, and goes on: no signal is lost, no system call ends
early. Where it cannot fork it stands still while its memory is read.
)",
     R"(ttq snapshot --help  # snapshot 123 -- py backtrace all threads
)"},
    {"arm", RunArm, "ttq arm [--] PROGRAM [ARG...]", "run a program that takes snapshots of itself",
     R"(Runs PROGRAM, at its full speed. When it gets SIGUSR2, or before it dies of a
fault or of abort, it makes a recording of its moment, as `ttq snapshot` does,
where nobody may trace it. After SIGUSR2 it goes on. Its children do so, too.

A thread that blocks SIGUSR2 is missing, and the answers say so. poll, nanosleep
and other system calls that are not restarted after a signal end with EINTR.
Programs that are linked statically or set the user id are not armed.

Exit status: that of the program; 126 and 127 when it could not be run or found.
)",
     R"(ttq arm ./program; ttq crash  # of this one moment
)"},
    {"index", RunIndex, "ttq index [OPTIONS] [TRACE]",
     "make the history of a recording that has its inputs only",
     R"(Runs the processes of a recording that was made with --index=none again, from
their inputs alone, and stores what they did. Nothing of what the program did to
the world is done again. The first question does the same; --drop takes the
history away, the inputs stay.

With --from or --to a part is stored, for less time and disk: of each process
what happened between two of its times, which are numbers, start, end or crash,
perhaps with + N or - N. A question that needs more has all of it stored.
)",
     R"(ttq record --index=none ./program; ttq index  # recorded at little cost
ttq index --from 'crash - 1000000'  # what happened last
)"},
    {"check", RunCheck, "ttq check [OPTIONS] [TRACE]", "verify a recording",
     R"(Reads every block and index of a recording and compares them. Exits with 3 when
something is wrong.
)",
     R"(ttq check program-1
)"},
    {"batch", RunBatchCommand, "ttq batch [OPTIONS] QUESTIONS... TRACE...",
     "ask many recordings, compare with what is expected",
     R"(Asks the questions of files (.yaml, .yml, .ttql) of each recording. In a .ttql
file comments right above a query name it and say what is expected:

  # name: nobody writes to the table
  # expect: none
  writes to table

An expectation is `none`, `some`, `count <= N`, `same as TRACE` or `rows equal
FILE`.

Exits with 0 when all is as expected, 1 when not, 3 when a recording cannot be
read; the others are still asked. `ttq record --repeat N --until crash --keep
failing` makes recordings of a flaky failure.
)",
     R"(ttq batch questions.ttql run-1 run-2
ttq batch -f junit -o answers.xml questions.ttql run-1 run-2
)"},
    {"diff", RunDiff, "ttq diff [OPTIONS] A B", "where two recordings part, and why",
     R"(Finds the first place where two runs of a program do different things, what
decided it, and where the deciding value first was another one; then sums up
what else differs. Python calls and lines are compared first, then native code.
What stands in one column is the same on both sides; ` | ` separates A from B.
A and B may be one recording, with -p N,M.
)",
     R"(ttq diff run-1 run-2
ttq diff --ignore 'time|random' --exit-code run-1 run-2  # 1 when they differ
)"},
    {"export", RunExport, "ttq export [OPTIONS] --to FORMAT -o FILE QUERY",
     "an answer as a file: jsonl, csv, parquet, arrow",
     R"(Writes the answer to FILE, which appears when it is whole.

  jsonl     a row per line, as an object
  csv       a header line, then rows
  parquet   Apache Parquet, compressed by zstd
  arrow     an Arrow IPC file (Feather 2)

Addresses and values are text ("0x…"), times and counts integers.
)",
     R"(ttq export --to csv -o writes.csv "writes to counter"
)"},
    {"gdb", RunGdbCommand, "ttq gdb [TRACE] [-- GDB-ARGS]\nttq gdb --port PORT [TRACE]",
     "gdb on a recording, in both directions",
     R"(Starts gdb on a recording, at the crash, or at the beginning when there was
none; or serves it to debuggers that others start, on 127.0.0.1 only. Everything
but writing and calling works, forward and backward: reverse-continue to a
watchpoint is a look-up, however far away. In gdb there is one command more:

  ttq QUERY      a question in ttq's language; $now is the time here
  ttq when       the time here
  ttq seek TIME  go there: a number, start, end, crash, (QUERY), TIME + N

Without ttq's script, over a port: monitor ttq QUERY, monitor when, monitor
seek TIME. VS Code: docs/gdb.md has a launch.json.
)",
     R"(ttq gdb -- -batch -ex bt  # what stands after -- is gdb's
)"},
    {"mcp", RunMcp, "ttq mcp [--allow-record]", "recordings for agents, by the protocol MCP",
     R"(A server of the Model Context Protocol on stdin and stdout, for agents that
debug: revisions 2026-07-28 and 2025-11-25. Its tools list recordings, say why a
program died, answer questions, and show one call of a function line by line;
with --allow-record they run and record programs, too. Every answer has at most
20,000 characters and says what was left out. Nothing is remembered between
calls.

docs/agents.md tells how to connect an agent, and what it can do.
)",
     R"(ttq mcp < /dev/null  # ends with its input
)"},
    {"help", RunHelp, "ttq help [COMMAND | TOPIC]", "what a command does, or about a topic",
     R"(What a command does, with its options, as `ttq COMMAND --help`; or what a topic
is about. Without one, the list of them.
)",
     R"(ttq help record
ttq help language
)"},
};

constexpr Topic kTopics[] = {
    {"language", "how questions are asked",
     R"(A query is a source, clauses, and stages after `|`:

  last write to LOCATION     also first, next, all; `writes to`, `reads of`,
                             `accesses to`
  who last wrote LOCATION    the same as the first
  memory LOCATION [at TIME]  bytes
  print EXPR [at TIME] [in frame N]
  registers [at TIME] [in thread N]
  backtrace [at TIME] [in thread N | all threads] [mixed]
  source [at TIME]; disassemble FUNCTION|ADDR [at TIME]
  calls to FUNCTION; executions of FUNCTION|FILE:LINE|ADDR
  trace of FUNCTION|(QUERY) [depth N] [unfolded]
                             one activation, line by line; also `py trace of`
  threads | modules | maps [at TIME]
  waits [at TIME]            each thread that waits: for what, who holds it
  events [KIND]              signal, syscall, thread, map, module, output, fork,
                             exec, exit, mark
  origin of LOCATION|$REG [at TIME]; crash
  heap ADDR [at TIME]; heap leaks
  py backtrace | locals | source [at TIME]; py print EXPR [at TIME]
  py calls to NAME|FILE:LINE; py executions of NAME|FILE:LINE
  py changes of VARIABLE [in FUNCTION]; py exceptions
  creation | deallocation | lifetime of ADDR; refcounts of ADDR
  object ADDR [at TIME]; objects of type TYPE [at TIME]
  when was ADDR created | freed; who created | freed ADDR
  why is ADDR still alive [at TIME]; why was ADDR freed too early

Clauses narrow a source:

  before TIME, after TIME, between TIME and TIME
  in thread N, in frame N, all threads
  by FUNCTION, by python FUNCTION, in FUNCTION
  depth N                    of what `print` and `py print` show

FUNCTION is a name, "glob*" or /regex/, perhaps with a module: libc!memcpy

Stages, after `|`, work on rows:

  where COND; select COLUMNS; sort by COLUMN [asc | desc]
  first N; last N; count [by COLUMNS]; distinct COLUMNS
  backtrace; py backtrace    each row with its stack

`where` may follow a source without `|`. Directly after `last write …` it says
which write is meant: `last write to x where size == 8` is the last of the
writes of 8 bytes. Keywords may be in capitals; # starts a comment; a name that
is a keyword is put in backticks.
)"},
    {"locations", "what `writes to` and others take: addresses, ranges, names",
     R"(  ADDR           one byte; an access counts when it touches that byte. `memory`
                 shows 64 bytes
  ADDR..ADDR     from the first up to the second, which is excluded
  ADDR len N     N bytes
  NAME           a global or static variable, all of it; `self->x` in the frame
                 of the time asked
  *(int *)ADDR   memory of one of C's own types

An access belongs to a location when they have at least one byte in common.
)"},
    {"times", "instructions executed, and how to name one",
     R"(Time is the number of instructions that the process had executed. A state at T
is the state before instruction T; a write at T is made by instruction T, so
its effect is seen at T + 1.

  N                   a number
  start, end          of the process
  crash               the instruction that raised the fatal signal
  (QUERY)             the time of the query's first row
  TIME + N, TIME - N  so many instructions later, earlier

For example `memory 0x1000 len 8 at (last write to 0x1000) + 1`.
)"},
    {"conditions", "what `where` takes",
     R"(  = == != < <= > >=         comparisons
  and or not                together
  in (…), between A and B   one of several, a range
  is null, is not null      missing, or not
  COLUMN matches /regex/    anywhere in the text
  COLUMN matches "glob*"    the whole text
  + - * / % & | ^ ~ << >>   on numbers
  string(ADDR)              the C string at that address at the time of the row
  abs(N), hex(N), len(TEXT), lower(TEXT)
  $rax                      a register at the time of the row

A comparison with a missing value is neither true nor false, as in SQL.
)"},
    {"columns", "what rows have",
     R"(Every row that happens at a moment: time, thread, pc, function, module, file,
line, python.

  writes, reads, accesses  address, size, value, previous, actor (accesses:
                           kind, read or write)
  executions               instruction
  calls                    function, address, args, result, return_time, depth,
                           caller
  trace                    function, line, depth, times, last_time, source,
                           changes, calls, ended
  backtrace                frame, pc, function, module, file, line, args
  py backtrace             frame, function, file, line, source, frame_address
  py locals                name, value, type, address
  creation, deallocation   object, type, repr, py_backtrace, backtrace
  refcounts                object, delta, before, after
  memory                   time, address, size, bytes; memory that is not mapped
                           is a row of its own with missing bytes
  registers                rax … r15, rip
  disassemble              address, bytes, instruction, current (=> at the one
                           that runs at TIME), values, function, module, file,
                           line
  threads                  os_tid, start, end, instructions, name
  waits                    thread, kind, what, held_by, since, cycle
  modules                  module, address, end, load_bias, loaded, unloaded,
                           build_id, path
  maps                     address, end, size, protection, since, offset, path
  events                   kind, detail, number, result, bytes, wall_ns
)"},
    {"formats", "how answers are written: table, json, jsonl, csv",
     R"(  table   for people
  json    one document per query, on one line: {"trace", "process", "query",
          "columns": [{"name", "type"}], "rows": [{…}], "truncated", "complete",
          "note", "elapsed_ms"}
  jsonl   one row per line, as an object
  csv     a header line, then rows

Addresses and registers are "0x…", times and counts are numbers, what is
missing is null. A value of up to 8 bytes is "0x…" (the little-endian number),
a longer one "hex:…" (its bytes in the order of memory, the first 4096).
`bytes` are hex digits, two per byte. `complete` is false when the answer could
miss something; `note` says why.
)"},
    {"environment", "variables that ttq reads",
     R"(  TTQ_HOME    where recordings are kept (default: $XDG_DATA_HOME/ttq, else
              ~/.local/share/ttq)
  TTQ_TRACE   the recording to ask when there is no -t (default: the latest)
  TTQ_PAGER   shows what is longer than the screen (default: $PAGER, else less);
              empty: nothing does
  NO_COLOR    no colours
)"},
    {"exit-codes", "what the exit status says",
     R"(  0     answered; no rows is an answer
  1     with --exit-code: no rows
  2     a bad query, bad usage
  3     the recording cannot be read, or is damaged
  130   interrupted; what was found so far is printed

`ttq record` exits with the status of the program: 128 + N after signal N; 125
when
ttq itself failed, 126 and 127 when the program could not be run or found.
)"},
};

}  // namespace

std::span<const Command> Commands() { return kCommands; }
std::span<const Topic> Topics() { return kTopics; }

}  // namespace ttq

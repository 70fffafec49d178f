// SPDX-License-Identifier: MIT
//
// `ttq help`: commands and topics. The language is described in full in docs/; this is what one
// wants to see without leaving the terminal.

#include <string_view>

#include "cli/commands.h"
#include "cli/common.h"
#include "fmt/format.h"
#include "query/cpython/context.h"
#include "query/language/diagnostic.h"

namespace ttq {
namespace {

constexpr char kOverview[] =
    R"(ttq: record a program once, ask about any moment of its life

  ttq record [-o DIR] [--] PROGRAM [ARG...]   record a program
  ttq QUERY                                   ask the latest recording
  ttq query [OPTIONS] (QUERY | -F FILE | -)   the same, with options
  ttq info [TRACE]                            what a recording holds
  ttq ls                                      recordings, newest first
  ttq rm RECORDING... | ttq rm --keep N       remove recordings
  ttq crash [TRACE]                           why did it die?
  ttq report [-o FILE.html] [TRACE]           that, and how it came to it, as one page
  ttq check TRACE                             verify a recording
  ttq batch QUESTIONS... TRACE...             ask many recordings, compare with what is expected
  ttq diff A B                                where two recordings part, and why
  ttq export --to FORMAT -o FILE QUERY        an answer as a file: jsonl, csv, parquet, arrow
  ttq help [COMMAND | language | TOPIC]       topics: language, locations, times, conditions,
                                              columns, formats, environment, exit-codes

  ttq "last write to 0x20003302710"           who changed this memory?
  ttq "writes to counter | count by function, thread"
  ttq "memory 0x20003302710 len 64 at crash"
)";

struct Topic {
  std::string_view name, text;
};

constexpr Topic kTopics[] = {
    {"record", R"(ttq record [-o DIR] [--] PROGRAM [ARG...]

Runs PROGRAM and records everything it and its children do. Its input and output are untouched, and
ttq exits as it does. The recording is $TTQ_HOME/PROGRAM-N.ttq, or DIR.

  --repeat N            record N runs (with -o DIR: DIR-1, DIR-2, …)
  --until WHAT          stop after a run that did: crash (died by a signal) or failing (any status but 0)
  --keep WHAT           of several runs keep only those: crash or failing
  --max-size SIZE       end when the recording takes that much: 500M, 2G
  --max-time DURATION   end after that long: 90s, 30m, 2h
  --free-space SIZE     end when less is free on its disk (1G, or a twentieth of a small disk)
  --report              when it fails, write the page of `ttq report` beside the recording
  --on-full WHAT        what an end is: stop the program, or detach and let it run on unrecorded

Ctrl-C goes to the program; a second one within two seconds ends it, and what was recorded stays.

`ttq record --help` has the other options.
)"},
    {"query", R"(ttq query [OPTIONS] (QUERY | -F FILE | -)
ttq [OPTIONS] QUERY

  -t, --trace TRACE    the recording: a path or a name of `ttq ls` (default: $TTQ_TRACE, else the
                       latest)
  -p, --process P      the process: its number in `ttq info`, its pid or its program's name; all asks
                       each (default: the one that died by a signal, else what the first became)
  -f, --format FORMAT  table, json, jsonl or csv
  -F, --file FILE      read queries from a file; `-` as the query reads them from stdin
      --limit N        rows to print at most; 0: all (default: 50 on a terminal, else all)
      --exit-code      exit with 1 when there are no rows
      --csv-safe       csv: an apostrophe before texts that a spreadsheet would take for formulas
      --explain        say how the query would be run, and how many blocks it would read at most
      --full-scan      use no index; the answer is the same

A file holds one query per line, or several with `;` between them; each is answered in turn.
)"},
    {"info", R"(ttq info [TRACE] [-f table|json]

Program, exit, instructions, writes, threads, modules, Python and sizes of a recording.
)"},
    {"ls",
     "ttq ls [-f table|json]\n\nThe recordings in $TTQ_HOME, newest first, and how much they "
     "take.\n"},
    {"rm", R"(ttq rm RECORDING...
ttq rm --keep N | --older-than AGE

Removes recordings: those named, all but the N newest, or those recorded longer than AGE ago (90s, 30m,
12h, 7d, 2w). One that is being made stays.

  -n, --dry-run        only says which
)"},
    {"crash", R"(ttq crash [TRACE] [-p N] [-f text|json]

Why the program died: the signal, the faulting instruction with its operands, what the address is or
was, where it came from, who last wrote the memory it was read from, and all threads' stacks. Of a
Python program that no signal ended: the exception that nobody caught, or that the first test
of pytest or unittest failed by, with the variables of each frame when it was raised. The query
`crash` gives the same as a row.
)"},
    {"report", R"(ttq report [-o FILE.html] [--at TIME] [--redact LIST] [TRACE]

Writes the autopsy of the process as one page (NAME.html): the cause, how the bad value came there,
stacks with variables, the object and the memory at fault, what happened around it, each with the
question that gives it. Of a program that did not crash: its state at the end. The page needs no
network and no script, and holds the same as JSON.

  --at TIME            the state at that time instead
  --redact LIST        leave out strings (texts the program had, and its output) or paths; env (environment
                       variables) and the contents of files are never in it
  -f, --format json    the JSON alone, to stdout
  -o -                 to stdout
)"},
    {"check", R"(ttq check [TRACE]

Reads every block and index of a recording and compares them. Exits with 3 when something is wrong.
)"},
    {"batch",
     R"(ttq batch [-f table|jsonl|junit] [-o FILE] [-j N] [--resume FILE] [--report DIR] QUESTIONS... TRACE...

Asks the questions of files (.yaml, .yml, .ttql) of each recording. In a .ttql file comments right
above a query name it and say what is expected:

  # name: nobody writes to the table
  # expect: none            or: some, count <= N, same as TRACE, rows equal FILE
  writes to table

Exits with 0 when all is as expected, 1 when not, 3 when a recording cannot be read.
--report DIR writes the page of `ttq report` for each recording that is not as expected.
`ttq record --repeat N --until crash --keep failing` makes recordings of a flaky failure.
)"},
    {"diff", R"(ttq diff [--ignore REGEX] [-p N[,M]] [-f table|json] [--exit-code] A B

Finds the first place where two runs of a program do different things, what decided it, and where the
deciding value first was another one; then sums up what else differs. Python calls and lines are
compared first, then native code. What stands in one column is the same on both sides; ` | ` separates
A from B.

  --ignore REGEX       functions, system calls and output that it finds do not count: 'time|random'
  -p, --process N      the process of both; N,M: of each (A and B may be one recording)
      --exit-code      exit with 1 when they differ
)"},
    {"export", R"(ttq export [-t TRACE] [-p N] --to FORMAT -o FILE QUERY

Writes the answer to FILE, which appears when it is whole.

  jsonl    a row per line, as an object       csv    a header line, then rows
  parquet  needs node, and in or above the working directory: npm install @duckdb/node-api
  arrow    an IPC file; needs node and:                       npm install apache-arrow

`--csv-safe` puts an apostrophe before texts that a spreadsheet would take for formulas. Addresses and
values are text ("0x…"), times and counts integers.
)"},
    {"help", R"(ttq help [COMMAND | TOPIC]

What a command does, or what a topic is about; without one, the list of them. `ttq COMMAND --help`
lists a command's options.
)"},
    {"language", R"(A query is a source, clauses, and stages after `|`:

  last write to LOCATION          also first, next, all; `writes to`, `reads of`, `accesses to`
  who last wrote LOCATION         the same as the first
  memory LOCATION [at TIME]       bytes
  print EXPR [at TIME] [in frame N]
  registers [at TIME] [in thread N]
  backtrace [at TIME] [in thread N | all threads]
  source [at TIME]; disassemble FUNCTION|ADDR [at TIME]
  calls to FUNCTION; executions of FUNCTION|FILE:LINE|ADDR
  trace of FUNCTION|(QUERY) [depth N] [unfolded]      one activation, line by line; py trace of …
  threads | modules | maps [at TIME]
  events [KIND]                   signal, syscall, thread, map, module, output, fork, exec, exit, mark
  origin of LOCATION|$REG [at TIME]; heap ADDR [at TIME]; crash
  py backtrace | locals | source [at TIME]; py print EXPR [at TIME]
  py calls to NAME|FILE:LINE; py changes of VARIABLE [in FUNCTION]; py exceptions
  creation | deallocation | lifetime of ADDR; refcounts of ADDR; object ADDR [at TIME]

Clauses:  before TIME, after TIME, between TIME and TIME, in thread N, by FUNCTION
          FUNCTION is a name, "glob*" or /regex/, perhaps with a module: libc!memcpy

Stages:   where COND | select COLUMNS | sort by COLUMN [desc] | first N | last N
          count [by COLUMNS] | distinct COLUMNS
          backtrace | py backtrace: each row with its stack

`where` may follow a source without `|`. Directly after `last write …` it says which write is meant:
`last write to x where size == 8` is the last of the writes of 8 bytes.
Keywords may be in capitals; # starts a comment; a name that is a keyword is put in backticks.
)"},
    {"locations",
     R"(ADDR             one byte; an access counts when it touches that byte. `memory` shows 64 bytes
ADDR..ADDR       from the first up to the second, which is excluded
ADDR len N       N bytes
NAME             a global or static variable, all of it
*(int *)ADDR     memory of one of C's own types

An access belongs to a location when they have at least one byte in common.
)"},
    {"times",
     R"(Time is the number of instructions that the process had executed. A state at T is the state before
instruction T; a write at T is made by instruction T, so its effect is seen at T + 1.

  N                a number
  start, end       of the process
  crash            the instruction that raised the fatal signal
  (QUERY)          the time of the query's first row
  TIME + N, TIME - N

  memory 0x1000 len 8 at (last write to 0x1000) + 1
)"},
    {"conditions",
     R"(  = == != < <= > >=   and or not   in (…)   between A and B   is null   is not null
  COLUMN matches /regex/      anywhere in the text
  COLUMN matches "glob*"      the whole text
  + - * / % & | ^ ~ << >>     on numbers
  string(ADDR)                the C string at that address at the time of the row
  abs(N)  hex(N)  len(TEXT)  lower(TEXT)
  $rax                        a register at the time of the row

A comparison with a missing value is neither true nor false, as in SQL.
)"},
    {"columns",
     R"(Every row that happens at a moment: time, thread, pc, function, module, file, line, python.

  writes, reads, accesses   address, size, value, previous, actor (accesses: kind, read or write)
  executions                instruction
  calls                     function, address, args, result, return_time, depth, caller
  trace                     function, line, depth, times, last_time, source, changes, calls, ended
  backtrace                 frame, pc, function, module, file, line, args
  py backtrace              frame, function, file, line, source, frame_address
  py locals                 name, value, type, address
  creation, deallocation    object, type, repr, py_backtrace, backtrace
  refcounts                 object, delta, before, after
  memory                    time, address, size, bytes; memory that is not mapped is a row of its own
                            with missing bytes
  registers                 rax … r15, rip
  disassemble               address, bytes, instruction, current (=> at the one that runs at TIME), values,
                            function, module, file, line
  threads                   os_tid, start, end, instructions
  modules                   module, address, end, load_bias, loaded, unloaded, build_id, path
  maps                      address, end, size, protection, since, offset, path
  events                    kind, detail, number, result, bytes, wall_ns
)"},
    {"formats", R"(table   for people
json    one document per query, on one line:
        {"trace", "process", "query", "columns": [{"name", "type"}], "rows": [{…}], "truncated",
         "complete", "note", "elapsed_ms"}
jsonl   one row per line, as an object
csv     a header line, then rows

Addresses and registers are "0x…", times and counts are numbers, what is missing is null. A value of
up to 8 bytes is "0x…" (the little-endian number), a longer one "hex:…" (its bytes in the order of
memory, the first 4096). `bytes` are hex digits, two per byte. `complete` is false when the answer
could miss something; `note` says why.
)"},
    {"environment",
     R"(TTQ_HOME        where recordings are kept (default: $XDG_DATA_HOME/ttq, else ~/.local/share/ttq)
TTQ_TRACE       the recording to ask when there is no -t (default: the latest)
NO_COLOR        no colours
)"},
    {"exit-codes", R"(0    answered; no rows is an answer
1    with --exit-code: no rows
2    a bad query, bad usage
3    the recording cannot be read, or is damaged
130  interrupted; what was found so far is printed

`ttq record` exits with the status of the program: 128 + N after signal N; 125 when ttq itself
failed, 126 and 127 when the program could not be run or found.
)"},
};

}  // namespace

const char* UsageText() { return kOverview; }

int RunHelp(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "-h") {
    WriteOut(kOverview);
    return kAnswered;
  }
  std::vector<std::string> names;
  for (const Topic& topic : kTopics) {
    if (topic.name == argv[1]) {
      WriteOut(topic.text);
      return kAnswered;
    }
    names.emplace_back(topic.name);
  }
  const std::vector<std::string> near = Nearest(argv[1], names);
  std::string known;
  for (const std::string& name : near.empty() ? names : near) {
    known += (known.empty() ? "" : ", ") + name;
  }
  return Complain(near.empty()
                      ? fmt::format("there is no help on {}; there is on {}", argv[1], known)
                      : fmt::format("there is no help on {}; did you mean {}?", argv[1], known),
                  kUsage);
}

}  // namespace ttq

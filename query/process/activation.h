// SPDX-License-Identifier: MIT
//
// Traces one activation of a function as a debugger that steps through it would show it: the lines
// in execution order, and the calls that each line made.
//
// A line begins where gdb's `next` stops (gdb/infrun.c, process_event_stop_test): at an instruction
// with which a statement of another line begins. Instructions of other lines that begin no
// statement, as optimizing compilers leave them, begin no line. An inlined function counts as a
// call.
//
// The tracer follows the executed instructions one by one and matches returns to calls by their
// return addresses. Where control leaves a function in another way (an exception, longjmp, a signal
// handler), the stack pointer says which activation continues.
//
// Thread-safe: functions without state.

#ifndef TTQ_QUERY_PROCESS_ACTIVATION_H_
#define TTQ_QUERY_PROCESS_ACTIVATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "query/process/process_names.h"
#include "store/read/reader.h"

namespace ttq {

inline constexpr uint32_t kNoIndex = ~uint32_t{0};

struct TraceStep {
  Time time;  // of the line's first instruction
  // Of the activation's next line; for the last line, of the last instruction that the activation
  // itself executed. `seen`: at `end` its frame is the innermost, so its variables can be read.
  Time end;
  bool seen = false;
  Address pc;
  uint32_t activation = 0;  // index into ActivationTrace::activations
  uint32_t inlined = 0;     // the line's function: index into CodeLocation::frames at pc
  int line = 0;
  std::string file;             // empty: unknown
  std::vector<uint32_t> calls;  // indices into ActivationTrace::calls, in order
  std::vector<Address> stores;  // constant addresses that the line wrote to, each once
};

struct TracedCall {
  Time time;                 // of the function's first instruction
  Address entry;             // that instruction; past the PLT entry where known
  Time returned = kTimeMax;  // of the first instruction after the call; kTimeMax: no return
  bool inlined = false;
  bool jumped = false;  // a tail call: its result is the caller's result
  std::string function;
  uint32_t activation = kNoIndex;  // that traces its lines
};

struct TracedActivation {
  uint32_t depth = 0;  // 0: the one asked for
  std::string function;
  Address entry;
  uint32_t inlined = 0;     // as in TraceStep, at `entry`
  bool is_inlined = false;  // an inlined copy
  Time entered, left = kTimeMax;
  // "returned", "inlined", "tail call", "unwound" (by an exception, longjmp), "signal", "exit",
  // "end" (of the recording).
  std::string ended;
};

struct ActivationTrace {
  ThreadNo thread;
  std::vector<TraceStep> steps;  // in order of time
  std::vector<TracedCall> calls;
  std::vector<TracedActivation> activations;
  bool truncated = false;  // the limit on steps cut the trace
};

struct ActivationStart {
  ThreadNo thread;
  Time time;  // of its first instruction
  // For an inlined copy: its index at its first instruction, as StackOptions::inlined counts.
  std::optional<uint32_t> inlined;
};

// Traces the activation that begins at `start`. `depth`: 1 for its own lines, 2 for those of the
// functions that it calls too, and so on. `control` may be null. Cancelled when interrupted.
absl::StatusOr<ActivationTrace> TraceActivation(const ProcessNames& names,
                                                const ActivationStart& start, uint32_t depth,
                                                ScanControl* control);

}  // namespace ttq

#endif  // TTQ_QUERY_PROCESS_ACTIVATION_H_

// SPDX-License-Identifier: MIT
//
// One activation of a function, as a debugger that steps through it would show it: the lines in the
// order in which they were executed, and the calls that each made.
//
// A line begins where gdb's `next` stops (gdb/infrun.c, process_event_stop_test): at an instruction
// with which a statement of another line begins. Code between that belongs to other lines, as
// optimizing compilers leave it, begins none. A function that was inlined is a call, like any
// other.
//
// What was executed is followed from instruction to instruction; calls and returns are matched by
// the addresses that they go back to. Where code leaves a function otherwise (an exception,
// longjmp, a signal's handler), the stack pointer says which activation goes on.
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
  // Of the activation's next line; after the last one, of the last instruction that the activation
  // itself executed. `seen`: its frame is the innermost then, so that its variables can be read.
  Time end;
  bool seen = false;
  Address pc;
  uint32_t activation = 0;  // index into ActivationTrace::activations
  uint32_t inlined = 0;     // of the functions inlined into one another at pc, which it is of
  int line = 0;
  std::string file;             // empty: unknown
  std::vector<uint32_t> calls;  // indices into ActivationTrace::calls, in order
  std::vector<Address> stores;  // what it wrote to that has a constant address; each once
};

struct TracedCall {
  Time time;                 // of the function's first instruction
  Address entry;             // that instruction; behind a linkage table where that is known
  Time returned = kTimeMax;  // of the first instruction after it; kTimeMax: it did not come back
  bool inlined = false;
  bool jumped = false;  // to it, at the caller's end: what it returns is the caller's result
  std::string function;
  uint32_t activation = kNoIndex;  // where its own lines are traced
};

struct TracedActivation {
  uint32_t depth = 0;  // 0: the one asked for
  std::string function;
  Address entry;
  uint32_t inlined = 0;     // as in TraceStep, at `entry`
  bool is_inlined = false;  // a copy inside another function
  Time entered, left = kTimeMax;
  // "returned", "inlined", "tail call", "unwound" (by an exception, longjmp), "signal", "exit",
  // "end" (of what was recorded).
  std::string ended;
};

struct ActivationTrace {
  ThreadNo thread;
  std::vector<TraceStep> steps;  // in order of time
  std::vector<TracedCall> calls;
  std::vector<TracedActivation> activations;
  bool truncated = false;  // there are more steps than are kept
};

struct ActivationStart {
  ThreadNo thread;
  Time time;  // of its first instruction
  // Of a copy that was inlined: which of the functions at its first instruction, as
  // StackOptions::inlined has it.
  std::optional<uint32_t> inlined;
};

// `depth`: 1 for the activation's own lines, one more for those of what it calls, and so on.
// `control` may be null.
absl::StatusOr<ActivationTrace> TraceActivation(const ProcessNames& names,
                                                const ActivationStart& start, uint32_t depth,
                                                ScanControl* control);

}  // namespace ttq

#endif  // TTQ_QUERY_PROCESS_ACTIVATION_H_

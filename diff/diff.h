// SPDX-License-Identifier: MIT
//
// Two recordings compared: the first place where they part and why, then what else differs.
//
// Each thread of one is followed beside the thread of the same number of the other, instruction by
// instruction (diff/align.h). Where they part, the value that decided is followed back to where it
// first differs (diff/origin.h). A difference that comes from addresses alone, or that `ignore`
// names, is passed over: both go on where the function returns.

#ifndef TTQ_DIFF_DIFF_H_
#define TTQ_DIFF_DIFF_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/number_text.h"
#include "diff/origin.h"
#include "diff/python.h"
#include "diff/side.h"
#include "diff/summary.h"
#include "store/read/reader.h"

namespace ttq::diff {

struct DiffOptions {
  // A regular expression (RE2): functions, system calls and output that it finds do not count.
  std::string ignore;
  ScanControl* control = nullptr;
};

struct FrameText {
  std::string function, module, file;
  int line = 0;
};

// What decided where the runs part.
struct Decision {
  std::array<std::string, 2> branch;    // the instruction
  std::array<std::string, 2> compared;  // the instruction that set its flags; "" when none did
  std::array<std::string, 2> values;    // "5, 10"
  SourceLocation place;
};

struct FirstDifference {
  // "control flow", "output", "system call", "exit status"
  std::string kind;
  ThreadNo thread;
  std::array<Time, 2> time;            // of the first instruction that only this side executed
  std::array<SourceLocation, 2> next;  // its place
  SourceLocation place;                // of the last one that both did, in the program's own code
  bool in_own_code = false;            // it was that code itself, no library's on its behalf
  std::array<std::vector<FrameText>, 2> stacks;
  std::optional<Decision> decision;
  std::string detail;  // of output, system calls
  Origin origin;
  // The place the origin is in, in the program's own code, and the stack there on side A.
  SourceLocation origin_place;
  std::vector<FrameText> origin_stack;
};

struct PassedOver {
  // Differences that come from addresses; to be ignored; that had no effect on what came after.
  uint64_t addresses = 0, ignored = 0, without_effect = 0;
  std::string first;  // where the first was
};

// What made the two runs differ.
struct Cause {
  Input input;
  // The differing value was followed back to it, step by step. Otherwise it is the likeliest of the
  // inputs that differ.
  bool established = false;
};

struct DiffResult {
  std::optional<Cause> cause;
  // Inputs that differ beside it; only looked for where it is not established.
  std::vector<Input> others;
  std::optional<PythonDifference> python;
  std::optional<FirstDifference> first;
  PassedOver passed;
  uint64_t alike = 0;  // instructions of side A executed alike, passed-over parts not counted
  Summary summary;
  bool complete = true;
  std::string note;
  bool same() const { return !first && !python && summary.same(); }
};

absl::StatusOr<DiffResult> Compare(Side* a, Side* b, const DiffOptions& options);

// As text for people, one screen; and as one JSON document.
std::string ToText(const DiffResult& result, const Side& a, const Side& b);
std::string ToJson(const DiffResult& result, const Side& a, const Side& b);

}  // namespace ttq::diff

#endif  // TTQ_DIFF_DIFF_H_

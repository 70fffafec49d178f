// SPDX-License-Identifier: MIT
//
// Two runs of a Python program compared as Python: calls and returns first, then the lines of the
// function in which they part, then the variables that differ there and the line where the one that
// mattered got its value.
//
// What the interpreter does of its own accord (its frozen import machinery, which works otherwise
// when there is a .pyc file) is not compared.

#ifndef TTQ_DIFF_PYTHON_H_
#define TTQ_DIFF_PYTHON_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/number_text.h"
#include "diff/side.h"
#include "re2/re2.h"
#include "store/read/reader.h"

namespace ttq::diff {

struct PythonLocation {
  std::string function, file;
  int line = 0;
};
std::string ToText(const PythonLocation& place);

struct PythonVariable {
  std::string name;
  std::array<std::string, 2> value;  // repr, addresses left out; "": not bound
};

// A line that gave a variable a value that differs.
struct PythonAssignment {
  std::string name;
  std::array<std::string, 2> value;
  PythonLocation place;
  std::array<Time, 2> time;
};

// A moment at which a value that matters differs: what the machine did from `from` to `to` made it.
// The two sides did the same there until they parted.
struct PythonEvidence {
  std::array<Time, 2> from, to;
  // Words and bytes that hold the value at `to`, the likeliest first.
  struct Memory {
    std::array<Address, 2> at;
    uint32_t size = 8;
  };
  std::vector<Memory> memory;
  // Variables' values there, for telling which input is the likeliest.
  std::array<std::string, 2> value;
};

struct PythonDifference {
  ThreadNo thread;
  uint64_t alike = 0;               // calls and returns alike before it
  std::array<Time, 2> time;         // of what only one side did
  std::array<std::string, 2> next;  // "goes on in line 12", "calls f (a.py:3)", "returns", "ends"
  PythonLocation place;             // the last line that both executed
  std::array<std::vector<PythonLocation>, 2> stacks;  // innermost first
  std::vector<PythonVariable> variables;
  // From the difference back to where it began; the last one is the origin.
  std::vector<PythonAssignment> history;
  // The place to look at: the last one of `history`, or else `place`.
  PythonLocation origin;
  std::array<TimeSpan, 2> origin_span;   // while what `origin` names was computed
  std::vector<PythonEvidence> evidence;  // the oldest first; the last is where they part
};

// Which functions are compared. What the standard library and installed packages do on a program's
// behalf differs for many reasons that do not matter.
enum class PythonScope : uint8_t { kOwn, kAll };

// Nullopt when they do not differ as Python, or one is no Python. A reservation is appended to
// `note`. `is_python`: whether both are.
absl::StatusOr<std::optional<PythonDifference>> ComparePython(Side* a, Side* b, PythonScope scope,
                                                              const RE2* ignore,
                                                              ScanControl* control,
                                                              std::string* note, bool* is_python);

}  // namespace ttq::diff

#endif  // TTQ_DIFF_PYTHON_H_

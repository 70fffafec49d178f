// SPDX-License-Identifier: MIT
//
// Where two runs' different values come from: from an instruction that both executed, backwards
// through the instructions and stores that made each value, always along an input that differs,
// until nothing differs any more. What is found there is the origin: another constant in the code, a
// system call that answered otherwise, other first contents of memory.
//
// Both sides are followed by themselves (last write of a register, last write to memory), so the
// addresses need not be the same. In a loop that carries a difference from round to round the
// search goes to the first round that differs, by bisection.

#ifndef TTQ_DIFF_ORIGIN_H_
#define TTQ_DIFF_ORIGIN_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "diff/align.h"
#include "diff/side.h"

namespace ttq::diff {

// An instruction on the way from a difference to its origin, on both sides.
struct OriginStep {
  std::array<Step, 2> at;
  std::array<std::string, 2> instruction;
  Place place;                           // on side A
  std::string what;                      // "rax", "counter (4 bytes at 0x4010)"
  std::array<std::string, 2> value;      // of `what`, before the instruction; "": not known
  std::array<uint64_t, 2> number{};      // the same when it is a number of up to 8 bytes
};

enum class OriginKind : uint8_t {
  kCode,      // the same inputs, another result: the instruction itself is another
  kKernel,    // what a system call gave or wrote
  kInitial,   // what memory held when it was mapped: arguments, environment, a file
  kAddress,   // an address that differs because memory is laid out differently, no more
  kWriters,   // written by different instructions
  kMachine,   // rdtsc, cpuid, …
  kUnknown,
};
const char* OriginKindName(OriginKind kind);

struct Origin {
  OriginKind kind = OriginKind::kUnknown;
  std::string text;           // one sentence
  ThreadNo thread;            // of `at`
  std::array<Step, 2> at;     // the instruction, or the system call
  std::array<std::string, 2> value;
  std::vector<OriginStep> steps;  // newest first; the last one is where it was found
};

class OriginFinder {
 public:
  OriginFinder(Side* a, Side* b) : sides_{a, b} {}

  // Why the instruction that both executed last went two ways.
  absl::StatusOr<Origin> OfBranch(const Divergence& divergence);
  // Why a register, or memory, differs before the given times. REQUIRES: it does.
  absl::StatusOr<Origin> OfRegister(ThreadNo thread, Gpr reg, std::array<Time, 2> before);
  absl::StatusOr<Origin> OfMemory(std::array<Address, 2> at, uint32_t size,
                                  std::array<Time, 2> before);

 private:
  // Something that holds a value before a time.
  struct Location {
    bool memory = false;
    uint8_t reg = 0;
    std::array<Address, 2> address;
    uint32_t size = 8;
    std::array<Time, 2> before;
    std::array<ThreadNo, 2> thread;
  };
  struct Definition {
    Step step;
    ThreadNo thread;
    bool kernel = false, initial = false;
    int32_t syscall = -1;
  };
  enum class Same { kEqual, kPlacement, kDifferent };

  absl::StatusOr<Origin> Follow(Location location, Origin origin);
  absl::StatusOr<std::optional<Definition>> Define(int side, const Location& location);
  absl::StatusOr<std::optional<Definition>> DefineRegister(int side, const Location& location);
  absl::StatusOr<std::optional<Definition>> DefineMemory(int side, const Location& location);
  // The input of the instructions at `at` that makes their results differ. Nullopt: none does.
  // `placement`: some inputs differ as addresses only.
  absl::StatusOr<std::optional<Location>> DifferingInput(const std::array<Step, 2>& at,
                                                         const std::array<ThreadNo, 2>& thread,
                                                         OriginStep* step, bool* placement);
  absl::StatusOr<std::array<Definition, 2>> EarliestRound(const std::array<Definition, 2>& last,
                                                          const Location& location);
  absl::StatusOr<std::optional<uint64_t>> ValueOf(int side, const Location& location, Time t);
  Same Compare(uint64_t a, uint64_t b, Time time_a, Time time_b);
  std::string Describe(const Location& location);
  std::string ValueText(int side, const Location& location);
  // What is said when there is no instruction to go on from.
  void Conclude(Origin* origin, const Location& location,
                const std::array<std::optional<Definition>, 2>& found);
  std::string StringAround(int side, const Location& location);
  std::string SyscallText(int side, const Definition& definition);

  std::array<Side*, 2> sides_;
  // How far apart corresponding words of the two stacks are.
  uint64_t stack_shift_ = 0;
  // Inputs whose value is not recorded (flags, vectors), to be tried when the first leads nowhere.
  std::vector<Location> alternatives_;
};

}  // namespace ttq::diff

#endif  // TTQ_DIFF_ORIGIN_H_

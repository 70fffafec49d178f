// SPDX-License-Identifier: MIT
//
// Where two runs' different values come from: from an instruction that both executed, backwards
// through the instructions and stores that made each value, always along an input that differs,
// until nothing differs any more. What is found there is the origin: another constant in the code,
// a system call that answered otherwise, other first contents of memory.
//
// Both sides are followed by themselves (last write of a register, last write to memory), so the
// addresses need not be the same. In a loop that carries a difference from round to round the
// search goes to the first round that differs, by bisection.

#ifndef TTQ_DIFF_ORIGIN_H_
#define TTQ_DIFF_ORIGIN_H_

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "diff/align.h"
#include "diff/inputs.h"
#include "diff/side.h"
#include "query/process/heap.h"

namespace ttq::diff {

// An instruction on the way from a difference to its origin, on both sides.
struct OriginStep {
  std::array<Step, 2> at;
  std::array<std::string, 2> instruction;
  SourceLocation place;              // on side A
  std::string what;                  // "rax", "counter (4 bytes at 0x4010)"
  std::array<std::string, 2> value;  // of `what`, before the instruction; "": not known
  std::array<uint64_t, 2> number{};  // the same when it is a number of up to 8 bytes
};

enum class OriginKind : uint8_t {
  kCode,           // the same inputs, another result: the instruction itself is another
  kKernel,         // what a system call gave or wrote
  kInitial,        // what memory held when it was mapped: arguments, environment, a file
  kAddress,        // an address that differs because memory is laid out differently, no more
  kWriters,        // written by different instructions
  kMachine,        // rdtsc, cpuid, …
  kUninitialized,  // read before it was written
  kThreads,        // written by another thread
  kUnknown,
};
const char* OriginKindName(OriginKind kind);

// Whether a function gives out memory: where that lies differs for no reason that matters.
bool IsAllocator(std::string_view function);

struct Origin {
  OriginKind kind = OriginKind::kUnknown;
  std::string text;        // one sentence
  ThreadNo thread;         // of `at`
  std::array<Step, 2> at;  // the instruction, or the system call
  std::array<std::string, 2> value;
  std::vector<OriginStep> steps;  // newest first; the last one is where it was found
  std::optional<Input> input;     // what came from outside and differs, where it ends at that
  // No other way led anywhere than from where an allocator had put things, beside inputs of which
  // it is not known what they came from, or than from where a hash had put a value: it is a guess.
  bool by_placement = false;
};

// A part of the two runs in which they did not do the same steps, and why they parted.
struct Parting {
  std::array<TimeSpan, 2> span;  // from the first step that only one of them took
  ThreadNo thread;
  Origin origin;
};

class OriginFinder {
 public:
  OriginFinder(Side* a, Side* b, Inputs* inputs) : sides_{a, b}, inputs_(*inputs) {}

  // Where the threads being compared started to be alike, once more after each part that was passed
  // over: later instructions up to the next start correspond one to one.
  void SetStarts(std::vector<std::array<Time, 2>> starts) { starts_ = std::move(starts); }

  // Where they were apart before. What was written there differs for the reason they parted for.
  void AddParting(Parting parting) { partings_.push_back(std::move(parting)); }

  // How many last writers one search looks for, and how often it goes back to a loop's first round:
  // both take long in a long recording.
  struct Effort {
    int definitions = 600, loops = 32;
  };
  void set_effort(const Effort& effort) { effort_ = effort; }

  // Why the instruction that both executed last went two ways.
  absl::StatusOr<Origin> OfBranch(const Divergence& divergence);
  // Why a register, or memory, differs before the given times. REQUIRES: it does.
  absl::StatusOr<Origin> OfRegister(ThreadNo thread, Gpr reg, std::array<Time, 2> before);
  absl::StatusOr<Origin> OfMemory(ThreadNo thread, std::array<Address, 2> at, uint32_t size,
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
    std::optional<uint32_t> focus;  // of a vector register: the byte that is meant, if one is
    // Of an address of which it matters how far it lies from another one, while where both lie does
    // not: how many copies of it are looked at for an instruction that computed it. 0: of all else.
    int end_copies = 0;
  };
  struct Definition {
    Step step;
    ThreadNo thread;
    bool kernel = false, initial = false;
    int32_t syscall = -1;
  };
  enum class Same { kEqual, kPlacement, kDifferent };
  // An input of an instruction that differs. A step tells of it as these do.
  struct Candidate {
    Location location;
    std::string what;
    std::array<std::string, 2> value;
    std::array<uint64_t, 2> number{};
    bool is_block = false;
    bool is_place = false;  // it tells where a value lay, not what it was
    size_t steps = 0;       // of the origin, the one that reads it included

    void Describe(OriginStep* step) const;
  };

  class InputSearch;

  // Follows what differs, and the other inputs that differ where the first leads to nothing.
  absl::StatusOr<Origin> Follow(Location location, Origin origin);
  absl::Status FollowOne(Location location, Origin* origin);
  // Whether nothing in the life of the memory wrote it before it was read: `origin` is concluded.
  absl::StatusOr<bool> IsUninitialized(const Location& location,
                                       const std::array<std::optional<Definition>, 2>& found,
                                       Origin* origin);
  absl::StatusOr<std::optional<std::string>> NeverWritten(int side, const Location& location,
                                                          const Definition& found);
  // Whether different threads wrote it last: `origin` is concluded.
  bool IsThreadOrder(const Location& location,
                     const std::array<std::optional<Definition>, 2>& found, Origin* origin);
  // The last of the partings in which it was written; null: none.
  const Parting* PartingAt(int side, const Definition& definition) const;
  // Whether it was written where the runs were apart: `origin` is concluded.
  bool IsWrittenApart(const std::array<std::optional<Definition>, 2>& found, Origin* origin);
  absl::StatusOr<std::optional<Definition>> Define(int side, const Location& location);
  absl::StatusOr<std::optional<Definition>> DefineRegister(int side, const Location& location);
  absl::StatusOr<std::optional<Definition>> DefineMemory(int side, const Location& location);
  // The input of the instructions at `at` that makes their results differ. Nullopt: none does.
  // `result`, unless it is null: what they made, of which one byte may be meant.
  // `placement`: some inputs differ as addresses only. Further inputs become alternatives to the
  // step, before which there were `steps`.
  absl::StatusOr<std::optional<Location>> DifferingInput(const std::array<Step, 2>& at,
                                                         const std::array<ThreadNo, 2>& thread,
                                                         const Location* result, size_t steps,
                                                         OriginStep* step, bool* placement);
  // Whether both addresses lie in memory that an allocator gives out.
  bool InHeap(uint64_t a, Time time_a, uint64_t b, Time time_b);
  static constexpr int kMaxWeight = 3;
  static constexpr int kMaxEndCopies = 16;
  static int WeightOf(const Origin& origin);
  bool IsThroughHash(const Origin& origin) const;
  absl::StatusOr<std::array<Definition, 2>> EarliestRound(const std::array<Definition, 2>& last,
                                                          const Location& location);
  absl::StatusOr<std::optional<uint64_t>> ValueOf(int side, const Location& location, Time t);
  Same Compare(uint64_t a, uint64_t b, Time time_a, Time time_b);
  std::string Describe(const Location& location);
  std::string ValueText(int side, const Location& location);
  std::optional<Time> OtherTime(int side, Time t) const;
  absl::StatusOr<std::optional<Location>> WhyElsewhere(const std::array<Definition, 2>& writers,
                                                       Origin* origin);
  absl::StatusOr<std::optional<Location>> WhyWrittenElsewhere(
      const Location& location, const std::array<std::optional<Definition>, 2>& found,
      Origin* origin);
  // The branch at which the two ways parted on which `found` wrote the location, and what differs
  // of its inputs; `origin` goes there.
  absl::StatusOr<std::optional<Location>> WhyParted(
      const Location& location, const std::array<std::optional<Definition>, 2>& found,
      Origin* origin);
  // When the function was called that a thread is in at `t`: its first instruction. Nullopt: not
  // known.
  absl::StatusOr<std::optional<Time>> InnermostCall(int side, Time t, ThreadNo thread);
  // Of a parting within a function of the C library's that looks at strings: what they held, for
  // which way it takes depends on their addresses too.
  absl::StatusOr<std::optional<Location>> WhyLookedAt(const Divergence& parted, OriginStep* step);
  absl::StatusOr<std::optional<Location>> WhyCopied(
      const Location& location, const std::array<std::optional<Definition>, 2>& found,
      Origin* origin);
  absl::StatusOr<std::optional<Location>> WhyMoved(const Location& location,
                                                   const std::array<Definition, 2>& writers,
                                                   Origin* origin);
  absl::StatusOr<std::optional<Location>> SourceOf(int side, const Definition& writer,
                                                   uint64_t value);
  // Whether both only moved the value that the location has.
  absl::StatusOr<bool> IsCopied(const std::array<Definition, 2>& writers, const Location& location);
  bool IsBlockAddress(const Location& location);
  absl::StatusOr<std::optional<uint64_t>> WordAt(int side, const Location& location, Time t);
  absl::StatusOr<std::optional<Address>> PcAt(int side, Time t, ThreadNo thread);
  // Ends the search at `location`, from which no instruction leads further.
  absl::Status Conclude(Origin* origin, const Location& location,
                        const std::array<std::optional<Definition>, 2>& found);
  std::string StringAround(int side, const Location& location);
  absl::StatusOr<std::optional<Event>> SyscallOf(int side, const Definition& definition);
  std::string SyscallText(int side, const Definition& definition);

  std::array<Side*, 2> sides_;
  Inputs& inputs_;
  std::vector<Parting> partings_;
  std::vector<std::array<Time, 2>> starts_ = {{Time(0), Time(0)}};
  // How far apart corresponding words of the two stacks are.
  uint64_t stack_shift_ = 0;
  // Further inputs that differ, or whose value is not recorded (flags, vectors), to be tried when
  // the first leads nowhere.
  std::vector<Candidate> alternatives_;
  std::vector<Candidate> last_alternatives_;  // addresses of blocks: tried when no other is left
  Effort effort_;
  int definitions_ = 0, loops_ = 0;  // of this Follow
  bool by_place_ = false;            // the way that is followed led on from where a value lay
};

}  // namespace ttq::diff

#endif  // TTQ_DIFF_ORIGIN_H_

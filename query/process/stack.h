// SPDX-License-Identifier: MIT
//
// The call stack of a thread at a moment: which calls are active, where each goes on when it
// returns, and the registers each had, as far as they can be known.
//
// Frames are found by call-frame information (query/code/unwind.h). Where code has none (a JIT
// compiler's, hand-written assembler's), the recording itself is asked: a word of the stack that a
// call instruction pushed, and to which no return has been made since, is the return address; the
// registers at that call are the caller's. Frames found so are exact too, but cost a few blocks
// each.
//
// Memory and debug information are untrusted: stacks are bounded, and each frame lies above the one
// before it, except where a signal or a context switch changed stacks.

#ifndef TTQ_QUERY_PROCESS_STACK_H_
#define TTQ_QUERY_PROCESS_STACK_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "query/code/symbols.h"
#include "query/code/unwind.h"
#include "query/process/process_names.h"
#include "query/value.h"
#include "store/read/reader.h"

namespace ttq {

class TailCalls;
struct Outcome;

// The general registers of a frame. A register that calls do not preserve is not known in the
// callers' frames.
struct FrameRegisters {
  std::array<uint64_t, kGprCount> gpr{};
  std::array<uint64_t, kGprCount> saved_at{};  // where it is saved in memory; 0: nowhere
  uint32_t known = 0;                          // a bit for each Gpr
  std::optional<uint64_t> Get(Gpr reg) const {
    return known >> reg & 1 ? std::optional<uint64_t>(gpr[reg]) : std::nullopt;
  }
  void Set(Gpr reg, uint64_t value) {
    gpr[reg] = value;
    known |= 1u << reg;
  }
  void Forget(Gpr reg) {
    known &= ~(1u << reg);
    saved_at[reg] = 0;
  }
};

// The register that passes integer argument `i` < 6.
Gpr ArgumentRegister(int i);

struct Frame {
  enum class Kind : uint8_t {
    kNormal,
    kInlined,  // a copy inlined into the next frame; shares its registers and CFA
    kSignal,   // where the kernel entered to deliver a signal
    kJit,      // code in no module
    kTail,     // it ended in a jump to the function of the frame before: nothing of it is left
  };
  // How the next frame out was found.
  enum class Method : uint8_t { kNone, kCallFrameInfo, kCallHistory, kFramePointer };

  uint32_t number = 0;  // 0: innermost
  Kind kind = Kind::kNormal;
  Method method = Method::kNone;
  // The instruction to be executed next in this frame: a caller's is its return address.
  Address pc;
  // An address inside the instruction being executed, for looking things up: pc itself in the
  // innermost frame and where a signal interrupted, else inside the call.
  Address lookup_pc;
  // The value of rsp before the call that made this frame; nullopt: not known.
  std::optional<Address> cfa;
  FrameRegisters registers;
  // Nothing of the function has been executed yet: its arguments are where the ABI puts them.
  bool at_entry = false;
  // Of a kTail frame and what is inlined in it: its part of the stack is used by others.
  bool is_gone = false;
  uint32_t inlined = 0;  // of the functions inlined into one another at pc, which: 0 is innermost
  std::string function;  // empty: no name
  std::string symbol;    // as the linker knows it
  std::string module;    // base name
  std::string file;
  int line = 0;  // 0: unknown
};
// `pc` is the first instruction of the function that really exists there, `location` names it:
// nothing that is inlined into it has begun either.
bool IsEntry(const Symbolizer& symbols, const CodeLocation& location, Address pc);
// Which of the functions inlined into one another at `pc`, where a thread is at the moment, its
// stack begins with: `asked` if it is one of them; at a function's first instruction the function
// itself, but for a crash, of which the innermost is of interest.
uint32_t InnermostAt(const Symbolizer& symbols, const CodeLocation& location, const Moment& moment,
                     Address pc, std::optional<uint32_t> asked);
const char* FrameKindName(Frame::Kind kind);      // "normal", "inlined", "signal", "jit", "tail"
const char* FrameMethodName(Frame::Method kind);  // "cfi", "call history", "frame pointer", ""

struct Stack {
  Time time;
  ThreadNo thread;
  std::vector<Frame> frames;  // innermost first
  bool truncated = false;     // there are more frames than were asked for
  // Why it ends where it does, when that is not a program's usual start; empty otherwise.
  std::string note;
};

// Adds to an answer's note what there is to say of a stack: where it was cut or guessed.
void Describe(const Stack& stack, Outcome* outcome);

struct StackOptions {
  size_t max_frames = 10000;
  // Go on to what called `main`. Debuggers do not.
  bool past_main = false;
  // Which of the functions inlined into one another where the thread is the stack begins with: 0 is
  // the innermost. Several begin at one instruction, and a call of one of them is meant.
  std::optional<uint32_t> inlined;
};

// Makes stacks. Keeps what it learns about code, so that one object for many stacks is cheaper.
// Belongs to one thread and must not outlive its names.
class Unwinder {
 public:
  explicit Unwinder(const ProcessNames& names);
  ~Unwinder();

  // The stack of `thread` (default: the running one) at the moment's time. NotFound when the thread
  // does not live then.
  absl::StatusOr<Stack> StackOf(Moment& moment, std::optional<ThreadNo> thread,
                                const StackOptions& options = {});
  // How many calls are active outside the innermost frame's function, counting functions inlined
  // into one another as `StackOf` does: the number of frames after that of `function`, which is
  // among the innermost.
  absl::StatusOr<int64_t> DepthOf(Moment& moment, ThreadNo thread, const std::string& function);
  // The function that jumped to the one whose first instruction is next, if it was not called: its
  // name, which may be empty. `return_address`: the word on top of the stack.
  absl::StatusOr<std::optional<std::string>> JumpedFrom(Moment& moment, ThreadNo thread,
                                                        Address entry, Address return_address);

 private:
  // Calls `use` with every physical frame and each that jumped on, and its place, innermost first,
  // until it says false.
  // Fills in what ended the walk.
  using UseFrame = std::function<bool(Frame& frame, const CodeLocation& location)>;
  absl::Status Walk(Moment& moment, ThreadNo thread, bool past_main, std::string* note,
                    const UseFrame& use);
  UnwindTable* TableOf(const Module& module);
  absl::StatusOr<bool> Up(Moment& moment, ThreadNo thread, const Symbolizer& symbols, Frame* frame,
                          Frame* caller, std::string* why_not);
  absl::StatusOr<bool> UpByRow(Moment& moment, const UnwindRow& row, uint64_t bias, Frame* frame,
                               Frame* caller, std::string* why_not);
  absl::StatusOr<bool> UpByHistory(Moment& moment, ThreadNo thread, Frame* frame, Frame* caller);
  absl::StatusOr<bool> UpByFramePointer(Moment& moment, Frame* frame, Frame* caller);
  absl::StatusOr<bool> IsReturnAddress(Moment& moment, Address address);

  const ProcessNames& names_;
  absl::flat_hash_map<const SymbolFile*, std::unique_ptr<UnwindTable>> tables_;
  std::unique_ptr<TailCalls> tail_calls_;
  // Executable memory, for guesses.
  Time mappings_time_ = kTimeMax;
  std::vector<AddressRange> executable_;
};

}  // namespace ttq

#endif  // TTQ_QUERY_PROCESS_STACK_H_

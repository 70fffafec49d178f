// SPDX-License-Identifier: MIT
//
// The call stack of a thread at a moment: the active calls, the return address of each, and each
// frame's registers as far as they can be recovered.
//
// The unwinder uses call-frame information (query/code/unwind.h). Where code has none (JIT-compiled
// code, assembler), it searches the recording: the return address is a word of the stack that a
// call instruction pushed and that no return has used since; the registers at that call are the
// caller's. Frames found in this way are exact too, but each decodes a few blocks. So it does where
// a return address was overwritten while its function ran.
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

// The general registers of a frame. A caller-saved register is usually not known in the frames of
// callers.
struct FrameRegisters {
  std::array<uint64_t, kGprCount> gpr{};
  std::array<uint64_t, kGprCount> saved_at{};  // address it is saved at; 0: not in memory
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

// A bit for each Gpr that a call leaves as it was.
inline constexpr uint32_t kPreservedByCalls =
    1u << kRbx | 1u << kRbp | 1u << kR12 | 1u << kR13 | 1u << kR14 | 1u << kR15;
// The register that passes integer argument `i` < 6.
Gpr ArgumentRegister(int i);

struct Frame {
  enum class Kind : uint8_t {
    kNormal,
    kInlined,  // inlined into the next frame; shares its registers and CFA
    kSignal,   // the kernel's frame for a signal handler
    kJit,      // code in no module
    kTail,     // ended in a jump to the frame before: its frame is gone
  };
  // How the caller's frame was found.
  enum class Method : uint8_t { kNone, kCallFrameInfo, kCallHistory, kFramePointer };

  uint32_t number = 0;  // 0: innermost
  Kind kind = Kind::kNormal;
  Method method = Method::kNone;
  // The instruction that this frame executes next: in a caller, its return address.
  Address pc;
  // An address for symbol look-up: pc in the innermost frame and in one that a signal interrupted,
  // else an address inside the call instruction.
  Address lookup_pc;
  // Canonical frame address: rsp before the call that made this frame; nullopt: not known.
  std::optional<Address> cfa;
  FrameRegisters registers;
  // At the function's first instruction: its arguments are where the ABI puts them.
  bool at_entry = false;
  // A kTail frame or one inlined in it: other frames use its part of the stack.
  bool is_gone = false;
  // Its return address was overwritten while the function ran; its caller is the one that the call
  // pushed.
  bool overwritten = false;
  uint32_t inlined = 0;  // index into CodeLocation::frames at pc; 0: the innermost function
  std::string function;  // empty: no name
  std::string symbol;    // linker's name
  std::string module;    // base name
  std::string file;
  int line = 0;  // 0: unknown
};
// Whether `pc`, which `location` describes, is the first instruction of its out-of-line function.
// Functions inlined there have not begun either.
bool IsEntry(const Symbolizer& symbols, const CodeLocation& location, Address pc);
// The index into `location.frames` with which a stack at `pc` begins: `asked` if that is in range;
// at a function's first instruction the out-of-line function, except at a crash, where the
// innermost function is of interest; else 0.
uint32_t InnermostAt(const Symbolizer& symbols, const CodeLocation& location, const Moment& moment,
                     Address pc, std::optional<uint32_t> asked);
const char* FrameKindName(Frame::Kind kind);  // "normal", "inlined", "signal", "jit", "tail"

// The frame of a call, not of a copy that was inlined into it.
inline bool IsCallFrame(const Frame& f) { return f.kind != Frame::Kind::kInlined && !f.is_gone; }
// When the frame's function was called, `before` being a time at which it ran; nullopt: not known.
absl::StatusOr<std::optional<Time>> CalledAt(const Process& process, const Frame& frame,
                                             Time before);

struct Stack {
  Time time;
  ThreadNo thread;
  std::vector<Frame> frames;  // innermost first
  bool truncated = false;     // max_frames cut it
  // Why the stack ends before the program's usual start; empty: it does not.
  std::string note;
};

// Adds to `outcome` where the stack was cut, guessed or found in the recording; one that was cut or
// guessed makes the answer incomplete.
void Describe(const Stack& stack, Outcome* outcome);

struct StackOptions {
  size_t max_frames = 10000;
  // Continue to the callers of `main`. Debuggers do not.
  bool past_main = false;
  // Where functions are inlined at the thread's pc, the one that the stack begins with: an index
  // into CodeLocation::frames, 0 for the innermost. Several functions can begin at one instruction;
  // a row about a call of one of them says which.
  std::optional<uint32_t> inlined;
};

// Unwinds stacks. Caches what it learns about code: use one object for many stacks. Belongs to one
// thread and must not outlive its names.
class Unwinder {
 public:
  explicit Unwinder(const ProcessNames& names);
  ~Unwinder();

  // The stack of `thread` (default: the running one) at the moment's time. NotFound: the thread
  // does not live then.
  absl::StatusOr<Stack> StackOf(Moment& moment, std::optional<ThreadNo> thread,
                                const StackOptions& options = {});
  // The number of frames outside of `function`, which is one of the functions at the thread's pc.
  // Counts inlined functions as StackOf does.
  absl::StatusOr<int64_t> DepthOf(Moment& moment, ThreadNo thread, const std::string& function);
  // If the thread is at the function entry `entry` and came there by a jump, not a call: the name
  // of the function that jumped, which may be empty. `return_address`: the word on top of the
  // stack.
  absl::StatusOr<std::optional<std::string>> JumpedFrom(Moment& moment, ThreadNo thread,
                                                        Address entry, Address return_address);

 private:
  // Calls `use` with every physical and every kTail frame and its location, innermost first, until
  // it returns false. `note` gets the reason if the walk ends early.
  using UseFrame = std::function<bool(Frame& frame, const CodeLocation& location)>;
  absl::Status Walk(Moment& moment, ThreadNo thread, bool past_main, std::string* note,
                    const UseFrame& use);
  UnwindTable* TableOf(const Module& module);
  absl::StatusOr<bool> Up(Moment& moment, ThreadNo thread, const Symbolizer& symbols, Frame* frame,
                          Frame* caller, std::string* why_not);
  absl::StatusOr<bool> UpByRow(Moment& moment, const UnwindRow& row, uint64_t bias, Frame* frame,
                               Frame* caller, std::string* why_not);
  absl::StatusOr<bool> UpByHistory(Moment& moment, ThreadNo thread, Frame* frame, Frame* caller);
  absl::Status UpByOverwrittenCall(Moment& moment, ThreadNo thread, Frame* frame, Frame* caller);
  absl::StatusOr<bool> UpToCall(const Moment& moment, const Access& call, Address slot,
                                Address back, Frame* frame, Frame* caller);
  absl::StatusOr<bool> UpByFramePointer(Moment& moment, Frame* frame, Frame* caller);
  absl::StatusOr<bool> IsReturnAddress(Moment& moment, Address address);

  const ProcessNames& names_;
  absl::flat_hash_map<const SymbolFile*, std::unique_ptr<UnwindTable>> tables_;
  std::unique_ptr<TailCalls> tail_calls_;
  // Executable memory, to check return addresses that were guessed.
  Time mappings_time_ = kTimeMax;
  std::vector<AddressRange> executable_;
};

}  // namespace ttq

#endif  // TTQ_QUERY_PROCESS_STACK_H_

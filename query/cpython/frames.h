// SPDX-License-Identifier: MIT
//
// Python's own stack: the frames of a thread state at a time, where each is in its code, and its
// variables.
//
// A walk follows the links that the interpreter keeps, at whatever instruction it was stopped: a
// frame half pushed or half popped is left out as the interpreter's own traceback leaves it out,
// and where the links break the stack says so. No walk is longer than kMaxFrames.
//
// A FrameReader belongs to one thread and one time: Forget it when the memory moves.

#ifndef TTQ_QUERY_CPYTHON_FRAMES_H_
#define TTQ_QUERY_CPYTHON_FRAMES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "query/cpython/layout.h"
#include "query/cpython/memory.h"
#include "query/cpython/objects.h"

namespace ttq::python {

// Where an instruction is in its source. Zero: not known. Columns count bytes of UTF-8 from 1, the
// end one past the last.
struct Position {
  int line = 0, end_line = 0, column = 0, end_column = 0;
};

// A code object.
struct Code {
  uint64_t address = 0;
  std::string name, qualname;  // equal where the version keeps no qualified name (up to 3.10)
  std::string filename;
  int first_line = 0;
  uint32_t flags = 0;
  int argcount = 0, posonlyargcount = 0, kwonlyargcount = 0;
  uint64_t instructions = 0;    // address of the first; 0 up to 3.10
  int64_t first_traceable = 0;  // bytes; a frame before it is not complete
  std::string line_table;
  struct Variable {
    std::string name;
    uint8_t kind = 0;  // kLocalFast, kLocalCell, kLocalFree, kLocalHidden
  };
  std::vector<Variable> variables;  // as they follow each other in a frame
};

// The position of the instruction at byte offset `offset` of the code (negative: not begun, the
// first line).
Position PositionAt(const Layout& layout, const Code& code, int64_t offset);
// Only its line; 0: none.
int LineAt(const Layout& layout, const Code& code, int64_t offset);

// Instructions [begin, end) of a code, offsets in bytes, that are on one line (0: on none), as its
// table has them. In 3.9 the table does not say where the last range ends.
struct LineRange {
  int64_t begin = 0, end = 0;
  int line = 0;
};
std::vector<LineRange> LineRanges(const Layout& layout, const Code& code);

struct Frame {
  uint64_t address = 0;
  std::shared_ptr<const Code> code;
  int64_t offset = 0;  // of the current instruction in its code, bytes
  Position position;
  FrameOwner owner = FrameOwner::kThread;
  bool is_entry = false;  // C called it; up to 3.10 every frame is
  // Something that the C function which runs it has on its stack; 0: not known. From 3.11 on.
  uint64_t on_c_stack = 0;
  uint64_t function = 0;  // the function object; 0: not known
  uint64_t globals = 0, builtins = 0;
  uint64_t locals = 0;     // the mapping of a module's or class's frame; 0: none
  uint64_t generator = 0;  // the generator or coroutine that it belongs to; 0: none
};

// The frame that a frame object stands for: itself up to 3.10.
uint64_t FrameOfObject(const Layout& layout, Memory& memory, uint64_t object);

// Where the instructions of a code are in memory; of a copy that a thread has of its own, where the
// code has them itself.
uint64_t InstructionsOf(const Layout& layout, Memory& memory, const Code& code);

struct Stack {
  std::vector<Frame> frames;  // innermost first
  std::string incomplete;     // why there may be more; "": it is whole
};

struct LocalVariable {
  std::string name;
  uint64_t value = 0;  // the object; 0: not bound
  // The slot that holds it, for watching it; 0 where it lives in a dict.
  uint64_t slot = 0;
  enum class Kind : uint8_t { kLocal, kCell, kFree, kHidden, kName };
  Kind kind = Kind::kLocal;
};

// 3.11 and 3.12: whether the innermost `cframe` holds a frame that leads to the one of the cframe
// below. It does but for the few instructions in which a frame is entered; and then very rarely, by
// what memory held there before.
bool CFrameLooksSet(const Layout& layout, Memory& memory, uint64_t cframe);

class FrameReader {
 public:
  static constexpr size_t kMaxFrames = 100000;

  explicit FrameReader(ObjectReader* objects) : objects_(*objects), layout_(objects->layout()) {}

  // Null when there is no code object at `code`.
  std::shared_ptr<const Code> ReadCode(uint64_t code);

  // What a frame is, were it whole or not.
  enum class Kind {
    kPython,      // `frame` is filled in
    kShim,        // stands for C between two Python functions
    kIncomplete,  // being pushed, or only makes a generator object
    kBroken,      // not a frame
  };
  // `current`: it is the one that its thread runs. Such a frame is whole from its first instruction
  // on; one that has called something, only from its first traceable one on, as in CPython.
  Kind ReadFrame(uint64_t address, Frame* frame, bool current = false);
  // The caller of the frame at `address`; nullopt when it cannot be read, 0 at the end.
  std::optional<uint64_t> Previous(uint64_t address);

  // The word that says which frame a thread state runs, and what it says.
  struct Current {
    uint64_t frame = 0;   // 0: none
    uint64_t cframe = 0;  // 3.11 and 3.12: the one it was read from; 0: not known
    bool known = true;
    // Not linked to the frame below it yet, which is this; then also whether C called it.
    std::optional<uint64_t> below;
    bool is_entry = false;
  };
  Current CurrentFrame(uint64_t thread_state);

  // 3.11 and 3.12: the last write to a word, if it was a few hundred instructions ago at most: what
  // it stored and what was there before. Without this, frames that are being entered are not seen.
  struct WordWrite {
    uint64_t value = 0, previous = 0;
  };
  using LastWrite = std::function<std::optional<WordWrite>(uint64_t word)>;
  void set_last_write(LastWrite last_write) { last_write_ = std::move(last_write); }

  Stack Walk(uint64_t thread_state);
  Stack WalkFrom(const Current& current);
  // The frame of a generator, coroutine or asynchronous generator that is not running; nullopt when
  // it is, or has ended, or there is none at `generator`.
  std::optional<Frame> SuspendedFrame(uint64_t generator);

  // The variables of a frame in the order of its code, then those of its mapping that are not among
  // them. Unbound ones are left out. `most` bounds a mapping's.
  std::vector<LocalVariable> Locals(const Frame& frame, size_t most = 1 << 16);
  // As the function sees it: locals, then globals, then builtins. `scope` gets "local", "global" or
  // "builtin". 0: not there.
  uint64_t Lookup(const Frame& frame, std::string_view name, std::string* scope);

  void Forget() { codes_.clear(); }
  ObjectReader& objects() { return objects_; }
  const Layout& layout() const { return layout_; }

 private:
  Memory& memory() { return objects_.memory(); }
  bool IsFresh(uint64_t frame);
  uint64_t InstructionBase(uint64_t frame, const Code& code);
  void AddDict(uint64_t mapping, size_t most, std::vector<LocalVariable>* variables);

  ObjectReader& objects_;
  const Layout& layout_;
  LastWrite last_write_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<const Code>> codes_;
};

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_FRAMES_H_

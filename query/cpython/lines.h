// SPDX-License-Identifier: MIT
//
// The lines of Python that were executed. The source are the writes to a frame's pointer to its
// current instruction, one for each instruction. A line begins where sys.settrace reports a `line`
// event: at an instruction of another line than the one before it in the frame,
// and at a jump backwards. (In 3.9: where an entry of the line table begins, and where an exception
// is caught.)
//
// The instructions themselves decide three cases. Where an exception is raised again, the pointer
// is set back to its source, and nothing is executed there. 3.11 and 3.12 run some pairs of
// instructions as one, with one write: the second may begin a line of its own. In 3.14 the code
// behind a loop's end does not begin its line again.
//
// A scanner goes forward and belongs to one thread.

#ifndef TTQ_QUERY_CPYTHON_LINES_H_
#define TTQ_QUERY_CPYTHON_LINES_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "query/cpython/frame_history.h"
#include "query/cpython/variables.h"
#include "store/read/reader.h"

namespace ttq::python {

struct LineEvent {
  Time time;  // of the first instruction's first write
  ThreadNo thread;
  uint64_t frame = 0;
  uint32_t code = kNoCode;
  int line = 0;
};

class LineScanner {
 public:
  // Lines begun in `span` by functions of `codes` (sorted); only `line`, unless that is 0. The
  // process and `history` must outlive it.
  static absl::StatusOr<std::unique_ptr<LineScanner>> Open(
      const Process& process, const FrameHistory& history, const std::vector<uint32_t>& codes,
      int line, TimeSpan span, std::optional<ThreadNo> thread, ScanControl* control);
  // The next one; nullopt at the end.
  absl::StatusOr<std::optional<LineEvent>> Next();

 private:
  // The activations whose frame has its instruction in one word, in order.
  struct Track {
    std::vector<Activation> activations;
    size_t now = 0;            // which of them the last write was of
    int64_t previous = kNone;  // its last instruction's offset
  };
  // What is to be known of a code.
  struct Function {
    std::vector<LineRange> ranges;
    std::string instructions;       // as they are in the end
    std::vector<int64_t> handlers;  // 3.9: where exceptions are caught; sorted
    const LineRange* At(int64_t offset) const;
    uint8_t Opcode(int64_t offset) const;
    uint8_t Argument(int64_t offset) const;
    // Whether the instruction, which is in `range`, is one where sys.monitoring may begin a line
    // (CPython 3.14, Python/instrumentation.c, initialize_lines).
    bool MayBegin(int64_t offset, const LineRange& range, uint8_t end_for, uint8_t pop_iter) const;
  };
  static constexpr int64_t kNone = -1;

  LineScanner(const Process& process, const FrameHistory& history, int line)
      : process_(process), history_(history), line_(line) {}
  // Where a frame stood when it was entered.
  static int64_t EnteredAt(const Layout& layout, const Activation& activation);
  absl::StatusOr<const Function*> FunctionOf(const Activation& activation);
  // What one write says.
  absl::Status Take(const Access& access);
  // An instruction is executed. `is_loop`: a jump back to it begins its line again.
  void Execute(const Activation& activation, const Function& function, Time time, int64_t previous,
               int64_t offset, bool is_loop);

  const Process& process_;
  const FrameHistory& history_;
  int line_;
  absl::flat_hash_map<uint64_t, Track> tracks_;  // by word
  absl::flat_hash_map<uint32_t, std::unique_ptr<const Function>> functions_;
  std::unique_ptr<Cursor<Access>> cursor_;
  std::deque<LineEvent> events_;  // to be given
  // A line that the second of a pair begins, unless it is written of itself.
  struct Second {
    LineEvent event;
    uint64_t word = 0;
    int64_t offset = 0;
  };
  std::optional<Second> second_;
};

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_LINES_H_

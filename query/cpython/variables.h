// SPDX-License-Identifier: MIT
//
// Where a Python variable is kept, over time: a word of memory from one time to another, then
// another word. What writes those words changes the variable.
//
//   - a function's local is in a slot of each activation's frame, or in the cell that the slot
//     holds;
//   - a global, a module's name and a dict's item are in the value word of an entry of the dict's
//     keys, which move when the dict grows;
//   - an attribute is in the object's values, in its dict, or in a slot of its class.
//
// An entry that is deleted and comes back takes another word; the rows that it was in are told from
// the writes to their key words.

#ifndef TTQ_QUERY_CPYTHON_VARIABLES_H_
#define TTQ_QUERY_CPYTHON_VARIABLES_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/frame_history.h"
#include "query/cpython/objects.h"
#include "query/cpython/provenance.h"
#include "store/read/reader.h"

namespace ttq::python {

// Writes to `word` at times begin < t < end change the variable.
struct WatchedSlot {
  uint64_t word = 0;
  Time begin, end;
  uint64_t frame = 0;  // of a local; 0: none
  // What a dict that was resized copies into it, until about `settled`: no change.
  uint64_t copied = 0;
  Time settled;
  // The write to `word` does away with the item, which had this value, without writing to it.
  uint64_t gone = 0;
};

// The slots of the local `name` of each activation of `codes` (sorted) that overlaps `span`.
// REQUIRES: the history up to span.end is there.
absl::StatusOr<std::vector<WatchedSlot>> LocalSlots(const FrameHistory& history,
                                                    Provenance& provenance,
                                                    const std::vector<uint32_t>& codes,
                                                    std::string_view name, TimeSpan span);

using Key = std::variant<std::string, int64_t>;

// The address of the word that holds the value of the item `key` of `dict`; 0: it has no such item.
uint64_t DictSlot(ObjectReader& objects, uint64_t dict, const Key& key);

// The slots of the item `key` of a dict, or of the attribute `key` of an object, back from `t`,
// where it is `object`, to `span.begin`. Empty: it has no such item. `missing` gets
// a sentence where there may be more.
absl::StatusOr<std::vector<WatchedSlot>> ItemSlots(const Process& process, Provenance& provenance,
                                                   uint64_t object, const Key& key, bool attribute,
                                                   Time t, TimeSpan span, std::string* missing);

// The time just before the outermost frame of the process's first Python thread is left, or
// `span.end` where that is earlier, and that frame. NotFound: there is none.
struct MainFrame {
  Time time;
  uint64_t frame = 0;
};
absl::StatusOr<MainFrame> FindMainFrame(const FrameHistory& history, TimeSpan span);

// The activations of `codes` (sorted) that overlap `span`, in order. REQUIRES: the history up to
// span.end is there.
struct Activation {
  Time begin, end;  // entered; left, or kTimeMax when that is not before span.end
  ThreadNo thread;
  uint64_t frame = 0;
  uint32_t code = kNoCode;
  // How it was entered, and the offset of its instruction then. Of one that was entered before the
  // span: not known.
  TransitionKind kind = TransitionKind::kCall;
  int64_t offset = 0;
};
absl::StatusOr<std::vector<Activation>> ActivationsOf(const FrameHistory& history,
                                                      const std::vector<uint32_t>& codes,
                                                      TimeSpan span);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_VARIABLES_H_

// SPDX-License-Identifier: MIT
//
// The objects that lived at an address, one after the other, told from the writes to what counts
// their references and to the word that names their type.
//
// An object is born where its count becomes 1 from something that was no count of the same object:
// 0, a link of the allocator or of a free list, or what a debug allocator fills memory with. A type
// is stored with it, except where a free list hands out what it kept (tuples, lists, dicts, floats
// and a few more). It dies where its count becomes 0, and not where a finaliser still runs: that
// takes a reference of its own to the dying object, 0 to 1, without storing a type.
//
// In free-threaded builds the thread that made an object counts its references in one word, all
// others theirs in the next; the references are both together. It is born where the first becomes
// 1, and dies where both together become 0, but not where the first is being added to the second
// (_Py_ExplicitMergeRefcount).
//
// A scanner goes backwards and belongs to one thread.

#ifndef TTQ_QUERY_PYTHON_LIFETIME_H_
#define TTQ_QUERY_PYTHON_LIFETIME_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "query/python/layout.h"
#include "query/python/objects.h"
#include "query/python/provenance.h"
#include "store/reader.h"

namespace ttq::python {

// Where an object's references are counted.
struct CountWord {
  uint64_t offset = 0;  // from the object
  uint32_t size = 8;    // bytes that count
  // Free-threaded builds: the bytes behind these, for other threads: SharedReferences.
  uint32_t shared_size = 0;

  AddressRange Of(uint64_t object) const {
    return {Address(object + offset), Address(object + offset + size + shared_size)};
  }
};
CountWord CountWordOf(const Layout& layout);

// A write to it.
struct CountChange {
  Access access;
  int64_t before = 0, after = 0;
  // The part of them that the owning thread counts; else as before and after.
  int64_t own_before = 0, own_after = 0;
  bool deferred = false;  // the collector holds it too: it does not die by being 0
  bool merges = false;    // adds what was the owner's to the others'
};
// What memory holds where a count would be, but is none: a pointer, a fill pattern.
bool IsCount(int64_t n);

// Reads the writes to one object's count as they come, in one direction.
class CountReader {
 public:
  // `start`: where in time the first will be, at the earliest; backward, at the latest.
  static absl::StatusOr<CountReader> Open(Provenance& provenance, uint64_t object,
                                          const CountWord& word, Direction direction, Time start);
  // nullopt when the write does not cover the count, or, for one in two parts, changes nothing.
  std::optional<CountChange> Read(Access access);

 private:
  struct Part {
    uint64_t offset;  // from the object
    uint32_t size;
    int64_t value = 0;  // before the next write; backward, after it. Used where there are two
  };
  CountReader(uint64_t object, const CountWord& word, Direction direction)
      : object_(object),
        forward_(direction == Direction::kForward),
        own_{word.offset, word.size},
        shared_{word.offset + word.size, word.shared_size} {}

  uint64_t object_;
  bool forward_;
  Part own_, shared_;
};

struct Epoch {
  std::optional<CountChange> birth;  // none: it was there before any write to it
  std::optional<CountChange> death;  // none: it lives on
  // The last time at which it lives: the end of what was asked for, or just before it dies.
  Time alive;
  // A time at which its type can be read: `alive`, or soon after its birth, if something else was
  // written over it later.
  Time whole;
  uint64_t type = 0;
  std::string type_name;  // "function"; "?": its type could not be read
};

class EpochScanner {
 public:
  // Objects at `object` that lived before `span.end`. `provenance` must outlive it. With
  // `births_only` the first epoch's death may be left out, and what happened to an object that is
  // still alive is not gone through.
  static absl::StatusOr<std::unique_ptr<EpochScanner>> Open(const Process& process,
                                                            Provenance* provenance, uint64_t object,
                                                            TimeSpan span, ScanControl* control,
                                                            bool births_only = false);
  // The next older one; nullopt: there is no older one.
  absl::StatusOr<std::optional<Epoch>> Next();
  const Layout& layout() const { return layout_; }

 private:
  EpochScanner(Provenance* provenance, uint64_t object, TimeSpan span, const Layout& layout)
      : provenance_(*provenance),
        object_(object),
        span_(span),
        layout_(layout),
        word_(CountWordOf(layout)) {}
  // Reads the type of the epoch; whether a free list may have handed it out without a type store.
  absl::StatusOr<bool> Finish(Epoch* epoch);
  // The end of what must be looked at for the birth of the object alive at `end`.
  absl::StatusOr<Time> EndOfBirth(const Process& process, Time end);

  Provenance& provenance_;
  uint64_t object_;
  TimeSpan span_;
  Layout layout_;
  CountWord word_;
  std::unique_ptr<Cursor<Access>> cursor_;
  std::optional<CountReader> counts_;  // as cursor_
  std::optional<CountChange> pending_death_;
  bool any_ = false, ended_ = false;
  bool merged_ = false;  // the change met last adds the owner's count to the others'
  // A possible birth, found already but not decided on.
  std::optional<CountChange> candidate_;
};

}  // namespace ttq::python

#endif  // TTQ_QUERY_PYTHON_LIFETIME_H_

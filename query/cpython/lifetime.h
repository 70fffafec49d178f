// SPDX-License-Identifier: MIT
//
// The objects that lived at an address, one after the other, told from the writes to what counts
// their references and to the word that names their type.
//
// An object is born where its count is set to 1 and a type is stored with it, whatever was in its
// memory before: a link of the allocator, what a debug allocator fills memory with, or a number
// that could pass for a count. Free lists hand out what they kept (tuples, lists, dicts and a few
// more) without storing a type: there the count goes from 0, or from a link, to 1. Code
// that counts has read the word just before, code that sets it has not.
//
// It dies where its count becomes 0, unless it is brought back. Deallocators take a reference of
// their own to the dying object while they run finalisers and tell watchers, 0 to 1, and give it
// back where they took it; where that does not lead to 0 the object has been brought back to life.
// Any other counting of a dead object is a use after it was freed. The count of
// an object that realloc moved never becomes 0: the object ends where the allocator, or the next
// owner of its memory, overwrites it.
//
// In free-threaded builds the thread that made an object counts its references in one word, all
// others theirs in the next; the references are both together. It is born where the first becomes
// 1, and dies where both together become 0, but not where the first is being added to the second
// (_Py_ExplicitMergeRefcount).
//
// A scanner goes backwards and belongs to one thread.

#ifndef TTQ_QUERY_CPYTHON_LIFETIME_H_
#define TTQ_QUERY_CPYTHON_LIFETIME_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "query/cpython/layout.h"
#include "query/cpython/objects.h"
#include "query/cpython/provenance.h"
#include "store/read/reader.h"

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
  // Its count did not become 0: `death` is the first write of what took its place.
  bool replaced = false;
  // The first time that somebody counted a reference after it had died.
  std::optional<CountChange> use_after;
  // The last time at which it lives: the end of what was asked for, or just before it dies.
  Time alive;
  // A time at which its type can be read: `alive`, or soon after its birth, if something else was
  // written over it later.
  Time whole;
  uint64_t type = 0;
  std::string type_name;  // "function"; "?": its type could not be read
};

// "alive", "freed", or "replaced": as Epoch says, at the end of what was looked at.
std::string StateOf(const Epoch& epoch);
// The name of the native function at pc, not of one that is inlined there; "" when it has none.
absl::StatusOr<std::string> NativeFunction(const Context& context, Address pc, Time t);

class EpochScanner {
 public:
  // Objects at `object` that lived before `span.end`. `provenance` must outlive it. With
  // `births_only` the first epoch's death may be left out, and what happened to an object that is
  // still alive is not gone through.
  static absl::StatusOr<std::unique_ptr<EpochScanner>> Open(const Process& process,
                                                            Provenance* provenance, uint64_t object,
                                                            TimeSpan span, ScanControl* control,
                                                            bool births_only = false,
                                                            uint64_t most_changes = UINT64_MAX);
  // The next older one; nullopt: there is no older one.
  absl::StatusOr<std::optional<Epoch>> Next();
  const Layout& layout() const { return layout_; }

 private:
  // A change after which the object may be dead, and those that follow it, the next one first.
  struct Mark {
    CountChange change;
    std::vector<CountChange> next;
  };

  EpochScanner(const Process& process, Provenance* provenance, uint64_t object, TimeSpan span,
               const Layout& layout)
      : process_(process),
        provenance_(*provenance),
        object_(object),
        span_(span),
        layout_(layout),
        word_(CountWordOf(layout)) {}
  // The end of what must be looked at for the birth of the object alive at `end`.
  absl::StatusOr<Time> EndOfBirth(const Process& process, Time end);
  // Whether the candidate is a birth, by the access before it in time; null: there is none.
  absl::StatusOr<bool> IsBirth(const Access* before, const CountChange* change);
  // Whether the thread that made the change read the word in the instructions before, from `since`
  // on: it counted, and did not set.
  absl::StatusOr<bool> HasRead(const CountChange& change, Time since);
  // Whether a change from 0 is that of a deallocator at work since the object's count became 0.
  absl::StatusOr<bool> IsDeallocator(const CountChange& zero, const CountChange& change);
  // Reads the type of an epoch whose birth is known; false: it has none, so there was no object.
  absl::StatusOr<bool> Finish(Epoch* epoch);
  // Finds the death among the marks.
  absl::Status FindDeath(Epoch* epoch);
  absl::StatusOr<bool> IsUse(const Epoch& epoch, const CountChange& change, Time written);
  absl::StatusOr<const TypeInfo*> TypeAt(Time t, ObjectReader** reader);
  void Keep(const CountChange& change);
  absl::StatusOr<std::optional<Epoch>> Unborn(int64_t count);

  const Process& process_;
  Provenance& provenance_;
  uint64_t object_;
  TimeSpan span_;
  Layout layout_;
  CountWord word_;
  std::unique_ptr<Cursor<Access>> cursor_;
  std::optional<CountReader> counts_;  // as cursor_
  uint64_t most_changes_ = UINT64_MAX;
  bool ended_ = false, done_ = false;
  bool merged_ = false;  // the change met last adds the owner's count to the others'
  std::optional<CountChange> earliest_;  // the change met last
  // A possible birth, found already but not decided on.
  std::optional<CountChange> candidate_;
  Time type_after_ = kTimeMax;  // when its type was stored, if that was after it
  Time type_with_ = kTimeMax;   // when its type was stored, as IsBirth found
  Time last_type_ = kTimeMax;   // of the type store met last: the earliest so far
  // Of the epoch that is being gone through, the newest first; and the changes met last, the
  // earliest first.
  std::vector<Mark> marks_;
  std::vector<CountChange> met_;
  // The first write of the epoch that came after.
  std::optional<CountChange> successor_;
  absl::flat_hash_map<uint64_t, bool> counts_at_;  // what HasRead found, by pc
};

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_LIFETIME_H_

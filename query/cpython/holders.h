// SPDX-License-Identifier: MIT
//
// Which words of memory hold an object at a moment, and what a programmer calls them.
//
// All memory that can be written is searched for the object's address. A word that holds it is
// certain where it is known to be in use: an item, an attribute or a field of an object that is
// alive, a variable of a frame that runs or waits, a global of C. Words of dead objects, of C's
// stacks and of a frame's evaluation stack are left out: nobody clears those. From a certain word
// the search continues with the holders of the object that contains it, until it comes to a name:
// `cache[3] in module app`.
//
// Nothing in memory is trusted; all searches are bounded. Belongs to one thread.

#ifndef TTQ_QUERY_CPYTHON_HOLDERS_H_
#define TTQ_QUERY_CPYTHON_HOLDERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/cpython/state.h"
#include "store/read/reader.h"

namespace ttq::python {

struct Holder {
  enum class Kind : uint8_t {
    kGlobal,    // of a module, of a class, or of C
    kLocal,     // of a frame
    kCycle,     // the object itself, by way of others, and nothing else
    kObject,    // an object that no name was found for
    kBorrower,  // it holds no reference: a weak one
    kGone,      // in an object that is gone
    kUnknown,   // in memory of which nothing is known
  };
  uint64_t word = 0;
  Kind kind = Kind::kUnknown;
  uint64_t container = 0;  // the object that the word belongs to; 0: none
  std::string held_in;     // "cache[3] in module app", "C global `kept` in app.so"

  // It is in use, and what it holds is counted.
  bool certain() const { return kind <= Kind::kObject; }
};

struct Holders {
  std::vector<Holder> words;  // those of names first, then by address
  std::string incomplete;     // why there may be more; "": there are not
};

// At the state's time. Cancelled when `control`, which may be null, says so.
absl::StatusOr<Holders> HoldersOf(const Context& context, PythonState& state, uint64_t object,
                                  ScanControl* control);

// What an allocator gave out, and whether it was given back.
struct Block {
  uint64_t begin = 0, size = 0;
  bool used = false;
};
// The block that `word` lies in: of the interpreter's own allocator (pymalloc, for up to 512
// bytes), told by the head of its pool, or of malloc, told by the history of the heap, which takes
// a walk over the recording where that is not made yet. nullopt: in none, or in another
// allocator's.
absl::StatusOr<std::optional<Block>> BlockAround(const Context& context, PythonState& state,
                                                 ObjectReader& objects, uint64_t word,
                                                 ScanControl* control);

// The object, alive or kept in a free list, that a word in `block` lies in, by the types of what is
// at the addresses before it; 0: none is seen.
uint64_t ObjectAround(ObjectReader& objects, uint64_t word, const std::optional<Block>& block);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_HOLDERS_H_

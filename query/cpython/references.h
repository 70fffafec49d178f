// SPDX-License-Identifier: MIT
//
// The owners of references to an object: the changes of its count during one life, summed by the
// native function and the Python line that made them.

#ifndef TTQ_QUERY_CPYTHON_REFERENCES_H_
#define TTQ_QUERY_CPYTHON_REFERENCES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/cpython/lifetime.h"
#include "query/cpython/provenance.h"
#include "store/read/reader.h"

namespace ttq::python {

class Balance;

struct Owner {
  // Counting is inlined everywhere: its owner is the function that really exists.
  std::string function, module;
  std::string file;                     // of `line`
  int line = 0;                         // of an extension: where it counted first; else 0
  std::optional<SourceLocation> place;  // in Python
  int64_t increments = 0, decrements = 0;
  int64_t after_free = 0;  // given back when the object was already gone
  Time first, last;

  int64_t balance() const { return increments - decrements; }
};

// The writes to an object's count in `span`.
absl::StatusOr<std::unique_ptr<Cursor<Access>>> CountsOf(const Process& process, uint64_t object,
                                                         const CountWord& word, TimeSpan span,
                                                         Direction direction, ScanControl* control);

// The owners of references to the object that lived in `epoch`, by their changes in `span`, in the
// order of their names. ResourceExhausted after `most` changes. With a `balance`, which
// receives each change, changes that the API made for an extension belong to the extension.
absl::StatusOr<std::vector<Owner>> OwnersOf(const Context& context, Provenance& provenance,
                                            uint64_t object, const CountWord& word,
                                            const Epoch& epoch, TimeSpan span, ScanControl* control,
                                            uint64_t most = ~uint64_t{0},
                                            Balance* balance = nullptr);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_REFERENCES_H_

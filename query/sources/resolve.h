// SPDX-License-Identifier: MIT
//
// Resolves the words of a query (a time word, a variable, a function pattern) to times and address
// ranges of the store. `ask` answers nested queries.

#ifndef TTQ_QUERY_SOURCES_RESOLVE_H_
#define TTQ_QUERY_SOURCES_RESOLVE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "query/cpython/context.h"
#include "query/language/ast.h"
#include "query/rows/source_plan.h"
#include "store/read/reader.h"

namespace ttq {

struct CType;

// How the number in a location is read, of at most 8 bytes where it is no real.
struct NumberFormat {
  enum class Kind : uint8_t { kUnsigned, kSigned, kReal };
  Kind kind = Kind::kUnsigned;
  uint32_t bit_offset = 0, bit_size = 0;  // bit_size 0: no bit-field
  const CType* real = nullptr;            // kReal: its type
};

// The memory a LOCATION names.
struct ResolvedLocation {
  std::vector<AddressRange> ranges;  // not empty, none empty
  std::string text;                  // "0x1000+8", "counter (0x4010+4)"
  std::string note;                  // a reservation to pass on, or ""
  // Nothing: it is longer, or an address without a length.
  std::optional<NumberFormat> number;
};

// The code a FUNCTION or PLACE names.
struct ResolvedCode {
  std::vector<AddressRange> ranges;  // every piece, inlined copies included
  std::vector<Address> entries;      // the first instruction of each copy; sorted
  std::vector<Address> functions;    // those of them that begin a function of its own
  std::vector<InlinedCopy> inlined;  // and an inlined copy, or several in one another; sorted
  std::string text;                  // "accumulate", "main.c:12"
  std::string note;
};

// The state that an expression of a LOCATION is evaluated on.
struct EvaluateAt {
  std::optional<Time> time;  // absent: no time was named; globals as they are at the end
  std::optional<ThreadNo> thread;
  uint64_t frame = 0;
  std::optional<uint32_t> inlined;  // as in StackOptions
};

absl::StatusOr<Time> ResolveTime(const Context& context, const ast::Time& time,
                                 const TimeOfQuery& ask);
// The time of an `at` clause (the end without one): OutOfRange becomes an error at its place.
absl::StatusOr<Time> ResolveAt(const Context& context, const std::optional<ast::Time>& at,
                               const TimeOfQuery& ask);
// Of the first row of `at (QUERY)`: QueryTime::inlined.
absl::StatusOr<std::optional<uint32_t>> InlinedAt(const std::optional<ast::Time>& at,
                                                  const TimeOfQuery& ask);
absl::StatusOr<TimeSpan> ResolveSpan(const Context& context, const std::optional<ast::Span>& span,
                                     const TimeOfQuery& ask);
// `default_length`: of an address given without a length.
absl::StatusOr<ResolvedLocation> ResolveLocation(const Context& context,
                                                 const ast::Location& location,
                                                 uint64_t default_length,
                                                 const EvaluateAt& where = {});
absl::StatusOr<ResolvedCode> ResolveFunction(const Context& context,
                                             const ast::FunctionPattern& function);
absl::StatusOr<ResolvedCode> ResolvePlace(const Context& context, const ast::Place& place);
absl::StatusOr<std::optional<ThreadNo>> ResolveThread(
    const Context& context, const std::optional<ast::ThreadFilter>& thread);

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_RESOLVE_H_

// SPDX-License-Identifier: MIT

#ifndef TTQ_QUERY_SOURCES_ADDRESS_KIND_H_
#define TTQ_QUERY_SOURCES_ADDRESS_KIND_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "query/cpython/context.h"
#include "query/process/heap.h"
#include "store/read/reader.h"

namespace ttq {

// What an address is at a time, for people: "8 bytes into a block of 24 bytes that malloc gave
// make_node (list.c:12) at 1234, freed at 2345 by drop (list.c:30)". `kind` is one word: "heap",
// "freed heap", "stack", "guard page", "code", "data", "file", "anonymous", "null", "unmapped".
struct AddressKind {
  std::string kind, text;
};
absl::StatusOr<AddressKind> DescribeAddress(const Context& context, Address address, Time t,
                                            ScanControl* control);

// "8 bytes into a block of 24 bytes that …", of an address in the block, as of t.
std::string DescribeInside(const Context& context, const HeapIndex& heap, const HeapLife& life,
                           Address address, Time t);

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_ADDRESS_KIND_H_

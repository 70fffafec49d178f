// SPDX-License-Identifier: MIT
//
// numpy's arrays and scalars, and PyTorch's tensors.

#ifndef TTQ_QUERY_CPYTHON_ARRAY_REPRS_H_
#define TTQ_QUERY_CPYTHON_ARRAY_REPRS_H_

#include <cstdint>
#include <string_view>

#include "query/cpython/library_reprs.h"
#include "query/cpython/objects.h"

namespace ttq::python {

// An object laid out as numpy's type `name` is, of class `type`, as numpy prints it. False, and
// nothing written: its repr is not known.
bool PrintNumpy(ObjectReader& reader, uint64_t object, std::string_view name, const TypeInfo& type,
                ReprWriter& out);

// A tensor of class `type`: shape, type and, where they are in memory of the process, elements;
// what PyTorch prints depends on more than that. False, and nothing written: its structure is not
// one that is known.
bool PrintTensor(ObjectReader& reader, uint64_t object, const TypeInfo& type, ReprWriter& out);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_ARRAY_REPRS_H_

// SPDX-License-Identifier: MIT
//
// Reprs of the standard library's types that are no part of the language: dates, decimals, arrays,
// views, asyncio's tasks and futures, enums, paths and the like. Structures that C keeps to itself
// are read only where the type has the size that they are known with; any other object keeps the
// repr that a type without one has.

#ifndef TTQ_QUERY_CPYTHON_LIBRARY_REPRS_H_
#define TTQ_QUERY_CPYTHON_LIBRARY_REPRS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "query/cpython/objects.h"

namespace ttq::python {

// Where a repr is written to: it ends at a number of characters, and containers in containers at a
// number of levels.
class ReprWriter {
 public:
  virtual ~ReprWriter() = default;
  virtual void Add(std::string_view text) = 0;
  // The repr of the object at `object`.
  virtual void Print(uint64_t object) = 0;
  // The same as text, instances the way Python prints them; within the containers that are open.
  virtual std::string Text(uint64_t object) = 0;
  // Opens what may hold itself. False when it is open already or too deep: `instead` was written.
  virtual bool Enter(uint64_t object, std::string_view instead) = 0;
  virtual void Leave() = 0;
  // The items of a container that has `size`, with ", " between them; and items of a dict.
  virtual void AddItems(const std::vector<uint64_t>& items, uint64_t size) = 0;
  virtual void AddPairs(const ObjectReader::Pairs& pairs, bool as_tuples) = 0;
  virtual const ReprLimits& limits() const = 0;
  // Nothing more is taken.
  virtual bool is_full() const = 0;
};

// An object of a type made in C, laid out as `kind` says, of type `type`. False, and nothing
// written: its repr is not known.
bool PrintLibraryObject(ObjectReader& reader, uint64_t object, const TypeInfo& kind,
                        const TypeInfo& type, ReprWriter& out);

// An object of a class written in Python whose __repr__ is the library's own. False, and nothing
// written: it is another one.
bool PrintLibraryClass(ObjectReader& reader, uint64_t object, const TypeInfo& type,
                       ReprWriter& out);

// A class whose metaclass, of the library, has a repr of its own.
bool PrintLibraryType(ObjectReader& reader, uint64_t object, ReprWriter& out);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_LIBRARY_REPRS_H_

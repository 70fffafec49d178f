// SPDX-License-Identifier: MIT
//
// One CPython version as data: what is otherwise in it than in the version before it. To add a
// version, write its file version_3_NN.cc and name it in kVersions; nothing else compares a version
// with a number.
//
// Constants; thread-safe.

#ifndef TTQ_QUERY_CPYTHON_VERSIONS_H_
#define TTQ_QUERY_CPYTHON_VERSIONS_H_

#include "absl/types/span.h"
#include "query/cpython/layout.h"

namespace ttq::python {

struct FieldOffset {
  Offset Layout::*field;
  Offset offset;
};

struct Version {
  int minor;
  // Of the fields that came, moved or went (kAbsent) since the version before.
  absl::Span<const FieldOffset> offsets;
  // The same for the free-threaded build, since that of the version before. Fields of objects need
  // no row: all are moved by what the head of an object is longer (LayoutOf).
  absl::Span<const FieldOffset> free_threaded = {};
  // Where _Py_DebugOffsets says each offset; its layout is fixed within a minor version, and not
  // inherited: that of another version would be misread.
  absl::Span<const FieldOffset> debug_offsets = {};
  // Sets the traits that differ, and the opcodes; null where none does. `free_threaded` and `minor`
  // of the layout are set.
  void (*change)(Layout* layout) = nullptr;
};

extern const Version kVersion309, kVersion310, kVersion311, kVersion312, kVersion313, kVersion314,
    kVersion315;

// In order, without gaps.
inline constexpr const Version* kVersions[] = {&kVersion309, &kVersion310, &kVersion311,
                                               &kVersion312, &kVersion313, &kVersion314,
                                               &kVersion315};
// The first version of which there is a free-threaded build.
inline constexpr int kFirstFreeThreaded = 13;

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_VERSIONS_H_

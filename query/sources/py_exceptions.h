// SPDX-License-Identifier: MIT
//
// Exceptions as values of a row.

#ifndef TTQ_QUERY_SOURCES_PY_EXCEPTIONS_H_
#define TTQ_QUERY_SOURCES_PY_EXCEPTIONS_H_

#include <vector>

#include "query/cpython/exceptions.h"
#include "query/cpython/source_text.h"
#include "query/value.h"

namespace ttq {

// An object of `function`, `file` and `line`.
Object PlaceObject(const python::TracebackEntry& place);
// The same, with `source`.
Object EntryValue(const python::TracebackEntry& entry, python::SourceText& source);
// A list of such objects; null when it is empty.
Value TracebackOf(const std::vector<python::TracebackEntry>& entries, python::SourceText& source);
// A list of objects of `relation`, `type`, `message`, `object`, `raised` and, of a group,
// `exceptions`; null when it is empty.
Value RelatedOf(const std::vector<python::RelatedException>& related);

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_PY_EXCEPTIONS_H_

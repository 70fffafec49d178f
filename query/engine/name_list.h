// SPDX-License-Identifier: MIT
//
// The names of a process, for completion while they are typed.

#ifndef TTQ_QUERY_ENGINE_NAME_LIST_H_
#define TTQ_QUERY_ENGINE_NAME_LIST_H_

#include <string>
#include <vector>

#include "query/cpython/context.h"

namespace ttq {

// Kinds of names that a program gives.
enum class NameClass { kFunctions, kGlobals, kPythonFunctions };

// All names of a kind that symbol tables have, sorted; a function that was inlined everywhere may
// be missing. Of Python's functions those whose frames have been found by earlier questions. What
// cannot be read has no names.
std::vector<std::string> ListNames(const Context& context, NameClass which);

}  // namespace ttq

#endif  // TTQ_QUERY_ENGINE_NAME_LIST_H_

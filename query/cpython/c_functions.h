// SPDX-License-Identifier: MIT
//
// The C functions that Python's built-in functions and methods are.

#ifndef TTQ_QUERY_CPYTHON_C_FUNCTIONS_H_
#define TTQ_QUERY_CPYTHON_C_FUNCTIONS_H_

#include <cstdint>
#include <string>

#include "query/cpython/state.h"

namespace ttq::python {

// The address of what runs when Python calls `name`, a built-in function ("print"), one of an
// imported module ("math.sqrt") or a method of a built-in type ("dict.get"); 0: it is none.
uint64_t FindCFunction(PythonState& state, const std::string& name);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_C_FUNCTIONS_H_

// SPDX-License-Identifier: MIT
//
// Python stacks and objects as values of a row.

#ifndef TTQ_QUERY_ROWS_PY_STACK_H_
#define TTQ_QUERY_ROWS_PY_STACK_H_

#include <cstddef>
#include <memory>
#include <optional>

#include "query/cpython/context.h"
#include "query/cpython/source_text.h"
#include "query/cpython/state.h"
#include "query/outcome.h"
#include "query/rows/operator.h"
#include "query/rows/source_plan.h"
#include "query/value.h"

namespace ttq {

// The frames of `thread` at the time the state is at, innermost first, each an object of `frame`,
// `function`, `file`, `line`, `source` and `frame_address`; null when the thread runs no Python.
// What keeps the stack from being whole goes to `outcome`.
Value PyBacktraceValue(python::PythonState& state, python::SourceText& source, ThreadNo thread,
                       Outcome& outcome);

// An argument or a result: an int or a float as a number, anything else as Python would print it;
// null where there is no object.
Value ObjectValue(python::ObjectReader& objects, uint64_t object);

// What Python prints of an object; a number or a str (no subclass) is one in conditions, too.
Value ReprValue(python::ObjectReader& objects, uint64_t object,
                const python::ReprLimits& limits = {});

// Appends the Python stack of each row's thread at its time; null for a row without a time.
// Without a slot of the thread: of the thread that ran.
Extend MakePyBacktrace(const Context* context, size_t time_slot, std::optional<size_t> thread_slot,
                       const std::shared_ptr<Outcome>& outcome);

}  // namespace ttq

#endif  // TTQ_QUERY_ROWS_PY_STACK_H_

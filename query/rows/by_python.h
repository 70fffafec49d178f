// SPDX-License-Identifier: MIT
//
// The filters `by python FUNCTION` and `by python FILE:LINE`: what a thread did while a Python
// function, or a line, was its innermost.
//
// Belongs to one thread and must not outlive its context.

#ifndef TTQ_QUERY_ROWS_BY_PYTHON_H_
#define TTQ_QUERY_ROWS_BY_PYTHON_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/cpython/frame_history.h"
#include "query/cpython/provenance.h"
#include "query/language/ast.h"
#include "query/rows/operator.h"

namespace ttq::python {

class ByPython {
 public:
  // REQUIRES: by.python. Errors carry their place in the query: no such function, no Python.
  static absl::StatusOr<std::shared_ptr<ByPython>> Make(const Context& context, const ast::By& by,
                                                        TimeSpan span, ScanControl* control);
  absl::StatusOr<bool> Passes(ThreadNo thread, Time t);

 private:
  ByPython(const Context* context, ScanControl* control) : provenance_(context, control) {}

  Provenance provenance_;
  std::vector<FrameHistory::Run> runs_;  // by thread, then time
  uint64_t line_ = 0;                    // 0: any
};

// The rows of `input` that pass; their time and thread are at these slots.
OperatorPtr MakeByPython(OperatorPtr input, std::shared_ptr<ByPython> by, size_t time_slot,
                         size_t thread_slot);

}  // namespace ttq::python

#endif  // TTQ_QUERY_ROWS_BY_PYTHON_H_

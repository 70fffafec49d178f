// SPDX-License-Identifier: MIT
//
// Which native code is the interpreter's, and which is an extension's.

#ifndef TTQ_QUERY_CPYTHON_EXTENSIONS_H_
#define TTQ_QUERY_CPYTHON_EXTENSIONS_H_

#include <string>
#include <string_view>

#include "query/cpython/runtime.h"
#include "query/process/stack.h"
#include "store/read/reader.h"

namespace ttq::python {

class Extensions {
 public:
  Extensions(const Process& process, const Runtime& runtime);
  // Whether the module is neither the interpreter's nor a part of the C library. By its base name.
  bool Contains(std::string_view module) const;

 private:
  std::string runtime_module_, program_;
};

// Whether the frame is of the loop that executes bytecode.
bool IsEvaluation(const ttq::Frame& frame);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_EXTENSIONS_H_

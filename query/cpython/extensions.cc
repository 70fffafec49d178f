// SPDX-License-Identifier: MIT

#include "query/cpython/extensions.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"

namespace ttq::python {

Extensions::Extensions(const Process& process, const Runtime& runtime)
    : runtime_module_(BaseName(runtime.module)), program_(BaseName(process.info().program)) {}

bool Extensions::Contains(std::string_view module) const {
  static constexpr std::string_view kLibraries[] = {"libc.so",  "libc-",      "ld-linux", "libm.so",
                                                    "libdl.so", "libpthread", "libpython"};
  return !module.empty() && module != runtime_module_ && module != program_ &&
         std::none_of(std::begin(kLibraries), std::end(kLibraries),
                      [&](std::string_view library) { return module.starts_with(library); });
}

bool IsEvaluation(const ttq::Frame& frame) { return frame.symbol.starts_with("_PyEval_EvalFrame"); }

}  // namespace ttq::python

// SPDX-License-Identifier: MIT
//
// An extension that keeps Python functions in a C++ static, which outlives the interpreter.

#include <pybind11/pybind11.h>

#include <vector>

struct Handlers {
  std::vector<pybind11::object> functions;
  ~Handlers() {
    for (const pybind11::object& function : functions) function("the end");
  }
};

static Handlers handlers;

PYBIND11_MODULE(kept_function, module) {
  module.def("keep",
             [](pybind11::object function) { handlers.functions.push_back(std::move(function)); });
}

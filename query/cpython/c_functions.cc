// SPDX-License-Identifier: MIT

#include "query/cpython/c_functions.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/strings/str_split.h"

namespace ttq::python {
namespace {

// The PyMethodDef of a built-in function or of a method of a built-in type; 0: it is neither.
uint64_t DefinitionOf(ObjectReader& objects, uint64_t object) {
  const TypeInfo* type = objects.TypeOf(object);
  if (type == nullptr) return 0;
  const Layout& layout = objects.layout();
  if (type->name == "builtin_function_or_method") {
    return objects.memory().Pointer(object + static_cast<uint64_t>(layout.builtin_def));
  }
  if (type->name == "method_descriptor" || type->name == "classmethod_descriptor") {
    // PyMethodDescrObject: after its type, its name and its qualified name.
    return objects.memory().Pointer(object + static_cast<uint64_t>(layout.object_head) + 24);
  }
  return 0;
}

}  // namespace

uint64_t FindCFunction(PythonState& state, const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '.');
  for (const auto& instance : state.instances()) {
    ObjectReader& objects = instance->objects;
    for (const Interpreter& interpreter : state.Interpreters(*instance)) {
      const uint64_t modules = objects.memory().Pointer(
          interpreter.address + static_cast<uint64_t>(objects.layout().interp_modules));
      uint64_t object = objects.GetAttribute(objects.DictGet(modules, "builtins"), parts.front());
      if (object == 0) object = objects.DictGet(modules, parts.front());
      for (size_t i = 1; i < parts.size() && object != 0; ++i) {
        object = objects.GetAttribute(object, parts[i]);
      }
      const uint64_t definition = object == 0 ? 0 : DefinitionOf(objects, object);
      // PyMethodDef: its name, then the function.
      if (definition != 0) return objects.memory().Pointer(definition + 8);
    }
  }
  return 0;
}

}  // namespace ttq::python

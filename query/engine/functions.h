// SPDX-License-Identifier: MIT
//
// The functions of conditions that compute from a value alone: abs, hex, len, lower. To add one:
// a row of the table in functions.cc, its line in docs/query-language.md and in `ttq help`.

#ifndef TTQ_QUERY_ENGINE_FUNCTIONS_H_
#define TTQ_QUERY_ENGINE_FUNCTIONS_H_

#include <optional>
#include <string>
#include <string_view>

#include "query/value.h"

namespace ttq {

struct Function {
  std::string_view name;
  bool takes_text = false;     // else a number
  std::optional<Type> result;  // absent: that of its argument
  // Of a value that is not null and of the kind that it takes; null where that has no result.
  Value (*compute)(const Value& argument) = nullptr;
};

// Null: there is no such function. Names are in lower case.
const Function* FindFunction(std::string_view name);

// "abs, hex, len and lower", for people.
std::string FunctionNames();

}  // namespace ttq

#endif  // TTQ_QUERY_ENGINE_FUNCTIONS_H_

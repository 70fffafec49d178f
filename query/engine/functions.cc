// SPDX-License-Identifier: MIT

#include "query/engine/functions.h"

#include <cmath>
#include <cstdint>
#include <iterator>

#include "base/number_text.h"
#include "base/text.h"

namespace ttq {
namespace {

Value Abs(const Value& argument) {
  const Value& number = argument.operand();
  if (const std::optional<double> real = number.AsReal()) return std::fabs(*real);
  uint64_t n;
  bool negative;
  if (!number.AsNumber(&n, &negative)) return Null{};
  if (negative) n = -n;
  return n <= INT64_MAX ? Value(static_cast<int64_t>(n)) : Value(Word{n});
}

Value ToHex(const Value& argument) {
  uint64_t n;
  bool negative;
  // As it is shown, unless that is a name.
  if (!argument.AsNumber(&n, &negative) && !argument.operand().AsNumber(&n, &negative)) {
    return Null{};
  }
  return Hex(n);
}

// The characters of a str, not its repr; of an enumerator its name.
const std::string* TextOf(const Value& argument) {
  const std::string* text = argument.operand().get<std::string>();
  return text ? text : argument.get<std::string>();
}

// Characters of UTF-8, each byte that is part of none counting as one.
Value Length(const Value& argument) {
  const std::string* text = TextOf(argument);
  if (!text) return Null{};
  int64_t count = 0;
  for (size_t i = 0; i < text->size(); ++count) {
    char32_t code;
    const size_t bytes = DecodeUtf8(*text, i, &code);
    i += bytes == 0 ? 1 : bytes;
  }
  return count;
}

Value ToLower(const Value& argument) {
  const std::string* text = TextOf(argument);
  return text ? Value(Lower(*text)) : Value(Null{});
}

constexpr Function kFunctions[] = {
    {"abs", false, std::nullopt, Abs},
    {"hex", false, Type::kString, ToHex},
    {"len", true, Type::kInteger, Length},
    {"lower", true, Type::kString, ToLower},
};

}  // namespace

const Function* FindFunction(std::string_view name) {
  for (const Function& function : kFunctions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

std::string FunctionNames() {
  std::string names;
  for (size_t i = 0; i < std::size(kFunctions); ++i) {
    const char* separator = i == 0 ? "" : i + 1 == std::size(kFunctions) ? " and " : ", ";
    names += separator;
    names += kFunctions[i].name;
  }
  return names;
}

}  // namespace ttq

// SPDX-License-Identifier: MIT

#include "query/answers/cell.h"

#include <algorithm>
#include <string_view>

#include "base/display_width.h"
#include "base/text.h"
#include "query/answers/format.h"

namespace ttq {
namespace {

// Columns that are left of a function's name before the file beside it goes.
constexpr size_t kMinFunction = 8;

std::string TextOf(const Value& value) {
  const auto* s = value.get<std::string>();
  return s ? Printable(*s) : std::string();
}

// An object with these fields, and others that need not be shown, is a place in Python.
bool IsPlace(const Object& object) {
  bool function = false, file = false, line = false;
  for (const auto& [name, value] : object.fields) {
    function = function || name == "function";
    file = file || name == "file";
    line = line || name == "line";
  }
  return function && file && line && object.fields.size() <= 4;
}

Cell PlaceOf(const Object& object) {
  Value function, module, file, line;
  for (const auto& [name, value] : object.fields) {
    if (name == "function") function = value;
    if (name == "module") module = value;
    if (name == "file") file = value;
    if (name == "line") line = value;
  }
  return PlaceCell(function, module, file, line);
}

std::string ReadableText(const Value& value, Type type);

std::string FieldsText(const Object& object) {
  std::string text;
  for (const auto& [name, value] : object.fields) {
    text += (text.empty() ? "" : ", ") + Printable(name) + "=" + ReadableText(value, Type::kValue);
  }
  return text;
}

// Inside of another value, with brackets.
std::string ReadableText(const Value& value, Type type) {
  if (const Object* object = value.object()) {
    return IsPlace(*object) ? PlaceOf(*object).text : "{" + FieldsText(*object) + "}";
  }
  if (const List* list = value.list()) {
    std::string text;
    for (const Value& element : *list) {
      text += (text.empty() ? "" : ", ") + ReadableText(element, Type::kValue);
    }
    return "[" + text + "]";
  }
  return CellText(value, type);
}

}  // namespace

Cell PlaceCell(const Value& function, const Value& module, const Value& file, const Value& line) {
  Cell cell{.text = TextOf(function), .cut = Cell::Cut::kPlace};
  if (cell.text.empty()) cell.text = module.is_null() ? "-" : "??";
  cell.at = cell.text.size();
  if (!file.is_null()) {
    cell.text.append(" at ").append(BaseName(TextOf(file)));
    if (const auto* n = line.get<int64_t>()) Append(&cell.text, ":", *n);
  }
  cell.module = cell.text.size();
  if (!module.is_null()) Append(&cell.text, " (", TextOf(module), ")");
  return cell;
}

Cell ReadableCell(const Value& value, const Column& column) {
  if (const Object* object = value.object()) {
    if (IsPlace(*object)) return PlaceOf(*object);
    return {.text = FieldsText(*object)};
  }
  const bool is_path =
      column.type == Type::kString && (column.name == "path" || column.name == "file");
  return {.text = ReadableText(value, column.type),
          .cut = is_path ? Cell::Cut::kBeginning : Cell::Cut::kEnd};
}

std::string FitCell(const Cell& cell, size_t width) {
  if (DisplayWidth(cell.text) <= width) return cell.text;
  if (cell.cut == Cell::Cut::kBeginning) return CutBeginning(cell.text, width);
  if (cell.cut == Cell::Cut::kEnd) return CutEnd(cell.text, width);
  const std::string_view text = cell.text;
  const std::string_view place = text.substr(0, cell.module), function = text.substr(0, cell.at);
  if (DisplayWidth(place) <= width) return std::string(place);
  const std::string_view at = place.substr(cell.at);
  const size_t taken = DisplayWidth(at);
  if (taken + std::min(kMinFunction, DisplayWidth(function)) > width) {
    return CutEnd(function, width);
  }
  return CutEnd(function, width - taken).append(at);
}

}  // namespace ttq

// SPDX-License-Identifier: MIT

#include <set>

#include "nlohmann/json.hpp"
#include "re2/re2.h"
#include "report/autopsy.h"

namespace ttq {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kLeftOut[] = "…";

// What ttq says, not the program: names of code, kinds, questions.
bool IsOurs(const std::string& key) {
  static const std::set<std::string> kOurs = {
      "id",     "title", "question", "function", "module",   "file",   "symbol",  "kind",
      "signal", "type",  "name",     "language", "build_id", "access", "version", "source",
      "text",   "lines", "python",   "state",    "actor",    "by",     "path",    "schema"};
  return kOurs.contains(key);
}

void Strings(const std::string& key, Json* value) {
  if (value->is_object()) {
    // What the program printed is not quoted: "12 bytes to 1: text".
    if (const auto kind = value->find("kind"); kind != value->end() && *kind == "output") {
      if (const auto detail = value->find("detail");
          detail != value->end() && detail->is_string()) {
        const std::string text = detail->get<std::string>();
        if (const size_t colon = text.find(": "); colon != text.npos) {
          *detail = text.substr(0, colon + 2) + kLeftOut;
        }
      }
    }
    for (auto& [name, inner] : value->items()) Strings(name, &inner);
  } else if (value->is_array()) {
    for (Json& inner : *value) Strings(key, &inner);
  } else if (value->is_string() && (key == "bytes" || key == "message" || key == "command")) {
    *value = kLeftOut;
  } else if (value->is_string() && !IsOurs(key)) {
    static const RE2 kQuoted(R"re("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')re");
    std::string text = value->get<std::string>();
    // Where a text was cut, its last quote is missing.
    static const RE2 kOpen(R"re(["'][^"']*…$)re");
    RE2::GlobalReplace(&text, kQuoted, "'…'");
    RE2::GlobalReplace(&text, kOpen, "'…'");
    *value = text;
  }
}

void Paths(Json* value) {
  if (value->is_object() || value->is_array()) {
    for (Json& inner : *value) Paths(&inner);
  } else if (value->is_string()) {
    static const RE2 kDirectories(R"((?:/[^/\s"'<>:,()\[\]]+)*/([^/\s"'<>:,()\[\]]+))");
    std::string text = value->get<std::string>();
    if (RE2::GlobalReplace(&text, kDirectories, R"(\1)")) *value = text;
  }
}

}  // namespace

std::string Redact(std::string_view json, bool strings, bool paths) {
  Json document = Json::parse(json);
  if (strings) Strings("", &document);
  if (paths) Paths(&document);
  return document.dump();
}

}  // namespace ttq

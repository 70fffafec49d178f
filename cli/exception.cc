// SPDX-License-Identifier: MIT
//
// The exception that a Python program failed by, laid out to be read: `ttq crash`, `ttq info`.

#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/common.h"
#include "fmt/core.h"
#include "query/answers/format.h"

namespace ttq {
namespace {

constexpr size_t kInnerFrames = 10, kOuterFrames = 3, kLocals = 12, kTests = 10, kValueBytes = 100;

std::string Headline(const Object& exception) {
  const std::string message = FieldText(exception, "message");
  return FieldText(exception, "type") + (message.empty() ? "" : ": " + message);
}

// "mean at report.py:35"
std::string PlaceText(const Object& place) {
  const std::string file = FieldText(place, "file");
  return fmt::format("{} at {}:{}", FieldText(place, "function"), BaseName(file),
                     FieldText(place, "line", Type::kInteger));
}

// What a module is made of tells nothing.
bool IsCode(const Value& value) {
  const std::string* text = value.get<std::string>();
  return text != nullptr && (text->starts_with("<module '") || text->starts_with("<function ") ||
                             text->starts_with("<class '") || text->starts_with("<built-in "));
}

void AddFrames(const List& frames, std::string* out) {
  for (size_t i = 0; i < frames.size(); ++i) {
    if (i == kInnerFrames && frames.size() > kInnerFrames + kOuterFrames + 1) {
      i = frames.size() - kOuterFrames;
      *out += fmt::format("  … {} more\n", i - kInnerFrames);
    }
    const Object* frame = frames[i].object();
    if (frame == nullptr) continue;
    const std::string source = FieldText(*frame, "source");
    *out += fmt::format("  #{:<3} {}{}\n", FieldText(*frame, "frame", Type::kInteger),
                        PlaceText(*frame), source.empty() ? "" : "    " + source);
    const Value* locals = FieldOf(*frame, "locals");
    if (locals == nullptr || locals->object() == nullptr) continue;
    std::vector<std::pair<std::string, Value>> fields;
    for (const auto& field : locals->object()->fields) {
      if (!IsCode(field.second)) fields.push_back(field);
    }
    for (size_t n = 0; n < fields.size(); ++n) {
      if (n == kLocals) {
        *out += fmt::format("         … {} more\n", fields.size() - n);
        break;
      }
      std::string value = CellText(fields[n].second, Type::kObject);
      if (value.size() > kValueBytes) {
        size_t cut = kValueBytes;
        while (cut > 0 && (static_cast<uint8_t>(value[cut]) & 0xc0) == 0x80) --cut;
        value = value.substr(0, cut) + "…";
      }
      *out += fmt::format("         {} = {}\n", fields[n].first, value);
    }
  }
}

// The members of a group, those of groups within it under them.
void AddMembers(const List& members, size_t level, std::string* out) {
  for (const Value& value : members) {
    const Object* member = value.object();
    if (member == nullptr) continue;
    const Value* raised = FieldOf(*member, "raised");
    *out += fmt::format("  {:<12} {:{}}{}{}\n", "member", "", 2 * level, Headline(*member),
                        raised != nullptr && raised->object() != nullptr
                            ? ", in " + PlaceText(*raised->object())
                            : "");
    const Value* within = FieldOf(*member, "exceptions");
    if (within != nullptr && within->list() != nullptr) AddMembers(*within->list(), level + 1, out);
  }
}

// "thrown in C++ at 12345", and the frames.
void AddNative(const Object& native, std::string* out) {
  constexpr size_t kMaxFrames = 12;
  const std::string how = FieldText(native, "how");
  *out += fmt::format("\n{} in {} at {}\n", how, how == "thrown" ? "C++" : "C",
                      FieldText(native, "time", Type::kTime));
  const Value* frames = FieldOf(native, "frames");
  if (frames != nullptr && frames->list() != nullptr) {
    AddNativeFrames(*frames->list(), kMaxFrames, out);
  }
}

// What is said of a test that is not the first to fail.
std::string TestText(const Object& test) {
  const std::string error = FieldText(test, "error");
  return FieldText(test, "test") + (error.empty() ? "" : ": " + error);
}

}  // namespace

const Value* FieldOf(const Object& object, std::string_view name) {
  for (const auto& [known, value] : object.fields) {
    if (known == name) return &value;
  }
  return nullptr;
}

std::string FieldText(const Object& object, std::string_view name, Type type) {
  const Value* value = FieldOf(object, name);
  return value == nullptr || value->is_null() ? "" : CellText(*value, type);
}

std::string ExceptionLayout(const Object& exception) {
  std::string out;
  if (FieldText(exception, "type").empty()) {
    out = fmt::format("{} failed\n  at {}\n", FieldText(exception, "test"),
                      FieldText(exception, "time", Type::kTime));
  } else {
    out = fmt::format("{}\n  at {} in thread {}, in {}\n", Headline(exception),
                      FieldText(exception, "time", Type::kTime),
                      FieldText(exception, "thread", Type::kInteger), PlaceText(exception));
  }
  const auto list = [&exception](std::string_view name) {
    const Value* value = FieldOf(exception, name);
    return value == nullptr ? nullptr : value->list();
  };
  if (const List* tests = list("failed_tests")) {
    for (size_t i = 0; i < tests->size(); ++i) {
      if (i == kTests) {
        out += fmt::format("  {:<12} {} more\n", "", tests->size() - i);
        break;
      }
      const Object* test = (*tests)[i].object();
      if (test == nullptr) continue;
      out += fmt::format("  {:<12} {}\n",
                         i == 0   ? "test"
                         : i == 1 ? "also failed"
                                  : "",
                         i == 0 ? FieldText(*test, "test") : TestText(*test));
    }
  }
  if (const List* chain = list("chain")) {
    for (const Value& value : *chain) {
      const Object* one = value.object();
      if (one == nullptr) continue;
      const Value* raised = FieldOf(*one, "raised");
      out += fmt::format("  {:<12} {}{}\n", FieldText(*one, "relation"), Headline(*one),
                         raised != nullptr && raised->object() != nullptr
                             ? ", in " + PlaceText(*raised->object())
                             : "");
    }
  }
  if (const List* members = list("exceptions")) AddMembers(*members, 0, &out);
  if (const Value* native = FieldOf(exception, "native"); native && native->object()) {
    AddNative(*native->object(), &out);
  }
  if (const List* frames = list("frames")) {
    out += "\nwhere it was raised\n";
    AddFrames(*frames, &out);
  }
  return out;
}

}  // namespace ttq

// SPDX-License-Identifier: MIT

#include "mcp/text.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_join.h"
#include "base/display_width.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/answers/cell.h"
#include "query/answers/format.h"
#include "query/language/diagnostic.h"
#include "store/format/recorded.h"

namespace ttq::mcp {
namespace {

// Names, paths and templates without a blank.
bool IsWord(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x80 &&
           (IsWordByte(c) ||
            std::string_view(".:/<>~@$+-*&[]()=#%").find(c) != std::string_view::npos);
  });
}

// The first `most` characters of valid UTF-8.
std::string CutText(std::string_view text, size_t most) {
  size_t at = 0;
  for (size_t n = 0; at < text.size() && n < most; ++n) {
    ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
  }
  return std::string(text.substr(0, at));
}

size_t Length(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string Cut(const std::string& text, size_t most, std::string_view end = "…") {
  if (Length(text) <= most) return text;
  return CutText(text, most - Length(end)).append(end);
}

const std::string* TextOf(const Value& value) { return value.get<std::string>(); }

const Value& FieldOf(const Object& object, std::string_view name) {
  static const Value* const kNone = new Value();
  for (const auto& [known, value] : object.fields) {
    if (known == name) return value;
  }
  return *kNone;
}

// A place in Python, or in C.
bool IsPlace(const Object& object) {
  return object.fields.size() <= 5 && TextOf(FieldOf(object, "function")) != nullptr &&
         !FieldOf(object, "line").is_null();
}

// Objects that say themselves how they read; their texts are the program's only inside of quotes.
bool HasTexts(const List& list) {
  return !list.empty() && std::all_of(list.begin(), list.end(), [](const Value& value) {
    const Object* object = value.object();
    return object != nullptr && !object->fields.empty() && object->fields.back().first == "text" &&
           TextOf(object->fields.back().second);
  });
}

}  // namespace

std::string Dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string Quoted(std::string_view text, size_t most) {
  if (IsWord(text) && text.size() <= most) return std::string(text);
  // Escapes can make it longer than what it stands for.
  const std::string start = CutText(Utf8(text.substr(0, 4 * most)), most);
  std::string json;
  AppendJsonString(start, &json);
  if (start.size() < text.size() || Length(json) > most) {
    json.pop_back();
    json = CutText(json, most - 2) + "…\"";
  }
  return json;
}

std::string PlaceOf(const Value& function, const Value& module, const Value& file,
                    const Value& line) {
  for (const Value* part : {&function, &module, &file}) {
    const std::string* text = TextOf(*part);
    // A name with blanks (a template's) is one, as long as it cannot be taken for a place's end.
    if (text != nullptr && !IsWord(*text)) {
      return Quoted(PlaceCell(function, module, file, line).text);
    }
  }
  return FitCell(PlaceCell(function, module, file, line), kMaxCell);
}

std::string FrameOf(const Value& frame) {
  const Object* object = frame.object();
  if (object == nullptr || TextOf(FieldOf(*object, "function")) == nullptr) {
    return CellOf(frame, Column{.type = Type::kValue});
  }
  std::string text = PlaceOf(FieldOf(*object, "function"), FieldOf(*object, "module"),
                             FieldOf(*object, "file"), FieldOf(*object, "line"));
  for (const char* name : {"args", "source"}) {
    const Value& value = FieldOf(*object, name);
    if (!value.is_null()) text += "  " + CellOf(value, Column{.type = Type::kValue});
  }
  return Cut(text, kMaxCell);
}

std::string CellOf(const Value& value, const Column& column) {
  if (value.is_null()) return "-";
  if (const std::string* text = TextOf(value)) return Quoted(*text);
  if (const Object* object = value.object(); object != nullptr && IsPlace(*object)) {
    return PlaceOf(FieldOf(*object, "function"), FieldOf(*object, "module"),
                   FieldOf(*object, "file"), FieldOf(*object, "line"));
  }
  if (const List* list = value.list(); list != nullptr && HasTexts(*list)) {
    return Cut(CellText(value, column.type), kMaxCell);
  }
  std::string json;
  AppendJson(value, column.type, &json);
  if (value.get<Address>() || value.get<Word>() || value.get<Bytes>()) {
    if (json.size() >= 2 && json.front() == '"') json = json.substr(1, json.size() - 2);
  }
  return Cut(json, kMaxCell);
}

std::string Fit(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  std::vector<std::string_view> lines = Split(text, "\n");
  constexpr size_t kRemark = 60;
  const size_t room = most - std::min(most, kRemark);
  // Two thirds of the room are the beginning's.
  size_t first = 0, used = 0;
  while (first < lines.size() && used + lines[first].size() + 1 <= room * 2 / 3) {
    used += lines[first++].size() + 1;
  }
  size_t last = lines.size();
  while (last > first && used + lines[last - 1].size() + 1 <= room) {
    used += lines[--last].size() + 1;
  }
  std::string out;
  for (size_t i = 0; i < first; ++i) Append(&out, lines[i], "\n");
  if (first == 0 && last == lines.size()) {  // one line too long for anything
    return CutText(text, most / 4) + "…";
  }
  Append(&out, "… ", last - first, " lines left out …\n");
  for (size_t i = last; i < lines.size(); ++i) {
    Append(&out, lines[i], i + 1 < lines.size() ? "\n" : "");
  }
  return out;
}

const std::vector<Example>& Examples() {
  static const auto* const kOtherEvents = new std::string(
      "also " + absl::StrJoin(kEventKindNames.begin() + 2, kEventKindNames.end(), ", "));
  static const auto* const kExamples = new std::vector<Example>{
      {"crash", "why it died: signal, instruction, where the bad value came from"},
      {"backtrace at crash all threads", "stacks; `py backtrace` for Python's"},
      {"last write to 0x4e11ac8", "who put the value there; also a global, or p->field"},
      {"writes to 0x4e11ac8 len 8 before crash | last 5", "its history"},
      {"origin of $rax at crash", "where a register's value came from, hop by hop"},
      {"memory 0x4e11ac0 len 64 at crash", "bytes, then"},
      {"registers at crash", "all registers then"},
      {"print $rip at crash", "a C expression then, with types: print *p, print v[2].name"},
      {"calls to malloc where arg0 > 100000 | first 5 | backtrace", "calls, arguments, results"},
      {"calls to main", "its arguments, and what it returned"},
      {"executions of main | first 1", "when a function, FILE:LINE or address ran"},
      {"trace of main", "one activation, line by line: trace of (calls to f | last 1)"},
      {"source at crash", "the lines around"},
      {"heap 0x4e11ac0 at crash", "the allocator's block: who allocated and freed it"},
      {"events signal", *kOtherEvents},
      {"threads", "all threads; waits at end: who waits for whom"},
      {"modules", "libraries, with their debug information"},
      {"py backtrace at crash", "Python's stack then; py locals, py print EXPR"},
      {"py exceptions", "what was raised where, and who caught it"},
      {"py calls to main | first 5", "calls of Python functions"},
      {"py changes of total in accumulate | last 5", "a variable's history"},
      {"creation of 0x4e11ac0", "who made a Python object; deallocation of, refcounts of"},
      {"writes to 0x4e11ac8 | count by function, thread", "stages: where, select, sort by, count"},
  };
  return *kExamples;
}

std::string QuestionError(std::string_view question, const absl::Status& status,
                          bool history_unknown) {
  std::string text;
  if (const std::optional<Diagnostic> diagnostic = GetDiagnostic(status)) {
    text = RenderDiagnostic(question, *diagnostic);
  } else {
    text = "ttq: " + Printable(std::string(status.message())) + "\n";
  }
  if (history_unknown) return text;
  // Those that have most words of the question, to which each of its words counts once.
  std::vector<std::string> words;
  const std::string lower = Lower(question.substr(0, 2000));
  for (const std::string_view word : Split(lower, " ")) {
    if (word.size() > 1) words.emplace_back(word);
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  std::vector<std::pair<size_t, std::string_view>> ranked;
  for (const Example& example : Examples()) {
    size_t common = 0;
    for (const std::string_view word : Split(example.question, " ")) {
      common += std::binary_search(words.begin(), words.end(), word) ? 1 : 0;
    }
    ranked.emplace_back(common, example.question);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  text += "questions that are right:\n";
  for (size_t i = 0; i < 3; ++i) Append(&text, "  ", ranked[i].second, "\n");
  return text;
}

}  // namespace ttq::mcp

// SPDX-License-Identifier: MIT

#include "mcp/autopsy.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "fmt/core.h"
#include "mcp/text.h"
#include "nlohmann/json.hpp"

namespace ttq::mcp {
namespace {

using Json = nlohmann::ordered_json;

// What a reader can ask for by a panel's question, or finds out by its rows.
constexpr const char* kLeftOut[] = {"columns",    "title",    "truncated",    "pc",
                                    "module",     "cfa",      "wall_ns",      "number",
                                    "started_ns", "ended_ns", "frame_address"};
// Of a panel's rows and of lists in them, and of texts, so much is kept: tried in turn.
struct Measure {
  size_t rows, elements, text;
  bool locals;
};
constexpr Measure kMeasures[] = {
    {24, 24, 200, true}, {12, 12, 160, true}, {8, 8, 120, true}, {8, 6, 120, true},
    {6, 5, 100, true},   {6, 4, 80, false},   {5, 3, 80, false}, {4, 2, 60, false},
};
// Of these fewer rows tell as much.
constexpr const char* kMinor[] = {"around", "life", "heap", "waits", "writes"};
constexpr size_t kMaxCause = 300;
// The most telling ones last.
constexpr const char* kParts[] = {"modules", "life",   "around", "heap",   "waits",
                                  "writes",  "stacks", "object", "origin", "exception"};

bool IsEmpty(const Json& value) {
  return value.is_null() || ((value.is_array() || value.is_object()) && value.empty()) ||
         (value.is_string() && value.get_ref<const std::string&>().empty());
}

void CutValue(const Measure& measure, size_t elements, Json* value) {
  if (value->is_string()) {
    const std::string& text = value->get_ref<const std::string&>();
    size_t end = measure.text;
    if (text.size() <= end) return;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    *value = text.substr(0, end) + "…";
  } else if (value->is_array()) {
    if (value->size() > elements) {
      const size_t more = value->size() - elements;
      value->erase(value->begin() + static_cast<ptrdiff_t>(elements), value->end());
      value->push_back(fmt::format("… {} more", more));
    }
    for (Json& element : *value) CutValue(measure, measure.elements, &element);
  } else if (value->is_object()) {
    for (const char* key : kLeftOut) value->erase(key);
    if (!measure.locals) value->erase("locals");
    if (const auto it = value->find("excerpt"); it != value->end()) {
      // The line itself; the others only where there is room.
      const Json excerpt = *it;
      value->erase(it);
      if (excerpt.is_object() && excerpt["lines"].is_array() && excerpt["line"].is_number() &&
          excerpt["first"].is_number()) {
        const int64_t at = excerpt["line"].get<int64_t>() - excerpt["first"].get<int64_t>();
        const auto& lines = excerpt["lines"];
        if (at >= 0 && at < static_cast<int64_t>(lines.size())) {
          Json source = lines[static_cast<size_t>(at)];
          CutValue(measure, elements, &source);
          if (source.is_string()) (*value)["source"] = source;
        }
      }
    }
    for (auto it = value->begin(); it != value->end();) {
      // A base name is enough to ask about it.
      if (it.key() == "file" && it.value().is_string()) {
        const std::string path = it.value().get<std::string>();
        it.value() = BaseName(path);
      }
      CutValue(measure, measure.elements, &it.value());
      if (IsEmpty(it.value())) {
        it = value->erase(it);
      } else {
        ++it;
      }
    }
  }
}

// Of what happened before the end the last rows tell most.
void CutRows(const Measure& measure, Json* panel) {
  const Json id = (*panel)["id"];
  Json& rows = (*panel)["rows"];
  const bool minor =
      std::any_of(std::begin(kMinor), std::end(kMinor), [&](const char* one) { return id == one; });
  const size_t most = minor ? std::max<size_t>(2, measure.rows / 4) : measure.rows;
  if ((id == "around" || id == "life") && rows.size() > most) {
    const size_t more = rows.size() - most;
    rows.erase(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(more));
    for (Json& row : rows) CutValue(measure, measure.elements, &row);
    rows.insert(rows.begin(), fmt::format("… {} more before", more));
    return;
  }
  CutValue(measure, most, &rows);
}

Json CutDocument(const Json& document, const Measure& measure) {
  Json cut = document;
  for (Json& panel : cut["panels"]) {
    if (!panel.is_object() || !panel["rows"].is_array()) continue;
    CutRows(measure, &panel);
    panel.erase("columns");
    panel.erase("title");
    if (panel["truncated"] == false) panel.erase("truncated");
    if (panel["complete"] == true) panel.erase("complete");
    if (panel["note"].is_null()) panel.erase("note");
  }
  for (auto& [key, value] : cut.items()) {
    if (key != "panels" && key != "cause") CutValue(measure, measure.elements, &value);
  }
  if (cut["cause"].is_string()) {
    cut["cause"] = Fit(cut["cause"].get<std::string>(), kMaxCause);
  }
  return cut;
}

}  // namespace

std::string CutAutopsy(std::string_view document, size_t most) {
  Json whole = Json::parse(document, nullptr, /*allow_exceptions=*/false);
  if (!whole.is_object() || !whole["panels"].is_array()) return Fit(std::string(document), most);
  Json left_out = Json::array();
  Json cut;
  // Modules are many and say little.
  for (const char* part : kParts) {
    Json& panels = whole["panels"];
    for (size_t i = panels.size(); i-- > 0;) {
      if (!panels[i].is_object() || panels[i]["id"] != part) continue;
      left_out.push_back({{"part", part}, {"question", panels[i]["question"]}});
      panels.erase(i);
    }
    // All parts in short tell more than few in full; but too short ones tell nothing.
    for (const Measure& measure : kMeasures) {
      cut = CutDocument(whole, measure);
      if (!left_out.empty()) cut["left_out"] = left_out;
      std::string text = Dump(cut);
      if (text.size() <= most) return text;
    }
  }
  cut.erase("panels");
  cut.erase("left_out");
  return Fit(Dump(cut), most);
}

}  // namespace ttq::mcp

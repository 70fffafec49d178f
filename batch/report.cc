// SPDX-License-Identifier: MIT

#include "batch/report.h"

#include <tinyxml2.h>

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/natural_order.h"
#include "base/text.h"
#include "fmt/core.h"
#include "nlohmann/json.hpp"
#include "query/answers/format.h"

namespace ttq {
namespace {

std::string RowsText(const BatchResult& result) {
  return fmt::format("{}{} {}", result.more ? "more than " : "", result.rows,
                     result.rows == 1 ? "row" : "rows");
}

// "expected none, but there are 3 rows: …"
std::string Explanation(const BatchResult& result) {
  if (result.verdict == Verdict::kFailed || result.verdict == Verdict::kUnreadable) {
    return result.detail;
  }
  std::string text;
  if (result.verdict == Verdict::kNotMet) {
    text = fmt::format("expected {}: {}", result.expect, RowsText(result));
    if (!result.detail.empty()) text += "; " + result.detail;
    if (!result.first_rows.empty()) text += "; first " + result.first_rows[0];
  } else {
    text = RowsText(result);
    if (!result.detail.empty()) text += "; " + result.detail;
  }
  if (!result.complete) text += " (incomplete)";
  return text;
}

// A line for each question, in the order of the questions, then one for each answer that is not as
// it should be, in natural order of the recordings.
class Table : public BatchReport {
 public:
  Table(const BatchStyle& style, std::function<void(std::string_view)> write)
      : style_(style), write_(std::move(write)) {}

  void Add(const BatchResult& result) override {
    if (std::find(questions_.begin(), questions_.end(), result.question) == questions_.end()) {
      questions_.push_back(result.question);
    }
    results_.push_back(result);
  }

  void Finish() override {
    std::stable_sort(results_.begin(), results_.end(),
                     [this](const BatchResult& a, const BatchResult& b) {
                       if (a.trace != b.trace) return NaturalLess(a.trace, b.trace);
                       return Rank(a.question) < Rank(b.question);
                     });
    std::sort(questions_.begin(), questions_.end(),
              [this](const std::string& a, const std::string& b) { return Rank(a) < Rank(b); });
    std::string text;
    for (const std::string& question : questions_) text += Summary(question) + "\n";
    bool first = true;
    std::map<Verdict, size_t> counts;
    for (const BatchResult& result : results_) {
      ++counts[result.verdict];
      if (result.verdict == Verdict::kMet && !style_.verbose) continue;
      text += fmt::format("{}{} {}  {}  {}\n", first ? "\n" : "",
                          Coloured(fmt::format("{:<10}", VerdictName(result.verdict)),
                                   result.verdict == Verdict::kMet),
                          Printable(BaseName(result.trace)), Printable(result.question),
                          Printable(Explanation(result)));
      first = false;
    }
    text += '\n';
    first = true;
    for (const auto& [verdict, count] : counts) {
      text += fmt::format("{}{} {}", first ? "" : ", ", count, VerdictName(verdict));
      first = false;
    }
    write_(text + "\n");
  }

 private:
  size_t Rank(const std::string& question) const {
    const auto& order = style_.questions;
    return std::find(order.begin(), order.end(), question) - order.begin();
  }

  std::string Coloured(const std::string& text, bool good) const {
    return style_.colour ? fmt::format("\x1b[{}m{}\x1b[0m", good ? 32 : 31, text) : text;
  }

  // "nobody writes the table: 18 of 20, not met in run-3, run-7". REQUIRES: results_ are sorted.
  std::string Summary(const std::string& question) const {
    constexpr size_t kNamed = 10;
    size_t asked = 0;
    std::map<Verdict, std::vector<std::string>> traces;
    for (const BatchResult& result : results_) {
      if (result.question != question) continue;
      ++asked;
      traces[result.verdict].push_back(Printable(BaseName(result.trace)));
    }
    const size_t met = traces[Verdict::kMet].size();
    std::string text =
        Printable(question) + ": " + Coloured(fmt::format("{} of {}", met, asked), met == asked);
    for (const auto& [verdict, names] : traces) {
      if (verdict == Verdict::kMet || names.empty()) continue;
      const size_t shown = names.size() <= kNamed ? names.size() : kNamed - 1;
      text += fmt::format(", {} in {}", VerdictName(verdict),
                          absl::StrJoin(names.begin(), names.begin() + shown, ", "));
      if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
    }
    return text;
  }

  const BatchStyle style_;
  const std::function<void(std::string_view)> write_;
  std::vector<std::string> questions_;
  std::vector<BatchResult> results_;
};

class JsonLines : public BatchReport {
 public:
  explicit JsonLines(std::function<void(std::string_view)> write) : write_(std::move(write)) {}
  void Add(const BatchResult& result) override { write_(ToJsonLine(result) + "\n"); }

 private:
  const std::function<void(std::string_view)> write_;
};

// One suite a recording, one case a question: what CI systems show.
class Junit : public BatchReport {
 public:
  explicit Junit(std::function<void(std::string_view)> write) : write_(std::move(write)) {}

  void Add(const BatchResult& result) override { by_trace_[result.trace].push_back(result); }

  void Finish() override {
    tinyxml2::XMLPrinter xml;
    xml.PushHeader(/*writeBOM=*/false, /*writeDec=*/true);
    xml.OpenElement("testsuites");
    for (const auto& [trace, results] : by_trace_) {
      xml.OpenElement("testsuite");
      xml.PushAttribute("name", Text(trace).c_str());
      xml.PushAttribute("tests", static_cast<unsigned>(results.size()));
      xml.PushAttribute("failures", Count(results, Verdict::kNotMet));
      xml.PushAttribute("errors",
                        Count(results, Verdict::kFailed) + Count(results, Verdict::kUnreadable));
      for (const BatchResult& result : results) AddCase(result, &xml);
      xml.CloseElement();
    }
    xml.CloseElement();
    write_(xml.CStr());
  }

 private:
  // XML 1.0 has no control characters.
  static std::string Text(std::string_view text) { return Printable(text); }

  static unsigned Count(const std::vector<BatchResult>& results, Verdict verdict) {
    unsigned count = 0;
    for (const BatchResult& result : results) count += result.verdict == verdict;
    return count;
  }

  static void AddCase(const BatchResult& result, tinyxml2::XMLPrinter* xml) {
    xml->OpenElement("testcase");
    xml->PushAttribute("classname", Text(BaseName(result.trace)).c_str());
    xml->PushAttribute("name", Text(result.question).c_str());
    xml->PushAttribute("time", fmt::format("{:.3f}", result.elapsed_ms / 1000).c_str());
    const std::string explanation = Text(Explanation(result));
    if (result.verdict == Verdict::kMet) {
      xml->OpenElement("system-out");
      xml->PushText(explanation.c_str());
    } else {
      xml->OpenElement(result.verdict == Verdict::kNotMet ? "failure" : "error");
      xml->PushAttribute("message", explanation.c_str());
      std::string rows = Text(result.query);
      for (const std::string& row : result.first_rows) rows += "\n" + Text(row);
      xml->PushText(rows.c_str());
    }
    xml->CloseElement();
    xml->CloseElement();
  }

  const std::function<void(std::string_view)> write_;
  std::map<std::string, std::vector<BatchResult>, bool (*)(const std::string&, const std::string&)>
      by_trace_{NaturalLess};
};

}  // namespace

std::unique_ptr<BatchReport> MakeBatchReport(BatchFormat format, const BatchStyle& style,
                                             std::function<void(std::string_view)> write) {
  switch (format) {
    case BatchFormat::kTable:
      return std::make_unique<Table>(style, std::move(write));
    case BatchFormat::kJsonLines:
      return std::make_unique<JsonLines>(std::move(write));
    case BatchFormat::kJunit:
      return std::make_unique<Junit>(std::move(write));
  }
  return nullptr;
}

std::string ToJsonLine(const BatchResult& result) {
  std::string out;
  const auto field = [&out](const char* key, std::string_view text) {
    out += fmt::format("{}\"{}\":", out.empty() ? "{" : ",", key);
    AppendJsonString(text, &out);
  };
  field("trace", result.trace);
  field("question", result.question);
  field("query", result.query);
  field("expect", result.expect);
  field("verdict", VerdictName(result.verdict));
  out += fmt::format(",\"rows\":{},\"more\":{},\"complete\":{}", result.rows, result.more,
                     result.complete);
  field("detail", result.detail);
  out += ",\"first_rows\":[";
  for (size_t i = 0; i < result.first_rows.size(); ++i) {
    out += (i > 0 ? "," : "") + result.first_rows[i];
  }
  return out + fmt::format("],\"elapsed_ms\":{:.1f}}}", result.elapsed_ms);
}

std::optional<BatchResult> FromJsonLine(std::string_view line) {
  const nlohmann::ordered_json json = nlohmann::ordered_json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  BatchResult result;
  const auto text = [&json](const char* key, std::string* out) {
    const auto it = json.find(key);
    if (it == json.end() || !it->is_string()) return false;
    *out = it->get<std::string>();
    return true;
  };
  std::string verdict;
  if (!text("trace", &result.trace) || !text("question", &result.question) ||
      !text("query", &result.query) || !text("expect", &result.expect) ||
      !text("verdict", &verdict) || !text("detail", &result.detail)) {
    return std::nullopt;
  }
  bool known = false;
  for (const Verdict v :
       {Verdict::kMet, Verdict::kNotMet, Verdict::kFailed, Verdict::kUnreadable}) {
    if (verdict != VerdictName(v)) continue;
    result.verdict = v;
    known = true;
  }
  const auto rows = json.find("rows"), more = json.find("more"), complete = json.find("complete"),
             first = json.find("first_rows"), elapsed = json.find("elapsed_ms");
  const auto end = json.end();
  if (!known || rows == end || !rows->is_number_unsigned() || more == end || !more->is_boolean() ||
      complete == end || !complete->is_boolean() || first == end || !first->is_array() ||
      elapsed == end || !elapsed->is_number()) {
    return std::nullopt;
  }
  result.rows = rows->get<uint64_t>();
  result.more = more->get<bool>();
  result.complete = complete->get<bool>();
  result.elapsed_ms = elapsed->get<double>();
  for (const auto& row : *first) result.first_rows.push_back(row.dump());
  return result;
}

}  // namespace ttq

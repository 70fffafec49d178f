// SPDX-License-Identifier: MIT

#include "batch/report.h"

#include <tinyxml2.h>

#include <map>
#include <vector>

#include "base/text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "query/answers/format.h"

namespace ttq {
namespace {

std::string BaseName(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return path;
  const size_t slash = path.rfind('/', end);
  return path.substr(slash == std::string::npos ? 0 : slash + 1, end - slash);
}

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

class Table : public BatchReport {
 public:
  Table(bool colour, std::function<void(std::string_view)> write)
      : colour_(colour), write_(std::move(write)) {}

  void Add(const BatchResult& result) override {
    ++counts_[result.verdict];
    const std::string_view name = VerdictName(result.verdict);
    std::string verdict = fmt::format("{:<10}", name);
    if (colour_) {
      verdict =
          fmt::format("\x1b[{}m{}\x1b[0m", result.verdict == Verdict::kMet ? 32 : 31, verdict);
    }
    write_(fmt::format("{} {}  {}  {}\n", verdict, Printable(BaseName(result.trace)),
                       Printable(result.question), Printable(Explanation(result))));
  }

  void Finish() override {
    std::string text;
    for (const auto& [verdict, count] : counts_) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, VerdictName(verdict));
    }
    write_(text + "\n");
  }

 private:
  const bool colour_;
  const std::function<void(std::string_view)> write_;
  std::map<Verdict, size_t> counts_;
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
  std::map<std::string, std::vector<BatchResult>> by_trace_;
};

}  // namespace

std::unique_ptr<BatchReport> MakeBatchReport(BatchFormat format, bool colour,
                                             std::function<void(std::string_view)> write) {
  switch (format) {
    case BatchFormat::kTable:
      return std::make_unique<Table>(colour, std::move(write));
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

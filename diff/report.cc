// SPDX-License-Identifier: MIT
//
// What a comparison found, as text and as JSON.

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "base/text.h"
#include "diff/diff.h"
#include "fmt/core.h"
#include "nlohmann/json.hpp"

namespace ttq::diff {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShownFrames = 8, kShownSteps = 8, kShownFunctions = 5, kShownVariables = 6;

std::string ToText(const FrameText& f) {
  return diff::ToText(SourceLocation{f.function, f.module, f.file, f.line});
}

// Two cells side by side where they fit, else below each other.
std::string Pair(std::string_view name, const std::string& a, const std::string& b) {
  const std::string x = Printable(a.empty() ? "-" : a), y = Printable(b.empty() ? "-" : b);
  if (x == y) return fmt::format("  {:<10} {}\n", name, x);
  if (x.size() <= 42 && y.size() <= 48) return fmt::format("  {:<10} {:<42} | {}\n", name, x, y);
  return fmt::format("  {:<10} A {}\n  {:<10} B {}\n", name, x, "", y);
}

template <class Frames, class Text>
void AppendStacks(const std::array<Frames, 2>& stacks, const Text& text, std::string* out) {
  // From the outside, they are alike for a while.
  const size_t a = stacks[0].size(), b = stacks[1].size();
  for (size_t i = 0; i < std::max(a, b) && i < kShownFrames; ++i) {
    *out += Pair(i == 0 ? "stack" : "", i < a ? text(stacks[0][i]) : "",
                 i < b ? text(stacks[1][i]) : "");
  }
  if (std::max(a, b) > kShownFrames) {
    *out += fmt::format("             … {} more\n", std::max(a, b) - kShownFrames);
  }
}

void AppendPython(const PythonDifference& d, std::string* out) {
  *out += fmt::format("first difference, in Python: after {}\n", Printable(ToText(d.place)));
  *out +=
      fmt::format("  they are alike for {} calls and returns of thread {}\n", d.alike, d.thread.v);
  *out += Pair("time", fmt::format("{}", d.time[0].v), fmt::format("{}", d.time[1].v));
  *out += Pair("then", d.next[0], d.next[1]);
  AppendStacks(
      d.stacks, [](const PythonLocation& p) { return ToText(p); }, out);
  for (size_t i = 0; i < d.variables.size() && i < kShownVariables; ++i) {
    *out += Pair(d.variables[i].name, d.variables[i].value[0], d.variables[i].value[1]);
  }
  if (d.variables.size() > kShownVariables) {
    *out += fmt::format("  … {} more variables differ\n", d.variables.size() - kShownVariables);
  }
  for (const PythonAssignment& a : d.history) {
    *out += fmt::format("  {} got {} | {} in {} at time {} | {}\n", Printable(a.name),
                        Printable(a.value[0]), Printable(a.value[1]), Printable(ToText(a.place)),
                        a.time[0].v, a.time[1].v);
  }
  *out += fmt::format("origin: {}\n", Printable(ToText(d.origin)));
}

void AppendFirst(const FirstDifference& d, std::string* out) {
  *out += fmt::format("first difference, in {}: {}\n", d.kind, Printable(diff::ToText(d.place)));
  if (d.thread.v != 0) {
    *out += Pair("time", fmt::format("{}", d.time[0].v), fmt::format("{}", d.time[1].v));
    *out += fmt::format("  {:<10} {}\n", "thread", d.thread.v);
  }
  if (!d.detail.empty()) *out += fmt::format("  {:<10} {}\n", "what", Printable(d.detail));
  if (d.decision) {
    *out += Pair("branch", d.decision->branch[0], d.decision->branch[1]);
    if (!d.decision->compared[0].empty()) {
      *out += Pair("compared", d.decision->compared[0], d.decision->compared[1]);
    }
    if (!d.decision->values[0].empty()) {
      *out += Pair("values", d.decision->values[0], d.decision->values[1]);
    }
    *out += Pair("then", diff::ToText(d.next[0]), diff::ToText(d.next[1]));
  }
  AppendStacks(
      d.stacks, [](const FrameText& f) { return ToText(f); }, out);
  const std::vector<OriginStep>& steps = d.origin.steps;
  if (steps.size() > 1) *out += "where the values come from, newest first\n";
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps.size() > kShownSteps && i == kShownSteps / 2) {
      *out += fmt::format("  … {} more\n", steps.size() - kShownSteps);
      i = steps.size() - kShownSteps / 2;
    }
    const OriginStep& s = steps[i];
    std::string line = fmt::format("  {:>12}  {:<34} {}", s.at[0].time.v,
                                   Printable(diff::ToText(s.place)), s.instruction[0]);
    if (!s.value[0].empty() || !s.value[1].empty()) {
      absl::StrAppend(&line, "   ", s.what, ": ", s.value[0], " | ", s.value[1]);
    }
    *out += line + "\n";
  }
  if (d.origin.text.empty()) return;
  *out += fmt::format("origin: {}\n", Printable(d.origin.text));
  if (!d.origin_place.function.empty() || d.origin_place.line != 0) {
    *out += fmt::format("  {:<10} {}\n", "in", Printable(diff::ToText(d.origin_place)));
  }
}

void AppendCause(const DiffResult& result, std::string* out) {
  if (!result.cause) return;
  const Cause& cause = *result.cause;
  *out += fmt::format("{}: {} {}\n", cause.established ? "cause" : "likely cause",
                      InputKindName(cause.input.kind), Printable(cause.input.text));
  constexpr size_t kShownInputs = 5;
  for (size_t i = 0; i < result.others.size() && i < kShownInputs; ++i) {
    *out += fmt::format("  {:<10} {} {}\n", i == 0 ? "also other" : "",
                        InputKindName(result.others[i].kind), Printable(result.others[i].text));
  }
  if (result.others.size() > kShownInputs) {
    *out += fmt::format("             … {} more\n", result.others.size() - kShownInputs);
  }
}

void AppendSummary(const Summary& s, std::string* out) {
  *out += "summary\n";
  *out += Pair("exit", s.exits[0], s.exits[1]);
  *out += Pair("executed", fmt::format("{} instructions", s.instructions[0]),
               fmt::format("{} instructions", s.instructions[1]));
  if (s.threads[0] != s.threads[1]) {
    *out += Pair("threads", fmt::format("{}", s.threads[0]), fmt::format("{}", s.threads[1]));
  }
  if (s.outputs.empty()) {
    *out += Pair("output", fmt::format("{} bytes, the same", s.output_bytes[0]),
                 fmt::format("{} bytes, the same", s.output_bytes[1]));
  }
  for (const EventDifference& d : s.outputs) {
    *out +=
        fmt::format("  {:<10} descriptor {} differs from byte {} on\n", "output", d.fd, d.bytes);
    *out += Pair("", d.text[0], d.text[1]);
  }
  *out += Pair("syscalls", fmt::format("{}", s.syscalls[0]), fmt::format("{}", s.syscalls[1]));
  if (s.syscall) {
    *out += fmt::format("  {:<10} number {} of thread {} is the first that differs\n", "",
                        s.syscall->index + 1, s.syscall->thread().v);
    *out += Pair("", s.syscall->text[0], s.syscall->text[1]);
  }
  std::string lists[3];
  size_t counts[3] = {};
  for (const CallCount& c : s.functions) {
    const int list = c.calls[1] == 0 ? 0 : c.calls[0] == 0 ? 1 : 2;
    if (++counts[list] > kShownFunctions) continue;
    absl::StrAppend(&lists[list], lists[list].empty() ? "" : ", ", c.function, " ",
                    list == 2   ? fmt::format("{}|{}", c.calls[0], c.calls[1])
                    : list == 0 ? fmt::format("{}", c.calls[0])
                                : fmt::format("{}", c.calls[1]));
  }
  static constexpr const char* kNames[] = {"only in A", "only in B", "calls"};
  for (int i = 0; i < 3; ++i) {
    if (counts[i] == 0) continue;
    *out += fmt::format(
        "  {:<10} {}{}\n", kNames[i], Printable(lists[i]),
        counts[i] > kShownFunctions ? fmt::format(", {} more", counts[i] - kShownFunctions) : "");
  }
}

Json Of(const SourceLocation& p) {
  if (p.function.empty() && p.line == 0 && p.module.empty()) return nullptr;
  return {{"function", p.function}, {"module", p.module}, {"file", p.file}, {"line", p.line}};
}
Json Of(const FrameText& f) { return Of(SourceLocation{f.function, f.module, f.file, f.line}); }
Json Of(const PythonLocation& p) {
  if (p.function.empty()) return nullptr;
  return {{"function", p.function}, {"file", p.file}, {"line", p.line}};
}
Json Of(const std::string& s) { return s.empty() ? Json() : Json(s); }
Json Of(Time t) { return t.v; }
template <class T>
Json Both(const std::array<T, 2>& pair) {
  return {Of(pair[0]), Of(pair[1])};
}
template <class T>
Json ListOf(const std::vector<T>& list) {
  Json out = Json::array();
  for (const T& one : list) out.push_back(Of(one));
  return out;
}
template <class T>
Json BothLists(const std::array<std::vector<T>, 2>& pair) {
  return {ListOf(pair[0]), ListOf(pair[1])};
}

Json Of(const Input& input) {
  return {{"kind", InputKindName(input.kind)},
          {"name", input.name},
          {"text", input.text},
          {"value", Both(input.value)},
          {"time", Both(input.time)}};
}

Json Of(const PythonDifference& d) {
  Json variables = Json::array(), history = Json::array();
  for (const PythonVariable& v : d.variables) {
    variables.push_back({{"name", v.name}, {"value", Both(v.value)}});
  }
  for (const PythonAssignment& a : d.history) {
    history.push_back({{"name", a.name},
                       {"value", Both(a.value)},
                       {"place", Of(a.place)},
                       {"time", Both(a.time)}});
  }
  return {{"thread", d.thread.v},   {"alike", d.alike},     {"time", Both(d.time)},
          {"place", Of(d.place)},   {"next", Both(d.next)}, {"stacks", BothLists(d.stacks)},
          {"variables", variables}, {"history", history},   {"origin", {{"place", Of(d.origin)}}}};
}

Json Of(const FirstDifference& d) {
  Json steps = Json::array();
  for (const OriginStep& s : d.origin.steps) {
    steps.push_back({{"time", {s.at[0].time.v, s.at[1].time.v}},
                     {"place", Of(s.place)},
                     {"instruction", Both(s.instruction)},
                     {"what", Of(s.what)},
                     {"value", Both(s.value)}});
  }
  Json decision;
  if (d.decision) {
    decision = {{"place", Of(d.decision->place)},
                {"branch", Both(d.decision->branch)},
                {"compared", Both(d.decision->compared)},
                {"values", Both(d.decision->values)}};
  }
  return {{"kind", d.kind},
          {"thread", d.thread.v == 0 ? Json() : Json(d.thread.v)},
          {"time", Both(d.time)},
          {"place", Of(d.place)},
          {"next", Both(d.next)},
          {"detail", Of(d.detail)},
          {"decision", decision},
          {"stacks", BothLists(d.stacks)},
          {"origin",
           {{"kind", OriginKindName(d.origin.kind)},
            {"text", d.origin.text},
            {"place", Of(d.origin_place)},
            {"time", {d.origin.at[0].time.v, d.origin.at[1].time.v}},
            {"value", Both(d.origin.value)},
            {"stack", ListOf(d.origin_stack)},
            {"steps", steps}}}};
}

Json Of(const Summary& s) {
  Json functions = Json::array(), outputs = Json::array(), counts = Json::array();
  for (const CallCount& c : s.functions) {
    functions.push_back({{"function", c.function}, {"module", c.module}, {"calls", c.calls}});
  }
  for (const EventDifference& d : s.outputs) {
    outputs.push_back({{"descriptor", d.fd}, {"byte", d.bytes}, {"text", Both(d.text)}});
  }
  for (const auto& [name, count] : s.syscall_counts) {
    counts.push_back({{"name", name}, {"calls", count}});
  }
  Json syscall;
  if (s.syscall) {
    syscall = {{"thread", s.syscall->thread().v},
               {"index", s.syscall->index},
               {"text", Both(s.syscall->text)}};
  }
  return {{"exit", s.exits},          {"instructions", s.instructions},
          {"threads", s.threads},     {"output_bytes", s.output_bytes},
          {"outputs", outputs},       {"syscalls", s.syscalls},
          {"first_syscall", syscall}, {"syscall_counts", counts},
          {"functions", functions}};
}

}  // namespace

std::string ToText(const DiffResult& result, const Side& a, const Side& b) {
  std::string out;
  const std::array<const Side*, 2> sides = {&a, &b};
  for (int i : {0, 1}) {
    out += fmt::format("{} {} process {}: {}\n", i == 0 ? "A" : "B",
                       Printable(sides[i]->recording().info().path),
                       sides[i]->process().info().number.v,
                       Printable(BaseName(sides[i]->process().info().program)));
  }
  if (result.python) {
    AppendPython(*result.python, &out);
  } else if (result.first) {
    AppendFirst(*result.first, &out);
  } else {
    out += result.same() ? "no difference\n"
           : result.summary.instructions[0] == result.summary.instructions[1]
               ? "they execute the same steps\n"
               : "no difference in what the program's own code does\n";
  }
  AppendCause(result, &out);
  const PassedOver& passed = result.passed;
  if (passed.addresses + passed.ignored + passed.without_effect > 0) {
    out += fmt::format(
        "passed over: {} that come from addresses alone, {} without effect, {} to be ignored{}\n",
        passed.addresses, passed.without_effect, passed.ignored,
        passed.first.empty() ? "" : ", the first in " + passed.first);
  }
  AppendSummary(result.summary, &out);
  if (!result.note.empty()) out += fmt::format("note: {}\n", Printable(result.note));
  return out;
}

std::string ToJson(const DiffResult& result, const Side& a, const Side& b) {
  Json cause, others = Json::array();
  if (result.cause) {
    cause = Of(result.cause->input);
    cause["established"] = result.cause->established;
  }
  for (const Input& input : result.others) others.push_back(Of(input));
  const Json document = {
      {"traces", {a.recording().info().path, b.recording().info().path}},
      {"processes", {a.process().info().number.v, b.process().info().number.v}},
      {"same", result.same()},
      {"cause", cause},
      {"other_inputs", others},
      {"python", result.python ? Of(*result.python) : Json()},
      {"native", result.first ? Of(*result.first) : Json()},
      {"alike", result.alike},
      {"passed_over",
       {{"addresses", result.passed.addresses},
        {"without_effect", result.passed.without_effect},
        {"ignored", result.passed.ignored},
        {"first", Of(result.passed.first)}}},
      {"summary", Of(result.summary)},
      {"complete", result.complete},
      {"note", Of(result.note)},
  };
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ttq::diff

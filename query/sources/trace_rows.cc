// SPDX-License-Identifier: MIT

#include "query/sources/trace_rows.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/language/diagnostic.h"
#include "query/sources/builder.h"
#include "query/sources/resolve.h"

namespace ttq {
namespace {

constexpr uint64_t kMaxCallDepth = 100;
constexpr size_t kMaxText = 80;  // of a value in a cell

// Begins of a value that is long.
std::string Short(const std::string& text) {
  if (text.size() <= kMaxText) return text;
  size_t end = kMaxText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

std::string ChangeText(const Change& change) {
  const std::string after = change.after ? Short(*change.after) : "gone";
  return change.before ? Short(*change.before) + " → " + after : "= " + after;
}

Value OfOptional(const std::optional<std::string>& text) { return text ? Value(*text) : Value(); }

std::string CallText(const std::string& function, const CallShown& call) {
  std::string text = absl::StrCat(function, "(", Short(call.arguments_text), ")");
  if (call.result) absl::StrAppend(&text, " = ", Short(*call.result));
  return text;
}

}  // namespace

SourcePlan PlanOfTrace(uint32_t depth, bool python) {
  SourcePlan plan;
  plan.width = kTraceWidth;
  plan.time_slot = kTraceTime;
  plan.thread_slot = kTraceThread;
  plan.pc_slot = kTracePc;
  const auto add = [&plan](const char* name, Type type, TraceSlot slot) {
    plan.columns.push_back({{name, type}, slot, Derived::kNone, nullptr, false});
  };
  add("time", Type::kTime, kTraceTime);
  add("thread", Type::kInteger, kTraceThread);
  if (!python) add("pc", Type::kAddress, kTracePc);
  add("function", Type::kString, kTraceFunction);
  if (!python) add("module", Type::kString, kTraceModule);
  add("file", Type::kString, kTraceFile);
  add("line", Type::kInteger, kTraceLine);
  if (!python) plan.columns.push_back({{"python", Type::kObject}, 0, Derived::kPython});
  add("depth", Type::kInteger, kTraceDepth);
  add("times", Type::kInteger, kTraceTimes);
  add("last_time", Type::kTime, kTraceLastTime);
  add("source", Type::kString, kTraceSource);
  add("changes", Type::kList, kTraceChanges);
  add("calls", Type::kList, kTraceCalls);
  add("ended", Type::kString, kTraceEnded);
  if (python) {
    add("frame_address", Type::kAddress, kTraceFrame);
    plan.scope.code = NameScope::Code::kNone;
  } else {
    plan.inlined_slot = kTraceInlined;
  }
  plan.presentation.table_columns = {"time", "line", "times", "source", "changes", "calls"};
  if (depth > 1) {
    auto& columns = plan.presentation.table_columns;
    columns.insert(columns.begin() + 1, {"depth", "function"});
  }
  return plan;
}

absl::StatusOr<uint32_t> TraceDepth(const ast::Query& query) {
  if (!query.clauses.depth) return 1;
  if (query.clauses.depth->value > kMaxCallDepth) {
    return ErrorAt(query.clauses.depth->range,
                   fmt::format("a depth is from 1 to {}", kMaxCallDepth));
  }
  return static_cast<uint32_t>(query.clauses.depth->value);
}

absl::Status RefuseSpan(const ast::Query& query) {
  if (!query.clauses.span) return absl::OkStatus();
  return ErrorAt(query.clauses.span->range,
                 "the activation is told by its time already: a span goes with a function's name");
}

absl::StatusOr<QueryTime> TimeOfTrace(const Context& context, const ast::Time& time,
                                      const TimeOfQuery& ask) {
  QueryTime found;
  ASSIGN_OR_RETURN(found.time, ResolveTime(context, time, ask));
  if (const Time end = context.process().info().end; found.time > end) {
    return ErrorAt(time.range, fmt::format("time {} is past the end, {}", found.time.v, end.v));
  }
  if (time.kind == ast::Time::Kind::kQuery && time.offset == 0) {
    ASSIGN_OR_RETURN(const QueryTime row, ask(*time.query));
    found.inlined = row.inlined;
  }
  return found;
}

std::vector<FoldedStep> EachStep(size_t count) {
  std::vector<FoldedStep> steps;
  for (uint32_t i = 0; i < count; ++i) steps.push_back({i, i, 1, {i}});
  return steps;
}

Value ChangeList(const std::vector<Change>& first, const std::vector<Change>& last) {
  List list;
  const auto find = [](const std::vector<Change>& all, const std::string& name) {
    const auto it =
        std::find_if(all.begin(), all.end(), [&](const Change& c) { return c.name == name; });
    return it == all.end() ? nullptr : &*it;
  };
  const auto add = [&](const Change* change, const Change* later) {
    Object one;
    const Change& any = change ? *change : *later;
    one.fields = {{"name", any.name},
                  {"old", change ? OfOptional(change->before) : Value()},
                  {"new", change ? OfOptional(change->after) : Value()}};
    if (later) {
      one.fields.emplace_back("last_old", OfOptional(later->before));
      one.fields.emplace_back("last_new", OfOptional(later->after));
    }
    std::string text = any.name + ": ";
    if (change) text += ChangeText(*change);
    if (later) absl::StrAppend(&text, change ? " … " : "", ChangeText(*later));
    one.fields.emplace_back("text", std::move(text));
    list.emplace_back(std::move(one));
  };
  for (const Change& change : first) add(&change, find(last, change.name));
  for (const Change& change : last) {
    if (!find(first, change.name)) add(nullptr, &change);
  }
  return list.empty() ? Value() : Value(std::move(list));
}

Value CallValue(const std::string& function, uint64_t times, const CallShown& first,
                const CallShown& last, const char* kind) {
  Object one;
  one.fields = {{"function", OfText(function)},
                {"kind", kind},
                {"times", OfCount(times)},
                {"time", first.time},
                {"return_time", first.returned ? Value(*first.returned) : Value()},
                {"args", Value(first.arguments)},
                {"result", OfOptional(first.result)}};
  std::string text = CallText(function, first);
  if (times > 1) {
    one.fields.emplace_back("last_time", last.time);
    one.fields.emplace_back("last_args", Value(last.arguments));
    one.fields.emplace_back("last_result", OfOptional(last.result));
    const std::string ending = CallText(function, last);
    absl::StrAppend(&text, ending == text ? "" : " … " + ending, " ×", times);
  }
  one.fields.emplace_back("text", std::move(text));
  return Value(std::move(one));
}

absl::Status MomentJobs::Run(const Process& process, ScanControl* control) {
  std::stable_sort(jobs_.begin(), jobs_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::unique_ptr<Moment> moment;
  for (const auto& [t, job] : jobs_) {
    RETURN_IF_ERROR(NotInterrupted(control));
    if (!moment) {
      ASSIGN_OR_RETURN(moment, process.At(t));
    } else if (moment->time() != t) {
      RETURN_IF_ERROR(moment->MoveTo(t));
    }
    RETURN_IF_ERROR(job(moment.get()));
  }
  jobs_.clear();
  return absl::OkStatus();
}

}  // namespace ttq

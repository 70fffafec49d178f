// SPDX-License-Identifier: MIT

#include "query/cpython/failed_tests.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "query/cpython/ending.h"
#include "query/cpython/state.h"

namespace ttq::python {
namespace {

// Where a run of tests is at the end: the frame that runs it, and what of it tells how it went.
struct Run {
  enum class Kind { kPytest, kUnittest } kind = Kind::kPytest;
  PythonState::Instance* instance = nullptr;
  uint64_t result = 0;  // pytest's Session, unittest's TestResult
};

uint64_t LocalOf(FrameReader& frames, const Frame& frame, std::string_view name) {
  for (const LocalVariable& local : frames.Locals(frame, 64)) {
    if (local.name == name) return local.value;
  }
  return 0;
}

// The outermost run that a thread is in.
std::optional<Run> RunIn(PythonState& state) {
  for (const PythonState::ThreadStack& stack : state.Stacks(std::nullopt)) {
    FrameReader& frames = stack.instance->frames;
    for (auto frame = stack.stack.frames.rbegin(); frame != stack.stack.frames.rend(); ++frame) {
      const std::string& name = frame->code->name;
      const std::string& file = frame->code->filename;
      Run run{.instance = stack.instance};
      if (name == "wrap_session" && absl::EndsWith(file, "/_pytest/main.py")) {
        run.result = LocalOf(frames, *frame, "session");
      } else if (name == "run" && absl::EndsWith(file, "/unittest/runner.py")) {
        run.kind = Run::Kind::kUnittest;
        run.result = LocalOf(frames, *frame, "result");
      } else if (name == "runTests" && absl::EndsWith(file, "/unittest/main.py")) {
        run.kind = Run::Kind::kUnittest;
        run.result = frames.objects().GetAttribute(LocalOf(frames, *frame, "self"), "result");
      }
      if (run.result != 0) return run;
    }
  }
  return std::nullopt;
}

// Whether any runner was imported.
bool HasRunner(PythonState& state) {
  for (const auto& instance : state.instances()) {
    for (const Interpreter& interpreter : state.Interpreters(*instance)) {
      const uint64_t modules = instance->objects.memory().Pointer(
          interpreter.address + static_cast<uint64_t>(instance->runtime.layout->interp_modules));
      for (const char* name : {"_pytest.main", "unittest.runner"}) {
        if (instance->objects.DictGet(modules, name) != 0) return true;
      }
    }
  }
  return false;
}

// Moves `state` back to the last time at which a run goes on, as nearly as its last report needs.
absl::StatusOr<std::optional<Run>> MoveToLastRun(PythonState* state, ScanControl* control) {
  constexpr uint64_t kNear = 10'000;  // instructions
  std::optional<Run> run = RunIn(*state);
  if (run) return run;
  uint64_t after = state->time().v;
  const uint64_t end = after;
  uint64_t before = end;
  for (uint64_t back = kNear; !run; back *= 2) {
    if (control != nullptr && control->cancelled) return absl::CancelledError("interrupted");
    if (back > end) return std::nullopt;
    after = before;
    before = end - back;
    RETURN_IF_ERROR(state->MoveTo(Time(before)));
    run = RunIn(*state);
  }
  while (after - before > kNear) {
    const uint64_t middle = before + (after - before) / 2;
    RETURN_IF_ERROR(state->MoveTo(Time(middle)));
    (RunIn(*state) ? before : after) = middle;
  }
  RETURN_IF_ERROR(state->MoveTo(Time(before)));
  return RunIn(*state);
}

// A test that failed, with the word that was written when its report was made.
struct Report {
  FailedTest test;
  uint64_t word = 0;
};

std::string FirstLine(std::string text) {
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

// How pytest words a failure: the text it crashed with, or all there is.
std::string PytestError(ObjectReader& objects, uint64_t longrepr) {
  if (const auto text = objects.Str(longrepr)) return FirstLine(*text);
  const uint64_t crash = objects.GetAttribute(longrepr, "reprcrash");
  if (const auto text = objects.Str(objects.GetAttribute(crash, "message"))) {
    return FirstLine(*text);
  }
  return FirstLine(objects.Str(objects.GetAttribute(longrepr, "longrepr")).value_or(""));
}

std::vector<Report> PytestReports(ObjectReader& objects, uint64_t session) {
  const uint64_t plugins = objects.GetAttribute(
      objects.GetAttribute(objects.GetAttribute(session, "config"), "pluginmanager"),
      "_name2plugin");
  const uint64_t stats =
      objects.GetAttribute(objects.DictGet(plugins, "terminalreporter"), "stats");
  std::vector<Report> reports;
  for (const char* outcome : {"failed", "error"}) {
    const auto failed = objects.Items(objects.DictGet(stats, outcome), kMaxTests);
    for (const uint64_t report : failed.value_or(std::vector<uint64_t>())) {
      Report one;
      one.test.name = objects.Str(objects.GetAttribute(report, "nodeid")).value_or("?");
      one.test.error = PytestError(objects, objects.GetAttribute(report, "longrepr"));
      one.word = report + static_cast<uint64_t>(objects.layout().object_type);
      reports.push_back(std::move(one));
    }
  }
  return reports;
}

// The last line of a traceback as text: the first that is not indented after its head.
std::string UnittestError(const std::string& text) {
  constexpr std::string_view kHead = "Traceback (most recent call last):\n";
  size_t at = text.rfind(kHead);
  if (at == std::string::npos) return FirstLine(text);
  at += kHead.size();
  while (at < text.size() && text[at] == ' ') {
    const size_t line = text.find('\n', at);
    if (line == std::string::npos) break;
    at = line + 1;
  }
  return FirstLine(text.substr(at));
}

std::string UnittestName(ObjectReader& objects, uint64_t test) {
  // A subtest, and what stands for a class or a module whose preparation failed.
  if (const uint64_t whole = objects.GetAttribute(test, "test_case"); whole != 0) test = whole;
  const auto method = objects.Str(objects.GetAttribute(test, "_testMethodName"));
  if (!method) return objects.Str(objects.GetAttribute(test, "description")).value_or("?");
  const TypeInfo* type = objects.TypeOf(test);
  return absl::StrCat(type == nullptr ? "?" : objects.FullTypeName(*type), ".", *method);
}

std::vector<Report> UnittestReports(ObjectReader& objects, uint64_t result) {
  const auto first_item = static_cast<uint64_t>(objects.layout().tuple_items);
  std::vector<Report> reports;
  for (const char* outcome : {"failures", "errors"}) {
    const auto failed = objects.Items(objects.GetAttribute(result, outcome), kMaxTests);
    for (const uint64_t pair : failed.value_or(std::vector<uint64_t>())) {
      const auto parts = objects.Items(pair, 2);
      if (!parts || parts->size() != 2) continue;
      Report one;
      one.test.name = UnittestName(objects, (*parts)[0]);
      one.test.error = UnittestError(objects.Str((*parts)[1]).value_or(""));
      one.word = pair + first_item;
      reports.push_back(std::move(one));
    }
  }
  return reports;
}

// Exceptions by which tests say something else than that they failed.
bool IsFailure(const std::string& type) {
  for (const std::string_view other :
       {"Skipped", "XFailed", "Exit", "unittest.case.SkipTest", "unittest.case._ShouldStop",
        "_pytest.outcomes.Skipped", "_pytest.outcomes.XFailed", "_pytest.outcomes.Exit"}) {
    if (type == other) return false;
  }
  return !type.empty();
}

// What a test failed by: the last that reached its runner before that wrote it down.
absl::StatusOr<std::optional<Raise>> RaiseOfTest(const Recording& recording, PythonState* state,
                                                 const FailedTest& test, Run::Kind kind,
                                                 ScanControl* control) {
  constexpr size_t kMaxBlocks = 256;
  ASSIGN_OR_RETURN(std::optional<Raise> raise,
                   LastRaise(
                       recording, state->process(), test.time, kMaxBlocks,
                       [&](const Raise& r) {
                         if (!r.caught || !r.exception || !IsFailure(r.exception->text.type))
                           return false;
                         const std::string& file = r.caught->place.file;
                         if (kind == Run::Kind::kPytest) {
                           return absl::EndsWith(file, "/_pytest/runner.py") &&
                                  absl::EndsWith(r.caught->place.function, "from_call");
                         }
                         return absl::StrContains(file, "/unittest/") &&
                                absl::StartsWith(test.error, r.exception->text.type);
                       },
                       control));
  if (!raise || raise->exception->object == 0) return raise;
  // A plugin may have caught and raised it again before.
  RETURN_IF_ERROR(state->MoveTo(raise->caught->time));
  for (const auto& instance : state->instances()) {
    ASSIGN_OR_RETURN(std::optional<Raise> first,
                     RaiseOf(recording, *state, *instance, raise->exception->object, control));
    if (first) return first;
  }
  return raise;
}

}  // namespace

bool IsOfTestRunner(const std::string& file) {
  return absl::StrContains(file, "/_pytest/") || absl::StrContains(file, "/pluggy/") ||
         absl::StrContains(file, "/unittest/");
}

absl::StatusOr<TestRun> FindFailedTests(const Recording& recording, const Process& process, Time t,
                                        ScanControl* control) {
  TestRun run;
  ASSIGN_OR_RETURN(const std::unique_ptr<PythonState> state,
                   PythonState::At(&recording, &process, t));
  if (!HasRunner(*state)) return run;
  ASSIGN_OR_RETURN(const std::optional<Run> last, MoveToLastRun(state.get(), control));
  if (!last) return run;
  ObjectReader& objects = last->instance->objects;
  std::vector<Report> reports = last->kind == Run::Kind::kPytest
                                    ? PytestReports(objects, last->result)
                                    : UnittestReports(objects, last->result);
  const Run::Kind kind = last->kind;
  for (Report& report : reports) {
    AccessQuery query;
    query.ranges = {{Address(report.word), Address(report.word + 8)}};
    query.span = {Time(0), state->time()};
    query.want_values = false;
    ASSIGN_OR_RETURN(const std::optional<Access> made, LastAccess(process, std::move(query)));
    report.test.time = made ? made->time : state->time();
    run.failed.push_back(std::move(report.test));
  }
  std::stable_sort(run.failed.begin(), run.failed.end(),
                   [](const FailedTest& a, const FailedTest& b) { return a.time < b.time; });
  if (run.failed.size() > kMaxTests) run.failed.resize(kMaxTests);
  if (run.failed.empty()) return run;
  ASSIGN_OR_RETURN(run.raise,
                   RaiseOfTest(recording, state.get(), run.failed.front(), kind, control));
  return run;
}

}  // namespace ttq::python

// SPDX-License-Identifier: MIT

#include "query/sources/py_failure.h"

#include <signal.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/cpython/ending.h"
#include "query/cpython/source_text.h"
#include "query/rows/py_stack.h"
#include "query/sources/builder.h"
#include "query/sources/py_exceptions.h"
#include "store/read/moment_info.h"

namespace ttq {
namespace {

using python::FailedTest;
using python::PythonState;
using python::Raise;
using python::TracebackEntry;

// Of a SystemExit: what the program said as it left, and no status.
bool HasMessage(const Raise& raise, int exit_status) {
  constexpr int kStatusOfMessage = 1;  // handle_system_exit in Python/pythonrun.c
  if (!raise.exception || exit_status != kStatusOfMessage) return false;
  const std::string& text = raise.exception->text.message;
  const bool is_number = std::all_of(text.begin(), text.end(),
                                     [](unsigned char c) { return isdigit(c) != 0 || c == '-'; });
  return !is_number && text != "True" && text != "False" && text != "None";
}

// Of a stack, innermost first: how many frames a test and what it called make up. All of them where
// no test runs.
size_t FramesOfTest(const std::vector<python::Frame>& frames) {
  // From the outside in: up to what runs the tests, then what that runs them by.
  const auto is_runner = [](const python::Frame& f) {
    return python::IsOfTestRunner(f.code->filename);
  };
  const auto outermost = std::find_if(frames.rbegin(), frames.rend(), is_runner);
  const auto test =
      std::find_if(outermost, frames.rend(), [&](const python::Frame& f) { return !is_runner(f); });
  return static_cast<size_t>(frames.rend() - (test == frames.rend() ? frames.rbegin() : test));
}

TracebackEntry PlaceOf(const python::Frame& frame) {
  return {frame.code->qualname, frame.code->filename, frame.position.line};
}

Object FrameValue(python::FrameReader& reader, const python::Frame& frame,
                  python::SourceText& source) {
  Object one = EntryValue(PlaceOf(frame), source);
  Object locals;
  constexpr size_t kMaxLocals = 100;
  for (const python::LocalVariable& local : reader.Locals(frame, kMaxLocals)) {
    const bool is_of_every_module =
        local.kind == python::LocalVariable::Kind::kName && absl::StartsWith(local.name, "__");
    if (is_of_every_module) continue;
    locals.fields.emplace_back(local.name, ObjectValue(reader.objects(), local.value));
  }
  one.fields.emplace_back("locals", Value(std::move(locals)));
  return one;
}

// Of each frame, the entries just inside of it that C put into the traceback, as Cython does for
// its functions; the innermost first.
std::vector<std::vector<const TracebackEntry*>> EntriesOfC(const Raise& raise,
                                                           absl::Span<const python::Frame> frames) {
  std::vector<std::vector<const TracebackEntry*>> inside(frames.size());
  std::vector<const TracebackEntry*> entries;  // since the last frame
  // Where it was raised again, a function has a second entry.
  const auto has_frame = [&](const TracebackEntry& entry) {
    return std::any_of(frames.begin(), frames.end(), [&](const python::Frame& frame) {
      return frame.code->qualname == entry.function && frame.code->filename == entry.file;
    });
  };
  size_t next = 0;
  for (auto entry = raise.traceback.rbegin();
       entry != raise.traceback.rend() && next < frames.size(); ++entry) {
    if (*entry == PlaceOf(frames[next])) {
      const bool may_be_c = next > 0 || raise.by == python::RaisedBy::kC;
      if (may_be_c) inside[next] = std::move(entries);
      entries.clear();
      ++next;
    } else if (!has_frame(*entry)) {
      entries.push_back(&*entry);
    }
  }
  return inside;
}

// The frames that an exception was raised under, each with its variables then.
absl::StatusOr<Value> FramesAt(const Context& context, const Raise& raise, bool of_test,
                               python::SourceText& source, Outcome* outcome) {
  ASSIGN_OR_RETURN(const std::unique_ptr<PythonState> state,
                   PythonState::At(&context.recording(), &context.process(), raise.time + 1));
  const auto stack = state->StackOf(raise.thread);
  if (!stack) return Value();
  const std::vector<python::Frame>& frames = stack->stack.frames;
  const size_t n = of_test ? FramesOfTest(frames) : frames.size();
  // An endless recursion ends at 1,000 frames.
  constexpr size_t kMaxInner = 80, kMaxOuter = 20;
  const auto of_c = EntriesOfC(raise, absl::MakeSpan(frames).first(n));
  List values;
  int64_t number = 0;
  const auto add = [&](Object frame) {
    frame.fields.insert(frame.fields.begin(), {"frame", number++});
    values.emplace_back(std::move(frame));
  };
  for (size_t i = 0; i < n; ++i) {
    if (n > kMaxInner + kMaxOuter && i == kMaxInner) {
      i = n - kMaxOuter;
      number += static_cast<int64_t>(i - kMaxInner);
      outcome->AddNote(
          fmt::format("of {} frames the {} between the innermost {} and the "
                      "outermost {} are left out",
                      n, i - kMaxInner, kMaxInner, kMaxOuter));
    }
    for (const TracebackEntry* entry : of_c[i]) {
      Object frame = EntryValue(*entry, source);
      frame.fields.emplace_back("locals", Value());  // they have none
      add(std::move(frame));
    }
    add(FrameValue(stack->instance->frames, frames[i], source));
  }
  return Value(std::move(values));
}

// What FindPythonEnding gives, without what native code did.
absl::StatusOr<PythonEnding> FindEndingInPython(const Context& context, ScanControl* control) {
  PythonEnding ending;
  const ProcessInfo& info = context.process().info();
  // Python ends itself by SIGINT where nobody caught a KeyboardInterrupt.
  const bool interrupted = info.fatal_signal == SIGINT;
  const bool failed = !info.crash && info.exit_status && *info.exit_status != 0;
  if (HistoryUnknown(context.process())) return ending;
  if ((!interrupted && !failed) || !context.HasPython()) return ending;
  absl::StatusOr<python::Ending> found =
      python::FindEnding(context.recording(), context.process(), control);
  if (absl::IsNotFound(found.status())) return ending;
  if (!found.ok()) return found.status();
  if (found->raise && !found->exits) {
    ending.failure = PythonFailure{.raise = std::move(found->raise)};
    return ending;
  }
  if (interrupted) return ending;
  const Time end = found->raise ? found->raise->time : found->time;
  ASSIGN_OR_RETURN(python::TestRun run,
                   python::FindFailedTests(context.recording(), context.process(), end, control));
  if (!run.failed.empty()) {
    ending.failure = PythonFailure{.raise = std::move(run.raise), .tests = std::move(run.failed)};
  } else if (found->raise && HasMessage(*found->raise, *info.exit_status)) {
    ending.failure = PythonFailure{.raise = std::move(found->raise), .exits = true};
  } else {
    ending.exit = std::move(found->raise);
  }
  return ending;
}

}  // namespace

absl::StatusOr<PythonEnding> FindPythonEnding(const Context& context, ScanControl* control) {
  ASSIGN_OR_RETURN(PythonEnding ending, FindEndingInPython(context, control));
  if (ending.failure && ending.failure->raise) {
    ASSIGN_OR_RETURN(ending.failure->native,
                     FindNativeRaise(context, *ending.failure->raise, control));
  }
  return ending;
}

std::string TextOf(const Raise& raise) {
  if (!raise.exception || raise.exception->text.type.empty()) return "an exception";
  const python::ExceptionText& text = raise.exception->text;
  return text.message.empty() ? text.type : absl::StrCat(text.type, ": ", text.message);
}

std::string CauseOf(const PythonFailure& failure) {
  if (!failure.tests.empty()) {
    const FailedTest& test = failure.tests.front();
    const std::string what = failure.raise ? TextOf(*failure.raise) : test.error;
    return what.empty() ? test.name + " failed" : fmt::format("{} failed by {}", test.name, what);
  }
  return (failure.exits ? "the program left by " : "nobody caught ") + TextOf(*failure.raise);
}

absl::StatusOr<Value> ValueOf(const PythonFailure& failure, const Context& context,
                              Outcome* outcome) {
  static const Raise kNoRaise;
  static const python::RaisedException kUnknown;
  const Raise& raise = failure.raise ? *failure.raise : kNoRaise;
  const python::RaisedException& exception = raise.exception ? *raise.exception : kUnknown;
  python::SourceText source(&context.process());
  Value frames;
  if (failure.raise) {
    ASSIGN_OR_RETURN(frames, FramesAt(context, raise, !failure.tests.empty(), source, outcome));
  }
  Value native;
  if (failure.native) {
    ASSIGN_OR_RETURN(native, ValueOf(*failure.native, context));
  }
  List tests;
  for (const FailedTest& test : failure.tests) {
    Object one;
    one.fields = {{"test", test.name}, {"time", test.time}, {"error", OfText(test.error)}};
    tests.emplace_back(std::move(one));
  }
  Object object;
  object.fields = {{"type", OfText(exception.text.type)},
                   {"message", failure.raise ? Value(exception.text.message) : Value()},
                   {"time", failure.time()},
                   {"thread", failure.raise ? OfThread(raise.thread) : Value()}};
  for (auto& field : PlaceObject(raise.place).fields) object.fields.push_back(std::move(field));
  const std::vector<std::pair<std::string, Value>> more = {
      {"raised_by", failure.raise ? Value(python::RaisedByName(raise.by)) : Value()},
      {"native", std::move(native)},
      {"test", failure.tests.empty() ? Value() : Value(failure.tests.front().name)},
      {"frames", std::move(frames)},
      {"traceback", TracebackOf(raise.traceback, source)},
      {"chain", RelatedOf(exception.chain)},
      {"exceptions", RelatedOf(exception.members)},
      {"failed_tests", tests.empty() ? Value() : Value(std::move(tests))}};
  object.fields.insert(object.fields.end(), more.begin(), more.end());
  if (exception.text.own_text) {
    outcome->AddNote(fmt::format(
        "{} has a __str__ of its own: its message is that of its arguments", exception.text.type));
  }
  for (const std::string& remark : source.remarks()) outcome->AddNote(remark);
  return Value(std::move(object));
}

}  // namespace ttq

// SPDX-License-Identifier: MIT
//
// `ttq info`: what a recording holds.

#include <algorithm>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "fmt/core.h"
#include "nlohmann/json.hpp"
#include "query/answers/format.h"
#include "query/cpython/context.h"
#include "query/cpython/runtime.h"
#include "query/outcome.h"
#include "query/sources/py_failure.h"
#include "store/format/inputs_log.h"
#include "store/read/moment_info.h"
#include "store/read/writer_lock.h"

namespace ttq {
namespace {

using Json = nlohmann::ordered_json;

// "killed by SIGSEGV at 123", "exit status 0", …
std::string Ending(const Recording& recording, const ProcessInfo& p, bool moment) {
  for (const ProcessInfo& other : recording.processes()) {
    if (other.by_exec && other.parent == p.number) {
      return fmt::format("became process {} by exec", other.number.v);
    }
  }
  if (p.fatal_signal == 0 && moment) return "still running at that moment";
  if (p.fatal_signal != 0) {
    return "killed by " + SignalName(p.fatal_signal) +
           (p.crash && !moment ? fmt::format(" at time {}", p.crash->v) : "");
  }
  if (p.exit_status) return fmt::format("exit status {}", *p.exit_status);
  return p.complete ? "still running when the recording ended" : "not recorded";
}

// "3.11.7 (libpython3.11.so.1.0)"; "" for a process without Python.
std::string PythonVersion(const Recording& recording, const Process& process) {
  std::string found;
  const ProcessInfo& info = process.info();
  const Time begin = info.indexed.begin, end = std::min(info.indexed.end, info.end);
  // At the end sys, which may be all that knows the patch level, is gone: halfway it is there.
  for (const Time t : {end, begin + (end.v - begin.v) / 2}) {
    absl::StatusOr<std::unique_ptr<Moment>> moment = process.At(t);
    if (!moment.ok()) continue;
    python::MomentMemory memory(moment->get());
    absl::StatusOr<std::vector<python::Runtime>> runtimes =
        python::FindRuntimes(&recording, process, memory, t);
    if (!runtimes.ok()) continue;
    std::string versions;
    bool exact = true;
    for (const python::Runtime& runtime : *runtimes) {
      exact = exact && std::count(runtime.version.begin(), runtime.version.end(), '.') >= 2;
      if (!versions.empty()) versions += ", ";
      versions +=
          fmt::format("{}{} ({})", runtime.version, runtime.free_threaded ? " free-threaded" : "",
                      BaseName(runtime.module));
    }
    if (!versions.empty()) found = versions;
    if (!runtimes->empty() && exact) break;
  }
  return found;
}

// The exception that the program failed by; null: none.
absl::StatusOr<Value> ExceptionOf(const Recording& recording, const Process& process) {
  const Context context(&recording, &process);
  ASSIGN_OR_RETURN(const PythonEnding ending, FindPythonEnding(context, nullptr));
  if (!ending.failure) return Value();
  Outcome outcome;
  return ValueOf(*ending.failure, context, &outcome);
}

Json OrNull(int64_t wall_ns) { return wall_ns == 0 ? Json() : Json(wall_ns); }

// A process as `ttq info -f json` has it.
Json EntryOf(const Process& process, const std::string& python, size_t modules, Json exception) {
  const ProcessInfo& p = process.info();
  const bool moment = HistoryUnknown(process);
  return {
      {"process", p.number.v},
      {"parent", p.parent.v == 0 ? Json() : Json(p.parent.v)},
      {"by_exec", p.by_exec},
      {"pid", p.pid},
      {"program", p.program},
      {"arguments", p.arguments},
      {"working_directory", p.working_directory},
      {"history_unknown", moment},
      {"instructions", moment ? Json() : Json(p.end.v)},
      {"indexed", p.is_indexed() ? Json()
                                 : Json{{"from", p.indexed.begin.v},
                                        {"to", std::min(p.indexed.end, p.end).v}}},
      {"crash", p.crash ? Json(p.crash->v) : Json()},
      {"signal", p.fatal_signal == 0 ? Json() : Json(SignalName(p.fatal_signal))},
      {"exit_status", p.exit_status ? Json(*p.exit_status) : Json()},
      {"start_wall_ns", OrNull(p.start_wall_ns)},
      {"end_wall_ns", OrNull(p.end_wall_ns)},
      {"writes", moment ? Json() : Json(p.writes)},
      {"reads", moment ? Json() : Json(p.reads)},
      {"threads", process.threads().size()},
      {"modules", modules},
      {"python", python.empty() ? Json() : Json(python)},
      {"exception", std::move(exception)},
      {"blocks", p.blocks},
      {"log_bytes", p.log_bytes},
      {"complete", p.complete},
      {"note", p.complete ? Json() : Json(p.incomplete_reason)},
  };
}

absl::Status Describe(const Recording& recording, bool json, bool may_ask_again, std::string* out) {
  const RecordingInfo& info = recording.info();
  Json document = {
      {"trace", info.path},
      {"name", info.name},
      {"store_version", info.store_version},
      {"recorder_version", info.recorder_version},
      {"command", info.command},
      {"working_directory", info.working_directory},
      {"host", info.host},
      {"start_wall_ns", OrNull(info.start_wall_ns)},
      {"finished", info.finished},
      {"bytes_on_disk", info.bytes_on_disk},
      {"indexed", "all"},
      {"default_process", recording.default_process().v},
      {"processes", Json::array()},
  };
  std::string& text = *out;
  const auto line = [&text](std::string_view name, std::string_view value) {
    text += fmt::format("{:<16}{}\n", name, Printable(value));
  };
  line("trace", info.path);
  line("command", absl::StrJoin(info.command, " "));
  if (!info.working_directory.empty()) line("directory", info.working_directory);
  bool imported = false;
  if (recording.default_process().v != 0) {
    ASSIGN_OR_RETURN(const Process* process, recording.Open(recording.default_process()));
    imported = HistoryUnknown(*process);
  }
  line(imported ? "imported" : "recorded",
       fmt::format("{}{}, by ttq {} (store version {})", HumanTime(info.start_wall_ns),
                   info.host.empty() ? "" : " on " + info.host, info.recorder_version,
                   info.store_version));
  if (!info.finished) {
    line("state", IsBeingWritten(info.path) ? "not finished: it is still being made"
                                            : "not finished: its recorder was killed or failed");
  }
  line("on disk", HumanBytes(info.bytes_on_disk));
  for (const ProcessInfo& p : recording.processes()) {
    ASSIGN_OR_RETURN(const Process* process, recording.Open(p.number));
    ASSIGN_OR_RETURN(std::vector<LoadedModule> modules, process->Modules());
    const bool knows_nothing = !p.is_indexed() && p.blocks == 0;
    const std::string python = knows_nothing ? "" : PythonVersion(recording, *process);
    const bool moment = HistoryUnknown(*process);
    text += '\n';
    line(fmt::format("process {}", p.number.v),
         fmt::format("{}{}", p.arguments.empty() ? p.program : absl::StrJoin(p.arguments, " "),
                     p.number == recording.default_process() ? "   (default)" : ""));
    line("  program", p.program);
    line("  pid", p.parent.v == 0
                      ? fmt::format("{}", p.pid)
                      : fmt::format("{}, {} process {}", p.pid,
                                    p.by_exec ? "by exec from" : "child of", p.parent.v));
    line("  ended", Ending(recording, p, moment));
    if (moment) {
      line("  history", fmt::format("unknown: what was before {} is not in it",
                                    MomentName(MomentInfoOf(*process).beginning)));
    }
    line(moment ? "  at" : "  started", HumanTime(p.start_wall_ns));
    if (!moment && p.start_wall_ns != 0 && p.end_wall_ns >= p.start_wall_ns) {
      line("  ran", fmt::format("{:.3f} s", (p.end_wall_ns - p.start_wall_ns) / 1e9));
    }
    if (!moment) {
      line("  instructions", fmt::format("{}", p.end.v));
      line("  writes", fmt::format("{}", p.writes));
      line("  reads", fmt::format("{}", p.reads));
    }
    line("  threads", fmt::format("{}", process->threads().size()));
    line("  modules", fmt::format("{}", modules.size()));
    if (!knows_nothing) line("  python", python.empty() ? "none" : python);
    if (!p.is_indexed()) {
      line("  indexed", p.blocks == 0 ? "nothing"
                                      : fmt::format("from {} to {}", p.indexed.begin.v,
                                                    std::min(p.indexed.end, p.end).v));
    }
    if (!moment) line("  log", fmt::format("{} in {} blocks", HumanBytes(p.log_bytes), p.blocks));
    if (!p.complete) line("  incomplete", p.incomplete_reason);
    Value exception;
    if (!python.empty() && (p.is_indexed() || may_ask_again)) {
      ASSIGN_OR_RETURN(exception, ExceptionOf(recording, *process));
    }
    std::string exception_json;
    AppendJson(exception, Type::kObject, &exception_json);
    if (exception.object() != nullptr) text += "\n" + ExceptionLayout(*exception.object());
    document["processes"].push_back(
        EntryOf(*process, python, modules.size(), Json::parse(exception_json)));
  }
  RETURN_IF_ERROR(recording.Damage());
  if (json) {
    text = document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  return absl::OkStatus();
}

// Of a recording whose history is not made.
int ShowInputs(const std::string& directory, bool json) {
  const absl::StatusOr<InputsSummary> inputs = SummariseInputs(directory);
  if (!inputs.ok()) return Complain(inputs.status(), kUnreadable);
  const RecordingInfo& info = inputs->info;
  if (json) {
    const Json document = {{"trace", directory},
                           {"command", info.command},
                           {"working_directory", info.working_directory},
                           {"start_wall_ns", info.start_wall_ns},
                           {"host", info.host},
                           {"recorder_version", info.recorder_version},
                           {"finished", info.finished},
                           {"running", inputs->being_recorded},
                           {"bytes_on_disk", inputs->bytes},
                           {"indexed", "none"},
                           {"inputs", inputs->processes}};
    WriteOut(document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    return kAnswered;
  }
  std::string text;
  const auto line = [&text](const char* name, const std::string& value) {
    text += fmt::format("{:<14}  {}\n", name, Printable(value));
  };
  line("trace", directory);
  line("command", absl::StrJoin(info.command, " "));
  line("directory", info.working_directory);
  line("recorded", fmt::format("{} on {}, by ttq {}", HumanTime(info.start_wall_ns), info.host,
                               info.recorder_version));
  line("inputs", fmt::format("of {} process{}, {}", inputs->processes,
                             inputs->processes == 1 ? "" : "es", HumanBytes(inputs->bytes)));
  line("history", inputs->being_recorded
                      ? "not made; the program is being recorded"
                      : "not made; the first question, or `ttq index`, makes it");
  WriteOut(text);
  return kAnswered;
}

}  // namespace

int RunInfo(int argc, char** argv) {
  CommandLine line("ttq info");
  TraceOption trace;
  std::string format = "table";
  AddTraceOption(line, &trace);
  line.Add("-f,--format", &format, "table or json").OneOf({"table", "json"}).Called("FORMAT");
  bool indexed = false, no_pager = false;
  line.AddFlag("--indexed", &indexed, "Only what is known already: no history is made for it");
  AddPagerOption(line, &no_pager);
  if (const std::optional<int> done = ParseArguments(line, Arguments(argc, argv))) return *done;
  const absl::StatusOr<std::string> directory = FindTrace(trace.name());
  if (!directory.ok()) return Complain(directory.status(), kUnreadable);
  if (indexed && HoldsInputsOnly(*directory)) return ShowInputs(*directory, format == "json");
  return AnswerFromLeast(
      indexed ? HistoryNeed::kNone : HistoryNeed::kLast, [&](HistoryNeed need) -> int {
        const absl::StatusOr<std::unique_ptr<Recording>> recording =
            OpenWithHistory(*directory, FileAccess::kRead, need);
        if (!recording.ok()) return Complain(recording.status(), kUnreadable);
        HeldOutput held(indexed ? nullptr : recording->get());
        std::string text;
        const absl::Status status = Describe(**recording, format == "json", !indexed, &text);
        if (!status.ok()) return held.End(Complain(status, kUnreadable));
        WritePaged(format == "json" ? text : WrappedForScreen(text), no_pager || format == "json");
        return held.End(kAnswered);
      });
}

}  // namespace ttq

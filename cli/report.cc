// SPDX-License-Identifier: MIT
//
// `ttq report`: the autopsy of a process as one page.

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/page.h"
#include "fmt/core.h"
#include "query/language/diagnostic.h"
#include "report/autopsy.h"

namespace ttq {
namespace {

constexpr std::string_view kRedactions = "env, strings, paths";

// False for a word that is none of kRedactions.
bool SetRedactions(const std::string& list, AutopsyOptions* options) {
  for (const std::string_view word : Split(list, ",", list.size() + 1)) {
    if (word == "strings") {
      options->redact_strings = true;
    } else if (word == "paths") {
      options->redact_paths = true;
    } else if (word != "env") {  // which is never there
      return false;
    }
  }
  return true;
}

}  // namespace

absl::Status WriteWhole(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".new";
  FILE* file = fopen(temporary.c_str(), "we");
  if (file == nullptr) {
    return absl::ErrnoToStatus(errno, "cannot write " + Printable(path));
  }
  const bool written = fwrite(text.data(), 1, text.size(), file) == text.size();
  const int why = errno;
  if (fclose(file) != 0 || !written || rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = written ? errno : why;
    remove(temporary.c_str());
    return absl::ErrnoToStatus(error, "cannot write " + Printable(path));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PageOf(const std::string& trace, const AutopsyOptions& options) {
  absl::StatusOr<std::unique_ptr<Recording>> recording = OpenWithHistory(trace, FileAccess::kMap);
  if (!recording.ok()) return recording.status();
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Open(recording->get(), std::nullopt);
  if (!engine.ok()) return engine.status();
  absl::StatusOr<std::string> json = AutopsyJson(**recording, **engine, options);
  if (!json.ok()) return json.status();
  return AutopsyHtml(*json);
}

bool WritePage(const std::string& trace, const std::string& path) {
  absl::StatusOr<std::string> page = PageOf(trace, {});
  const absl::Status status = page.ok() ? WriteWhole(path, *page) : page.status();
  if (!status.ok()) {
    Complain(status, kUnreadable);
    return false;
  }
  fprintf(stderr, "ttq: wrote %s\n", Printable(path).c_str());
  return true;
}

int RunReport(int argc, char** argv) {
  CommandLine line("ttq report");
  TraceOption trace;
  std::string process, output, format = "html", redact;
  AutopsyOptions options;
  AddTraceOption(line, &trace);
  line.Add("-p,--process", &process, "The process (default: the one that died by a signal)")
      .Called("N");
  line.Add("-o,--output", &output, "The file (default: NAME.html, - for stdout)").Called("FILE");
  line.Add("-f,--format", &format, "html or json").OneOf({"html", "json"}).Called("FORMAT");
  line.Add("--at", &options.at, "The state at that time instead of the crash").Called("TIME");
  line.Add("--redact", &redact, "Leave out: a list of env, strings, paths").Called("LIST");
  if (const std::optional<int> done = ParseArguments(line, Arguments(argc, argv))) return *done;
  if (!redact.empty() && !SetRedactions(redact, &options)) {
    return Complain(fmt::format("--redact takes a list of {}", kRedactions), kUsage);
  }
  Asked asked;
  if (const std::optional<int> failed = OpenAsked(trace.name(), process, &asked)) {
    return *failed;
  }
  ScanControl control;
  options.control = &control;
  InterruptGuard guard(&control);
  absl::StatusOr<std::string> text;
  {
    Progress progress(&control);
    text = AutopsyJson(*asked.recording, *asked.engine, options);
    progress.Stop();
  }
  if (absl::IsCancelled(text.status())) return Complain("interrupted", kInterrupted);
  if (absl::IsInvalidArgument(text.status()) || absl::IsNotFound(text.status()) ||
      absl::IsOutOfRange(text.status())) {
    return Complain(text.status(), kUsage);
  }
  if (!text.ok()) return Complain(text.status(), kUnreadable);
  if (format == "html") text = AutopsyHtml(*text);
  if (format == "json") *text += "\n";
  if (output == "-" || (format == "json" && output.empty())) {
    WriteOut(*text);
    return kAnswered;
  }
  if (output.empty()) output = asked.recording->info().name + ".html";
  if (absl::Status s = WriteWhole(output, *text); !s.ok()) return Complain(s, kUnreadable);
  fprintf(stderr, "ttq: wrote %s\n", Printable(output).c_str());
  return kAnswered;
}

}  // namespace ttq

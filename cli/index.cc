// SPDX-License-Identifier: MIT
//
// `ttq index`: makes the history of a recording that has its inputs only, or drops it.

#include <chrono>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "fmt/format.h"
#include "store/format/inputs_log.h"
#include "store/write/history.h"

namespace ttq {

int RunIndex(int argc, char** argv) {
  CLI::App app("Makes the history of a recording that has its inputs only.", "ttq index");
  std::string trace, option;
  bool drop = false;
  app.add_option("TRACE", trace, "A path or a name of `ttq ls` (default: the latest)");
  app.add_option("-t,--trace", option, "The same")->type_name("TRACE");
  app.add_flag("--drop", drop, "Take the history away, and leave the inputs");
  if (const std::optional<int> done = ParseArguments(app, Arguments(argc, argv))) return *done;
  const absl::StatusOr<std::string> directory = FindTrace(trace.empty() ? option : trace);
  if (!directory.ok()) return Complain(directory.status(), kUnreadable);
  if (drop) {
    const absl::Status dropped = DropHistory(*directory);
    return dropped.ok() ? int{kAnswered} : Complain(dropped, kUnreadable);
  }
  const bool is_there = !HoldsInputsOnly(*directory);
  const auto started = std::chrono::steady_clock::now();
  if (const absl::Status s = EnsureHistory(*directory); !s.ok()) return Complain(s, kUnreadable);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  WriteOut(is_there ? fmt::format("{} has its history\n", Printable(*directory))
                    : fmt::format("made the history of {} in {:.1f} s\n", Printable(*directory),
                                  took.count()));
  return kAnswered;
}

}  // namespace ttq

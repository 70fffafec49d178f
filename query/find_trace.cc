// SPDX-License-Identifier: MIT
//
// See find_trace.h.

#include "query/find_trace.h"

#include <sys/stat.h>

#include <cstdlib>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/core.h"
#include "store/format/inputs_log.h"
#include "store/write/history.h"

namespace ttq {
namespace {

bool IsDirectory(const std::string& path) {
  struct stat st;
  return stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

std::function<void(const IngestTotals*)> g_history_watch;

std::string Environment(const char* name) {
  const char* value = getenv(name);
  return value ? value : "";
}

}  // namespace

std::string HomeDirectory() {
  if (std::string home = Environment("TTQ_HOME"); !home.empty()) return home;
  if (const std::string data = Environment("XDG_DATA_HOME"); !data.empty()) return data + "/ttq";
  if (const std::string home = Environment("HOME"); !home.empty()) {
    return home + "/.local/share/ttq";
  }
  return "";
}

absl::StatusOr<std::string> FindTrace(const std::string& name) {
  std::string wanted = name.empty() ? Environment("TTQ_TRACE") : name;
  const std::string home = HomeDirectory();
  if (wanted.empty()) {
    const std::string latest = home + "/latest";
    // By its own name, so that an answer says which recording it is about.
    if (char* real = realpath(latest.c_str(), nullptr)) {
      std::string directory = real;
      free(real);
      if (IsDirectory(directory)) return directory;
    }
    return absl::NotFoundError(
        fmt::format("there is no recording in {}; make one with `ttq record PROGRAM`",
                    home.empty() ? "TTQ_HOME" : Printable(home)));
  }
  if (IsDirectory(wanted)) return wanted;
  struct stat st;
  if (stat(wanted.c_str(), &st) == 0) {
    return absl::FailedPreconditionError(
        fmt::format("{} is not a recording: it is not a directory", Printable(wanted)));
  }
  if (wanted.find('/') == std::string::npos && !home.empty()) {
    for (const char* suffix : {"", ".ttq"}) {
      if (IsDirectory(home + "/" + wanted + suffix)) return home + "/" + wanted + suffix;
    }
    return absl::NotFoundError(fmt::format("there is no recording {} here or in {}; see `ttq ls`",
                                           Printable(wanted), Printable(home)));
  }
  return absl::NotFoundError(fmt::format("there is no recording {}", Printable(wanted)));
}

void SetHistoryWatch(std::function<void(const IngestTotals*)> watch) {
  g_history_watch = std::move(watch);
}

absl::Status EnsureHistory(const std::string& directory, const HistoryWanted& wanted) {
  const absl::Status made = MakeHistory(directory, wanted, [](const IngestTotals& totals) {
    if (g_history_watch) g_history_watch(&totals);
  });
  if (g_history_watch) g_history_watch(nullptr);
  return made;
}

absl::Status EnsureHistory(const std::string& directory) { return EnsureHistory(directory, {}); }

absl::StatusOr<std::unique_ptr<Recording>> OpenWithHistory(const std::string& directory,
                                                           FileAccess files, HistoryNeed need) {
  const bool needs_any = HoldsInputsOnly(directory) || HistoryIsBehind(directory);
  if (needs_any && need != HistoryNeed::kNone) {
    const bool last = need == HistoryNeed::kLast || need == HistoryNeed::kCrash;
    RETURN_IF_ERROR(EnsureHistory(
        directory,
        {.last = last, .all_of_short = last, .all_of_crashed = need == HistoryNeed::kCrash}));
  } else if (need == HistoryNeed::kAll && HistoryIsPartial(directory)) {
    RETURN_IF_ERROR(EnsureHistory(directory));
  }
  return Recording::Open(directory, files);
}

absl::StatusOr<std::unique_ptr<Recording>> OpenRecording(const std::string& name, FileAccess files,
                                                         HistoryNeed need) {
  ASSIGN_OR_RETURN(std::string directory, FindTrace(name));
  return OpenWithHistory(directory, files, need);
}

}  // namespace ttq

// SPDX-License-Identifier: MIT

#include "cli/record_watch.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/directory.h"
#include "cli/common.h"
#include "fmt/core.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kDefaultFree = 1'000'000'000;

// Of the file system, for who is not root; nullopt: it does not say.
std::optional<uint64_t> FreeBytes(const std::string& directory) {
  struct statvfs st;
  if (statvfs(directory.c_str(), &st) != 0 || st.f_blocks == 0) return std::nullopt;
  return uint64_t{st.f_bavail} * st.f_frsize;
}

}  // namespace

uint64_t DefaultFreeSpace(const std::string& directory) {
  struct statvfs st;
  if (statvfs(directory.c_str(), &st) != 0) return 0;
  return std::min<uint64_t>(kDefaultFree, uint64_t{st.f_blocks} * st.f_frsize / 20);
}

RecordWatch::RecordWatch(const std::string& directory, const RecordLimits& limits, bool show)
    : directory_(directory),
      limits_(limits),
      free_bytes_(limits.free_bytes ? *limits.free_bytes : DefaultFreeSpace(directory)),
      show_(show) {}

std::optional<std::string> RecordWatch::Look(const IngestTotals& totals) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return std::nullopt;
  next_ = now + std::chrono::milliseconds(500);
  if (show_ || limits_.max_bytes) bytes_ = BytesUnder(directory_);
  if (!exceeded_) {
    if (std::optional<std::string> what = Exceeded()) {
      exceeded_ = true;
      line_.Erase();
      return what;
    }
  }
  if (show_ && now - started_ > std::chrono::seconds(1)) Show(totals);
  return std::nullopt;
}

std::optional<std::string> RecordWatch::Exceeded() const {
  if (limits_.max_bytes && bytes_ >= *limits_.max_bytes) {
    return fmt::format("the recording has reached {} (--max-size)", HumanBytes(*limits_.max_bytes));
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started_;
  if (limits_.max_seconds && elapsed.count() >= *limits_.max_seconds) {
    return fmt::format("{} s have passed (--max-time)", *limits_.max_seconds);
  }
  const std::optional<uint64_t> free = FreeBytes(directory_);
  if (free && *free < free_bytes_) {
    return fmt::format("less than {} are free on the disk of {} (--free-space)",
                       HumanBytes(free_bytes_), directory_);
  }
  return std::nullopt;
}

void RecordWatch::Show(const IngestTotals& totals) {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started_;
  // Nobody counts them where only inputs are recorded.
  const std::string instructions =
      totals.instructions == 0 ? "" : HumanCount(totals.instructions) + " instructions, ";
  line_.Show(fmt::format("ttq: {:.0f} s, {}{}, {} {}", elapsed.count(), instructions,
                         HumanBytes(bytes_), totals.processes.load(),
                         totals.processes == 1 ? "process" : "processes"));
}

}  // namespace ttq

// SPDX-License-Identifier: MIT

#include "mcp/subjects.h"

#include <cstdlib>

#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/find_trace.h"

namespace ttq::mcp {
namespace {

constexpr size_t kKept = 2;

std::string RealPath(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  std::string result = real == nullptr ? path : real;
  free(real);
  return result;
}

bool IsSame(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

}  // namespace

std::string CallName(const std::string& directory) {
  const std::string path = RealPath(directory), home = RealPath(HomeDirectory());
  if (home.empty() || !path.starts_with(home + "/")) return path;
  std::string name = path.substr(home.size() + 1);
  if (name.find('/') != std::string::npos) return path;
  if (name.ends_with(".ttq")) name.resize(name.size() - 4);
  return name;
}

std::string Subject::Title() const {
  const std::vector<ProcessInfo>& all = recording->processes();
  std::string title = fmt::format("{}, process {}", Printable(name), process().number.v);
  if (all.size() > 1) {
    title += fmt::format(" of {} ({})", all.size(), Printable(BaseName(process().program)));
  }
  return title;
}

absl::StatusOr<std::shared_ptr<const Subject>> Subjects::Open(const std::string& name,
                                                              std::optional<uint32_t> process) {
  ASSIGN_OR_RETURN(const std::string found, FindTrace(name));
  const std::string directory = RealPath(found);
  struct stat identity = {};
  const bool known = stat(directory.c_str(), &identity) == 0;
  const uint32_t wanted = process.value_or(0);
  for (auto it = kept_.begin(); known && it != kept_.end(); ++it) {
    if (it->directory != directory || it->process != wanted) continue;
    if (!IsSame(it->identity, identity)) {
      kept_.erase(it);
      break;
    }
    kept_.splice(kept_.begin(), kept_, it);
    return kept_.front().subject;
  }
  auto subject = std::make_shared<Subject>();
  subject->name = CallName(directory);
  // Files that somebody cuts short must not end the server.
  ASSIGN_OR_RETURN(subject->recording, OpenWithHistory(directory, FileAccess::kRead));
  std::optional<ProcessNo> number;
  if (process) number = ProcessNo(*process);
  ASSIGN_OR_RETURN(subject->engine, Engine::Open(subject->recording.get(), number));
  if (known && subject->recording->info().finished) {
    kept_.push_front({directory, wanted, identity, subject});
    if (kept_.size() > kKept) kept_.pop_back();
  }
  return subject;
}

}  // namespace ttq::mcp

// SPDX-License-Identifier: MIT

#include "cli/recordings.h"

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "query/find_trace.h"

namespace ttq {

namespace fs = std::filesystem;

absl::StatusOr<std::unique_ptr<RecordingWriter>> NewRecording(
    const std::string& asked, const std::vector<std::string>& command, std::string* directory) {
  if (!asked.empty()) {
    *directory = asked;
    auto made = RecordingWriter::Create(asked, command);
    if (absl::IsAlreadyExists(made.status())) {
      return absl::AlreadyExistsError(asked + " exists; choose another place with -o");
    }
    return made;
  }
  fs::path home = HomeDirectory();
  if (home.empty()) {
    return absl::FailedPreconditionError(
        "neither TTQ_HOME nor HOME is set; say with -o where the recording goes");
  }
  std::error_code ec;
  fs::create_directories(home, ec);
  if (ec) {
    return absl::UnavailableError(fmt::format("cannot make {}: {}", home.string(), ec.message()));
  }
  std::string base = fs::path(command[0]).filename();
  for (int n = 1; n < 1000000; ++n) {
    *directory = home / fmt::format("{}-{}.ttq", base, n);
    // Somebody else may be taking the same number.
    auto made = RecordingWriter::Create(*directory, command);
    if (!absl::IsAlreadyExists(made.status())) return made;
  }
  return absl::ResourceExhaustedError("too many recordings of " + base + " in " + home.string());
}

void PointLatestAt(const std::string& directory) {
  std::error_code ec;
  fs::path home = HomeDirectory();
  if (home.empty()) return;
  fs::create_directories(home, ec);
  fs::path temporary = home / fmt::format(".latest-{}", getpid());
  fs::remove(temporary, ec);
  fs::create_symlink(fs::absolute(directory, ec), temporary, ec);
  fs::rename(temporary, home / "latest", ec);
}

}  // namespace ttq

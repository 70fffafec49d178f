// SPDX-License-Identifier: MIT

#include "cli/recordings.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/status/statusor.h"
#include "fmt/core.h"
#include "query/find_trace.h"

namespace ttq {

namespace fs = std::filesystem;

absl::Status MakeInFreePlace(const std::string& asked, const std::vector<std::string>& command,
                             const std::function<absl::Status(const std::string&)>& make,
                             std::string* directory) {
  if (!asked.empty()) {
    *directory = asked;
    const absl::Status made = make(asked);
    if (!absl::IsAlreadyExists(made)) return made;
    return absl::AlreadyExistsError(asked + " exists; choose another place with -o");
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
    const absl::Status made = make(*directory);
    if (!absl::IsAlreadyExists(made)) return made;
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

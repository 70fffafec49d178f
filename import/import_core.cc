// SPDX-License-Identifier: MIT

#include "import/import_core.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "fmt/core.h"
#include "import/unpack.h"

extern char** environ;

namespace ttq {
namespace {

bool IsNumber(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return c >= '0' && c <= '9'; });
}

// A file that is gone when this is.
class TemporaryFile {
 public:
  TemporaryFile() {
    const char* named = getenv("TMPDIR");
    path_ = std::string(named != nullptr && *named != 0 ? named : "/var/tmp") + "/ttq-core-XXXXXX";
    const int fd = mkstemp(path_.data());
    if (fd < 0) {
      path_.clear();
    } else {
      close(fd);
    }
  }
  ~TemporaryFile() {
    if (!path_.empty()) unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Has coredumpctl write the dump of a process that systemd keeps.
absl::Status AskCoredumpctl(const std::string& id, const std::string& path) {
  const std::string output = "--output=" + path;
  std::vector<std::string> words = {"coredumpctl", "--quiet", output, "dump", id};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, "coredumpctl", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    return absl::NotFoundError(fmt::format(
        "{}: there is no such file, and no coredumpctl to ask for a core dump of that number", id));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  struct stat st;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || stat(path.c_str(), &st) != 0 ||
      st.st_size == 0) {
    return absl::NotFoundError(fmt::format("coredumpctl has no core dump of {}", id));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CoreFile>> OpenCore(const std::string& name,
                                                   const FileSearch& search) {
  std::optional<TemporaryFile> dumped;
  std::string path = name;
  struct stat st;
  if (IsNumber(name) && stat(name.c_str(), &st) != 0) {
    dumped.emplace();
    if (dumped->path().empty()) {
      return absl::UnavailableError(fmt::format("no room for a core dump: {}", strerror(errno)));
    }
    RETURN_IF_ERROR(AskCoredumpctl(name, dumped->path()));
    path = dumped->path();
  }
  std::string packing;
  ASSIGN_OR_RETURN(FileImage image, ReadPacked(path, &packing));
  ASSIGN_OR_RETURN(std::unique_ptr<CoreFile> core,
                   CoreFile::Parse(std::move(image), name, packing));
  if (stat(path.c_str(), &st) == 0) {
    core->moment().wall_ns = st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec;
  }
  FindFiles(search, *core, &core->moment());
  return core;
}

}  // namespace ttq

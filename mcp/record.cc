// SPDX-License-Identifier: MIT

#include "mcp/record.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/number_text.h"
#include "base/text.h"
#include "fmt/core.h"
#include "mcp/subjects.h"
#include "mcp/text.h"

extern char** environ;

namespace ttq::mcp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kKeptOutput = 2000;
// How long `ttq record` has to end a program and to store what it did.
constexpr std::chrono::seconds kToEnd(30), kToStore(10);

// The beginning and the end of what came through a pipe.
class Output {
 public:
  void Add(std::string_view piece) {
    bytes_ += piece.size();
    const size_t room = kKeptOutput - std::min(kKeptOutput, begin_.size());
    begin_ += piece.substr(0, room);
    end_ += piece.substr(std::min(room, piece.size()));
    if (end_.size() > 2 * kKeptOutput) end_.erase(0, end_.size() - kKeptOutput);
  }
  std::string Text(const char* name) const {
    if (bytes_ == 0) return "";
    std::string text = fmt::format("{} ({} bytes): ", name, bytes_);
    std::string end = end_.size() > kKeptOutput ? end_.substr(end_.size() - kKeptOutput) : end_;
    const bool gap = begin_.size() + end.size() < bytes_;
    if (!gap) return text + Quoted(begin_ + end, 2 * kKeptOutput) + "\n";
    return text + Quoted(begin_, kKeptOutput) + " … " + Quoted(end, kKeptOutput) + "\n";
  }
  // The last line that begins so; "" when there is none among what was kept.
  std::string LastLine(std::string_view beginning) const {
    const std::string text = "\n" + begin_ + end_;
    const size_t at = text.rfind(Cat("\n", beginning));
    if (at == std::string::npos) return "";
    return text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  }

 private:
  std::string begin_, end_;
  uint64_t bytes_ = 0;
};

struct Child {
  pid_t pid = -1;
  int out = -1, err = -1;
};

std::optional<Child> Start(const std::vector<std::string>& words, const std::string& directory) {
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0) return std::nullopt;
  if (pipe2(err, O_CLOEXEC) != 0) {
    close(out[0]);
    close(out[1]);
    return std::nullopt;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  if (!directory.empty()) posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  // A group of its own, to be ended as a whole.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  Child child{.out = out[0], .err = err[0]};
  const int error = posix_spawn(&child.pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  close(err[1]);
  if (error == 0) return child;
  close(out[0]);
  close(err[0]);
  errno = error;
  return std::nullopt;
}

// Takes what is there now; false at the end.
bool Drain(int fd, Output* output) {
  char buffer[1 << 14];
  const ssize_t n = read(fd, buffer, sizeof buffer);
  if (n > 0) output->Add(std::string_view(buffer, static_cast<size_t>(n)));
  return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

// Reads until the child has ended; gives its status. What it left running may hold the pipes open.
int Follow(const Child& child, Clock::time_point end, Call* call, Output* out, Output* err) {
  bool out_open = true, err_open = true;
  bool asked = false;
  int status = 0;
  Clock::time_point kill_at = end;
  while (true) {
    struct pollfd fds[2] = {{out_open ? child.out : -1, POLLIN, 0},
                            {err_open ? child.err : -1, POLLIN, 0}};
    poll(fds, 2, 100);
    if (fds[0].revents != 0) out_open = Drain(child.out, out);
    if (fds[1].revents != 0) err_open = Drain(child.err, err);
    const pid_t done = waitpid(child.pid, &status, WNOHANG);
    if (done == child.pid || (done < 0 && errno != EINTR)) break;
    if (!asked && (call->cancelled() || Clock::now() > end)) {
      kill(-child.pid, SIGTERM);
      asked = true;
      kill_at = Clock::now() + kToStore;
    } else if (asked && Clock::now() > kill_at) {
      kill(-child.pid, SIGKILL);
    }
  }
  for (const auto& [fd, output] : {std::pair(child.out, out), std::pair(child.err, err)}) {
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (int i = 0; i < 1000; ++i) {
      struct pollfd one = {fd, POLLIN, 0};
      if (poll(&one, 1, 0) <= 0 || !Drain(fd, output)) break;
    }
    close(fd);
  }
  return status;
}

}  // namespace

ToolResult RecordProgram(const RecordOptions& options, Call* call) {
  std::vector<std::string> words = {options.program, "record", "--max-time",
                                    fmt::format("{}s", RealText(options.timeout_s, false))};
  if (!options.max_size.empty()) {
    words.insert(words.end(), {"--max-size", options.max_size});
  }
  words.emplace_back("--");
  words.insert(words.end(), options.argv.begin(), options.argv.end());
  const std::optional<Child> child = Start(words, options.directory);
  if (!child) return Fault(fmt::format("cannot run ttq record: {}\n", strerror(errno)));
  Output out, err;
  const auto timeout =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.timeout_s));
  const int status = Follow(*child, Clock::now() + timeout + kToEnd, call, &out, &err);
  if (call->cancelled()) return Fault("cancelled");
  // "ttq: recorded … : PATH" is what it says in the end.
  const std::string summary = err.LastLine("ttq: recorded ");
  const size_t path = summary.rfind(": /");
  ToolResult result;
  if (path != std::string::npos) {
    result.text = fmt::format("recording: {}\n", Quoted(CallName(summary.substr(path + 2))));
  } else {
    result.is_error = true;
    result.text = "no recording was made\n";
  }
  result.text += WIFEXITED(status) ? fmt::format("exit status: {}\n", WEXITSTATUS(status))
                                   : fmt::format("killed by signal {}\n", WTERMSIG(status));
  result.text += out.Text("stdout") + err.Text("stderr");
  return result;
}

}  // namespace ttq::mcp

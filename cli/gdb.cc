// SPDX-License-Identifier: MIT
//
// `ttq gdb`: starts gdb on a recording, or serves it to a debugger that somebody else starts.

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "fmt/core.h"
#include "gdb/script.h"
#include "gdb/server.h"
#include "store/read/moment_info.h"

namespace ttq {
namespace {

// A directory of ours with the script in it, and the socket while gdb runs; removed in the end.
class Scratch {
 public:
  Scratch() {
    const char* base = getenv("TMPDIR");
    path_ = fmt::format("{}/ttq-gdb-XXXXXX", base != nullptr && *base != '\0' ? base : "/tmp");
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~Scratch() {
    if (path_.empty()) return;
    unlink(Script().c_str());
    rmdir(path_.c_str());
  }
  Scratch(const Scratch&) = delete;

  const std::string& path() const { return path_; }
  std::string Script() const { return path_ + "/script.gdb"; }
  std::string Socket() const { return path_ + "/socket"; }
  bool WriteScript() const {
    FILE* file = fopen(Script().c_str(), "we");
    if (file == nullptr) return false;
    const bool written = fputs(gdb::kGdbScript, file) >= 0;
    return fclose(file) == 0 && written;
  }

 private:
  std::string path_;
};

// Gives gdb's status.
int RunGdb(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  // Ctrl-C is gdb's.
  signal(SIGINT, SIG_IGN);
  int failed[2];
  if (pipe2(failed, O_CLOEXEC) != 0) return Complain(strerror(errno), kUnreadable);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGINT, SIG_DFL);
    execvp(arguments[0], arguments.data());
    const int error = errno;
    (void)!write(failed[1], &error, sizeof(error));
    _exit(127);
  }
  close(failed[1]);
  int error = 0;
  const bool ran = child > 0 && read(failed[0], &error, sizeof(error)) != sizeof(error);
  close(failed[0]);
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ran) {
    return Complain(
        fmt::format("cannot run {}: {}", words[0],
                    error == ENOENT ? "it is not installed (apt install gdb)" : strerror(error)),
        kUsage);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int StartGdb(const Asked& asked, const std::string& program,
             const std::vector<std::string>& gdb_arguments) {
  const Scratch scratch;
  if (scratch.path().empty() || !scratch.WriteScript()) {
    return Complain(fmt::format("cannot write to a temporary folder: {}", strerror(errno)),
                    kUnreadable);
  }
  absl::StatusOr<std::unique_ptr<gdb::Listener>> listener = gdb::Listener::OnPath(scratch.Socket());
  if (!listener.ok()) return Complain(listener.status(), kUnreadable);
  const int stop = eventfd(0, EFD_CLOEXEC);
  std::thread server([&] {
    (void)gdb::Serve(**listener, stop, asked.recording.get(), asked.engine.get(),
                     [](std::string_view) {});
  });
  std::vector<std::string> words = {program,          "-q",  "-x",
                                    scratch.Script(), "-ex", "target remote " + scratch.Socket()};
  words.insert(words.end(), gdb_arguments.begin(), gdb_arguments.end());
  const int status = RunGdb(std::move(words));
  const uint64_t one = 1;
  (void)!write(stop, &one, sizeof(one));
  server.join();
  close(stop);
  return status;
}

int ServeOnPort(const Asked& asked, uint16_t port) {
  absl::StatusOr<std::unique_ptr<gdb::Listener>> listener = gdb::Listener::OnPort(port);
  if (!listener.ok()) return Complain(listener.status(), kUsage);
  fmt::print(stderr, "ttq: serving {} until Ctrl-C; in gdb: target remote 127.0.0.1:{}\n",
             Printable(asked.recording->info().name), (*listener)->port());
  // Ctrl-C ends the process: nothing is to be saved.
  const absl::Status status =
      gdb::Serve(**listener, eventfd(0, EFD_CLOEXEC), asked.recording.get(), asked.engine.get(),
                 [](std::string_view line) { fmt::print(stderr, "ttq: {}\n", line); });
  return status.ok() ? kAnswered : Complain(status, kUnreadable);
}

}  // namespace

int RunGdbCommand(int argc, char** argv) {
  // What follows `--` is gdb's.
  char** const end = argv + argc;
  char** const dashes =
      std::find_if(argv, end, [](const char* word) { return std::string_view(word) == "--"; });
  const std::vector<std::string> gdb_arguments(std::min(dashes + 1, end), end);
  CommandLine line("ttq gdb");
  TraceOption trace;
  std::string process, program = "gdb";
  std::optional<uint16_t> port;
  AddTraceOption(line, &trace);
  line.Add("-p,--process", &process, "The process (default: the one that died by a signal)")
      .Called("N");
  line.Add("--port", &port,
           "Serve on this port of 127.0.0.1 instead of starting gdb; 0: any that is free")
      .Called("PORT");
  line.Add("--gdb", &program, "The gdb to start (default: gdb)").Called("PROGRAM");
  if (const std::optional<int> done =
          ParseArguments(line, Arguments(static_cast<int>(dashes - argv), argv))) {
    return *done;
  }
  if (port && !gdb_arguments.empty()) {
    return Complain("with --port no gdb is started: nothing may follow --", kUsage);
  }
  Asked asked;
  if (const std::optional<int> failed = OpenAsked(trace.name(), process, &asked)) {
    return *failed;
  }
  const ProcessInfo& info = asked.engine->process().info();
  if (info.blocks == 0) {
    return Complain("nothing was recorded of this process (yet)", kUnreadable);
  }
  if (!info.complete) {
    fmt::print(stderr, "ttq: the recording is incomplete: {}\n", Printable(info.incomplete_reason));
  } else if (!asked.recording->info().finished) {
    fmt::print(stderr, "ttq: the recording is still being made: it ends at {}\n", info.end.v);
  }
  if (const MomentInfo& moment = MomentInfoOf(asked.engine->process()); moment.history_unknown()) {
    fmt::print(stderr, "ttq: what happened before {} is unknown: gdb can go neither back nor on\n",
               MomentName(moment.beginning));
  }
  // A client that hangs up is no reason to die.
  signal(SIGPIPE, SIG_IGN);
  return port ? ServeOnPort(asked, *port) : StartGdb(asked, program, gdb_arguments);
}

}  // namespace ttq

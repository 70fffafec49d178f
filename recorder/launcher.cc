// SPDX-License-Identifier: MIT
//
// The rings live in a directory of their own, 0700, in /dev/shm where there is one: a ring is
// memory, not a file. The tool renames a ring into place when it is ready, and rings the bell, a
// FIFO beside it. (To close an inotify descriptor would take 15 ms.) We hold a lock on the
// directory: the tool, and whoever runs ttq next, know by it whether we are alive.

#include "recorder/launcher.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <new>
#include <set>
#include <sstream>

#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "recorder/inputs.h"

extern char** environ;

namespace ttq {
namespace {

namespace fs = std::filesystem;

constexpr int kLookEveryMs = 100;  // for rings, were the bell to fail
constexpr unsigned long kAskPersonality = 0xffffffff;
constexpr char kToolName[] = "ttq-amd64-linux", kEngineName[] = "ttq-engine";
// /usr/bin/valgrind is a script that changes the environment on the way to this.
constexpr char kValgrind[] = "/usr/bin/valgrind.bin";

// The lock that tells programs that they are recorded: see RingDirectory.
int g_ring_directory = -1;

class RingDirectory {
 public:
  // `bytes`: what there must be room for.
  static absl::StatusOr<std::unique_ptr<RingDirectory>> Make(uint64_t bytes) {
    std::string why;
    std::vector<std::string> bases = {"/dev/shm", "/tmp"};
    // The program may change its working directory.
    if (const char* tmp = getenv("TMPDIR"); tmp != nullptr && tmp[0] == '/') {
      bases.insert(bases.begin() + 1, tmp);
    }
    for (const std::string& base : bases) {
      auto made = MakeIn(base, bytes);
      if (made.ok()) return made;
      why += (why.empty() ? "" : ", ") + std::string(made.status().message());
    }
    return absl::UnavailableError("no place for the rings: " + why);
  }
  ~RingDirectory() {
    g_ring_directory = -1;
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    if (bell_ >= 0) close(bell_);
    close(fd_);
  }
  const std::string& path() const { return path_; }
  // A descriptor that can be read when there are rings that have been announced.
  int bell() const { return bell_; }
  // For the tool the recorder is gone from now on.
  void Unlock() { flock(fd_, LOCK_UN); }

 private:
  RingDirectory(std::string path, int fd) : path_(std::move(path)), fd_(fd) {
    g_ring_directory = fd;
  }

  static absl::StatusOr<std::unique_ptr<RingDirectory>> MakeIn(const std::string& base,
                                                               uint64_t bytes) {
    TakeAwayOrphans(base);
    struct statvfs room;
    if (statvfs(base.c_str(), &room) != 0) return absl::ErrnoToStatus(errno, base);
    if (room.f_bavail * room.f_frsize < bytes) {
      return absl::ResourceExhaustedError(
          fmt::format("{}: less than {} MB free", base, (bytes + 999'999) / 1'000'000));
    }
    for (int i = 0;; ++i) {
      // It has its name when it is locked. The tool reads the recorder's number off the end.
      std::string name =
          fmt::format("ttq-{:08x}-{}", static_cast<uint32_t>(random() ^ (i << 16)), getpid());
      std::string path = base + "/" + name, unlocked = base + "/." + name;
      if (mkdir(unlocked.c_str(), 0700) != 0) {
        if (errno == EEXIST && i < 100) continue;
        return absl::ErrnoToStatus(errno, base);
      }
      int fd = open(unlocked.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
          renameat2(AT_FDCWD, unlocked.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0) {
        std::unique_ptr<RingDirectory> made(new RingDirectory(path, fd));
        RETURN_IF_ERROR(made->HangBell());
        return made;
      }
      int error = errno;
      if (fd >= 0) close(fd);
      rmdir(unlocked.c_str());
      if (error != EEXIST || i >= 100) return absl::ErrnoToStatus(error, base);
    }
  }

  // Directories of recorders that were killed. Nobody else's are ours to take away.
  static void TakeAwayOrphans(const std::string& base) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(base, ignored)) {
      const std::string name = entry.path().filename();
      unsigned number = 0;
      int pid = 0, used = 0;
      if (sscanf(name.c_str(), "ttq-%8x-%d%n", &number, &pid, &used) != 2 ||
          used != static_cast<int>(name.size()) || kill(pid, 0) == 0 || errno != ESRCH) {
        continue;
      }
      int fd = open(entry.path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      if (fd < 0) continue;
      struct stat st;
      if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 0777) == 0700 &&
          flock(fd, LOCK_EX | LOCK_NB) == 0) {
        fs::remove_all(entry.path(), ignored);
      }
      close(fd);
    }
  }

  absl::Status HangBell() {
    const std::string bell = path_ + "/" TTQ_BELL;
    if (mkfifo(bell.c_str(), 0600) != 0) return absl::ErrnoToStatus(errno, bell);
    bell_ = open(bell.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    return bell_ < 0 ? absl::ErrnoToStatus(errno, bell) : absl::OkStatus();
  }

  std::string path_;
  int fd_, bell_ = -1;
};

std::string ReadLogs(const std::string& directory) {
  std::string out;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    if (entry.path().filename().string().rfind("log.", 0) != 0) continue;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      // Advice to those who extend Valgrind: "--4711-- WARNING: unhandled syscall", "==4711== …".
      if (!line.starts_with("--") && !line.starts_with("==")) out += line + "\n";
    }
  }
  // Valgrind puts its name before what the tool says.
  return absl::StrReplaceAll(out, {{"valgrind: ttq: ", "ttq: "}});
}

// While it lives, terminal signals go to the program only; SIGTERM and SIGHUP are passed on.
pid_t g_child = 0;
// The second Ctrl-C within this time is meant for us: a program may take one now and then.
constexpr int64_t kTwiceWithinNs = 2'000'000'000;
std::atomic<int64_t> g_interrupted_at{0};  // CLOCK_MONOTONIC; 0: never
std::atomic<bool> g_interrupted_twice{false};
void NoteInterrupt(int) {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  const int64_t now = t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec;
  const int64_t before = g_interrupted_at.exchange(now);
  if (before != 0 && now - before <= kTwiceWithinNs) g_interrupted_twice = true;
}
void PassOn(int number) {
  if (g_child > 0) kill(g_child, number);
}

class SignalRules {
 public:
  SignalRules() {
    g_interrupted_at = 0;
    g_interrupted_twice = false;
    Set(SIGINT, NoteInterrupt);
    Set(SIGQUIT, SIG_IGN);
    Set(SIGTERM, PassOn);
    Set(SIGHUP, PassOn);
    Set(SIGPIPE, SIG_IGN);  // nobody to read a message is no reason to lose a recording
  }
  ~SignalRules() {
    g_child = 0;
    for (auto& [number, old] : old_) sigaction(number, &old, nullptr);
  }
  // What the program is to inherit: what we were given.
  void RestoreInChild() const {
    for (const auto& [number, old] : old_) sigaction(number, &old, nullptr);
  }

 private:
  void Set(int number, void (*handler)(int)) {
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, &old_[number]);
  }
  std::map<int, struct sigaction> old_;
};

// While it lives we may open as many files as we are ever allowed: each process that is recorded
// needs one.
class DescriptorLimit {
 public:
  DescriptorLimit() {
    if (getrlimit(RLIMIT_NOFILE, &old_) != 0) return;
    const rlimit most = {old_.rlim_max, old_.rlim_max};
    raised_ = setrlimit(RLIMIT_NOFILE, &most) == 0;
  }
  ~DescriptorLimit() { Restore(); }
  // Also for the child, which is to inherit what we were given.
  void Restore() const {
    if (raised_) setrlimit(RLIMIT_NOFILE, &old_);
  }

 private:
  rlimit old_;
  bool raised_ = false;
};

// Whether a file is a program for another processor: of 32 bits, or not of x86. Scripts are not.
bool IsForeign(const std::string& path) {
  char head[20];
  std::ifstream in(path, std::ios::binary);
  return in.read(head, sizeof(head)) && memcmp(head, ELFMAG, SELFMAG) == 0 &&
         (head[EI_CLASS] != ELFCLASS64 || head[18] != EM_X86_64);
}

// Why the kernel could not run a script; empty when it could, or when this is none.
std::string BadInterpreter(const std::string& path) {
  std::string line(256, '\0');
  std::ifstream(path, std::ios::binary).read(line.data(), static_cast<long>(line.size()));
  if (line.rfind("#!", 0) != 0) return "";
  constexpr std::string_view kEnd(" \t\n\0", 4);
  size_t begin = std::min(line.find_first_not_of(" \t", 2), line.size());
  std::string interpreter = line.substr(begin, line.find_first_of(kEnd, begin) - begin);
  if (access(interpreter.c_str(), X_OK) == 0) return "";
  return fmt::format("{}: its interpreter {}: {}", path, interpreter, strerror(errno));
}

// Valgrind's launcher: a wheel brings its own beside the tool.
std::string ValgrindProgram(const LaunchOptions& options) {
  const std::string beside = options.tool_directory + "/valgrind.bin";
  return access(beside.c_str(), X_OK) == 0 ? beside : kValgrind;
}

// The command line that runs the program under Valgrind, with its rings in a directory.
std::vector<std::string> ValgrindWords(const LaunchOptions& options, const std::string& rings) {
  std::vector<std::string> words = {ValgrindProgram(options),
                                    "--tool=ttq",
                                    "-q",
                                    "--vgdb=no",
                                    "--trace-children=yes",
                                    "--run-libc-freeres=no",
                                    "--run-cxx-freeres=no",
                                    "--default-suppressions=no",
                                    "--sigill-diagnostics=no",
                                    "--show-emwarns=no",
                                    "--log-file=" + rings + "/log.%p",
                                    "--ring=" + rings,
                                    fmt::format("--block-bytes={}", options.block_bytes),
                                    fmt::format("--block-count={}", options.block_count),
                                    options.verify ? "--verify=yes" : "--verify=no"};
  words.insert(words.end(), options.command.begin(), options.command.end());
  return words;
}

// … and under the native engine.
absl::StatusOr<std::vector<std::string>> EngineWords(const LaunchOptions& options,
                                                     const std::string& rings) {
  std::vector<std::string> words = {options.tool_directory + "/" + kEngineName,
                                    "--ring=" + rings,
                                    fmt::format("--block-bytes={}", options.block_bytes),
                                    fmt::format("--block-count={}", options.block_count),
                                    options.verify ? "--verify=yes" : "--verify=no",
                                    options.records_inputs ? "--record=inputs" : "--record=all"};
  if (!options.code_cache.empty()) words.push_back("--code-cache=" + options.code_cache);
  if (!options.inputs.empty()) {
    if (!options.files.empty()) words.push_back("--files=" + options.files);
    words.push_back("--inputs=" + options.inputs);
    return words;
  }
  ASSIGN_OR_RETURN(const std::string program, FindProgram(options.command[0]));
  words.insert(words.end(), {"--", program});
  words.insert(words.end(), options.command.begin(), options.command.end());
  return words;
}

// Runs the program under its recorder, and returns its process number.
absl::StatusOr<pid_t> Start(const LaunchOptions& options, const std::string& ring_directory,
                            const SignalRules& rules, const DescriptorLimit& descriptors) {
  std::vector<std::string> words;
  if (options.recorder == RecorderKind::kNative) {
    ASSIGN_OR_RETURN(words, EngineWords(options, ring_directory));
  } else {
    words = ValgrindWords(options, ring_directory);
  }
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  std::vector<std::string> env;
  for (char** e = environ; *e != nullptr; ++e) {
    if (strncmp(*e, "VALGRIND_LIB=", 13) != 0) env.emplace_back(*e);
  }
  if (options.recorder == RecorderKind::kValgrind) {
    env.push_back("VALGRIND_LIB=" + options.tool_directory);
  }
  std::vector<char*> envp;
  envp.reserve(env.size() + 1);
  for (std::string& e : env) envp.push_back(e.data());
  envp.push_back(nullptr);

  // It has our memory, of which a copy would take milliseconds, until it is another program. No
  // handler of ours is to run in both.
  sigset_t all, mask;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &mask);
  const pid_t child = vfork();
  if (child == 0) {
    rules.RestoreInChild();
    pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    descriptors.Restore();
    // Memory lies in the same places in every run: two recordings can be asked about one address.
    const int persona = personality(kAskPersonality);
    if (persona >= 0) personality(static_cast<unsigned>(persona) | ADDR_NO_RANDOMIZE);
    execve(argv[0], argv.data(), envp.data());
    _exit(126);
  }
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  if (child < 0) return absl::ErrnoToStatus(error, "vfork");
  return child;
}

// Finds the rings of recorded processes as they appear in the launch's directory.
class RingFinder {
 public:
  // `directory` and `on_ring` outlive it.
  RingFinder(RingDirectory* directory, const OnRing& on_ring)
      : directory_(directory), on_ring_(on_ring) {}

  // Hands on those that are new. Where that fails too often it gives up, and says so.
  void Look();
  // The last look failed, and the next one may not.
  bool is_waiting() const { return tries_ > 0 && !gave_up_; }

 private:
  // Descriptors and memory may be there again when some process has ended: for how long to wait.
  static constexpr int kMaxTries = 10;

  absl::Status Take();

  RingDirectory* directory_;
  const OnRing& on_ring_;
  std::map<uint32_t, std::weak_ptr<Ring>> by_pid_;  // the newest of each
  std::set<std::string> seen_;
  std::vector<std::shared_ptr<Ring>> found_;  // and not handed on yet
  int tries_ = 0;
  bool gave_up_ = false;
};

absl::Status RingFinder::Take() {
  char rung[4096];
  while (read(directory_->bell(), rung, sizeof(rung)) > 0) {
  }
  absl::Status trouble;
  std::error_code error;
  for (auto it = fs::directory_iterator(directory_->path(), error);
       !error && it != fs::directory_iterator(); it.increment(error)) {
    std::string name = it->path().filename();
    if (name.rfind("r-", 0) != 0 || seen_.contains(name)) continue;
    auto ring = Ring::Open(it->path());
    if (!ring.ok()) {
      trouble = ring.status();
      continue;
    }
    seen_.insert(name);
    unlink(it->path().c_str());
    found_.push_back(std::move(*ring));
  }
  if (error) {
    trouble = absl::UnavailableError(fmt::format("{}: {}", directory_->path(), error.message()));
  }
  if (!trouble.ok()) return trouble;  // the ring of one that is waiting may be another's parent
  // A child may have been forked and have exec'ed since we last looked.
  std::sort(found_.begin(), found_.end(),
            [](const auto& a, const auto& b) { return a->start_wall_ns() < b->start_wall_ns(); });
  for (std::shared_ptr<Ring>& ring : found_) {
    auto& slot = by_pid_[ring->filler_pid()];
    if (auto before = slot.lock()) before->Supersede();
    slot = ring;
    on_ring_(ring);
  }
  found_.clear();
  return absl::OkStatus();
}

void RingFinder::Look() {
  if (gave_up_) return;
  absl::Status trouble;
  try {
    trouble = Take();
  } catch (const std::bad_alloc&) {
    trouble = absl::UnavailableError("out of memory");
    tries_ = kMaxTries;  // what was found is lost
  }
  tries_ = trouble.ok() ? 0 : tries_ + 1;
  if (tries_ < kMaxTries) return;
  gave_up_ = true;
  directory_->Unlock();
  on_ring_(trouble);
}

}  // namespace

absl::StatusOr<std::string> FindToolDirectory() {
  std::error_code ec;
  fs::path self = fs::read_symlink("/proc/self/exe", ec);
  std::vector<fs::path> places;
  if (const char* set = getenv("TTQ_TOOL_DIR")) places.emplace_back(set);
  places.push_back(self.parent_path() / "libexec/ttq");                // build tree
  places.push_back(self.parent_path().parent_path() / "libexec/ttq");  // installed: ../libexec/ttq
  // Of libttq.so, in somebody else's program.
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&FindToolDirectory), &info) != 0) {
    const fs::path library = fs::weakly_canonical(info.dli_fname, ec);
    places.push_back(library.parent_path() / "libexec/ttq");
    places.push_back(library.parent_path().parent_path() / "libexec/ttq");
  }
  std::string looked;
  for (const fs::path& place : places) {
    if (fs::exists(place / kToolName, ec)) return place.string();
    looked += (looked.empty() ? "" : ", ") + place.string();
  }
  return absl::NotFoundError(fmt::format("the recorder tool {} is not in {}", kToolName, looked));
}

absl::StatusOr<std::string> FindProgram(const std::string& name) {
  auto check = [](const std::string& path) -> absl::Status {
    struct stat st;
    if (stat(path.c_str(), &st) != 0) return absl::ErrnoToStatus(errno, path);
    if (!S_ISREG(st.st_mode)) return absl::PermissionDeniedError(path + ": not a program");
    if (access(path.c_str(), X_OK) != 0) {
      return absl::PermissionDeniedError(path + ": no permission to run it");
    }
    if ((st.st_mode & S_ISUID && st.st_uid != geteuid()) ||
        (st.st_mode & S_ISGID && st.st_gid != getegid())) {
      return absl::FailedPreconditionError(
          path + ": a set-user-id program cannot be recorded; run ttq as its owner");
    }
    if (IsForeign(path)) {
      return absl::FailedPreconditionError(
          path + ": a 32-bit or foreign program; only those for x86-64 can be recorded");
    }
    if (std::string why = BadInterpreter(path); !why.empty()) {
      return absl::PermissionDeniedError(why);
    }
    return absl::OkStatus();
  };
  if (name.empty()) return absl::NotFoundError("'': not found");
  if (name.find('/') != std::string::npos) {
    RETURN_IF_ERROR(check(name));
    return name;
  }
  const char* path = getenv("PATH");
  std::stringstream parts(path ? path : "/usr/local/bin:/usr/bin:/bin");
  std::string part;
  absl::Status found_but = absl::NotFoundError(name + ": not found");
  while (std::getline(parts, part, ':')) {
    std::string candidate = (part.empty() ? "." : part) + "/" + name;
    if (access(candidate.c_str(), F_OK) != 0) continue;
    absl::Status s = check(candidate);
    if (s.ok()) return candidate;
    found_but = s;
  }
  return found_but;
}

void LetProgramsGo() {
  if (g_ring_directory >= 0) flock(g_ring_directory, LOCK_UN);
  while (g_child > 0 && waitpid(g_child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool InterruptedTwice() { return g_interrupted_twice; }
bool Interrupted() { return g_interrupted_at != 0; }

absl::StatusOr<LaunchResult> Launch(const LaunchOptions& options, const OnRing& on_ring,
                                    const std::function<bool()>& all_consumed) {
  const std::string valgrind = ValgrindProgram(options);
  if (options.recorder == RecorderKind::kValgrind && access(valgrind.c_str(), X_OK) != 0) {
    return absl::FailedPreconditionError(
        fmt::format("{} is missing: install the valgrind package", valgrind));
  }
  ASSIGN_OR_RETURN(auto directory,
                   RingDirectory::Make(kTtqRingHeaderBytes +
                                       options.block_bytes * std::min(options.block_count, 4u) *
                                           (options.records_inputs ? kTtqInputsRoom : 1)));
  const std::string& path = directory->path();

  SignalRules rules;
  DescriptorLimit descriptors;
  ASSIGN_OR_RETURN(const pid_t child, Start(options, path, rules, descriptors));
  g_child = child;
  int child_fd = static_cast<int>(syscall(SYS_pidfd_open, child, 0));

  LaunchResult result;
  RingFinder finder(directory.get(), on_ring);
  bool exited = false;
  int wait_ms = 1;  // for the rest of what an ended program did, or for the programs that it left
  while (!all_consumed() || !exited || finder.is_waiting()) {
    pollfd fds[2] = {{directory->bell(), POLLIN, 0}, {child_fd, POLLIN, 0}};
    poll(fds, exited ? 1 : 2, exited ? wait_ms : kLookEveryMs);
    if (exited) wait_ms = std::min(2 * wait_ms, kLookEveryMs);
    int status;
    if (!exited && waitpid(child, &status, WNOHANG) == child) {
      exited = true;
      g_child = 0;
      if (WIFSIGNALED(status)) {
        result.signal = WTERMSIG(status);
        result.status = 128 + result.signal;
      } else {
        result.status = WEXITSTATUS(status);
      }
    }
    finder.Look();
    if (finder.is_waiting()) usleep(50'000);
  }
  if (child_fd >= 0) close(child_fd);
  try {
    result.tool_log = ReadLogs(path);
  } catch (const std::bad_alloc&) {  // the status is worth more
  }
  return result;
}

}  // namespace ttq

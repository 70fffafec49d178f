// SPDX-License-Identifier: MIT

#include "import/live.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/types.h"
#include "fmt/core.h"
#include "import/find_file.h"
#include "import/registers.h"

namespace ttq {
namespace {
// Other processes whose descriptors are looked at for the other end of a pipe.
constexpr size_t kMaxProcesses = 4096;

std::string LinkOf(const std::string& path) {
  std::array<char, 4096> target;
  const ssize_t n = readlink(path.c_str(), target.data(), target.size());
  return n < 0 ? "" : std::string(target.data(), static_cast<size_t>(n));
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<int> NumbersIn(const std::string& directory) {
  std::vector<int> numbers;
  if (DIR* opened = opendir(directory.c_str())) {
    while (const dirent* entry = readdir(opened)) {
      if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9') {
        numbers.push_back(atoi(entry->d_name));
      }
    }
    closedir(opened);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// O_RDONLY, O_WRONLY or O_RDWR.
int AccessOf(pid_t pid, int fd) {
  std::ifstream file(fmt::format("/proc/{}/fdinfo/{}", pid, fd));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("flags:")) {
      return static_cast<int>(strtol(line.c_str() + 6, nullptr, 8)) & O_ACCMODE;
    }
  }
  return O_RDWR;
}

// "127.0.0.1:80" of /proc/net/tcp's "0100007F:0050".
std::string AddressText(const std::string& hex) {
  const size_t colon = hex.find(':');
  if (colon == hex.npos) return hex;
  const unsigned long port = strtoul(hex.c_str() + colon + 1, nullptr, 16);
  std::array<uint8_t, 16> bytes{};
  const size_t words = colon / 8;
  for (size_t i = 0; i < words && i < 4; ++i) {
    const auto word = static_cast<uint32_t>(strtoul(hex.substr(i * 8, 8).c_str(), nullptr, 16));
    memcpy(bytes.data() + 4 * i, &word, 4);
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(words == 1 ? AF_INET : AF_INET6, bytes.data(), text.data(), text.size());
  return words == 1 ? fmt::format("{}:{}", text.data(), port)
                    : fmt::format("[{}]:{}", text.data(), port);
}

// Sockets by inode, as the process's network has them.
std::map<std::string, std::string> SocketsOf(pid_t pid) {
  static constexpr const char* kStates[] = {"",           "ESTABLISHED", "SYN_SENT",  "SYN_RECV",
                                            "FIN_WAIT1",  "FIN_WAIT2",   "TIME_WAIT", "CLOSE",
                                            "CLOSE_WAIT", "LAST_ACK",    "LISTEN",    "CLOSING"};
  std::map<std::string, std::string> sockets;
  for (const char* kind : {"tcp", "tcp6", "udp", "udp6"}) {
    std::ifstream file(fmt::format("/proc/{}/net/{}", pid, kind));
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string slot, local, remote, state, skip, inode;
      words >> slot >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) words >> skip;
      words >> inode;
      const unsigned long number = strtoul(state.c_str(), nullptr, 16);
      const std::string name = number < std::size(kStates) ? kStates[number] : "";
      sockets[inode] = name == "LISTEN" ? fmt::format("{} {} listening", kind, AddressText(local))
                                        : fmt::format("{} {} → {}", kind, AddressText(local),
                                                      AddressText(remote));
    }
  }
  std::ifstream file(fmt::format("/proc/{}/net/unix", pid));
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string skip, inode, path;
    for (int i = 0; i < 6; ++i) words >> skip;
    words >> inode >> path;
    sockets[inode] = path.empty() ? "unix" : "unix " + path;
  }
  return sockets;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LiveProcess>> LiveProcess::Take(pid_t pid, bool stop) {
  std::unique_ptr<LiveProcess> live(new LiveProcess);
  live->pid_ = live->memory_of_ = pid;
  ProcessMoment& moment = live->moment_;
  moment.beginning = Beginning::kSnapshot;
  moment.pid = static_cast<uint32_t>(pid);
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  moment.wall_ns = now.tv_sec * 1000000000LL + now.tv_nsec;
  const auto begun = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(live->attached_, AttachedProcess::Attach(pid));
  live->TakeThreads();
  if (!stop) {
    const absl::StatusOr<pid_t> copy = live->attached_->Fork();
    if (copy.ok()) {
      live->memory_of_ = *copy;
    } else {
      moment.remarks.push_back(fmt::format("the process stood still while it was read: {}",
                                           std::string(copy.status().message())));
      stop = true;
    }
  }
  live->TakeMappings();
  if (!stop) {
    live->attached_->Release();
    live->stopped_for_ =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  }
  live->TakeNames();
  live->TakeDescriptors();
  FindFiles({.process = pid}, *live, &moment);
  live->pagemap_ =
      open(fmt::format("/proc/{}/pagemap", live->memory_of_).c_str(), O_RDONLY | O_CLOEXEC);
  return live;
}

void LiveProcess::TakeThreads() {
  for (const AttachedProcess::Task& task : attached_->tasks()) {
    MomentThread thread;
    thread.os_tid = static_cast<uint32_t>(task.tid);
    TakeRegisters(task.registers, &thread);
    TakeVectors(task.vectors, &thread);
    thread.name = Contents(fmt::format("/proc/{}/task/{}/comm", pid_, task.tid));
    while (!thread.name.empty() && thread.name.back() == '\n') thread.name.pop_back();
    moment_.threads.push_back(std::move(thread));
  }
  // The main one has the process's number.
  std::stable_partition(moment_.threads.begin(), moment_.threads.end(),
                        [&](const MomentThread& t) { return t.os_tid == moment_.pid; });
}

// Of the copy, as of the process at the moment that it was made; what was not to be copied is not
// there.
void LiveProcess::TakeMappings() {
  std::ifstream maps(fmt::format("/proc/{}/maps", memory_of_));
  for (std::string line; std::getline(maps, line);) {
    MomentMapping m;
    char protection[5] = "";
    unsigned long begin = 0, end = 0, offset = 0, inode = 0;
    unsigned major = 0, minor = 0;
    int path_at = 0;
    if (sscanf(line.c_str(), "%lx-%lx %4s %lx %x:%x %lu %n", &begin, &end, protection, &offset,
               &major, &minor, &inode, &path_at) < 7) {
      continue;
    }
    m.begin = begin;
    m.end = m.known_end = end;
    m.protection =
        static_cast<uint8_t>((protection[0] == 'r' ? 1 : 0) | (protection[1] == 'w' ? 2 : 0) |
                             (protection[2] == 'x' ? 4 : 0));
    m.shared = protection[3] == 's';
    std::string path = path_at > 0 ? line.substr(static_cast<size_t>(path_at)) : "";
    if (path == "[vsyscall]") continue;
    if (path == "[heap]") {
      m.kind = kTtqMapHeap;
    } else if (path == "[stack]") {
      m.kind = kTtqMapStack;
    } else if (path == "[vdso]") {
      m.kind = kTtqMapFile;
      m.path = path;
      vdso_ = begin;
    } else if (inode != 0 || absl::StartsWith(path, "/")) {
      m.kind = kTtqMapFile;
      m.path = path;
      m.file_offset = offset;
    }
    // The kernel's own data, and what nobody may read.
    if (path == "[vvar]" || m.protection == 0) m.known_end = m.begin;
    moment_.mappings.push_back(std::move(m));
  }
}

void LiveProcess::TakeNames() {
  moment_.program = LinkOf(fmt::format("/proc/{}/exe", pid_));
  moment_.working_directory = LinkOf(fmt::format("/proc/{}/cwd", pid_));
  const std::string line = Contents(fmt::format("/proc/{}/cmdline", pid_));
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find('\0', at), line.size());
    moment_.arguments.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  if (moment_.arguments.empty()) moment_.arguments.push_back(moment_.program);
}

void LiveProcess::TakeDescriptors() {
  const std::string directory = fmt::format("/proc/{}/fd", pid_);
  std::map<std::string, std::vector<size_t>> pipes;  // by their text: which descriptors
  std::map<std::string, std::string> sockets;
  bool has_sockets = false;
  for (const int fd : NumbersIn(directory)) {
    std::string what = LinkOf(fmt::format("{}/{}", directory, fd));
    if (what.empty()) continue;
    if (absl::StartsWith(what, "pipe:[")) {
      pipes[what].push_back(moment_.descriptors.size());
      const int access = AccessOf(pid_, fd);
      if (access != O_RDWR) what += access == O_RDONLY ? " (read end)" : " (write end)";
    } else if (absl::StartsWith(what, "socket:[")) {
      if (!std::exchange(has_sockets, true)) sockets = SocketsOf(pid_);
      const auto known = sockets.find(what.substr(8, what.size() - 9));
      if (known != sockets.end()) what += " " + known->second;
    }
    moment_.descriptors.push_back({fd, std::move(what)});
  }
  if (pipes.empty()) return;
  // Who else has these pipes.
  size_t looked_at = 0;
  for (const int other : NumbersIn("/proc")) {
    if (++looked_at > kMaxProcesses) break;
    if (other == pid_ || other == memory_of_ || other == getpid()) continue;
    const std::string fds = fmt::format("/proc/{}/fd", other);
    for (const int fd : NumbersIn(fds)) {
      const std::string what = LinkOf(fmt::format("{}/{}", fds, fd));
      const auto known = pipes.find(what);
      if (known == pipes.end()) continue;
      std::string name = Contents(fmt::format("/proc/{}/comm", other));
      while (!name.empty() && name.back() == '\n') name.pop_back();
      for (const size_t i : known->second) {
        absl::StrAppend(&moment_.descriptors[i].what,
                        fmt::format(", {} {} has the {} end", name, other,
                                    AccessOf(other, fd) == O_RDONLY ? "read" : "write"));
      }
    }
  }
}

uint64_t LiveProcess::Read(uint64_t address, uint64_t size, void* out) const {
  uint64_t done = 0;
  while (done < size) {
    iovec local{static_cast<char*>(out) + done, size - done};
    iovec remote{reinterpret_cast<void*>(address + done), size - done};
    const ssize_t n = process_vm_readv(memory_of_, &local, 1, &remote, 1, 0);
    if (n <= 0) break;
    done += static_cast<uint64_t>(n);
  }
  return done;
}

// proc(5), pagemap: a page that is neither in memory nor swapped out is as it was mapped; one of a
// file that is not the process's own has that file's bytes.
uint64_t LiveProcess::NextOwn(const MomentMapping& mapping, uint64_t address) const {
  constexpr uint64_t kPresent = uint64_t{1} << 63, kSwapped = uint64_t{1} << 62,
                     kOfFile = uint64_t{1} << 61;
  const bool has_file = !mapping.bytes_at.empty();
  if (pagemap_ < 0 || mapping.shared || (mapping.kind == kTtqMapFile && !has_file)) return address;
  std::array<uint64_t, 512> pages;
  while (address < mapping.known_end) {
    const uint64_t want =
        std::min<uint64_t>(pages.size(), (mapping.known_end - address) / kPageBytes);
    const ssize_t got =
        pread(pagemap_, pages.data(), want * 8, static_cast<off_t>(address / kPageBytes * 8));
    if (got < 8) return address;
    for (size_t i = 0; i < static_cast<size_t>(got) / 8; ++i) {
      const bool there = (pages[i] & (kPresent | kSwapped)) != 0;
      if (there && !(has_file && (pages[i] & kOfFile) != 0)) return address + i * kPageBytes;
    }
    address += static_cast<uint64_t>(got) / 8 * kPageBytes;
  }
  return mapping.known_end;
}

}  // namespace ttq

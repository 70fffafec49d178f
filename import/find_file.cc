// SPDX-License-Identifier: MIT

#include "import/find_file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/elf.h"
#include "fmt/core.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHeaderBytes = 4096;
// Files of a directory that is searched; a whole disk is not meant.
constexpr size_t kMaxSearched = 200'000;

// What identifies an ELF file: its build-id or, where it has none, how it begins.
struct Identity {
  std::string build_id;
  std::string head;  // the first page; empty: it is no ELF file, or its header is not in memory
};

std::optional<Identity> IdentityOf(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return std::nullopt;
  std::optional<Identity> found;
  struct stat st;
  char head[kHeaderBytes] = {};
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && pread(fd, head, sizeof(head), 0) > 4 &&
      memcmp(head, "\177ELF", 4) == 0) {
    found.emplace();
    found->head.assign(head, sizeof(head));
    found->build_id = ElfBuildId([fd](uint64_t offset, size_t n, void* out) {
      return pread(fd, out, n, static_cast<off_t>(offset)) == static_cast<ssize_t>(n);
    });
  }
  close(fd);
  return found;
}

// As IdentityOf, of what is mapped.
Identity IdentityInMemory(const MomentMemory& memory,
                          const std::vector<const MomentMapping*>& mappings) {
  Identity found;
  const MomentMapping* first = nullptr;
  for (const MomentMapping* m : mappings) {
    if (m->file_offset == 0 && m->known_end > m->begin) first = m;
  }
  if (first == nullptr) return found;
  std::string head(kHeaderBytes, 0);
  if (memory.Read(first->begin, head.size(), head.data()) < head.size()) return found;
  if (head.compare(0, 4, "\177ELF") != 0) return found;
  found.head = std::move(head);
  found.build_id = ElfBuildId([&](uint64_t offset, size_t n, void* out) {
    for (const MomentMapping* m : mappings) {
      if (offset < m->file_offset || offset - m->file_offset >= m->end - m->begin) continue;
      return memory.Read(m->begin + (offset - m->file_offset), n, out) == n;
    }
    return false;
  });
  return found;
}

// The programs and libraries below the directories of --search, by build-id.
class Searched {
 public:
  explicit Searched(const std::vector<std::string>& directories) : directories_(directories) {}

  std::string Find(const std::string& build_id) {
    if (!done_) Look();
    const auto it = files_.find(build_id);
    return it == files_.end() ? "" : it->second;
  }

 private:
  void Look() {
    done_ = true;
    size_t looked_at = 0;
    for (const std::string& directory : directories_) {
      std::error_code ec;
      fs::recursive_directory_iterator it(directory, fs::directory_options::skip_permission_denied,
                                          ec);
      for (; !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
        std::error_code ignored;
        if (!it->is_regular_file(ignored)) continue;
        if (++looked_at > kMaxSearched) return;
        const std::string path = it->path().string();
        // Separate debug files have the build-id, and not the bytes.
        if (path.ends_with(".debug")) continue;
        const std::optional<Identity> found = IdentityOf(path);
        if (found && !found->build_id.empty()) files_.emplace(found->build_id, path);
      }
    }
  }

  const std::vector<std::string>& directories_;
  std::map<std::string, std::string> files_;
  bool done_ = false;
};

// debuginfod's client, where it is installed and somebody names a server. "" when it has none.
std::string AskDebuginfod(const std::string& build_id) {
  const char* urls = getenv("DEBUGINFOD_URLS");
  if (urls == nullptr || *urls == 0 || build_id.empty()) return "";
  void* library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return "";
  using Begin = void* (*)();
  using Find = int (*)(void*, const unsigned char*, int, char**);
  using End = void (*)(void*);
  const auto begin = reinterpret_cast<Begin>(dlsym(library, "debuginfod_begin"));
  const auto find = reinterpret_cast<Find>(dlsym(library, "debuginfod_find_executable"));
  const auto end = reinterpret_cast<End>(dlsym(library, "debuginfod_end"));
  if (begin == nullptr || find == nullptr || end == nullptr) return "";
  void* client = begin();
  if (client == nullptr) return "";
  char* path = nullptr;
  // A length of 0 says that it is in hexadecimal.
  const int fd = find(client, reinterpret_cast<const unsigned char*>(build_id.c_str()), 0, &path);
  std::string found;
  if (fd >= 0) {
    close(fd);
    if (path != nullptr) found = path;
  }
  free(path);
  end(client);
  return found;
}

class Finder {
 public:
  Finder(const FileSearch& search, const MomentMemory& memory, ProcessMoment* moment)
      : search_(search), memory_(memory), moment_(*moment), searched_(search.directories) {}

  void Run() {
    std::map<std::string, std::vector<MomentMapping*>> files;
    for (MomentMapping& m : moment_.mappings) {
      if (m.kind == kTtqMapFile && !m.path.empty() && m.path[0] != '[') files[m.path].push_back(&m);
    }
    for (auto& [path, mappings] : files) {
      const std::string found = FindOne(path, {mappings.begin(), mappings.end()});
      for (MomentMapping* m : mappings) m->bytes_at = found;
    }
    if (!search_.executable.empty() && !used_executable_) {
      moment_.remarks.push_back(
          fmt::format("{} is not the program of this process: not used", search_.executable));
    }
  }

 private:
  // "" where there is none, with a remark if it is an ELF file.
  std::string FindOne(const std::string& path, const std::vector<const MomentMapping*>& mappings) {
    const Identity wanted = IdentityInMemory(memory_, mappings);
    const bool is_program = path == moment_.program;
    if (wanted.head.empty()) return WithoutHeader(path, mappings, is_program);
    const std::string name(absl::StripSuffix(path, " (deleted)"));
    std::vector<std::string> candidates;
    if (is_program && !search_.executable.empty()) candidates.push_back(search_.executable);
    if (!search_.sysroot.empty()) candidates.push_back(search_.sysroot + "/" + name);
    if (search_.process != 0) {
      const MomentMapping& first = *mappings.front();
      candidates.push_back(fmt::format("/proc/{}/root{}", search_.process, name));
      candidates.push_back(
          fmt::format("/proc/{}/map_files/{:x}-{:x}", search_.process, first.begin, first.end));
    }
    candidates.push_back(name);
    std::string other;  // of the same name, but another
    for (const std::string& candidate : candidates) {
      const std::optional<Identity> found = IdentityOf(candidate);
      if (!found) continue;
      if (IsSame(wanted, *found)) {
        if (candidate == search_.executable) used_executable_ = true;
        return candidate;
      }
      if (other.empty()) {
        other =
            fmt::format("{} has {}", candidate,
                        found->build_id.empty() ? "no build-id" : "build-id " + found->build_id);
      }
    }
    if (!wanted.build_id.empty()) {
      if (std::string found = searched_.Find(wanted.build_id); !found.empty()) {
        return found;
      }
      if (std::string found = AskDebuginfod(wanted.build_id); !found.empty()) return found;
    }
    moment_.remarks.push_back(fmt::format(
        "{} is not there{}{}: its code and names are missing", name,
        wanted.build_id.empty() ? "" : fmt::format(" with build-id {}", wanted.build_id),
        other.empty() ? "" : fmt::format(" ({})", other)));
    return "";
  }

  static bool IsSame(const Identity& wanted, const Identity& found) {
    if (!wanted.build_id.empty() || !found.build_id.empty()) {
      return wanted.build_id == found.build_id;
    }
    return wanted.head == found.head;
  }

  // Nothing says which version it is: only somebody who knows may tell.
  std::string WithoutHeader(const std::string& path,
                            const std::vector<const MomentMapping*>& mappings, bool is_program) {
    if (is_program && !search_.executable.empty()) {
      used_executable_ = true;
      if (!IdentityOf(search_.executable)) return "";
      moment_.remarks.push_back(
          fmt::format("the build-id of {} is not in the core dump: that {} is it was not checked",
                      path, search_.executable));
      return search_.executable;
    }
    const bool has_code = std::any_of(mappings.begin(), mappings.end(),
                                      [](const auto* m) { return (m->protection & 4) != 0; });
    if (has_code) {
      moment_.remarks.push_back(fmt::format(
          "the build-id of {} is not in the core dump: its code and names are missing{}", path,
          is_program ? " (see --exe)" : ""));
    }
    return "";
  }

  const FileSearch& search_;
  const MomentMemory& memory_;
  ProcessMoment& moment_;
  Searched searched_;
  bool used_executable_ = false;
};

}  // namespace

void FindFiles(const FileSearch& search, const MomentMemory& memory, ProcessMoment* moment) {
  Finder(search, memory, moment).Run();
}

}  // namespace ttq

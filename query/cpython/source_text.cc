// SPDX-License-Identifier: MIT

#include "query/cpython/source_text.h"

#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "fmt/format.h"

namespace ttq::python {
namespace {

constexpr size_t kMaxBytes = 16 << 20;
// Files opened that are looked at, of a process that opens very many.
constexpr int kMaxOpens = 20000;

std::vector<std::string> SplitLines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    size_t end = text.find_first_of("\n\r");
    if (end == text.npos) end = text.size();
    lines.emplace_back(text.substr(0, end));
    if (end + 1 < text.size() && text[end] == '\r' && text[end + 1] == '\n') ++end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string Normal(const std::string& path, const std::string& directory) {
  return path.starts_with('/') || directory.empty() ? path : directory + "/" + path;
}

}  // namespace

// The file as the process read it when it last opened it: bytes that the kernel put into its
// buffers.
std::optional<std::string> SourceText::FromRecording(const std::string& path) {
  const std::string& directory = process_.info().working_directory;
  EventQuery query;
  query.kind = EventKind::kSyscall;
  absl::StatusOr<std::unique_ptr<Cursor<Event>>> cursor = process_.Events(query);
  if (!cursor.ok()) return std::nullopt;
  // Of the file that is open now, by descriptor.
  int64_t descriptor = -1;
  std::string content, last;
  int opens = 0;
  for (;;) {
    absl::StatusOr<std::optional<Event>> event = (*cursor)->Next();
    if (!event.ok() || !*event) break;
    const Event& e = **event;
    if ((e.number == SYS_openat || e.number == SYS_open) && e.result >= 0) {
      if (++opens > kMaxOpens) break;
      const uint64_t name = e.args[e.number == SYS_openat ? 1 : 0];
      absl::StatusOr<MemoryImage> image = process_.Memory(Address(name), path.size() + 1, e.time);
      if (!image.ok() || !image->all_present()) continue;
      const std::string opened = image->bytes.substr(0, image->bytes.find('\0'));
      if (Normal(opened, directory) != path) continue;
      descriptor = e.result;
      content.clear();
    } else if (e.number == SYS_read && descriptor >= 0 && e.result > 0 &&
               static_cast<int64_t>(e.args[0]) == descriptor) {
      if (content.size() + e.result > kMaxBytes) return std::nullopt;
      absl::StatusOr<MemoryImage> image = process_.Memory(Address(e.args[1]), e.result, e.time + 1);
      if (!image.ok() || !image->all_present()) return std::nullopt;
      content += image->bytes;
    } else if (e.number == SYS_lseek && descriptor >= 0 && e.result >= 0 &&
               static_cast<int64_t>(e.args[0]) == descriptor) {
      // Back to its begin, to be read again in full; elsewhere it only asks where it is.
      content.resize(std::min<uint64_t>(content.size(), e.result));
    } else if (e.number == SYS_close && descriptor >= 0 &&
               static_cast<int64_t>(e.args[0]) == descriptor) {
      if (!content.empty()) last = content;
      descriptor = -1;
    }
  }
  if (last.empty()) last = content;
  if (last.empty()) return std::nullopt;
  return last;
}

const std::vector<std::string>* SourceText::Lines(const std::string& filename) {
  const auto [it, is_new] = files_.try_emplace(filename);
  if (!is_new) return it->second ? &*it->second : nullptr;
  // "<string>", "<frozen importlib._bootstrap>": never were files.
  if (filename.empty() || filename.starts_with('<')) return nullptr;
  const std::string path = Normal(filename, process_.info().working_directory);
  struct stat status;
  const bool there = stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
                     status.st_size <= static_cast<off_t>(kMaxBytes);
  const int64_t changed =
      there ? status.st_mtim.tv_sec * int64_t{1000000000} + status.st_mtim.tv_nsec : 0;
  const bool same = there && changed < process_.info().start_wall_ns;
  if (!same) {
    if (const std::optional<std::string> text = FromRecording(path)) {
      it->second = SplitLines(*text);
      return &*it->second;
    }
    if (there) {
      remarks_.push_back(fmt::format(
          "{} was changed since the recording began: its lines may not be those that ran", path));
    }
  }
  if (!there) return nullptr;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return nullptr;
  it->second = SplitLines(text.str());
  return &*it->second;
}

std::string SourceText::Line(const std::string& filename, int number) {
  if (number <= 0) return "";
  const std::vector<std::string>* lines = Lines(filename);
  if (!lines || static_cast<size_t>(number) > lines->size()) return "";
  const std::string& line = (*lines)[number - 1];
  const size_t begin = line.find_first_not_of(" \t\f");
  if (begin == line.npos) return "";
  return line.substr(begin, line.find_last_not_of(" \t\f") + 1 - begin);
}

}  // namespace ttq::python

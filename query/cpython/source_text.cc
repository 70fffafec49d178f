// SPDX-License-Identifier: MIT

#include "query/cpython/source_text.h"

#include <limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "fmt/core.h"

namespace ttq::python {
namespace {

constexpr size_t kMaxBytes = 16 << 20;
// Files opened that are looked at, of a process that opens very many.
constexpr size_t kMaxOpens = 20000;

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

// The path that a system call was given; nullopt where not all of it is known. Asked for in pieces
// that no page border divides: most names are short, and what lies behind one may not be mapped.
std::optional<std::string> SourceText::PathAt(uint64_t address, Time time) const {
  constexpr uint64_t kPiece = 128;
  std::string path;
  while (path.size() < PATH_MAX) {
    const uint64_t at = address + path.size();
    absl::StatusOr<MemoryImage> image = process_.Memory(Address(at), kPiece - at % kPiece, time);
    if (!image.ok()) return std::nullopt;
    const size_t end = image->bytes.find('\0');
    for (size_t i = 0; i < std::min(end, image->bytes.size()); ++i) {
      if (!image->present[i]) return std::nullopt;
    }
    path += image->bytes.substr(0, end);
    if (end != std::string::npos) return path;
  }
  return std::nullopt;
}

// The files that the process opened, in the order of time. Read once: a report asks for the lines
// of many files, and most of them were never opened (a module that came out of its .pyc).
const std::vector<SourceText::OpenedFile>& SourceText::OpenedFiles() {
  if (opened_) return *opened_;
  opened_.emplace();
  const std::string& directory = process_.info().working_directory;
  EventQuery query;
  query.kind = EventKind::kSyscall;
  absl::StatusOr<std::unique_ptr<Cursor<Event>>> cursor = process_.Events(query);
  if (!cursor.ok()) return *opened_;
  while (opened_->size() < kMaxOpens) {
    absl::StatusOr<std::optional<Event>> event = (*cursor)->Next();
    if (!event.ok() || !*event) break;
    const Event& e = **event;
    if ((e.number != SYS_openat && e.number != SYS_open) || e.result < 0) continue;
    const std::optional<std::string> name = PathAt(e.args[e.number == SYS_openat ? 1 : 0], e.time);
    if (name) opened_->push_back({e.time, e.result, Normal(*name, directory)});
  }
  return *opened_;
}

// The file as the process read it when it last opened it: bytes that the kernel put into its
// buffers.
std::optional<std::string> SourceText::FromRecording(const std::string& path) {
  std::string last;
  for (const OpenedFile& file : OpenedFiles()) {
    if (file.path != path) continue;
    const std::optional<std::string> content = ReadAfter(file);
    if (content && !content->empty()) last = *content;
  }
  if (last.empty()) return std::nullopt;
  return last;
}

// What the process read through `file` until it closed it or opened another by the same number.
std::optional<std::string> SourceText::ReadAfter(const OpenedFile& file) const {
  EventQuery query;
  query.kind = EventKind::kSyscall;
  query.span.begin = file.time + 1;
  absl::StatusOr<std::unique_ptr<Cursor<Event>>> cursor = process_.Events(query);
  if (!cursor.ok()) return std::nullopt;
  std::string content;
  for (;;) {
    absl::StatusOr<std::optional<Event>> event = (*cursor)->Next();
    if (!event.ok()) return std::nullopt;
    if (!*event) return content;
    const Event& e = **event;
    if (static_cast<int64_t>(e.args[0]) != file.descriptor || e.result < 0) continue;
    if (e.number == SYS_close) return content;
    if (e.number == SYS_read && e.result > 0) {
      if (content.size() + e.result > kMaxBytes) return std::nullopt;
      absl::StatusOr<MemoryImage> image = process_.Memory(Address(e.args[1]), e.result, e.time + 1);
      if (!image.ok() || !image->all_present()) return std::nullopt;
      content += image->bytes;
    } else if (e.number == SYS_lseek) {
      // Back to its begin, to be read again in full; elsewhere it only asks where it is.
      content.resize(std::min<uint64_t>(content.size(), e.result));
    }
  }
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

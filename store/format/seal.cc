// SPDX-License-Identifier: MIT

#include "store/format/seal.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "absl/status/statusor.h"
#include "base/file_image.h"
#include "base/status_macros.h"
#include "fmt/core.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFirstLine = "ttq seal 1\n";
constexpr uint64_t kMaxBytes = 1 << 20;

std::string SealPath(const std::string& directory) { return directory + "/seal"; }

bool IsSealed(const std::string& name) {
  return name == "CURRENT" || name.starts_with("MANIFEST-") || name.ends_with(".log");
}

std::string HashOf(absl::Span<const uint8_t> bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}
std::string HashOf(std::string_view text) {
  return HashOf(absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

// The names of the files that are sealed.
absl::StatusOr<std::set<std::string>> FilesOf(const std::string& directory) {
  std::set<std::string> out;
  std::error_code ec;
  for (auto it = fs::directory_iterator(directory + "/db", ec);
       !ec && it != fs::directory_iterator(); it.increment(ec)) {
    const std::string name = it->path().filename();
    if (IsSealed(name)) out.insert(name);
  }
  if (ec) return absl::UnavailableError(fmt::format("{}/db: {}", directory, ec.message()));
  return out;
}

// "SIZE HASH", or "SIZE" where that is not `expected`: it may be large.
absl::StatusOr<std::string> WhatIs(const std::string& path, std::optional<uint64_t> expected) {
  std::error_code ec;
  const uint64_t size = fs::file_size(path, ec);
  if (ec) return absl::UnavailableError(fmt::format("{}: {}", path, ec.message()));
  if (size != expected.value_or(size)) return fmt::format("{}", size);
  absl::StatusOr<FileImage> image = FileImage::Read(path);
  if (!image.ok()) return absl::UnavailableError(image.status().message());
  return fmt::format("{} {}", image->bytes().size(), HashOf(image->bytes()));
}

}  // namespace

absl::Status WriteSeal(const std::string& directory) {
  ASSIGN_OR_RETURN(auto files, FilesOf(directory));
  std::string text(kFirstLine);
  for (const std::string& name : files) {
    ASSIGN_OR_RETURN(const auto what,
                     WhatIs(fmt::format("{}/db/{}", directory, name), std::nullopt));
    text += fmt::format("{} {}\n", name, what);
  }
  text += HashOf(text) + "\n";
  const std::string path = SealPath(directory);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, path);
  // It is short: what is written in part is a disk that is full.
  const ssize_t written = write(fd, text.data(), text.size());
  const int error = written < 0 ? errno : ENOSPC;
  const bool closed = close(fd) == 0;
  if (closed && written == static_cast<ssize_t>(text.size())) return absl::OkStatus();
  unlink(path.c_str());
  return absl::ErrnoToStatus(error, path);
}

absl::Status CheckSeal(const std::string& directory) {
  const std::string path = SealPath(directory);
  const auto damaged = absl::DataLossError(path + " is damaged");
  std::error_code ec;
  if (fs::file_size(path, ec) > kMaxBytes && !ec) return damaged;
  ASSIGN_OR_RETURN(FileImage image, FileImage::Read(path));
  const std::string_view text(reinterpret_cast<const char*>(image.bytes().data()),
                              image.bytes().size());
  const size_t end = text.empty() ? text.npos : text.rfind('\n', text.size() - 2);
  if (end == text.npos || !text.starts_with("ttq seal ")) return damaged;
  const std::string_view lines = text.substr(0, end + 1);
  if (text.substr(end + 1) != HashOf(lines) + "\n") return damaged;
  if (!lines.starts_with(kFirstLine)) {
    return absl::FailedPreconditionError(path + ": a seal of a later ttq; use a newer one");
  }
  ASSIGN_OR_RETURN(auto files, FilesOf(directory));
  for (std::string_view rest = lines.substr(kFirstLine.size()); !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    const size_t space = std::min(line.find(' '), line.size());
    const std::string name(line.substr(0, space));
    const std::string_view sealed = line.substr(std::min(space + 1, line.size()));
    const std::string file = fmt::format("{}/db/{}", directory, name);
    const auto found = files.find(name);
    if (found == files.end()) return absl::DataLossError(file + " is missing");
    ASSIGN_OR_RETURN(const auto what,
                     WhatIs(file, std::strtoull(std::string(sealed).c_str(), nullptr, 10)));
    if (what != sealed) {
      return absl::DataLossError(file + " is damaged: it differs from its seal");
    }
    files.erase(found);
  }
  if (files.empty()) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("{}/db/{} does not belong to the recording", directory, *files.begin()));
}

}  // namespace ttq

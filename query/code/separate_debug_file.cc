// SPDX-License-Identifier: MIT

#include "query/code/separate_debug_file.h"

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace ttq {
namespace {

std::optional<SeparateDebugFile> OpenElf(const std::string& path) {
  absl::StatusOr<FileImage> image = FileImage::Map(path);
  if (!image.ok()) return std::nullopt;
  absl::StatusOr<ElfFile> elf = ElfFile::Parse(*std::move(image));
  if (!elf.ok()) return std::nullopt;
  return SeparateDebugFile{path, *std::move(elf)};
}

std::optional<SeparateDebugFile> OpenWithBuildId(const std::string& path,
                                                 const std::string& build_id) {
  std::optional<SeparateDebugFile> file = OpenElf(path);
  if (!file || file->elf.build_id() != build_id) return std::nullopt;
  return file;
}

std::string BuildIdPath(const std::string& directory, const std::string& build_id) {
  return absl::StrCat(directory, "/.build-id/", build_id.substr(0, 2), "/", build_id.substr(2),
                      ".debug");
}

// With the slash; "" for a bare name.
std::string Directory(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

}  // namespace

std::optional<SeparateDebugFile> FindSeparateDebugFile(const ElfFile& module,
                                                       const std::string& path,
                                                       const SymbolOptions& options) {
  const std::string& id = module.build_id();
  if (id.size() > 2) {
    for (const std::string& directory : options.debug_directories) {
      if (auto file = OpenWithBuildId(BuildIdPath(directory, id), id)) return file;
    }
  }
  std::optional<ElfFile::DebugLink> link = module.debug_link();
  // A link is a bare file name: anything else would reach out of the directories searched.
  if (!link || link->name.find('/') != std::string::npos) return std::nullopt;
  std::string beside = Directory(path);
  std::vector<std::string> candidates;
  if (options.search_beside_module) {
    candidates.push_back(absl::StrCat(beside, link->name));
    candidates.push_back(absl::StrCat(beside, ".debug/", link->name));
  }
  if (!beside.empty() && beside[0] == '/') {
    for (const std::string& directory : options.debug_directories) {
      candidates.push_back(absl::StrCat(directory, beside, link->name));
    }
  }
  for (const std::string& candidate : candidates) {
    std::optional<SeparateDebugFile> file = OpenElf(candidate);
    if (!file) continue;
    bool same = !id.empty() && !file->elf.build_id().empty()
                    ? file->elf.build_id() == id
                    : DebugLinkCrc(file->elf.image().bytes()) == link->crc;
    if (same) return file;
  }
  return std::nullopt;
}

std::optional<SeparateDebugFile> FindAltFile(const ElfFile& debug, const std::string& path,
                                             const SymbolOptions& options) {
  std::optional<ElfFile::AltLink> link = debug.alt_link();
  if (!link || link->build_id.size() <= 2) return std::nullopt;
  std::vector<std::string> candidates;
  candidates.push_back(link->name[0] == '/' ? link->name
                                            : absl::StrCat(Directory(path), link->name));
  for (const std::string& directory : options.debug_directories) {
    candidates.push_back(BuildIdPath(directory, link->build_id));
    candidates.push_back(Cat(directory, "/.dwz/", BaseName(link->name)));
  }
  for (const std::string& candidate : candidates) {
    if (auto file = OpenWithBuildId(candidate, link->build_id)) return file;
  }
  return std::nullopt;
}

}  // namespace ttq

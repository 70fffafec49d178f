// SPDX-License-Identifier: MIT
//
// Files that keep what takes long to derive: under $XDG_CACHE_HOME/ttq (~/.cache/ttq) what comes
// from debug information, beside a recording's store what comes from the recording. Any of them may
// be deleted, or be another process's that is writing the same.

#ifndef TTQ_QUERY_DISK_CACHE_H_
#define TTQ_QUERY_DISK_CACHE_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "store/file_image.h"

namespace ttq {

// KIND-ID under the cache's folder. Empty when there is no such folder, or the id, which may come
// from an untrusted file, is not one to 128 lower-case hexadecimal digits.
std::string CachePath(std::string_view kind, const std::string& id);

// Writes the parts one after the other, under another name that is then changed: nobody sees half a
// file. Without success nothing is lost but time.
void WriteWholeFile(const std::string& path, std::initializer_list<std::string_view> parts,
                    mode_t mode = 0644);
// The same to a CachePath: makes the folders, and the file is its user's alone.
void WriteCacheFile(const std::string& path, std::initializer_list<std::string_view> parts);
// The same for a large file, of `size` bytes that `fill` writes: in the file's own pages, without a
// copy of them. Gives them, read-only. Nothing when there is no room for such a file, or `fill`
// returned false.
std::optional<FileImage> FillCacheFile(const std::string& path, uint64_t size,
                                       const std::function<bool(uint8_t*)>& fill);

}  // namespace ttq

#endif  // TTQ_QUERY_DISK_CACHE_H_

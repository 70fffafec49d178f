// SPDX-License-Identifier: MIT
//
// Files under $XDG_CACHE_HOME/ttq (~/.cache/ttq): what takes long to derive from debug information.
// Any of them may be deleted, or be another process's that is writing the same.

#ifndef TTQ_QUERY_DISK_CACHE_H_
#define TTQ_QUERY_DISK_CACHE_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace ttq {

// Where the file is, or would be. Empty when there is no place for it, or the name, which may come
// from an untrusted file, is other than letters, digits and '-'.
std::string CachePath(std::string_view name);

// Writes the parts one after the other, under another name that is then changed: nobody sees half a
// file. Makes the folders. Without success nothing is lost but time.
void WriteCacheFile(const std::string& path,
                    std::initializer_list<absl::Span<const uint8_t>> parts);

}  // namespace ttq

#endif  // TTQ_QUERY_DISK_CACHE_H_

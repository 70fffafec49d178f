// SPDX-License-Identifier: MIT
//
// Files that keep what takes long to derive: under $XDG_CACHE_HOME/ttq (~/.cache/ttq) what comes
// from debug information, beside a recording's store what comes from the recording. Any of them may
// be deleted, or be another process's that is writing the same.

#ifndef TTQ_BASE_DISK_CACHE_H_
#define TTQ_BASE_DISK_CACHE_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

namespace ttq {

// KIND-ID under the cache's folder. Empty when there is no such folder, or the id, which may come
// from an untrusted file, is not one to 128 lower-case hexadecimal digits.
std::string CachePath(std::string_view kind, const std::string& id);

// All of a plain file, unless it is larger than `most` bytes or cannot be read: false. Follows no
// link and waits for nobody.
bool ReadWholeFile(const std::string& path, uint64_t most, std::string* out);
// Writes the parts one after the other, under another name that is then changed: nobody sees half a
// file. Without success nothing is lost but time.
void WriteWholeFile(const std::string& path, std::initializer_list<std::string_view> parts,
                    mode_t mode = 0644);
// The same to a CachePath: makes the folders, and the file is its user's alone.
void WriteCacheFile(const std::string& path, std::initializer_list<std::string_view> parts);
// Gives a file a CachePath as a second name, where both are of one file system.
void LinkCacheFile(const std::string& file, const std::string& path);
// What CachePath gives for this kind, without an ID: for another program that makes such files.
// Makes the folder; empty when there is none.
std::string CachePrefix(std::string_view kind);
// Deletes the files of a kind that were not used for longest, until they have at most `most` bytes.
void LimitCacheFiles(std::string_view kind, uint64_t most);
// Deletes what has been linked so and lost its first name, for longer than `kept`.
void DropUnusedCacheFiles(std::string_view kind, std::chrono::seconds kept);

class NewFile;  // disk_cache.cc

// Such a file that is large: its bytes are written in the file's own pages, without a copy of them.
class LargeCacheFile {
 public:
  // Null when there is no room for one.
  static std::unique_ptr<LargeCacheFile> Create(const std::string& path, uint64_t size);
  // Unless it is finished, no file is left.
  ~LargeCacheFile();

  // `size` bytes; valid as long as somebody holds them.
  const std::shared_ptr<uint8_t>& memory() const { return memory_; }
  // It is whole: its memory is read-only from now on. Called once.
  void Finish();

 private:
  LargeCacheFile() = default;
  std::unique_ptr<NewFile> file_;
  std::shared_ptr<uint8_t> memory_;
  uint64_t size_ = 0;
};

}  // namespace ttq

#endif  // TTQ_BASE_DISK_CACHE_H_

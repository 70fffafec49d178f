// SPDX-License-Identifier: MIT
//
// RocksDB as this store uses it: column families that are only ever added to, in sorted batches
// that appear all at once, and read back. The only file that knows RocksDB is database.cc.
//
// Thread-safety: all methods, from any thread. An Iterator belongs to one thread.

#ifndef TTQ_STORE_DATABASE_H_
#define TTQ_STORE_DATABASE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/format/format.h"

namespace ttq {

class Database {
 public:
  // Rows to be added together: sorted by key when they are added, no key twice.
  class Batch {
   public:
    void Put(Family family, std::string key, std::string value) {
      rows_[static_cast<int>(family)].emplace_back(std::move(key), std::move(value));
      bytes_ += rows_[static_cast<int>(family)].back().second.size() + 32;
    }
    size_t bytes() const { return bytes_; }
    bool empty() const { return bytes_ == 0; }

   private:
    friend class Database;
    void Append(Batch more);

    std::vector<std::pair<std::string, std::string>> rows_[static_cast<int>(Family::kCount)];
    size_t bytes_ = 0;
  };

  class Iterator {
   public:
    virtual ~Iterator() = default;
    virtual void Seek(std::string_view key) = 0;         // first key >= `key`
    virtual void SeekForPrev(std::string_view key) = 0;  // last key <= `key`
    virtual void Next() = 0;
    virtual void Prev() = 0;
    virtual bool Valid() const = 0;
    virtual std::string_view key() const = 0;
    virtual std::string_view value() const = 0;
    // Not Ok when Valid() is false because of damage rather than the end.
    virtual absl::Status status() const = 0;
  };

  // Creates a new store; the directory must not exist.
  static absl::StatusOr<std::unique_ptr<Database>> Create(const std::string& directory);
  // Opens one for reading, also while another process writes it. Changes nothing in the directory.
  static absl::StatusOr<std::unique_ptr<Database>> OpenForReading(const std::string& directory);
  ~Database();

  // Adds a batch of sorted files, atomically over all families; ResourceExhausted when the disk is
  // full. REQUIRES: opened by Create.
  absl::Status Add(Batch batch);
  // From now on batches wait for others, and are added later, which is when an error of theirs is
  // told; Flush adds what is left, and tells all errors that were not. For a store that nobody
  // reads before it is finished. Those with parts of files do not wait: the writer reads them.
  void GatherBatches();
  // Small records of kMeta that are replaced. Survives a crash of the process.
  absl::Status Put(std::string_view key, std::string_view value);

  // Adds what waits, and makes the records that Put stored part of the sorted files, which say when
  // one is missing.
  absl::Status Flush();
  // After a failure that has passed, as a full disk that has room again: writing may go on. Whether
  // it can, the next Put says.
  void Recover();

  // NotFound when there is none.
  absl::StatusOr<std::string> Get(Family family, std::string_view key) const;
  std::unique_ptr<Iterator> NewIterator(Family family) const;

  // How much of what was read is kept in memory, from now on.
  void SetCacheBytes(size_t bytes);

  // The first damage that anybody met who read, also one who went on without what did not read; Ok
  // while there was none. NoteDamage adds what only a reader of the rows can tell.
  absl::Status Damage() const;
  void NoteDamage(const absl::Status& damage) const;

  // Reads every sorted file and compares it with the checksum that was stored when it was added; of
  // stores before kStoreVersion7, each of its blocks with its own.
  absl::Status VerifyChecksums() const;

 private:
  Database();
  absl::Status AddNow(Batch batch);
  // The first error of those that were waited for. REQUIRES: the mutex of what is gathered is held,
  // or nobody else is there.
  absl::Status WaitUntilAdded(size_t all_but);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ttq

#endif  // TTQ_STORE_DATABASE_H_

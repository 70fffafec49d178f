// SPDX-License-Identifier: MIT
//
// Memory of a recorded process as the Python decoders read it: whole values or nothing. What they
// read was laid out by an interpreter that may have been interrupted in the middle of a change, or
// whose heap is corrupt: a read that fails is an ordinary answer, and what succeeds proves nothing.
//
// Belongs to one thread.

#ifndef TTQ_QUERY_CPYTHON_MEMORY_H_
#define TTQ_QUERY_CPYTHON_MEMORY_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/types.h"
#include "store/read/reader.h"

namespace ttq::python {

class Memory {
 public:
  virtual ~Memory() = default;
  // All `size` bytes from `at` on, or false and nothing.
  virtual bool Read(uint64_t at, size_t size, void* out) = 0;

  template <class T>
  std::optional<T> Get(uint64_t at) {
    T value;
    if (!Read(at, sizeof value, &value)) return std::nullopt;
    return value;
  }
  // 0 where the memory is not known: a null pointer and an unreadable one end a walk alike.
  uint64_t Pointer(uint64_t at) { return Get<uint64_t>(at).value_or(0); }
  // Up to `most` bytes; nullopt when not all are there.
  std::optional<std::string> Bytes(uint64_t at, uint64_t size, uint64_t most);
  // Up to the NUL, at most `most` bytes; nullopt when there is none in them.
  std::optional<std::string> CString(uint64_t at, size_t most = 512);
};

// The memory at a moment. Keeps the pages it has read until the moment is moved through it.
class MomentMemory : public Memory {
 public:
  // `moment` must outlive this and be moved through MoveTo only.
  explicit MomentMemory(Moment* moment) : moment_(moment) {}

  bool Read(uint64_t at, size_t size, void* out) override;
  absl::Status MoveTo(Time t);
  Moment* moment() const { return moment_; }
  // The first failure of the store itself (not: memory that is not mapped).
  const absl::Status& status() const { return status_; }

 private:
  struct Page {
    uint64_t known = 0;  // bytes from its begin
    std::array<uint8_t, kPageBytes> bytes;
  };
  const Page& Fetch(uint64_t page);

  Moment* moment_;
  absl::Status status_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Page>> pages_;
};

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_MEMORY_H_

// SPDX-License-Identifier: MIT
//
// Memory kept back for the end. Some libraries do not survive an allocation that fails: RocksDB
// keeps its locks, or ends the process by an assertion. With a reserve they do not see one. The
// first time that `operator new` finds no memory, the reserve is given back and the allocation
// succeeds; whoever looks at Spent() ends its work with what is left.

#ifndef TTQ_BASE_MEMORY_RESERVE_H_
#define TTQ_BASE_MEMORY_RESERVE_H_

#include <cstddef>
#include <new>

namespace ttq {

class MemoryReserve {
 public:
  // One at a time in a process. `last_words` is called, on any thread, when there is no memory
  // although the reserve is spent; it must not allocate, and must not return. Throws
  // std::bad_alloc.
  MemoryReserve(size_t bytes, void (*last_words)());
  ~MemoryReserve();
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;

  static bool Spent();

 private:
  std::new_handler before_;
};

}  // namespace ttq

#endif  // TTQ_BASE_MEMORY_RESERVE_H_

// SPDX-License-Identifier: MIT
//
// Which process of a recording a ring is of.

#ifndef TTQ_STORE_WRITE_PROCESS_NUMBERS_H_
#define TTQ_STORE_WRITE_PROCESS_NUMBERS_H_

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "base/types.h"
#include "recorder/ring.h"

namespace ttq {

class ProcessNumbers {
 public:
  struct Numbers {
    ProcessNo process, parent;  // 0: none
  };
  // Of a new ring: those it comes with, where its process is run again, or the next. Who executed
  // it is the parent of one that nobody forked.
  Numbers Next(const Ring& ring) {
    Numbers out = {ProcessNo(ring.process()), ProcessNo(ring.parent_process())};
    if (out.process.v == 0) {
      out.process = ProcessNo(last_ + 1);
      const std::string parent = ring.parent_ring();
      out.parent = parent.empty() ? Find(of_pid_, ring.pid()) : Find(of_ring_, parent);
    }
    last_ = std::max(last_, out.process.v);
    of_pid_[ring.pid()] = out.process;
    of_ring_[ring.name()] = out.process;
    return out;
  }

 private:
  template <class Map, class Key>
  static ProcessNo Find(const Map& map, const Key& key) {
    const auto it = map.find(key);
    return it == map.end() ? ProcessNo() : it->second;
  }

  uint32_t last_ = 0;
  absl::flat_hash_map<uint32_t, ProcessNo> of_pid_;      // the newest
  absl::flat_hash_map<std::string, ProcessNo> of_ring_;  // by name
};

}  // namespace ttq

#endif  // TTQ_STORE_WRITE_PROCESS_NUMBERS_H_

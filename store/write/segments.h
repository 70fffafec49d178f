// SPDX-License-Identifier: MIT
//
// Whether a process's second run can be divided into segments (recorder/engine/replay.cc): each is
// a fork, and what the program has mapped from files is, there, one memory to all of them.

#ifndef TTQ_STORE_WRITE_SEGMENTS_H_
#define TTQ_STORE_WRITE_SEGMENTS_H_

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "recorder/inputs_file.h"
#include "recorder/stream.h"

namespace ttq {

// What a process and those before it, from which it was forked, do to such memory.
class MappedFiles {
 public:
  // The inputs of one, behind those of its parent.
  void Look(const InputsFile& inputs);
  // Whether it may be at one time what it is not at another. Of segments one may be ahead.
  bool may_change() const { return may_change_; }

 private:
  void LookAt(uint32_t kind, std::string_view payload);
  void Map(const TtqMap& map);
  void Change(uint64_t address, uint64_t bytes);

  struct Range {
    uint64_t begin, end;
  };
  bool may_change_ = false;
  std::vector<Range> shared_;  // mappings, also those that were
  struct File {
    bool shared;
    uint64_t bytes;
  };
  std::map<std::pair<uint64_t, uint64_t>, File> files_;  // by device and inode
};

}  // namespace ttq

#endif  // TTQ_STORE_WRITE_SEGMENTS_H_

// SPDX-License-Identifier: MIT

#ifndef TTQ_STORE_WALK_LOADED_BLOCK_H_
#define TTQ_STORE_WALK_LOADED_BLOCK_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "store/walk/packed_log.h"
#include "store/walk/walk.h"

namespace ttq {

// A block's log, ready to walk.
struct LoadedBlock {
  BlockNo number;  // of its key
  Time start;
  uint32_t current_tid = 0, next_thread = 0;
  struct Snapshot {
    uint32_t tid;
    ThreadNo thread;
    uint64_t last_pc;
    ThreadState state;
  };
  std::vector<Snapshot> threads;
  Log log;
};

// Header and log. DataLoss when the log is not what its hash or the recipes say.
absl::StatusOr<LoadedBlock> ParseBlock(const RecipeTable& recipes, std::string_view value);

}  // namespace ttq

#endif  // TTQ_STORE_WALK_LOADED_BLOCK_H_

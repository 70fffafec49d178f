// SPDX-License-Identifier: MIT
//
// Takes the inputs (inputs.h) out of a stream.

#ifndef TTQ_TESTS_SUPPORT_EXTRACT_INPUTS_H_
#define TTQ_TESTS_SUPPORT_EXTRACT_INPUTS_H_

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "absl/status/status.h"
#include "recorder/inputs_file.h"
#include "recorder/ring.h"

namespace ttq {

class InputsExtractor {
 public:
  // Blocks of one process, from its first on, in order. DataLoss when one is damaged.
  absl::Status Take(const BlockView& block);
  // Of the blocks so far, without what the ring says.
  InputsFile& file() { return file_; }

 private:
  struct Lengths {  // of a superblock's records, by the exit
    uint32_t of[1 << kTtqExitBits] = {};
  };
  absl::Status TakeRecipes(std::string_view recipes);
  size_t BeginningBytes(std::string_view log) const;
  void Note(uint32_t kind, std::string_view payload);

  InputsFile file_;
  std::unordered_map<uint32_t, Lengths> lengths_;  // by id
  uint32_t thread_ = 0;                            // that runs; 0: none
  std::unordered_map<uint32_t, int64_t> calls_;    // the system call that a thread is in
  bool process_ends_ = false;
  TtqInput end_ = {0, 0, kTtqInputsEnd, 0};
};

}  // namespace ttq

#endif  // TTQ_TESTS_SUPPORT_EXTRACT_INPUTS_H_

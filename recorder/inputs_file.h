// SPDX-License-Identifier: MIT
//
// The inputs of one process (inputs.h), put together for the engine that runs it again.

#ifndef TTQ_RECORDER_INPUTS_FILE_H_
#define TTQ_RECORDER_INPUTS_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "recorder/inputs.h"
#include "recorder/ring.h"

namespace ttq {

struct InputsFile {
  TtqInputs head = {};    // but for counts and the hash
  std::string arguments;  // as in TtqRing
  std::string records;
  std::vector<TtqInputsBlock> blocks;

  void Add(const TtqInput& input, std::string_view payload);
  // A block of a ring that holds inputs, or, of one that is not whole yet, TtqInputsBlock as of
  // then and some records: what follows of the block has no others. DataLoss when it is damaged.
  absl::Status AddBlock(std::string_view log, bool is_whole = true);
  // What the ring says of the process: before its blocks, and, of its end, behind them.
  void Begin(const Ring& ring);
  void End(const Ring& ring);

  // Program, working directory, argv, as Ring::arguments.
  std::vector<std::string> Words() const;

  // The file.
  std::string Encode() const;

 private:
  bool last_is_whole_ = true;
};

}  // namespace ttq

#endif  // TTQ_RECORDER_INPUTS_FILE_H_

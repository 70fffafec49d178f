// SPDX-License-Identifier: MIT

#include "recorder/inputs_file.h"

#include <cstring>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace ttq {
namespace {

template <class T>
void Append(const T& value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void Pad(std::string* out) { out->resize((out->size() + 7) & ~size_t{7}); }

// Whether records are whole ones.
bool AreWhole(std::string_view records) {
  while (!records.empty()) {
    TtqInput input;
    if (records.size() < sizeof(input)) return false;
    memcpy(&input, records.data(), sizeof(input));
    if (BytesOfInput(input) > records.size()) return false;
    records.remove_prefix(BytesOfInput(input));
  }
  return true;
}

}  // namespace

void InputsFile::Add(const TtqInput& input, std::string_view payload) {
  Append(input, &records);
  records.append(payload);
  Pad(&records);
}

absl::Status InputsFile::AddBlock(std::string_view log, bool is_whole) {
  TtqInputsBlock block;
  if (log.size() < sizeof(block) || !AreWhole(log.substr(sizeof(block)))) {
    return absl::DataLossError("a block of inputs is damaged");
  }
  memcpy(&block, log.data(), sizeof(block));
  if (!last_is_whole_) blocks.pop_back();
  last_is_whole_ = is_whole;
  blocks.push_back(block);
  records.append(log.substr(sizeof(block)));
  return absl::OkStatus();
}

void InputsFile::Begin(const Ring& ring) {
  head.start_wall_ns = ring.start_wall_ns();
  head.magic = TTQ_INPUTS_MAGIC;
  head.stream_version = kTtqStreamVersion;
  head.pid = ring.pid();
  head.fork_number = ring.parent_ring().empty() ? 0 : ring.fork_number();
  arguments.clear();
  for (const std::string& word : ring.arguments()) arguments.append(word.c_str(), word.size() + 1);
}

void InputsFile::End(const Ring& ring) {
  head.fatal_signal = ring.fatal_signal();
  head.exit_status = ring.exit_status();
  head.finished = ring.finished() ? 1 : 0;
  head.superseded = ring.superseded() ? 1 : 0;
  head.became_other = ring.became_other() ? 1 : 0;
}

std::vector<std::string> InputsFile::Words() const {
  return absl::StrSplit(absl::StripSuffix(arguments, absl::string_view("\0", 1)), '\0');
}

std::string InputsFile::Encode() const {
  TtqInputs whole = head;
  whole.blocks = static_cast<uint32_t>(blocks.size());
  whole.argument_bytes = static_cast<uint32_t>(arguments.size());
  std::string out;
  Append(whole, &out);
  out += arguments;
  Pad(&out);
  const size_t records_at = out.size();
  out += records;
  TtqInput end = {0, 0, kTtqInputsEnd, 0};
  if (!blocks.empty()) end.block = whole.blocks - 1, end.offset = blocks.back().log_bytes;
  Append(end, &out);
  whole.bytes = out.size() - records_at;
  for (const TtqInputsBlock& block : blocks) Append(block, &out);
  whole.hash = HashBytes(out.data() + sizeof(whole), out.size() - sizeof(whole));
  memcpy(out.data(), &whole, sizeof(whole));
  return out;
}

}  // namespace ttq

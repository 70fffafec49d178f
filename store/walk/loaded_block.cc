// SPDX-License-Identifier: MIT

#include "store/walk/loaded_block.h"

#include <zstd.h>

#include <array>
#include <memory>

#include "base/status_macros.h"
#include "store/format/format.h"
#include "store/format/message.h"
#include "store/format/trace.capnp.h"

namespace ttq {
namespace {

constexpr uint32_t kMaxLogBytes = 256 << 20;

}  // namespace

absl::StatusOr<LoadedBlock> ParseBlock(const RecipeTable& recipes, std::string_view value) {
  auto damaged = [&](const char* what) { return absl::DataLossError(what); };
  if (value.size() < 4) return damaged("its header is cut off");
  const uint32_t header_bytes = ReadBig32(value.substr(value.size() - 4));
  value.remove_suffix(4);
  if (header_bytes > value.size()) return damaged("its header is cut off");
  const std::string_view header = value.substr(value.size() - header_bytes);
  value.remove_suffix(header_bytes);
  LoadedBlock block;
  uint32_t log_bytes = 0;
  std::array<LogPart, 3> parts;
  uint64_t log_hash = 0;
  absl::Status s = ReadMessage<schema::BlockHeader>(header, "block header", [&](auto h) {
    block.start = Time(h.getStartTime());
    block.current_tid = h.getCurrentTid();
    block.next_thread = h.getNextThread();
    log_hash = h.getLogHash();
    log_bytes = h.getLogBytes();
    auto log_parts = h.getLogParts();
    for (unsigned p = 0; p < log_parts.size() && p < parts.size(); ++p) {
      parts[p] = {log_parts[p].getBytes(), log_parts[p].getStoredBytes()};
    }
    for (auto t : h.getThreads()) {
      LoadedBlock::Snapshot snapshot{t.getTid(), ThreadNo(t.getNumber()), t.getLastPc(), {}};
      auto regs = t.getRegisters();
      for (unsigned r = 0; r < kTtqRegCount && r < regs.size(); ++r) {
        snapshot.state.reg[r] = regs[r];
      }
      snapshot.state.pc = t.getPc();
      block.threads.push_back(snapshot);
    }
  });
  if (!s.ok()) return s;
  if (log_bytes > kMaxLogBytes) return damaged("its log is too large");
  std::array<std::unique_ptr<char[]>, parts.size()> unpacked;
  std::array<std::string_view, parts.size()> sequences;
  for (size_t p = 0; p < parts.size(); ++p) {
    const auto [bytes, stored_bytes] = parts[p];
    if (bytes > kMaxLogBytes) return damaged("its log is too large");
    if (stored_bytes > value.size()) return damaged("its log is cut off");
    sequences[p] = value.substr(0, stored_bytes);
    value.remove_prefix(stored_bytes);
    if (stored_bytes == bytes) continue;
    if (ZSTD_getFrameContentSize(sequences[p].data(), stored_bytes) != bytes) {
      return damaged("its log is of another size than its header says");
    }
    unpacked[p] = std::make_unique_for_overwrite<char[]>(bytes);
    size_t n = ZSTD_decompress(unpacked[p].get(), bytes, sequences[p].data(), stored_bytes);
    if (ZSTD_isError(n) || n != bytes) return damaged("its log does not decompress");
    sequences[p] = {unpacked[p].get(), bytes};
  }
  if (!value.empty()) return damaged("its log is of another size than its header says");
  const PackedLog packed{sequences[0], sequences[1], sequences[2]};
  if (PackedLogHash(packed) != log_hash) return damaged("its log differs from its hash");
  ASSIGN_OR_RETURN(block.log, UnpackLog(recipes, packed, log_bytes));
  return block;
}

}  // namespace ttq

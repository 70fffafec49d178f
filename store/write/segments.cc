// SPDX-License-Identifier: MIT

#include "store/write/segments.h"

#include <sys/mman.h>

#include "store/format/inputs_log.h"
#include "store/walk/walk.h"

namespace ttq {

void MappedFiles::Look(const InputsFile& inputs) {
  ForEachInput(inputs.records, [this](const TtqInput& input, std::string_view payload) {
    LookAt(input.kind, payload);
  });
}

void MappedFiles::LookAt(uint32_t kind, std::string_view payload) {
  if (kind == kTtqFileSize) may_change_ = true;
  if (kind == kTtqMap && payload.size() >= sizeof(TtqMap)) Map(LoadPod<TtqMap>(payload));
  if (kind == kTtqKernelWrite && payload.size() >= sizeof(TtqKernelWrite)) {
    const auto w = LoadPod<TtqKernelWrite>(payload);
    if (w.actor != kTtqInitial) Change(w.address, payload.size() - sizeof(w));
  }
  if (kind == kTtqProtect && payload.size() >= sizeof(TtqRange)) {
    const auto r = LoadPod<TtqRange>(payload);
    if (r.protection & PROT_WRITE) Change(r.address, r.bytes);
  }
  if (kind == kTtqRemap && payload.size() >= sizeof(TtqRemap)) {
    const auto r = LoadPod<TtqRemap>(payload);
    Change(r.from, r.bytes);
  }
}

void MappedFiles::Map(const TtqMap& map) {
  const bool is_module = map.content == kTtqContentFile;
  if (map.kind == kTtqMapFile && !is_module) {
    // What it holds is written when it is mapped, and shows in all mappings; so does where it ends.
    const File now = {map.shared != 0, map.file_bytes};
    const auto [file, is_new] = files_.try_emplace({map.dev, map.ino}, now);
    const File& before = file->second;
    if (now.shared != before.shared || now.bytes != before.bytes) may_change_ = true;
    if (!is_new && now.shared) may_change_ = true;
  }
  if (!map.shared || is_module) return;
  if (map.kind != kTtqMapFile || (map.protection & PROT_WRITE)) may_change_ = true;
  shared_.push_back({map.address, map.address + map.bytes});
}

void MappedFiles::Change(uint64_t address, uint64_t bytes) {
  for (const Range& range : shared_) {
    if (address < range.end && range.begin < address + bytes) may_change_ = true;
  }
}

}  // namespace ttq

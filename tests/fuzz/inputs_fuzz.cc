// SPDX-License-Identifier: MIT
//
// Logs of inputs (store/format/inputs_log.h): bytes as they come, and frames whose hashes are
// right.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "store/format/inputs_frame.h"
#include "store/format/inputs_log.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int fd = memfd_create("inputs", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  std::string file;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (size == 0 || data[0] % 2 == 0) {
    file = bytes.substr(std::min<size_t>(size, 1));
  } else {
    ttq::InputsFrameWriter writer;
    for (size_t at = 1; at + 3 <= size;) {
      const auto kind = static_cast<ttq::InputsFrame>(data[at] % 7);
      const size_t length = data[at + 1] | (data[at + 2] % 4) << 8;
      file += writer.Next(kind, bytes.substr(at + 3, length), data[at + 2] / 4 % 2 == 1);
      at += 3 + length;
    }
  }
  if (ftruncate(fd, 0) != 0 || pwrite(fd, file.data(), file.size(), 0) < 0) abort();
  const auto read = ttq::ReadInputs(path);
  if (!read.ok()) return 0;
  ttq::ForEachMappedFile(read->file.records, [](const TtqMap& map, const std::string& mapped) {
    if (mapped.empty() || ttq::CopyName(map).empty()) abort();
  });
  const absl::Status logs = ttq::ForEachLogBlock(path, *read, [](const ttq::BlockView& block) {
    if (block.log.size() != block.head.log_bytes) abort();
    return absl::OkStatus();
  });
  if (logs.ok() && read->log_at == 0 && read->log_bytes != 0) abort();
  if (read->file.Encode().size() < sizeof(TtqInputs)) abort();
  return 0;
}

// SPDX-License-Identifier: MIT
//
// One moment of a process that was not recorded. core_file.h and live.h make one from a core dump
// and from a running process; write_moment.h writes it as a recording.

#ifndef TTQ_IMPORT_MOMENT_H_
#define TTQ_IMPORT_MOMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recorder/stream.h"
#include "store/format/moment_info.h"

namespace ttq {

struct MomentThread {
  uint32_t os_tid = 0;
  std::string name;
  int64_t syscall = -1;  // the number of the one that it is in
  TtqRegisters registers{};
  TtqVectors vectors{};
  bool has_vectors = false;
};

// The signal that ended the process. It was the first thread's.
struct MomentSignal {
  int number = 0;
  int64_t code = 0;
  uint64_t address = 0;  // of a fault
};

struct MomentMapping {
  uint64_t begin = 0, end = 0;
  uint8_t protection = 0;  // PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4
  bool shared = false;
  uint8_t kind = kTtqMapAnonymous;
  std::string path;          // as the process knew it; "[vdso]"; empty: anonymous
  uint64_t file_offset = 0;  // bytes
  // [begin, known_end) can be read; what follows was not dumped.
  uint64_t known_end = 0;
  // Of a file: what its bytes are read from where memory does not tell them; empty: nothing has
  // them. Of the same build-id as what was mapped.
  std::string bytes_at;
};

class MomentMemory {
 public:
  virtual ~MomentMemory() = default;
  // Copies what is known from `address` on, up to `size` bytes, and gives how many those were.
  virtual uint64_t Read(uint64_t address, uint64_t size, void* out) const = 0;
  // The first page from `address` on, one of `mapping`, that may differ from what was mapped.
  virtual uint64_t NextOwn(const MomentMapping& mapping, uint64_t address) const {
    (void)mapping;
    return address;
  }
};

struct ProcessMoment {
  Beginning beginning = Beginning::kCore;
  uint32_t pid = 0;
  int64_t wall_ns = 0;
  std::string program, working_directory;
  std::vector<std::string> arguments;
  std::vector<MomentThread> threads;  // the one that counts first
  std::optional<MomentSignal> signal;
  std::vector<MomentMapping> mappings;  // by address; disjoint
  std::vector<Descriptor> descriptors;
  // What is missing and why, a sentence each; and of that what makes any answer doubtful, a clause.
  std::vector<std::string> remarks;
  std::string incomplete;
};

}  // namespace ttq

#endif  // TTQ_IMPORT_MOMENT_H_

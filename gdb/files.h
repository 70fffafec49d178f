// SPDX-License-Identifier: MIT
//
// The files that a debugger reads through the stub: the ELF files that the recording keeps, under
// the names by which the program knew them, and what /proc would say of the process. So a debugger
// works where the program is not installed.

#ifndef TTQ_GDB_FILES_H_
#define TTQ_GDB_FILES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_image.h"
#include "gdb/timeline.h"
#include "query/process/process_names.h"
#include "store/read/reader.h"

namespace ttq::gdb {

class Files {
 public:
  // Both must outlive this object.
  Files(const Recording* recording, Timeline* timeline)
      : recording_(*recording),
        timeline_(*timeline),
        process_(timeline->process()),
        names_(recording, &process_) {}

  // The answer to `vFile:REQUEST`; empty: an operation that is not offered.
  std::string Answer(std::string_view request);

  // The auxiliary vector that the kernel gave the program; empty when it is not known.
  const std::string& AuxiliaryVector();
  // The path of the program itself; empty when it is not known.
  std::string Program();
  // Where the dynamic linker has the name and addresses of a module: its link_map.
  struct Linked {
    Address link_map;
    uint64_t load_bias = 0;
    std::string name;
  };
  std::vector<Linked> LinkMaps();
  // Where a thread has its copy of a module's thread-local variables. `fs_base`: the thread's.
  // nullopt: it has none yet, or the C library is not one that is understood.
  std::optional<Address> ThreadLocalBlock(Address link_map, uint64_t fs_base);

 private:
  std::string Open(std::string_view arguments);
  std::string Pread(std::string_view arguments);
  std::string Fstat(std::string_view arguments);
  std::string Close(std::string_view arguments);
  std::string ReadLink(std::string_view arguments);
  absl::StatusOr<FileImage> Contents(const std::string& path);
  // Of a file in /proc/PID/; nullopt: it is none, or not offered.
  std::optional<std::string> InProc(const std::string& path);
  std::string Maps();
  std::string SearchAuxiliaryVector();
  std::optional<uint64_t> FromAuxiliaryVector(uint64_t type);
  std::optional<uint64_t> Number(uint64_t address);
  std::string Text(uint64_t address);

  const Recording& recording_;
  Timeline& timeline_;
  const Process& process_;
  const ProcessNames names_;
  std::map<uint32_t, FileImage> open_;
  uint32_t next_ = 3;
  std::optional<std::string> auxiliary_vector_;
};

}  // namespace ttq::gdb

#endif  // TTQ_GDB_FILES_H_

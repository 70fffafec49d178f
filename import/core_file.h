// SPDX-License-Identifier: MIT
//
// Reads an ELF core dump: the kernel's (core(5)) or one of gdb's gcore. Nothing in it is trusted:
// what does not fit into the file is left out and said.

#ifndef TTQ_IMPORT_CORE_FILE_H_
#define TTQ_IMPORT_CORE_FILE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_image.h"
#include "import/moment.h"

namespace ttq {

class CoreFile : public MomentMemory {
 public:
  // InvalidArgument when it is no core dump of an x86-64 Linux process, with what it is instead;
  // DataLoss when it is one that tells of no thread. `packing`: what is missing of the file, as
  // ReadPacked says it. `name` is for messages.
  static absl::StatusOr<std::unique_ptr<CoreFile>> Parse(FileImage image, const std::string& name,
                                                         const std::string& packing = "");

  // Without `bytes_at`, and without where it came from.
  const ProcessMoment& moment() const { return moment_; }
  ProcessMoment& moment() { return moment_; }
  uint64_t Read(uint64_t address, uint64_t size, void* out) const override;

  // Of the auxiliary vector; 0: not there.
  uint64_t vdso() const { return vdso_; }

 private:
  class Reader;
  struct Segment {
    uint64_t begin, end;  // [begin, end) is in the file
    uint64_t offset;      // there
  };

  CoreFile() = default;

  FileImage image_;
  ProcessMoment moment_;
  std::vector<Segment> segments_;  // by address, disjoint
  uint64_t vdso_ = 0;
};

}  // namespace ttq

#endif  // TTQ_IMPORT_CORE_FILE_H_

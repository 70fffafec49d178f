// SPDX-License-Identifier: MIT
//
// The little of ELF that the store needs.

#ifndef TTQ_BASE_ELF_H_
#define TTQ_BASE_ELF_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"

namespace ttq {

// Reads `n` bytes at `offset` of a file; false when they are not all there.
using ReadFileBytes = absl::FunctionRef<bool(uint64_t offset, size_t n, void* out)>;

// The GNU build-id in lower-case hex; empty when there is none or the file is damaged.
std::string ElfBuildId(ReadFileBytes read);
// Of a file whose bytes are `file`.
std::string ElfBuildId(std::string_view file);

// What to add to the file's virtual addresses when file offset `offset` is mapped at `address` with
// `protection` (PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4); empty when no loadable segment holds that
// offset. Two segments may share a page of the file: the one with that protection comes first,
// though the dynamic linker may have changed it since (PT_GNU_RELRO). `head`: as much of the file
// as its program headers take.
std::vector<uint64_t> ElfLoadBiases(std::string_view head, uint64_t offset, uint64_t address,
                                    uint8_t protection);

}  // namespace ttq

#endif  // TTQ_BASE_ELF_H_

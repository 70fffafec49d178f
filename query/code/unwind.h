// SPDX-License-Identifier: MIT
//
// Call-frame information of one ELF file (.eh_frame, .debug_frame): for every instruction, where
// the caller's registers are. Formats: DWARF 5 section 6.4, System V ABI AMD64 3.7, LSB "Exception
// Frames".
//
// The sections are untrusted: what is damaged gives no row, never a crash; all loops are bounded.
// Addresses are the file's own. NOT thread-safe: rows are computed and kept when asked for.

#ifndef TTQ_QUERY_CODE_UNWIND_H_
#define TTQ_QUERY_CODE_UNWIND_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "base/byte_cursor.h"
#include "query/code/elf_file.h"

namespace ttq {

// DWARF's numbers of the general registers, then of the return address (AMD64 ABI, figure 3.36).
inline constexpr int kDwarfRegisters = 17;
inline constexpr int kDwarfRsp = 7, kDwarfReturnAddress = 16;

// Where the caller's value of a register is.
struct UnwindRule {
  enum class Kind : uint8_t {
    kUnspecified,   // nothing is said: the same for registers that calls preserve
    kUndefined,     // lost; of the return address: there is no caller
    kSameValue,     // still in the register
    kAtOffset,      // in memory at CFA + offset
    kOffset,        // it is CFA + offset
    kRegister,      // in register `offset`
    kAtExpression,  // in memory at the address that `expression` gives
    kExpression,    // it is what `expression` gives
  };
  Kind kind = Kind::kUnspecified;
  int64_t offset = 0;
  absl::Span<const uint8_t> expression;  // points into the file
};

struct UnwindRow {
  // The canonical frame address: register + offset, or an expression if there is one.
  uint64_t cfa_register = 0;
  int64_t cfa_offset = 0;
  absl::Span<const uint8_t> cfa_expression;
  std::array<UnwindRule, kDwarfRegisters> rules;
  // The frame was made by the kernel to deliver a signal: the caller's pc is no return address.
  bool signal_frame = false;
};

class UnwindTable {
 public:
  // `debug` is the file's separate debug file, or null. Keeps their bytes alive.
  UnwindTable(const ElfFile& elf, const ElfFile* debug);
  ~UnwindTable();

  // The row of the instruction at `address`; null where there is none. Valid as long as the table.
  const UnwindRow* Find(uint64_t address);
  // Where the CFA is from a register in the body of the function around `address`, and the
  // instruction from which on it is there; before that the function sets the register up. nullopt
  // where no row has the CFA by that register.
  struct Body {
    uint64_t begin = 0;
    int64_t cfa_offset = 0;
  };
  std::optional<Body> BodyBy(uint64_t cfa_register, uint64_t address);
  // [begin, end) of the code around `address` that one entry is about: a function, or a part of one
  // that lies elsewhere. nullopt where there is none.
  std::optional<std::pair<uint64_t, uint64_t>> FunctionAt(uint64_t address);

 private:
  struct Section;
  struct Entry;
  class Parser;

  // Whether a section has an entry for it.
  static bool FindEntry(Section* section, uint64_t address, Entry* entry);
  std::optional<UnwindRow> Compute(uint64_t address);
  std::vector<std::unique_ptr<Section>> sections_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<const UnwindRow>> rows_;
};

}  // namespace ttq

#endif  // TTQ_QUERY_CODE_UNWIND_H_

// SPDX-License-Identifier: MIT
//
// DWARF's expressions (DWARF 5 sections 2.5 and 2.6): where a variable is in a frame, a number,
// what call-frame information computes. They are untrusted: steps, stack and pieces are bounded.

#ifndef TTQ_QUERY_CODE_DWARF_EXPRESSION_H_
#define TTQ_QUERY_CODE_DWARF_EXPRESSION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "query/code/die.h"

namespace ttq {

// A variable, or consecutive bits of one.
struct LocationPiece {
  enum class Kind : uint8_t {
    kNowhere,   // no place; `why` says so if more is known
    kMemory,    // at `value`
    kRegister,  // DWARF register `value`
    kValue,     // it is `value` itself
    kBytes,     // it is `bytes` itself
    kPointer,   // it points `offset` bytes into the variable `target`, which is not in memory
  };
  Kind kind = Kind::kNowhere;
  uint64_t value = 0;
  ByteSpan bytes;
  DieRef target;
  int64_t offset = 0;
  uint64_t bits = 0;        // how many of the variable's; 0: all
  uint64_t bit_offset = 0;  // in the register or memory
  std::string why;
};

struct LocationInput {
  const DwarfData* data = nullptr;
  const DwarfUnit* unit = nullptr;
  uint64_t bias = 0;  // to be added to the file's addresses
  // Nothing: not known.
  std::function<std::optional<uint64_t>(int dwarf_register)> register_value;
  std::function<std::optional<uint64_t>(uint64_t address, uint32_t size)> memory;
  std::function<std::optional<uint64_t>()> frame_base, frame_address;
  // A register as it was at the function's entry; of vector registers the low eight bytes.
  std::function<std::optional<uint64_t>(int dwarf_register)> entry_register;
  // What the caller would have passed for a parameter that the compiler removed.
  std::function<std::optional<uint64_t>(DieRef parameter)> removed_parameter;
  // An offset in the module's block of the thread's own variables.
  std::function<std::optional<uint64_t>(uint64_t offset)> thread_local_address;
  std::optional<uint64_t> object_address;  // DW_OP_push_object_address
  // On the stack at the start: for a member's place in an object.
  std::optional<uint64_t> first;
};

// The pieces, at least one. What cannot be known becomes a piece that is nowhere and says why.
std::vector<LocationPiece> EvaluateLocation(ByteSpan expression, const LocationInput& input);

// The number that an expression computes, for bounds, frame bases and call-frame information.
// `why`, if it is not null, says what is missing.
std::optional<uint64_t> EvaluateNumber(ByteSpan expression, const LocationInput& input,
                                       std::string* why = nullptr);

// The general register with a DWARF number below 16, and the way back.
Gpr GprOfDwarf(int dwarf_register);
int DwarfOfGpr(Gpr reg);

// "rax", "xmm0", …
std::string DwarfRegisterName(uint64_t number);

}  // namespace ttq

#endif  // TTQ_QUERY_CODE_DWARF_EXPRESSION_H_

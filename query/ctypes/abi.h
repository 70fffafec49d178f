// SPDX-License-Identifier: MIT
//
// Where the System V AMD64 calling convention (psABI section 3.2.3) passes arguments and results,
// by their C types.
// Thread-safe: functions without state.

#ifndef TTQ_QUERY_CTYPES_ABI_H_
#define TTQ_QUERY_CTYPES_ABI_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "query/ctypes/c_value.h"
#include "query/ctypes/type_space.h"
#include "store/read/reader.h"

namespace ttq {

struct AbiLocation {
  // An eightbyte in a register: a general one (by its place in the order rdi, rsi, …, or rax, rdx
  // of results) or an xmm register, of which `whole` has both eightbytes.
  struct Piece {
    bool sse = false;
    int index = 0;
    bool whole = false;
  };
  std::vector<Piece> pieces;  // in order; empty: in memory
  uint64_t stack_offset = 0;  // in memory: from rsp at the entry, past the return address
  bool by_reference = false;  // what is passed is the object's address
  bool x87 = false;           // a result in st(0)
};

// `returns`: the function's result, which may take the first register for its own address.
std::vector<AbiLocation> PlacesOfArguments(const TypeSpace& types, const CType* returns,
                                           const std::vector<const CType*>& arguments);
// A result in memory is at the address in rax: no pieces and by_reference.
AbiLocation PlaceOfResult(const TypeSpace& types, const CType* type);

// The object at its place. `stack`: the address of stack_offset 0. What is in registers that are
// not recorded is not known, and the value says so. REQUIRES: not an argument of which the address
// is on the stack.
absl::StatusOr<CValue> ValueAtPlace(const TypeSpace& types, const AbiLocation& place,
                                    const CType* type, const Registers& registers, uint64_t stack,
                                    bool result);

// The general register of argument piece `index`, of result piece `index`.
Gpr ArgumentGpr(int index);
Gpr ResultGpr(int index);

}  // namespace ttq

#endif  // TTQ_QUERY_CTYPES_ABI_H_

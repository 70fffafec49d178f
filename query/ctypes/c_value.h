// SPDX-License-Identifier: MIT
//
// A value of a C type, as an expression gives it: in memory at an address, or bytes that a register
// or the debug information held. Where a variable has no location at an instruction, the value has
// the variable's last one. A plain value; the type's space must outlive it.

#ifndef TTQ_QUERY_CTYPES_C_VALUE_H_
#define TTQ_QUERY_CTYPES_C_VALUE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/types.h"
#include "query/ctypes/type.h"

namespace ttq {

// When a value was last known, because now it is not.
struct PastValue {
  Time time;
  std::string file;
  int line = 0;
  bool at_entry = false;  // as it was passed to the function
};

struct CValue {
  const CType* type = UnknownType();
  // The object is in memory; else it is `bytes`.
  bool in_memory = false;
  uint64_t address = 0;
  std::string bytes;
  // As long as `bytes`: nonzero where a byte is known. Empty: all are.
  std::string known;
  uint32_t bit_offset = 0, bit_size = 0;  // bit_size 0: no bit-field
  // Not empty: there is no value, and this is why.
  std::string missing;
  std::shared_ptr<const PastValue> past;
  // A pointer to something that is not in memory: what it points to.
  std::shared_ptr<const CValue> pointee;
  // An argument at its function's entry: the place in memory that the prologue will copy it to.
  std::optional<uint64_t> home;
  // It names memory, and `&` may be applied.
  bool has_address() const { return in_memory && bit_size == 0 && missing.empty(); }
};

}  // namespace ttq

#endif  // TTQ_QUERY_CTYPES_C_VALUE_H_

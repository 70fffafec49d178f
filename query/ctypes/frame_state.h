// SPDX-License-Identifier: MIT
//
// A frame with its variables: which are in scope at its pc, where each is, and, where one is
// nowhere at this instruction, where it last was. Belongs to one thread, as its moment does.

#ifndef TTQ_QUERY_CTYPES_FRAME_STATE_H_
#define TTQ_QUERY_CTYPES_FRAME_STATE_H_

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "query/code/dwarf_expression.h"
#include "query/ctypes/c_value.h"
#include "query/ctypes/frame.h"
#include "query/ctypes/process_types.h"
#include "query/ctypes/type_space.h"
#include "store/read/reader.h"

namespace ttq {

// A function's parameters, as they were written: also of a copy that has lost some.
std::vector<Die> ParametersOf(const Die& function);

class FrameState {
 public:
  // The moment must stay at its time while this is used.
  FrameState(const ProcessTypes& context, const TypeSpace& types, Moment* moment,
             const FrameView& view);

  const FrameView& view() const { return view_; }
  // Nothing where the pc is in no module with DWARF.
  const std::optional<TypeSpace::Placed>& placed() const { return placed_; }
  const DwarfUnit* unit() const;
  // DW_TAG_subprogram or inlined_subroutine; empty: DWARF does not know the function.
  const Die& function() const { return function_; }

  // The variable or parameter that `name` means here: the innermost. Empty: none.
  Die FindLocal(std::string_view name) const;
  // In order; those of the declaration, so that one the compiler removed is there too.
  std::vector<Die> Parameters() const { return ParametersOf(function_); }
  // The function that really exists begins at this instruction, and its arguments are still where
  // the ABI puts them: places in the frame that DWARF says hold for the whole function are only
  // filled by the prologue.
  bool AtEntry();
  // Every name in scope.
  std::vector<std::string> LocalNames() const;

  // Never without a type; `missing` says why there is no value. Errors are the store's.
  // `look_back`: a variable without a place now is given as it last was.
  absl::StatusOr<CValue> ValueOf(const Die& variable, bool look_back);
  // A variable outside of functions, of the module `placed`.
  absl::StatusOr<CValue> GlobalValue(const TypeSpace::Placed& placed, const Die& variable);

  std::optional<uint64_t> RegisterValue(int dwarf_register) const;
  // The high 8 bytes of a vector register of 16.
  std::optional<std::string> HighHalf(int dwarf_register) const;
  std::optional<uint64_t> FrameAddress();
  // The time of the function's first instruction in this activation; nothing: not found.
  absl::StatusOr<std::optional<Time>> EntryTime();
  // The first store error that an evaluation met, and Ok again.
  absl::Status TakeStatus();

 private:
  // The function's first instruction.
  std::optional<Address> Entry() const;
  // Its arguments are passed where the ABI puts them.
  bool FollowsAbi() const;
  // What was passed for a parameter, by the registers and the stack at the function's entry.
  absl::StatusOr<CValue> PassedValue(const Die& parameter, const CType* type,
                                     const Registers& registers);
  LocationInput Input(const TypeSpace::Placed& placed, const DwarfUnit& unit);
  CValue FromPieces(const std::vector<LocationPiece>& pieces, const CType* type,
                    const TypeSpace::Placed& placed);
  CValue PointedInto(CValue whole, uint64_t offset, const CType* pointer) const;
  CValue ConstantValue(const Die& variable, const CType* type) const;
  absl::StatusOr<std::optional<CValue>> LookBack(
      const Die& variable, const CType* type, const std::vector<DwarfData::LocationEntry>& entries);
  // What the caller would have passed for a parameter that the compiler removed (the compiler
  // describes that at the call); nothing: not known.
  absl::StatusOr<std::optional<uint64_t>> RemovedParameter(DieRef parameter);
  std::optional<uint64_t> Load(uint64_t address, uint32_t size);
  std::optional<uint64_t> ThreadPointer();
  const CType* SizedArray(const CType* type, const TypeSpace::Placed& placed,
                          const DwarfUnit& unit);
  // Reads a value in memory, so that it stays as it is now.
  absl::Status Freeze(CValue* value);

  const ProcessTypes& context_;
  const TypeSpace& types_;
  Moment* moment_;
  FrameView view_;
  std::optional<TypeSpace::Placed> placed_;
  std::vector<CodeScope> scopes_;  // of the function, outermost first
  Die outer_;                      // the function that really exists
  Die function_;
  std::optional<std::optional<uint64_t>> cfa_;
  bool entry_searched_ = false;
  std::optional<bool> at_entry_;
  std::vector<Die> parameters_;      // with their places by the ABI,
  std::vector<AbiLocation> passed_;  // once a value that was passed has been asked for
  int depth_ = 0;
  absl::Status status_;
};

}  // namespace ttq

#endif  // TTQ_QUERY_CTYPES_FRAME_STATE_H_

// SPDX-License-Identifier: MIT

#include "query/types/frame.h"

#include <libdwarf/dwarf.h>

#include "query/text.h"
#include "query/types/abi.h"
#include "query/types/frame_state.h"
#include "query/types/render.h"

namespace ttq {
namespace {

absl::StatusOr<Argument> Shown(const TypeSpace& types, Moment* moment, std::string name,
                               const CValue& value) {
  Argument argument;
  argument.name = std::move(name);
  argument.type = ToText(value.type);
  Renderer renderer(types, moment);
  absl::StatusOr<std::string> text = renderer.Text(value);
  if (!text.ok()) return text.status();
  argument.text = value.missing.empty() ? *std::move(text) : value.missing;
  absl::StatusOr<Value> structured = renderer.Structured(value);
  if (!structured.ok()) return structured.status();
  argument.value = *std::move(structured);
  return argument;
}

absl::StatusOr<std::vector<Argument>> Arguments(const Context& context, const FrameView& frame,
                                                Moment* moment, bool at_entry) {
  std::vector<Argument> out;
  absl::StatusOr<const TypeSpace*> types = context.TypesAt(moment->time());
  if (!types.ok()) return types.status();
  FrameState state(context, **types, moment, frame);
  if (!state.function()) return out;
  const std::vector<Die> parameters = state.Parameters();
  std::vector<AbiPlace> places;
  if (at_entry && state.function().tag() == DW_TAG_subprogram) {
    std::vector<const CType*> parameter_types;
    for (const Die& die : parameters) {
      parameter_types.push_back(state.placed()->file->TypeAt(DebugFile::TypeOf(die)));
    }
    places = PlacesOfArguments(**types,
                               state.placed()->file->TypeAt(DebugFile::TypeOf(state.function())),
                               parameter_types);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Die& die = parameters[i];
    CValue value;
    // A location that holds for the whole function is only filled by the prologue.
    bool whole = true;
    if (const auto a = die.Find(DW_AT_location)) {
      whole = !a->block.empty() || a->form == DW_FORM_exprloc;
    } else {
      whole = false;
    }
    const bool by_abi = !places.empty() && whole;
    if (!by_abi) {
      absl::StatusOr<CValue> found = state.ValueOf(die, /*look_back=*/!at_entry);
      if (!found.ok()) return found.status();
      value = *std::move(found);
    }
    if (by_abi || (!places.empty() && !value.missing.empty())) {
      const CType* type = state.placed()->file->TypeAt(DebugFile::TypeOf(die));
      absl::StatusOr<CValue> found = ValueAtPlace(**types, places[i], type, frame.registers,
                                                  frame.registers.gpr[kRsp] + 8, /*result=*/false);
      if (!found.ok()) return found.status();
      if (by_abi || found->missing.empty()) value = *std::move(found);
    }
    absl::StatusOr<Argument> argument =
        Shown(**types, moment, std::string(DebugFile::NameOf(die)), value);
    if (!argument.ok()) return argument.status();
    out.push_back(*std::move(argument));
  }
  return out;
}

}  // namespace

absl::StatusOr<std::vector<Argument>> ArgumentsOf(const Context& context, const FrameView& frame,
                                                  Moment* moment) {
  return Arguments(context, frame, moment, false);
}

absl::StatusOr<std::vector<Argument>> ArgumentsAtEntry(const Context& context,
                                                       const FrameView& frame, Moment* moment) {
  return Arguments(context, frame, moment, true);
}

absl::StatusOr<std::optional<ResultPlace>> ResultPlaceOf(const Context& context, Time t,
                                                         Address function) {
  absl::StatusOr<const TypeSpace*> types = context.TypesAt(t);
  if (!types.ok()) return types.status();
  const std::optional<TypeSpace::Placed> placed = (*types)->FileAt(function);
  if (!placed) return std::nullopt;
  const std::vector<CodeScope> scopes = placed->file->ScopesAt(function.v - placed->bias);
  if (scopes.empty()) return std::nullopt;
  const Die& die = scopes.front().die;
  // An assembler knows where a function is, not what it returns.
  if (die.data().RootOf(die.unit()).language == DW_LANG_Mips_Assembler) return std::nullopt;
  ResultPlace result;
  result.types = *types;
  result.type = placed->file->TypeAt(DebugFile::TypeOf(die));
  if (result.type->Strip()->kind == CType::Kind::kVoid) return result;
  result.place = PlaceOfResult(**types, result.type);
  const CType* type = (*types)->Complete(result.type);
  result.in_rax = result.place.pieces.size() == 1 && !result.place.pieces[0].sse &&
                  type->IsScalar() && !type->IsReference();
  return result;
}

absl::StatusOr<CValue> ResultAtReturn(const ResultPlace& result, const Registers& registers) {
  if (result.type->Strip()->kind != CType::Kind::kVoid) {
    return ValueAtPlace(*result.types, result.place, result.type, registers, 0, /*result=*/true);
  }
  CValue none;
  none.type = result.type;
  none.missing = "the function returns nothing";
  return none;
}

}  // namespace ttq

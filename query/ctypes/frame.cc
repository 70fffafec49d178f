// SPDX-License-Identifier: MIT

#include "query/ctypes/frame.h"

#include <libdwarf/dwarf.h>

#include <algorithm>

#include "base/number_text.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "query/ctypes/abi.h"
#include "query/ctypes/frame_state.h"
#include "query/ctypes/render.h"

namespace ttq {
namespace {

absl::StatusOr<Argument> Shown(const TypeSpace& types, Moment* moment, std::string name,
                               const CValue& value) {
  Argument argument;
  argument.name = std::move(name);
  argument.type = ToText(value.type);
  Renderer renderer(types, moment);
  ASSIGN_OR_RETURN(std::string text, renderer.Text(value));
  argument.text = value.missing.empty() ? std::move(text) : value.missing;
  ASSIGN_OR_RETURN(argument.value, renderer.Structured(value));
  return argument;
}

// What DWARF says of the function with its entry at an address.
struct Declaration {
  const TypeSpace* types;
  const DebugFile* file;
  Die die;
};

absl::StatusOr<std::optional<Declaration>> DeclarationOf(const ProcessTypes& context, Time t,
                                                         Address function) {
  ASSIGN_OR_RETURN(const TypeSpace* types, context.TypesAt(t));
  const std::optional<TypeSpace::Placed> placed = types->FileAt(function);
  if (!placed) return std::nullopt;
  const std::vector<CodeScope> scopes = placed->file->ScopesAt(function.v - placed->bias);
  if (scopes.empty()) return std::nullopt;
  return Declaration{types, placed->file, scopes.front().die};
}

}  // namespace

absl::StatusOr<std::vector<Argument>> ArgumentsOf(const ProcessTypes& context,
                                                  const FrameView& frame, Moment* moment) {
  std::vector<Argument> out;
  ASSIGN_OR_RETURN(const TypeSpace* types, context.TypesAt(moment->time()));
  FrameState state(context, *types, moment, frame);
  for (const Die& die : state.Parameters()) {
    ASSIGN_OR_RETURN(CValue value, state.ValueOf(die, /*look_back=*/true));
    ASSIGN_OR_RETURN(Argument argument,
                     Shown(*types, moment, std::string(DebugFile::NameOf(die)), value));
    out.push_back(std::move(argument));
  }
  return out;
}

absl::StatusOr<std::vector<Argument>> VariablesOf(const ProcessTypes& context,
                                                  const FrameView& frame, Moment* moment) {
  std::vector<Argument> out;
  ASSIGN_OR_RETURN(const TypeSpace* types, context.TypesAt(moment->time()));
  FrameState state(context, *types, moment, frame);
  const auto has = [&](const std::string& name) {
    return std::any_of(out.begin(), out.end(), [&](const Argument& a) { return a.name == name; });
  };
  for (const std::string& name : state.LocalNames()) {
    const Die die = state.FindLocal(name);
    if (!die || has(name)) continue;
    ASSIGN_OR_RETURN(CValue value, state.ValueOf(die, /*look_back=*/false));
    RETURN_IF_ERROR(state.TakeStatus());
    if (!value.missing.empty()) continue;
    ASSIGN_OR_RETURN(Argument variable, Shown(*types, moment, name, value));
    out.push_back(std::move(variable));
  }
  return out;
}

absl::StatusOr<std::optional<ReturnConvention>> ReturnConventionOf(const ProcessTypes& context,
                                                                   Time t, Address function) {
  ASSIGN_OR_RETURN(std::optional<Declaration> found, DeclarationOf(context, t, function));
  if (!found) return std::nullopt;
  const auto& [types, file, die] = *found;
  // An assembler knows where a function is, not what it returns.
  if (die.data().RootOf(die.unit()).language == DW_LANG_Mips_Assembler) return std::nullopt;
  ReturnConvention result;
  result.types = types;
  result.type = file->TypeAt(DebugFile::TypeOf(die));
  if (result.type->Strip()->kind == CType::Kind::kVoid) return result;
  result.place = PlaceOfResult(*types, result.type);
  const CType* type = types->Complete(result.type);
  result.in_rax = result.place.pieces.size() == 1 && !result.place.pieces[0].sse &&
                  type->IsScalar() && !type->IsReference();
  return result;
}

absl::StatusOr<CValue> ResultAtReturn(const ReturnConvention& result, const Registers& registers) {
  if (result.type->Strip()->kind != CType::Kind::kVoid) {
    return ValueAtPlace(*result.types, result.place, result.type, registers, 0, /*result=*/true);
  }
  CValue none;
  none.type = result.type;
  none.missing = "the function returns nothing";
  return none;
}

}  // namespace ttq

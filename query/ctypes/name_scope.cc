// SPDX-License-Identifier: MIT

#include "query/ctypes/name_scope.h"

#include <libdwarf/dwarf.h>

#include <algorithm>
#include <set>

#include "base/status_macros.h"
#include "query/ctypes/frame_state.h"
#include "query/ctypes/type_space.h"
#include "query/language/diagnostic.h"

namespace ttq {
namespace {

// Entries that are looked at one by one. Where there are more, what ran anywhere is the scope.
constexpr size_t kMaxEntriesTried = 256;
// Functions with a local of the name that are asked whether they ran.
constexpr int kMaxAsked = 256;

std::string_view LastPart(std::string_view name) {
  const size_t scope = name.rfind("::");
  return scope == std::string_view::npos ? name : name.substr(scope + 2);
}

bool HasMember(const TypeSpace& types, const CType* record, std::string_view name, int depth = 0) {
  record = types.Complete(record);
  if (depth > 32 || !record->IsRecord()) return false;
  return std::any_of(record->members.begin(), record->members.end(), [&](const CMember& member) {
    if (member.name == name && !member.is_base) return true;
    return (member.is_base || member.name.empty()) &&
           HasMember(types, record->At(member.type), name, depth + 1);
  });
}

// The functions of a unit that have a local variable or a parameter of the name; a struct with
// methods that has such a member counts with its methods.
std::vector<Die> Owners(const DwarfData& data, const DwarfUnit& unit, std::string_view name) {
  std::vector<Die> owners;
  std::vector<std::pair<int, Die>> path;  // the functions and records around, with their depths
  for (DieWalk walk(data, unit); walk.Next();) {
    const Die& die = walk.die();
    while (!path.empty() && path.back().first >= walk.depth()) path.pop_back();
    switch (die.tag()) {
      case DW_TAG_subprogram:
      case DW_TAG_structure_type:
      case DW_TAG_class_type:
      case DW_TAG_union_type:
        path.emplace_back(walk.depth(), die);
        break;
      case DW_TAG_variable:
      case DW_TAG_formal_parameter:
        if (!path.empty() && path.back().second.tag() == DW_TAG_subprogram &&
            die.Text(DW_AT_name) == name) {
          owners.push_back(path.back().second);
        }
        break;
      case DW_TAG_member:
        if (!path.empty() && path.back().second.tag() != DW_TAG_subprogram &&
            die.Text(DW_AT_name) == name) {
          for (Die child = path.back().second.Child(); child; child = child.Sibling()) {
            if (child.tag() == DW_TAG_subprogram && child.Has(DW_AT_object_pointer)) {
              owners.push_back(child);
            }
          }
        }
        break;
      default:
        break;
    }
  }
  return owners;
}

}  // namespace

absl::StatusOr<const TypeSpace*> NamesInScope::Types() const {
  return context_.TypesAt(context_.process().info().end);
}

absl::Status NamesInScope::ForEachEntry(const std::function<bool(FrameState&)>& use) {
  ASSIGN_OR_RETURN(const TypeSpace* types, Types());
  const auto ask = [&](Address pc, size_t inlined) {
    FrameView view;
    view.pc = pc;
    view.inlined = inlined;
    view.present_only = true;
    FrameState state(context_, *types, nullptr, view);
    return use(state);
  };
  for (const Address entry : scope_.entries) {
    const size_t depth = types->symbols().Symbolize(entry)->frames.size();
    if (ask(entry, depth == 0 ? 0 : depth - 1)) return absl::OkStatus();
  }
  for (const InlinedCopy& copy : scope_.inlined) {
    const std::shared_ptr<const CodeLocation> location = types->symbols().Symbolize(copy.entry);
    for (size_t i = 0; i < location->frames.size(); ++i) {
      if (location->frames[i].function == copy.function && ask(copy.entry, i)) {
        return absl::OkStatus();
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> NamesInScope::IsLocalOfWhatRan(const std::string& name) {
  ASSIGN_OR_RETURN(const TypeSpace* types, Types());
  int asked = 0;
  for (const Module* module : types->Modules(nullptr)) {
    const auto placed = types->FileOf(*module);
    if (!placed || !placed->file->MayName(name)) continue;
    const DwarfData& data = placed->file->data();
    const std::vector<bool> may = data.UnitsThatMayName(name);
    for (const DwarfUnit& unit : data.units()) {
      if (unit.index < may.size() && !may[unit.index]) continue;
      std::set<std::string> names;
      for (const Die& owner : Owners(data, unit, name)) {
        if (++asked > kMaxAsked) return true;
        std::vector<AddressRange> code;
        for (const CodeSpan& span : owner.Ranges()) {
          code.push_back({Address(span.begin + placed->bias), Address(span.end + placed->bias)});
        }
        const std::string function = placed->file->QualifiedName(owner);
        if (code.empty() && names.insert(function).second) {
          // A copy's debug information has its code and refers to this.
          absl::StatusOr<NameMatches<FunctionInfo>> found = types->symbols().FindFunctions(
              {.kind = NamePattern::Kind::kName, .text = function, .module = module->name()});
          if (found.ok()) {
            for (const FunctionInfo& f : found->found) {
              for (const CodeRange& piece : f.ranges) code.push_back(piece.range);
            }
          }
        }
        std::erase_if(code, [](const AddressRange& range) { return range.empty(); });
        if (code.empty()) continue;
        std::sort(code.begin(), code.end(),
                  [](const AddressRange& a, const AddressRange& b) { return a.begin < b.begin; });
        ASSIGN_OR_RETURN(ScanPlan scan, context_.process().ExplainExecutions(code, TimeSpan()));
        if (scan.blocks > 0) return true;
      }
    }
  }
  return false;
}

absl::StatusOr<bool> NamesInScope::IsLocal(const std::string& name) {
  if (name.find("::") != std::string::npos || scope_.code == NameScope::Code::kNone) return false;
  if (scope_.code == NameScope::Code::kAny ||
      scope_.entries.size() + scope_.inlined.size() > kMaxEntriesTried) {
    return IsLocalOfWhatRan(name);
  }
  ASSIGN_OR_RETURN(const TypeSpace* types, Types());
  bool found = false;
  absl::Status s = ForEachEntry([&](FrameState& state) {
    found = static_cast<bool>(state.FindLocal(name));
    if (!found) {
      if (const Die self = state.FindLocal("this")) {
        const CType* type = state.placed()->file->TypeAt(DebugFile::TypeOf(self))->Strip();
        found = type->IsPointer() && HasMember(*types, type->target(), name);
      }
    }
    return found;
  });
  if (!s.ok()) return s;
  return found;
}

absl::StatusOr<bool> NamesInScope::IsVariable(const std::string& name) {
  if (const auto known = variables_.find(name); known != variables_.end()) return known->second;
  const auto look = [&]() -> absl::StatusOr<bool> {
    // Several of the name are an error that says which, where it is evaluated.
    absl::StatusOr<std::optional<VariableInfo>> global = context_.FindGlobal({}, name);
    if (!global.ok() || *global) return true;
    ASSIGN_OR_RETURN(const TypeSpace* types, Types());
    // Thread-local variables and constants have no symbol.
    for (const Module* module : types->Modules(nullptr)) {
      const auto placed = types->FileOf(*module);
      if (placed && placed->file->MayName(LastPart(name)) &&
          !placed->file->Find(name, NameKind::kVariable, nullptr).empty()) {
        return true;
      }
    }
    return IsLocal(name);
  };
  absl::StatusOr<bool> found = look();
  if (found.ok()) variables_.emplace(name, *found);
  return found;
}

absl::StatusOr<bool> NamesInScope::HasValue(const std::string& name) {
  absl::StatusOr<bool> variable = IsVariable(name);
  if (!variable.ok() || *variable) return variable;
  ASSIGN_OR_RETURN(const TypeSpace* types, Types());
  for (const Module* module : types->Modules(nullptr)) {
    const auto placed = types->FileOf(*module);
    if (placed && placed->file->MayName(LastPart(name)) &&
        !placed->file->Find(name, NameKind::kEnumerator, nullptr).empty()) {
      return true;
    }
  }
  absl::StatusOr<NameMatches<FunctionInfo>> functions =
      types->symbols().FindFunctions({.kind = NamePattern::Kind::kName, .text = name});
  return functions.ok() && !functions->found.empty();
}

absl::StatusOr<bool> NamesInScope::IsType(const std::string& name) {
  ASSIGN_OR_RETURN(const TypeSpace* types, Types());
  return types->Find(name, Address(0)) != nullptr;
}

absl::StatusOr<std::vector<std::string>> NamesInScope::Near(const std::string& name) {
  std::vector<std::string> locals;
  if (scope_.code == NameScope::Code::kEntries &&
      scope_.entries.size() + scope_.inlined.size() <= kMaxEntriesTried) {
    absl::Status s = ForEachEntry([&](FrameState& state) {
      for (std::string& local : state.LocalNames()) locals.push_back(std::move(local));
      return false;
    });
    if (!s.ok()) return s;
  }
  std::sort(locals.begin(), locals.end());
  locals.erase(std::unique(locals.begin(), locals.end()), locals.end());
  std::vector<std::string> near = Nearest(name, locals);
  return near.empty() ? context_.GlobalsLike(name) : near;
}

}  // namespace ttq

// SPDX-License-Identifier: MIT

#include "query/ctypes/type_space.h"

#include <libdwarf/dwarf.h>

#include <algorithm>

#include "base/text.h"
#include "base/threads.h"
#include "query/code/dwarf_expression.h"
#include "query/code/names.h"

namespace ttq {
namespace {

using Kind = CType::Kind;

struct Own {
  const char* name;
  Kind kind;
  bool is_signed;
  uint64_t size;
};
constexpr Own kOwn[] = {
    {"char", Kind::kChar, true, 1},
    {"signed char", Kind::kChar, true, 1},
    {"unsigned char", Kind::kChar, false, 1},
    {"short", Kind::kInteger, true, 2},
    {"unsigned short", Kind::kInteger, false, 2},
    {"int", Kind::kInteger, true, 4},
    {"unsigned int", Kind::kInteger, false, 4},
    {"long", Kind::kInteger, true, 8},
    {"unsigned long", Kind::kInteger, false, 8},
    {"long long", Kind::kInteger, true, 8},
    {"unsigned long long", Kind::kInteger, false, 8},
    {"__int128", Kind::kInteger, true, 16},
    {"unsigned __int128", Kind::kInteger, false, 16},
    {"float", Kind::kFloat, true, 4},
    {"double", Kind::kFloat, true, 8},
    {"long double", Kind::kFloat, true, 16},
    {"bool", Kind::kBool, false, 1},
    {"wchar_t", Kind::kChar, true, 4},
    {"char8_t", Kind::kChar, false, 1},
    {"char16_t", Kind::kChar, false, 2},
    {"char32_t", Kind::kChar, false, 4},
};

// Names that every C program knows, for processes without DWARF.
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"_Bool", "bool"},
    {"int8_t", "signed char"},
    {"uint8_t", "unsigned char"},
    {"int16_t", "short"},
    {"uint16_t", "unsigned short"},
    {"int32_t", "int"},
    {"uint32_t", "unsigned int"},
    {"int64_t", "long"},
    {"uint64_t", "unsigned long"},
    {"size_t", "unsigned long"},
    {"ssize_t", "long"},
    {"intptr_t", "long"},
    {"uintptr_t", "unsigned long"},
    {"ptrdiff_t", "long"},
};

// "long unsigned int" -> "unsigned long"; empty when a word is none of C's.
std::string Canonical(std::string_view name) {
  int longs = 0, shorts = 0, ints = 0, is_unsigned = 0, is_signed = 0;
  std::string base;
  for (const std::string_view word : Split(name, " ")) {
    if (word.empty()) {
      continue;
    } else if (word == "long") {
      ++longs;
    } else if (word == "short") {
      ++shorts;
    } else if (word == "int") {
      ++ints;
    } else if (word == "unsigned") {
      ++is_unsigned;
    } else if (word == "signed") {
      ++is_signed;
    } else if (base.empty() && (word == "char" || word == "float" || word == "double" ||
                                word == "bool" || word == "__int128" || word == "void")) {
      base = std::string(word);
    } else {
      return "";
    }
  }
  if (is_unsigned + is_signed > 1 || shorts > 1 || longs > 2 || ints > 1) return "";
  if (base == "char") {
    if (longs + shorts + ints > 0) return "";
    return is_unsigned ? "unsigned char" : is_signed ? "signed char" : "char";
  }
  if (base == "double") return longs == 1 ? "long double" : longs == 0 ? "double" : "";
  if (base == "__int128") return is_unsigned ? "unsigned __int128" : "__int128";
  if (!base.empty()) return longs + shorts + ints + is_unsigned + is_signed > 0 ? "" : base;
  if (longs + shorts + ints + is_unsigned + is_signed == 0) return "";
  std::string result = is_unsigned ? "unsigned " : "";
  result += shorts ? "short" : longs == 2 ? "long long" : longs == 1 ? "long" : "int";
  return result;
}

}  // namespace

const CType* BuiltinType(std::string_view name) {
  static const std::vector<CType>& types = *[] {
    auto* made = new std::vector<CType>;
    for (const Own& own : kOwn) {
      CType type;
      type.kind = own.kind;
      type.name = own.name;
      type.is_signed = own.is_signed;
      type.size = own.size;
      made->push_back(std::move(type));
    }
    return made;
  }();
  for (const CType& type : types) {
    if (type.name == name) return &type;
  }
  return name == "void" ? VoidType() : nullptr;
}

const DebugFile* DebugFiles::Open(const SymbolFile& file) {
  Slot* slot;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    slot = &files_[&file];
  }
  std::call_once(slot->opened, [&] { slot->file = DebugFile::Open(file); });
  return slot->file.get();
}

TypeSpace::TypeSpace(const Symbolizer* symbols, DebugFiles* files, std::string program)
    : symbols_(symbols), files_(files), program_(std::move(program)) {}
TypeSpace::~TypeSpace() = default;

std::optional<TypeSpace::Placed> TypeSpace::FileOf(const Module& module) const {
  const SymbolFile* file = module.file();
  if (file == nullptr) return std::nullopt;
  const DebugFile* debug = files_->Open(*file);
  if (debug == nullptr) return std::nullopt;
  return Placed{debug, &module, module.load_bias()};
}

std::optional<TypeSpace::Placed> TypeSpace::FileAt(Address address) const {
  const Module* module = symbols_->ModuleAt(address);
  return module ? FileOf(*module) : std::nullopt;
}

bool TypeSpace::IsProgram(const Module& module) const {
  // A program may have been started by a relative path, or through a link.
  return module.path() == program_ || module.name() == BaseName(program_);
}

void TypeSpace::OpenProgramAhead() const {
  std::call_once(ahead_, [this] {
    opening_ = InThreadIfPossible([this] {
      for (const auto& module : symbols_->modules()) {
        if (IsProgram(*module)) FileOf(*module);
      }
    });
  });
}

std::vector<const Module*> TypeSpace::Modules(const Module* first) const {
  std::vector<const Module*> modules;
  if (first) modules.push_back(first);
  for (const bool own : {true, false}) {
    for (const auto& module : symbols_->modules()) {
      if (module.get() != first && IsProgram(*module) == own) {
        modules.push_back(module.get());
      }
    }
  }
  return modules;
}

const CType* TypeSpace::Builtin(std::string_view name) const {
  const std::string canonical = Canonical(name);
  if (!canonical.empty()) return BuiltinType(canonical);
  if (const CType* type = BuiltinType(name)) return type;
  for (const auto& [alias, of] : kAliases) {
    if (alias == name) return BuiltinType(of);
  }
  return nullptr;
}

const CType* TypeSpace::Find(std::string_view name, Address near) const {
  std::string_view plain = name;
  uint16_t wanted = 0;
  for (const auto& [word, tag] :
       {std::pair<std::string_view, uint16_t>{"struct ", DW_TAG_structure_type},
        {"class ", DW_TAG_structure_type},
        {"union ", DW_TAG_union_type},
        {"enum ", DW_TAG_enumeration_type}}) {
    if (plain.starts_with(word)) {
      plain.remove_prefix(word.size());
      wanted = tag;
    }
  }
  // C's own words mean the same everywhere; `size_t` may be a typedef of the program.
  if (wanted == 0) {
    const std::string canonical = Canonical(plain);
    if (!canonical.empty()) return BuiltinType(canonical);
  }
  const Module* first = symbols_->ModuleAt(near);
  for (const Module* module : Modules(first)) {
    const std::optional<Placed> placed = FileOf(*module);
    if (!placed) continue;
    const DwarfUnit* unit =
        module == first ? placed->file->data().UnitAt(near.v - placed->bias) : nullptr;
    const Die* fallback = nullptr;
    const std::vector<Die> found = placed->file->Find(plain, NameKind::kType, unit);
    for (const Die& die : found) {
      const uint16_t tag = die.tag() == DW_TAG_class_type ? DW_TAG_structure_type : die.tag();
      if (wanted != 0 && tag != wanted) continue;
      // In C a tag is no type name, but people leave `struct` out.
      const bool tagged = tag == DW_TAG_structure_type || tag == DW_TAG_union_type ||
                          tag == DW_TAG_enumeration_type;
      if (wanted == 0 && tagged && !placed->file->data().RootOf(die.unit()).is_cpp()) {
        if (!fallback) fallback = &die;
        continue;
      }
      return placed->file->TypeAt(die.ref());
    }
    if (fallback) return placed->file->TypeAt(fallback->ref());
  }
  return wanted == 0 ? Builtin(plain) : nullptr;
}

std::vector<std::string> TypeSpace::NamesLike(std::string_view name) const {
  for (const std::string_view word : {"struct ", "class ", "union ", "enum "}) {
    if (name.starts_with(word)) name.remove_prefix(word.size());
  }
  Suggestions suggestions(name);
  for (const Module* module : Modules(nullptr)) {
    if (const std::optional<Placed> placed = FileOf(*module)) {
      placed->file->ForEachName(NameKind::kType,
                                [&](std::string_view other) { suggestions.Add(other); });
    }
  }
  return suggestions.Take(3);
}

const CType* TypeSpace::PointerTo(const CType* type) const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<const CType>& slot = pointers_[type];
  if (!slot) {
    auto made = std::make_unique<CType>();
    made->kind = Kind::kPointer;
    made->size = 8;
    made->target_type = type;
    slot = std::move(made);
  }
  return slot.get();
}

const CType* TypeSpace::ArrayOf(const CType* type, uint64_t count) const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<const CType>& slot = arrays_[{type, count}];
  if (!slot) {
    auto made = std::make_unique<CType>();
    made->kind = Kind::kArray;
    made->count = count;
    made->target_type = type;
    slot = std::move(made);
  }
  return slot.get();
}

const CType* TypeSpace::Complete(const CType* type) const {
  type = type->Strip();
  if (!type->is_declaration || type->name.empty()) return type;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto known = definitions_.find(type);
    if (known != definitions_.end()) return known->second;
  }
  const CType* definition = type;
  const auto look = [&](const DebugFile& file) {
    for (const Die& die : file.Find(type->name, NameKind::kType, nullptr)) {
      const CType* other = file.TypeAt(die.ref());
      if (other->kind == type->kind && !other->is_declaration && other->name == type->name) {
        definition = other;
        return true;
      }
    }
    return false;
  };
  if (type->file == nullptr || !look(*type->file)) {
    for (const Module* module : Modules(nullptr)) {
      const std::optional<Placed> placed = FileOf(*module);
      if (placed && placed->file != type->file && look(*placed->file)) break;
    }
  }
  std::lock_guard<std::mutex> lock(mutex_);
  definitions_[type] = definition;
  return definition;
}

std::optional<uint64_t> TypeSpace::SizeOf(const CType* type) const {
  if (const auto size = type->Size()) return size;
  const CType* stripped = type->Strip();
  if (stripped->kind == Kind::kArray && stripped->count) {
    const auto element = SizeOf(stripped->target());
    if (!element || (*stripped->count != 0 && *element > UINT64_MAX / *stripped->count)) {
      return std::nullopt;
    }
    return *element * *stripped->count;
  }
  const CType* complete = Complete(type);
  return complete == stripped ? std::nullopt : complete->Size();
}

std::optional<uint64_t> TypeSpace::OffsetBeforeBody(Address pc, int base_register) const {
  const Module* module = symbols_->ModuleAt(pc);
  const SymbolFile* file = module ? module->file() : nullptr;
  if (file == nullptr) return std::nullopt;
  const uint64_t at = pc.v - module->load_bias();
  const auto number = static_cast<uint64_t>(base_register);
  std::lock_guard<std::mutex> lock(mutex_);
  UnwindTable& table = UnwindOf(file);
  const UnwindRow* row = table.Find(at);
  // Only the stack pointer moves on after the CFA is told by it: that takes a look at all rows.
  const bool is_by_it = row != nullptr && row->cfa_register == number;
  if (row == nullptr || (is_by_it && base_register != kDwarfRsp)) return std::nullopt;
  const std::optional<UnwindTable::Body> body = table.BodyBy(number, at);
  if (!body || (is_by_it && at >= body->begin)) return std::nullopt;
  return static_cast<uint64_t>(body->cfa_offset);
}

UnwindTable& TypeSpace::UnwindOf(const SymbolFile* file) const {
  std::unique_ptr<UnwindTable>& table = unwind_[file];
  if (!table) table = std::make_unique<UnwindTable>(file->elf(), file->debug_elf());
  return *table;
}

std::optional<uint64_t> TypeSpace::FrameAddress(
    Address pc, const std::function<std::optional<uint64_t>(int)>& registers,
    const std::function<std::optional<uint64_t>(uint64_t, uint32_t)>& memory) const {
  const Module* module = symbols_->ModuleAt(pc);
  const SymbolFile* file = module ? module->file() : nullptr;
  if (file == nullptr) return std::nullopt;
  uint64_t base_register = 0;
  int64_t offset = 0;
  absl::Span<const uint8_t> expression;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const UnwindRow* row = UnwindOf(file).Find(pc.v - module->load_bias());
    if (row == nullptr) return std::nullopt;
    base_register = row->cfa_register;
    offset = row->cfa_offset;
    expression = row->cfa_expression;
  }
  if (!expression.empty()) {
    LocationInput input;
    input.register_value = registers;
    input.memory = memory;
    input.bias = module->load_bias();
    return EvaluateNumber(expression, input);
  }
  const std::optional<uint64_t> base = registers(static_cast<int>(base_register));
  if (!base) return std::nullopt;
  return *base + static_cast<uint64_t>(offset);
}

}  // namespace ttq

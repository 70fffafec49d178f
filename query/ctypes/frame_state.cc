// SPDX-License-Identifier: MIT

#include "query/ctypes/frame_state.h"

#include <elf.h>
#include <libdwarf/dwarf.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "query/code/dwarf_expression.h"
#include "query/code/elf_file.h"
#include "query/ctypes/abi.h"
#include "query/process/stack.h"
#include "store/read/moment_info.h"

namespace ttq {
namespace {

// Executions looked at for the entry of an activation, and for a variable's last place: more are
// only met in deep recursion.
constexpr int kMaxEntriesSeen = 4096;
constexpr int kMaxPlaces = 256;
// A value that is copied, not left in memory.
constexpr uint64_t kMaxCopy = 1 << 20;
constexpr int kMaxEntryValues = 8;
constexpr int kMaxThreadEvents = 1 << 20;

bool IsFunctionTag(uint16_t tag) {
  return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
}

// `known` has a bit for each general register.
std::optional<uint64_t> RegisterOf(const Registers& registers, uint32_t known, int dwarf_register) {
  if (dwarf_register == 16) return registers.pc.v;
  if (dwarf_register >= 17 && dwarf_register < 25) {
    const int xmm = dwarf_register - 17;
    if (!(registers.xmm_known >> xmm & 1)) return std::nullopt;
    return registers.xmm[xmm];
  }
  if (dwarf_register < 0 || dwarf_register > 15) return std::nullopt;
  const Gpr gpr = GprOfDwarf(dwarf_register);
  if (!(known >> gpr & 1)) return std::nullopt;
  return registers.gpr[gpr];
}

// What a call passes for a parameter, as the call's description has it (DWARF 5 section 3.4.2; its
// forerunner in DWARF 4 has other names): an expression in terms of the caller's frame. Nothing:
// `die` is not the call that returns to `returns_to`, or does not tell.
std::optional<DieAttribute> PassedByCall(const Die& die, uint64_t returns_to, DieRef parameter) {
  const bool old = die.tag() == DW_TAG_GNU_call_site;
  if (!old && die.tag() != DW_TAG_call_site) return std::nullopt;
  if (die.AddressOf(old ? DW_AT_low_pc : DW_AT_call_return_pc) != returns_to) return std::nullopt;
  const uint16_t passed = old ? DW_TAG_GNU_call_site_parameter : DW_TAG_call_site_parameter;
  for (Die child = die.Child(); child; child = child.Sibling()) {
    if (child.tag() != passed) continue;
    if (child.Ref(old ? DW_AT_abstract_origin : DW_AT_call_parameter) != parameter) continue;
    return child.Find(old ? DW_AT_GNU_call_site_value : DW_AT_call_value);
  }
  return std::nullopt;
}

}  // namespace

FrameState::FrameState(const ProcessTypes& context, const TypeSpace& types, Moment* moment,
                       const FrameView& view)
    : context_(context), types_(types), moment_(moment), view_(view) {
  placed_ = types_.FileAt(view_.pc);
  if (!placed_) return;
  std::vector<CodeScope> all = placed_->file->ScopesAt(view_.pc.v - placed_->bias);
  std::vector<size_t> functions;
  for (size_t i = 0; i < all.size(); ++i) {
    if (IsFunctionTag(all[i].die.tag())) functions.push_back(i);
  }
  if (functions.empty()) return;
  outer_ = all[functions[0]].die;
  const size_t inner = functions.size() - 1;
  const size_t which = view_.inlined > inner ? 0 : inner - view_.inlined;
  const size_t end = which == inner ? all.size() : functions[which + 1];
  scopes_.assign(all.begin() + functions[which], all.begin() + end);
  function_ = scopes_[0].die;
}

const DwarfUnit* FrameState::unit() const {
  if (function_) return &function_.unit();
  return placed_ ? placed_->file->data().UnitAt(view_.pc.v - placed_->bias) : nullptr;
}

Die FrameState::FindLocal(std::string_view name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    // What the compiler removed is only in the function as written.
    Die die = scope->die;
    for (int i = 0; die && i < 3; ++i) {
      for (Die child = die.Child(); child; child = child.Sibling()) {
        if (child.tag() != DW_TAG_variable && child.tag() != DW_TAG_formal_parameter) continue;
        if (DebugFile::NameOf(child) == name && !child.Flag(DW_AT_declaration)) return child;
      }
      die = die.Follow(DW_AT_abstract_origin);
    }
  }
  return Die();
}

std::vector<Die> ParametersOf(const Die& function) {
  std::vector<Die> out;
  const auto collect = [](const Die& of) {
    std::vector<Die> found;
    for (Die child = of.Child(); child; child = child.Sibling()) {
      if (child.tag() == DW_TAG_formal_parameter) found.push_back(child);
    }
    return found;
  };
  if (!function) return out;
  out = collect(function);
  const Die written = function.Follow(DW_AT_abstract_origin);
  if (!written) return out;
  std::vector<Die> all = collect(written);
  // The copy's own, where it has kept them.
  for (Die& die : all) {
    for (const Die& own : out) {
      if (own.Ref(DW_AT_abstract_origin) == die.ref()) {
        die = own;
        break;
      }
    }
  }
  return all.size() >= out.size() ? all : out;
}

bool FrameState::AtEntry() {
  if (!at_entry_) at_entry_ = FollowsAbi() && Entry() == view_.pc;
  return *at_entry_;
}

std::optional<Address> FrameState::Entry() const {
  if (!outer_ || !placed_) return std::nullopt;
  std::optional<uint64_t> low = outer_.AddressOf(DW_AT_entry_pc);
  if (!low) low = outer_.AddressOf(DW_AT_low_pc);
  if (!low) {
    const std::vector<CodeSpan> ranges = outer_.Ranges();
    if (ranges.empty()) return std::nullopt;
    low = ranges[0].begin;
  }
  return Address(*low + placed_->bias);
}

bool FrameState::FollowsAbi() const {
  return function_ && function_.tag() == DW_TAG_subprogram &&
         !types_.symbols().Symbolize(view_.pc)->own_convention;
}

std::vector<std::string> FrameState::LocalNames() const {
  std::vector<std::string> names;
  for (const CodeScope& scope : scopes_) {
    for (Die child = scope.die.Child(); child; child = child.Sibling()) {
      if (child.tag() != DW_TAG_variable && child.tag() != DW_TAG_formal_parameter) continue;
      const std::string_view name = DebugFile::NameOf(child);
      if (!name.empty()) names.emplace_back(name);
    }
  }
  return names;
}

std::optional<uint64_t> FrameState::RegisterValue(int dwarf_register) const {
  return RegisterOf(view_.registers, view_.known, dwarf_register);
}

std::optional<std::string> FrameState::HighHalf(int dwarf_register) const {
  const int xmm = dwarf_register - 17;
  if (xmm < 0 || xmm >= 8 || !(view_.registers.xmm_high_known >> xmm & 1)) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(&view_.registers.xmm_high[xmm]), 8);
}

std::optional<uint64_t> FrameState::Load(uint64_t address, uint32_t size) {
  absl::StatusOr<std::optional<uint64_t>> n = moment_->ReadNumber(Address(address), size);
  if (!n.ok()) {
    if (status_.ok()) status_ = n.status();
    return std::nullopt;
  }
  return *n;
}

absl::Status FrameState::TakeStatus() { return std::exchange(status_, absl::OkStatus()); }

std::optional<uint64_t> FrameState::FrameAddress() {
  if (view_.cfa) return view_.cfa->v;
  if (!cfa_) {
    cfa_ = types_.FrameAddress(
        view_.pc, [this](int n) { return RegisterValue(n); },
        [this](uint64_t address, uint32_t size) { return Load(address, size); });
  }
  return *cfa_;
}

absl::StatusOr<std::optional<Time>> FrameState::EntryTime() {
  if (view_.entered || entry_searched_ || view_.present_only) return view_.entered;
  entry_searched_ = true;
  const std::optional<uint64_t> cfa = FrameAddress();
  const std::optional<Address> entry = Entry();
  if (!cfa || !entry) return view_.entered;
  const Process& process = moment_->process();
  ASSIGN_OR_RETURN(auto cursor,
                   process.Executions({{*entry, *entry + 1}}, {Time(0), moment_->time() + 1},
                                      Direction::kBackward, view_.thread, nullptr));
  for (int tries = 0; tries < kMaxEntriesSeen; ++tries) {
    ASSIGN_OR_RETURN(std::optional<Execution> found, cursor->Next());
    if (!found) break;
    ASSIGN_OR_RETURN(const Registers registers, process.RegistersAt(found->time, view_.thread));
    // A call has just pushed the return address.
    if (registers.gpr[kRsp] + 8 == *cfa) {
      view_.entered = found->time;
      break;
    }
  }
  return view_.entered;
}

// The caller's frame is at the call instruction, of which all registers are known.
absl::StatusOr<std::optional<uint64_t>> FrameState::RemovedParameter(DieRef parameter) {
  std::optional<uint64_t> none;
  if (depth_ > kMaxEntryValues) return none;
  ASSIGN_OR_RETURN(std::optional<Time> entered, EntryTime());
  if (!entered) return none;
  ASSIGN_OR_RETURN(std::unique_ptr<Moment> then, moment_->process().At(*entered));
  FrameView view;
  view.thread = view_.thread;
  ASSIGN_OR_RETURN(view.registers, then->RegistersOf(view_.thread));
  ASSIGN_OR_RETURN(std::optional<uint64_t> returns_to,
                   then->ReadNumber(Address(view.registers.gpr[kRsp]), 8));
  if (!returns_to) return none;
  view.registers.gpr[kRsp] += 8;
  view.registers.pc = view.pc = Address(*returns_to - 1);
  FrameState caller(context_, types_, then.get(), view);
  // A function that jumped here has left its caller's return address.
  if (!caller.placed_ || &caller.placed_->file->data() != &outer_.data()) return none;
  caller.depth_ = depth_ + 1;
  const uint64_t address = *returns_to - caller.placed_->bias;
  for (const CodeScope& scope : caller.placed_->file->ScopesAt(address - 1)) {
    for (Die child = scope.die.Child(); child; child = child.Sibling()) {
      const auto passed = PassedByCall(child, address, parameter);
      if (!passed || passed->block.empty()) continue;
      const auto n = EvaluateNumber(passed->block, caller.Input(*caller.placed_, child.unit()));
      RETURN_IF_ERROR(caller.TakeStatus());
      return n;
    }
  }
  return none;
}

// The fs base of the frame's thread: what it was set to by arch_prctl, or by the clone that made
// the thread.
std::optional<uint64_t> FrameState::ThreadPointer() {
  constexpr int64_t kClone = 56, kArchPrctl = 158, kClone3 = 435;
  constexpr uint64_t kArchSetFs = 0x1002;
  const Process& process = moment_->process();
  const Thread* thread = nullptr;
  for (const Thread& t : process.threads()) {
    if (t.number == view_.thread) thread = &t;
  }
  if (!thread) return std::nullopt;
  if (HistoryUnknown(process)) {
    absl::StatusOr<Registers> registers = moment_->RegistersOf(view_.thread);
    return registers.ok() ? std::optional<uint64_t>(registers->fs_base) : std::nullopt;
  }
  EventQuery query;
  query.kind = EventKind::kSyscall;
  query.span.end = moment_->time() + 1;
  auto cursor = process.Events(query);
  if (!cursor.ok()) return std::nullopt;
  for (int i = 0; i < kMaxThreadEvents; ++i) {
    auto event = (*cursor)->Next();
    if (!event.ok() || !*event) break;
    const Event& e = **event;
    if (e.number == kArchPrctl && e.thread == view_.thread && e.args[0] == kArchSetFs) {
      return e.args[1];
    }
    const bool makes = e.result > 0 && static_cast<uint64_t>(e.result) == thread->os_tid;
    if (makes && e.number == kClone) return e.args[4];
    if (makes && e.number == kClone3) return Load(e.args[0] + 56, 8);
  }
  return std::nullopt;
}

LocationInput FrameState::Input(const TypeSpace::Placed& placed, const DwarfUnit& unit) {
  LocationInput input;
  input.data = &placed.file->data();
  input.unit = &unit;
  input.bias = placed.bias;
  input.register_value = [this](int n) { return RegisterValue(n); };
  input.memory = [this](uint64_t address, uint32_t size) { return Load(address, size); };
  input.frame_address = [this] { return FrameAddress(); };
  input.frame_base = [this]() -> std::optional<uint64_t> {
    const auto a = outer_.Find(DW_AT_frame_base);
    if (!a || !placed_ || depth_ > kMaxEntryValues) return std::nullopt;
    ++depth_;
    std::optional<uint64_t> base;
    for (const auto& entry : placed_->file->data().Locations(outer_.unit(), *a)) {
      if (!entry.span.Contains(view_.pc.v - placed_->bias)) continue;
      std::string why;
      base = EvaluateNumber(entry.expression, Input(*placed_, outer_.unit()), &why);
      // A compiler that has it in a register means what the register is in the function's body.
      constexpr uint8_t kFirst = DW_OP_reg0, kLast = DW_OP_reg31;
      if (entry.expression.size() != 1 || entry.expression[0] < kFirst ||
          entry.expression[0] > kLast) {
        continue;
      }
      const std::optional<uint64_t> offset =
          types_.OffsetBeforeBody(view_.pc, entry.expression[0] - kFirst);
      if (!offset) continue;
      const std::optional<uint64_t> cfa = FrameAddress();
      base = cfa ? std::optional<uint64_t>(*cfa - *offset) : std::nullopt;
    }
    --depth_;
    return base;
  };
  input.entry_register = [this](int n) -> std::optional<uint64_t> {
    absl::StatusOr<std::optional<Time>> entered = EntryTime();
    if (!entered.ok() || !*entered) {
      if (!entered.ok() && status_.ok()) status_ = entered.status();
      return std::nullopt;
    }
    const auto registers = moment_->process().RegistersAt(**entered, view_.thread);
    if (!registers.ok()) return std::nullopt;
    return RegisterOf(*registers, 0xffff, n);
  };
  input.removed_parameter = [this](DieRef parameter) -> std::optional<uint64_t> {
    absl::StatusOr<std::optional<uint64_t>> n = RemovedParameter(parameter);
    if (!n.ok()) {
      if (status_.ok()) status_ = n.status();
      return std::nullopt;
    }
    return *n;
  };
  input.thread_local_address = [this, placed](uint64_t offset) -> std::optional<uint64_t> {
    // The program's own block lies just below the thread pointer (TLS variant II); a library's is
    // wherever the dynamic linker put it.
    if (!types_.IsProgram(*placed.module)) return std::nullopt;
    const SymbolFile* file = placed.module->file();
    if (!file) return std::nullopt;
    for (const ElfFile::Segment& s : file->elf().segments()) {
      if (s.type != PT_TLS) continue;
      const std::optional<uint64_t> pointer = ThreadPointer();
      if (!pointer) return std::nullopt;
      uint64_t align = 1;
      // The block's start must be aligned as the segment is; its address in the file tells.
      while (align < 4096 && s.address % (align * 2) == 0) align *= 2;
      align = std::min<uint64_t>(align, 64);
      const uint64_t size = (s.memory_size + align - 1) / align * align;
      return *pointer - size + offset;
    }
    return std::nullopt;
  };
  return input;
}

CValue FrameState::FromPieces(const std::vector<LocationPiece>& pieces, const CType* type,
                              const TypeSpace::Placed& placed) {
  CValue value;
  value.type = type;
  const uint64_t size = types_.SizeOf(type).value_or(8);
  if (pieces.size() == 1 && pieces[0].bits == 0) {
    const LocationPiece& piece = pieces[0];
    if (piece.kind == LocationPiece::Kind::kMemory) {
      value.in_memory = true;
      value.address = piece.value;
      return value;
    }
    if (piece.kind == LocationPiece::Kind::kPointer) {
      const Die target = placed.file->data().At(piece.target);
      if (target && depth_ < kMaxEntryValues && piece.offset >= 0) {
        ++depth_;
        absl::StatusOr<CValue> whole = ValueOf(target, false);
        --depth_;
        if (whole.ok()) {
          value.pointee = std::make_shared<CValue>(
              PointedInto(*std::move(whole), static_cast<uint64_t>(piece.offset), type));
          value.bytes.assign(8, 0);
          value.known.assign(8, 0);
          return value;
        }
      }
      value.missing = "it points to a variable that the compiler kept out of memory";
      return value;
    }
  }
  if (size > kMaxCopy) {
    value.missing = "it is too large to be put together from its pieces";
    return value;
  }
  value.bytes.assign(size, 0);
  value.known.assign(size, 0);
  uint64_t at = 0;  // bits
  bool any = false;
  std::string why;
  for (const LocationPiece& piece : pieces) {
    const uint64_t bits = piece.bits == 0 ? size * 8 - std::min(at, size * 8) : piece.bits;
    const uint64_t n = std::min((bits + 7) / 8, size - std::min(at / 8, size));
    std::string bytes;
    switch (piece.kind) {
      case LocationPiece::Kind::kMemory: {
        bytes.resize(n);
        absl::StatusOr<uint64_t> got =
            moment_->Read(Address(piece.value + piece.bit_offset / 8), n, bytes.data());
        if (!got.ok()) {
          if (status_.ok()) status_ = got.status();
          got = 0;
        }
        bytes.resize(*got);
        break;
      }
      case LocationPiece::Kind::kRegister: {
        const auto v = RegisterValue(static_cast<int>(piece.value));
        if (!v) {
          why = piece.value >= 17 ? absl::StrCat("it is in ", DwarfRegisterName(piece.value),
                                                 ", which is not recorded")
                                  : absl::StrCat("it is in ", DwarfRegisterName(piece.value),
                                                 ", whose value in this frame is not known");
          break;
        }
        const uint64_t shifted = piece.bit_offset < 64 ? *v >> piece.bit_offset : 0;
        bytes.assign(reinterpret_cast<const char*>(&shifted), std::min<uint64_t>(n, 8));
        if (n == 16 && piece.bit_offset == 0) {
          bytes += HighHalf(static_cast<int>(piece.value)).value_or("");
        }
        break;
      }
      case LocationPiece::Kind::kValue:
        bytes.assign(reinterpret_cast<const char*>(&piece.value), std::min<uint64_t>(n, 8));
        // Of numbers wider than the debug information's own the rest is the sign.
        if (n > 8) bytes.resize(n, static_cast<int64_t>(piece.value) < 0 ? '\xff' : '\0');
        break;
      case LocationPiece::Kind::kBytes:
        bytes.assign(reinterpret_cast<const char*>(piece.bytes.data()),
                     std::min<uint64_t>(n, piece.bytes.size()));
        break;
      default:
        if (!piece.why.empty()) why = piece.why;
        break;
    }
    for (uint64_t i = 0; i < bytes.size() && at / 8 + i < size; ++i) {
      value.bytes[at / 8 + i] = bytes[i];
      value.known[at / 8 + i] = 1;
      any = true;
    }
    at += bits;
  }
  if (!any && size > 0) {
    value.missing = why.empty() ? "it has no place here" : why;
  } else if (value.known.find('\0') == std::string::npos) {
    value.known.clear();
  }
  return value;
}

// What a pointer of the type has that points `offset` bytes into a variable: an element of an
// array, a member, the variable itself.
CValue FrameState::PointedInto(CValue whole, uint64_t offset, const CType* pointer) const {
  const CType* type = pointer->Strip()->target();
  const std::optional<uint64_t> size = types_.SizeOf(type);
  if (!whole.missing.empty() || (offset == 0 && (!size || size == types_.SizeOf(whole.type)))) {
    return whole;
  }
  whole.type = type;
  if (whole.in_memory) {
    whole.address += offset;
    return whole;
  }
  if (!size || offset > whole.bytes.size() || *size > whole.bytes.size() - offset) {
    whole.missing = "it points out of a variable that the compiler kept out of memory";
    return whole;
  }
  whole.bytes = whole.bytes.substr(offset, *size);
  if (!whole.known.empty()) whole.known = whole.known.substr(offset, *size);
  if (whole.known.find('\1') == std::string::npos && !whole.known.empty()) {
    whole.missing = "it has no place here";
  }
  return whole;
}

CValue FrameState::ConstantValue(const Die& variable, const CType* type) const {
  CValue value;
  value.type = type;
  Die owner;
  const auto a = DebugFile::Inherited(variable, DW_AT_const_value, &owner);
  if (!a) {
    value.missing = "the compiler kept it nowhere in this function";
    return value;
  }
  const uint64_t size = std::min<uint64_t>(types_.SizeOf(type).value_or(8), kMaxCopy);
  if (!a->block.empty()) {
    value.bytes.assign(reinterpret_cast<const char*>(a->block.data()), a->block.size());
  } else {
    value.bytes.assign(reinterpret_cast<const char*>(&a->value), 8);
  }
  value.bytes.resize(size, a->is_signed && static_cast<int64_t>(a->value) < 0 ? '\xff' : '\0');
  return value;
}

const CType* FrameState::SizedArray(const CType* type, const TypeSpace::Placed& placed,
                                    const DwarfUnit& unit) {
  const CType* array = type->Strip();
  if (array->kind != CType::Kind::kArray || array->count || !array->count_at) return type;
  const DieAttribute& at = *array->count_at;
  std::optional<uint64_t> number;
  const DieRef ref = placed.file->data().Ref(unit, at);
  if (ref.valid()) {
    if (depth_ > kMaxEntryValues) return type;
    ++depth_;
    absl::StatusOr<CValue> value = ValueOf(placed.file->data().At(ref), false);
    --depth_;
    if (value.ok() && value->missing.empty()) {
      const uint64_t size = types_.SizeOf(value->type).value_or(8);
      if (value->in_memory && size <= 8) {
        number = Load(value->address, static_cast<uint32_t>(size));
      } else if (value->known.empty() && value->bytes.size() <= 8) {
        std::memcpy(&number.emplace(0), value->bytes.data(), value->bytes.size());
      }
    }
  } else if (!at.block.empty()) {
    std::string why;
    number = EvaluateNumber(at.block, Input(placed, unit), &why);
  }
  if (!number) return type;
  const uint64_t count = at.name == DW_AT_count ? *number : *number + 1;
  return count < (uint64_t{1} << 40) ? types_.ArrayOf(array->target(), count) : type;
}

absl::StatusOr<CValue> FrameState::GlobalValue(const TypeSpace::Placed& placed,
                                               const Die& variable) {
  const CType* type = placed.file->TypeAt(DebugFile::TypeOf(variable));
  const auto a = variable.Find(DW_AT_location);
  CValue value;
  if (!a) {
    value = ConstantValue(variable, type);
    if (!value.missing.empty()) value.missing = "the compiler gave it no place";
    return value;
  }
  for (const auto& entry : placed.file->data().Locations(variable.unit(), *a)) {
    value = FromPieces(EvaluateLocation(entry.expression, Input(placed, variable.unit())), type,
                       placed);
    if (value.missing.empty()) break;
  }
  RETURN_IF_ERROR(TakeStatus());
  // `extern int a[];` is completed where it is defined.
  return value;
}

absl::Status FrameState::Freeze(CValue* value) {
  if (value->pointee) {
    auto pointee = std::make_shared<CValue>(*value->pointee);
    RETURN_IF_ERROR(Freeze(pointee.get()));
    value->pointee = std::move(pointee);
  }
  if (!value->in_memory) return absl::OkStatus();
  const uint64_t size = types_.SizeOf(value->type).value_or(0);
  if (size > kMaxCopy || size == 0) return absl::OkStatus();
  value->bytes.resize(size);
  ASSIGN_OR_RETURN(uint64_t got, moment_->Read(Address(value->address), size, value->bytes.data()));
  if (got == 0) {
    value->missing = "its memory is not mapped";
  } else if (got < size) {
    value->known.assign(size, 0);
    std::fill_n(value->known.begin(), got, 1);
  }
  value->in_memory = false;
  return absl::OkStatus();
}

absl::StatusOr<CValue> FrameState::ValueOf(const Die& variable, bool look_back) {
  CValue value;
  if (!placed_) {
    value.missing = "no debug information";
    return value;
  }
  const DwarfData& data = placed_->file->data();
  const CType* type =
      SizedArray(placed_->file->TypeAt(DebugFile::TypeOf(variable)), *placed_, variable.unit());
  value.type = type;
  const auto a = variable.Find(DW_AT_location);
  std::vector<DwarfData::LocationEntry> entries;
  if (a) entries = data.Locations(variable.unit(), *a);
  const bool passed = variable.tag() == DW_TAG_formal_parameter && AtEntry();
  if (passed && a && (!a->block.empty() || a->form == DW_FORM_exprloc)) {
    absl::StatusOr<CValue> argument = PassedValue(variable, type, view_.registers);
    if (argument.ok() && !argument->in_memory && !entries.empty()) {
      const CValue place =
          FromPieces(EvaluateLocation(entries[0].expression, Input(*placed_, variable.unit())),
                     type, *placed_);
      RETURN_IF_ERROR(TakeStatus());
      if (place.has_address()) argument->home = place.address;
    }
    return argument;
  }
  const uint64_t pc = view_.pc.v - placed_->bias;
  bool here = false;
  std::stable_partition(entries.begin(), entries.end(),
                        [](const auto& entry) { return entry.span.begin < entry.span.end; });
  for (const auto& entry : entries) {
    const bool holds =
        entry.span.Contains(pc) || (entry.span.begin == pc && entry.span.end == pc && !here);
    if (!holds || entry.expression.empty()) continue;
    here = true;
    value = FromPieces(EvaluateLocation(entry.expression, Input(*placed_, variable.unit())), type,
                       *placed_);
    RETURN_IF_ERROR(TakeStatus());
    if (value.missing.empty()) return value;
  }
  if (!here) {
    value = ConstantValue(variable, type);
    if (value.missing.empty()) return value;
    if (!entries.empty()) value.missing = "the compiler kept it nowhere at this instruction";
  }
  if (passed) {
    absl::StatusOr<CValue> argument = PassedValue(variable, type, view_.registers);
    if (!argument.ok() || argument->missing.empty()) return argument;
  }
  if (!look_back || view_.present_only) return value;
  ASSIGN_OR_RETURN(std::optional<CValue> past, LookBack(variable, type, entries));
  if (past) return *std::move(past);
  return value;
}

absl::StatusOr<CValue> FrameState::PassedValue(const Die& parameter, const CType* type,
                                               const Registers& registers) {
  if (passed_.empty()) {
    parameters_ = ParametersOf(function_);
    // A constructor or destructor of a class with virtual bases declares what only some of its
    // copies take: such a copy has it as its own.
    std::erase_if(parameters_, [&](const Die& die) {
      return function_.Has(DW_AT_abstract_origin) && DebugFile::NameOf(die) != "this" &&
             die.Flag(DW_AT_artificial);
    });
    std::vector<const CType*> parameter_types;
    for (const Die& die : parameters_) {
      parameter_types.push_back(placed_->file->TypeAt(DebugFile::TypeOf(die)));
    }
    const CType* returns = placed_->file->TypeAt(DebugFile::TypeOf(function_));
    passed_ = PlacesOfArguments(types_, returns, parameter_types);
  }
  const auto same = [&](const Die& die) { return die.ref() == parameter.ref(); };
  const auto found = std::find_if(parameters_.begin(), parameters_.end(), same);
  if (found == parameters_.end()) {
    CValue value;
    value.type = type;
    value.missing = "it is not passed to this copy of the function";
    return value;
  }
  const AbiLocation& place = passed_[static_cast<size_t>(found - parameters_.begin())];
  const uint64_t stack = registers.gpr[kRsp] + 8;
  if (!place.by_reference || !place.pieces.empty()) {
    return ValueAtPlace(types_, place, type, registers, stack, /*result=*/false);
  }
  CValue value;
  value.type = type;
  ASSIGN_OR_RETURN(std::optional<uint64_t> address,
                   moment_->ReadNumber(Address(stack + place.stack_offset), 8));
  value.in_memory = address.has_value();
  value.address = address.value_or(0);
  if (!value.in_memory) value.missing = "its address is not known";
  return value;
}

// The last execution, in this activation, of an instruction at which the variable had a place; then
// what was passed for it.
absl::StatusOr<std::optional<CValue>> FrameState::LookBack(
    const Die& variable, const CType* type, const std::vector<DwarfData::LocationEntry>& entries) {
  ASSIGN_OR_RETURN(std::optional<Time> entered, EntryTime());
  const std::optional<uint64_t> cfa = FrameAddress();
  const Process& process = moment_->process();
  const Time now = moment_->time();
  const TimeSpan span = {entered.value_or(Time(0)), now};
  std::vector<AddressRange> code;
  for (const auto& entry : entries) {
    if (entry.expression.empty() || entry.span.end == ~uint64_t{0}) continue;
    const uint64_t begin = entry.span.begin + placed_->bias;
    code.push_back({Address(begin), Address(std::max(entry.span.end + placed_->bias, begin + 1))});
  }
  const auto remember = [this](CValue* value, Time at, Address pc, bool at_entry) {
    auto past = std::make_shared<PastValue>();
    const auto location = types_.symbols().Symbolize(pc);
    *past = {at, location->file, location->line, at_entry};
    value->past = std::move(past);
  };
  if (!code.empty() && cfa && !span.empty()) {
    ASSIGN_OR_RETURN(auto cursor,
                     process.Executions(code, span, Direction::kBackward, view_.thread, nullptr));
    for (int tries = 0; tries < kMaxPlaces; ++tries) {
      ASSIGN_OR_RETURN(std::optional<Execution> found, cursor->Next());
      if (!found) break;
      ASSIGN_OR_RETURN(std::unique_ptr<Moment> then, process.At(found->time));
      ASSIGN_OR_RETURN(Registers registers, then->RegistersOf(view_.thread));
      FrameView view = view_;
      view.pc = found->pc;
      view.registers = registers;
      view.known = 0xffff;
      view.cfa.reset();
      view.inlined = 0;
      FrameState state(context_, types_, then.get(), view);
      // Another activation of a function that calls itself.
      if (state.FrameAddress() != cfa) continue;
      ASSIGN_OR_RETURN(CValue value, state.ValueOf(variable, false));
      if (!value.missing.empty()) continue;
      value.type = type;
      RETURN_IF_ERROR(state.Freeze(&value));
      if (!value.missing.empty()) continue;
      remember(&value, found->time, found->pc, false);
      return std::optional<CValue>(std::move(value));
    }
  }
  if (variable.tag() != DW_TAG_formal_parameter || !entered || !FollowsAbi()) {
    return std::optional<CValue>();
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Moment> then, process.At(*entered));
  ASSIGN_OR_RETURN(Registers registers, then->RegistersOf(view_.thread));
  ASSIGN_OR_RETURN(CValue value, PassedValue(variable, type, registers));
  if (!value.missing.empty()) return std::optional<CValue>();
  FrameState state(context_, types_, then.get(), view_);
  RETURN_IF_ERROR(state.Freeze(&value));
  remember(&value, *entered, registers.pc, true);
  return std::optional<CValue>(std::move(value));
}

}  // namespace ttq

// SPDX-License-Identifier: MIT

#include "diff/side.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/core.h"
#include "store/read/moment_info.h"

namespace ttq::diff {
namespace {

constexpr size_t kMaxKept = 1024;  // registers and memory
// Longer functions are known by their offsets, which may then differ between builds.
constexpr uint64_t kMaxFunctionBytes = 1 << 20;

uint64_t HashText(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return h;
}

uint64_t Mix(uint64_t a, uint64_t b) {
  a = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdu;
  return a ^ a >> 32;
}

bool IsSystemPath(std::string_view path) {
  for (const char* prefix : {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/local/lib/"}) {
    if (path.substr(0, strlen(prefix)) == prefix) return true;
  }
  return path.empty() || path[0] == '[';
}

}  // namespace

std::string ToText(const SourceLocation& place) {
  std::string text = place.function.empty() ? "code without a name" : place.function;
  if (place.line != 0) {
    Append(&text, " (", BaseName(place.file), ":", place.line, ")");
  } else if (!place.module.empty()) {
    absl::StrAppend(&text, " in ", place.module);
  }
  return text;
}

absl::StatusOr<std::unique_ptr<Side>> Side::Open(const Recording* recording,
                                                 std::optional<ProcessNo> number) {
  auto side = std::make_unique<Side>();
  side->recording_ = recording;
  ASSIGN_OR_RETURN(side->process_, recording->Open(number.value_or(recording->default_process())));
  if (HistoryUnknown(*side->process_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        recording->info().path, ": what happened before ",
        MomentName(MomentInfoOf(*side->process_).beginning), " is unknown: it cannot be compared"));
  }
  side->context_ = std::make_unique<Context>(recording, side->process_);
  side->unwinder_ = std::make_unique<Unwinder>(*side->context_);
  ASSIGN_OR_RETURN(std::vector<LoadedModule> modules, side->process_->Modules());
  for (LoadedModule& m : modules) {
    std::string name(BaseName(m.path));
    ModuleState state = {std::move(m), std::move(name)};
    for (ModuleState& other : side->modules_) {
      if (!other.module.range.Overlaps(state.module.range.begin, state.module.range.size()))
        continue;
      other.shares_place = state.shares_place = true;
    }
    side->modules_.insert(side->modules_.begin(), std::move(state));
  }
  return side;
}

absl::Status Side::MatchModules(Side* a, Side* b) {
  const auto same_file = [&](const LoadedModule& m, const LoadedModule& n) -> bool {
    if (!m.build_id.empty() || !n.build_id.empty()) return m.build_id == n.build_id;
    const auto x = a->recording_->FileContents(m.file_id);
    const auto y = b->recording_->FileContents(n.file_id);
    return x.ok() && y.ok() && x->bytes() == y->bytes();
  };
  for (ModuleState& m : a->modules_) {
    for (ModuleState& n : b->modules_) {
      if (m.name != n.name || (m.same && n.same)) continue;
      if (same_file(m.module, n.module)) m.same = n.same = true;
    }
  }
  for (Side* side : {a, b}) {
    const Side* other = side == a ? b : a;
    for (const ModuleState& m : side->modules_) {
      if (m.same) continue;
      for (const ModuleState& n : other->modules_) {
        if (m.name == n.name && std::find(side->rebuilt_.begin(), side->rebuilt_.end(), m.name) ==
                                    side->rebuilt_.end()) {
          side->rebuilt_.push_back(m.name);
        }
      }
    }
  }
  return absl::OkStatus();
}

const Side::ModuleState* Side::Find(Address address) const {
  for (const ModuleState& m : modules_) {
    if (m.module.range.Contains(address)) return &m;
  }
  return nullptr;
}

const LoadedModule* Side::ModuleOf(Address address) const {
  const ModuleState* m = Find(address);
  return m == nullptr ? nullptr : &m->module;
}

const Side::Function* Side::FunctionAround(Address pc) {
  const absl::StatusOr<const Symbolizer*> symbols = context_->AllSymbols();
  if (!symbols.ok()) return nullptr;
  const std::shared_ptr<const CodeLocation> location = (*symbols)->Symbolize(pc);
  if (location->frames.empty() || location->offset_in_function > kMaxFunctionBytes) return nullptr;
  const uint64_t entry = pc.v - location->offset_in_function;
  std::unique_ptr<Function>& slot = functions_[entry];
  if (slot) return slot->begin == 0 ? nullptr : slot.get();
  slot = std::make_unique<Function>();
  const std::optional<FunctionInfo> info = (*symbols)->FunctionAt(pc);
  if (!info) return nullptr;
  const ModuleState* module = Find(pc);
  for (const CodeRange& piece : info->ranges) {
    if (!piece.range.Contains(pc) || piece.kind == CodeRange::Kind::kInlined) continue;
    if (piece.range.size() > kMaxFunctionBytes) return nullptr;
    slot->begin = piece.range.begin.v;
    slot->end = piece.range.end.v;
    slot->name = absl::StrCat(location->frames.back().symbol,
                              piece.kind == CodeRange::Kind::kCold ? ".cold" : "");
    // The code is as it was mapped: that of a module never changes.
    const Time when = module == nullptr ? end() : module->module.loaded + 1;
    const auto image = process_->Memory(piece.range.begin, piece.range.size(),
                                        std::min(std::max(when, Time(1)), end()));
    if (!image.ok()) {
      slot->begin = 0;
      return nullptr;
    }
    std::string_view bytes = image->bytes;
    Address at = piece.range.begin;
    for (uint32_t ordinal = 0; !bytes.empty(); ++ordinal) {
      // With what it does, though not with its constants: other code at the same place is seen.
      const InstructionEffects e = effects_.Read(at, bytes.substr(0, 16), false);
      uint64_t shape = Mix(Mix(ordinal, e.writes), e.reads);
      for (const MemoryOperand& m : e.memory) shape = Mix(shape, m.read + 2 * m.write);
      slot->ordinals[at.v] = shape;
      const uint32_t size = std::max(e.size, 1u);
      bytes.remove_prefix(std::min<size_t>(size, bytes.size()));
      at += size;
    }
    return slot.get();
  }
  return nullptr;
}

uint64_t Side::KeyOf(Address pc) {
  const ModuleState* m = Find(pc);
  if (m == nullptr) {
    // Generated code: by its place in its mapping.
    for (const Mapping& mapping : MappingsAt(end())) {
      if (mapping.range.Contains(pc)) {
        return Mix(HashText(mapping.path), pc.v - mapping.range.begin.v);
      }
    }
    return Mix(1, pc.v & 0xfff);
  }
  const uint64_t offset = pc.v - m->module.load_bias;
  const uint64_t name = HashText(m->name);
  if (m->same) return Mix(name, offset);
  if (const Function* f = FunctionAround(pc)) {
    const auto it = f->ordinals.find(pc.v);
    if (it != f->ordinals.end()) return Mix(Mix(name, HashText(f->name)), it->second);
  }
  return Mix(name, offset);
}

const Side::Code& Side::CodeOf(SuperblockId id) {
  std::unique_ptr<Code>& slot = codes_[id.v];
  if (slot) return *slot;
  slot = std::make_unique<Code>();
  Address follows;
  for (const CodeInstruction& i : process_->CodeOf(id)) {
    if (slot->addresses.empty() || i.address != follows) {
      slot->beginnings.push_back(static_cast<uint32_t>(slot->addresses.size()));
    }
    follows = i.address + i.bytes.size();
    const InstructionEffects effects = effects_.Read(i.address, i.bytes, false);
    slot->addresses.push_back(i.address);
    slot->keys.push_back(KeyOf(i.address));
    slot->writes.push_back(effects.writes);
    slot->all_writes |= effects.writes;
    using Flow = InstructionEffects::Flow;
    slot->calls.push_back(effects.flow == Flow::kCall ? 1 : effects.flow == Flow::kReturn ? -1 : 0);
  }
  return *slot;
}

std::string Side::CodeAt(Address pc, Time t) {
  const auto runs = process_->RunsAround(t);
  if (runs.ok()) {
    const auto run = std::partition_point((*runs)->begin(), (*runs)->end(), [&](const Run& r) {
      return r.time + r.instructions <= t;
    });
    if (run != (*runs)->end() && run->time <= t) {
      const std::vector<CodeInstruction> code = process_->CodeOf(run->code);
      const uint64_t at = t.v - run->time.v;
      if (at < code.size() && code[at].address == pc) return std::string(code[at].bytes);
    }
  }
  return Memory(pc, 16, t);
}

InstructionEffects Side::EffectsAt(Address pc, Time t) {
  // The code is as it was mapped: that of a module never changes.
  const ModuleState* module = Find(pc);
  const auto read = [&] { return effects_.Read(pc, CodeAt(pc, t)); };
  if (module == nullptr || module->shares_place) return read();
  const auto [it, is_new] = effects_at_.try_emplace(pc.v);
  if (is_new) it->second = read();
  return it->second;
}

SourceLocation Side::LocationOf(Address pc) const {
  SourceLocation place;
  const absl::StatusOr<const Symbolizer*> symbols = context_->AllSymbols();
  if (!symbols.ok()) return place;
  const std::shared_ptr<const CodeLocation> location = (*symbols)->Symbolize(pc);
  place.function = location->function;
  place.module = location->module;
  place.file = location->file;
  place.line = location->line;
  return place;
}

std::string Side::FunctionOf(Address pc) const { return LocationOf(pc).function; }

absl::StatusOr<Registers> Side::RegistersAt(Time t, ThreadNo thread) {
  if (registers_.size() >= kMaxKept) registers_.clear();
  const auto [it, is_new] =
      registers_.try_emplace({t.v, thread.v}, absl::UnknownError("not looked up"));
  if (is_new) it->second = process_->RegistersAt(t, thread);
  return it->second;
}

std::string Side::Memory(Address at, uint32_t size, Time t) {
  if (memory_.size() >= kMaxKept) memory_.clear();
  const auto [it, is_new] = memory_.try_emplace({at.v, size, t.v});
  std::string& bytes = it->second;
  if (!is_new) return bytes;
  const absl::StatusOr<MemoryImage> image = process_->Memory(at, size, t);
  if (!image.ok()) return bytes;
  for (size_t i = 0; i < image->bytes.size() && image->present[i]; ++i) bytes += image->bytes[i];
  return bytes;
}

absl::StatusOr<Stack> Side::StackAt(Time t, ThreadNo thread) {
  if (!moment_) {
    ASSIGN_OR_RETURN(moment_, process_->At(t));
  } else if (absl::Status s = moment_->MoveTo(t); !s.ok()) {
    return s;
  }
  return unwinder_->StackOf(*moment_, thread, {.max_frames = 200});
}

bool Side::IsOwnCode(Address pc) const {
  const LoadedModule* module = ModuleOf(pc);
  return module != nullptr && !IsSystemPath(module->path);
}

const Frame* Side::OwnFrame(const Stack& stack) const {
  const Frame* with_line = nullptr;
  for (const Frame& frame : stack.frames) {
    if (frame.line == 0) continue;
    const LoadedModule* module = ModuleOf(frame.lookup_pc);
    const bool of_system = frame.file.compare(0, 13, "/usr/include/") == 0;
    if (module != nullptr && !of_system && !IsSystemPath(module->path)) return &frame;
    if (with_line == nullptr) with_line = &frame;
  }
  if (with_line != nullptr) return with_line;
  return stack.frames.empty() ? nullptr : &stack.frames.front();
}

const std::vector<Mapping>& Side::MappingsAt(Time t) {
  if (mappings_time_ == t) return mappings_;
  absl::StatusOr<std::vector<Mapping>> found = process_->MappingsAt(t);
  mappings_ = found.ok() ? *std::move(found) : std::vector<Mapping>();
  mappings_time_ = t;
  return mappings_;
}

std::optional<std::string> Side::RegionOf(uint64_t value, Time t, uint64_t* offset) {
  if (value < 4096) return std::nullopt;
  const Address address(value);
  if (const ModuleState* m = Find(address)) {
    *offset = value - m->module.load_bias;
    return m->name;
  }
  uint64_t anonymous = 0;
  for (const Mapping& mapping : MappingsAt(t)) {
    if (!mapping.range.Contains(address)) {
      anonymous += mapping.path.empty();
      continue;
    }
    // A stack grows downwards: what is the same is the distance from its end.
    *offset =
        mapping.path == "[stack]" ? mapping.range.end.v - value : value - mapping.range.begin.v;
    return mapping.path.empty() ? fmt::format("memory {}", anonymous) : mapping.path;
  }
  return std::nullopt;
}

Address Side::initial_stack() {
  if (initial_stack_) return *initial_stack_;
  initial_stack_ = Address(~uint64_t{0});
  // A forked child goes on with the stack of the one that was started.
  const std::vector<ProcessInfo>& all = recording_->processes();
  ProcessNo number = process_->info().number;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto info = std::find_if(all.begin(), all.end(),
                                   [&](const ProcessInfo& p) { return p.number == number; });
    if (info == all.end()) break;
    if (info->parent.v != 0 && !info->by_exec) {
      number = info->parent;
      continue;
    }
    const absl::StatusOr<const Process*> process = recording_->Open(number);
    if (!process.ok()) break;
    const absl::StatusOr<Registers> registers = (*process)->RegistersAt(Time(0), std::nullopt);
    if (registers.ok()) initial_stack_ = Address(registers->gpr[kRsp]);
    break;
  }
  return *initial_stack_;
}

}  // namespace ttq::diff

// SPDX-License-Identifier: MIT

#include "query/process/tail_calls.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/status_macros.h"
#include "store/read/moment_info.h"

namespace ttq {
namespace {

// Functions that jumped on, one after the other, and executions of a function's first instruction
// that are looked at for the one of this call.
constexpr size_t kMaxJumps = 32;
constexpr int kMaxEntries = 256;
// Instructions of a linkage table between a jump and where it leads.
constexpr int kMaxStubs = 16;
constexpr uint64_t kLongestCall = 8;
// What is followed without a history: functions in a row, of at most so many bytes, and all steps.
constexpr size_t kMaxWay = 5, kMaxSteps = 1000;
constexpr uint64_t kMaxFunction = 256 << 10;

int32_t Displacement(const uint8_t* bytes) {
  int32_t n;
  memcpy(&n, bytes, sizeof(n));
  return n;
}

// Without hints for a branch (bnd, notrack, cs) and rex.
std::string_view WithoutPrefixes(std::string_view code) {
  const auto is_prefix = [](uint8_t c) {
    return c == 0xf2 || c == 0x3e || c == 0x2e || (c & 0xf0) == 0x40;
  };
  while (!code.empty() && is_prefix(static_cast<uint8_t>(code[0]))) code.remove_prefix(1);
  return code;
}

// jmp, in any of its forms, or a conditional one.
bool IsJump(std::string_view code) {
  code = WithoutPrefixes(code);
  const auto* c = reinterpret_cast<const uint8_t*>(code.data());
  if (code.empty()) return false;
  if (*c == 0xe9 || *c == 0xeb || (*c & 0xf0) == 0x70) return true;
  if (code.size() == 1) return false;
  return (*c == 0xff && (c[1] >> 3 & 7) == 4) || (*c == 0x0f && (c[1] & 0xf0) == 0x80);
}

// From the next instruction to where a direct jump goes; nullopt: it is another one.
std::optional<int64_t> DirectDistance(std::string_view code) {
  code = WithoutPrefixes(code);
  const auto* c = reinterpret_cast<const uint8_t*>(code.data());
  if (code.size() == 2 && (*c == 0xeb || (*c & 0xf0) == 0x70)) return static_cast<int8_t>(c[1]);
  if (code.size() == 5 && *c == 0xe9) return Displacement(c + 1);
  if (code.size() == 6 && *c == 0x0f && (c[1] & 0xf0) == 0x80) return Displacement(c + 2);
  return std::nullopt;
}

}  // namespace

TailCalls::TailCalls(const ProcessNames& names) : names_(names), tracer_(names, nullptr) {}

std::optional<Address> TailCalls::EntryOf(const Symbolizer& symbols, Address pc) {
  const auto [it, is_new] = entries_.try_emplace(Key(&symbols, pc.v));
  if (is_new) {
    const std::optional<FunctionInfo> function = symbols.FunctionAt(pc);
    if (function) it->second = function->entry;
  }
  return it->second;
}

absl::StatusOr<std::optional<Address>> TailCalls::ThroughMemory(Moment& moment, Address at) {
  ASSIGN_OR_RETURN(std::optional<uint64_t> target, moment.ReadNumber(at, 8));
  if (!target) return std::nullopt;
  return Address(*target);
}

absl::StatusOr<std::optional<Address>> TailCalls::Called(Moment& moment, Address return_address) {
  uint8_t code[6] = {};
  absl::StatusOr<uint64_t> read = moment.Read(return_address - 6, sizeof(code), code);
  if (!read.ok()) return read.status();
  if (*read < sizeof(code)) return std::nullopt;
  if (code[0] == 0xff && code[1] == 0x15) {
    return ThroughMemory(moment, return_address + static_cast<int64_t>(Displacement(code + 2)));
  }
  if (code[1] != 0xe8) return std::nullopt;
  return ThroughLinkage(moment, return_address + static_cast<int64_t>(Displacement(code + 2)));
}

absl::StatusOr<std::optional<Address>> TailCalls::ThroughLinkage(Moment& moment, Address target) {
  // endbr64 and bnd are optional, then jmp *slot(%rip).
  uint8_t plt[11] = {};
  const absl::StatusOr<uint64_t> read = moment.Read(target, sizeof(plt), plt);
  if (!read.ok()) return read.status();
  size_t at = 0;
  if (memcmp(plt, "\xf3\x0f\x1e\xfa", 4) == 0) at = 4;
  if (plt[at] == 0xf2) ++at;
  if (at + 6 <= *read && plt[at] == 0xff && plt[at + 1] == 0x25) {
    return ThroughMemory(moment,
                         target + (at + 6) + static_cast<int64_t>(Displacement(plt + at + 2)));
  }
  return target;
}

absl::StatusOr<const std::vector<TailCalls::Exit>*> TailCalls::ExitsOf(Moment& moment,
                                                                       const Symbolizer& symbols,
                                                                       Address entry) {
  const auto [it, is_new] = exits_.try_emplace(Key(&symbols, entry.v));
  if (!is_new) return it->second ? &*it->second : nullptr;
  std::vector<Exit> exits;
  const std::optional<FunctionInfo> function = symbols.FunctionAt(entry);
  if (!function) return nullptr;
  for (const CodeRange& range : function->ranges) {
    const uint64_t size = range.range.size();
    if (range.kind == CodeRange::Kind::kInlined) continue;
    if (size > kMaxFunction) return nullptr;
    std::string code(size, '\0');
    ASSIGN_OR_RETURN(const uint64_t got, moment.Read(range.range.begin, size, code.data()));
    if (got < size) return nullptr;
    for (size_t at = 0; at < code.size();) {
      const std::string_view rest = std::string_view(code).substr(at);
      const Address pc = range.range.begin + at;
      const InstructionEffects effects = effects_.Read(pc, rest, /*want_text=*/false);
      if (effects.size == 0) return nullptr;
      at += effects.size;
      const std::optional<int64_t> distance = DirectDistance(rest.substr(0, effects.size));
      if (!distance) continue;
      ASSIGN_OR_RETURN(const std::optional<Address> target,
                       ThroughLinkage(moment, pc + effects.size + *distance));
      if (!target || *target == entry || EntryOf(symbols, *target) != target) continue;
      exits.push_back({{Time(0), pc, pc + effects.size}, *target});
    }
  }
  it->second = std::move(exits);
  return &*it->second;
}

absl::StatusOr<std::vector<TailJump>> TailCalls::OnlyWay(Moment& moment, const Symbolizer& symbols,
                                                         Address from, Address to) {
  struct Step {
    Address at;
    size_t next;  // of its exits
    TailJump by;
  };
  std::vector<Step> way = {{from, 0, {}}};
  std::vector<TailJump> found;
  bool any = false;
  for (size_t looked = 0; !way.empty(); ++looked) {
    Step& step = way.back();
    ASSIGN_OR_RETURN(const std::vector<Exit>* exits, ExitsOf(moment, symbols, step.at));
    if (exits == nullptr || looked > kMaxSteps) return std::vector<TailJump>();
    if (step.next == exits->size()) {
      way.pop_back();
      continue;
    }
    const Exit exit = (*exits)[step.next++];
    if (exit.to == to) {
      if (any) return std::vector<TailJump>();
      any = true;
      found.push_back(exit.jump);
      for (size_t i = way.size(); i-- > 1;) found.push_back(way[i].by);
      continue;
    }
    const bool is_circle =
        std::any_of(way.begin(), way.end(), [&](const Step& other) { return other.at == exit.to; });
    if (!is_circle && way.size() < kMaxWay) way.push_back({exit.to, 0, exit.jump});
  }
  return found;
}

absl::StatusOr<std::optional<TailJump>> TailCalls::JumpBefore(const Symbolizer& symbols,
                                                              ThreadNo thread, Address slot, Time t,
                                                              Time call) {
  for (int i = 0; i < kMaxStubs; ++i) {
    ASSIGN_OR_RETURN(std::optional<OriginTracer::Instruction> before,
                     tracer_.InstructionBefore(thread, t));
    if (!before || before->time <= call) return std::nullopt;
    t = before->time;
    const std::optional<FunctionInfo> function = symbols.FunctionAt(before->pc);
    if (!function || function->name.ends_with("@plt")) continue;
    if (function->name.starts_with("_dl_runtime_resolve") && function->entry) {
      // The linkage table jumped to it.
      ASSIGN_OR_RETURN(auto begun, names_.process().Executions(
                                       {{*function->entry, *function->entry + 1}}, {call, t},
                                       Direction::kBackward, thread, nullptr));
      ASSIGN_OR_RETURN(std::optional<Execution> first, begun->Next());
      if (!first) return std::nullopt;
      t = first->time;
      continue;
    }
    // Who jumps on has given back its part of the stack; a linkage table pushes what it asks for.
    ASSIGN_OR_RETURN(Registers then, names_.process().RegistersAt(t, thread));
    if (then.gpr[kRsp] != slot.v) continue;
    if (!IsJump(before->bytes)) return std::nullopt;
    return TailJump{t, before->pc, before->pc + before->bytes.size()};
  }
  return std::nullopt;
}

absl::StatusOr<bool> TailCalls::StillHolds(Known* known, Address slot, Time t) {
  if (t <= known->call) return false;
  if (t <= known->until) return true;
  AccessQuery query;
  query.ranges = {{slot, slot + 8}};
  query.span = {known->until, t};
  query.want_values = false;
  ASSIGN_OR_RETURN(std::optional<Access> written, LastAccess(names_.process(), std::move(query)));
  if (written) return false;
  known->until = t;
  return true;
}

absl::StatusOr<std::vector<TailJump>> TailCalls::Between(Moment& moment, ThreadNo thread,
                                                         Address pc, Address slot,
                                                         Address return_address) {
  std::vector<TailJump> jumps;
  ASSIGN_OR_RETURN(const Symbolizer* symbols, names_.SymbolsAt(moment.time()));
  std::optional<Address> entry = EntryOf(*symbols, pc);
  if (!entry || return_address.v < kLongestCall) return jumps;
  const std::pair call_site(Key(symbols, return_address.v), entry->v);
  if (direct_.contains(call_site)) return jumps;
  const Frame frame(thread.v, slot.v, call_site.first, entry->v);
  if (const auto known = known_.find(frame); known != known_.end()) {
    ASSIGN_OR_RETURN(bool holds, StillHolds(&known->second, slot, moment.time()));
    if (holds) return known->second.jumps;
  }
  ASSIGN_OR_RETURN(std::optional<Address> called, Called(moment, return_address));
  if (called && EntryOf(*symbols, *called) == entry) {
    direct_.insert(call_site);
    return jumps;
  }
  const Process& process = names_.process();
  if (HistoryUnknown(process)) {
    if (!called) return jumps;
    return OnlyWay(moment, *symbols, *called, *entry);
  }
  // When it was called, and what.
  AccessQuery query;
  query.ranges = {{slot, slot + 8}};
  query.span.end = moment.time();
  query.want_values = false;
  const Time known_from = process.info().indexed.begin;
  if (known_from.v != 0) query.span.begin = known_from + 1;
  ASSIGN_OR_RETURN(std::optional<Access> pushed, LastAccess(process, std::move(query)));
  if (!pushed && known_from.v != 0) {
    process.DoWithout("functions that ended in a tail call before that may be missing in stacks");
  }
  if (!pushed) return jumps;
  const Access& call = *pushed;
  if (call.actor != Actor::kInstruction || call.thread != thread || call.address != slot ||
      call.size != 8 || call.pc >= return_address || return_address.v - call.pc.v > kLongestCall) {
    return jumps;
  }
  ASSIGN_OR_RETURN(Registers begun, process.RegistersAt(call.time + 1, thread));
  if (EntryOf(*symbols, begun.pc) == entry) {
    direct_.insert(call_site);
    return jumps;
  }
  std::vector<Address> seen;
  Time limit = moment.time() + 1;
  while (jumps.size() < kMaxJumps) {
    seen.push_back(*entry);
    // The first time that this call ran it.
    ASSIGN_OR_RETURN(auto entered,
                     process.Executions({{*entry, *entry + 1}}, {call.time + 1, limit},
                                        Direction::kForward, thread, nullptr));
    std::optional<Time> first;
    for (int i = 0; i < kMaxEntries && !first; ++i) {
      ASSIGN_OR_RETURN(std::optional<Execution> next, entered->Next());
      if (!next) break;
      ASSIGN_OR_RETURN(Registers then, process.RegistersAt(next->time, thread));
      if (then.gpr[kRsp] == slot.v) first = next->time;
    }
    if (!first) break;
    ASSIGN_OR_RETURN(std::optional<TailJump> jump,
                     JumpBefore(*symbols, thread, slot, *first, call.time));
    if (!jump) break;
    entry = EntryOf(*symbols, jump->pc);
    if (!entry || std::find(seen.begin(), seen.end(), *entry) != seen.end()) {
      break;
    }
    limit = jump->time + 1;
    jumps.push_back(*jump);
  }
  if (jumps.empty()) {
    direct_.insert(call_site);
  } else {
    known_[frame] = {call.time, moment.time(), jumps};
  }
  return jumps;
}

}  // namespace ttq

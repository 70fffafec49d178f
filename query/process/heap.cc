// SPDX-License-Identifier: MIT

#include "query/process/heap.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <set>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "base/disk_cache.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/code/symbols.h"
#include "query/process/process_names.h"

namespace ttq {
namespace {

constexpr uint64_t kMaxLives = 20'000'000;

struct KnownName {
  const char* symbol;
  const char* shown;
  HeapVerb verb;
};
constexpr KnownName kNames[] = {
    {"malloc", "malloc", HeapVerb::kMalloc},
    {"calloc", "calloc", HeapVerb::kCalloc},
    {"realloc", "realloc", HeapVerb::kRealloc},
    {"reallocarray", "reallocarray", HeapVerb::kReallocArray},
    {"aligned_alloc", "aligned_alloc", HeapVerb::kAligned},  // glibc: memalign's other name
    {"memalign", "memalign", HeapVerb::kAligned},
    {"posix_memalign", "posix_memalign", HeapVerb::kPosixMemalign},
    {"valloc", "valloc", HeapVerb::kMalloc},
    {"pvalloc", "pvalloc", HeapVerb::kMalloc},
    {"free", "free", HeapVerb::kFree},
    {"cfree", "cfree", HeapVerb::kFree},
    {"_Znwm", "operator new", HeapVerb::kMalloc},
    {"_ZnwmRKSt9nothrow_t", "operator new", HeapVerb::kMalloc},
    {"_ZnwmSt11align_val_t", "operator new", HeapVerb::kMalloc},
    {"_ZnwmSt11align_val_tRKSt9nothrow_t", "operator new", HeapVerb::kMalloc},
    {"_Znam", "operator new[]", HeapVerb::kMalloc},
    {"_ZnamRKSt9nothrow_t", "operator new[]", HeapVerb::kMalloc},
    {"_ZnamSt11align_val_t", "operator new[]", HeapVerb::kMalloc},
    {"_ZnamSt11align_val_tRKSt9nothrow_t", "operator new[]", HeapVerb::kMalloc},
    {"_ZdlPv", "operator delete", HeapVerb::kFree},
    {"_ZdlPvm", "operator delete", HeapVerb::kFree},
    {"_ZdlPvRKSt9nothrow_t", "operator delete", HeapVerb::kFree},
    {"_ZdlPvSt11align_val_t", "operator delete", HeapVerb::kFree},
    {"_ZdlPvmSt11align_val_t", "operator delete", HeapVerb::kFree},
    {"_ZdlPvSt11align_val_tRKSt9nothrow_t", "operator delete", HeapVerb::kFree},
    {"_ZdaPv", "operator delete[]", HeapVerb::kFree},
    {"_ZdaPvm", "operator delete[]", HeapVerb::kFree},
    {"_ZdaPvRKSt9nothrow_t", "operator delete[]", HeapVerb::kFree},
    {"_ZdaPvSt11align_val_t", "operator delete[]", HeapVerb::kFree},
    {"_ZdaPvmSt11align_val_t", "operator delete[]", HeapVerb::kFree},
    {"_ZdaPvSt11align_val_tRKSt9nothrow_t", "operator delete[]", HeapVerb::kFree},
};

}  // namespace

absl::StatusOr<std::vector<HeapFunction>> FindAllocator(const ProcessNames& names) {
  ASSIGN_OR_RETURN(const Symbolizer* symbols, names.AllSymbols());
  std::vector<HeapFunction> out;
  std::set<uint64_t> seen;
  for (const KnownName& known : kNames) {
    for (const FunctionInfo& f : symbols->FindSymbol(known.symbol)) {
      if (!seen.insert(f.entry->v).second) continue;
      out.push_back({*f.entry, known.verb, known.shown, f.module});
      if (out.size() == 1000) return out;
    }
  }
  return out;
}

namespace {

// What a call changes, at the time it does.
struct Step {
  Time at, call, returned;
  uint64_t pointer, size;
  Address from;
  ThreadNo thread;
  uint16_t with;
  bool frees;
};

uint64_t Product(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? ~uint64_t{0} : product;
}

void AddSteps(const CallRecord& call, const HeapFunction& function, uint16_t with,
              std::vector<Step>* steps) {
  const auto add = [&](bool frees, uint64_t pointer, uint64_t size) {
    if (pointer == 0) return;
    steps->push_back({frees ? call.time : call.return_time, call.time, call.return_time, pointer,
                      size, call.return_address, call.thread, with, frees});
  };
  const bool returned = call.return_time != kTimeMax;
  switch (function.verb) {
    case HeapVerb::kMalloc:
      if (returned) add(false, call.result, call.args[0]);
      break;
    case HeapVerb::kCalloc:
      if (returned) add(false, call.result, Product(call.args[0], call.args[1]));
      break;
    case HeapVerb::kAligned:
      if (returned) add(false, call.result, call.args[1]);
      break;
    case HeapVerb::kPosixMemalign:
      if (returned && (call.result & 0xffffffff) == 0) add(false, call.stored, call.args[2]);
      break;
    case HeapVerb::kFree:
      add(true, call.args[0], 0);
      break;
    case HeapVerb::kRealloc:
    case HeapVerb::kReallocArray: {
      const uint64_t size =
          function.verb == HeapVerb::kRealloc ? call.args[1] : Product(call.args[1], call.args[2]);
      if (returned && call.result == 0 && size != 0) break;  // failed: nothing has changed
      add(true, call.args[0], 0);
      if (returned) add(false, call.result, size);
      break;
    }
  }
}

}  // namespace

absl::Status HeapIndex::Build(const ProcessNames& names, ScanControl* control) {
  ASSIGN_OR_RETURN(functions_, FindAllocator(names));
  if (functions_.empty()) return absl::OkStatus();
  std::vector<Address> entries;
  absl::flat_hash_map<uint64_t, uint16_t> number;
  for (const HeapFunction& f : functions_) {
    number[f.entry.v] = static_cast<uint16_t>(entries.size());
    entries.push_back(f.entry);
  }
  std::vector<Step> steps;
  bool all = true;
  const auto row = [&](const CallRecord& call) {
    const auto it = number.find(call.function.v);
    if (it == number.end()) return;
    if (steps.size() >= 2 * kMaxLives) {
      all = false;
      return;
    }
    AddSteps(call, functions_[it->second], it->second, &steps);
  };
  RETURN_IF_ERROR(names.process().OuterCalls(entries, row, control));
  if (!all) return absl::ResourceExhaustedError("more than 20 million allocations");
  // A block that is given out has been given back before.
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
    return a.at != b.at ? a.at < b.at : a.frees > b.frees;
  });
  absl::flat_hash_map<uint64_t, size_t> alive;
  for (const Step& step : steps) {
    const auto it = alive.find(step.pointer);
    if (step.frees) {
      if (it == alive.end()) {
        bad_frees_.push_back({step.call, Address(step.pointer), step.from, step.thread, step.with});
        continue;
      }
      HeapLife& life = lives_[it->second];
      life.freed = step.call;
      life.freed_from = step.from;
      life.freed_thread = step.thread;
      life.freed_with = step.with;
      alive.erase(it);
      continue;
    }
    if (it != alive.end()) {
      // Given back in a way that was not seen.
      lives_[it->second].freed = step.call;
      it->second = lives_.size();
    } else {
      alive[step.pointer] = lives_.size();
    }
    HeapLife life;
    life.begin = Address(step.pointer);
    life.size = step.size;
    life.allocated = step.call;
    life.returned = step.returned;
    life.allocated_from = step.from;
    life.allocated_thread = step.thread;
    life.allocated_with = step.with;
    lives_.push_back(life);
  }
  std::sort(lives_.begin(), lives_.end(), [](const HeapLife& a, const HeapLife& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.allocated < b.allocated;
  });
  lives_.shrink_to_fit();
  return absl::OkStatus();
}

void HeapIndex::Finish() {
  reach_.reserve(lives_.size());
  uint64_t reach = 0;
  for (const HeapLife& life : lives_) {
    const uint64_t end = life.begin.v + life.extent();
    reach = std::max(reach, end < life.begin.v ? ~uint64_t{0} : end);
    reach_.push_back(reach);
  }
}

HeapIndex::Around HeapIndex::Find(Address address, Time t) const {
  Around out;
  const auto after = std::upper_bound(lives_.begin(), lives_.end(), address,
                                      [](Address a, const HeapLife& l) { return a < l.begin; });
  const size_t first = static_cast<size_t>(after - lives_.begin());
  for (size_t i = first; i-- > 0 && reach_[i] > address.v;) {
    const HeapLife& life = lives_[i];
    if (life.allocated >= t || address.v - life.begin.v >= life.extent()) continue;
    ++out.lives;
    if (out.inside == nullptr || life.allocated > out.inside->allocated) {
      out.earlier = out.inside;
      out.inside = &life;
    } else if (out.earlier == nullptr || life.allocated > out.earlier->allocated) {
      out.earlier = &life;
    }
  }
  for (size_t i = first; i-- > 0 && out.below == nullptr;) {
    if (lives_[i].IsAlive(t) && &lives_[i] != out.inside) out.below = &lives_[i];
  }
  for (size_t i = first; i < lives_.size() && out.above == nullptr; ++i) {
    if (lives_[i].IsAlive(t)) out.above = &lives_[i];
  }
  return out;
}

// ---- The file -----------------------------------------------------------------------------------
//
// HeapFileHead, functions (HeapFileFunction, then the bytes of name and module), lives, bad frees.

namespace {

constexpr char kHeapMagic[8] = {'t', 't', 'q', 'h', 'e', 'a', 'p', '\n'};
constexpr uint32_t kHeapVersion = 2;  // 2: the hash is of the head's counts too
constexpr uint64_t kMaxFileBytes = uint64_t{kMaxLives} * sizeof(HeapLife) * 2;

struct HeapFileHead {
  char magic[8];
  uint32_t version = kHeapVersion, process = 0;
  uint64_t end = 0, blocks = 0, log_bytes = 0;
  int64_t start_wall_ns = 0;
  uint64_t functions = 0, lives = 0, bad_frees = 0;
  uint64_t hash = 0;  // of what is before it, and of all that follows
};
struct HeapFileFunction {
  uint64_t entry;
  uint32_t verb;
  uint16_t name_bytes, module_bytes;
};
static_assert(sizeof(HeapFileHead) == 80 && sizeof(HeapFileFunction) == 16);
static_assert(sizeof(HeapLife) == 72 && std::is_trivially_copyable_v<HeapLife>);
static_assert(sizeof(BadFree) == 32 && std::is_trivially_copyable_v<BadFree>);

// FNV-1a over words, against damage, not malice.
uint64_t HashOf(std::string_view bytes, uint64_t hash) {
  while (bytes.size() >= 8) {
    uint64_t word;
    memcpy(&word, bytes.data(), 8);
    hash = (hash ^ word) * 0x100000001b3ull;
    hash ^= hash >> 29;
    bytes.remove_prefix(8);
  }
  for (char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  return hash;
}
uint64_t HashOf(const HeapFileHead& head, std::string_view body) {
  const std::string_view before(reinterpret_cast<const char*>(&head), offsetof(HeapFileHead, hash));
  return HashOf(body, HashOf(before, 0xcbf29ce484222325ull));
}

HeapFileHead HeadFor(const ProcessInfo& info) {
  HeapFileHead head;
  memcpy(head.magic, kHeapMagic, sizeof(head.magic));
  head.process = info.number.v;
  head.end = info.end.v;
  head.blocks = info.blocks;
  head.log_bytes = info.log_bytes;
  head.start_wall_ns = info.start_wall_ns;
  return head;
}

bool Take(std::string_view* rest, void* out, size_t size) {
  if (rest->size() < size) return false;
  if (size > 0) memcpy(out, rest->data(), size);  // an empty vector's data may be null
  rest->remove_prefix(size);
  return true;
}

}  // namespace

bool HeapIndex::ReadFile(const std::string& path, const ProcessInfo& info) {
  std::string bytes;
  if (!ReadWholeFile(path, kMaxFileBytes, &bytes)) return false;
  std::string_view rest = bytes;
  HeapFileHead head;
  if (!Take(&rest, &head, sizeof(head))) return false;
  HeapFileHead expected = HeadFor(info);
  expected.functions = head.functions;
  expected.lives = head.lives;
  expected.bad_frees = head.bad_frees;
  expected.hash = HashOf(expected, rest);
  if (memcmp(&head, &expected, sizeof(head)) != 0) return false;
  if (head.functions > 1000 || head.lives > rest.size() || head.bad_frees > rest.size()) {
    return false;
  }
  for (uint64_t i = 0; i < head.functions; ++i) {
    HeapFileFunction f;
    if (!Take(&rest, &f, sizeof(f)) || f.verb > static_cast<uint32_t>(HeapVerb::kFree) ||
        rest.size() < size_t{f.name_bytes} + f.module_bytes) {
      return false;
    }
    functions_.push_back({Address(f.entry), static_cast<HeapVerb>(f.verb),
                          std::string(rest.substr(0, f.name_bytes)),
                          std::string(rest.substr(f.name_bytes, f.module_bytes))});
    rest.remove_prefix(size_t{f.name_bytes} + f.module_bytes);
  }
  if (rest.size() != head.lives * sizeof(HeapLife) + head.bad_frees * sizeof(BadFree)) return false;
  lives_.resize(head.lives);
  Take(&rest, lives_.data(), head.lives * sizeof(HeapLife));
  bad_frees_.resize(head.bad_frees);
  Take(&rest, bad_frees_.data(), head.bad_frees * sizeof(BadFree));
  for (size_t i = 0; i < lives_.size(); ++i) {
    const HeapLife& life = lives_[i];
    if (life.allocated_with >= functions_.size() || life.freed_with >= functions_.size() ||
        (i > 0 && life.begin < lives_[i - 1].begin)) {
      return false;
    }
  }
  for (const BadFree& bad : bad_frees_) {
    if (bad.with >= functions_.size()) return false;
  }
  return true;
}

void HeapIndex::WriteFile(const std::string& path, const ProcessInfo& info) const {
  std::string body;
  for (const HeapFunction& f : functions_) {
    const HeapFileFunction record{f.entry.v, static_cast<uint32_t>(f.verb),
                                  static_cast<uint16_t>(std::min<size_t>(f.name.size(), 1000)),
                                  static_cast<uint16_t>(std::min<size_t>(f.module.size(), 1000))};
    body.append(reinterpret_cast<const char*>(&record), sizeof(record));
    body.append(f.name, 0, record.name_bytes);
    body.append(f.module, 0, record.module_bytes);
  }
  body.append(reinterpret_cast<const char*>(lives_.data()), lives_.size() * sizeof(HeapLife));
  body.append(reinterpret_cast<const char*>(bad_frees_.data()),
              bad_frees_.size() * sizeof(BadFree));
  HeapFileHead head = HeadFor(info);
  head.functions = functions_.size();
  head.lives = lives_.size();
  head.bad_frees = bad_frees_.size();
  head.hash = HashOf(head, body);
  WriteWholeFile(path, {{reinterpret_cast<const char*>(&head), sizeof(head)}, body});
}

absl::StatusOr<std::unique_ptr<const HeapIndex>> HeapIndex::Make(const ProcessNames& names,
                                                                 ScanControl* control) {
  const ProcessInfo& info = names.process().info();
  const RecordingInfo& recording = names.recording().info();
  std::unique_ptr<HeapIndex> index(new HeapIndex);
  const bool keep = recording.finished && !recording.path.empty();
  const std::string path = fmt::format("{}/heap-{}.cache", recording.path, info.number.v);
  if (!keep || !index->ReadFile(path, info)) {
    index.reset(new HeapIndex);
    RETURN_IF_ERROR(index->Build(names, control));
    if (keep && names.recording().Damage().ok()) index->WriteFile(path, info);
  }
  index->Finish();
  if (index->functions_.empty()) {
    index->note_ =
        "no module has a function of an allocator by name (malloc, free, operator new …)";
  } else if (info.parent.v != 0 && !info.by_exec) {
    index->note_ =
        fmt::format("what was allocated before the fork is known to process {} only (-p {})",
                    info.parent.v, info.parent.v);
  }
  return std::unique_ptr<const HeapIndex>(std::move(index));
}

bool MayBeAllocator(std::string_view function) {
  function = function.substr(0, function.find('<'));
  const size_t scope = function.rfind("::");
  if (scope != std::string_view::npos) function.remove_prefix(scope + 2);
  if (function.find("dealloc") != std::string_view::npos) return false;  // of an object's type
  static constexpr std::string_view kParts[] = {"alloc",    "Malloc",       "free",
                                                "memalign", "operator new", "operator delete"};
  return std::any_of(std::begin(kParts), std::end(kParts), [&](std::string_view part) {
    return function.find(part) != std::string_view::npos;
  });
}

bool IsGlibc(std::string_view module) {
  return module.substr(0, 8) == "libc.so." || module.substr(0, 7) == "libc-2.";
}

// ---- Words --------------------------------------------------------------------------------------

std::string DescribeCaller(const ProcessNames& names, Address return_address, Time t) {
  if (return_address.v == 0) return "";
  absl::StatusOr<const Symbolizer*> symbols = names.SymbolsAt(t);
  if (!symbols.ok()) return "";
  const std::shared_ptr<const CodeLocation> place = (*symbols)->Symbolize(return_address - 1);
  if (place->frames.empty()) {
    const std::string name = (*symbols)->NameOf(return_address - 1);
    return name.empty() ? Hex(return_address) : name;
  }
  // Of code inlined into the caller, the first that is not the library's.
  const auto is_library = [](const InlineFrame& f) {
    return f.function.rfind("std::", 0) == 0 || f.function.rfind("__gnu_cxx::", 0) == 0 ||
           f.file.find("/include/x86_64-linux-gnu/bits/") != f.file.npos;
  };
  const InlineFrame* frame = &place->frames.back();
  for (const InlineFrame& f : place->frames) {
    if (is_library(f)) continue;
    frame = &f;
    break;
  }
  if (frame->file.empty() || frame->line == 0) return frame->function;
  return fmt::format("{} ({}:{})", frame->function, BaseName(frame->file), frame->line);
}

std::optional<uint64_t> UsableSize(const ProcessNames& names, const HeapIndex& heap,
                                   const HeapLife& life, Time t) {
  if (life.begin.v < 16) return std::nullopt;
  for (const HeapFunction& f : heap.functions()) {
    // Somebody else's malloc goes before glibc's.
    if (f.name == "malloc" && !IsGlibc(f.module)) return std::nullopt;
  }
  const Time at = std::min({t, life.freed, names.process().info().end});
  if (at < life.returned) return std::nullopt;
  absl::StatusOr<MemoryImage> head = names.process().Memory(life.begin - 8, 8, at);
  if (!head.ok() || !head->all_present()) return std::nullopt;
  uint64_t word;
  memcpy(&word, head->bytes.data(), 8);
  constexpr uint64_t kFlags = 7, kMapped = 2;
  const uint64_t chunk = word & ~kFlags, used = (word & kMapped) != 0 ? 16 : 8;
  if (chunk < used || chunk - used < life.size) return std::nullopt;
  // Rounding, and what is too little to cut off.
  const uint64_t slack = (word & kMapped) != 0 ? 2 * kPageBytes : 64;
  if (chunk - used - life.size > slack) return std::nullopt;
  return chunk - used;
}

}  // namespace ttq

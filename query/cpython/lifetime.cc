// SPDX-License-Identifier: MIT

#include "query/cpython/lifetime.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/status_macros.h"

namespace ttq::python {

CountWord CountWordOf(const Layout& layout) {
  if (layout.object_refcount == kAbsent) {
    return {static_cast<uint64_t>(layout.object_ref_local), 4, 8};
  }
  // From 3.12 on an immortal object is told by the low half alone, and only that half is a count.
  return {static_cast<uint64_t>(layout.object_refcount), layout.traits.immortal_counts ? 4u : 8u};
}

absl::StatusOr<CountReader> CountReader::Open(Provenance& provenance, uint64_t object,
                                              const CountWord& word, Direction direction,
                                              Time start) {
  CountReader reader(object, word, direction);
  if (word.shared_size == 0) return reader;
  ASSIGN_OR_RETURN(PythonState * state, provenance.StateAt(start));
  if (state == nullptr) return reader;
  for (Part* part : {&reader.own_, &reader.shared_}) {
    state->memory().Read(object + part->offset, part->size, &part->value);
  }
  return reader;
}

std::optional<CountChange> CountReader::Read(Access access) {
  const auto read = [&](const std::string& bytes, size_t skip, const Part& part) -> int64_t {
    if (bytes.size() < skip + part.size) return 0;
    uint64_t v = 0;
    memcpy(&v, bytes.data() + skip, part.size);
    return static_cast<int64_t>(v);
  };
  // Of the part before and after the write; false: it does not cover it.
  const auto take = [&](Part& part, int64_t* before, int64_t* after) {
    const uint64_t at = object_ + part.offset, begin = access.address.v;
    const uint64_t size = std::min<uint64_t>(access.size, access.value.size());
    if (begin > at || begin + size < at + part.size) {
      *before = *after = part.value;
      return false;
    }
    *before = read(access.previous, at - begin, part);
    *after = read(access.value, at - begin, part);
    part.value = forward_ ? *after : *before;
    return true;
  };
  CountChange change;
  const bool own = take(own_, &change.own_before, &change.own_after);
  change.before = change.own_before;
  change.after = change.own_after;
  if (shared_.size != 0) {
    int64_t word_before, word_after;
    const bool shared = take(shared_, &word_before, &word_after);
    const SharedReferences after = SharedReferencesOf(word_after);
    change.before += SharedReferencesOf(word_before).count;
    change.after += after.count;
    change.deferred = after.deferred;
    change.merges = !own && shared && after.merged && !SharedReferencesOf(word_before).merged &&
                    change.before != change.after;
    if (change.before == change.after && change.own_before == change.own_after) return std::nullopt;
  } else if (!own) {
    return std::nullopt;
  }
  change.access = std::move(access);
  return change;
}

std::string StateOf(const Epoch& epoch) {
  return !epoch.death ? "alive" : epoch.replaced ? "replaced" : "freed";
}

absl::StatusOr<std::string> NativeFunction(const Context& context, Address pc, Time t) {
  ASSIGN_OR_RETURN(const Symbolizer* symbols, context.SymbolsAt(t));
  const std::shared_ptr<const CodeLocation> place = symbols->Symbolize(pc);
  return place->frames.empty() ? place->function : place->frames.back().function;
}

bool IsCount(int64_t n) {
  constexpr int64_t kMaxCount = int64_t{1} << 30;
  return n >= 0 && n < kMaxCount;
}

absl::StatusOr<std::unique_ptr<EpochScanner>> EpochScanner::Open(
    const Process& process, Provenance* provenance, uint64_t object, TimeSpan span,
    ScanControl* control, bool births_only, uint64_t most_changes) {
  const Time end = std::min(span.end, process.info().end);
  ASSIGN_OR_RETURN(PythonState * state, provenance->StateAt(end));
  if (state == nullptr || state->instances().empty()) {
    const std::string why = state == nullptr ? "" : state->problem();
    return absl::NotFoundError(why.empty() ? "no module of this process is CPython" : why);
  }
  const Layout& layout = *state->instances()[0]->runtime.layout;
  std::unique_ptr<EpochScanner> scanner(
      new EpochScanner(process, provenance, object, span, layout));
  AccessQuery query;
  const CountWord& word = scanner->word_;
  const uint64_t type = object + static_cast<uint64_t>(layout.object_type);
  query.ranges = {word.Of(object), {Address(type), Address(type + 8)}};
  // Births before the span are looked for too: an object's epoch does not begin with it.
  query.span = {Time(0), span.end};
  query.direction = Direction::kBackward;
  scanner->span_.end = end;
  scanner->most_changes_ = most_changes;
  if (births_only) {
    ASSIGN_OR_RETURN(Time until, scanner->EndOfBirth(process, end));
    query.span.end = std::min(query.span.end, until);
  }
  const Time scan_end = std::min(query.span.end, process.info().end);
  ASSIGN_OR_RETURN(scanner->cursor_, process.Accesses(std::move(query), control));
  ASSIGN_OR_RETURN(scanner->counts_,
                   CountReader::Open(*provenance, object, word, Direction::kBackward, scan_end));
  return scanner;
}

namespace {

// The type is stored at most so many instructions before or after the count.
constexpr uint64_t kTypeNear = 400;
// Who counts reads the count at most so many instructions before writing it.
constexpr uint64_t kReadBefore = 40;
// A deallocator gives its reference back at most so many bytes of code from where it took it.
constexpr uint64_t kSameFunction = 1024;
// Of the changes after a mark.
constexpr size_t kMaxKept = 3;

// Types whose free lists hand out objects without storing the type again.
bool IsKept(const TypeInfo& type, const Layout& layout) {
  const auto& names = layout.traits.reused_types;
  return std::find(names.begin(), names.end(), type.name) != names.end();
}

// What an immortal object's count holds.
bool IsImmortal(int64_t n, const Layout& layout) {
  return layout.traits.immortal_counts && n >= int64_t{1} << 31 && n <= int64_t{UINT32_MAX};
}

uint64_t WordOf(const Access& access, uint64_t at) {
  uint64_t word = 0;
  const uint64_t skip = at - access.address.v;
  if (access.address.v <= at && skip < access.value.size()) {
    memcpy(&word, access.value.data() + skip, std::min<size_t>(8, access.value.size() - skip));
  }
  return word;
}

}  // namespace

absl::StatusOr<Time> EpochScanner::EndOfBirth(const Process& process, Time end) {
  const auto alive_at = [&](Time t) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(PythonState * state, provenance_.StateAt(t));
    for (const auto& instance : state->instances()) {
      const TypeInfo* type = instance->objects.TypeOf(object_);
      const std::optional<Refcount> count = instance->objects.RefcountOf(object_);
      if (type && !IsKept(*type, layout_) && count && IsCount(count->count) && count->count > 0 &&
          !count->immortal) {
        return true;
      }
    }
    return false;
  };
  const auto last_write = [&](AddressRange range,
                              Time before) -> absl::StatusOr<std::optional<Access>> {
    AccessQuery query;
    query.ranges = {range};
    query.span = {Time(0), before};
    query.want_values = false;
    return LastAccess(process, std::move(query));
  };
  absl::StatusOr<bool> alive = alive_at(end);
  if (!alive.ok()) return alive.status();
  if (!*alive) {
    // Perhaps just before its count was written for the last time: that was its death.
    ASSIGN_OR_RETURN(std::optional<Access> last, last_write(word_.Of(object_), end));
    if (!last) return kTimeMax;
    end = last->time;
    alive = alive_at(end);
    if (!alive.ok()) return alive.status();
    if (!*alive) return kTimeMax;
    span_.end = end;
  }
  // Its type was stored when it was made and never again: far fewer blocks than those that count.
  const uint64_t type_at = object_ + static_cast<uint64_t>(layout_.object_type);
  ASSIGN_OR_RETURN(std::optional<Access> stored,
                   last_write({Address(type_at), Address(type_at + 8)}, end));
  return stored ? stored->time + kTypeNear : kTimeMax;
}

absl::StatusOr<const TypeInfo*> EpochScanner::TypeAt(Time t, ObjectReader** reader) {
  ASSIGN_OR_RETURN(PythonState * state, provenance_.StateAt(t));
  for (const auto& instance : state->instances()) {
    const TypeInfo* type = instance->objects.TypeOf(object_);
    if (!type) continue;
    *reader = &instance->objects;
    return type;
  }
  return nullptr;
}

absl::StatusOr<bool> EpochScanner::HasRead(const CountChange& change, Time since) {
  const Access& access = change.access;
  if (access.actor != Actor::kInstruction) return false;  // the kernel counts nothing
  const auto known = counts_at_.find(access.pc.v);
  if (known != counts_at_.end()) return known->second;
  AccessQuery query;
  query.ranges = {word_.Of(object_)};
  query.span = {std::max(since, Time(access.time.v - std::min(access.time.v, kReadBefore))),
                access.time + 1};
  query.reads = true;
  query.writes = false;
  query.thread = access.thread;
  query.direction = Direction::kBackward;
  query.want_values = false;
  ASSIGN_OR_RETURN(std::optional<Access> read, LastAccess(process_, std::move(query)));
  counts_at_.emplace(access.pc.v, read.has_value());
  return read.has_value();
}

absl::StatusOr<bool> EpochScanner::IsBirth(const Access* before, const CountChange* change) {
  const CountChange& c = *candidate_;
  const uint64_t type_at = object_ + static_cast<uint64_t>(layout_.object_type);
  const auto stores_type = [&](const Access& a) {
    return a.address.v <= type_at && type_at < a.address.v + a.size;
  };
  // Who counts has read the word since it was written last.
  const Time written = change ? change->access.time + 1 : Time(0);
  type_with_ = kTimeMax;
  if (stores_type(c.access)) {
    type_with_ = c.access.time;
    return true;
  }
  Time since(0);  // when its type was stored, if before it
  if (before && stores_type(*before) && before->thread == c.access.thread &&
      before->time + kTypeNear >= c.access.time) {
    // Where an object was copied as a whole, that was its birth; its count is set once more.
    if (change && change->own_after == 1) return false;
    type_with_ = since = before->time;
  } else if (type_after_ != kTimeMax && type_after_ <= c.access.time + kTypeNear) {
    type_with_ = type_after_;
  }
  if (type_with_ != kTimeMax) {
    // A class can be changed, too, and a reference given back right then.
    if (c.own_before != 2) return true;
    ASSIGN_OR_RETURN(bool counted, HasRead(c, std::max(since, written)));
    return !counted;
  }
  // Of a free list, or nothing at all. Where its link is in the count itself it has been read,
  // whoever it is.
  const bool linked = layout_.traits.free_lists_link_by_count;
  if (c.own_before != 0 && (!linked || IsCount(c.own_before))) return false;
  if (!linked) {
    ASSIGN_OR_RETURN(bool counted, HasRead(c, written));
    if (counted) return false;
  }
  ObjectReader* reader = nullptr;
  ASSIGN_OR_RETURN(const TypeInfo* type, TypeAt(c.access.time + 1, &reader));
  return type != nullptr && IsKept(*type, layout_);
}

absl::StatusOr<bool> EpochScanner::IsDeallocator(const CountChange& zero,
                                                 const CountChange& change) {
  const Access& access = change.access;
  if (access.thread != zero.access.thread || access.actor != Actor::kInstruction) return false;
  ASSIGN_OR_RETURN(const Symbolizer* symbols, provenance_.context().SymbolsAt(access.time));
  const std::shared_ptr<const CodeLocation> place = symbols->Symbolize(access.pc);
  std::vector<std::string> functions = {place->function};
  for (const auto& frame : place->frames) functions.push_back(frame.function);
  bool named = false;
  for (const std::string& function : functions) {
    if (function.empty() || function.starts_with('?')) continue;
    named = true;
    if (function.find("CallFinalizerFromDealloc") != function.npos ||
        function.find("dealloc") != function.npos || function.find("Dealloc") != function.npos ||
        function.find("IOBase_finalize") != function.npos) {
      return true;
    }
  }
  if (named) return false;
  // Without names: a deallocator is called by who gave back the last reference.
  absl::StatusOr<Registers> then = process_.RegistersAt(zero.access.time, zero.access.thread);
  absl::StatusOr<Registers> now = process_.RegistersAt(access.time, access.thread);
  if (!then.ok() || !now.ok()) return false;
  return now->gpr[kRsp] < then->gpr[kRsp];
}

// Whether a change of the count of an object that is dead is somebody's counting, and not what was
// written there for another purpose. `written`: when the word was written before.
absl::StatusOr<bool> EpochScanner::IsUse(const Epoch& epoch, const CountChange& change,
                                         Time written) {
  const int64_t delta = change.after - change.before;
  const bool wrapped = change.before == 0 && change.after == int64_t{UINT32_MAX};
  if (delta != 1 && delta != -1 && !wrapped) return false;
  absl::StatusOr<bool> counted = HasRead(change, written + 1);
  if (!counted.ok() || !*counted) return counted;
  ObjectReader* reader = nullptr;
  ASSIGN_OR_RETURN(const TypeInfo* type, TypeAt(change.access.time, &reader));
  return type != nullptr && type->address == epoch.type;
}

absl::Status EpochScanner::FindDeath(Epoch* epoch) {
  const CountChange* end = nullptr;  // the death
  std::optional<CountChange> use;
  for (size_t i = marks_.size(); i-- > 0;) {
    const Mark& mark = marks_[i];
    if (mark.change.after > 0) {
      // The allocator's link, in what was moved.
      const uint64_t link = WordOf(mark.change.access, object_ + word_.offset);
      constexpr uint64_t kFreed = 0xdddddddddddddddd;
      ASSIGN_OR_RETURN(PythonState * state, provenance_.StateAt(mark.change.access.time));
      uint64_t there;
      if (link != kFreed && (link % 8 != 0 || !state->memory().Read(link, 8, &there))) continue;
      end = &mark.change;
      break;
    }
    if (end == nullptr) end = &mark.change;
    const CountChange* next = mark.next.empty() ? nullptr : &mark.next[0];
    if (next && next->before <= 0 && next->after == 1) {
      ASSIGN_OR_RETURN(bool deallocator, IsDeallocator(mark.change, *next));
      if (deallocator) {
        // It ends where the reference is given back, by the same function.
        const CountChange* closing = i > 0 ? &marks_[i - 1].change : nullptr;
        const uint64_t a = next->access.pc.v, b = closing ? closing->access.pc.v : 0;
        const bool closed = closing && closing->access.thread == next->access.thread &&
                            std::max(a, b) - std::min(a, b) < kSameFunction;
        if (!closed) end = nullptr;  // brought back to life, or still at it
        continue;
      }
    }
    Time written = mark.change.access.time;
    for (const CountChange& change : mark.next) {
      ASSIGN_OR_RETURN(bool is_use,
                       IsUse(*epoch, change, std::exchange(written, change.access.time)));
      if (!is_use) continue;
      use = change;
      break;
    }
    break;
  }
  if (end != nullptr) {
    epoch->death = *end;
    epoch->use_after = std::move(use);
  } else if (successor_) {
    epoch->death = successor_;
    epoch->replaced = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> EpochScanner::Finish(Epoch* epoch) {
  epoch->type_name = std::string(1, '?');
  const auto read = [&](Time t) -> absl::StatusOr<bool> {
    ObjectReader* reader = nullptr;
    ASSIGN_OR_RETURN(const TypeInfo* type, TypeAt(t, &reader));
    if (type == nullptr) return false;
    epoch->whole = t;
    epoch->type = type->address;
    epoch->type_name = reader->FullTypeName(*type);
    return true;
  };
  if (epoch->birth) {
    const Time born = epoch->birth->access.time;
    absl::StatusOr<bool> is_object =
        read((type_with_ == kTimeMax ? born : std::max(born, type_with_)) + 1);
    if (!is_object.ok() || !*is_object) return is_object;
  }
  RETURN_IF_ERROR(FindDeath(epoch));
  epoch->alive = epoch->death ? epoch->death->access.time : span_.end;
  // As it was last, unless something else has been written over it since it was made.
  const Time made = epoch->whole;
  ASSIGN_OR_RETURN(bool is_object, read(epoch->alive));
  if (!is_object) {
    epoch->whole = made;
    if (epoch->birth) epoch->whole = std::min(epoch->alive, made + kTypeNear);
    if (ObjectReader * reader; epoch->birth) {
      ASSIGN_OR_RETURN(const TypeInfo* type, TypeAt(epoch->whole, &reader));
      if (type == nullptr) epoch->whole = made;
    }
  }
  return epoch->type != 0;
}

void EpochScanner::Keep(const CountChange& change) {
  const bool zero = change.before == 1 && change.after <= 0 && !change.deferred;
  constexpr int64_t kNoCount = 1 << 20;
  const bool moved = word_.shared_size == 0 && change.before == 1 && change.after > kNoCount &&
                     !IsImmortal(change.after, layout_);
  if (zero || moved) marks_.push_back({change, met_});
  met_.insert(met_.begin(), change);
  if (met_.size() > kMaxKept) met_.pop_back();
}

// One that was there before any write to it, in a file or a parent's memory, with this count.
absl::StatusOr<std::optional<Epoch>> EpochScanner::Unborn(int64_t count) {
  if (count <= 0 || (!IsCount(count) && !IsImmortal(count, layout_))) {
    return std::optional<Epoch>();
  }
  Epoch epoch;
  ASSIGN_OR_RETURN(bool is_object, Finish(&epoch));
  if (!is_object) return std::optional<Epoch>();
  return std::optional<Epoch>(std::move(epoch));
}

absl::StatusOr<std::optional<Epoch>> EpochScanner::Next() {
  const uint64_t type_at = object_ + static_cast<uint64_t>(layout_.object_type);
  while (!ended_) {
    ASSIGN_OR_RETURN(std::optional<Access> next, cursor_->Next());
    const Access* access = next.has_value() ? &*next : nullptr;
    const bool stores_type =
        access && access->address.v <= type_at && type_at < access->address.v + access->size;
    std::optional<CountChange> change;
    if (access) change = counts_->Read(*access);
    if (change && most_changes_-- == 0) {
      return absl::ResourceExhaustedError("its count changed too often");
    }
    ended_ = access == nullptr;
    // Decide on the candidate by what came before it.
    std::optional<Epoch> found;
    if (candidate_) {
      ASSIGN_OR_RETURN(bool born, IsBirth(access, change ? &*change : nullptr));
      std::optional<CountChange> candidate = std::exchange(candidate_, std::nullopt);
      if (born) {
        Epoch epoch;
        epoch.birth = candidate;
        ASSIGN_OR_RETURN(bool is_object, Finish(&epoch));
        if (is_object) {
          found = std::move(epoch);
          most_changes_ = UINT64_MAX;
          marks_.clear();
          met_.clear();
          successor_ = candidate;
          if (type_with_ < candidate->access.time) successor_->access.time = type_with_;
        }
      }
      if (!found) Keep(*candidate);
    }
    if (access && access->actor == Actor::kMap) {
      // A file's contents, or none: what was there before had its end here.
      if (!found && change) {
        ASSIGN_OR_RETURN(found, Unborn(change->after));
      }
      marks_.clear();
      met_.clear();
      successor_ = change;
      merged_ = false;
      last_type_ = kTimeMax;
    } else if (change) {
      const bool merged = std::exchange(merged_, false);
      const bool own = word_.shared_size == 0 || change->own_before != change->own_after;
      if (change->merges) {
        merged_ = true;
      } else if (own && change->own_after == 1) {
        candidate_ = change;
        type_after_ = last_type_;
      } else if (!merged) {
        Keep(*change);
      }
      last_type_ = kTimeMax;
    }
    if (stores_type) last_type_ = access->time;
    if (change) earliest_ = std::move(change);
    if (found) return found;
  }
  if (std::exchange(done_, true)) return std::optional<Epoch>();
  if (earliest_) return Unborn(earliest_->before);
  ObjectReader* reader = nullptr;
  ASSIGN_OR_RETURN(const TypeInfo* type, TypeAt(span_.end, &reader));
  const std::optional<Refcount> there = type ? reader->RefcountOf(object_) : std::nullopt;
  return Unborn(there ? there->count : 0);
}

}  // namespace ttq::python

// SPDX-License-Identifier: MIT

#include "query/python/lifetime.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace ttq::python {

CountWord CountWordOf(const Layout& layout) {
  if (layout.object_refcount == kAbsent) {
    return {static_cast<uint64_t>(layout.object_ref_local), 4, 8};
  }
  // From 3.12 on an immortal object is told by the low half alone, and only that half is a count.
  return {static_cast<uint64_t>(layout.object_refcount), layout.minor >= 12 ? 4u : 8u};
}

absl::StatusOr<CountReader> CountReader::Open(Provenance& provenance, uint64_t object,
                                              const CountWord& word, Direction direction,
                                              Time start) {
  CountReader reader(object, word, direction);
  if (word.shared_size == 0) return reader;
  absl::StatusOr<PythonState*> state = provenance.StateAt(start);
  if (!state.ok()) return state.status();
  if (*state == nullptr) return reader;
  for (Part* part : {&reader.own_, &reader.shared_}) {
    (*state)->memory().Read(object + part->offset, part->size, &part->value);
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

bool IsCount(int64_t n) {
  constexpr int64_t kMost = int64_t{1} << 30;
  return n >= 0 && n < kMost;
}

absl::StatusOr<std::unique_ptr<EpochScanner>> EpochScanner::Open(const Process& process,
                                                                 Provenance* provenance,
                                                                 uint64_t object, TimeSpan span,
                                                                 ScanControl* control,
                                                                 bool births_only) {
  const Time end = std::min(span.end, process.info().end);
  absl::StatusOr<PythonState*> state = provenance->StateAt(end);
  if (!state.ok()) return state.status();
  if (*state == nullptr || (*state)->instances().empty()) {
    const std::string why = *state == nullptr ? "" : (*state)->problem();
    return absl::NotFoundError(why.empty() ? "no module of this process is CPython" : why);
  }
  const Layout& layout = *(*state)->instances()[0]->runtime.layout;
  std::unique_ptr<EpochScanner> scanner(new EpochScanner(provenance, object, span, layout));
  AccessQuery query;
  const CountWord& word = scanner->word_;
  const uint64_t type = object + static_cast<uint64_t>(layout.object_type);
  query.ranges = {word.Of(object), {Address(type), Address(type + 8)}};
  // Births before the span are looked for too: an object's epoch does not begin with it.
  query.span = {Time(0), span.end};
  query.direction = Direction::kBackward;
  scanner->span_.end = end;
  if (births_only) {
    absl::StatusOr<Time> until = scanner->EndOfBirth(process, end);
    if (!until.ok()) return until.status();
    query.span.end = std::min(query.span.end, *until);
  }
  const Time scan_end = std::min(query.span.end, process.info().end);
  absl::StatusOr<std::unique_ptr<Cursor<Access>>> cursor =
      process.Accesses(std::move(query), control);
  if (!cursor.ok()) return cursor.status();
  scanner->cursor_ = *std::move(cursor);
  absl::StatusOr<CountReader> counts =
      CountReader::Open(*provenance, object, word, Direction::kBackward, scan_end);
  if (!counts.ok()) return counts.status();
  scanner->counts_ = *counts;
  return scanner;
}

namespace {

// The type is stored at most so many instructions after the count.
constexpr uint64_t kTypeAfter = 400;

// Types whose free lists hand out objects without storing the type again.
bool IsKept(const TypeInfo& type) {
  static constexpr std::string_view kKept[] = {"tuple", "list",  "dict",    "float",
                                               "slice", "frame", "Context", "int"};
  return std::find(std::begin(kKept), std::end(kKept), type.name) != std::end(kKept);
}

}  // namespace

absl::StatusOr<Time> EpochScanner::EndOfBirth(const Process& process, Time end) {
  const auto alive_at = [&](Time t) -> absl::StatusOr<bool> {
    absl::StatusOr<PythonState*> state = provenance_.StateAt(t);
    if (!state.ok()) return state.status();
    for (const auto& instance : (*state)->instances()) {
      const TypeInfo* type = instance->objects.TypeOf(object_);
      const std::optional<Refcount> count = instance->objects.RefcountOf(object_);
      if (type && !IsKept(*type) && count && IsCount(count->count) && count->count > 0 &&
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
    absl::StatusOr<std::optional<Access>> last = last_write(word_.Of(object_), end);
    if (!last.ok()) return last.status();
    if (!*last) return kTimeMax;
    end = (*last)->time;
    alive = alive_at(end);
    if (!alive.ok()) return alive.status();
    if (!*alive) return kTimeMax;
    span_.end = end;
  }
  // Its type was stored when it was made and never again: far fewer blocks than those that count.
  const uint64_t type_at = object_ + static_cast<uint64_t>(layout_.object_type);
  absl::StatusOr<std::optional<Access>> stored =
      last_write({Address(type_at), Address(type_at + 8)}, end);
  if (!stored.ok()) return stored.status();
  return *stored ? (*stored)->time + kTypeAfter : kTimeMax;
}

absl::StatusOr<bool> EpochScanner::Finish(Epoch* epoch) {
  epoch->death = std::exchange(pending_death_, std::nullopt);
  epoch->alive = epoch->death ? epoch->death->access.time : span_.end;
  epoch->type_name = std::string(1, '?');
  // Something else may have been written over it since it was made.
  epoch->whole = epoch->alive;
  std::vector<Time> times = {epoch->alive};
  if (epoch->birth) {
    times.push_back(std::min(epoch->alive, epoch->birth->access.time + kTypeAfter));
  }
  for (const Time t : times) {
    absl::StatusOr<PythonState*> state = provenance_.StateAt(t);
    if (!state.ok()) return state.status();
    for (const auto& instance : (*state)->instances()) {
      const TypeInfo* type = instance->objects.TypeOf(object_);
      if (!type) continue;
      epoch->whole = t;
      epoch->type = type->address;
      epoch->type_name = instance->objects.FullTypeName(*type);
      return IsKept(*type);
    }
  }
  return false;
}

absl::StatusOr<std::optional<Epoch>> EpochScanner::Next() {
  if (ended_) return std::optional<Epoch>();
  const uint64_t type_at = object_ + static_cast<uint64_t>(layout_.object_type);
  Time last_type = kTimeMax;  // of the type store met last: the earliest so far
  while (true) {
    absl::StatusOr<std::optional<Access>> next = cursor_->Next();
    if (!next.ok()) return next.status();
    std::optional<CountChange> change;
    bool stores_type = false;
    if (next->has_value()) {
      const Access& access = **next;
      stores_type = access.address.v <= type_at && type_at < access.address.v + access.size;
      change = counts_->Read(std::move(**next));
    }
    // Decide on the candidate by what came before it.
    if (candidate_) {
      bool born = false, counted = false;  // counted: nothing but that since
      if (!next->has_value() || stores_type) {
        born = true;
      } else if (last_type != kTimeMax && last_type < candidate_->access.time + kTypeAfter) {
        born = true;
      } else if (change) {
        born = !IsCount(change->after) || change->after > 1;
        counted = !born;
      }
      if (born || change || !next->has_value()) {
        Epoch epoch;
        epoch.birth = std::exchange(candidate_, std::nullopt);
        last_type = kTimeMax;
        const std::optional<CountChange> death = pending_death_;
        absl::StatusOr<bool> kept = Finish(&epoch);
        if (!kept.ok()) return kept.status();
        // Counted, it is a free list's, or a finaliser is at work. What never had a type is memory
        // of an object that is gone, on which somebody counts on.
        if (counted) born = *kept;
        if (epoch.type == 0) born = false;
        if (!born) pending_death_ = death;
        if (born) {
          any_ = false;
          // What this access says of the epoch before.
          if (change && change->after <= 0 && change->before == 1 && !change->deferred) {
            pending_death_ = change;
          }
          ended_ = !next->has_value();
          return std::optional<Epoch>(std::move(epoch));
        }
      }
    }
    if (!next->has_value()) break;
    if (!change) {
      if (stores_type) last_type = next->value().time;
      continue;
    }
    if (stores_type) last_type = change->access.time;
    any_ = true;
    if (change->merges) {
      merged_ = true;
      continue;
    }
    const bool merged = std::exchange(merged_, false);
    const bool own = word_.shared_size == 0 || change->own_before != change->own_after;
    if (own && change->own_after == 1 && change->own_before != 2) {
      candidate_ = std::move(change);
      if (stores_type) last_type = candidate_->access.time;
      continue;
    }
    // The first time that it reaches 0 is the one that counts.
    if (change->before == 1 && change->after != 2 && !merged && !change->deferred &&
        (change->after <= 0 || !IsCount(change->after))) {
      pending_death_ = std::move(change);
    }
    last_type = kTimeMax;
  }
  ended_ = true;
  if (!any_) return std::optional<Epoch>();
  Epoch epoch;
  if (absl::StatusOr<bool> s = Finish(&epoch); !s.ok()) return s.status();
  // Before there was an object, its memory was something else's.
  if (epoch.type == 0 && !epoch.death) return std::optional<Epoch>();
  return std::optional<Epoch>(std::move(epoch));
}

}  // namespace ttq::python

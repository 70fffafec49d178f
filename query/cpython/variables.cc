// SPDX-License-Identifier: MIT

#include "query/cpython/variables.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/cpython/lifetime.h"

namespace ttq::python {
namespace {

// Of one item: how often the dict that holds it can have been resized.
constexpr size_t kMaxMoves = 10000;

// The rows of a dict's keys: {hash, key, value}, or {key, value}.
struct Rows {
  uint64_t first = 0;  // the first row's address
  uint64_t width = 0;
  uint64_t count = 0;
  uint64_t KeyWord(uint64_t row) const { return first + width * (row + 1) - 16; }
  uint64_t ValueWord(uint64_t row) const { return KeyWord(row) + 8; }
};

// Where an item is at one time, and the words that say so.
struct Spot {
  uint64_t slot = 0;  // 0: it is not there
  uint64_t value = 0;
  uint64_t rows = 0;             // of the keys it is among
  std::optional<Rows> combined;  // the rows of the dict that holds it, or would, with the values
  std::vector<uint64_t> layout;
};

bool IsKey(ObjectReader& objects, uint64_t object, const Key& key) {
  if (const auto* text = std::get_if<std::string>(&key)) {
    const auto length = objects.memory().Get<int64_t>(object + objects.layout().str_length);
    if (!length || *length > static_cast<int64_t>(text->size())) return false;
    return objects.Str(object, text->size() + 1) == *text;
  }
  return objects.Int(object) == std::get<int64_t>(key);
}

std::optional<Rows> RowsOf(ObjectReader& objects, uint64_t keys) {
  const Layout& layout = objects.layout();
  Memory& memory = objects.memory();
  const auto count = memory.Get<int64_t>(keys + layout.keys_nentries);
  if (!count || *count < 0) return std::nullopt;
  Rows rows;
  rows.first = keys + layout.keys_indices;
  bool general = true;
  if (layout.keys_log2_index_bytes != kAbsent) {
    const auto log2 = memory.Get<uint8_t>(keys + layout.keys_log2_index_bytes);
    const auto kind = memory.Get<uint8_t>(keys + layout.keys_kind);
    if (!log2 || *log2 > 40 || !kind || *kind > 2) return std::nullopt;
    rows.first += uint64_t{1} << *log2;
    general = *kind == 0;
  } else {
    const auto size = memory.Get<int64_t>(keys + layout.keys_size);
    if (!size || *size < 0 || *size > int64_t{1} << 40) return std::nullopt;
    const int64_t width = *size <= 0xff ? 1 : *size <= 0xffff ? 2 : *size <= 0xffffffff ? 4 : 8;
    rows.first += static_cast<uint64_t>(*size * width);
  }
  rows.width = general ? 24 : 16;
  rows.count = static_cast<uint64_t>(*count);
  return rows;
}

// The row of a key among a dict's keys.
std::optional<uint64_t> FindRow(ObjectReader& objects, const Rows& rows, const Key& key) {
  constexpr uint64_t kMaxRows = 1 << 20;
  for (uint64_t i = 0; i < std::min(rows.count, kMaxRows); ++i) {
    const uint64_t at = objects.memory().Pointer(rows.KeyWord(i));
    if (at != 0 && IsKey(objects, at, key)) return i;
  }
  return std::nullopt;
}

void FindInDict(ObjectReader& objects, uint64_t dict, const Key& key, Spot* spot) {
  const Layout& layout = objects.layout();
  Memory& memory = objects.memory();
  spot->layout.push_back(dict + layout.dict_keys);
  spot->layout.push_back(dict + layout.dict_values);
  const uint64_t keys = memory.Pointer(dict + layout.dict_keys);
  const uint64_t values = memory.Pointer(dict + layout.dict_values);
  if (keys == 0) return;
  const std::optional<Rows> rows = RowsOf(objects, keys);
  if (!rows) return;
  if (values == 0) spot->combined = rows;
  spot->rows = rows->count;
  const std::optional<uint64_t> row = FindRow(objects, *rows, key);
  if (!row) return;
  spot->slot = values == 0 ? rows->ValueWord(*row) : values + layout.values_array + 8 * *row;
}

// A member of __slots__, of the type or a base.
uint64_t FindMember(ObjectReader& objects, uint64_t object, uint64_t type, std::string_view name) {
  Memory& memory = objects.memory();
  constexpr int kMaxBases = 64;
  constexpr int64_t kMaxSlots = 1024;
  for (int level = 0; level < kMaxBases && type != 0; ++level) {
    const TypeInfo* info = objects.Type(type);
    if (!info || !info->heap()) return 0;
    const uint64_t base = info->base;
    const TypeInfo* metatype = objects.TypeOf(type);
    const auto count = memory.Get<int64_t>(type + objects.layout().object_size);
    for (int64_t i = 0; metatype && count && i < std::min(*count, kMaxSlots); ++i) {
      const uint64_t member =
          type + static_cast<uint64_t>(metatype->basicsize) + 40 * static_cast<uint64_t>(i);
      if (memory.CString(memory.Pointer(member)) != name) continue;
      return object + memory.Pointer(member + 16);
    }
    type = base;
  }
  return 0;
}

Spot FindSpot(ObjectReader& objects, uint64_t object, const Key& key, bool attribute) {
  Spot spot;
  const Layout& layout = objects.layout();
  Memory& memory = objects.memory();
  const TypeInfo* found = objects.TypeOf(object);
  if (!found) return spot;
  const TypeInfo type = *found;
  if (!attribute) {
    if (type.Is(kDictSubclass)) {
      FindInDict(objects, object, key, &spot);
    } else if (type.Is(kListSubclass) && std::holds_alternative<int64_t>(key)) {
      spot.layout.push_back(object + layout.list_items);
      const int64_t size = memory.Get<int64_t>(object + layout.object_size).value_or(0);
      int64_t index = std::get<int64_t>(key);
      if (index < 0) index += size;
      const uint64_t items = memory.Pointer(object + layout.list_items);
      if (items != 0 && index >= 0 && index < size) {
        spot.slot = items + 8 * static_cast<uint64_t>(index);
      }
    }
    return spot;
  }
  const auto* name = std::get_if<std::string>(&key);
  if (!name) return spot;
  if (type.name == "module" && !type.heap()) {
    FindInDict(objects, memory.Pointer(object + layout.module_dict), key, &spot);
    return spot;
  }
  if (const uint64_t member = FindMember(objects, object, type.address, *name)) {
    spot.slot = member;
    return spot;
  }
  uint64_t dict = 0;
  const AttributeValues values_at = layout.traits.attribute_values;
  if (values_at != AttributeValues::kNone && type.Is(kManagedDict)) {
    const uint64_t keys = memory.Pointer(type.address + layout.heap_cached_keys);
    const uint64_t word = object - (layout.free_threaded ? 8 : 24);
    uint64_t values = 0;
    spot.layout.push_back(word);
    if (values_at == AttributeValues::kPointer) {
      spot.layout.push_back(object - 32);
      values = memory.Pointer(object - 32);
      if (values == 0) dict = memory.Pointer(word);
    } else if (values_at == AttributeValues::kTagged) {
      const uint64_t held = memory.Pointer(word);
      if (held & 1) {
        values = held + 1;
      } else {
        dict = held;
      }
    } else {
      dict = memory.Pointer(word);
      if (dict == 0 && type.Is(kInlineValues)) {
        values = object + static_cast<uint64_t>(values_at == AttributeValues::kBehindHead
                                                    ? layout.object_head
                                                    : type.basicsize);
      }
    }
    if (values != 0) {
      const std::optional<Rows> rows = RowsOf(objects, keys);
      const std::optional<uint64_t> row = rows ? FindRow(objects, *rows, key) : std::nullopt;
      if (row) spot.slot = values + layout.values_array + 8 * *row;
      return spot;
    }
  } else if (type.dictoffset > 0) {
    spot.layout.push_back(object + static_cast<uint64_t>(type.dictoffset));
    dict = memory.Pointer(object + static_cast<uint64_t>(type.dictoffset));
  }
  if (dict != 0) FindInDict(objects, dict, key, &spot);
  return spot;
}

// The last write to one of the words before `t`; 0 when there is none.
absl::StatusOr<Time> LastWrite(const Process& process, const std::vector<uint64_t>& words, Time t) {
  AccessQuery query;
  for (const uint64_t word : words) query.ranges.push_back({Address(word), Address(word + 8)});
  if (query.ranges.empty()) return Time(0);
  query.span = {Time(0), t};
  query.want_values = false;
  ASSIGN_OR_RETURN(std::optional<Access> access, LastAccess(process, std::move(query)));
  return access ? access->time : Time(0);
}

// In which rows of a dict the key was at times between `span`'s, as told from the writes to the
// rows' key words: a row of a key that is deleted is left, and another is taken when it comes back.
absl::StatusOr<std::vector<WatchedSlot>> RowsWithKey(const Process& process, Provenance& provenance,
                                                     const Rows& rows, const Key& key,
                                                     TimeSpan span) {
  std::vector<WatchedSlot> slots;
  AccessQuery query;
  for (uint64_t i = 0; i < rows.count; ++i) {
    query.ranges.push_back({Address(rows.KeyWord(i)), Address(rows.KeyWord(i) + 8)});
  }
  if (query.ranges.empty()) return slots;
  query.span = {span.begin + 1, span.end};
  ASSIGN_OR_RETURN(auto cursor, process.Accesses(std::move(query), nullptr));
  struct Write {
    uint64_t row;
    Time time;
    uint64_t before, after;
  };
  std::vector<Write> writes;
  while (true) {
    ASSIGN_OR_RETURN(std::optional<Access> next, cursor->Next());
    if (!next) break;
    const Access& access = *next;
    // Whole rows are copied at once, too.
    const uint64_t begin = std::max(access.address.v, rows.KeyWord(0));
    for (uint64_t i = (begin - rows.KeyWord(0) + rows.width - 1) / rows.width; i < rows.count;
         ++i) {
      const uint64_t skip = rows.KeyWord(i) - access.address.v;
      if (skip + 8 > access.size) break;
      if (skip + 8 > access.value.size() || skip + 8 > access.previous.size()) continue;
      Write write{i, access.time, 0, 0};
      memcpy(&write.before, access.previous.data() + skip, 8);
      memcpy(&write.after, access.value.data() + skip, 8);
      writes.push_back(write);
    }
  }
  absl::flat_hash_map<uint64_t, bool> is_key;
  const auto test = [&](uint64_t object, Time t) -> absl::StatusOr<bool> {
    if (object == 0) return false;
    const auto [it, is_new] = is_key.try_emplace(object, false);
    if (!is_new) return it->second;
    ASSIGN_OR_RETURN(PythonState * state, provenance.StateAt(t));
    for (const auto& instance : state->instances()) {
      it->second = it->second || (instance->objects.TypeOf(object) != nullptr &&
                                  IsKey(instance->objects, object, key));
    }
    return it->second;
  };
  // The value is written a little before or after the key.
  constexpr uint64_t kNear = 100;
  absl::flat_hash_map<uint64_t, Time> since;  // by row
  for (const Write& write : writes) {
    ASSIGN_OR_RETURN(bool was, test(write.before, write.time));
    ASSIGN_OR_RETURN(bool is, test(write.after, write.time + 1));
    if (was && !is) {
      const auto it = since.find(write.row);
      const Time from = it == since.end() ? span.begin : it->second;
      slots.push_back({rows.ValueWord(write.row), from, write.time + kNear});
      since.erase(write.row);
    } else if (is && !was) {
      since[write.row] =
          std::max(span.begin, Time(write.time.v - std::min(write.time.v, uint64_t{kNear})));
    }
  }
  for (const auto& [row, from] : since) slots.push_back({rows.ValueWord(row), from, span.end});
  return slots;
}

PythonState::Instance* InstanceFor(PythonState& state, const Layout& layout) {
  for (const auto& instance : state.instances()) {
    if (instance->runtime.minor == layout.minor) return instance.get();
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::vector<Activation>> ActivationsOf(const FrameHistory& history,
                                                      const std::vector<uint32_t>& codes,
                                                      TimeSpan span) {
  const auto wanted = [&](uint32_t code) {
    return std::binary_search(codes.begin(), codes.end(), code);
  };
  std::vector<Activation> found;
  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, size_t> open;  // by frame and when entered
  const auto [first, last] = history.ChunksOf(span);
  if (first < last) {
    for (const FrameHistory::Stack& stack : history.ChunkStacks(first)) {
      for (const FrameHistory::ActiveFrame& frame : stack.frames) {
        if (!wanted(frame.code)) continue;
        found.push_back({frame.pushed, kTimeMax, stack.thread, frame.frame, frame.code});
      }
    }
    std::sort(found.begin(), found.end(),
              [](const Activation& a, const Activation& b) { return a.begin < b.begin; });
    for (size_t i = 0; i < found.size(); ++i) open[{found[i].frame, found[i].begin.v}] = i;
  }
  for (size_t chunk = first; chunk < last; ++chunk) {
    if (open.empty() && !history.ChunkEnters(chunk, codes)) continue;
    ASSIGN_OR_RETURN(std::shared_ptr<const std::vector<Transition>> transitions,
                     history.Chunk(chunk));
    for (const Transition& t : *transitions) {
      if (t.time >= span.end) break;
      if (Enters(t.kind)) {
        if (!wanted(t.code)) continue;
        open[{t.frame, t.pushed.v}] = found.size();
        found.push_back({t.time, kTimeMax, t.thread, t.frame, t.code, t.kind, t.offset});
        continue;
      }
      const auto it = open.find({t.frame, t.pushed.v});
      if (it == open.end()) continue;
      found[it->second].end = t.time;
      open.erase(it);
    }
  }
  std::erase_if(found, [&](const Activation& a) { return a.end <= span.begin; });
  return found;
}

uint64_t DictSlot(ObjectReader& objects, uint64_t dict, const Key& key) {
  Spot spot;
  FindInDict(objects, dict, key, &spot);
  return spot.slot;
}

absl::StatusOr<std::vector<WatchedSlot>> LocalSlots(const FrameHistory& history,
                                                    Provenance& provenance,
                                                    const std::vector<uint32_t>& codes,
                                                    std::string_view name, TimeSpan span) {
  ASSIGN_OR_RETURN(std::vector<Activation> activations, ActivationsOf(history, codes, span));
  std::vector<WatchedSlot> slots;
  std::vector<std::pair<Time, WatchedSlot>> cells;  // whose word is that of the cell, at that time
  for (const Activation& a : activations) {
    const Code& code = history.code(a.code);
    const Layout& layout = history.layout_of(a.code);
    for (size_t i = 0; i < code.variables.size(); ++i) {
      if (code.variables[i].name != name) continue;
      const uint64_t word =
          a.frame + static_cast<uint64_t>(layout.frame_localsplus) + 8 * static_cast<uint64_t>(i);
      const WatchedSlot slot{word, a.begin, a.end, a.frame};
      if ((code.variables[i].kind & (kLocalCell | kLocalFree)) == 0) {
        slots.push_back(slot);
      } else {
        cells.emplace_back(std::min({a.end, span.end, provenance.process().info().end}), slot);
      }
    }
  }
  std::stable_sort(cells.begin(), cells.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [time, slot] : cells) {
    ASSIGN_OR_RETURN(PythonState * state, provenance.StateAt(time));
    for (const auto& instance : state->instances()) {
      const Layout& layout = *instance->runtime.layout;
      const uint64_t cell = layout.Untag(state->memory().Pointer(slot.word));
      if (cell == 0) break;
      slot.word = cell + static_cast<uint64_t>(layout.cell_value);
      slots.push_back(slot);
      break;
    }
  }
  return slots;
}

absl::StatusOr<std::vector<WatchedSlot>> ItemSlots(const Process& process, Provenance& provenance,
                                                   uint64_t object, const Key& key, bool attribute,
                                                   Time t, TimeSpan span, std::string* missing) {
  std::vector<WatchedSlot> slots;
  ASSIGN_OR_RETURN(PythonState * first, provenance.StateAt(t));
  if (first == nullptr || first->instances().empty()) return slots;
  // Before it was made its memory was another's.
  const Layout layout = *first->instances()[0]->runtime.layout;
  const uint64_t type = first->memory().Pointer(object + layout.object_type);
  Time begin = span.begin;
  ASSIGN_OR_RETURN(std::unique_ptr<EpochScanner> scanner,
                   EpochScanner::Open(process, &provenance, object, {Time(0), t}, nullptr,
                                      /*births_only=*/true));
  ASSIGN_OR_RETURN(std::optional<Epoch> epoch, scanner->Next());
  if (epoch && epoch->birth) begin = std::max(begin, epoch->birth->access.time);
  // Where it is at a time; nullopt: the object is another by then.
  const auto spot_at = [&](Time at) -> absl::StatusOr<std::optional<Spot>> {
    ASSIGN_OR_RETURN(PythonState * state, provenance.StateAt(at));
    PythonState::Instance* instance = InstanceFor(*state, layout);
    if (!instance || state->memory().Pointer(object + layout.object_type) != type) {
      return std::optional<Spot>();
    }
    Spot spot = FindSpot(instance->objects, object, key, attribute);
    if (spot.slot != 0) spot.value = state->memory().Pointer(spot.slot);
    return std::optional<Spot>(std::move(spot));
  };
  // Until then its words are those of what had its memory before.
  constexpr uint64_t kMakingReady = 50;
  const bool made_here = epoch && epoch->birth && begin == epoch->birth->access.time;
  const Time ready = made_here ? begin + kMakingReady : begin;
  Time until = t;
  for (size_t i = 0; i < kMaxMoves && until > begin; ++i) {
    ASSIGN_OR_RETURN(std::optional<Spot> spot, spot_at(until));
    if (!spot) break;
    ASSIGN_OR_RETURN(Time moved, LastWrite(process, spot->layout, until));
    const bool first_layout = moved == Time(0) || moved <= begin;
    // As it was before it moved.
    Spot old;
    if (!first_layout && moved > ready) {
      ASSIGN_OR_RETURN(std::optional<Spot> before, spot_at(moved));
      if (before) old = *std::move(before);
    }
    // Copying takes this many instructions at most.
    const Time settled = moved + 5000 + 64 * std::max(old.rows, spot->rows);
    std::vector<WatchedSlot> places;
    constexpr uint64_t kMaxRows = 5000;
    if (spot->combined && spot->combined->count > kMaxRows) {
      // Only the row that has the key at `until` is followed.
      *missing = fmt::format(
          "the dict at {:#x} has {} rows: those of the key that were deleted, or come after many, "
          "may be missing",
          object, spot->combined->count);
    } else if (spot->combined) {
      ASSIGN_OR_RETURN(places, RowsWithKey(process, provenance, *spot->combined, key,
                                           {std::max(moved, begin), until}));
    }
    const bool has = std::any_of(places.begin(), places.end(), [&](const WatchedSlot& place) {
      return place.word == spot->slot && place.end == until;
    });
    if (spot->slot != 0 && !has) {
      places.push_back({spot->slot, std::max(moved, begin), until});
    }
    for (WatchedSlot& place : places) {
      place.copied = old.value;
      place.settled = settled;
    }
    if (!first_layout) {
      ASSIGN_OR_RETURN(std::optional<Spot> after, spot_at(moved + 1));
      const Spot now = after ? *after : Spot();
      if (now.value != 0 && now.value != old.value) {
        // Its first value was stored before the object was led to it.
        ASSIGN_OR_RETURN(Time stored, LastWrite(process, {now.slot}, moved + 1));
        if (stored > Time(0)) slots.push_back({now.slot, stored - 1, moved + 1});
      } else if (old.value != 0 && now.value == 0 && places.empty()) {
        // All at once, by clear().
        WatchedSlot gone{now.layout.empty() ? spot->layout.back() : spot->layout.front(), moved - 1,
                         moved + 1};
        gone.gone = old.value;
        slots.push_back(gone);
      }
    }
    slots.insert(slots.end(), places.begin(), places.end());
    if (first_layout || moved <= ready || moved >= until) break;
    until = moved;
    if (i + 1 == kMaxMoves) {
      *missing =
          fmt::format("where {:#x} keeps its items was followed back to {} only", object, until.v);
    }
  }
  std::reverse(slots.begin(), slots.end());
  return slots;
}

absl::StatusOr<MainFrame> FindMainFrame(const FrameHistory& history, TimeSpan span) {
  std::vector<uint32_t> modules;
  for (uint32_t id = 0; id < history.codes(); ++id) {
    const Code& code = history.code(id);
    if (code.name == "<module>" && !code.filename.starts_with("<frozen")) modules.push_back(id);
  }
  // The main module's lives longest, and is the outermost unless it was started by `-m`.
  std::optional<MainFrame> best;
  std::pair<bool, uint64_t> best_rank;
  for (size_t chunk = 0; chunk < history.chunks(); ++chunk) {
    if (history.ChunkSpan(chunk).begin >= span.end) break;
    if (!history.ChunkEnters(chunk, modules)) continue;
    ASSIGN_OR_RETURN(std::shared_ptr<const std::vector<Transition>> transitions,
                     history.Chunk(chunk));
    for (const Transition& t : *transitions) {
      if (!Enters(t.kind) || t.time >= span.end) continue;
      if (!std::binary_search(modules.begin(), modules.end(), t.code)) continue;
      ASSIGN_OR_RETURN(std::optional<Transition> end, history.EndOf(t, nullptr));
      const Time left = end ? std::min(end->time, span.end) : span.end;
      const std::pair<bool, uint64_t> rank(t.depth == 0, left.v - t.time.v);
      if (best && rank <= best_rank) continue;
      best_rank = rank;
      best = MainFrame{left, t.frame};
    }
  }
  if (!best) return absl::NotFoundError("no Python module ran");
  return *best;
}

}  // namespace ttq::python

// SPDX-License-Identifier: MIT

#include "query/python/variables.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "query/python/lifetime.h"

namespace ttq::python {
namespace {

// Of one item: how often the dict that holds it can have been resized.
constexpr size_t kMostMoves = 10000;

// Where an item is at one time, and the words that say so.
struct Spot {
  uint64_t slot = 0;  // 0: it is not there
  uint64_t rows = 0;  // of the keys it is among
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

// The row of a key among a dict's keys, and where its value word is in a combined dict.
struct KeyRow {
  size_t index = 0;
  uint64_t rows = 0;
  uint64_t value_word = 0;
};
std::optional<KeyRow> FindRow(ObjectReader& objects, uint64_t keys, const Key& key) {
  const Layout& layout = objects.layout();
  Memory& memory = objects.memory();
  constexpr int64_t kMostRows = 1 << 20;
  const auto count = memory.Get<int64_t>(keys + layout.keys_nentries);
  if (!count || *count < 0) return std::nullopt;
  uint64_t rows = keys + layout.keys_indices;
  bool general = true;
  if (layout.keys_log2_index_bytes != kAbsent) {
    const auto log2 = memory.Get<uint8_t>(keys + layout.keys_log2_index_bytes);
    const auto kind = memory.Get<uint8_t>(keys + layout.keys_kind);
    if (!log2 || *log2 > 40 || !kind || *kind > 2) return std::nullopt;
    rows += uint64_t{1} << *log2;
    general = *kind == 0;
  } else {
    const auto size = memory.Get<int64_t>(keys + layout.keys_size);
    if (!size || *size < 0 || *size > int64_t{1} << 40) return std::nullopt;
    const int64_t width = *size <= 0xff ? 1 : *size <= 0xffff ? 2 : *size <= 0xffffffff ? 4 : 8;
    rows += static_cast<uint64_t>(*size * width);
  }
  const uint64_t width = general ? 24 : 16;
  for (int64_t i = 0; i < std::min(*count, kMostRows); ++i) {
    const uint64_t row = rows + width * static_cast<uint64_t>(i);
    const uint64_t at = memory.Pointer(row + (general ? 8 : 0));
    if (at == 0 || !IsKey(objects, at, key)) continue;
    return KeyRow{static_cast<size_t>(i), static_cast<uint64_t>(*count), row + width - 8};
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
  const std::optional<KeyRow> row = FindRow(objects, keys, key);
  if (!row) return;
  spot->rows = row->rows;
  spot->slot = values == 0 ? row->value_word : values + layout.values_array + 8 * row->index;
}

// A member of __slots__, of the type or a base.
uint64_t FindMember(ObjectReader& objects, uint64_t object, uint64_t type, std::string_view name) {
  Memory& memory = objects.memory();
  constexpr int kMostBases = 64;
  constexpr int64_t kMostSlots = 1024;
  for (int level = 0; level < kMostBases && type != 0; ++level) {
    const TypeInfo* info = objects.Type(type);
    if (!info || !info->heap()) return 0;
    const uint64_t base = info->base;
    const TypeInfo* metatype = objects.TypeOf(type);
    const auto count = memory.Get<int64_t>(type + objects.layout().object_size);
    for (int64_t i = 0; metatype && count && i < std::min(*count, kMostSlots); ++i) {
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
  if (layout.minor >= 11 && type.Is(kManagedDict)) {
    const uint64_t keys = memory.Pointer(type.address + layout.heap_cached_keys);
    const uint64_t word = object - (layout.free_threaded ? 8 : 24);
    uint64_t values = 0;
    spot.layout.push_back(word);
    if (layout.minor == 11) {
      spot.layout.push_back(object - 32);
      values = memory.Pointer(object - 32);
      if (values == 0) dict = memory.Pointer(word);
    } else if (layout.minor == 12) {
      const uint64_t held = memory.Pointer(word);
      if (held & 1) {
        values = held + 1;
      } else {
        dict = held;
      }
    } else {
      dict = memory.Pointer(word);
      if (dict == 0 && type.Is(kInlineValues)) {
        values = object +
                 static_cast<uint64_t>(layout.minor == 13 ? layout.object_head : type.basicsize);
      }
    }
    if (values != 0) {
      if (const std::optional<KeyRow> row = FindRow(objects, keys, key)) {
        spot.slot = values + layout.values_array + 8 * row->index;
      }
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
  absl::StatusOr<std::optional<Access>> access = LastAccess(process, std::move(query));
  if (!access.ok()) return access.status();
  return *access ? (*access)->time : Time(0);
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
    absl::StatusOr<std::shared_ptr<const std::vector<Transition>>> transitions =
        history.Chunk(chunk);
    if (!transitions.ok()) return transitions.status();
    for (const Transition& t : **transitions) {
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

absl::StatusOr<std::vector<WatchedSlot>> LocalSlots(const FrameHistory& history,
                                                    Provenance& provenance,
                                                    const std::vector<uint32_t>& codes,
                                                    std::string_view name, TimeSpan span) {
  absl::StatusOr<std::vector<Activation>> activations = ActivationsOf(history, codes, span);
  if (!activations.ok()) return activations.status();
  std::vector<WatchedSlot> slots;
  std::vector<std::pair<Time, WatchedSlot>> cells;  // whose word is that of the cell, at that time
  for (const Activation& a : *activations) {
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
    absl::StatusOr<PythonState*> state = provenance.StateAt(time);
    if (!state.ok()) return state.status();
    for (const auto& instance : (*state)->instances()) {
      const Layout& layout = *instance->runtime.layout;
      const uint64_t cell = layout.Untag((*state)->memory().Pointer(slot.word));
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
                                                   Time t, TimeSpan span) {
  std::vector<WatchedSlot> slots;
  absl::StatusOr<PythonState*> first = provenance.StateAt(t);
  if (!first.ok()) return first.status();
  if (*first == nullptr || (*first)->instances().empty()) return slots;
  // Before it was made its memory was another's.
  const Layout layout = *(*first)->instances()[0]->runtime.layout;
  const uint64_t type = (*first)->memory().Pointer(object + layout.object_type);
  Time begin = span.begin;
  absl::StatusOr<std::unique_ptr<EpochScanner>> scanner =
      EpochScanner::Open(process, &provenance, object, {Time(0), t}, nullptr,
                         /*births_only=*/true);
  if (!scanner.ok()) return scanner.status();
  absl::StatusOr<std::optional<Epoch>> epoch = (*scanner)->Next();
  if (!epoch.ok()) return epoch.status();
  if (*epoch && (*epoch)->birth) begin = std::max(begin, (*epoch)->birth->access.time);
  Time until = t;
  for (size_t i = 0; i < kMostMoves && until > begin; ++i) {
    absl::StatusOr<PythonState*> state = provenance.StateAt(until);
    if (!state.ok()) return state.status();
    PythonState::Instance* instance = InstanceFor(**state, layout);
    if (!instance) break;
    if ((*state)->memory().Pointer(object + layout.object_type) != type) break;
    const Spot spot = FindSpot(instance->objects, object, key, attribute);
    absl::StatusOr<Time> moved = LastWrite(process, spot.layout, until);
    if (!moved.ok()) return moved.status();
    if (spot.slot != 0) {
      if (!slots.empty() && slots.back().begin == until) {
        slots.back().copied = (*state)->memory().Pointer(spot.slot);
      }
      // Copying takes this many instructions at most.
      const uint64_t copying = 5000 + 64 * spot.rows;
      slots.push_back({spot.slot, std::max(*moved, begin), until, 0, 0, *moved + copying});
    }
    if (*moved == Time(0) || *moved >= until) break;
    until = *moved;
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
    absl::StatusOr<std::shared_ptr<const std::vector<Transition>>> transitions =
        history.Chunk(chunk);
    if (!transitions.ok()) return transitions.status();
    for (const Transition& t : **transitions) {
      if (!Enters(t.kind) || t.time >= span.end) continue;
      if (!std::binary_search(modules.begin(), modules.end(), t.code)) continue;
      absl::StatusOr<std::optional<Transition>> end = history.EndOf(t, nullptr);
      if (!end.ok()) return end.status();
      const Time left = *end ? std::min((*end)->time, span.end) : span.end;
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

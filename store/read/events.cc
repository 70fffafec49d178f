// SPDX-License-Identifier: MIT
//
// Events in order of time: those that are stored, and those that follow from mappings and modules.

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "fmt/core.h"
#include "store/read/process_reader.h"

namespace ttq {
namespace {

Event EventOfChange(const MapChange& c) {
  Event e;
  e.time = c.time;
  e.sequence = ~uint32_t{0};
  e.thread = c.thread;
  e.pc = c.pc;
  e.kind = EventKind::kMap;
  e.args[0] = c.range.begin.v;
  e.args[1] = c.range.size();
  const char* what = c.kind == MapChange::kMap       ? "map"
                     : c.kind == MapChange::kUnmap   ? "unmap"
                     : c.kind == MapChange::kProtect ? "protect"
                                                     : "move";
  e.detail = fmt::format("{} {:#x}-{:#x}", what, c.range.begin.v, c.range.end.v);
  if (c.kind == MapChange::kRemap) e.detail += fmt::format(" to {:#x}", c.to.v);
  if (c.kind == MapChange::kMap || c.kind == MapChange::kProtect) {
    e.detail += fmt::format(" {}{}{}", c.protection & 1 ? 'r' : '-', c.protection & 2 ? 'w' : '-',
                            c.protection & 4 ? 'x' : '-');
  }
  if (!c.path.empty()) e.detail += " " + c.path;
  return e;
}

class EventCursor : public Cursor<Event> {
 public:
  EventCursor(const ProcessReader& process, EventQuery query, std::vector<Event> derived)
      : query_(std::move(query)),
        derived_(std::move(derived)),
        process_(process.info().number),
        it_(process.database().NewIterator(Family::kEvent)) {
    if (query_.direction == Direction::kForward) {
      it_->Seek(EventKey(process_, query_.span.begin, 0));
    } else {
      std::reverse(derived_.begin(), derived_.end());
      Time last = query_.span.end.v == 0 ? Time(0) : query_.span.end - 1;
      it_->SeekForPrev(EventKey(process_, last, ~uint32_t{0}));
    }
  }

  absl::StatusOr<std::optional<Event>> Next() override {
    if (!ready_) {
      ASSIGN_OR_RETURN(ready_, NextStored());
      if (!ready_) ended_ = true;
    }
    bool derived = at_ < derived_.size();
    if (derived && ready_ && !ended_) {
      derived = query_.direction == Direction::kForward ? derived_[at_].time <= ready_->time
                                                        : derived_[at_].time > ready_->time;
    }
    if (derived) return std::optional<Event>(derived_[at_++]);
    std::optional<Event> out = std::move(ready_);
    ready_.reset();
    return out;
  }

 private:
  absl::StatusOr<std::optional<Event>> NextStored() {
    for (; it_->Valid(); Step()) {
      std::string_view key = it_->key();
      if (key.size() != 16 || ReadBig32(key) != process_.v) break;
      const Time time(ReadBig64(key.substr(4)));
      if (!query_.span.Contains(time)) break;
      ASSIGN_OR_RETURN(Event e, ParseEvent(it_->value()));
      e.time = time;
      e.sequence = ReadBig32(key.substr(12));
      if (query_.kind && e.kind != *query_.kind) continue;
      if (query_.thread && e.thread != *query_.thread) continue;
      Step();
      return std::optional<Event>(std::move(e));
    }
    if (!it_->status().ok()) return it_->status();
    return std::optional<Event>();
  }

  void Step() {
    if (query_.direction == Direction::kForward) {
      it_->Next();
    } else {
      it_->Prev();
    }
  }

  EventQuery query_;
  std::vector<Event> derived_;
  size_t at_ = 0;
  ProcessNo process_;
  std::unique_ptr<Database::Iterator> it_;
  std::optional<Event> ready_;
  bool ended_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Cursor<Event>>> ProcessReader::Events(EventQuery query) const {
  std::vector<Event> derived;
  auto wants = [&](EventKind kind) { return !query.kind || *query.kind == kind; };
  if (wants(EventKind::kMap)) {
    ASSIGN_OR_RETURN(auto changes, MapChanges());
    for (const MapChange& c : *changes) derived.push_back(EventOfChange(c));
  }
  if (wants(EventKind::kModule)) {
    ASSIGN_OR_RETURN(auto modules, Modules());
    for (const LoadedModule& m : modules) {
      Event e;
      e.time = m.loaded;
      e.kind = EventKind::kModule;
      e.args[0] = m.range.begin.v;
      e.detail = fmt::format("load {} at {:#x}", m.path, m.range.begin.v);
      derived.push_back(e);
      if (m.unloaded == kTimeMax) continue;
      e.time = m.unloaded;
      e.detail = fmt::format("unload {}", m.path);
      derived.push_back(std::move(e));
    }
  }
  std::erase_if(derived, [&](const Event& e) {
    return !query.span.Contains(e.time) || (query.thread && e.thread != *query.thread);
  });
  std::stable_sort(derived.begin(), derived.end(),
                   [](const Event& a, const Event& b) { return a.time < b.time; });
  // Later rows are of a group that has no record.
  if (info_.end < kTimeMax) query.span.end = std::min(query.span.end, info_.end + 1);
  if (blocks_.empty() && info_.is_indexed()) query.span.end = Time(0);
  return std::make_unique<EventCursor>(*this, std::move(query), std::move(derived));
}

}  // namespace ttq

// SPDX-License-Identifier: MIT
//
// Control records and digests of a process, put into rows and those into groups.

#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "base/threads.h"
#include "fmt/core.h"
#include "store/format/message.h"
#include "store/write/process_ingest.h"

namespace ttq {

void ProcessIngest::Apply(const PageChanges::Page& changes) {
  EntryMaps& entry = Entry(changes.number());
  WordMap map;
  static_assert(sizeof(map) == 64);
  memcpy(static_cast<void*>(&map), changes.read(), sizeof(map));
  entry.read |= map;
  if (!changes.any_written()) return;
  EnsureMapped(changes.number());
  ImagePage& page = image_.Touch(changes.number());
  changes.ForEachWord([&](uint32_t word, uint8_t written, const uint8_t* bytes) {
    entry.written.set(word);
    entry.content.set(word);
    if (written == 0xff) {
      memcpy(page.bytes + word * 8, bytes, 8);
    } else {
      for (uint32_t b = 0; b < 8; ++b) {
        if (written >> b & 1) page.bytes[word * 8 + b] = bytes[b];
      }
    }
  });
  if (has_aliases_) CopyToAliases(changes);
}

void ProcessIngest::CopyToAliases(const PageChanges::Page& changes) {
  uint64_t begin;
  const uint64_t address = changes.number() * kPageBytes;
  const LiveImage::Area* area = image_.Find(address, &begin);
  if (area == nullptr || area->identity == 0) return;
  uint64_t at = area->identity_offset + (address - begin);
  for (const auto& [other_begin, other] : image_.areas()) {
    if (other.identity != area->identity || other_begin == begin) continue;
    if (at < other.identity_offset || at - other.identity_offset >= other.end - other_begin) {
      continue;
    }
    Incomplete(
        fmt::format("{:#x} and {:#x} are the same memory: what was written at one is told of the "
                    "other with some delay",
                    begin, other_begin));
    uint64_t page = (other_begin + (at - other.identity_offset)) / kPageBytes;
    EntryMaps& entry = Entry(page);
    uint8_t* target = image_.Touch(page).bytes;
    changes.ForEachPiece([&](uint32_t piece, uint64_t written, const uint8_t* bytes) {
      for (uint32_t i = 0; i < PageChanges::kPieceBytes; ++i) {
        if (!(written >> i & 1)) continue;
        const uint32_t offset = piece * PageChanges::kPieceBytes + i;
        target[offset] = bytes[i];
        entry.content.set(offset / 8);
      }
    });
  }
}

void ProcessIngest::EnsureMapped(uint64_t page) {
  uint64_t address = page * kPageBytes, begin;
  if (last_mapped_.Contains(Address(address))) return;
  if (const LiveImage::Area* area = image_.Find(address, &begin)) {
    last_mapped_ = {Address(begin), Address(area->end)};
    return;
  }
  if (address + kPageBytes == 0) return;  // a range cannot hold it
  auto above = image_.areas().upper_bound(address);
  LiveImage::Area area;
  area.end = address + kPageBytes;
  area.protection = 3;
  area.kind = kTtqMapAnonymous;
  if (above != image_.areas().end() && above->second.kind == kTtqMapStack &&
      above->first - address < (64 << 20)) {
    area.end = above->first;
    area.kind = kTtqMapStack;
  }
  MapChange change;
  change.kind = MapChange::kMap;
  change.time = now_;  // somewhere after that
  change.range = {Address(address), Address(area.end)};
  change.protection = 3;
  change.area = area.kind;
  if (area.kind == kTtqMapStack) change.path = "[stack]";
  AddMapChange(change);
  std::vector<uint64_t> none;
  image_.Map(address, area, &none);
}

void ProcessIngest::Replaced(const std::vector<uint64_t>& pages) {
  last_mapped_ = {};
  if (!indexes_) return;
  for (uint64_t page : pages) {
    EntryMaps& entry = Entry(page);
    entry.content.set();
    entry.whole = true;
    image_.Touch(page);
  }
}

void ProcessIngest::WriteInitial(uint64_t address, std::string_view bytes) {
  for (size_t done = 0; done < bytes.size();) {
    uint64_t at = address + done, offset = at & (kPageBytes - 1);
    size_t n = std::min<size_t>(bytes.size() - done, kPageBytes - offset);
    EntryMaps& entry = Entry(at / kPageBytes);
    for (uint64_t w = offset / 8; w <= (offset + n - 1) / 8; ++w) entry.content.set(w);
    memcpy(image_.Touch(at / kPageBytes).bytes + offset, bytes.data() + done, n);
    done += n;
  }
}

ProcessIngest::LiveThread& ProcessIngest::ThreadOf(uint32_t tid) {
  auto [it, is_new] = live_.try_emplace(tid);
  if (is_new) Begin(next_thread_, &it->second);
  return it->second;
}

void ProcessIngest::Begin(uint32_t number, LiveThread* thread) {
  // Those that were made before it and did not run yet have numbers already.
  for (; next_thread_ <= number; ++next_thread_) {
    threads_.push_back({ThreadNo(next_thread_), 0, kTimeMax, kTimeMax, 0});
  }
  thread->number = ThreadNo(number);
  thread->start = now_;
  Record(thread->number).start = now_;
}

absl::Status ProcessIngest::AddThread(const TtqThread& t) {
  const bool is_known = t.number != 0;
  const uint64_t number = is_known ? t.number : next_thread_;
  // Of clones that failed a number may be left over, at most one for each that could live.
  if (number >= next_thread_ + kTtqMaxThreads ||
      (number < next_thread_ &&
       Record(ThreadNo(static_cast<uint32_t>(number))).start != kTimeMax)) {
    return absl::DataLossError(fmt::format("a second thread {}", number));
  }
  LiveThread& thread = live_[t.tid] = {};
  Begin(static_cast<uint32_t>(number), &thread);
  Record(thread.number).os_tid = t.os_tid;
  const auto parent = live_.find(t.parent);
  AddEvent(EventKind::kThread, thread.number, 0, t.os_tid, 1,
           {parent == live_.end() ? 0 : parent->second.number.v}, "", "", 0);
  return absl::OkStatus();
}

void ProcessIngest::AddEvent(EventKind kind, ThreadNo thread, uint64_t pc, int64_t number,
                             int64_t result, absl::Span<const uint64_t> args, std::string_view text,
                             std::string_view bytes, int64_t wall_ns) {
  MessageBuilder message;
  auto e = message.initRoot<schema::Event>();
  e.setKind(static_cast<uint8_t>(kind));
  e.setThread(thread.v);
  e.setPc(pc);
  e.setNumber(number);
  e.setResult(result);
  auto list = e.initArgs(static_cast<unsigned>(args.size()));
  for (unsigned i = 0; i < args.size(); ++i) list.set(i, args[i]);
  // Cap'n Proto text ends at its terminator; a path has no NUL inside.
  e.setText(std::string(text));
  e.setBytes(kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()));
  e.setWallNs(wall_ns);
  if (event_time_ != now_) {
    event_time_ = now_;
    event_sequence_ = 0;
  }
  batch_.Put(Family::kEvent, EventKey(number_, now_, event_sequence_++), BytesOf(message));
}

std::pair<ThreadNo, uint64_t> ProcessIngest::Concerned(const ControlItem& item, uint32_t tid) {
  LiveThread& t = ThreadOf(tid);
  if (item.last_pc != 0) t.last_pc = item.last_pc;
  return {t.number, t.last_pc};
}

void ProcessIngest::EnterSyscall(const ControlItem& item) {
  auto s = LoadPod<TtqSyscall>(item.payload);
  LiveThread& t = ThreadOf(s.tid);
  if (item.last_pc != 0) t.last_pc = item.last_pc;
  open_syscalls_[s.tid] = s.number;
  // Those that never return are told now.
  if (s.number == 60 || s.number == 231) {
    AddEvent(EventKind::kSyscall, t.number, t.last_pc, s.number, 0, ArgumentsOf(s), "", "",
             s.wall_ns);
  }
}

void ProcessIngest::LeaveSyscall(const ControlItem& item) {
  auto s = LoadPod<TtqSyscall>(item.payload);
  auto [thread, pc] = Concerned(item, s.tid);
  open_syscalls_.erase(s.tid);
  if (s.number == 60 || s.number == 231) return;  // told when it was entered
  AddEvent(EventKind::kSyscall, thread, pc, s.number, s.result, ArgumentsOf(s), "", "", s.wall_ns);
  if (s.number == 57 || s.number == 58 || (s.number == 56 && (s.args[0] & 0x100) == 0)) {
    if (s.result > 0) {
      AddEvent(EventKind::kFork, thread, pc, s.result, s.result, {}, "", "", s.wall_ns);
    }
  }
}

void ProcessIngest::EndThread(const ControlItem& item) {
  auto t = LoadPod<TtqThread>(item.payload);
  auto [thread, pc] = Concerned(item, t.tid);
  Record(thread).end = now_;
  Record(thread).instructions += item.instructions;
  AddEvent(EventKind::kThread, thread, pc, Record(thread).os_tid, 0, {}, "", "", 0);
  uint64_t begin;
  if (indexes_ && t.clear_address != 0 && image_.Find(t.clear_address, &begin) != nullptr) {
    auto d = std::make_unique<PageDelta>();
    d->page = t.clear_address / kPageBytes;
    const uint64_t offset = t.clear_address % kPageBytes;
    memset(d->written_bytes + offset, 0xff, std::min<size_t>(4, kPageBytes - offset));
    PageChanges changes;
    changes.Add(d.get());
    changes.ForEach([this](const PageChanges::Page& page) { Apply(page); });
  }
}

void ProcessIngest::TakeSignal(const ControlItem& item) {
  auto s = LoadPod<TtqSignal>(item.payload);
  auto [thread, pc] = Concerned(item, s.tid);
  bool from_kernel = s.code > 0;
  if (from_kernel && pc == s.pc && now_.v > 0) {
    crash_ = now_ - 1;  // the instruction before now is the one that raised it
  } else {
    crash_ = now_;
  }
  Time saved = now_;
  if (item.kind == kTtqFault) now_ = *crash_;
  AddEvent(EventKind::kSignal, thread, s.pc, s.number, s.code,
           {{s.address, uint64_t{from_kernel}, uint64_t{item.kind == kTtqFault}}}, "", "",
           s.wall_ns);
  now_ = saved;
}

absl::Status ProcessIngest::KeepForChild(uint32_t fork_number) {
  NoteSharedMemory();
  std::lock_guard lock(recording_.mutex);
  // Each costs memory until its child takes it.
  if (recording_.forks.size() >= kMaxForks) {
    return absl::DataLossError("too many forks whose child never came");
  }
  recording_.forks[{ring_->name(), fork_number}] = {
      std::make_shared<LiveImage>(image_.Fork()), recipes_, now_,
      static_cast<uint32_t>(info_.blocks) + 1, indexes_};
  recording_.fork_known.notify_all();
  return absl::OkStatus();
}

absl::Status ProcessIngest::Control(const ControlItem& item) {
  std::string_view payload = item.payload;
  now_ = block_start_ + item.time;
  switch (item.kind) {
    case kTtqKernelWrite: {
      if (!indexes_) break;
      auto w = LoadPod<TtqKernelWrite>(payload);
      WriteInitial(w.address, payload.substr(sizeof(w)));
      break;
    }
    case kTtqMap:
      MapMemory(item);
      break;
    case kTtqUnmap:
    case kTtqProtect: {
      auto r = LoadPod<TtqRange>(payload);
      MapChange c = ChangeOf(item, r.address, r.bytes);
      c.kind = item.kind == kTtqUnmap ? MapChange::kUnmap : MapChange::kProtect;
      c.protection = r.protection;
      AddMapChange(c);
      if (item.kind == kTtqUnmap) {
        image_.Unmap(c.range.begin.v, c.range.end.v);
      } else {
        image_.Protect(c.range.begin.v, c.range.end.v, r.protection);
      }
      last_mapped_ = {};
      break;
    }
    case kTtqRemap: {
      auto r = LoadPod<TtqRemap>(payload);
      MapChange c = ChangeOf(item, r.from, r.bytes);
      if ((r.from | r.to) % kPageBytes != 0) return absl::DataLossError("a move of parts of pages");
      if (r.to + c.range.size() < r.to || c.range.size() < r.bytes) {
        return absl::DataLossError("a move beyond all addresses");
      }
      c.kind = MapChange::kRemap;
      c.to = Address(r.to);
      AddMapChange(c);
      std::vector<uint64_t> replaced;
      image_.Move(r.from, r.to, c.range.size(), &replaced);
      Replaced(replaced);
      break;
    }
    case kTtqSyscallEnter:
      EnterSyscall(item);
      break;
    case kTtqSyscallExit:
      LeaveSyscall(item);
      break;
    case kTtqThreadStart:
      RETURN_IF_ERROR(AddThread(LoadPod<TtqThread>(payload)));
      break;
    case kTtqThreadExit:
      EndThread(item);
      break;
    case kTtqSignal:
    case kTtqFault:
      TakeSignal(item);
      break;
    case kTtqOutput: {
      auto o = LoadPod<TtqOutput>(payload);
      auto [thread, pc] = Concerned(item, o.tid);
      AddEvent(EventKind::kOutput, thread, pc, o.fd,
               static_cast<int64_t>(payload.size()) - static_cast<int64_t>(sizeof(o)), {o.fd}, "",
               payload.substr(sizeof(o)), 0);
      break;
    }
    case kTtqMark: {
      auto m = LoadPod<TtqMark>(payload);
      auto [thread, pc] = Concerned(item, m.tid);
      AddEvent(EventKind::kMark, thread, pc, 0, 0, {}, payload.substr(sizeof(m)), "", m.wall_ns);
      break;
    }
    case kTtqDescriptor:
      moment_.descriptors.push_back(
          {LoadPod<int32_t>(payload), std::string(payload.substr(sizeof(int32_t)))});
      break;
    case kTtqThreadAt: {
      auto t = LoadPod<TtqThreadAt>(payload);
      const size_t index = ThreadOf(t.tid).number.v - 1;
      moment_.threads.resize(std::max(moment_.threads.size(), index + 1));
      moment_.threads[index] = {std::string(payload.substr(sizeof(t))), t.syscall};
      break;
    }
    case kTtqFork:
      RETURN_IF_ERROR(KeepForChild(LoadPod<uint32_t>(payload)));
      break;
    case kTtqExecve: {
      auto [thread, pc] = Concerned(item, LoadPod<uint32_t>(payload));
      AddEvent(EventKind::kExec, thread, pc, 0, 0, {}, payload.substr(4), "", 0);
      break;
    }
    case kTtqExitProcess:
      // Said by the program, then again by Valgrind when it ends the process.
      if (info_.exit_status) break;
      info_.exit_status = static_cast<int>(LoadPod<uint32_t>(payload) & 0xff);
      AddEvent(EventKind::kExit, ThreadOf(item.tid).number, ThreadOf(item.tid).last_pc,
               *info_.exit_status, 0, {}, "", "", 0);
      break;
    default:
      break;
  }
  return absl::OkStatus();
}

MapChange ProcessIngest::ChangeOf(const ControlItem& item, uint64_t begin, uint64_t bytes) {
  MapChange c;
  c.time = now_;
  if (item.tid != 0) {
    LiveThread& t = ThreadOf(item.tid);
    if (item.last_pc != 0) t.last_pc = item.last_pc;
    c.thread = t.number;
    c.pc = Address(t.last_pc);
    auto it = open_syscalls_.find(item.tid);
    if (it != open_syscalls_.end() && it->second >= 0 && it->second < INT32_MAX) {
      c.syscall = static_cast<int32_t>(it->second);
    }
  }
  // The last page of all is not mapped: its end has no address.
  constexpr uint64_t kTop = ~(kPageBytes - 1);
  uint64_t end = begin + bytes < begin ? kTop : std::min(begin + bytes, kTop);
  begin &= ~(kPageBytes - 1);
  c.range = {Address(begin), Address(std::max(begin, (end + kPageBytes - 1) & ~(kPageBytes - 1)))};
  return c;
}

void ProcessIngest::MapMemory(const ControlItem& item) {
  auto m = LoadPod<TtqMap>(item.payload);
  // Perhaps followed by a NUL and where its bytes are now.
  std::string path = item.payload.substr(sizeof(m)), bytes_at = path;
  if (const size_t end = path.find('\0'); end != path.npos) {
    bytes_at = path.substr(end + 1);
    path.resize(end);
  }
  MapChange c = ChangeOf(item, m.address, m.bytes);
  c.kind = MapChange::kMap;
  c.protection = m.protection;
  c.shared = m.shared;
  c.area = m.kind;
  c.path = path;
  c.file_offset = m.file_offset;
  if (m.kind == kTtqMapHeap) c.path = "[heap]";
  if (m.kind == kTtqMapStack) c.path = "[stack]";
  LiveImage::Area area;
  area.end = c.range.end.v;
  area.protection = m.protection;
  area.shared = m.shared;
  if (m.shared && m.ino != 0 && !moment_.history_unknown()) {
    uint64_t key[2] = {m.dev, m.ino};
    area.identity = XXH3_64bits(key, sizeof(key)) | 1;
    area.identity_offset = m.file_offset;
    for (const auto& [begin, other] : image_.areas()) {
      has_aliases_ = has_aliases_ || other.identity == area.identity;
    }
  }
  area.kind = m.kind;
  // Startup areas come with their bytes, which the loader may have changed; the file is still
  // wanted for its symbols.
  bool startup = now_.v == 0 && m.content == kTtqContentZero && m.kind == kTtqMapFile;
  if (m.content == kTtqContentFile || startup) {
    if (auto file = recording_.File(path, bytes_at, m)) {
      c.file_id = area.file_id = file->id();
      if (!startup) {
        area.file = file;
        area.file_offset = m.file_offset;
      }
    } else if (!startup) {
      area.content_unknown = true;
    }
  }
  if (m.content == kTtqContentUnknown) area.content_unknown = true;
  c.content_unknown = area.content_unknown;
  if (startup) c.area = kTtqMapStartup;
  // Of a moment each byte that is not known says so.
  if (area.content_unknown && !moment_.history_unknown()) {
    Incomplete(fmt::format("the contents of {} were not kept",
                           path.empty() ? "memory that the kernel writes at any time" : path));
  }
  const bool others_write = m.shared && (m.protection & 2) && !moment_.history_unknown();
  if (others_write && (!path.empty() || m.kind == kTtqMapSysV)) {
    Incomplete(fmt::format("{} is shared: other processes' writes to it are not seen",
                           path.empty() ? "System V memory" : path));
  }
  AddMapChange(c);
  std::vector<uint64_t> replaced;
  image_.Map(c.range.begin.v, area, &replaced);
  Replaced(replaced);
}

void ProcessIngest::NoteSharedMemory() {
  for (const auto& [begin, area] : image_.areas()) {
    if (!area.shared || !(area.protection & 2)) continue;
    Incomplete(
        fmt::format("the memory at {:#x} is shared between processes: the others' writes "
                    "to it are not seen",
                    begin));
  }
}

absl::Status ProcessIngest::Follow(const TtqBlock& block, const BlockDigest& digest) {
  for (const BlockDigest::Step& step : digest.steps) {
    if (indexes_) step.pages.ForEach([this](const PageChanges::Page& page) { Apply(page); });
    if (step.has_control) {
      RETURN_IF_ERROR(Control(step.control));
    }
  }
  now_ = block_start_ + digest.instructions;
  for (const auto& [tid, pc] : digest.last_pc) ThreadOf(tid).last_pc = pc;
  for (const auto& [tid, n] : digest.instructions_of) {
    Record(ThreadOf(tid).number).instructions += n;
  }
  for (const auto& [tid, state] : digest.end_states) {
    if (auto it = live_.find(tid); it != live_.end()) it->second.state = state;
  }
  current_tid_ = digest.end_tid;
  info_.end = now_;
  info_.end_wall_ns = block.wall_end_ns;
  return absl::OkStatus();
}

absl::Status ProcessIngest::Commit(const TtqBlock& block, BlockDigest digest) {
  block_start_ = info_.end;
  now_ = block_start_;
  if (indexes_ && block_start_ >= recording_.history_end) {
    indexes_ = false;
    is_past_history_ = true;
    info_.indexed.end = block_start_;
    ring_->AskForNoMore();
  }
  if (!indexes_) {
    RETURN_IF_ERROR(Follow(block, digest));
    {
      std::lock_guard lock(recording_.mutex);
      recording_.skimmed[number_].push_back(now_);
    }
    // Counted here: FinishStoring counts what came since `stored_`.
    recording_.totals.instructions += digest.instructions;
    stored_.info.end = info_.end;
    return StoreEarly();
  }
  if (std::exchange(starts_anew_, false)) {
    for (const auto& [tid, state] : digest.first_states) {
      if (const auto it = live_.find(tid); it != live_.end()) it->second.state = state;
    }
  }
  RETURN_IF_ERROR(CheckRegisters(block, digest));
  std::string header = Header(digest);
  RETURN_IF_ERROR(Follow(block, digest));
  info_.writes += digest.writes;
  info_.reads += digest.reads;
  info_.log_bytes += digest.log_bytes;

  uint32_t number = static_cast<uint32_t>(info_.blocks);
  uint32_t group = group_first_;
  AppendBig32(&header, static_cast<uint32_t>(header.size()));
  AppendInPieces(header, &digest.log);
  for (uint32_t piece = 0; piece < digest.log.size(); ++piece) {
    batch_.Put(Family::kBlock, BlockKey(number_, BlockNo(number), piece),
               std::move(digest.log[piece]));
  }
  for (const auto& [superblock, times] : digest.executions) {
    std::string& row = exec_[superblock];
    AppendVarint(&row, number - group);
    AppendVarint(&row, times);
  }
  StorePages(group, number);
  if (summaries_.empty()) group_started_ = std::chrono::steady_clock::now();
  summaries_.push_back({now_, block.wall_start_ns, block.wall_end_ns, digest.log_bytes,
                        digest.changes_mappings ? 1u : 0u});
  info_.blocks++;
  if (summaries_.size() >= kGroupBlocks || batch_.bytes() >= kGroupBytes ||
      std::chrono::steady_clock::now() - group_started_ > GroupAge()) {
    return StoreGroup();
  }
  return absl::OkStatus();
}

absl::Status ProcessIngest::CheckRegisters(const TtqBlock& block, const BlockDigest& digest) {
  if (!block.between_superblocks) return absl::OkStatus();
  for (const auto& [tid, state] : digest.first_states) {
    auto it = live_.find(tid);
    if (tid != current_tid_ || it == live_.end()) continue;
    for (size_t r = 0; r < kTtqRegCount; ++r) {
      if (it->second.state.reg[r] == state.reg[r]) continue;
      return absl::InternalError(fmt::format(
          "recorder bug: at the start of block {} register {} of thread {} is {:#x}, derived "
          "{:#x}",
          block.number, r < 16 ? GprName(static_cast<Gpr>(r)) : "special", it->second.number.v,
          state.reg[r], it->second.state.reg[r]));
    }
  }
  return absl::OkStatus();
}

std::string ProcessIngest::Header(const BlockDigest& digest) {
  MessageBuilder message;
  auto h = message.initRoot<schema::BlockHeader>();
  h.setStartTime(block_start_.v);
  h.setCurrentTid(current_tid_);
  h.setNextThread(next_thread_);
  h.setLogBytes(digest.log_bytes);
  h.setLogHash(digest.log_hash);
  auto parts = h.initLogParts(static_cast<unsigned>(digest.log_parts.size()));
  for (unsigned p = 0; p < parts.size(); ++p) {
    parts[p].setBytes(digest.log_parts[p].bytes);
    parts[p].setStoredBytes(digest.log_parts[p].stored_bytes);
  }
  auto list = h.initThreads(static_cast<unsigned>(live_.size()));
  unsigned i = 0;
  for (const auto& [tid, t] : live_) {
    auto s = list[i++];
    s.setTid(tid);
    s.setNumber(t.number.v);
    s.setPc(t.state.pc);
    s.setLastPc(t.last_pc);
    auto regs = s.initRegisters(kTtqRegCount);
    for (unsigned r = 0; r < kTtqRegCount; ++r) regs.set(r, t.state.reg[r]);
  }
  return BytesOf(message);
}

void ProcessIngest::StorePages(uint32_t group, uint32_t block) {
  for (auto& [page, maps] : entries_) {
    PageEntry e;
    e.written = maps.written;
    e.read = maps.read;
    e.content = maps.content;
    if (maps.content.any()) {
      ImagePage& p = image_.Touch(page);
      e.whole = maps.whole || maps.content.count() > kWordsPerPage / 2 ||
                ++p.entries_since_whole >= kWholePageEvery;
      if (e.whole) p.entries_since_whole = 0;
      memcpy(e.words.data(), p.bytes, kPageBytes);
      span_pages_[0][page] |= uint32_t{1} << groups_made_ % kSpanParts;
    }
    batch_.Put(Family::kPage, PageKey(number_, group, page, block), e.Encode());
  }
  entries_.clear();
}

absl::Status ProcessIngest::StoreGroup() {
  RETURN_IF_ERROR(FinishStoring());
  CompleteGroup();
  storing_ = {info_, threads_};
  auto batch = std::make_shared<Database::Batch>(std::exchange(batch_, Database::Batch()));
  being_stored_ = InThreadIfPossible([this, batch = std::move(batch)] {
    absl::Status s = Guarded([&] { return recording_.database->Add(std::move(*batch)); });
    if (!s.ok()) recording_.StorageFailed(s);
    return s.ok();
  });
  return absl::OkStatus();
}

absl::Status ProcessIngest::FinishStoring() {
  if (being_stored_.valid() && being_stored_.get()) {
    recording_.totals.instructions += storing_.info.end.v - stored_.info.end.v;
    recording_.totals.writes += storing_.info.writes - stored_.info.writes;
    stored_ = std::move(storing_);
  }
  return recording_.StorageHasFailed() ? recording_.Error() : absl::OkStatus();
}

absl::Status ProcessIngest::StoreProcess() {
  MessageBuilder message;
  auto p = message.initRoot<schema::Process>();
  Describe(p);
  p.setProgram(info_.program);
  auto words = p.initArguments(static_cast<unsigned>(info_.arguments.size()));
  for (unsigned i = 0; i < info_.arguments.size(); ++i) words.set(i, info_.arguments[i]);
  p.setWorkingDirectory(info_.working_directory);
  absl::Status s = recording_.database->Put(ProcessKey(number_), BytesOf(message));
  if (s.ok()) return s;
  recording_.StorageFailed(s);
  return recording_.Error();
}

void ProcessIngest::CompleteGroup() {
  for (const std::string& encoded : std::exchange(recipe_rows_, {})) {
    auto head = LoadPod<TtqRecipe>(encoded);
    const Recipe* recipe = recipes_->Find(SuperblockId(head.id));
    for (const AddressRange& extent : recipe->Extents()) {
      std::string end;
      AppendBig64(&end, extent.end.v);
      // Rounds of a loop that is unrolled begin at the same place; the last may go on behind it.
      std::string& known = extents_[ExtentKey(number_, group_first_, extent.begin.v, head.id)];
      known = std::max(known, end);
    }
    batch_.Put(Family::kCode, CodeKey(number_, SuperblockId(head.id)), encoded);
  }
  for (auto& [key, end] : extents_) batch_.Put(Family::kExtent, key, end);
  extents_.clear();
  for (auto& [superblock, row] : exec_) {
    batch_.Put(Family::kExec, ExecKey(number_, group_first_, superblock), std::move(row));
  }
  exec_.clear();
  if (!summaries_.empty()) {
    // With its rows, not after them: a reader of a recording being made would see one of them
    // only.
    MessageBuilder message;
    auto g = message.initRoot<schema::Group>();
    g.setFirstBlock(group_first_);
    Describe(g.initProcess());
    auto list = g.initBlocks(static_cast<unsigned>(summaries_.size()));
    for (unsigned i = 0; i < summaries_.size(); ++i) {
      list[i].setEndTime(summaries_[i].end.v);
      list[i].setWallStartNs(summaries_[i].wall_start_ns);
      list[i].setWallEndNs(summaries_[i].wall_end_ns);
      list[i].setLogBytes(summaries_[i].log_bytes);
      list[i].setFlags(summaries_[i].flags);
    }
    batch_.Put(Family::kMeta, GroupKey(number_, group_first_), BytesOf(message));
    ++groups_made_;
    CompleteSpans();
  }
  summaries_.clear();
  group_first_ = static_cast<uint32_t>(info_.blocks);
}

void ProcessIngest::CompleteSpans() {
  uint32_t made = groups_made_;  // groups, then spans of a level
  for (uint32_t level = 0; level < kSpanLevels && made % kSpanParts == 0; ++level) {
    made /= kSpanParts;
    const uint32_t span = made - 1;
    const auto pages = std::exchange(span_pages_[level], {});
    std::vector<std::pair<uint64_t, uint32_t>> sorted(pages.begin(), pages.end());
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); i += kSpanPages) {
      const auto row = absl::MakeConstSpan(sorted).subspan(i, kSpanPages);
      batch_.Put(Family::kMeta, SpanKey(number_, level, span, row[0].first),
                 SpanPages::Encode(row));
    }
    if (level + 1 == kSpanLevels) break;
    for (const auto& [page, parts] : sorted) {
      span_pages_[level + 1][page] |= uint32_t{1} << span % kSpanParts;
    }
  }
}

void ProcessIngest::Describe(schema::Process::Builder p) const {
  p.setNumber(info_.number.v);
  p.setParent(info_.parent.v);
  p.setByExec(info_.by_exec);
  p.setForkTime(fork_time_.v);
  p.setForkBlocks(fork_blocks_);
  p.setPid(info_.pid);
  p.setEnd(info_.end.v);
  p.setCrash(info_.crash ? static_cast<int64_t>(info_.crash->v) : -1);
  p.setFatalSignal(static_cast<uint32_t>(info_.fatal_signal));
  p.setExitStatus(info_.exit_status.value_or(-1));
  p.setStartWallNs(info_.start_wall_ns);
  p.setEndWallNs(info_.end_wall_ns);
  p.setBlocks(info_.blocks);
  p.setWrites(info_.writes);
  p.setReads(info_.reads);
  p.setLogBytes(info_.log_bytes);
  p.setComplete(info_.complete);
  p.setIncompleteReason(info_.incomplete_reason);
  p.setClosed(closed_);
  p.setBeginning(static_cast<uint8_t>(moment_.beginning));
  p.setIndexedFrom(info_.indexed.begin.v);
  p.setIndexedTo(info_.indexed.end.v);
  auto descriptors = p.initDescriptors(static_cast<unsigned>(moment_.descriptors.size()));
  for (unsigned i = 0; i < moment_.descriptors.size(); ++i) {
    descriptors[i].setFd(moment_.descriptors[i].fd);
    descriptors[i].setWhat(moment_.descriptors[i].what);
  }
  std::vector<Thread> begun;
  std::copy_if(threads_.begin(), threads_.end(), std::back_inserter(begun),
               [](const Thread& t) { return t.start != kTimeMax; });
  auto threads = p.initThreads(static_cast<unsigned>(begun.size()));
  for (unsigned i = 0; i < begun.size(); ++i) {
    threads[i].setNumber(begun[i].number.v);
    threads[i].setOsTid(begun[i].os_tid);
    threads[i].setStart(begun[i].start.v);
    threads[i].setEnd(begun[i].end.v);
    threads[i].setInstructions(begun[i].instructions);
    const size_t index = begun[i].number.v - 1;
    if (index >= moment_.threads.size()) continue;
    threads[i].setName(moment_.threads[index].name);
    threads[i].setSyscall(moment_.threads[index].in_syscall);
  }
}

}  // namespace ttq

// SPDX-License-Identifier: MIT

#include "query/cpython/frame_history.h"

#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/byte_cursor.h"
#include "base/disk_cache.h"
#include "base/status_macros.h"
#include "base/threads.h"
#include "fmt/core.h"
#include "store/format/format.h"

namespace ttq::python {
namespace {

// The file's version: the transitions it holds are those that this version finds.
// 2: stacks that were there before their thread entered or left a frame (a forked child's) are
//    their thread's.
// 3: a thread of 3.11 that runs at once after it was made is followed from its first frame on.
// 4: a file may hold the first chunks only; with what is needed to go on: what tells code objects
//    apart, and the stacks at the end.
// 5: where the interpreter's structures are is taken from a time when one is alive.
// 6: frames of greenlets are suspended and resumed.
constexpr uint32_t kFileVersion = 6;
// The name of a file that holds the first chunks only ends in this.
constexpr char kBegun[] = ".begun";
constexpr char kMagic[8] = {'T', 'T', 'Q', 'P', 'Y', 'F', 'R', '\n'};
constexpr size_t kHeadBytes = sizeof(kMagic) + 4 + 8;
constexpr uint64_t kMaxFileBytes = uint64_t{4} << 30;
constexpr uint64_t kMaxChunkBytes = 1 << 28;
constexpr size_t kDecodedChunks = 16;
constexpr uint64_t kOther = 16;  // beside a transition's kind: of another thread than the last

void AppendSigned(std::string* out, int64_t v) {
  AppendVarint(out, static_cast<uint64_t>(v) << 1 ^ static_cast<uint64_t>(v >> 63));
}
void AppendText(std::string* out, std::string_view text) {
  AppendVarint(out, text.size());
  out->append(text);
}

// Reads what the functions above wrote; after the first failure everything is 0.
class Reader {
 public:
  explicit Reader(std::string_view in)
      : size_(in.size()), cursor_({reinterpret_cast<const uint8_t*>(in.data()), in.size()}, 0) {}
  uint64_t Number() { return ok() ? cursor_.Uleb() : 0; }
  int64_t Signed() {
    const uint64_t v = Number();
    return static_cast<int64_t>(v >> 1 ^ (~(v & 1) + 1));
  }
  std::string_view Text() {
    const ByteSpan text = cursor_.Block(Number());
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }
  // A count of things that take at least a byte each.
  size_t Count() {
    const uint64_t n = Number();
    if (n > size_ - cursor_.at()) Fail();
    return ok() ? n : 0;
  }
  void Fail() { failed_ = true; }
  bool ok() const { return cursor_.ok() && !failed_; }
  bool done() const { return cursor_.at() == size_; }

 private:
  size_t size_;
  ByteCursor cursor_;
  bool failed_ = false;
};

std::string Compress(std::string_view data) {
  std::string out(ZSTD_compressBound(data.size()), '\0');
  const size_t n = ZSTD_compress(out.data(), out.size(), data.data(), data.size(), 1);
  out.resize(ZSTD_isError(n) ? 0 : n);
  return out;
}

uint64_t RecordingKey(const Recording& recording, const Process& process) {
  const ProcessInfo& info = process.info();
  const uint64_t parts[] = {info.number.v,
                            info.end.v,
                            info.blocks,
                            info.writes,
                            info.log_bytes,
                            static_cast<uint64_t>(info.start_wall_ns),
                            static_cast<uint64_t>(recording.info().start_wall_ns)};
  return XXH3_64bits(parts, sizeof parts);
}

std::string FilePath(const Recording& recording, const Process& process) {
  return fmt::format("{}/python-frames-{}", recording.info().path, process.info().number.v);
}

std::vector<std::pair<int, bool>> VersionsOf(const std::vector<Runtime>& runtimes) {
  std::vector<std::pair<int, bool>> versions;
  for (const Runtime& r : runtimes) versions.emplace_back(r.minor, r.free_threaded);
  return versions;
}

}  // namespace

// ---- Making it ----------------------------------------------------------------------------------

// Puts blocks together, in order.
class FrameHistory::Builder {
 public:
  Builder(const Process& process, FrameHistory* history) : process_(process), history_(*history) {}

  std::unique_ptr<BlockVisitor> Make(std::shared_ptr<const std::vector<ThreadStack>> start) {
    return std::make_unique<TransitionVisitor>(process_, history_.runtimes_, &history_.codes_,
                                               std::move(start));
  }

  absl::Status Take(std::unique_ptr<BlockVisitor> taken) {
    auto* visitor = static_cast<TransitionVisitor*>(taken.get());
    // A span begins with the end of the block before.
    if (visitor->block() < history_.done_) return absl::OkStatus();
    if (history_.done_ > 0 && !GoesOn(history_.now_, visitor->start_stacks())) {
      // From what the block before ended with.
      auto start = std::make_shared<const std::vector<ThreadStack>>(history_.now_);
      ASSIGN_OR_RETURN(std::unique_ptr<BlockVisitor> again,
                       WalkAgain(process_, *visitor, [&](uint32_t) { return Make(start); }));
      if (again) {
        taken = std::move(again);
        visitor = static_cast<TransitionVisitor*>(taken.get());
      }
    }
    Append(*visitor);
    return absl::OkStatus();
  }

  // Tells of the chunks of whose stacks it is known which thread's they are; of the others later.
  void Publish() {
    const auto is_named = [](const Stack& s) { return s.thread != ThreadNo() || s.frames.empty(); };
    size_t ready = history_.ready_;
    while (ready < history_.done_ &&
           (history_.done_ == history_.chunks_.size() ||
            std::all_of(history_.chunks_[ready].stacks.begin(),
                        history_.chunks_[ready].stacks.end(), is_named))) {
      ++ready;
    }
    std::lock_guard lock(history_.mutex_);
    history_.ready_.store(ready, std::memory_order_release);
    history_.changed_.notify_all();
  }

 private:
  static const ThreadStack* Find(const std::vector<ThreadStack>& stacks, uint64_t thread_state) {
    for (const ThreadStack& stack : stacks) {
      if (stack.thread_state == thread_state) return &stack;
    }
    return nullptr;
  }

  void Append(const TransitionVisitor& visitor) {
    ChunkData& chunk = history_.chunks_[history_.done_];
    chunk.count = visitor.transitions().size();
    std::vector<ThreadStack> start = visitor.start_stacks();
    for (ThreadStack& stack : start) {
      const ThreadStack* before = Find(history_.now_, stack.thread_state);
      if (before == nullptr) continue;
      stack.thread = before->thread;
      for (size_t i = 0; i < stack.frames.size() && i < before->frames.size(); ++i) {
        stack.frames[i].pushed = before->frames[i].pushed;
      }
    }
    for (size_t i = 0; i < visitor.stacks().size(); ++i) {
      Stack kept;
      kept.thread_state = visitor.stacks()[i].thread_state;
      if (i < start.size()) {
        kept.thread = start[i].thread;
        for (const StackEntry& frame : start[i].frames) {
          if (frame.state != StackEntry::kShown) continue;
          kept.frames.push_back({frame.frame, frame.pushed, frame.code});
        }
      }
      // Told by what its thread did next.
      if (kept.thread == ThreadNo()) kept.thread = visitor.stacks()[i].thread;
      NameEarlier(kept);
      chunk.stacks.push_back(std::move(kept));
    }
    // A thread state that ended within the block goes no further; an address that was taken again
    // is the later one's.
    std::vector<ThreadStack> now;
    for (size_t i = visitor.stacks().size(); i-- > 0;) {
      ThreadStack stack = visitor.stacks()[i];
      if (Find(now, stack.thread_state) != nullptr) continue;
      for (StackEntry& frame : stack.frames) {
        if (frame.initial >= 0 && i < start.size() &&
            static_cast<size_t>(frame.initial) < start[i].frames.size()) {
          frame.pushed = start[i].frames[static_cast<size_t>(frame.initial)].pushed;
        }
        frame.initial = -1;
      }
      if (stack.thread == ThreadNo() && i < start.size()) stack.thread = start[i].thread;
      if (!stack.frames.empty() || !stack.cframes.empty()) now.push_back(std::move(stack));
    }
    std::reverse(now.begin(), now.end());
    history_.now_ = std::move(now);

    std::string encoded;
    Time last = chunk.begin;
    uint32_t thread_state = 0;
    ThreadNo thread;
    uint64_t frame = 0;
    for (const RawTransition& t : visitor.transitions()) {
      const bool other = t.thread_state != thread_state || t.thread != thread;
      encoded.push_back(static_cast<char>(static_cast<int>(t.kind) | (other ? kOther : 0)));
      if (other) {
        AppendVarint(&encoded, t.thread_state);
        AppendVarint(&encoded, t.thread.v);
        thread_state = t.thread_state;
        thread = t.thread;
      }
      AppendSigned(&encoded, static_cast<int64_t>(t.time.v - last.v));
      last = t.time;
      AppendSigned(&encoded, static_cast<int64_t>(t.frame - frame));
      frame = t.frame;
      AppendSigned(&encoded, t.offset);
      if (!Enters(t.kind)) continue;
      AppendVarint(&encoded, t.code);
      AppendSigned(&encoded, t.caller_offset);
      chunk.codes.push_back(t.code);
    }
    std::sort(chunk.codes.begin(), chunk.codes.end());
    chunk.codes.erase(std::unique(chunk.codes.begin(), chunk.codes.end()), chunk.codes.end());
    chunk.encoded = Compress(encoded);
    ++history_.done_;
    Publish();
  }

  // The stacks of the chunks before that lead to `stack` without anything having been done there.
  void NameEarlier(const Stack& stack) {
    if (stack.thread == ThreadNo() || stack.frames.empty()) return;
    for (size_t c = history_.done_; c-- > 0;) {
      std::vector<Stack>& stacks = history_.chunks_[c].stacks;
      const auto same = std::find_if(stacks.begin(), stacks.end(), [&](const Stack& s) {
        return s.thread_state == stack.thread_state;
      });
      if (same == stacks.end() || same->thread != ThreadNo() || same->frames.empty()) return;
      same->thread = stack.thread;
    }
  }

  const Process& process_;
  FrameHistory& history_;
};

void FrameHistory::Prepare(const Process& process) {
  const std::vector<Time> starts = process.BlockStarts();
  chunks_.resize(starts.size());
  for (size_t i = 0; i < starts.size(); ++i) {
    chunks_[i].begin = starts[i];
    chunks_[i].end = i + 1 < starts.size() ? starts[i + 1] : process.info().end;
  }
}

absl::Status FrameHistory::Make(const Recording& recording, const Process& process,
                                Deadline deadline) {
  const size_t had = done_;
  const auto look_at_all = [&]() -> absl::Status {
    if (runtimes_.empty()) {
      // Those that the file's chunks were made with.
      ASSIGN_OR_RETURN(std::vector<Runtime> runtimes, RuntimesEver(recording, process));
      if (VersionsOf(runtimes) != versions_) {
        return absl::DataLossError(absl::StrCat(FilePath(recording, process), kBegun,
                                                " is of other interpreters; it may be deleted"));
      }
      runtimes_ = std::move(runtimes);
    }
    Builder builder(process, this);
    builder.Publish();
    return process.WatchBlocks(
        {done_ == 0 ? Time(0) : chunks_[done_].begin, kTimeMax},
        [&](uint32_t) { return builder.Make(nullptr); },
        [&](std::unique_ptr<BlockVisitor> visitor) -> absl::Status {
          if (std::chrono::steady_clock::now() > deadline) {
            return absl::DeadlineExceededError("no more time");
          }
          return builder.Take(std::move(visitor));
        },
        &making_);
  };
  absl::Status made = WithinMemory(look_at_all);
  // Whoever gives up early, having what was asked for, leaves what took long.
  constexpr size_t kTookLong = 32;
  const bool partly = absl::IsDeadlineExceeded(made) ? done_ > had : done_ >= had + kTookLong;
  // What damage left out must not be taken for all there is.
  if ((made.ok() || partly) && recording.info().finished && recording.Damage().ok()) {
    const std::string path = FilePath(recording, process);
    const std::string begun = path + kBegun;
    WriteWholeFile(made.ok() ? path : begun, {Serialize(RecordingKey(recording, process))});
    if (made.ok()) unlink(begun.c_str());
  }
  std::lock_guard lock(mutex_);
  made_ = made;
  changed_.notify_all();
  return made;
}

FrameHistory::~FrameHistory() {
  making_.cancelled = true;
  if (maker_.valid()) maker_.wait();
}

absl::Status FrameHistory::Wait(size_t count, ScanControl* control) const {
  size_t ready = ready_.load(std::memory_order_acquire);
  if (ready >= count) return absl::OkStatus();
  if (control) control->blocks_total += count - ready;
  std::unique_lock lock(mutex_);
  while (true) {
    const size_t now = ready_;
    if (control) control->blocks_done += std::min(now, count) - ready;
    ready = std::min(now, count);
    if (ready == count) return absl::OkStatus();
    if (!made_.ok()) return made_;
    if (control && control->cancelled) return absl::CancelledError("interrupted");
    constexpr auto kLookForInterrupt = std::chrono::milliseconds(20);
    changed_.wait_for(lock, kLookForInterrupt);
  }
}

absl::Status FrameHistory::WaitUntil(Time t, ScanControl* control) const {
  const std::optional<size_t> chunk = ChunkAt(t);
  return chunk ? Wait(*chunk + 1, control) : absl::OkStatus();
}

bool FrameHistory::IsKept(const Recording& recording, const Process& process) {
  return recording.info().finished && access(FilePath(recording, process).c_str(), R_OK) == 0;
}

absl::StatusOr<std::shared_ptr<FrameHistory>> FrameHistory::Begin(const Recording& recording,
                                                                  const Process& process) {
  const std::string path = FilePath(recording, process);
  for (const std::string& name : {path, path + kBegun}) {
    std::string content;
    if (!recording.info().finished || !ReadWholeFile(name, kMaxFileBytes, &content)) continue;
    std::shared_ptr<FrameHistory> history(new FrameHistory);
    if (!history->Parse(content, RecordingKey(recording, process)).ok()) continue;
    history->Prepare(process);
    history->from_file_ = history->done_ == history->chunks_.size();
    if (history->from_file_) history->ready_ = history->done_;
    return history;
  }
  ASSIGN_OR_RETURN(std::vector<Runtime> runtimes, RuntimesEver(recording, process));
  std::shared_ptr<FrameHistory> history(new FrameHistory);
  history->runtimes_ = std::move(runtimes);
  history->versions_ = VersionsOf(history->runtimes_);
  for (const Runtime& runtime : history->runtimes_) history->layouts_.push_back(*runtime.layout);
  history->Prepare(process);
  return history;
}

absl::StatusOr<std::shared_ptr<const FrameHistory>> FrameHistory::Of(const Recording& recording,
                                                                     const Process& process) {
  absl::StatusOr<std::shared_ptr<FrameHistory>> history = Begin(recording, process);
  if (!history.ok() || (*history)->from_file_) return history;
  std::future<void>& maker = (*history)->maker_;
  maker = InThreadIfPossible([made = history->get(), &recording, &process] {
    made->Make(recording, process, Deadline::max()).IgnoreError();
  });
  // Without a thread of its own, at once.
  if (maker.wait_for(std::chrono::seconds(0)) == std::future_status::deferred) maker.wait();
  return history;
}

absl::Status FrameHistory::MakeFor(const Recording& recording, const Process& process,
                                   std::chrono::nanoseconds longest) {
  const Deadline deadline = std::chrono::steady_clock::now() + longest;
  absl::StatusOr<std::shared_ptr<FrameHistory>> history = Begin(recording, process);
  if (absl::IsNotFound(history.status())) return absl::OkStatus();
  if (!history.ok()) return history.status();
  if ((*history)->from_file_) return absl::OkStatus();
  absl::Status made = (*history)->Make(recording, process, deadline);
  return absl::IsDeadlineExceeded(made) ? absl::OkStatus() : made;
}

absl::StatusOr<std::shared_ptr<const FrameHistory>> FrameHistory::Whole(const Recording& recording,
                                                                        const Process& process,
                                                                        ScanControl* control) {
  ASSIGN_OR_RETURN(std::shared_ptr<const FrameHistory> history, Of(recording, process));
  RETURN_IF_ERROR(history->WaitForAll(control));
  return history;
}

// ---- Its file -----------------------------------------------------------------------------------

std::string FrameHistory::Serialize(uint64_t recording_key) const {
  std::string out(kHeadBytes, '\0');
  AppendVarint(&out, recording_key);
  AppendVarint(&out, versions_.size());
  for (const auto& [minor, free_threaded] : versions_) {
    AppendVarint(&out, static_cast<uint64_t>(minor));
    AppendVarint(&out, free_threaded);
  }
  AppendVarint(&out, codes_.size());
  for (uint32_t id = 0; id < codes_.size(); ++id) {
    const CodeTable::Entry& entry = codes_.at(id);
    const Code& code = entry.code;
    AppendVarint(&out, entry.runtime);
    AppendVarint(&out, entry.is_cleanup);
    AppendVarint(&out, code.address);
    for (const uint64_t part : {entry.key.name, entry.key.filename, entry.key.linetable,
                                entry.key.consts, entry.key.name_hash}) {
      AppendVarint(&out, part);
    }
    AppendText(&out, code.name);
    AppendText(&out, code.qualname);
    AppendText(&out, code.filename);
    AppendSigned(&out, code.first_line);
    AppendVarint(&out, code.flags);
    AppendSigned(&out, code.argcount);
    AppendSigned(&out, code.posonlyargcount);
    AppendSigned(&out, code.kwonlyargcount);
    AppendVarint(&out, code.instructions);
    AppendSigned(&out, code.first_traceable);
    AppendText(&out, code.line_table);
    AppendVarint(&out, code.variables.size());
    for (const Code::Variable& variable : code.variables) {
      AppendText(&out, variable.name);
      AppendVarint(&out, variable.kind);
    }
  }
  AppendVarint(&out, done_);
  for (const ChunkData& chunk : absl::MakeSpan(chunks_).first(done_)) {
    AppendVarint(&out, chunk.begin.v);
    AppendVarint(&out, chunk.end.v);
    AppendVarint(&out, chunk.count);
    AppendVarint(&out, chunk.codes.size());
    uint32_t last = 0;
    for (const uint32_t code : chunk.codes) {
      AppendVarint(&out, code - last);
      last = code;
    }
    AppendVarint(&out, chunk.stacks.size());
    for (const Stack& stack : chunk.stacks) {
      AppendVarint(&out, stack.thread_state);
      AppendVarint(&out, stack.thread.v);
      AppendVarint(&out, stack.frames.size());
      for (const ActiveFrame& frame : stack.frames) {
        AppendVarint(&out, frame.frame);
        AppendVarint(&out, frame.pushed.v);
        AppendVarint(&out, frame.code);
      }
    }
    AppendText(&out, chunk.encoded);
  }
  AppendVarint(&out, now_.size());
  for (const ThreadStack& stack : now_) {
    AppendVarint(&out, stack.thread_state);
    AppendVarint(&out, stack.runtime);
    AppendVarint(&out, stack.thread.v);
    AppendVarint(&out, stack.frames.size());
    for (const StackEntry& frame : stack.frames) {
      AppendVarint(&out, frame.frame);
      AppendVarint(&out, frame.code);
      AppendVarint(&out, frame.state);
      AppendVarint(&out, frame.generator);
      AppendVarint(&out, frame.pushed.v);
    }
    AppendVarint(&out, stack.cframes.size());
    for (const ThreadStack::CFrame& cframe : stack.cframes) {
      AppendVarint(&out, cframe.address);
      AppendVarint(&out, cframe.set);
    }
  }
  memcpy(out.data(), kMagic, sizeof kMagic);
  memcpy(out.data() + sizeof kMagic, &kFileVersion, 4);
  const uint64_t hash = XXH3_64bits(out.data() + kHeadBytes, out.size() - kHeadBytes);
  memcpy(out.data() + sizeof kMagic + 4, &hash, 8);
  return out;
}

absl::Status FrameHistory::Parse(std::string_view file, uint64_t recording_key) {
  uint32_t version = 0;
  uint64_t hash = 0;
  if (file.size() < kHeadBytes || memcmp(file.data(), kMagic, sizeof kMagic) != 0) {
    return absl::DataLossError("not a history of frames");
  }
  memcpy(&version, file.data() + sizeof kMagic, 4);
  memcpy(&hash, file.data() + sizeof kMagic + 4, 8);
  if (version != kFileVersion) return absl::FailedPreconditionError("another version");
  file.remove_prefix(kHeadBytes);
  if (XXH3_64bits(file.data(), file.size()) != hash) return absl::DataLossError("damaged");
  Reader in(file);
  if (in.Number() != recording_key) return absl::FailedPreconditionError("another recording");
  for (size_t n = in.Count(); n-- > 0 && in.ok();) {
    const auto minor = static_cast<int>(in.Number());
    const bool free_threaded = in.Number() != 0;
    const std::optional<Layout> layout = python::LayoutOf(minor, free_threaded);
    if (!layout) return absl::DataLossError("a version that is not known");
    layouts_.push_back(*layout);
    versions_.emplace_back(minor, free_threaded);
  }
  for (size_t n = in.Count(); n-- > 0 && in.ok();) {
    CodeTable::Entry entry;
    Code& code = entry.code;
    entry.runtime = static_cast<uint32_t>(in.Number());
    if (entry.runtime >= layouts_.size()) in.Fail();
    entry.is_cleanup = in.Number() != 0;
    code.address = in.Number();
    CodeTable::Key& key = entry.key;
    key.address = code.address;
    for (uint64_t* part : {&key.name, &key.filename, &key.linetable, &key.consts, &key.name_hash}) {
      *part = in.Number();
    }
    code.name = in.Text();
    code.qualname = in.Text();
    code.filename = in.Text();
    key.first_line = code.first_line = static_cast<int>(in.Signed());
    code.flags = static_cast<uint32_t>(in.Number());
    code.argcount = static_cast<int>(in.Signed());
    code.posonlyargcount = static_cast<int>(in.Signed());
    code.kwonlyargcount = static_cast<int>(in.Signed());
    code.instructions = in.Number();
    code.first_traceable = in.Signed();
    code.line_table = in.Text();
    for (size_t v = in.Count(); v-- > 0 && in.ok();) {
      Code::Variable variable;
      variable.name = in.Text();
      variable.kind = static_cast<uint8_t>(in.Number());
      code.variables.push_back(std::move(variable));
    }
    if (!codes_.Append(std::move(entry))) in.Fail();
  }
  const size_t codes = codes_.size();
  for (size_t n = in.Count(); n-- > 0 && in.ok();) {
    ChunkData chunk;
    chunk.begin = Time(in.Number());
    chunk.end = Time(in.Number());
    chunk.count = in.Number();
    uint32_t last = 0;
    for (size_t c = in.Count(); c-- > 0 && in.ok();) {
      chunk.codes.push_back(last += static_cast<uint32_t>(in.Number()));
      if (last >= codes) in.Fail();
    }
    for (size_t s = in.Count(); s-- > 0 && in.ok();) {
      Stack stack;
      stack.thread_state = in.Number();
      stack.thread = ThreadNo(static_cast<uint32_t>(in.Number()));
      for (size_t f = in.Count(); f-- > 0 && in.ok();) {
        ActiveFrame frame;
        frame.frame = in.Number();
        frame.pushed = Time(in.Number());
        frame.code = static_cast<uint32_t>(in.Number());
        if (frame.code >= codes) in.Fail();
        stack.frames.push_back(frame);
      }
      chunk.stacks.push_back(std::move(stack));
    }
    chunk.encoded = in.Text();
    chunks_.push_back(std::move(chunk));
  }
  done_ = chunks_.size();
  for (size_t n = in.Count(); n-- > 0 && in.ok();) {
    ThreadStack stack;
    stack.thread_state = in.Number();
    stack.runtime = static_cast<uint32_t>(in.Number());
    if (stack.runtime >= layouts_.size()) in.Fail();
    stack.thread = ThreadNo(static_cast<uint32_t>(in.Number()));
    for (size_t f = in.Count(); f-- > 0 && in.ok();) {
      StackEntry frame;
      frame.frame = in.Number();
      frame.code = static_cast<uint32_t>(in.Number());
      if (frame.code >= codes && frame.code != kNoCode) in.Fail();
      const uint64_t state = in.Number();
      if (state > StackEntry::kPending) in.Fail();
      frame.state = static_cast<StackEntry::State>(state);
      frame.generator = in.Number() != 0;
      frame.pushed = Time(in.Number());
      stack.frames.push_back(frame);
    }
    for (size_t c = in.Count(); c-- > 0 && in.ok();) {
      const uint64_t address = in.Number();
      stack.cframes.push_back({address, in.Number() != 0});
    }
    now_.push_back(std::move(stack));
  }
  return in.ok() && in.done() ? absl::OkStatus() : absl::DataLossError("damaged");
}

// ---- Asking it ----------------------------------------------------------------------------------

uint64_t FrameHistory::transitions() const {
  uint64_t n = 0;
  for (const ChunkData& chunk : chunks_) n += chunk.count;
  return n;
}

int FrameHistory::LineOf(uint32_t id, int64_t offset) const {
  if (id == kNoCode) return 0;
  return LineAt(layout_of(id), code(id), offset);
}

int FrameHistory::LineOf(const Transition& transition) const {
  if (transition.kind == TransitionKind::kCall) return code(transition.code).first_line;
  return LineOf(transition.code, transition.offset);
}

std::pair<size_t, size_t> FrameHistory::ChunksOf(TimeSpan span) const {
  const auto first = std::partition_point(chunks_.begin(), chunks_.end(),
                                          [&](const ChunkData& c) { return c.end < span.begin; });
  const auto last = std::partition_point(first, chunks_.end(),
                                         [&](const ChunkData& c) { return c.begin < span.end; });
  return {static_cast<size_t>(first - chunks_.begin()),
          static_cast<size_t>(last - chunks_.begin())};
}

bool FrameHistory::ChunkEnters(size_t chunk, const std::vector<uint32_t>& codes) const {
  const std::vector<uint32_t>& entered = chunks_[chunk].codes;
  return std::any_of(codes.begin(), codes.end(), [&](uint32_t code) {
    return std::binary_search(entered.begin(), entered.end(), code);
  });
}

absl::StatusOr<std::shared_ptr<const std::vector<Transition>>> FrameHistory::Chunk(
    size_t number) const {
  {
    std::lock_guard lock(mutex_);
    for (auto it = cache_.begin(); it != cache_.end(); ++it) {
      if (it->chunk != number) continue;
      cache_.splice(cache_.begin(), cache_, it);
      return cache_.front().transitions;
    }
  }
  const ChunkData& chunk = chunks_[number];
  const auto damaged = [] {
    return absl::DataLossError("the history of Python frames is damaged");
  };
  const uint64_t size = ZSTD_getFrameContentSize(chunk.encoded.data(), chunk.encoded.size());
  if (size > kMaxChunkBytes) return damaged();
  std::string data(size, '\0');
  const size_t got =
      ZSTD_decompress(data.data(), data.size(), chunk.encoded.data(), chunk.encoded.size());
  if (ZSTD_isError(got) || got != size) return damaged();

  auto transitions = std::make_shared<std::vector<Transition>>();
  std::vector<std::vector<ActiveFrame>> stacks;
  for (const Stack& stack : chunk.stacks) stacks.push_back(stack.frames);
  Reader in(data);
  Time time = chunk.begin;
  size_t thread_state = 0;
  ThreadNo thread;
  uint64_t frame = 0;
  while (in.ok() && !in.done()) {
    const uint64_t head = in.Number();
    if (head & kOther) {
      thread_state = in.Number();
      thread = ThreadNo(static_cast<uint32_t>(in.Number()));
    }
    Transition t;
    t.kind = static_cast<TransitionKind>(head & ~kOther);
    const bool is_kind = t.kind >= TransitionKind::kCall && t.kind <= TransitionKind::kSwitchIn;
    if (thread_state >= stacks.size() || !is_kind || head >= 2 * kOther) return damaged();
    std::vector<ActiveFrame>& stack = stacks[thread_state];
    time = Time(time.v + static_cast<uint64_t>(in.Signed()));
    frame += static_cast<uint64_t>(in.Signed());
    t.time = time;
    t.thread = thread;
    t.thread_state = chunk.stacks[thread_state].thread_state;
    t.frame = frame;
    t.offset = in.Signed();
    if (Enters(t.kind)) {
      t.code = static_cast<uint32_t>(in.Number());
      t.caller_offset = in.Signed();
      if (t.code >= codes_.size()) return damaged();
      t.pushed = t.time;
      t.depth = static_cast<uint32_t>(stack.size());
      stack.push_back({t.frame, t.pushed, t.code});
    } else {
      if (stack.empty() || stack.back().frame != frame) return damaged();
      t.pushed = stack.back().pushed;
      t.code = stack.back().code;
      stack.pop_back();
      t.depth = static_cast<uint32_t>(stack.size());
    }
    if (t.depth > 0) {
      t.caller_frame = stack[t.depth - 1].frame;
      t.caller_pushed = stack[t.depth - 1].pushed;
      t.caller_code = stack[t.depth - 1].code;
    }
    transitions->push_back(t);
  }
  if (!in.ok() || transitions->size() != chunk.count) return damaged();
  std::shared_ptr<const std::vector<Transition>> result = std::move(transitions);
  std::lock_guard lock(mutex_);
  cache_.push_front({number, result});
  if (cache_.size() > kDecodedChunks) cache_.pop_back();
  return result;
}

absl::StatusOr<std::optional<Transition>> FrameHistory::EndOf(const Transition& entered,
                                                              ScanControl* control) const {
  std::optional<Transition> from = entered;
  while (true) {
    ASSIGN_OR_RETURN(std::optional<Transition> end, ActivationEndOf(*from, control));
    if (!end || end->kind != TransitionKind::kSwitchOut) return end;
    ASSIGN_OR_RETURN(from, SwitchInOf(*end, control));
    if (!from) return from;
  }
}

absl::StatusOr<std::optional<Transition>> FrameHistory::SwitchInOf(const Transition& suspended,
                                                                   ScanControl* control) const {
  for (size_t chunk = ChunksOf({suspended.time, suspended.time + 1}).first; chunk < chunks_.size();
       ++chunk) {
    RETURN_IF_ERROR(Wait(chunk + 1, control));
    if (!ChunkEnters(chunk, {suspended.code})) continue;
    ASSIGN_OR_RETURN(std::shared_ptr<const std::vector<Transition>> transitions, Chunk(chunk));
    for (const Transition& t : *transitions) {
      if (t.time < suspended.time || !Enters(t.kind) || t.frame != suspended.frame) continue;
      // Another's, once its memory was given back.
      const bool is_same = t.kind == TransitionKind::kSwitchIn && t.code == suspended.code;
      return is_same ? std::optional<Transition>(t) : std::nullopt;
    }
  }
  return std::optional<Transition>();
}

absl::StatusOr<std::optional<Transition>> FrameHistory::ActivationEndOf(
    const Transition& entered, ScanControl* control) const {
  const auto holds = [&](const ChunkData& chunk) {
    return std::any_of(chunk.stacks.begin(), chunk.stacks.end(), [&](const Stack& stack) {
      return stack.thread_state == entered.thread_state && stack.frames.size() > entered.depth &&
             stack.frames[entered.depth].frame == entered.frame &&
             stack.frames[entered.depth].pushed == entered.pushed;
    });
  };
  // The chunk that it is entered in, or the last of those that begin with it on the stack.
  size_t chunk = ChunksOf({entered.time, entered.time + 1}).first;
  while (chunk + 1 < chunks_.size() && chunks_[chunk + 1].begin <= entered.time) {
    RETURN_IF_ERROR(Wait(chunk + 2, control));
    if (holds(chunks_[chunk + 1])) break;
    ++chunk;
  }
  // Most end soon, and what comes much later may not be there yet.
  size_t begin = std::min(chunk + 1, chunks_.size()), probe = begin;
  for (size_t step = 1; probe < chunks_.size(); step *= 2) {
    RETURN_IF_ERROR(Wait(probe + 1, control));
    if (!holds(chunks_[probe])) break;
    begin = probe + 1;
    probe = std::min(probe + step, chunks_.size());
  }
  RETURN_IF_ERROR(Wait(probe, control));
  const auto at = [this](size_t i) { return chunks_.begin() + static_cast<ptrdiff_t>(i); };
  const auto end =
      static_cast<size_t>(std::partition_point(at(begin), at(probe), holds) - chunks_.begin());
  if (end == 0) return std::optional<Transition>();
  ASSIGN_OR_RETURN(std::shared_ptr<const std::vector<Transition>> transitions, Chunk(end - 1));
  auto t = std::partition_point(transitions->begin(), transitions->end(),
                                [&](const Transition& x) { return x.time <= entered.time; });
  for (; t != transitions->end(); ++t) {
    if (!Enters(t->kind) && t->frame == entered.frame && t->pushed == entered.pushed &&
        t->thread_state == entered.thread_state) {
      return std::optional<Transition>(*t);
    }
  }
  return std::optional<Transition>();
}

std::optional<size_t> FrameHistory::ChunkAt(Time t) const {
  const auto after = std::partition_point(chunks_.begin(), chunks_.end(),
                                          [&](const ChunkData& c) { return c.begin <= t; });
  if (after == chunks_.begin()) return std::nullopt;
  return static_cast<size_t>(after - chunks_.begin()) - 1;
}

absl::StatusOr<std::vector<FrameHistory::ActiveFrame>> FrameHistory::StackAt(
    ThreadNo thread, Time t, uint64_t* thread_state) const {
  const std::optional<size_t> number = ChunkAt(t);
  if (!number) return std::vector<ActiveFrame>();
  ASSIGN_OR_RETURN(std::shared_ptr<const std::vector<Transition>> transitions, Chunk(*number));
  std::vector<Stack> stacks = chunks_[*number].stacks;
  for (const Transition& transition : *transitions) {
    if (transition.time >= t) break;
    if (transition.thread != thread) continue;
    // Of two with one address the later one.
    for (size_t i = stacks.size(); i-- > 0;) {
      if (stacks[i].thread_state != transition.thread_state) continue;
      stacks[i].thread = thread;
      std::vector<ActiveFrame>& frames = stacks[i].frames;
      frames.resize(std::min<size_t>(frames.size(), transition.depth));
      if (Enters(transition.kind)) {
        frames.push_back({transition.frame, transition.pushed, transition.code});
      }
      break;
    }
  }
  // Of several interpreters' the one that was entered last.
  Stack* best = nullptr;
  for (Stack& stack : stacks) {
    if (stack.thread != thread) continue;
    if (best == nullptr || best->frames.empty() ||
        (!stack.frames.empty() && stack.frames.back().pushed > best->frames.back().pushed)) {
      best = &stack;
    }
  }
  if (best == nullptr) return std::vector<ActiveFrame>();
  if (thread_state) *thread_state = best->thread_state;
  return std::move(best->frames);
}

absl::StatusOr<std::optional<FrameHistory::ActiveFrame>> FrameHistory::InnermostAt(ThreadNo thread,
                                                                                   Time t) const {
  const std::optional<size_t> number = ChunkAt(t);
  if (!number) return std::optional<ActiveFrame>();
  ASSIGN_OR_RETURN(std::shared_ptr<const std::vector<Transition>> transitions, Chunk(*number));
  // The thread's last one before t tells, unless it left the last frame of an interpreter, under
  // which there may be another's.
  auto before = std::partition_point(transitions->begin(), transitions->end(),
                                     [&](const Transition& x) { return x.time < t; });
  while (before != transitions->begin() && std::prev(before)->thread != thread) --before;
  if (before != transitions->begin()) {
    const Transition& last = *std::prev(before);
    if (Enters(last.kind)) return std::optional<ActiveFrame>({last.frame, last.pushed, last.code});
    if (last.depth > 0) {
      return std::optional<ActiveFrame>({last.caller_frame, last.caller_pushed, last.caller_code});
    }
  }
  ASSIGN_OR_RETURN(std::vector<ActiveFrame> stack, StackAt(thread, t));
  if (stack.empty()) return std::optional<ActiveFrame>();
  return std::optional<ActiveFrame>(stack.back());
}

absl::StatusOr<std::vector<FrameHistory::Run>> FrameHistory::RunsOf(
    const std::vector<uint32_t>& codes, TimeSpan span) const {
  const auto wanted = [&](uint32_t code) {
    return std::binary_search(codes.begin(), codes.end(), code);
  };
  std::vector<Run> runs;
  std::vector<std::pair<uint64_t, Run>> open;  // by thread state; span.begin is its begin
  const auto close = [&](uint64_t thread_state, Time t) {
    for (size_t i = open.size(); i-- > 0;) {
      if (open[i].first != thread_state) continue;
      Run run = open[i].second;
      open.erase(open.begin() + static_cast<ptrdiff_t>(i));
      run.span = {std::max(run.span.begin, span.begin), std::min(t, span.end)};
      if (!run.span.empty()) runs.push_back(run);
    }
  };
  const auto [first, last] = ChunksOf(span);
  Time end = span.begin;
  for (size_t number = first; number < last; ++number) {
    const ChunkData& chunk = chunks_[number];
    end = chunk.end;
    if (number == first) {
      for (const Stack& stack : chunk.stacks) {
        if (stack.frames.empty() || !wanted(stack.frames.back().code)) continue;
        open.emplace_back(stack.thread_state,
                          Run{{chunk.begin, kTimeMax}, stack.thread, stack.frames.back()});
      }
    }
    // Nothing of interest is on a stack or comes onto one.
    const bool on_stack =
        std::any_of(chunk.stacks.begin(), chunk.stacks.end(), [&](const Stack& stack) {
          return std::any_of(stack.frames.begin(), stack.frames.end(),
                             [&](const ActiveFrame& frame) { return wanted(frame.code); });
        });
    if (!on_stack && !ChunkEnters(number, codes)) continue;
    ASSIGN_OR_RETURN(std::shared_ptr<const std::vector<Transition>> transitions, Chunk(number));
    std::vector<Stack> stacks = chunk.stacks;
    for (const Transition& t : *transitions) {
      // The write that enters a frame is still made by the frame below.
      close(t.thread_state, t.time + 1);
      auto stack = std::find_if(stacks.rbegin(), stacks.rend(),
                                [&](const Stack& s) { return s.thread_state == t.thread_state; });
      if (stack == stacks.rend()) continue;
      stack->frames.resize(std::min<size_t>(stack->frames.size(), t.depth));
      if (Enters(t.kind)) stack->frames.push_back({t.frame, t.pushed, t.code});
      if (!stack->frames.empty() && wanted(stack->frames.back().code)) {
        open.emplace_back(t.thread_state,
                          Run{{t.time + 1, kTimeMax}, t.thread, stack->frames.back()});
      }
    }
  }
  while (!open.empty()) close(open.back().first, std::max(end, span.begin) + 1);
  std::sort(runs.begin(), runs.end(),
            [](const Run& a, const Run& b) { return a.span.begin < b.span.begin; });
  return runs;
}

}  // namespace ttq::python

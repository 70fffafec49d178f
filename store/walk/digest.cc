// SPDX-License-Identifier: MIT

#include "store/walk/digest.h"

#include <emmintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <type_traits>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "store/format/compressor.h"
#include "store/walk/native.h"
#include "store/walk/packed_log.h"

namespace ttq {

namespace {

// Bit i of the result is the top bit of byte i of 64.
uint64_t TopBits(const uint8_t* bytes) {
  uint64_t bits = 0;
  for (int i = 0; i < 4; ++i) {
    auto* at = reinterpret_cast<const __m128i*>(bytes) + i;
    bits |= uint64_t{static_cast<uint32_t>(_mm_movemask_epi8(_mm_loadu_si128(at)))} << (16 * i);
  }
  return bits;
}

}  // namespace

void PageChanges::Add(PageDelta* delta) {
  static_assert(kPageBytes == 64 * kPieceBytes && kWordsPerPage == 8 * kPieceBytes);
  uint64_t head[kHeadWords] = {delta->page};
  for (size_t i = 0; i < 8; ++i) {
    uint8_t* marks = delta->read_words + kPieceBytes * i;
    head[1 + i] = TopBits(marks);
    if (head[1 + i] != 0) memset(marks, 0, kPieceBytes);
  }
  uint64_t written[64];
  for (size_t i = 0; i < 64; ++i) {
    written[i] = TopBits(delta->written_bytes + kPieceBytes * i);
    head[9] |= uint64_t{written[i] != 0} << i;
  }
  size_t at = words_.size();
  words_.resize(at + kHeadWords + kPieceWords * static_cast<size_t>(std::popcount(head[9])));
  memcpy(&words_[at], head, sizeof(head));
  at += kHeadWords;
  for (uint64_t left = head[9]; left != 0; left &= left - 1, at += kPieceWords) {
    const auto piece = static_cast<size_t>(std::countr_zero(left));
    uint8_t* marks = delta->written_bytes + kPieceBytes * piece;
    const uint8_t* bytes = delta->bytes + kPieceBytes * piece;
    words_[at] = written[piece];
    for (size_t w = 0; w < kPieceBytes / 8; ++w) {
      uint64_t value, mask;
      memcpy(&value, bytes + 8 * w, 8);
      memcpy(&mask, marks + 8 * w, 8);
      words_[at + 1 + w] = value & mask;
    }
    memset(marks, 0, kPieceBytes);
  }
}

namespace {

// The deltas of one block at a time.
class Deltas {
 public:
  // Each takes more than two pages, but a page that is touched again after it was sealed costs as
  // much as a new one, and there are programs whose accesses are all over their memory.
  static constexpr size_t kMaxCount = 8192;

  Deltas() {
    // Is zero, and takes memory only where it is used.
    void* at = mmap(nullptr, kMaxCount * sizeof(PageDelta), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED) list_ = static_cast<PageDelta*>(at);
  }
  ~Deltas() {
    if (ok()) munmap(list_, kMaxCount * sizeof(PageDelta));
  }
  Deltas(const Deltas&) = delete;
  Deltas& operator=(const Deltas&) = delete;

  // Whether there was memory; nothing else may be called otherwise.
  bool ok() const { return list_ != nullptr; }
  bool full() const { return used_ == kMaxCount; }
  // REQUIRES: not full.
  PageDelta* Take(uint64_t page) {
    PageDelta* delta = &list_[used_++];
    delta->page = page;
    return delta;
  }
  PageChanges Seal() {
    PageChanges out;
    for (size_t i = 0; i < used_; ++i) out.Add(&list_[i]);
    most_ = std::max(most_, used_);
    used_ = 0;
    return out;
  }
  // After a block: gives back what it did not need of the memory that those before it used.
  void EndBlock() {
    constexpr size_t kSlack = 1024;
    if (in_memory_ > most_ + kSlack) {
      auto offset = [](size_t n) { return (n * sizeof(PageDelta) + kPageBytes - 1) & -kPageBytes; };
      madvise(reinterpret_cast<char*>(list_) + offset(most_), offset(in_memory_) - offset(most_),
              MADV_DONTNEED);
      in_memory_ = 0;
    }
    in_memory_ = std::max(in_memory_, most_);
    most_ = 0;
  }

 private:
  PageDelta* list_ = nullptr;
  size_t used_ = 0;
  size_t most_ = 0;       // used at once in this block
  size_t in_memory_ = 0;  // used since memory was given back
};

}  // namespace

class DigestScratch {
 public:
  uint64_t recipes = 0;     // whose programs the rest is about, RecipeTable::identity
  bool knows_code = false;  // context.code is valid
  NativeContext context;
  // By Program::index: interpreted executions, and the programs that were executed in whatever way.
  std::vector<uint32_t> counts;
  struct Known {
    const Program* program = nullptr;
    uint32_t id = 0;
  };
  std::vector<Known> programs;
  // The log, packed; and each program's ProgramState.
  std::unique_ptr<uint8_t[]> tokens, headers, units;
  size_t room = 0;
  std::vector<uint8_t> states;
  ProgramState& StateOf(const Program& program) {
    return *reinterpret_cast<ProgramState*>(states.data() + program.state_at);
  }
  Deltas deltas;
};

ScratchPool::ScratchPool() = default;
ScratchPool::~ScratchPool() = default;

std::unique_ptr<DigestScratch> ScratchPool::Take(const RecipeTable& recipes) {
  std::lock_guard lock(mutex_);
  for (size_t i = free_.size(); i-- > 0;) {
    if (free_[i]->recipes != recipes.identity()) continue;
    std::swap(free_[i], free_.back());
    break;
  }
  if (free_.empty()) return std::make_unique<DigestScratch>();
  auto scratch = std::move(free_.back());
  free_.pop_back();
  return scratch;
}

void ScratchPool::Give(std::unique_ptr<DigestScratch> scratch) {
  constexpr size_t kKeep = 16;
  std::lock_guard lock(mutex_);
  if (free_.size() < kKeep) free_.push_back(std::move(scratch));
}

namespace {

// Which threads ran in a block, what each executed last, and the control records.
class ThreadNotes {
 public:
  ThreadNotes(const RecipeTable& recipes, BlockDigest* out) : recipes_(recipes), out_(*out) {}

  // The header of the last record executed, 0: none; of an open one also the instructions that it
  // retired.
  void Executed(uint32_t word) { last_word_ = word; }
  void Executed(uint32_t word, uint32_t instructions) {
    last_word_ = word;
    last_instructions_ = instructions;
  }

  // Whether a control record is about where threads are, and no more; they are noted.
  bool TakeThreads(uint32_t kind, std::string_view payload, Time now) {
    if (kind == kTtqRegisters) {
      if (!saw_thread_) {  // what every block starts with
        auto r = LoadPod<TtqRegisters>(payload);
        ThreadState s;
        memcpy(s.reg, r.reg, sizeof(s.reg));
        s.pc = r.pc;
        out_.first_states.emplace_back(r.tid, s);
      }
      return true;
    }
    if (kind == kTtqVectors) return true;
    if (kind != kTtqThread) return false;
    Note(now);
    last_word_ = 0;
    slice_start_ = now.v;
    current_ = LoadPod<uint32_t>(payload);
    if (out_.first_tid == 0) out_.first_tid = current_;
    saw_thread_ = true;
    return true;
  }

  // Adds any other control record, behind what was done to pages before it.
  void Add(uint32_t kind, std::string_view payload, Time now, PageChanges pages) {
    Note(now);
    BlockDigest::Step step;
    step.pages = std::move(pages);
    out_.changes_mappings = out_.changes_mappings || kind == kTtqMap || kind == kTtqUnmap ||
                            kind == kTtqRemap || kind == kTtqProtect;
    step.has_control = true;
    step.control = {
        kind, now.v, current_, LastPcOf(ControlThread(kind, payload)), 0, std::string(payload)};
    if (kind == kTtqThreadExit) {
      // The number may be another thread's soon.
      uint32_t tid = LoadPod<TtqThread>(payload).tid;
      step.control.instructions = instructions_of_[tid];
      instructions_of_.erase(tid);
      last_pc_.erase(tid);
    }
    out_.steps.push_back(std::move(step));
  }

  void Finish(Time now) {
    Note(now);
    out_.last_pc.assign(last_pc_.begin(), last_pc_.end());
    out_.instructions_of.assign(instructions_of_.begin(), instructions_of_.end());
    out_.end_tid = current_;
  }

 private:
  uint64_t LastPcOf(uint32_t tid) const {
    auto it = last_pc_.find(tid == 0 ? current_ : tid);
    return it == last_pc_.end() ? 0 : it->second;
  }

  // Remembers what the current thread executed last.
  void Note(Time now) {
    if (current_ == 0) return;
    instructions_of_[current_] += now.v - slice_start_;
    slice_start_ = now.v;
    if (last_word_ == 0) return;
    uint32_t id = last_word_ >> kTtqExitBits, exit = last_word_ & ((1 << kTtqExitBits) - 1);
    const Recipe* recipe = recipes_.Find(SuperblockId(id));
    // The log is still in the program's reach: it may have changed under us.
    if (recipe == nullptr || (exit != kTtqExitOpen && exit >= recipe->exit_count())) return;
    uint32_t n = exit == kTtqExitOpen ? last_instructions_ : recipe->InstructionsAtExit(exit);
    n = std::min<uint32_t>(n, static_cast<uint32_t>(recipe->instructions().size()));
    last_pc_[current_] = recipe->instructions()[n > 0 ? n - 1 : 0].address.v;
  }

  const RecipeTable& recipes_;
  BlockDigest& out_;
  absl::flat_hash_map<uint32_t, uint64_t> last_pc_, instructions_of_;
  uint32_t last_word_ = 0, last_instructions_ = 0;
  uint32_t current_ = 0;
  uint64_t slice_start_ = 0;
  bool saw_thread_ = false;
};

class DigestSink {
 public:
  DigestSink(const RecipeTable& recipes, std::string_view log, Walker* walker,
             DigestScratch* scratch, bool native, BlockDigest* out)
      : recipes_(recipes),
        threads_(recipes, out),
        log_end_(reinterpret_cast<const uint8_t*>(log.data()) + log.size()),
        walker_(*walker),
        scratch_(*scratch),
        context_(scratch->context),
        out_(*out) {
    native_ = native ? recipes.native(NativeUse::kDigest).get() : nullptr;
    if (scratch_.recipes != recipes.identity()) {
      scratch_.recipes = recipes.identity();
      scratch_.counts.clear();
      scratch_.programs.clear();
      scratch_.states.clear();
      scratch_.knows_code = false;
    }
    if (native_ != nullptr && !scratch_.knows_code) {
      native_->ClearCode(&context_);
      scratch_.knows_code = true;
    }
    for (size_t i = 0; i < scratch_.programs.size(); ++i) {
      const Program* program = scratch_.programs[i].program;
      if (program == nullptr) continue;
      if (scratch_.counts[i] + scratch_.StateOf(*program).executions != 0) Forget(*program);
    }
    if (scratch_.room < PackedRoom(log.size())) {
      scratch_.room = PackedRoom(log.size());
      // Not value-initialised: most of it is never touched.
      scratch_.tokens.reset(new uint8_t[scratch_.room]);
      scratch_.headers.reset(new uint8_t[scratch_.room]);
      scratch_.units.reset(new uint8_t[scratch_.room]);
    }
    context_.packed = {scratch_.tokens.get(), scratch_.headers.get(), scratch_.units.get()};
    context_.states = scratch_.states.data();
    if (!log.empty()) PackFirst(WordAt(reinterpret_cast<const uint8_t*>(log.data())), packed());
    std::fill(scratch_.counts.begin(), scratch_.counts.end(), 0);
    context_.ClearPages();
    context_.values = walker->registers();
    context_.skipped_reads = context_.skipped_writes = 0;
    context_.sink = this;
    context_.load = [](void* self, uint64_t address, uint64_t size) {
      static_cast<DigestSink*>(self)->Read(address, size);
    };
    context_.store = [](void* self, uint64_t address, const uint8_t* bytes, uint64_t size) {
      static_cast<DigestSink*>(self)->Write(address, bytes, size);
    };
  }

  const uint8_t* Advance(const uint8_t* at, const uint8_t* end) {
    if (native_ == nullptr || end - at < NativeCode::kReach) return at;
    context_.limit = end - NativeCode::kReach;
    context_.record = at;
    context_.last = nullptr;
    context_.time = walker_.time().v;
    while (context_.record <= context_.limit && KnowsCode(context_.record)) {
      // What is expected after the last record is this one.
      if (context_.last != nullptr) {
        const Program* last = walker_.ProgramOf(NativeContext::WordOf(context_.last));
        scratch_.StateOf(*last).next_code = context_.CodeOf(context_.record);
      }
      native_->Run(&context_);
    }
    walker_.set_time(Time(context_.time));
    if (context_.last != nullptr) threads_.Executed(NativeContext::WordOf(context_.last));
    return context_.record;
  }

  void Load(const Op& op, uint64_t address) {
    ++out_.reads;
    Read(address, op.size);
  }

  void Store(const Op& op, uint64_t address, const uint8_t* bytes) {
    ++out_.writes;
    Write(address, bytes, op.size);
  }

  bool Superblock(const Program& program, uint32_t id, const uint8_t* record) {
    threads_.Executed(NativeContext::WordOf(record), program.instructions);
    const uint32_t next = WordAt(record + program.record_bytes);
    if (program.index == Program::kNoIndex) [[unlikely]] {  // a fault cut it off
      out_.executions.emplace_back(id, 1);
      std::vector<uint8_t> nothing(ExpectedBytes(program.record_bytes));
      PackRecord(record, program.record_bytes, next, nothing.data(), packed());
      return true;
    }
    Know(program, id);
    ProgramState& state = scratch_.StateOf(program);
    PackRecord(record, program.record_bytes, next, state.expected, packed());
    if (native_ != nullptr) state.next_code = native_->exit();
    scratch_.counts[program.index]++;
    if (native_ != nullptr) native_->Interpreted(program);
    return true;
  }

  bool Control(uint32_t kind, std::string_view payload) {
    PackControl(payload, WordAt(reinterpret_cast<const uint8_t*>(payload.data()) + payload.size()),
                packed());
    if (threads_.TakeThreads(kind, payload, walker_.time())) return true;
    if (kind == kTtqKernelWrite) {
      auto w = LoadPod<TtqKernelWrite>(payload);
      std::string_view bytes = payload.substr(sizeof(w));
      if (w.actor != kTtqInitial) {
        ++out_.writes;
        for (size_t done = 0; done < bytes.size();) {
          size_t n = std::min<size_t>(bytes.size() - done,
                                      kPageBytes - ((w.address + done) & (kPageBytes - 1)));
          WriteIn(w.address + done, reinterpret_cast<const uint8_t*>(bytes.data()) + done, n);
          done += n;
        }
        return true;
      }
    }
    bool memory = kind == kTtqKernelWrite || kind == kTtqMap || kind == kTtqUnmap ||
                  kind == kTtqRemap || kind == kTtqFork || kind == kTtqThreadExit;
    threads_.Add(kind, payload, walker_.time(), memory ? TakePages() : PageChanges());
    return true;
  }

  // Belongs to the scratch.
  PackedLog PackedSoFar() const {
    auto view = [](const std::unique_ptr<uint8_t[]>& begin, const uint8_t* end) {
      return std::string_view(reinterpret_cast<const char*>(begin.get()),
                              static_cast<size_t>(end - begin.get()));
    };
    const PackedCursor& end = context_.packed;
    return {view(scratch_.tokens, end.tokens), view(scratch_.headers, end.headers),
            view(scratch_.units, end.units)};
  }

  void Finish() {
    threads_.Finish(walker_.time());
    BlockDigest::Step last;
    last.pages = TakePages();
    if (!last.pages.empty()) out_.steps.push_back(std::move(last));
    CountExecutions();
    for (const auto& [tid, state] : walker_.other_threads()) {
      out_.end_states.emplace_back(tid, walker_.StateOf(tid));
    }
  }

 private:
  PackedCursor* packed() { return &context_.packed; }

  // The header of the record at `at`; 0 behind the last.
  uint32_t WordAt(const uint8_t* at) const {
    uint32_t word = 0;
    if (log_end_ - at >= 4) memcpy(&word, at, 4);
    return word;
  }

  // Whether `context_` has the code of a record, now that it was looked for.
  bool KnowsCode(const uint8_t* record) {
    return context_.KnowsCode(record, NativeUse::kDigest, &walker_,
                              [this](const Program& program, uint32_t id) {
                                Know(program, id);
                                return true;
                              });
  }

  // Makes room for what is kept of it.
  void Know(const Program& program, uint32_t id) {
    if (program.index >= scratch_.programs.size()) [[unlikely]] {
      size_t n = std::max<size_t>(program.index + 1, recipes_.program_count()) + 1024;
      scratch_.programs.resize(n);
      scratch_.counts.resize(n);
    }
    if (program.state_at + ProgramState::BytesOf(program) > scratch_.states.size()) [[unlikely]] {
      scratch_.states.resize(recipes_.state_bytes() + (64 << 10));
      context_.states = scratch_.states.data();
    }
    DigestScratch::Known& known = scratch_.programs[program.index];
    if (known.program == nullptr) [[unlikely]] {
      known = {&program, id};
      Forget(program);
    }
  }

  // Nothing is expected of it.
  void Forget(const Program& program) {
    ProgramState& state = scratch_.StateOf(program);
    memset(static_cast<void*>(&state), 0, ProgramState::BytesOf(program));
    if (native_ != nullptr) state.next_code = native_->exit();
  }

  void CountExecutions() {
    for (size_t i = 0; i < scratch_.programs.size(); ++i) {
      const auto& [program, id] = scratch_.programs[i];
      if (program == nullptr) continue;
      const uint32_t native = scratch_.StateOf(*program).executions;
      const uint32_t times = scratch_.counts[i] + native;
      if (times == 0) continue;
      out_.executions.emplace_back(id, times);
      out_.reads += uint64_t{native} * program->loads;
      out_.writes += uint64_t{native} * program->stores;
    }
    out_.reads -= context_.skipped_reads;
    out_.writes -= context_.skipped_writes;
    // A superblock has a program for each of its exits.
    auto& e = out_.executions;
    std::sort(e.begin(), e.end());
    size_t n = 0;
    for (size_t i = 0; i < e.size(); ++i) {
      if (n > 0 && e[n - 1].first == e[i].first) {
        e[n - 1].second += e[i].second;
      } else {
        e[n++] = e[i];
      }
    }
    e.resize(n);
  }

  PageDelta* Page(uint64_t page) {
    NativeContext::Page& c = context_.PageSlot(page << 12);
    if (c.address == page << 12) [[likely]]
      return static_cast<PageDelta*>(c.content);
    auto it = pages_.find(page);
    if (it == pages_.end()) {
      if (scratch_.deltas.full()) [[unlikely]]
        out_.steps.emplace_back().pages = TakePages();
      it = pages_.emplace(page, scratch_.deltas.Take(page)).first;
    }
    c = {page << 12, it->second};
    return it->second;
  }

  void Read(uint64_t address, uint64_t size) {
    uint64_t offset = address & (kPageBytes - 1);
    if (offset + size > kPageBytes) [[unlikely]] {
      LoadAcross(address, size);
      return;
    }
    MarkRead(Page(address >> 12), offset, size);
  }

  static void MarkRead(PageDelta* d, uint64_t offset, uint64_t size) {
    uint64_t first = offset >> 3, last = (offset + size - 1) >> 3;
    d->read_words[first] = d->read_words[last] = 0xff;
    for (uint64_t w = first + 1; w < last; ++w) d->read_words[w] = 0xff;
  }

  void LoadAcross(uint64_t address, uint64_t size) {
    uint64_t head = kPageBytes - (address & (kPageBytes - 1));
    MarkRead(Page(address >> 12), address & (kPageBytes - 1), head);
    MarkRead(Page((address + head) >> 12), 0, size - head);
  }

  void Write(uint64_t address, const uint8_t* bytes, uint64_t size) {
    uint64_t offset = address & (kPageBytes - 1);
    if (offset + size > kPageBytes) [[unlikely]] {
      uint64_t head = kPageBytes - offset;
      WriteIn(address, bytes, head);
      WriteIn(address + head, bytes + head, size - head);
      return;
    }
    WriteIn(address, bytes, size);
  }

  // REQUIRES: within one page.
  void WriteIn(uint64_t address, const uint8_t* bytes, uint64_t size) {
    PageDelta* d = Page(address >> 12);
    uint64_t offset = address & (kPageBytes - 1);
    auto copy = [&](auto constant) {
      memcpy(d->bytes + offset, bytes, constant);
      memset(d->written_bytes + offset, 0xff, constant);
    };
    switch (size) {
      case 8:
        return copy(std::integral_constant<size_t, 8>());
      case 4:
        return copy(std::integral_constant<size_t, 4>());
      case 1:
        return copy(std::integral_constant<size_t, 1>());
      case 16:
        return copy(std::integral_constant<size_t, 16>());
      default:
        return copy(size);
    }
  }

  PageChanges TakePages() {
    pages_.clear();
    context_.ClearPages();
    return scratch_.deltas.Seal();
  }

  const RecipeTable& recipes_;
  ThreadNotes threads_;
  const uint8_t* log_end_;
  Walker& walker_;
  DigestScratch& scratch_;
  NativeContext& context_;
  NativeCode* native_;
  BlockDigest& out_;
  absl::flat_hash_map<uint64_t, PageDelta*> pages_;
};

// Tokens and headers are the same again and again. Units are what could not be foreseen: addresses,
// which pack well, or the program's data, which may not pack at all. A sample tells whether a
// quarter of them would be saved, or half where there are fewer than 0.65 bytes of them for an
// instruction: to compress them takes longer than to digest the block. See docs/performance.md.
constexpr int kTokenLevel = -1, kUnitLevel = -3;
constexpr size_t kSampleBytes = 32 << 10;

absl::Status PutLog(const RecipeTable& recipes, std::string_view log, const PackedLog& packed,
                    bool compare, BlockDigest* out) {
  if (compare) {
    auto again = UnpackLog(recipes, packed, log.size());
    if (!again.ok() || std::string_view(*again) != log) {
      return absl::InternalError("recorder bug: a log is not the same when it was packed");
    }
  }
  out->log_hash = PackedLogHash(packed);
  const Compressor::Ptr compressor = Compressor::Take();
  if (compressor == nullptr) return absl::UnavailableError("no memory to compress with");
  const auto add = [out](std::string_view bytes, std::string_view stored) {
    out->log_parts.push_back(
        {static_cast<uint32_t>(bytes.size()), static_cast<uint32_t>(stored.size())});
    AppendInPieces(stored, &out->log);
  };
  add(packed.tokens, compressor->Compress(packed.tokens, kTokenLevel));
  add(packed.headers, compressor->Compress(packed.headers, kTokenLevel));
  const std::string_view units = packed.units;
  bool pays = true;
  if (units.size() > 4 * kSampleBytes) {
    std::string_view sample = units.substr(units.size() / 2, kSampleBytes);
    const bool few = units.size() < out->instructions / 20 * 13;
    pays = compressor->Compress(sample, kUnitLevel).size() < kSampleBytes / 4 * (few ? 2 : 3);
  }
  add(units, pays ? compressor->Compress(units, kUnitLevel) : units);
  return absl::OkStatus();
}

constexpr size_t kControlHead = 8;  // bytes: kind, and of the payload how many

}  // namespace

bool IsCounted(std::string_view log) {
  return log.size() >= kControlHead && LoadPod<uint32_t>(log) == kTtqCounted;
}

absl::StatusOr<BlockDigest> DigestBlock(const RecipeTable& recipes, std::string_view log,
                                        ScratchPool* pool, Packing packing, bool native) {
  if (IsCounted(log)) return LogDamage(0, "its instructions are only counted");
  BlockDigest out;
  out.log_bytes = static_cast<uint32_t>(log.size());
  Walker walker(recipes);
  std::unique_ptr<DigestScratch> scratch = pool->Take(recipes);
  if (!scratch->deltas.ok()) return absl::UnavailableError("no memory to digest with");
  {
    DigestSink sink(recipes, log, &walker, scratch.get(), native, &out);
    // On an error the scratch goes: what it has noted is of no use.
    RETURN_IF_ERROR(walker.Walk(log, sink));
    sink.Finish();
    out.instructions = walker.time().v;
    if (packing != Packing::kNone) {
      RETURN_IF_ERROR(PutLog(recipes, log, sink.PackedSoFar(), packing == Packing::kCompare, &out));
    }
  }
  scratch->deltas.EndBlock();
  pool->Give(std::move(scratch));
  return out;
}

absl::StatusOr<BlockDigest> SkimBlock(const RecipeTable& recipes, std::string_view log,
                                      ScratchPool* pool) {
  BlockDigest out;
  out.log_bytes = static_cast<uint32_t>(log.size());
  Walker programs(recipes);  // for those alone
  ThreadNotes threads(recipes, &out);
  Time now{0};
  size_t at = 0;
  const auto word_at = [&](size_t offset) {
    uint32_t word;
    memcpy(&word, log.data() + offset, sizeof(word));
    return word;
  };
  const bool is_counted = IsCounted(log);
  if (is_counted) at += kControlHead;
  while (log.size() - at >= sizeof(uint32_t)) {
    const uint32_t word = word_at(at);
    if (word >> kTtqExitBits != 0 && is_counted) {
      if (log.size() - at < 2 * sizeof(word)) return LogDamage(at, "a number is cut off");
      const uint32_t instructions = word_at(at + sizeof(word));
      at += 2 * sizeof(word);
      now = now + instructions;
      threads.Executed(word, instructions);
      continue;
    }
    if (word >> kTtqExitBits != 0) {
      if ((word & ((1 << kTtqExitBits) - 1)) == kTtqExitOpen) {
        // How far it came is told by its registers.
        ASSIGN_OR_RETURN(out, DigestBlock(recipes, log, pool, Packing::kNone));
        for (BlockDigest::Step& step : out.steps) step.pages = {};
        return out;
      }
      const Program* program = programs.ProgramOf(word);
      if (program == nullptr) return LogDamage(at, "an unknown superblock or exit");
      if (program->reach > log.size() - at) return LogDamage(at, "the last record is cut off");
      at += program->record_bytes;
      now = now + program->instructions;
      threads.Executed(word);
      continue;
    }
    if (log.size() - at < kControlHead) return LogDamage(at, "a control record is cut off");
    const uint32_t bytes = word_at(at + sizeof(word));
    if (bytes > log.size() - at - kControlHead) return LogDamage(at, "a control record is cut off");
    const std::string_view payload = log.substr(at + kControlHead, bytes);
    if (bytes < ControlHeadBytes(word)) return LogDamage(at, "a control record is cut off");
    if (ControlThread(word, payload) > kTtqMaxThreads) {
      return LogDamage(at, "a thread number that is too large");
    }
    at += kControlHead + bytes;
    if (threads.TakeThreads(word, payload, now)) continue;
    // What memory holds is of no interest.
    if (word != kTtqKernelWrite) threads.Add(word, payload, now, {});
  }
  if (at != log.size()) return LogDamage(at, "a record is cut off");
  threads.Finish(now);
  out.instructions = now.v;
  return out;
}

}  // namespace ttq

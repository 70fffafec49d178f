// SPDX-License-Identifier: MIT

#include "store/digest.h"

#include <emmintrin.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "absl/container/flat_hash_map.h"

namespace ttq {

namespace {

// Bit i of the result is the top bit of byte i of 64; clears those.
uint64_t TakeBits(uint8_t* bytes) {
  uint64_t bits = 0;
  for (int i = 0; i < 4; ++i) {
    __m128i* at = reinterpret_cast<__m128i*>(bytes) + i;
    bits |= uint64_t{static_cast<uint32_t>(_mm_movemask_epi8(_mm_loadu_si128(at)))} << (16 * i);
  }
  if (bits != 0) memset(bytes, 0, 64);
  return bits;
}

}  // namespace

void PageDelta::Seal() {
  uint64_t any = 0;
  for (size_t i = 0; i < std::size(written); ++i) {
    written[i] = TakeBits(written_bytes + 64 * i);
    any |= written[i];
  }
  for (size_t i = 0; i < std::size(read); ++i) read[i] = TakeBits(read_words + 64 * i);
  any_written = any != 0;
}

std::unique_ptr<PageDelta> DeltaPool::Take(uint64_t page) {
  std::unique_ptr<PageDelta> delta;
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      delta = std::move(free_.back());
      free_.pop_back();
    }
  }
  // Not value-initialised: `bytes` is only read where `written` says so. Given back, it is sealed.
  if (!delta) delta.reset(new PageDelta);
  delta->page = page;
  return delta;
}

void DeltaPool::Give(std::vector<std::unique_ptr<PageDelta>> deltas) {
  constexpr size_t kKeep = 4096;
  std::lock_guard lock(mutex_);
  for (auto& d : deltas) {
    if (free_.size() < kKeep) free_.push_back(std::move(d));
  }
}

namespace {

class DigestSink {
 public:
  DigestSink(const RecipeTable& recipes, Walker* walker, DeltaPool* pool, BlockDigest* out)
      : recipes_(recipes), walker_(*walker), pool_(*pool), out_(*out) {
    for (auto& c : cache_) c.page = kNoPage;
  }

  void Load(const Op& op, uint64_t address) {
    ++out_.reads;
    uint64_t offset = address & (kPageBytes - 1);
    if (offset + op.size > kPageBytes) [[unlikely]] {
      LoadAcross(address, op.size);
      return;
    }
    MarkRead(Page(address >> 12), offset, op.size);
  }

  void Store(const Op& op, uint64_t address, const uint8_t* bytes) {
    ++out_.writes;
    Write(address, bytes, op.size);
  }

  bool Superblock(const Program& program, uint32_t id, const uint8_t*) {
    last_id_ = id;
    last_instructions_ = program.instructions;
    if (program.index >= counts_.size()) [[unlikely]] {
      if (program.index == Program::kNoIndex) {  // a fault cut it off
        cut_off_.push_back(id);
        return true;
      }
      counts_.resize(std::max<size_t>(program.index + 1, recipes_.program_count()) + 1024);
    }
    counts_[program.index]++;
    return true;
  }

  bool Control(uint32_t kind, std::string_view payload) {
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
    if (kind == kTtqThread) {
      NoteThread();
      last_id_ = 0;
      slice_start_ = walker_.time().v;
      current_ = LoadPod<uint32_t>(payload);
      if (out_.first_tid == 0) out_.first_tid = current_;
      saw_thread_ = true;
      return true;
    }
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
    NoteThread();
    BlockDigest::Step step;
    bool memory = kind == kTtqKernelWrite || kind == kTtqMap || kind == kTtqUnmap ||
                  kind == kTtqRemap || kind == kTtqFork || kind == kTtqThreadExit;
    if (memory) step.pages = TakePages();
    out_.changes_mappings = out_.changes_mappings || kind == kTtqMap || kind == kTtqUnmap ||
                            kind == kTtqRemap || kind == kTtqProtect;
    step.has_control = true;
    step.control = {kind, walker_.time().v, current_, LastPcOf(ConcernedThread(kind, payload)),
                    0, std::string(payload)};
    if (kind == kTtqThreadExit) {
      // The number may be another thread's soon.
      uint32_t tid = LoadPod<TtqThread>(payload).tid;
      step.control.instructions = instructions_of_[tid];
      instructions_of_.erase(tid);
      last_pc_.erase(tid);
    }
    out_.steps.push_back(std::move(step));
    return true;
  }

  void Finish() {
    NoteThread();
    BlockDigest::Step last;
    last.pages = TakePages();
    if (!last.pages.empty()) out_.steps.push_back(std::move(last));
    absl::flat_hash_map<uint32_t, uint32_t> by_superblock;
    for (uint32_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] != 0) by_superblock[recipes_.IdAndExit(i).first] += counts_[i];
    }
    for (uint32_t id : cut_off_) ++by_superblock[id];
    out_.executions.assign(by_superblock.begin(), by_superblock.end());
    std::sort(out_.executions.begin(), out_.executions.end());
    out_.last_pc.assign(last_pc_.begin(), last_pc_.end());
    out_.instructions_of.assign(instructions_of_.begin(), instructions_of_.end());
    out_.end_tid = current_;
    for (const auto& [tid, state] : walker_.other_threads()) {
      out_.end_states.emplace_back(tid, walker_.StateOf(tid));
    }
  }

 private:
  static constexpr uint64_t kNoPage = ~uint64_t{0};
  static constexpr size_t kCacheSize = 1024;
  struct Cached {
    uint64_t page;
    PageDelta* delta;
  };

  static uint32_t ConcernedThread(uint32_t kind, std::string_view payload) {
    switch (kind) {
      case kTtqSyscallEnter:
      case kTtqSyscallExit:
      case kTtqThreadStart:
      case kTtqThreadExit:
      case kTtqSignal:
      case kTtqFault:
      case kTtqOutput:
      case kTtqExecve: return LoadPod<uint32_t>(payload);
      default: return 0;
    }
  }

  uint64_t LastPcOf(uint32_t tid) const {
    auto it = last_pc_.find(tid == 0 ? current_ : tid);
    return it == last_pc_.end() ? 0 : it->second;
  }

  // Remembers what the current thread executed last.
  void NoteThread() {
    if (current_ == 0) return;
    uint64_t now = walker_.time().v;
    instructions_of_[current_] += now - slice_start_;
    slice_start_ = now;
    if (last_id_ == 0) return;
    const Recipe* recipe = recipes_.Find(SuperblockId(last_id_));
    uint32_t n = last_instructions_;
    last_pc_[current_] = recipe->instructions()[n > 0 ? n - 1 : 0].address.v;
  }

  PageDelta* Page(uint64_t page) {
    Cached& c = cache_[page % kCacheSize];
    if (c.page == page) [[likely]] return c.delta;
    auto [it, is_new] = pages_.try_emplace(page);
    if (is_new) it->second = pool_.Take(page);
    c = {page, it->second.get()};
    return c.delta;
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
      case 8: return copy(std::integral_constant<size_t, 8>());
      case 4: return copy(std::integral_constant<size_t, 4>());
      case 1: return copy(std::integral_constant<size_t, 1>());
      case 16: return copy(std::integral_constant<size_t, 16>());
      default: return copy(size);
    }
  }

  std::vector<std::unique_ptr<PageDelta>> TakePages() {
    std::vector<std::unique_ptr<PageDelta>> out;
    out.reserve(pages_.size());
    for (auto& [page, delta] : pages_) {
      delta->Seal();
      out.push_back(std::move(delta));
    }
    pages_.clear();
    for (auto& c : cache_) c.page = kNoPage;
    return out;
  }

  const RecipeTable& recipes_;
  Walker& walker_;
  DeltaPool& pool_;
  BlockDigest& out_;
  Cached cache_[kCacheSize];
  absl::flat_hash_map<uint64_t, std::unique_ptr<PageDelta>> pages_;
  std::vector<uint32_t> counts_;
  std::vector<uint32_t> cut_off_;  // superblocks that ended in a fault
  absl::flat_hash_map<uint32_t, uint64_t> last_pc_, instructions_of_;
  uint32_t current_ = 0, last_id_ = 0, last_instructions_ = 0;
  uint64_t slice_start_ = 0;
  bool saw_thread_ = false;
};

// Level -1 packs logs as well as level 1 does and is a third faster; see docs/performance.md.
constexpr int kCompressionLevel = -1;

absl::Status Compress(std::string_view log, std::string* out) {
  struct Context {
    ZSTD_CCtx* zstd = ZSTD_createCCtx();
    std::vector<char> buffer;
    ~Context() { ZSTD_freeCCtx(zstd); }
  };
  thread_local Context context;
  if (context.zstd == nullptr) return absl::ResourceExhaustedError("no memory to compress with");
  context.buffer.resize(std::max(context.buffer.size(), ZSTD_compressBound(log.size())));
  size_t n = ZSTD_compressCCtx(context.zstd, context.buffer.data(), context.buffer.size(),
                               log.data(), log.size(), kCompressionLevel);
  if (ZSTD_isError(n)) return absl::InternalError(ZSTD_getErrorName(n));
  out->assign(context.buffer.data(), n);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BlockDigest> DigestBlock(const RecipeTable& recipes, std::string_view log,
                                        DeltaPool* pool, bool compress) {
  BlockDigest out;
  Walker walker(recipes);
  DigestSink sink(recipes, &walker, pool, &out);
  if (absl::Status s = walker.Walk(log, sink); !s.ok()) return s;
  sink.Finish();
  out.instructions = walker.time().v;
  out.log_bytes = static_cast<uint32_t>(log.size());
  if (!compress) return out;
  out.log_hash = XXH3_64bits(log.data(), log.size());
  if (absl::Status s = Compress(log, &out.compressed); !s.ok()) return s;
  return out;
}

}  // namespace ttq

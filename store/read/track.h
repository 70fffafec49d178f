// SPDX-License-Identifier: MIT
//
// Following things through one block: which thread is which, what some pages of memory hold; and
// getting on quickly where nothing is looked for.

#ifndef TTQ_STORE_READ_TRACK_H_
#define TTQ_STORE_READ_TRACK_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "store/read/process_reader.h"
#include "store/walk/native.h"
#include "store/walk/walk.h"

namespace ttq {

// Puts a walker where a block starts.
void StartWalk(const LoadedBlock& block, Walker* walker);

// What threads have in vector registers, followed through a block.
class VectorTracker {
 public:
  // To be called with every execution, once it is over, and with every control record.
  void Executed(uint32_t tid, const Program& program, const uint8_t* record) {
    if (!program.vectors.empty()) SetVectors(program.vectors, record, &known_[tid]);
  }
  void Control(uint32_t kind, std::string_view payload);
  VectorState Of(uint32_t tid) const;
  void Set(uint32_t tid, const VectorState& state) { known_[tid] = state; }
  void Clear() { known_.clear(); }

 private:
  absl::flat_hash_map<uint32_t, VectorState> known_;  // by tid
};

// Whether a walk to the log's end, where no record stopped it, leaves a thread behind its last
// instruction, and nothing says where it went: it was killed, or became another program. Its
// registers are then those with which that instruction began.
inline bool EndsBehind(bool stopped, uint32_t tid, uint32_t last_tid, const Walker& walker) {
  return !stopped && tid == last_tid && !walker.KnowsPc(tid);
}

// A thread's registers. `inside`: it is in an execution of this recipe, before its instruction of
// that number, and `state` and `vectors` are those at the record's entry.
struct Inside {
  const Recipe* recipe;
  const uint8_t* record;
  uint32_t instruction;
};
Registers RegistersFrom(ThreadState state, VectorState vectors,
                        const std::optional<Inside>& inside);

// Valgrind reuses thread numbers, we do not: follows which is which.
class ThreadNumbers {
 public:
  explicit ThreadNumbers(const LoadedBlock& block);
  // To be called with every control record.
  void Control(uint32_t kind, std::string_view payload);
  ThreadNo NumberOf(uint32_t tid) const;
  std::optional<uint32_t> TidOf(ThreadNo number) const;

 private:
  absl::flat_hash_map<uint32_t, ThreadNo> numbers_;
  uint32_t next_;
};

// Executes records of a walk by machine code. Belongs to one thread; between walks it keeps what it
// has learned.
class NativeWalk {
 public:
  // `use`: kMemory or kRegisters.
  NativeWalk(const RecipeTable& recipes, NativeUse use);

  // The caller sets its pages; ClearPages has been called.
  NativeContext& context() { return *context_; }
  // From now on stores to pages that the context does not have, to words that `watched` may hold
  // (null: there are none), and some others, are left to store(sink, …): see NativeContext.
  void TellStores(void* sink, decltype(NativeContext::store) store, const WordSet* watched);

  // For a sink's Advance: executes records from `at` on, as long as there is code for them and
  // none reaches beyond `until`; returns the first it did not. Those of superblocks that skip(id)
  // names are left to the walk. `vectors` may be null.
  const uint8_t* Advance(
      const uint8_t* at, const uint8_t* end, Time until, Walker* walker, VectorTracker* vectors,
      absl::FunctionRef<bool(uint32_t id)> skip = [](uint32_t) { return false; });
  // To be told of each program that the walk executes.
  void Interpreted(const Program& program) {
    if (native_ != nullptr) native_->Interpreted(program);
  }
  // skip(id) was false and is true from now on.
  void Skip(uint32_t id) {
    if (knows_code_) native_->DropCode(id, context_.get());
  }

 private:
  NativeCode* const native_;  // null: there is none
  const NativeUse use_;
  const std::unique_ptr<NativeContext> context_ = std::make_unique<NativeContext>();
  bool knows_code_ = false;  // context_->code is valid
};

// The content of chosen pages while a block is walked. A page is read from the store when it is
// first changed or asked for; every store to a tracked page must be told, from the block's start.
class MemoryTracker {
 public:
  MemoryTracker(const ProcessReader& process, uint32_t block) : process_(process), block_(block) {}

  void Track(uint64_t page) { pages_.try_emplace(page); }
  bool Tracks(uint64_t page) const { return pages_.contains(page); }
  // The block moves memory about: pages that tracked ones come from are tracked too. To be called
  // after the last Track.
  absl::Status TrackSources();

  // Copies bytes out of, or into, tracked pages; what lies in others is left alone.
  void Read(uint64_t address, uint64_t size, uint8_t* out);
  void Write(uint64_t address, uint64_t size, const uint8_t* bytes);
  // A control record that changes memory (kernel writes, mappings, moves, thread exits).
  void Control(uint32_t kind, std::string_view payload);
  // For NativeContext::Page::content: machine code's stores to a page that is tracked and was
  // written to. Stays where it is.
  void* Landing(uint64_t page) { return Find(page)->content.get(); }
  // The first error met while reading pages.
  const absl::Status& status() const { return status_; }

  // Walks the block up to time t, applying what happens to the tracked pages. Does not walk when
  // the index says that nothing does.
  absl::Status RunTo(Time t, const std::vector<uint64_t>& pages);
  // The content now. The pointer stays valid until the tracker changes.
  absl::StatusOr<const uint8_t*> Page(uint64_t page, bool* known);

 private:
  struct Tracked {
    bool loaded = false, known = true;
    std::unique_ptr<NativeContext::PageContent> content;  // `written` is machine code's alone
    uint8_t* bytes() const { return content->bytes; }
    void Allocate() {
      if (!content) content.reset(new NativeContext::PageContent);
    }
  };
  Tracked* Find(uint64_t page);
  void Load(uint64_t page, Tracked* t);
  void Reset(uint64_t begin, uint64_t end, const Mapping* mapping);

  const ProcessReader& process_;
  uint32_t block_;
  absl::flat_hash_map<uint64_t, Tracked> pages_;
  absl::Status status_;
};

}  // namespace ttq

#endif  // TTQ_STORE_READ_TRACK_H_

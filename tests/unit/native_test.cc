// SPDX-License-Identifier: MIT
//
// Machine code against the interpreter: random recipes with random logs, some of them damaged, must
// give the same digest, and the same memory and registers, either way.

#include "store/walk/native.h"

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/stream.h"
#include "store/read/reader.h"
#include "store/read/track.h"
#include "store/walk/digest.h"
#include "store/walk/recipe.h"

namespace ttq {
namespace {

constexpr uint64_t kBase = 0x7f001234c000;
constexpr int kWidths[] = {1, 2, 4, 8};

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  uint64_t Number() {
    switch (Below(6)) {
      case 0:
        return Below(200);
      case 1:
        return ~uint64_t{0} - Below(200);
      case 2:
        return uint64_t{1} << Below(64);
      case 3:
        return random_() & 0xffffffff;
      default:
        return random_();
    }
  }
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  // An encoded recipe. Notes the length of its record by exit.
  std::string Recipe(uint32_t id) {
    nodes_.clear();
    effects_.clear();
    record_bytes_ = 4;
    lengths_.clear();
    uint32_t exits = 1 + Below(3), instructions = 1 + Below(8);
    std::vector<uint32_t> at;  // side exits, in order
    for (uint32_t i = 0; i < instructions; ++i) {
      effects_.push_back({kTtqInstruction, 0, kTtqNoNode, kTtqNoNode, kTtqNoNode});
      for (uint32_t n = Below(4); n > 0; --n) Effect();
      if (at.size() + 1 < exits && Below(2) == 0) {
        at.push_back(i);
        Exit(static_cast<uint8_t>(at.size()));
      }
    }
    exits = static_cast<uint32_t>(at.size()) + 1;
    Exit(0);
    TtqRecipe head{};
    head.id = id;
    head.node_count = static_cast<ttq_u16>(nodes_.size());
    head.effect_count = static_cast<ttq_u16>(effects_.size());
    head.instruction_count = static_cast<ttq_u16>(instructions);
    head.exit_count = static_cast<ttq_u16>(exits);
    head.record_bytes = record_bytes_;
    head.instruction_bytes = static_cast<ttq_u16>(instructions * 10);
    head.bytes = static_cast<ttq_u32>(sizeof(head) + nodes_.size() * sizeof(TtqNode) +
                                      effects_.size() * sizeof(TtqEffect) + head.instruction_bytes);
    std::string out;
    auto append = [&](const void* p, size_t n) { out.append(static_cast<const char*>(p), n); };
    append(&head, sizeof(head));
    append(nodes_.data(), nodes_.size() * sizeof(TtqNode));
    append(effects_.data(), effects_.size() * sizeof(TtqEffect));
    for (uint32_t i = 0; i < instructions; ++i) {
      uint64_t address = 0x400000 + id * 64 + i;
      uint8_t size = 1, byte = 0x90;
      append(&address, 8);
      append(&size, 1);
      append(&byte, 1);
    }
    return out;
  }
  const std::map<uint32_t, uint32_t>& lengths() const { return lengths_; }

 private:
  uint16_t Add(uint8_t op, int w, uint16_t a = 0, uint16_t b = 0, uint16_t c = 0,
               uint64_t imm = 0) {
    nodes_.push_back({op, static_cast<uint8_t>(w), a, b, c, imm});
    return static_cast<uint16_t>(nodes_.size() - 1);
  }

  uint16_t Slot(int w) {
    uint64_t at = record_bytes_;
    record_bytes_ = static_cast<uint16_t>(record_bytes_ + w);
    return Add(kTtqSlot, w, 0, 0, 0, at);
  }

  // A node of one of the scalar kinds: a new one, or one there is.
  uint16_t Scalar(int depth = 0) {
    if (!nodes_.empty() && Below(3) == 0) {
      uint16_t n = static_cast<uint16_t>(Below(static_cast<uint32_t>(nodes_.size())));
      if (nodes_[n].op != kTtqVectorConst && nodes_[n].w <= 8 &&
          (nodes_[n].w & (nodes_[n].w - 1)) == 0) {
        return n;
      }
    }
    int w = kWidths[Below(4)];
    switch (depth > 3 ? Below(3) : Below(12)) {
      case 0:
        return Add(kTtqConst, 8, 0, 0, 0, Number());
      case 1:
        return Slot(w);
      case 2:
        return Add(kTtqReg, 8, static_cast<uint16_t>(Below(kTtqRegCount)));
      case 3:
        return Add(kTtqAddI, w, Scalar(depth + 1), 0, 0, Number());
      case 4:
        return Add(kTtqNot, w, Scalar(depth + 1));
      case 5:
        return Add(kTtqExtract, w, Scalar(depth + 1), 0, static_cast<uint16_t>(Below(8)));
      case 6:
        return Add(kTtqSext, w, Scalar(depth + 1), 0, static_cast<uint16_t>(kWidths[Below(4)]));
      case 7: {
        uint16_t a = Scalar(depth + 1), b = Scalar(depth + 1);
        return Add(kTtqInsert, w, a, b, static_cast<uint16_t>(Below(8)));
      }
      case 8: {
        uint16_t a = Scalar(depth + 1), b = Scalar(depth + 1), c = Scalar(depth + 1);
        return Add(kTtqIte, w, a, b, c);
      }
      default: {
        static constexpr uint8_t kOps[] = {kTtqAdd, kTtqSub, kTtqAnd, kTtqOr,  kTtqXor,
                                           kTtqMul, kTtqShl, kTtqShr, kTtqSar, kTtqEq,
                                           kTtqNe,  kTtqLtS, kTtqLtU, kTtqLeS, kTtqLeU};
        uint16_t a = Scalar(depth + 1), b = Scalar(depth + 1);
        return Add(kOps[Below(std::size(kOps))], w, a, b);
      }
    }
  }

  // Mostly within a few pages, so that the same ones are met again.
  uint16_t Address() {
    if (Below(40) == 0) return Scalar();
    uint16_t mask = Add(kTtqConst, 8, 0, 0, 0, Below(4) == 0 ? 0x7fff : 0x3ff8);
    uint16_t offset = Add(kTtqAnd, 8, Scalar(), mask);
    if (Below(6) == 0) return Add(kTtqConst, 8, 0, 0, 0, kBase + Below(0x8000));
    return Add(kTtqAddI, 8, offset, 0, 0, kBase);
  }

  void Effect() {
    if (Below(4) == 0) {
      effects_.push_back({kTtqSetReg, static_cast<uint8_t>(Below(kTtqRegCount)), kTtqNoNode,
                          Scalar(), kTtqNoNode});
      return;
    }
    if (Below(10) == 0) {
      const uint16_t value = Below(2) ? Slot(8) : static_cast<uint16_t>(kTtqNoNode);
      effects_.push_back({kTtqSetVector, static_cast<uint8_t>(Below(kTtqVectorWords)), kTtqNoNode,
                          value, kTtqNoNode});
      return;
    }
    uint16_t address = Address();
    uint16_t guard = Below(6) == 0 ? Scalar() : static_cast<uint16_t>(kTtqNoNode);
    if (Below(2) == 0) {
      static constexpr uint8_t kSizes[] = {1, 2, 4, 8, 8, 3, 10, 16, 28, 32, 64};
      effects_.push_back({kTtqLoad, kSizes[Below(std::size(kSizes))], address, kTtqNoNode, guard});
      return;
    }
    uint16_t value;
    uint8_t size;
    switch (Below(4)) {
      case 0: {
        static constexpr uint8_t kSizes[] = {1, 2, 4, 6, 8, 10, 16, 32};
        size = kSizes[Below(std::size(kSizes))];
        value = Slot(size);
        break;
      }
      case 1:
        size = Below(2) ? 16 : 32;
        value = Add(kTtqVectorConst, size, 0, 0, 0, Below(2) ? 0 : Number());
        break;
      default: {
        static constexpr uint8_t kSizes[] = {1, 2, 4, 8, 8, 5};
        size = kSizes[Below(std::size(kSizes))];
        value = Scalar();
      }
    }
    effects_.push_back({kTtqStore, size, address, value, guard});
  }

  void Exit(uint8_t number) {
    effects_.push_back({kTtqExit, number, record_bytes_, kTtqNoNode, kTtqNoNode});
    lengths_[number] = record_bytes_;
  }

  std::mt19937_64 random_;
  std::vector<TtqNode> nodes_;
  std::vector<TtqEffect> effects_;
  uint16_t record_bytes_ = 4;
  std::map<uint32_t, uint32_t> lengths_;
};

template <class T>
void AppendPod(std::string* out, const T& value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <class T>
void AppendControl(std::string* out, uint32_t kind, const T& payload) {
  AppendPod(out, kind);
  AppendPod(out, static_cast<uint32_t>(sizeof(payload)));
  AppendPod(out, payload);
}

// All of a digest that has no order of its own, as text.
std::string Describe(const BlockDigest& digest) {
  std::string out;
  auto number = [&](uint64_t n) { out += std::to_string(n) + " "; };
  number(digest.instructions);
  number(digest.reads);
  number(digest.writes);
  for (const auto& step : digest.steps) {
    step.pages.ForEach([&](const PageChanges::Page& page) {
      out += "\npage ";
      for (uint64_t word : page.words()) AppendPod(&out, word);
    });
    if (step.has_control) {
      out += "\ncontrol ";
      number(step.control.time);
      number(step.control.last_pc);
    }
  }
  out += "\nend ";
  for (const auto& [id, times] : digest.executions) number(uint64_t{id} << 32 | times);
  for (const auto& [tid, pc] : digest.last_pc) number(pc);
  for (const auto& [tid, state] : digest.end_states) {
    for (uint64_t r : state.reg) number(r);
  }
  return out;
}

// Recipes 1 to `recipes`, and a log of that many executions of them.
std::string RandomLog(Generator* g, RecipeTable* table, uint32_t recipes, int executions) {
  std::vector<std::map<uint32_t, uint32_t>> lengths(1);
  for (uint32_t id = 1; id <= recipes; ++id) {
    absl::Status s = table->Add(g->Recipe(id));
    EXPECT_TRUE(s.ok()) << s;
    lengths.push_back(g->lengths());
  }
  std::string log;
  TtqRegisters registers{};
  registers.tid = 1;
  uint64_t values[kTtqRegCount];
  for (auto& v : values) v = g->Number();
  memcpy(registers.reg, values, sizeof(values));
  AppendControl(&log, kTtqRegisters, registers);
  AppendControl(&log, kTtqThread, uint32_t{1});
  for (int i = 0; i < executions; ++i) {
    if (g->Below(2000) == 0) {
      TtqRange range{kBase, kPageBytes, 3};
      AppendControl(&log, g->Below(2) ? kTtqUnmap : kTtqProtect, range);
    }
    uint32_t id = 1 + g->Below(recipes);
    auto it = lengths[id].begin();
    std::advance(it, g->Below(static_cast<uint32_t>(lengths[id].size())));
    AppendPod(&log, id << kTtqExitBits | it->first);
    for (uint32_t b = 4; b < it->second; ++b) {
      log += static_cast<char>(g->Below(3) == 0 ? 0 : g->Below(256));
    }
  }
  return log;
}

// More pages than are noted at once: every change is told, those of a page in order.
TEST(DigestTest, ManyPages) {
  constexpr uint64_t kPages = 20000;
  std::string log;
  AppendControl(&log, kTtqRegisters, TtqRegisters{.tid = 1});
  AppendControl(&log, kTtqThread, uint32_t{1});
  auto write = [&](uint64_t page, uint64_t value) {
    TtqKernelWrite w{.tid = 1, .actor = kTtqBySyscall, .syscall = 0};
    w.address = kBase + page * kPageBytes + page % kWordsPerPage * 8;
    AppendPod(&log, uint32_t{kTtqKernelWrite});
    AppendPod(&log, static_cast<uint32_t>(sizeof(w) + 8));
    AppendPod(&log, w);
    AppendPod(&log, value);
  };
  for (uint64_t page = 0; page < kPages; ++page) write(page, ~page);
  for (uint64_t page = 0; page < kPages; page += 3) write(page, page + 1);
  RecipeTable table;
  ScratchPool pool;
  // The second time the scratch has been used.
  for (int i = 0; i < 2; ++i) {
    auto digest = DigestBlock(table, log, &pool, Packing::kNone);
    ASSERT_TRUE(digest.ok()) << digest.status();
    EXPECT_GT(digest->steps.size(), 1u);
    std::map<uint64_t, uint64_t> values;
    for (const auto& step : digest->steps) {
      step.pages.ForEach([&](const PageChanges::Page& page) {
        const uint64_t number = page.number() - kBase / kPageBytes;
        page.ForEachPiece([&](uint32_t piece, uint64_t written, const uint8_t* bytes) {
          const uint64_t word = number % kWordsPerPage;
          EXPECT_EQ(piece, word / 8);
          EXPECT_EQ(written, uint64_t{0xff} << (word % 8 * 8));
          memcpy(&values[number], bytes + word % 8 * 8, 8);
        });
      });
    }
    ASSERT_EQ(values.size(), kPages);
    for (const auto& [page, value] : values) EXPECT_EQ(value, page % 3 == 0 ? page + 1 : ~page);
  }
}

class NativeTest : public testing::TestWithParam<uint32_t> {};

TEST_P(NativeTest, DigestsLikeTheInterpreter) {
  Generator g(GetParam());
  RecipeTable table;
  if (table.native(NativeUse::kDigest) == nullptr)
    GTEST_SKIP() << "this machine gives no memory to execute from: mapping it failed";
  std::string log = RandomLog(&g, &table, 60, 30000);
  ScratchPool pool;
  auto expected = DigestBlock(table, log, &pool, Packing::kCompare, /*native=*/false);
  ASSERT_TRUE(expected.ok()) << expected.status();
  std::string text = Describe(*expected);
  // The second time all programs have their code from the start.
  for (int i = 0; i < 2; ++i) {
    auto actual = DigestBlock(table, log, &pool, Packing::kCompare, /*native=*/true);
    ASSERT_TRUE(actual.ok()) << actual.status();
    EXPECT_EQ(actual->reads, expected->reads);
    EXPECT_EQ(actual->writes, expected->writes);
    EXPECT_TRUE(Describe(*actual) == text);
    EXPECT_EQ(actual->log, expected->log);
  }
}

// Follows memory, or registers alone, up to a time, with or without machine code.
class FollowSink {
 public:
  // `walk`: null: without.
  FollowSink(Walker* walker, NativeUse use, const WordSet& watched, Time until, NativeWalk* walk)
      : walker_(*walker), use_(use), watched_(watched), until_(until), walk_(walk) {
    if (walk_ == nullptr) return;
    walk_->context().ClearPages();
    walk_->TellStores(
        this,
        [](void* self, uint64_t address, const uint8_t* bytes, uint64_t size) {
          auto& sink = *static_cast<FollowSink*>(self);
          const NativeContext& context = sink.walk_->context();
          sink.Store(Time(context.time + context.instruction), address, bytes, size);
        },
        &watched);
  }

  const uint8_t* Advance(const uint8_t* at, const uint8_t* end) {
    if (walk_ == nullptr) return at;
    NativeContext& context = walk_->context();
    context.stored_at = stored_at_;
    context.stored = stored_;
    const uint8_t* to = walk_->Advance(at, end, until_, &walker_, &vectors_,
                                       [](uint32_t id) { return id == kSkipped; });
    stored_at_ = context.stored_at;
    stored_ = context.stored;
    return to;
  }
  void Load(const Op&, uint64_t) {}
  void Store(const Op& op, uint64_t address, const uint8_t* bytes) {
    Store(walker_.time() + op.instruction, address, bytes, op.size);
  }
  bool Superblock(const Program& program, uint32_t id, const uint8_t* record) {
    if (walker_.time() + program.instructions > until_) return false;
    ++interpreted_;
    skipped_ += id == kSkipped;
    vectors_.Executed(walker_.tid(), program, record);
    if (walk_ != nullptr) walk_->Interpreted(program);
    return true;
  }
  bool Control(uint32_t kind, std::string_view payload) {
    vectors_.Control(kind, payload);
    return true;
  }

  uint64_t interpreted() const { return interpreted_; }
  // All that must be the same.
  std::string Describe() const {
    std::string out = std::to_string(walker_.time().v) + " " + std::to_string(skipped_);
    const ThreadState state = walker_.StateOf(walker_.tid());
    AppendPod(&out, state.reg);
    const VectorState vectors = vectors_.Of(walker_.tid());
    AppendPod(&out, vectors.known);
    for (size_t i = 0; i < vectors.word.size(); ++i) {
      if (vectors.known >> i & 1) AppendPod(&out, vectors.word[i]);
    }
    if (use_ == NativeUse::kRegisters) {
      AppendPod(&out, stored_at_);
      if (stored_at_ != ~uint64_t{0}) AppendPod(&out, stored_);
    }
    for (const auto& [page, content] : pages_) {
      AppendPod(&out, page);
      for (size_t i = 0; i < kPageBytes; ++i) {
        if (content->written[i] != 0) AppendPod(&out, content->bytes[i]);
        AppendPod(&out, content->written[i]);
      }
    }
    return out + told_;
  }

 private:
  static constexpr uint32_t kSkipped = 3;
  struct Content {
    uint8_t bytes[kPageBytes] = {}, written[kPageBytes] = {};
  };

  void Store(Time time, uint64_t address, const uint8_t* bytes, uint64_t size) {
    if (use_ == NativeUse::kRegisters) {
      stored_at_ = size == 8 ? address : ~uint64_t{0};
      if (size == 8) memcpy(&stored_, bytes, 8);
      return;
    }
    if (watched_.MayContain(address, size)) {
      told_ += " " + std::to_string(time.v) + "@" + std::to_string(address);
      told_.append(reinterpret_cast<const char*>(bytes), size);
    }
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t page = (address + i) & ~(kPageBytes - 1);
      std::unique_ptr<Content>& content = pages_[page];
      if (content == nullptr) content = std::make_unique<Content>();
      content->bytes[(address + i) % kPageBytes] = bytes[i];
      content->written[(address + i) % kPageBytes] = 0xff;
      if (walk_ != nullptr) walk_->context().PageSlot(page) = {page, content.get()};
    }
  }

  Walker& walker_;
  const NativeUse use_;
  const WordSet& watched_;
  const Time until_;
  NativeWalk* const walk_;
  VectorTracker vectors_;
  std::map<uint64_t, std::unique_ptr<Content>> pages_;
  std::string told_;
  uint64_t stored_at_ = ~uint64_t{0}, stored_ = 0, interpreted_ = 0, skipped_ = 0;
};

TEST_P(NativeTest, FollowsLikeTheInterpreter) {
  Generator g(GetParam() + 2000);
  RecipeTable table;
  if (table.native(NativeUse::kMemory) == nullptr)
    GTEST_SKIP() << "this machine gives no memory to execute from: mapping it failed";
  const std::string log = RandomLog(&g, &table, 20, 10000);
  WordSet watched;
  for (int i = 0; i < 40; ++i) watched.Add(Address(kBase + g.Below(0x8000)));
  for (const NativeUse use : {NativeUse::kMemory, NativeUse::kRegisters}) {
    NativeWalk walk(table, use);
    uint64_t all = 0, last = 0;
    // Its whole length first, then random parts of it: by then all programs have their code.
    for (int i = 0; i < 6; ++i) {
      const Time until = i < 3 ? kTimeMax : Time(g.Below(50000));
      std::string text[2];
      for (const bool native : {false, true}) {
        Walker walker(table);
        FollowSink sink(&walker, use, watched, until, native ? &walk : nullptr);
        const absl::Status s = walker.Walk(log, sink);
        ASSERT_TRUE(s.ok()) << s;
        text[native] = sink.Describe();
        if (i == 2) (native ? last : all) = sink.interpreted();
      }
      ASSERT_TRUE(text[0] == text[1]) << "until " << until.v;
    }
    EXPECT_LT(last, all / 2);
  }
}

// A damaged log ends both walks with the same message, or neither.
TEST_P(NativeTest, SurvivesDamage) {
  Generator g(GetParam() + 1000);
  RecipeTable table;
  if (table.native(NativeUse::kDigest) == nullptr)
    GTEST_SKIP() << "this machine gives no memory to execute from: mapping it failed";
  std::string log = RandomLog(&g, &table, 5, 10000);
  ScratchPool pool;
  ASSERT_TRUE(DigestBlock(table, log, &pool, Packing::kCompare).ok());
  const WordSet watched;
  const auto follow = [&](std::string_view log, NativeUse use, NativeWalk* walk,
                          std::string* text) {
    Walker walker(table);
    FollowSink sink(&walker, use, watched, kTimeMax, walk);
    const absl::Status s = walker.Walk(log, sink);
    *text = sink.Describe();
    return s;
  };
  constexpr NativeUse kUses[] = {NativeUse::kMemory, NativeUse::kRegisters};
  NativeWalk walks[] = {{table, kUses[0]}, {table, kUses[1]}};
  std::string text, expected_text;
  for (int use = 0; use < 2; ++use) {
    for (int times = 0; times < 2; ++times) {
      ASSERT_TRUE(follow(log, kUses[use], &walks[use], &text).ok());
    }
  }
  for (int i = 0; i < 10; ++i) {
    std::string damaged = log.substr(0, log.size() - g.Below(3000));
    for (uint32_t n = g.Below(3); n > 0; --n) {
      damaged[g.Below(static_cast<uint32_t>(damaged.size()))] ^=
          static_cast<char>(1 + g.Below(255));
    }
    // To the byte, for the sanitizer.
    std::vector<char> exact(damaged.begin(), damaged.end());
    std::string_view view(exact.data(), exact.size());
    auto expected = DigestBlock(table, view, &pool, Packing::kCompare, /*native=*/false);
    auto actual = DigestBlock(table, view, &pool, Packing::kCompare, /*native=*/true);
    ASSERT_EQ(actual.status(), expected.status());
    if (expected.ok()) {
      EXPECT_TRUE(Describe(*actual) == Describe(*expected));
    }
    for (int use = 0; use < 2; ++use) {
      const absl::Status s = follow(view, kUses[use], nullptr, &expected_text);
      ASSERT_EQ(follow(view, kUses[use], &walks[use], &text), s);
      EXPECT_TRUE(text == expected_text);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, NativeTest, testing::Range(1u, 41u));

}  // namespace
}  // namespace ttq

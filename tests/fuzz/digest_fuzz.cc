// SPDX-License-Identifier: MIT
//
// Any recipes and any log: they are refused with words, or digested, and machine code and
// interpreter come to the same; skimmed they are the same as far as that goes.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/stream.h"
#include "store/walk/digest.h"
#include "store/walk/recipe.h"
#include "store/walk/walk.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/stream_input.h"
#include "tests/support/skimmed.h"

namespace ttq {
namespace {

constexpr uint32_t kMaxRecipes = 4;
constexpr size_t kMaxLog = 96 << 10;
// Machine code runs only where this much log follows.
constexpr size_t kTail = kTtqMaxRecordBytes + 64;

void RequireSame(const BlockDigest& a, const BlockDigest& b) {
  Require(a.instructions == b.instructions, "instructions differ");
  Require(a.reads == b.reads && a.writes == b.writes, "counts differ");
  Require(a.executions == b.executions, "executions differ");
  const auto by_thread = [](auto list) { return std::map(list.begin(), list.end()); };
  Require(by_thread(a.last_pc) == by_thread(b.last_pc), "last instructions differ");
  Require(by_thread(a.instructions_of) == by_thread(b.instructions_of),
          "instructions of threads differ");
  const auto states = by_thread(b.end_states);
  for (const auto& [tid, state] : a.end_states) {
    const auto it = states.find(tid);
    Require(it != states.end() && memcmp(&it->second, &state, sizeof(state)) == 0,
            "registers differ");
  }
  Require(a.steps.size() == b.steps.size(), "steps differ");
  for (size_t i = 0; i < a.steps.size(); ++i) {
    const ControlItem &c = a.steps[i].control, &d = b.steps[i].control;
    Require(c.time == d.time && c.tid == d.tid && c.last_pc == d.last_pc && c.kind == d.kind &&
                c.payload == d.payload && c.instructions == d.instructions,
            "control records differ");
    const auto pages = [](const BlockDigest::Step& step) {
      std::vector<uint64_t> words;
      step.pages.ForEach([&](const PageChanges::Page& page) {
        words.insert(words.end(), page.words().begin(), page.words().end());
      });
      return words;
    };
    Require(pages(a.steps[i]) == pages(b.steps[i]), "pages differ");
  }
}

// The log as a producer has it that counts (kTtqCounted).
struct CountingSink {
  std::string counted;
  uint32_t header = 0, instructions = 0;
  explicit CountingSink() { Put(kTtqCounted, {}); }
  void Load(const Op&, uint64_t) {}
  void Store(const Op&, uint64_t, const uint8_t*) {}
  bool Superblock(const Program& program, uint32_t, const uint8_t* record) {
    uint32_t word;
    memcpy(&word, record, sizeof(word));
    if ((word & ((1 << kTtqExitBits) - 1)) == kTtqExitOpen) PutExecuted();
    header = word;
    instructions += program.instructions;
    return true;
  }
  bool Control(uint32_t kind, std::string_view payload) {
    PutExecuted();
    if (kind != kTtqKernelWrite && kind != kTtqVectors) Put(kind, payload);
    return true;
  }
  void PutExecuted() {
    if (header == 0) return;
    Append(&counted, header);
    Append(&counted, instructions);
    header = instructions = 0;
  }
  void Put(uint32_t kind, std::string_view payload) {
    Append(&counted, kind);
    Append(&counted, static_cast<uint32_t>(payload.size()));
    counted += payload;
  }
};

void RequireSkimmed(const BlockDigest& a, const BlockDigest& b) {
  const std::string difference = SkimmedDifference(a, b);
  Require(difference.empty(), "skimmed", difference);
}

// Asks for registers inside every execution, as a question about a time does.
struct InsideSink {
  const RecipeTable& recipes;
  Walker& walker;
  uint64_t left = 2000;
  void Load(const Op&, uint64_t) {}
  void Store(const Op&, uint64_t, const uint8_t*) {}
  bool Superblock(const Program& program, uint32_t id, const uint8_t* record) {
    const Recipe* recipe = recipes.Find(SuperblockId(id));
    if (program.instructions == 0) return true;
    uint64_t registers[kTtqRegCount];
    memcpy(registers, walker.registers(), sizeof(registers));
    recipe->RegistersInside(record, program.instructions - 1, registers);
    return left-- > 0;
  }
  bool Control(uint32_t, std::string_view) { return true; }
};

}  // namespace
}  // namespace ttq

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ttq;
  static ScratchPool pool;
  FuzzInput in(data, size);
  const uint32_t flags = in.Take<uint8_t>();
  RecipeTable table;
  std::vector<RecipeDraft> recipes;
  for (uint32_t n = in.Below(kMaxRecipes + 1); n > 0; --n) {
    RecipeDraft draft = RecipeTaker(&in).Take(static_cast<uint32_t>(recipes.size() + 1));
    if (flags & 1) draft.encoded[in.Below(static_cast<uint32_t>(draft.encoded.size()))] ^= 0x11;
    // To the byte, for the sanitizer.
    const std::vector<char> exact(draft.encoded.begin(), draft.encoded.end());
    const absl::Status s = table.Add({exact.data(), exact.size()});
    Require(s.ok() || !s.message().empty(), "an error without words");
    if (!s.ok() && (flags & 2)) return 0;
    recipes.push_back(std::move(draft));
  }
  std::string log = TakeLog(&in, recipes, kMaxLog);
  if (flags & 4) log.resize(log.size() - std::min<size_t>(log.size(), flags >> 3));
  if (flags & 8) {
    Append(&log, uint32_t{kTtqOutput});
    Append(&log, static_cast<uint32_t>(kTail));
    log.append(kTail, '\0');
  }
  const std::vector<char> exact(log.begin(), log.end());
  const std::string_view view(exact.data(), exact.size());
  auto expected = DigestBlock(table, view, &pool, Packing::kCompare, /*native=*/false);
  // The second time all programs have their code from the start.
  for (int i = 0; i < 2; ++i) {
    auto actual = DigestBlock(table, view, &pool, Packing::kCompare, /*native=*/true);
    Require(actual.status() == expected.status(), "one refuses what the other does not",
            (actual.ok() ? expected : actual).status().ToString());
    if (!actual.ok()) continue;
    RequireSame(*expected, *actual);
    Require(actual->log == expected->log, "packed differently");
  }
  const auto skimmed = SkimBlock(table, view, &pool);
  Require(skimmed.status() == expected.status(), "skimming refuses what digesting does not",
          (skimmed.ok() ? expected : skimmed).status().ToString());
  if (skimmed.ok()) RequireSkimmed(*expected, *skimmed);
  if (expected.ok()) {
    Walker counter(table);
    CountingSink counting;
    Require(counter.Walk(view, counting).ok(), "what was digested is not counted");
    counting.PutExecuted();
    const auto counted = SkimBlock(table, counting.counted, &pool);
    Require(counted.ok(), "what was counted is not skimmed", counted.status().ToString());
    RequireSkimmed(*expected, *counted);
    Require(!DigestBlock(table, counting.counted, &pool, Packing::kNone).ok(),
            "a count is digested");
  }
  Walker walker(table);
  InsideSink sink{table, walker};
  const absl::Status walked = walker.Walk(view, sink);
  Require(!expected.ok() || walked.ok(), "what was digested does not walk", walked.ToString());
  return 0;
}

// SPDX-License-Identifier: MIT
//
// Prints every access of a program as its recording has it, as `valgrind --tool=lackey` prints
// them: ` L address,size` a load, ` S address,size` a store.
// Usage: dump_accesses native|valgrind TOOL_DIRECTORY PROGRAM [ARGUMENT...]

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "recorder/launcher.h"
#include "recorder/ring.h"
#include "store/walk/recipe.h"
#include "store/walk/walk.h"

namespace ttq {
namespace {

struct Printer {
  void Load(const Op& op, uint64_t address) {
    std::printf(" L %08" PRIx64 ",%d\n", address, op.size);
  }
  void Store(const Op& op, uint64_t address, const uint8_t*) {
    std::printf(" S %08" PRIx64 ",%d\n", address, op.size);
  }
  bool Superblock(const Program&, uint32_t, const uint8_t*) { return true; }
  bool Control(uint32_t, std::string_view) { return true; }
};

// Prints what comes through the ring; false when it is damaged.
bool Print(Ring& ring) {
  RecipeTable recipes;
  Printer printer;
  while (const TtqBlock* block = ring.Next()) {
    const char* end = reinterpret_cast<const char*>(block) + ring.log_block_bytes();
    for (const char* at = end - block->recipe_bytes; at < end;) {
      auto head = LoadPod<TtqRecipe>(std::string_view(at, sizeof(TtqRecipe)));
      if (!recipes.Add(std::string_view(at, head.bytes)).ok()) return false;
      at += head.bytes;
    }
    Walker walker(recipes);
    std::string_view log(reinterpret_cast<const char*>(block + 1), block->log_bytes);
    if (!walker.Walk(log, printer).ok()) return false;
    ring.Release();
  }
  return true;
}

}  // namespace
}  // namespace ttq

int main(int argc, char** argv) {
  ttq::LaunchOptions options;
  options.recorder = std::string_view(argv[1]) == "valgrind" ? ttq::RecorderKind::kValgrind
                                                             : ttq::RecorderKind::kNative;
  options.tool_directory = argv[2];
  options.command.assign(argv + 3, argv + argc);
  std::atomic<int> running = 0, failed = 0;
  std::vector<std::thread> threads;
  auto result = ttq::Launch(
      options,
      [&](absl::StatusOr<std::shared_ptr<ttq::Ring>> had) {
        if (!had.ok()) {
          ++failed;
          return;
        }
        ++running;
        threads.emplace_back([&, ring = *std::move(had)] {
          if (!ttq::Print(*ring)) ++failed;
          --running;
        });
      },
      [&] { return running == 0; });
  for (std::thread& t : threads) t.join();
  return result.ok() && failed == 0 ? result->status : 125;
}

// SPDX-License-Identifier: MIT
//
// What digesting a block costs: takes blocks of a recording, spread over all of it, and digests
// them again and again. Prints CPU nanoseconds per superblock execution and per memory access, the
// best of the rounds, and a hash of all that was digested: two builds that print the same hash
// agree.
//
//   digest_bench RECORDING [BLOCKS [ROUNDS]]
//
// TTQ_BENCH_INTERPRET=1: without machine code. TTQ_BENCH_PACK=1: compress the log too.

#include <time.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

#include "fmt/core.h"
#include "store/read/process_reader.h"
#include "store/walk/digest.h"

namespace ttq {
namespace {

double CpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

uint64_t HashOf(const BlockDigest& digest) {
  uint64_t hash = digest.instructions ^ digest.writes << 20 ^ digest.reads << 40;
  auto mix = [&](uint64_t v) { hash = XXH3_64bits_withSeed(&v, sizeof(v), hash); };
  for (const auto& step : digest.steps) {
    step.pages.ForEach([&](const PageChanges::Page& page) {
      hash = XXH3_64bits_withSeed(page.words().data(), page.words().size_bytes(), hash);
    });
    mix(step.control.time);
    mix(step.control.last_pc);
  }
  for (const auto& [superblock, times] : digest.executions) mix(uint64_t{superblock} << 32 | times);
  for (const auto& [tid, state] : digest.end_states) {
    for (uint64_t r : state.reg) mix(r);
  }
  return hash;
}

int Main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: digest_bench RECORDING [BLOCKS [ROUNDS]]\n");
    return 2;
  }
  auto recording = Recording::Open(argv[1]);
  if (!recording.ok()) {
    fmt::print(stderr, "{}\n", recording.status().ToString());
    return 1;
  }
  auto process = (*recording)->Open((*recording)->default_process());
  if (!process.ok()) {
    fmt::print(stderr, "{}\n", process.status().ToString());
    return 1;
  }
  const auto& reader = static_cast<const ProcessReader&>(**process);
  size_t all = reader.blocks().size();
  size_t want = std::min<size_t>(all, argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 24);
  int rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  std::vector<std::shared_ptr<const LoadedBlock>> blocks;
  for (size_t i = 0; i < want; ++i) {
    auto block = reader.LoadBlock(static_cast<uint32_t>(i * all / want));
    if (!block.ok()) {
      fmt::print(stderr, "{}\n", block.status().ToString());
      return 1;
    }
    blocks.push_back(*std::move(block));
  }
  bool native = std::getenv("TTQ_BENCH_INTERPRET") == nullptr;
  const Packing packing =
      std::getenv("TTQ_BENCH_PACK") == nullptr ? Packing::kNone : Packing::kPack;
  ScratchPool pool;
  double best = std::numeric_limits<double>::infinity();
  uint64_t hash = 0, executions = 0, accesses = 0, instructions = 0, pages = 0, log_bytes = 0;
  std::vector<LogPart> parts;
  // The first round also compiles.
  for (int round = 0; round <= rounds; ++round) {
    double seconds = 0;
    uint64_t round_hash = 0;
    executions = accesses = instructions = pages = log_bytes = 0;
    parts.clear();
    for (const auto& block : blocks) {
      double start = CpuSeconds();
      auto digest = DigestBlock(reader.recipes(), block->log, &pool, packing, native);
      seconds += CpuSeconds() - start;
      if (!digest.ok()) {
        fmt::print(stderr, "{}\n", digest.status().ToString());
        return 1;
      }
      round_hash = round_hash * 31 + HashOf(*digest);
      for (const auto& [superblock, times] : digest->executions) executions += times;
      accesses += digest->reads + digest->writes;
      instructions += digest->instructions;
      log_bytes += block->log.size();
      parts.resize(digest->log_parts.size());
      for (size_t p = 0; p < parts.size(); ++p) {
        parts[p].bytes += digest->log_parts[p].bytes;
        parts[p].stored_bytes += digest->log_parts[p].stored_bytes;
      }
      for (const auto& step : digest->steps) {
        step.pages.ForEach([&](const PageChanges::Page&) { ++pages; });
      }
    }
    if (round > 0 && round_hash != hash) {
      fmt::print(stderr, "rounds differ\n");
      return 1;
    }
    hash = round_hash;
    if (round == 0) fmt::print("first round {:.1f} ms\n", seconds * 1e3);
    if (round > 0) best = std::min(best, seconds);
  }
  auto per = [&](uint64_t n) { return best * 1e9 / static_cast<double>(std::max<uint64_t>(n, 1)); };
  fmt::print(
      "{} of {} blocks, {:.1f} M instructions, {:.1f} M executions, {:.1f} M accesses, {} pages\n"
      "{:.1f} ms: {:.2f} ns an execution, {:.2f} ns an access, {:.2f} ns an instruction, "
      "{:.2f} GB of log a second\nhash {:016x}\n",
      blocks.size(), all, static_cast<double>(instructions) / 1e6,
      static_cast<double>(executions) / 1e6, static_cast<double>(accesses) / 1e6, pages, best * 1e3,
      per(executions), per(accesses), per(instructions),
      static_cast<double>(log_bytes) / best / 1e9, hash);
  if (packing == Packing::kPack) {
    fmt::print("{} bytes of log", log_bytes);
    for (size_t p = 0; p < parts.size(); ++p) {
      constexpr const char* kNames[] = {"tokens", "headers", "units"};
      fmt::print(", {} of {} in {}", parts[p].bytes, kNames[p], parts[p].stored_bytes);
    }
    fmt::print("\n");
  }
  return 0;
}

}  // namespace
}  // namespace ttq

int main(int argc, char** argv) { return ttq::Main(argc, argv); }

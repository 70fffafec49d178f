// SPDX-License-Identifier: MIT
//
// How long questions take on a recording that is open already: query_bench TRACE [COUNT]. The
// places and times asked about are drawn from the recording itself: random times, and at each the
// stack and whatever else the registers point to. Prints one line per form: p50 and p99 in
// milliseconds, and the process's peak memory.

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/engine/engine.h"
#include "query/language/parser.h"

namespace ttq {
namespace {

int Fail(const absl::Status& s) {
  fmt::print(stderr, "query_bench: {}\n", std::string(s.message()));
  return 1;
}

// Milliseconds for the whole answer.
absl::StatusOr<double> Ask(const Engine& engine, const std::string& text) {
  auto begin = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(auto query, ParseQuery(text));
  ASSIGN_OR_RETURN(auto stream, engine.Run(query, {}));
  Row row;
  for (;;) {
    ASSIGN_OR_RETURN(auto more, stream->Next(&row));
    if (!more) break;
  }
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

int Main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: query_bench TRACE [COUNT]\n");
    return 2;
  }
  size_t count = argc > 2 ? strtoul(argv[2], nullptr, 10) : 200;
  auto recording = Recording::Open(argv[1]);
  if (!recording.ok()) return Fail(recording.status());
  auto engine = Engine::Open(recording->get(), std::nullopt);
  if (!engine.ok()) return Fail(engine.status());
  const Process& process = (*engine)->process();
  std::mt19937_64 random(1);
  std::map<std::string, std::vector<double>> times;
  for (size_t i = 0; i < count; ++i) {
    Time t(random() % process.info().end.v);
    auto regs = process.RegistersAt(t, std::nullopt);
    auto maps = process.MappingsAt(t);
    if (!regs.ok() || !maps.ok()) continue;
    std::vector<uint64_t> places = {regs->gpr[kRsp] + 8 * (random() % 16)};
    for (uint64_t r : regs->gpr) {
      for (const Mapping& m : *maps) {
        if (m.range.Contains(Address(r))) places.push_back(r & ~uint64_t{7});
      }
    }
    uint64_t place = places[random() % places.size()];
    const std::pair<const char*, std::string> questions[] = {
        {"last write", fmt::format("last write to {:#x} len 8 before {}", place, t.v)},
        {"first write", fmt::format("first write to {:#x} len 8 after {}", place, t.v)},
        {"memory", fmt::format("memory {:#x} len 64 at {}", place, t.v)},
        {"registers", fmt::format("registers at {}", t.v)},
        {"no write", fmt::format("last write to {:#x} len 8 before {}", place + (1ull << 45), t.v)},
    };
    for (const auto& [form, text] : questions) {
      auto ms = Ask(**engine, text);
      if (!ms.ok()) return Fail(ms.status());
      if (i >= count / 10) times[form].push_back(*ms);  // the first tenth warms up
    }
  }
  for (auto& [form, list] : times) {
    std::sort(list.begin(), list.end());
    auto at = [&](double share) {
      return list[std::min(list.size() - 1,
                           static_cast<size_t>(share * static_cast<double>(list.size())))];
    };
    fmt::print("{}: p50 {:.1f} ms, p99 {:.1f} ms, n {}\n", form, at(0.5), at(0.99), list.size());
  }
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("peak memory: {} MiB\n", usage.ru_maxrss / 1024);
  return 0;
}

}  // namespace
}  // namespace ttq

int main(int argc, char** argv) { return ttq::Main(argc, argv); }

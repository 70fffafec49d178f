// SPDX-License-Identifier: MIT
//
// watch_bench RECORDING [WORD...]: the time of a walk over all blocks of the default process that
// watches the given words.

#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "store/read/reader.h"

namespace {

class Counter : public ttq::BlockVisitor {
 public:
  explicit Counter(const std::vector<ttq::Address>& watched) : watched_(watched) {}
  absl::Status Begin(uint32_t, ttq::Moment*, ttq::WordSet* words) override {
    for (const ttq::Address a : watched_) words->Add(a);
    return absl::OkStatus();
  }
  absl::Status Write(const ttq::WatchedWrite&) override {
    ++writes;
    return absl::OkStatus();
  }
  absl::Status SwitchTo(ttq::Time, ttq::ThreadNo) override { return absl::OkStatus(); }
  absl::Status End(ttq::Time) override { return absl::OkStatus(); }
  uint64_t writes = 0;

 private:
  const std::vector<ttq::Address>& watched_;
};

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec) / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: watch_bench RECORDING [WORD...]\n");
    return 2;
  }
  auto recording = ttq::Recording::Open(argv[1]);
  if (!recording.ok()) {
    fprintf(stderr, "%s\n", recording.status().ToString().c_str());
    return 1;
  }
  auto process = (*recording)->Open((*recording)->default_process());
  if (!process.ok()) return 1;
  std::vector<ttq::Address> watched;
  for (int i = 2; i < argc; ++i) watched.emplace_back(strtoull(argv[i], nullptr, 0));
  for (int round = 0; round < 3; ++round) {
    uint64_t writes = 0;
    const double cpu = CpuSeconds();
    const auto start = std::chrono::steady_clock::now();
    const absl::Status s = (*process)->WatchBlocks(
        ttq::TimeSpan(),
        [&](uint32_t) -> std::unique_ptr<ttq::BlockVisitor> {
          return std::make_unique<Counter>(watched);
        },
        [&](std::unique_ptr<ttq::BlockVisitor> visitor) {
          writes += static_cast<Counter*>(visitor.get())->writes;
          return absl::OkStatus();
        },
        nullptr);
    if (!s.ok()) {
      fprintf(stderr, "%s\n", s.ToString().c_str());
      return 1;
    }
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    const auto& info = (*process)->info();
    printf("%.3f s, cpu %.3f s, %.2f ms of cpu per block (%lu blocks), %lu writes\n", wall.count(),
           CpuSeconds() - cpu, 1e3 * (CpuSeconds() - cpu) / static_cast<double>(info.blocks),
           info.blocks, writes);
  }
  return 0;
}

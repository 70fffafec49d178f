// SPDX-License-Identifier: MIT
//
// Threads that only quicken what could be done without them: where the system gives none, it is.

#ifndef TTQ_STORE_THREADS_H_
#define TTQ_STORE_THREADS_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <future>
#include <thread>
#include <vector>

namespace ttq {

// For std::async: where no thread can be had, the work is done when its result is asked for.
inline constexpr std::launch kInThreadIfPossible = std::launch::async | std::launch::deferred;

// How many threads have enough to do: as many as there are processors, eight at most.
inline size_t UsefulThreads() {
  return std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 8);
}

// Calls work(i) for each i in [0, count), on UsefulThreads, this one among them; returns when all
// of it is done.
template <class Work>
void InParallel(size_t count, const Work& work) {
  std::atomic<size_t> next{0};
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  // Those for which there is no thread are never run, and need not be.
  std::vector<std::future<void>> others;
  for (size_t i = 1; i < std::min(count, UsefulThreads()); ++i) {
    others.push_back(std::async(kInThreadIfPossible, run));
  }
  run();
}

}  // namespace ttq

#endif  // TTQ_STORE_THREADS_H_

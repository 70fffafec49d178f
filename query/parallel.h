// SPDX-License-Identifier: MIT

#ifndef TTQ_QUERY_PARALLEL_H_
#define TTQ_QUERY_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <future>
#include <thread>
#include <vector>

namespace ttq {

// Calls work(i) for each i in [0, count), on as many threads as there are processors and eight at
// most, this one among them; returns when all of it is done.
template <class Work>
void InParallel(size_t count, const Work& work) {
  std::atomic<size_t> next{0};
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  const size_t threads =
      std::min<size_t>(count, std::clamp(std::thread::hardware_concurrency(), 1u, 8u));
  // Where no thread can be had none is needed: those that are deferred are never run.
  constexpr auto kIfPossible = std::launch::async | std::launch::deferred;
  std::vector<std::future<void>> others;
  for (size_t i = 1; i < threads; ++i) others.push_back(std::async(kIfPossible, run));
  run();
}

}  // namespace ttq

#endif  // TTQ_QUERY_PARALLEL_H_

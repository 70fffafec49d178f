// SPDX-License-Identifier: MIT
//
// Threads. Most only quicken what could be done without them: where the system gives none, it is.

#ifndef TTQ_BASE_THREADS_H_
#define TTQ_BASE_THREADS_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace ttq {

// The future of work(): where no thread can be had, it is done when its result is asked for. The
// work is copied: libstdc++'s std::async moves from what it is given before it knows that there is
// no thread, and then does what is left of it.
template <class Work>
auto InThreadIfPossible(const Work& work) {
  return std::async(std::launch::async | std::launch::deferred, work);
}

// How many threads have enough to do: as many as there are processors, eight at most.
inline size_t UsefulThreads() {
  return std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 8);
}

// Calls work(i) for each i in [0, count), on UsefulThreads, this one among them; returns when all
// of it is done. Throws what one of them threw.
template <class Work>
void InParallel(size_t count, const Work& work) {
  std::atomic<size_t> next{0};
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::future<void>> others;
  for (size_t i = 1; i < std::min(count, UsefulThreads()); ++i) {
    others.push_back(InThreadIfPossible(run));
  }
  run();
  // For those that had no thread there is nothing left to do.
  for (auto& other : others) other.get();
}

// Makes results in order, ahead of the caller that takes them: one at first, and UsefulThreads at
// once when the caller takes several. The destructor waits for the threads: declare it after the
// objects that they use.
template <class T>
class ReadAhead {
 public:
  // Whether another one should be begun.
  bool wants() const { return jobs_.size() < std::min(taken_ + 1, most_); }
  bool empty() const { return jobs_.empty(); }
  void Begin(const std::function<T()>& work) {
    jobs_.push_back(taken_ == 0 ? std::async(std::launch::deferred, work)
                                : InThreadIfPossible(work));
  }
  // Throws what its work did. REQUIRES: not empty.
  T Take() {
    std::future<T> first = std::move(jobs_.front());
    jobs_.pop_front();
    ++taken_;
    return first.get();
  }

 private:
  const size_t most_ = UsefulThreads();
  size_t taken_ = 0;
  std::deque<std::future<T>> jobs_;
};

// The status of `work`, ResourceExhausted where it runs out of memory: for threads whose end others
// wait for.
template <class Work>
absl::Status WithinMemory(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  }
}

// The same where a full disk is ResourceExhausted, and a library may give up by an exception:
// Unavailable without memory, Internal after any other exception.
template <class Work>
absl::Status Guarded(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return absl::UnavailableError("out of memory");
  } catch (const std::exception& e) {
    return absl::InternalError(e.what());
  }
}

// A thread that does `work`, where there is no doing without; Unavailable when none can be had.
template <class Work>
absl::StatusOr<std::thread> StartThread(Work work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& e) {
    return absl::UnavailableError(absl::StrCat("no thread can be had: ", e.code().message()));
  }
}

}  // namespace ttq

#endif  // TTQ_BASE_THREADS_H_

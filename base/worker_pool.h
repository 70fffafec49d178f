// SPDX-License-Identifier: MIT
//
// Threads that do jobs in the order in which they are given.

#ifndef TTQ_BASE_WORKER_POOL_H_
#define TTQ_BASE_WORKER_POOL_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace ttq {

class WorkerPool {
 public:
  // As many as can be had; no job is done where there is none.
  explicit WorkerPool(size_t threads);
  ~WorkerPool();
  // Why there is no thread at all.
  absl::Status status() const { return threads_.empty() ? problem_ : absl::OkStatus(); }
  size_t size() const { return threads_.size(); }
  template <class F>
  auto Submit(F f) -> std::future<decltype(f())> {
    auto task = std::make_shared<std::packaged_task<decltype(f())()>>(std::move(f));
    auto future = task->get_future();
    {
      std::lock_guard lock(mutex_);
      queue_.emplace_back([task] { (*task)(); });
    }
    wake_.notify_one();
    return future;
  }

 private:
  void Work();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool closing_ = false;
  absl::Status problem_;
  std::vector<std::thread> threads_;
};

}  // namespace ttq

#endif  // TTQ_BASE_WORKER_POOL_H_

// SPDX-License-Identifier: MIT

#include "base/worker_pool.h"

#include "absl/status/statusor.h"
#include "base/threads.h"

namespace ttq {

WorkerPool::WorkerPool(size_t threads) {
  for (size_t i = 0; i < threads && problem_.ok(); ++i) {
    absl::StatusOr<std::thread> thread = StartThread([this] { Work(); });
    if (thread.ok()) {
      threads_.push_back(*std::move(thread));
    } else {
      problem_ = thread.status();
    }
  }
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void WorkerPool::Work() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return closing_ || !queue_.empty(); });
      if (queue_.empty()) return;
      job = std::move(queue_.front());
      queue_.pop_front();
    }
    job();
  }
}

}  // namespace ttq

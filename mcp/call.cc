// SPDX-License-Identifier: MIT

#include "mcp/call.h"

#include <algorithm>

namespace ttq::mcp {

Deadline::Deadline(Call* call, Clock::duration budget)
    : call_(call), end_(Clock::now() + budget), thread_([this] { Wait(); }) {}

Deadline::~Deadline() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Deadline::Shorten(Clock::duration rest) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    end_ = std::min(end_, Clock::now() + rest);
  }
  wake_.notify_all();
}

void Deadline::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!done_ && Clock::now() < end_) wake_.wait_until(lock, end_);
  if (done_) return;
  passed_ = true;
  call_->control()->cancelled = true;
}

}  // namespace ttq::mcp

// SPDX-License-Identifier: MIT
//
// What one call of a tool has: its answer, the client's word that it is not wanted any more, and
// its budget of time.

#ifndef TTQ_MCP_CALL_H_
#define TTQ_MCP_CALL_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "store/read/reader.h"

namespace ttq::mcp {

// What an agent reads. An error is one that it can mend: a bad question, no such recording.
struct ToolResult {
  std::string text;
  bool is_error = false;
};
inline ToolResult Fault(std::string text) { return {std::move(text), true}; }

// Thread-safe.
class Call {
 public:
  // The client does not want the answer any more.
  void Cancel() {
    cancelled_ = true;
    control_.cancelled = true;
  }
  bool cancelled() const { return cancelled_; }
  // For the next part of the work, after a deadline ended the one before.
  void GoOn() {
    control_.cancelled = false;
    if (cancelled_) control_.cancelled = true;
  }
  ScanControl* control() { return &control_; }

 private:
  std::atomic<bool> cancelled_{false};
  ScanControl control_;
};

// Ends the work on a call when its time is over. `call` outlives it.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  Deadline(Call* call, Clock::duration budget);
  ~Deadline();
  Deadline(const Deadline&) = delete;

  // At most this long from now on.
  void Shorten(Clock::duration rest);
  bool passed() const { return passed_; }

 private:
  void Wait();

  Call* const call_;
  std::mutex mutex_;
  std::condition_variable wake_;
  Clock::time_point end_;
  bool done_ = false;
  std::atomic<bool> passed_{false};
  std::thread thread_;
};

}  // namespace ttq::mcp

#endif  // TTQ_MCP_CALL_H_

// SPDX-License-Identifier: MIT
//
// What stands behind the handles of ttq.h. A handle holds a share of its state and of the states it
// stands on, so that handles may be closed in any order.

#ifndef TTQ_CAPI_HANDLES_H_
#define TTQ_CAPI_HANDLES_H_

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "capi/error.h"
#include "capi/ttq.h"
#include "query/engine/engine.h"
#include "query/language/parser.h"
#include "store/read/reader.h"

namespace ttq::capi {

struct RecordingState {
  std::unique_ptr<Recording> recording;
  std::vector<const char*> arguments;
};

struct ProcessState {
  std::shared_ptr<RecordingState> recording;  // outlives the engine
  std::unique_ptr<Engine> engine;
};

// Calls a progress callback from a thread of its own until it is destroyed.
class Monitor {
 public:
  Monitor(const ttq_run_options& options, std::shared_ptr<ScanControl> control);
  ~Monitor();
  Monitor(const Monitor&) = delete;

 private:
  std::shared_ptr<ScanControl> control_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

// The rows of one run. Whoever reads them holds a ResultUse.
struct ResultState {
  std::shared_ptr<ProcessState> process;  // outlives the stream
  std::shared_ptr<ScanControl> control;   // outlives the stream
  std::unique_ptr<ResultStream> stream;
  std::string text;  // the query, for errors
  std::unique_ptr<Monitor> monitor;

  std::atomic<bool> in_use{false};
  Row row;
  bool has_row = false;
  uint64_t rows = 0;
  uint64_t limit = 0;  // 0: none
  bool truncated = false;
  std::optional<Ending> ended;                    // and how
  std::vector<std::optional<std::string>> texts;  // of the row, made when asked for
  bool any_text = false;                          // there is one

  // The next row. REQUIRES: the caller holds the use.
  Ending Next();
};

// One thread at a time.
class ResultUse {
 public:
  explicit ResultUse(ResultState* state)
      : state_(state), held_(!state->in_use.exchange(true, std::memory_order_acquire)) {}
  ~ResultUse() {
    if (held_) state_->in_use.store(false, std::memory_order_release);
  }
  ResultUse(const ResultUse&) = delete;
  bool held() const { return held_; }
  static Ending Busy() { return Ending(TTQ_ERROR_BUSY, "another thread is reading this result"); }

 private:
  ResultState* state_;
  bool held_;
};

// Copies as much of `from` as a caller with an older (shorter) structure knows. False for a size
// that no version has had.
template <class Struct>
bool CopyOut(Struct from, Struct* to) {
  const size_t size = to->size;
  if (size < sizeof(size_t)) return false;
  from.size = size;
  std::memcpy(to, &from, std::min(size, sizeof(Struct)));
  return true;
}
// The same for options: what the caller does not know is zero.
template <class Struct>
std::optional<Struct> CopyIn(const Struct* from) {
  Struct options = {};
  options.size = sizeof(Struct);
  if (from == nullptr) return options;
  if (from->size < sizeof(size_t)) return std::nullopt;
  std::memcpy(&options, from, std::min(from->size, sizeof(Struct)));
  options.size = sizeof(Struct);
  return options;
}
inline Ending BadSize() { return InvalidArgument("the structure's size is not set"); }

}  // namespace ttq::capi

struct ttq_recording {
  std::shared_ptr<ttq::capi::RecordingState> state;
};

struct ttq_process {
  std::shared_ptr<ttq::capi::ProcessState> state;
};

struct ttq_query {
  std::shared_ptr<ttq::capi::ProcessState> process;
  std::string text;
  std::vector<ttq::Parameter> parameters;
  std::vector<ttq::ParameterValue> values;  // one per parameter
  std::string explanation;

  std::mutex mutex;                           // guards what follows
  std::shared_ptr<ttq::ScanControl> running;  // of the last run
};

struct ttq_result {
  std::shared_ptr<ttq::capi::ResultState> state;
};

#endif  // TTQ_CAPI_HANDLES_H_

// SPDX-License-Identifier: MIT
//
// All Python frames of a process over its whole life: when each was entered and left, by which
// thread, how, and from where. Made by one parallel scan of the recording (query/cpython/
// transitions.h), and kept in a file of the recording: as much of it as there is time for at the
// end of recording, the rest when a question first needs it. A newer ttq finds more in an old
// recording. docs/store-format.md describes the file. It is made anew when it is damaged, of
// another version or of another recording, and is not written while the recording is still being
// made.
//
// What it holds is cut into chunks, one per block, each with the stacks at its start: any question
// about a time decodes one chunk. Chunks are made in order of time, by threads of the history's
// own: a question goes on with those that are there, and waits for others.
//
// Thread-safe. Chunks and codes, once there, do not change.

#ifndef TTQ_QUERY_CPYTHON_FRAME_HISTORY_H_
#define TTQ_QUERY_CPYTHON_FRAME_HISTORY_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/transitions.h"
#include "store/read/reader.h"

namespace ttq::python {

struct Transition {
  Time time;  // of the write that made it
  ThreadNo thread;
  TransitionKind kind = TransitionKind::kCall;
  uint64_t thread_state = 0;
  // A frame's address is soon another's: with the time it was entered at it is this one's alone.
  uint64_t frame = 0;
  Time pushed;
  uint32_t code = kNoCode;
  int64_t offset = 0;  // of its instruction in its code, bytes; before the first: see LineAt
  uint32_t depth = 0;  // frames below it
  // The frame below; none: caller_code is kNoCode. caller_offset only where it is entered.
  uint64_t caller_frame = 0;
  Time caller_pushed;
  uint32_t caller_code = kNoCode;
  int64_t caller_offset = 0;

  // The first moment at which the frame is its thread's current one. REQUIRES: Enters(kind)
  Time current_from() const { return time + 1; }
};

class FrameHistory {
 public:
  // Loads it, or begins to make it; both outlive it. NotFound when the process has no CPython whose
  // data structures are known; the message says which it has.
  static absl::StatusOr<std::shared_ptr<const FrameHistory>> Of(const Recording& recording,
                                                                const Process& process);
  // The same, once all of it is there; `control` as for any scan, may be null.
  static absl::StatusOr<std::shared_ptr<const FrameHistory>> Whole(const Recording& recording,
                                                                   const Process& process,
                                                                   ScanControl* control);
  // Continues to make the history for at most `longest` and saves the result. A process without
  // CPython is no error.
  static absl::Status MakeFor(const Recording& recording, const Process& process,
                              std::chrono::nanoseconds longest);
  // Stops making the history. Saves the part that exists if it took long to make.
  ~FrameHistory();
  FrameHistory(const FrameHistory&) = delete;
  FrameHistory& operator=(const FrameHistory&) = delete;

  // Whether a file has all of the history, so that Of only reads it.
  static bool IsKept(const Recording& recording, const Process& process);

  // Waits until the first `count` chunks exist, and all code objects that they enter. After
  // Wait(chunks()) the functions below do not wait. Cancelled when `control` says so, which may be
  // null; otherwise the error that the making thread met.
  absl::Status Wait(size_t count, ScanControl* control) const;
  absl::Status WaitForAll(ScanControl* control) const { return Wait(chunks(), control); }
  // Waits until the chunk that holds time t exists.
  absl::Status WaitUntil(Time t, ScanControl* control) const;
  bool complete() const { return ready_.load(std::memory_order_acquire) == chunks_.size(); }

  // Whether it was read from its file.
  bool from_file() const { return from_file_; }
  // REQUIRES: complete.
  uint64_t transitions() const;

  // Those there are by now.
  size_t codes() const { return codes_.size(); }
  const Code& code(uint32_t id) const { return codes_.at(id).code; }
  const Layout& layout_of(uint32_t code) const { return layouts_[codes_.at(code).runtime]; }
  // 0: none is known.
  int LineOf(uint32_t code, int64_t offset) const;
  // Where its frame is: of a call the function's first line.
  int LineOf(const Transition& transition) const;

  // How many there will be, whether or not they are there yet.
  size_t chunks() const { return chunks_.size(); }
  TimeSpan ChunkSpan(size_t chunk) const { return {chunks_[chunk].begin, chunks_[chunk].end}; }
  // The chunks that overlap `span`: [first, last).
  std::pair<size_t, size_t> ChunksOf(TimeSpan span) const;

  // What follows REQUIRES that the chunks it is about are there.

  // Whether a frame of one of these codes (sorted) is entered in it.
  bool ChunkEnters(size_t chunk, const std::vector<uint32_t>& codes) const;
  absl::StatusOr<std::shared_ptr<const std::vector<Transition>>> Chunk(size_t chunk) const;
  struct ActiveFrame {
    uint64_t frame = 0;
    Time pushed;
    uint32_t code = kNoCode;
  };
  struct Stack {
    uint64_t thread_state = 0;
    ThreadNo thread;
    std::vector<ActiveFrame> frames;
  };
  // At its start, outermost frames first.
  const std::vector<Stack>& ChunkStacks(size_t chunk) const { return chunks_[chunk].stacks; }

  // When the frame of `entered` is left (a generator's: suspended or left; of a greenlet's, while
  // it is suspended its frames are not left); nullopt: it never is. Waits for the chunk that tells.
  absl::StatusOr<std::optional<Transition>> EndOf(const Transition& entered,
                                                  ScanControl* control) const;
  // The frames of a thread before instruction t, outermost first. `thread_state` gets the thread
  // state they belong to.
  absl::StatusOr<std::vector<ActiveFrame>> StackAt(ThreadNo thread, Time t,
                                                   uint64_t* thread_state = nullptr) const;

  // The innermost of them; nullopt: the thread runs no Python then.
  absl::StatusOr<std::optional<ActiveFrame>> InnermostAt(ThreadNo thread, Time t) const;

  // Spans of time in which the innermost frame of a thread is one of `codes`, in order.
  struct Run {
    TimeSpan span;
    ThreadNo thread;
    ActiveFrame frame;
  };
  absl::StatusOr<std::vector<Run>> RunsOf(const std::vector<uint32_t>& codes, TimeSpan span) const;

 private:
  struct ChunkData {
    Time begin, end;
    uint64_t count = 0;
    std::vector<uint32_t> codes;  // entered, sorted
    std::vector<Stack> stacks;    // at begin
    std::string encoded;          // of the transitions, compressed
  };
  struct Decoded {
    size_t chunk;
    std::shared_ptr<const std::vector<Transition>> transitions;
  };
  class Builder;
  using Deadline = std::chrono::steady_clock::time_point;

  FrameHistory() = default;
  // When it is left or suspended.
  absl::StatusOr<std::optional<Transition>> ActivationEndOf(const Transition& entered,
                                                            ScanControl* control) const;
  // Where the frame goes on that was suspended; nullopt: nowhere.
  absl::StatusOr<std::optional<Transition>> SwitchInOf(const Transition& suspended,
                                                       ScanControl* control) const;
  // Reads the part that its file has; the caller makes the rest.
  static absl::StatusOr<std::shared_ptr<FrameHistory>> Begin(const Recording& recording,
                                                             const Process& process);
  // The chunk that holds time t; nullopt: t is before all of them.
  std::optional<size_t> ChunkAt(Time t) const;
  // Gives all chunks their times.
  void Prepare(const Process& process);
  // Makes the chunks that are missing, then writes the file; cancelled, or DeadlineExceeded, of
  // those that there was time for.
  absl::Status Make(const Recording& recording, const Process& process, Deadline deadline);
  std::string Serialize(uint64_t recording_key) const;
  absl::Status Parse(std::string_view file, uint64_t recording_key);

  CodeTable codes_;
  std::vector<Layout> layouts_;  // by runtime
  std::vector<std::pair<int, bool>> versions_;
  std::vector<ChunkData> chunks_;  // as many as there will be
  bool from_file_ = false;

  std::vector<Runtime> runtimes_;  // those to follow, while it is made
  size_t done_ = 0;                // chunks that are made, and
  std::vector<ThreadStack> now_;   // where the last of them ends: for who makes the next
  std::future<void> maker_;
  ScanControl making_;
  std::atomic<size_t> ready_{0};  // chunks that are there

  mutable std::mutex mutex_;  // guards what follows
  mutable std::condition_variable changed_;
  absl::Status made_;                 // once it is not OK: why there will be no more
  mutable std::list<Decoded> cache_;  // most recently used first
};

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_FRAME_HISTORY_H_

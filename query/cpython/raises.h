// SPDX-License-Identifier: MIT
//
// Exceptions that went through Python code: where each was raised, which frames it went through,
// and where it was caught.
//
// The source are the words of a thread state that hold the current exception. When the
// interpreter's loop finds an exception there, it takes it out, puts the frame in front of its
// traceback and sets it again (PyTraceBack_Here). sys.settrace reports that as an `exception`
// event, once for each frame. An exception that C sets and clears, as hasattr does, never gets a
// traceback and is not reported; nor is the StopIteration of an iterator in C that ends a loop.
//
// A *raise* is everything that happens to an exception from there on: `raise` without an exception,
// `finally` and `with` go on with it, `raise e` is another one. It ends where it is caught for
// good: in a function without such a `raise` that is where a clause matched, elsewhere where the
// frame is left in another way. C code that clears an exception has caught it once the frame that
// called it goes on.
//
// A scanner goes forward and belongs to one thread.

#ifndef TTQ_QUERY_CPYTHON_RAISES_H_
#define TTQ_QUERY_CPYTHON_RAISES_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "query/cpython/exceptions.h"
#include "query/cpython/transitions.h"
#include "store/read/reader.h"

namespace ttq::python {

enum class RaisedBy : uint8_t { kUnknown, kRaise, kC, kThrow };  // kThrow: into a generator
const char* RaisedByName(RaisedBy by);

struct Raise {
  // When it was set; where another frame was entered since, when that frame had it.
  Time time;
  ThreadNo thread;
  Address pc;
  uint64_t frame = 0;
  TracebackEntry place;
  RaisedBy by = RaisedBy::kUnknown;
  std::shared_ptr<const RaisedException> exception;  // null: not known
  std::vector<TracebackEntry> traceback;             // when it ended; the outermost first
  struct Caught {
    Time time;  // kTimeMax: not known
    TracebackEntry place;
    bool in_c = false;  // by C code that `place` called
  };
  std::optional<Caught> caught;
  bool left_python = false;  // it left the outermost frame
  // Nothing is known of it before the scanned span.
  bool begun_before = false;
};

class RaiseScanner {
 public:
  // Those raised in `span`. Both outlive it. NotFound as of RuntimesEver. `control` may be null.
  static absl::StatusOr<std::unique_ptr<RaiseScanner>> Open(const Recording& recording,
                                                            const Process& process, TimeSpan span,
                                                            std::optional<ThreadNo> thread,
                                                            ScanControl* control);
  // The next one, in order of time; nullopt at the end.
  absl::StatusOr<std::optional<Raise>> Next();

 private:
  struct Mark;
  class Visitor;
  struct ExceptionState;
  struct Flight;
  struct Node;

  RaiseScanner(const Process& process, TimeSpan span, std::optional<ThreadNo> thread,
               ScanControl* control)
      : process_(process), span_(span), thread_(thread), control_(control) {}
  absl::Status Advance();
  absl::Status Take(std::unique_ptr<BlockVisitor> taken);
  void Follow(const Mark& mark);
  void FollowRaised(const Mark& mark);
  void FollowLeft(const Mark& mark);
  void Close(const std::shared_ptr<Flight>& flight);
  std::shared_ptr<Flight> FlightOf(uint64_t traceback) const;
  TracebackEntry EntryOf(uint32_t code, int64_t offset) const;
  Raise Finish(const Flight& flight) const;

  const Process& process_;
  const TimeSpan span_;
  const std::optional<ThreadNo> thread_;
  ScanControl* control_;
  std::vector<Runtime> runtimes_;
  CodeTable codes_;

  std::vector<Time> blocks_;  // where each begins, with what is not indexed before them
  size_t unindexed_ = 0;      // entries that are no block
  size_t next_block_ = 0, window_ = 1;
  // Where the last block ended.
  std::shared_ptr<const std::vector<ThreadStack>> stacks_;
  std::shared_ptr<const absl::flat_hash_map<uint64_t, ExceptionState>> states_;
  bool is_quiet_ = true;

  absl::flat_hash_map<uint64_t, std::shared_ptr<const Node>> nodes_;  // by traceback
  std::vector<std::shared_ptr<Flight>> open_;
  std::deque<std::shared_ptr<Flight>> flights_;  // in order, those that were not given yet
};

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_RAISES_H_

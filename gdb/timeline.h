// SPDX-License-Identifier: MIT
//
// Where a debugger stands in the history of a process, and how it moves: steps, breakpoints and
// watchpoints in both directions. Nothing is executed: the next stop is looked up in the indexes of
// the recording, so that its cost does not grow with the distance.
//
// Belongs to one thread.

#ifndef TTQ_GDB_TIMELINE_H_
#define TTQ_GDB_TIMELINE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/read/reader.h"

namespace ttq::gdb {

// A place in the history. The store knows one state for each time; debuggers also stop for signals,
// which lie between two of them.
struct Position {
  enum class Phase : uint8_t {
    // The kernel is about to enter a signal's handler, whose first instruction has this time: the
    // interrupted registers come from the signal's frame, all else is the state at this time.
    kBeforeHandler,
    kAt,  // the state at this time
    // The same state, after a stop for a signal: the one that the next instruction raises, or one
    // that no handler gets.
    kSignalled,
  };
  Time time;
  Phase phase = Phase::kAt;
  auto operator<=>(const Position&) const = default;
};

struct Watchpoint {
  enum class Kind : uint8_t { kWrite, kRead, kAccess };
  Kind kind = Kind::kWrite;
  AddressRange range;
  auto operator<=>(const Watchpoint& other) const {
    return std::tuple(kind, range.begin, range.end) <=>
           std::tuple(other.kind, other.range.begin, other.range.end);
  }
  bool operator==(const Watchpoint&) const = default;
};

// Why the process stands still.
struct Stop {
  enum class Reason : uint8_t {
    kStep,  // a step is done; also: nothing in particular
    kBreakpoint,
    kWatchpoint,
    kSignal,
    kBegin,  // the recording begins
    kEnd,    // … ends
    kInterrupted,
  };
  Reason reason = Reason::kStep;
  ThreadNo thread;
  bool hardware = false;       // kBreakpoint
  int signal = 0;              // kSignal: Linux's number
  uint64_t fault_address = 0;  // kSignal
  Address address;             // kWatchpoint: the first byte of the range that was touched
  Watchpoint::Kind kind = Watchpoint::Kind::kWrite;
};

struct Resume {
  Direction direction = Direction::kForward;
  // This thread makes one step: an instruction of its own, or as many as stay inside the range.
  std::optional<ThreadNo> step;
  AddressRange range;
  // Only what this thread does stops.
  std::optional<ThreadNo> only;
};

class Timeline {
 public:
  // Stands at the crash of the process, or at its beginning. `process` must outlive this object.
  // FailedPrecondition when nothing was recorded of it.
  static absl::StatusOr<std::unique_ptr<Timeline>> Create(const Process* process);

  const Process& process() const { return process_; }
  const Position& now() const { return now_; }
  const Stop& stop() const { return stop_; }

  // OutOfRange past the end.
  absl::Status Seek(Time t);
  // Goes to the next stop and gives it. When `control` is cancelled it stays where it is. After
  // an error too.
  absl::StatusOr<Stop> Go(const Resume& resume, ScanControl* control);

  // The state here. NotFound for a thread that does not live.
  absl::StatusOr<Registers> RegistersOf(ThreadNo thread);
  absl::StatusOr<uint64_t> Read(Address begin, uint64_t size, void* out);
  std::vector<Thread> Threads();
  bool IsAlive(ThreadNo thread);

  // Conditions: agent expressions; one that is true, or cannot be evaluated, stops. No condition:
  // always.
  void Insert(Address breakpoint, bool hardware, std::vector<std::string> conditions);
  void Remove(Address breakpoint, bool hardware);
  void Insert(const Watchpoint& watchpoint) { watchpoints_.insert(watchpoint); }
  void Remove(const Watchpoint& watchpoint) { watchpoints_.erase(watchpoint); }
  // Signals, by Linux's numbers, that do not stop.
  void Pass(std::set<int> signals) { passed_ = std::move(signals); }

  // The signal of the stop at the current position, if it was one.
  absl::StatusOr<std::optional<Event>> SignalHere();

 private:
  // A place to stop at. Of several the nearest wins, of equals the first that was found.
  struct Candidate {
    Position at;
    Stop stop;
  };

  explicit Timeline(const Process* process) : process_(*process) {}

  Position First() const { return {}; }
  Position Last() const;
  // Where a step ends; nullopt: the thread executes nothing more, or did nothing before.
  absl::StatusOr<std::optional<Position>> StepForward(const Resume& resume, ScanControl* control);
  absl::StatusOr<std::optional<Position>> StepBackward(ThreadNo thread, ScanControl* control);

  // Each replaces `nearest` by what comes before it.
  absl::Status FindBreakpoint(const Resume& resume, ScanControl* control, Candidate* nearest);
  absl::Status FindWatchpoint(const Resume& resume, const Watchpoint& watchpoint,
                              ScanControl* control, Candidate* nearest);
  absl::Status FindSignal(const Resume& resume, Candidate* nearest);
  // Of executions in the order of travel the first that stops; null: none does.
  absl::StatusOr<const Execution*> FirstThatStops(const std::vector<Execution>& executions,
                                                  Direction direction);
  absl::StatusOr<bool> Stops(const Execution& execution);

  // Where a debugger stops for a signal.
  absl::StatusOr<Position> PositionOf(const Event& signal);
  // Whether its handler begins at its time, with a frame that is understood.
  absl::StatusOr<bool> EntersHandler(const Event& signal);
  absl::StatusOr<Registers> Interrupted(const Event& signal);
  absl::StatusOr<std::vector<Event>> SignalsAt(Time t);

  const Process& process_;
  std::unique_ptr<Moment> moment_;
  Position now_;
  Stop stop_;
  // By address and whether it counts as a hardware one: the conditions.
  std::map<std::pair<Address, bool>, std::vector<std::string>> breakpoints_;
  std::set<Watchpoint> watchpoints_;
  std::set<int> passed_;
};

}  // namespace ttq::gdb

#endif  // TTQ_GDB_TIMELINE_H_

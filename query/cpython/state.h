// SPDX-License-Identifier: MIT
//
// Python in a process at a time, put together: its runtimes, its interpreters, which thread runs
// what. What queries ask for a stack, a variable or an object stands on this.
//
// Belongs to one thread; must not outlive the process and the recording.

#ifndef TTQ_QUERY_CPYTHON_STATE_H_
#define TTQ_QUERY_CPYTHON_STATE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/frames.h"
#include "query/cpython/memory.h"
#include "query/cpython/objects.h"
#include "query/cpython/runtime.h"
#include "query/process/system_call.h"
#include "store/read/reader.h"

namespace ttq::python {

class PythonState {
 public:
  // One runtime with what reads it.
  struct Instance {
    explicit Instance(Runtime r, Memory* memory)
        : runtime(std::move(r)), objects(memory, *runtime.layout), frames(&objects) {}
    Runtime runtime;
    ObjectReader objects;
    FrameReader frames;
  };
  struct ThreadStack {
    Instance* instance = nullptr;
    Interpreter interpreter;
    ThreadState state;
    Stack stack;
  };

  static absl::StatusOr<std::unique_ptr<PythonState>> At(const Recording* recording,
                                                         const Process* process, Time t);
  // Everything that was given before is of the earlier time and must not be used any more.
  absl::Status MoveTo(Time t);
  Time time() const { return moment_->time(); }
  const Process& process() const { return *process_; }
  Moment& moment() { return *moment_; }
  MomentMemory& memory() { return *memory_; }

  // Those whose data structures are known.
  const std::vector<std::unique_ptr<Instance>>& instances() const { return instances_; }
  // Why there are none, or why one is not among them; "".
  const std::string& problem() const { return problem_; }

  // The interpreters alive, their thread states with the threads they belong to.
  std::vector<Interpreter> Interpreters(const Instance& instance);
  // The stacks of the thread states that belong to `thread`: usually one, none for a thread that
  // runs no Python, several where it is between sub-interpreters. Those without frames are left out
  // unless all are. Default: every thread's, those of no recorded thread too.
  std::vector<ThreadStack> Stacks(std::optional<ThreadNo> thread);
  // What the thread of `stack` waits for in the kernel: "sleeps (clock_nanosleep)", "waits for the
  // GIL", "waits for a lock (futex 0x…)"; "" when it is not in a system call that can wait.
  std::string WaitsFor(const ThreadStack& stack);
  // The stack that `thread` runs: the innermost of its Stacks. nullopt: it runs no Python.
  std::optional<ThreadStack> StackOf(ThreadNo thread);

 private:
  PythonState(const Recording* recording, const Process* process, std::unique_ptr<Moment> moment);
  absl::Status Find();
  bool AllAlive() const;
  void MatchByPthread(std::vector<Interpreter>* interpreters);
  std::optional<FrameReader::WordWrite> LastWrite(uint64_t word);
  bool IsOfGil(const ThreadStack& stack, uint64_t futex);

  const Recording* recording_;
  const Process* process_;
  std::unique_ptr<Moment> moment_;
  std::unique_ptr<MomentMemory> memory_;
  std::optional<OpenCalls> calls_;  // once they are asked for
  std::vector<std::unique_ptr<Instance>> instances_;
  std::string problem_;
  // While the modules stay, what Find found stays true after a time, and before it as long as the
  // interpreters are there.
  Time valid_from_{0}, valid_until_{0};
};

// "Python 3.11.7", "Python 3.13.0 free-threaded"; for a runtime that is not known too.
std::string VersionText(const Runtime& runtime);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_STATE_H_

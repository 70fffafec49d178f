// SPDX-License-Identifier: MIT
//
// What a thread that stands in the kernel waits for, in Python's words: the lock of the module
// threading, by the name that the program gives it, who holds it, and what of the library waits
// for it (`Queue.get`, `Event.wait`, `Thread.join`).
//
// A lock is known by the semaphore in it, which is the word that the thread waits on: up to 3.13.
// An RLock names its owner. The holder of a plain lock is found if it is inside `with lock:`, by
// the exception table of its code, from 3.11 on.
//
// Belongs to one thread and to the time of its PythonState.

#ifndef TTQ_QUERY_CPYTHON_LOCKS_H_
#define TTQ_QUERY_CPYTHON_LOCKS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "query/cpython/state.h"

namespace ttq::python {

struct LockWait {
  std::string kind;  // "lock", "RLock", "queue", "event", "join", …
  std::string what;  // "lock_a (_thread.lock at 0x7f…)", "Queue.get of self.jobs"
  std::optional<ThreadNo> owner;
};

class LockFinder {
 public:
  explicit LockFinder(PythonState* state) : state_(*state) {}

  // What `thread`, which waits on the word at `futex`, waits for. nullopt: it runs no Python, or
  // that is nothing of Python's.
  std::optional<LockWait> Find(ThreadNo thread, uint64_t futex);

 private:
  using ThreadStack = PythonState::ThreadStack;

  // The lock object that `object` is, or whose method it is; 0: none.
  uint64_t LockOf(ObjectReader& objects, uint64_t object);
  uint64_t LockWithWord(const ThreadStack& stack, uint64_t futex);
  std::string NameOf(const ThreadStack& stack, size_t first_frame, uint64_t object);
  std::optional<LockWait> InLibrary(const ThreadStack& stack);
  std::optional<ThreadNo> WithIdent(uint64_t ident);
  void FindHolders();

  PythonState& state_;
  bool holders_known_ = false;
  std::map<uint64_t, ThreadNo> holders_;  // by lock object
};

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_LOCKS_H_

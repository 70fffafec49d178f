// SPDX-License-Identifier: MIT
//
// asyncio's tasks that wait: where each is, what it awaits, who awaits it, and circles of them.
//
// Tasks are those of the module asyncio.tasks, made in C (`_asyncio.Task`) or a class that inherits
// from that. The coroutines' frames and the futures show what they await.

#ifndef TTQ_QUERY_CPYTHON_TASKS_H_
#define TTQ_QUERY_CPYTHON_TASKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "query/cpython/state.h"

namespace ttq::python {

struct TaskWait {
  uint64_t task = 0;
  std::string name;                // "Task-2", or as the program calls it
  ThreadNo thread;                 // that runs its loop; 0: not known
  std::string at;                  // "worker() at app.py:12", of its own coroutine
  std::string awaits;              // "Task-3, Task-4", "Event.wait() at locks.py:213"
  std::vector<size_t> awaited;     // those of them that are tasks: indexes of the result
  bool needs_all = true;           // and not one of them alone
  std::vector<size_t> awaited_by;  // indexes of the result
  std::string cycle;               // "deadlock: Task-2 → Task-3 → Task-2"; empty: none
};

// In the order of their addresses. `missing` gets a sentence where there may be more.
std::vector<TaskWait> FindTaskWaits(PythonState& state, std::string* missing);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_TASKS_H_

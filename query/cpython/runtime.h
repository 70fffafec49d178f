// SPDX-License-Identifier: MIT
//
// Finding CPython in a process: its runtime (`_PyRuntime`), its version, its interpreters and their
// thread states, from memory at a time.
//
// `_PyRuntime` is exported by every executable and library that contains CPython, stripped or not:
// it is looked up in the dynamic symbols as the loader does. Where they are hidden, the section
// .PyRuntime, the symbol table or the cookie at the head of _Py_DebugOffsets gives it away. What is
// found is believed only when its interpreters and thread states point at each other.

#ifndef TTQ_QUERY_CPYTHON_RUNTIME_H_
#define TTQ_QUERY_CPYTHON_RUNTIME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/layout.h"
#include "query/cpython/memory.h"
#include "store/read/reader.h"

namespace ttq::python {

struct Runtime {
  uint64_t address = 0;  // of _PyRuntime
  std::string module;    // path of the file it is in
  uint64_t load_bias = 0;
  AddressRange range;  // of the module
  int major = 0, minor = 0;
  std::string version;  // "3.11.7"; "3.10" where the patch level is not known (yet)
  bool free_threaded = false;
  // Null when its data structures are not known; then `problem` says why.
  std::optional<Layout> layout;
  std::string problem;
};

struct ThreadState {
  uint64_t address = 0;
  uint64_t interpreter = 0;
  uint64_t pthread = 0;    // pthread_self() of its thread
  uint64_t native_id = 0;  // its kernel thread id; 0: not known
  ThreadNo thread;         // of the recording; 0: none has this id
};

struct Interpreter {
  uint64_t address = 0;
  int64_t id = 0;
  std::vector<ThreadState> threads;  // the newest first
};

// The address of an exported symbol of the module whose file header is mapped at `begin`, looked up
// in its dynamic symbols as they are in memory; 0: none.
uint64_t FindExported(Memory& memory, const LoadedModule& module, std::string_view symbol);

// Whether a module of which these are all bytes may be one that FindRuntimes finds one in; false is
// certain. Far quicker.
bool MayHoldRuntime(absl::Span<const uint8_t> file);

// Every CPython runtime in the modules mapped at t, the time `memory` is at. Empty: none.
// `recording` gives the files of modules whose dynamic symbols do not tell; may be null.
absl::StatusOr<std::vector<Runtime>> FindRuntimes(const Recording* recording,
                                                  const Process& process, Memory& memory, Time t);

// The runtimes ever in the process whose data structures are known. NotFound: there is none; the
// message says which it has.
absl::StatusOr<std::vector<Runtime>> RuntimesEver(const Recording& recording,
                                                  const Process& process);

// Why there is no Python at t: "no module of this process is CPython", "… is loaded later, at 123".
std::string DescribeNoRuntime(const Process& process, Time t);

// The interpreters alive in `runtime`, the newest first. Empty before Py_Initialize and after
// Py_Finalize. REQUIRES: runtime.layout.
std::vector<Interpreter> FindInterpreters(const Process& process, Memory& memory,
                                          const Runtime& runtime);

// Whether an interpreter of `runtime` has a thread state, so that its layout is seen to be the
// right one. Not while the first interpreter is being made or the last one taken apart. REQUIRES:
// runtime.layout.
bool IsAlive(Memory& memory, const Runtime& runtime);

// Py_Finalize has begun. REQUIRES: runtime.layout.
bool IsFinalizing(Memory& memory, const Runtime& runtime);
// The thread state that holds the GIL of the interpreter; 0: none, or there is no GIL.
// REQUIRES: runtime.layout.
uint64_t GilHolder(Memory& memory, const Runtime& runtime, const Interpreter& interpreter);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_RUNTIME_H_

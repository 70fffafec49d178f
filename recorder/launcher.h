// SPDX-License-Identifier: MIT
//
// Starts a program under the native engine or Valgrind, finds the rings that the processes of its
// tree create, and hands each to the caller, who reads it on a thread of its own.

#ifndef TTQ_RECORDER_LAUNCHER_H_
#define TTQ_RECORDER_LAUNCHER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/ring.h"

namespace ttq {

// What runs the program and fills the rings. See docs/engine.md.
enum class RecorderKind { kValgrind, kNative };

struct LaunchOptions {
  std::vector<std::string> command;  // program, arguments
  std::string tool_directory;        // holds what engines are; see FindToolDirectory
  RecorderKind recorder = RecorderKind::kNative;
  bool verify = false;
  bool records_inputs = false;  // nothing else; natively
  std::string files;            // of a second run: copies of what was mapped (recorder/inputs.h)
  std::string inputs;      // a file (recorder/inputs.h): run that again, natively, not the command
  std::string code_cache;  // how the names of kept translations begin (code_cache.h); empty: none
  uint64_t block_bytes = 4 << 20;
  uint32_t block_count = 12;
};

struct LaunchResult {
  int status = 0;        // as a shell gives it: exit status, or 128 + signal
  int signal = 0;        // 0: it exited
  std::string tool_log;  // what Valgrind and the tool had to say
};

using OnRing = std::function<void(absl::StatusOr<std::shared_ptr<Ring>>)>;

// Where ttq-amd64-linux, the Valgrind tool, and ttq-engine, the native engine, are: libexec/ttq
// beside this executable's or library's directory, or in its build tree. NotFound names the places
// looked at.
absl::StatusOr<std::string> FindToolDirectory();

// The program's path by execvp's rules. NotFound, or PermissionDenied when it may not be run; a
// set-user-id program is FailedPrecondition when the caller is not that user.
absl::StatusOr<std::string> FindProgram(const std::string& name);

// Runs the command to its end and until every process it started has ended. `on_ring` is called
// on this thread for each new process (or exec) and must not block; the ring must be consumed, or
// the program stands still. An error says why a ring cannot be had, and is the last call: what is
// not consumed goes on unrecorded. `all_consumed` is called ten times a second or more, and tells
// whether every ring handed out has come to its end. Ctrl-C goes to the program, not to the caller.
//
// A recorder that is killed leaves a directory in /dev/shm; the next call takes it away.
absl::StatusOr<LaunchResult> Launch(const LaunchOptions& options, const OnRing& on_ring,
                                    const std::function<bool()>& all_consumed);

// In the middle of Launch, on any thread: lets all programs go on unrecorded, and waits until the
// first of them has ended. Allocates nothing. The caller ends this process.
void LetProgramsGo();

// Whether Ctrl-C was pressed twice within two seconds since the last Launch began.
bool InterruptedTwice();
// Whether Ctrl-C was pressed since the last Launch began.
bool Interrupted();

}  // namespace ttq

#endif  // TTQ_RECORDER_LAUNCHER_H_

// SPDX-License-Identifier: MIT
//
// The plain structures that describe a recording, its processes, their threads and events. Writers
// and readers share them.

#ifndef TTQ_STORE_FORMAT_RECORDED_H_
#define TTQ_STORE_FORMAT_RECORDED_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace ttq {

struct RecordingInfo {
  std::string path;  // directory
  std::string name;
  uint32_t store_version = 0;
  std::vector<std::string> command;
  std::string working_directory;
  std::string host, recorder_version;
  int64_t start_wall_ns = 0;
  bool finished = false;  // the recorder closed it; false: still being made, or cut off
  uint64_t bytes_on_disk = 0;
};

struct ProcessInfo {
  ProcessNo number;
  ProcessNo parent;      // 0: none
  bool by_exec = false;  // replaced `parent` in the same pid
  uint32_t pid = 0;
  std::string program;
  std::vector<std::string> arguments;
  std::string working_directory;
  Time end;  // instructions retired
  // What of that there is a history of. Threads, events and mappings are known of all of it.
  TimeSpan indexed;
  std::optional<Time> crash;       // the time of the instruction that raised the fatal signal
  int fatal_signal = 0;            // 0: none
  std::optional<int> exit_status;  // when it exited by itself
  int64_t start_wall_ns = 0, end_wall_ns = 0;
  uint64_t blocks = 0, writes = 0, reads = 0, log_bytes = 0;
  bool complete = true;
  std::string incomplete_reason;  // one clause, when !complete

  bool is_indexed() const { return indexed == TimeSpan(); }
};

// Why a process that somebody still records is incomplete.
constexpr char kBeingRecorded[] = "the recording is still being made";

// Of signals that end a process, those that say that it went wrong, not that somebody ended it.
bool IsCrash(int signal);

// The one that a question is about unless it says another: that died by a fault, else by a signal,
// else what the first pid became at last. `all`: in order of their numbers; 0 where there is none.
ProcessNo DefaultProcess(const std::vector<ProcessInfo>& all);

struct Thread {
  ThreadNo number;
  uint32_t os_tid = 0;
  Time start, end = kTimeMax;  // first instruction; the time it ended, kTimeMax if it never did
  uint64_t instructions = 0;
};

// What changed or read memory.
enum class Actor : uint8_t {
  kInstruction = 0,  // stored: do not renumber
  kSyscall = 1,      // the kernel, on behalf of the system call `syscall` of `thread`
  kSignal = 2,       // the kernel, building a signal frame
  kMap = 3,          // a mapping laid over memory that had content before (mmap, mremap, brk)
  kThreadExit = 4,   // the kernel, clearing the thread id word of a thread that ended
};

enum class EventKind : uint8_t {
  kSignal = 1,  // stored: do not renumber
  kSyscall = 2,
  kThread = 3,
  kMap = 4,
  kModule = 5,
  kOutput = 6,
  kFork = 7,
  kExec = 8,
  kExit = 9,
  kMark = 10,
};
// Their names, by number.
inline constexpr std::array kEventKindNames = {
    "", "signal", "syscall", "thread", "map", "module", "output", "fork", "exec", "exit", "mark"};
const char* EventKindName(EventKind kind);
std::optional<EventKind> EventKindFromName(std::string_view name);

struct Event {
  Time time;
  uint32_t sequence = 0;  // orders events of one time
  ThreadNo thread;
  Address pc;
  EventKind kind = EventKind::kMark;
  std::string detail;  // one line for people: "write(1, …, 12) = 12", "SIGSEGV at 0x0"
  std::string bytes;   // output: the bytes written
  int64_t number = 0;  // syscall number, signal number, child pid, exit status
  int64_t result = 0;  // syscall result (negative errno)
  std::array<uint64_t, 6> args{};  // syscall arguments; [0] fault address of a signal; fd of output
  int64_t wall_ns = 0;  // CLOCK_REALTIME, nanoseconds since the epoch; 0 when not sampled
};

// "read", "mmap", …; "syscall_999" for one it does not know.
std::string SyscallName(int64_t number);
// "SIGSEGV", …
std::string SignalName(int64_t number);

}  // namespace ttq

#endif  // TTQ_STORE_FORMAT_RECORDED_H_

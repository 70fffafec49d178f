// SPDX-License-Identifier: MIT
//
// Reads a recording: memory and registers at any time, accesses to an address, executed
// instructions, events. Everything above the store uses this header and no other of the store's.
//
// A Recording is a directory; it holds one Process for every process (and every exec) of the
// recorded tree. A Process is immutable once open and all its const methods may be called from
// several threads at once. Cursors belong to one thread each and must not outlive their Process.
//
// Errors: NotFound (no such recording, process, thread), DataLoss (a damaged store: the message
// names the file or record), FailedPrecondition (not a ttq recording, or a version this reader does
// not know), OutOfRange (a time or address outside what was recorded, or a time that is not
// indexed), Cancelled (interrupted).

#ifndef TTQ_STORE_READ_READER_H_
#define TTQ_STORE_READ_READER_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/file_image.h"
#include "base/types.h"
#include "store/format/recorded.h"
#include "store/walk/word_set.h"

namespace ttq {

// How a file that is still what was recorded is read. kMap is quicker, but a file that is cut
// short meanwhile kills the process (SIGBUS): use it in processes that end soon.
enum class FileAccess { kRead, kMap };

// One access that has at least one byte in common with the range asked for.
struct Access {
  Time time;
  ThreadNo thread;
  Address pc;  // the instruction; for a kernel access, the last one of that thread
  Address address;
  uint32_t size = 0;  // bytes; kernel accesses can be large
  bool is_write = false;
  Actor actor = Actor::kInstruction;
  int32_t syscall = -1;  // number, for Actor::kSyscall
  // The bytes of [address, address+size) after the access (for a read: as read) and, for a write,
  // before it. Cut at kMaxValueBytes.
  std::string value, previous;
  static constexpr size_t kMaxValueBytes = 4096;
};

// One execution of one instruction.
struct Execution {
  Time time;
  ThreadNo thread;
  Address pc;
};

enum class Direction { kForward, kBackward };

// One execution of a function's first instruction, and how it ended.
struct Call {
  Time time;
  ThreadNo thread;
  Address entry;
  Registers registers;  // before the first instruction
  // The word at rsp then; nullopt where it is not known.
  std::optional<Address> return_address;
  // When the return address was first executed with the word just popped, and rax then. kTimeMax:
  // it did not return that way, or was not asked for.
  Time return_time = kTimeMax;
  uint64_t result = 0;
};

struct CallQuery {
  std::vector<Address> entries;
  TimeSpan span;  // of the entries; returns may come later
  Direction direction = Direction::kForward;
  std::optional<ThreadNo> thread;
  // Only calls whose call instruction ends in one of these, when there are any.
  std::vector<AddressRange> callers;
  bool want_returns = true;
};

struct AccessQuery {
  std::vector<AddressRange> ranges;  // none empty; may overlap
  TimeSpan span;
  bool reads = false, writes = true;
  Direction direction = Direction::kForward;
  std::optional<ThreadNo> thread;
  // Only accesses whose pc lies in one of these, when there are any.
  std::vector<AddressRange> code;
  bool want_values = true;  // false: value and previous stay empty, and the scan is cheaper
  // Decode every block of the span instead of consulting the page index. The rows are the same;
  // tests compare the two.
  bool full_scan = false;
};

// Shared by a caller that may lose patience and a scan that runs.
struct ScanControl {
  std::atomic<bool> cancelled{false};
  // Blocks done and blocks to do, for progress. Both grow.
  std::atomic<uint64_t> blocks_done{0}, blocks_total{0};
};

// Rows in time order (or the reverse). Next gives nullopt at the end.
template <class Row>
class Cursor {
 public:
  virtual ~Cursor() = default;
  virtual absl::StatusOr<std::optional<Row>> Next() = 0;
};

// How a scan will be done, for `--explain`.
struct ScanPlan {
  bool uses_index = false;
  uint64_t blocks = 0;        // blocks that will be decoded at most
  uint64_t blocks_total = 0;  // blocks of the span
  std::string description;    // one line
};

// A mapped range as it was at some time.
struct Mapping {
  AddressRange range;
  uint8_t protection = 0;  // PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4
  bool shared = false;
  std::string path;          // file, or "[heap]", "[stack]", …; empty for anonymous memory
  uint64_t file_offset = 0;  // bytes
  uint64_t file_id = 0;      // for FileContents; 0: contents not kept
  bool startup = false;      // there before the first instruction; its first bytes were recorded
  bool content_unknown = false;  // what was mapped was not kept
  Time since;
};

// An ELF file that was mapped. `load_bias` is to be added to its virtual addresses.
struct LoadedModule {
  std::string path;
  std::string build_id;  // lower-case hex, may be empty
  uint64_t file_id = 0;
  AddressRange range;  // hull of its mappings
  uint64_t load_bias = 0;
  Time loaded, unloaded = kTimeMax;
};

struct EventQuery {
  TimeSpan span;
  std::optional<EventKind> kind;
  std::optional<ThreadNo> thread;
  Direction direction = Direction::kForward;
};

// Bytes of memory at a time. present[i] is false where the byte was not mapped, or its content is
// not known.
struct MemoryImage {
  Address begin;
  std::string bytes;
  std::vector<bool> present;
  bool all_present() const;
};

// Instructions that one thread executed one after the other: the first `instructions` of a piece of
// code, `code` being its number.
struct Run {
  Time time;
  ThreadNo thread;
  SuperblockId code;
  uint32_t instructions = 0;
};

// One instruction of such a piece, as it was when it was executed.
struct CodeInstruction {
  Address address;
  std::string_view bytes;  // valid as long as the Process
  uint32_t writes = 0;     // a bit for each Gpr that it sets; the kernel's doing is not among them
};

// A call, and what passed through registers.
struct CallRecord {
  Time time;                    // of the function's first instruction
  Time return_time = kTimeMax;  // of the first one after it; kTimeMax: it did not come back
  ThreadNo thread;
  Address function;  // its first instruction
  // Where it came back to; without that, what the caller left for it, and 0 where that was not
  // seen.
  Address return_address;
  std::array<uint64_t, 3> args{};  // rdi, rsi, rdx
  uint64_t result = 0;             // rax
  uint64_t stored = 0;             // the word last stored at args[0] during the call
};

class Process;

// The state of a process at one time: memory, registers, threads. It can be moved to another time;
// forward, within a few million instructions, that costs little more than executing what lies
// between. Belongs to one thread and must not outlive its Process.
class Moment {
 public:
  virtual ~Moment() = default;
  virtual const Process& process() const = 0;

  // State before instruction t. OutOfRange past the end of the recording. After an error the moment
  // must be moved again before it is asked.
  virtual absl::Status MoveTo(Time t) = 0;
  virtual Time time() const = 0;

  // Copies memory from `begin` on to `out`, up to `size` bytes or the first that is not mapped or
  // not known, and gives how many those were.
  virtual absl::StatusOr<uint64_t> Read(Address begin, uint64_t size, void* out) = 0;
  // As Process::RegistersAt and ThreadAt.
  virtual absl::StatusOr<Registers> RegistersOf(std::optional<ThreadNo> thread) = 0;
  virtual absl::StatusOr<ThreadNo> RunningThread() = 0;

  // One little-endian number of `size` ≤ 8 bytes; nullopt where not all of it is known.
  absl::StatusOr<std::optional<uint64_t>> ReadNumber(Address at, uint32_t size);
};

// ---- Watching words while time passes -----------------------------------------------------------

// Watches one block. During each call it may read memory at the moment: the state before the
// reported write. It must not move the moment, which has no registers meanwhile. A status other
// than Ok ends the walk.
class BlockVisitor {
 public:
  virtual ~BlockVisitor() = default;
  // The block's start; of the first one, with the memory in place that the process began with.
  // `words` may be changed now and in the calls that follow; both stay valid until End returned.
  virtual absl::Status Begin(uint32_t block, Moment* moment, WordSet* words) = 0;
  virtual absl::Status Write(const WatchedWrite& write) = 0;
  // From `time` on `thread` runs. Told for the block's first thread too.
  virtual absl::Status SwitchTo(Time time, ThreadNo thread) = 0;
  // The block's end, or that of the span.
  virtual absl::Status End(Time time) = 0;
};

class Process {
 public:
  virtual ~Process() = default;

  virtual const ProcessInfo& info() const = 0;
  virtual const std::vector<Thread>& threads() const = 0;

  // An answer goes on without `what`, one clause, since it is not indexed: Recording::Damage tells
  // so from then on, but not Recording::Unindexed.
  virtual void DoWithout(const std::string& what) const { (void)what; }

  // Accesses that overlap the ranges, in time order. `control` may be null.
  virtual absl::StatusOr<std::unique_ptr<Cursor<Access>>> Accesses(AccessQuery query,
                                                                   ScanControl* control) const = 0;
  virtual absl::StatusOr<ScanPlan> ExplainAccesses(const AccessQuery& query) const = 0;

  // Executions of any instruction whose address lies in `code`.
  virtual absl::StatusOr<std::unique_ptr<Cursor<Execution>>> Executions(
      std::vector<AddressRange> code, TimeSpan span, Direction direction,
      std::optional<ThreadNo> thread, ScanControl* control) const = 0;
  virtual absl::StatusOr<ScanPlan> ExplainExecutions(const std::vector<AddressRange>& code,
                                                     TimeSpan span) const = 0;

  // Calls of the functions that begin at the entries.
  virtual absl::StatusOr<std::unique_ptr<Cursor<Call>>> Calls(CallQuery query,
                                                              ScanControl* control) const = 0;

  // At most 1 GiB at once (InvalidArgument above that).
  virtual absl::StatusOr<MemoryImage> Memory(Address begin, uint64_t size, Time t) const = 0;

  // Registers of `thread` (default: the one that runs at t) before instruction t. NotFound when the
  // thread does not live at t.
  virtual absl::StatusOr<Registers> RegistersAt(Time t, std::optional<ThreadNo> thread) const = 0;
  // The thread that executes instruction t (at the end: the one that ran last).
  virtual absl::StatusOr<ThreadNo> ThreadAt(Time t) const = 0;

  // Walks the blocks of a span, several at once, each with a visitor of its own: `make(block)` is
  // called by any thread, `take` by the calling one, in order of time. A visitor sees its whole
  // block, also where the span begins inside it; it ends with the span.
  virtual absl::Status WatchBlocks(
      TimeSpan span, const std::function<std::unique_ptr<BlockVisitor>(uint32_t block)>& make,
      const std::function<absl::Status(std::unique_ptr<BlockVisitor>)>& take,
      ScanControl* control) const = 0;

  // When each block begins, in order. What is not indexed counts as one.
  virtual std::vector<Time> BlockStarts() const = 0;

  // What was executed in the block of the store that holds t, in time order: everything from the
  // first run's time to the last one's end. Earlier runs: ask for a time before the first. Empty
  // when nothing was executed there. Repeated calls are cheap.
  virtual absl::StatusOr<std::shared_ptr<const std::vector<Run>>> RunsAround(Time t) const = 0;
  // All instructions of a run's code, also those after Run::instructions. Empty: unknown.
  virtual std::vector<CodeInstruction> CodeOf(SuperblockId code) const = 0;

  // Calls of functions that begin at `entries`, except those made while another of them was running
  // in the same thread. `row` gets them in no particular order. A jump to the first instruction is
  // a call too.
  virtual absl::Status OuterCalls(const std::vector<Address>& entries,
                                  const std::function<void(const CallRecord&)>& row,
                                  ScanControl* control) const = 0;

  // For many questions about one time, or about times that follow each other.
  virtual absl::StatusOr<std::unique_ptr<Moment>> At(Time t) const = 0;

  virtual absl::StatusOr<std::vector<Mapping>> MappingsAt(Time t) const = 0;
  // Every module ever loaded, in order of loading.
  virtual absl::StatusOr<std::vector<LoadedModule>> Modules() const = 0;
  virtual absl::StatusOr<std::unique_ptr<Cursor<Event>>> Events(EventQuery query) const = 0;
  // Why `address` was last unmapped or never mapped, for error texts: "never mapped; the nearest
  // mapping is …", "unmapped at 1234 by munmap".
  virtual std::string DescribeUnmapped(Address address, Time t) const = 0;

  // Wall clock at t, interpolated between samples; nanoseconds since the epoch.
  virtual int64_t WallClock(Time t) const = 0;
};

// The last access that the query is about, whatever its direction; nullopt: none.
absl::StatusOr<std::optional<Access>> LastAccess(const Process& process, AccessQuery query);

// Memory of a process that is not in the store: it is read where it is, when it is asked for.
// Several threads ask at a time.
class OutsideMemory {
 public:
  virtual ~OutsideMemory() = default;
  // Copies a page, kPageBytes; false: it cannot be read.
  virtual bool ReadPage(uint64_t page, uint8_t* bytes) const = 0;
};

class Recording {
 public:
  static absl::StatusOr<std::unique_ptr<Recording>> Open(const std::string& directory,
                                                         FileAccess files = FileAccess::kRead);
  virtual ~Recording() = default;

  virtual const RecordingInfo& info() const = 0;
  virtual const std::vector<ProcessInfo>& processes() const = 0;
  // The process that died by a signal, of several the first that a fault ended; else
  // what the first became at last, by exec.
  virtual ProcessNo default_process() const = 0;
  // Pages that the store has no content of are read there, before the files that were mapped.
  // REQUIRES: no process is open; `memory` outlives the recording.
  virtual void UseMemory(const OutsideMemory* memory) { (void)memory; }
  // Owned by the recording; opened on first use.
  virtual absl::StatusOr<const Process*> Open(ProcessNo number) const = 0;
  // The whole content of an ELF file that was mapped, by Mapping::file_id.
  virtual absl::StatusOr<FileImage> FileContents(uint64_t id) const = 0;

  // The first damage that any question met; Ok while there was none. Some questions continue
  // without a name or a file that cannot be read. So call this, and Unindexed, after an answer, and
  // say that the answer may be incomplete.
  virtual absl::Status Damage() const { return absl::OkStatus(); }
  // OutOfRange: a question met a time that is not indexed (ProcessInfo::indexed). With more of the
  // history its answer may be another one.
  virtual absl::Status Unindexed() const { return absl::OkStatus(); }

  // Reads every block, index entry and event and checks them against each other. Calls `problem`
  // for each thing that is wrong; Ok means the check itself could be done.
  virtual absl::Status Check(const std::function<void(const std::string&)>& problem,
                             ScanControl* control) const = 0;
};

}  // namespace ttq

#endif  // TTQ_STORE_READ_READER_H_

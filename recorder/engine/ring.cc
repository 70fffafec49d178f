// SPDX-License-Identifier: MIT
//
// Shared memory that cannot be had is found out by asking for each block before it is first used: a
// store to it would end the program by SIGBUS. The ring then makes do with the blocks it has.

#include "recorder/engine/ring.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "recorder/engine/clock.h"
#include "recorder/engine/context.h"
#include "recorder/inputs.h"

namespace ttq::engine::ring {
namespace {

constexpr uint32_t kInputsStep = 64 << 10;                     // bytes; a block is a multiple
constexpr uint32_t kSegmentBlocks = 6;                         // of a segment's ring
constexpr uint64_t kNoRoom = uint64_t{1} << (kPlaceBits - 1);  // of a count's place
constexpr int64_t kNoSpace = -28, kNoProcess = -3, kInvalid = -22;

using RingName = char[sizeof(TtqRing::parent_ring)];

Options g_options;
uint32_t g_recorder_pid;
TtqRing* g_ring;
size_t g_ring_bytes;
RingName g_name;
bool g_detached, g_finished, g_announced;
void (*g_begin)();
void (*g_note)(TtqRing*);
int64_t (*g_wall)(uint32_t block, bool end);
bool (*g_counts)(uint32_t block);
void (*g_before_block)(uint32_t block, bool between);
bool g_is_counting;  // instructions of this block

uint8_t* g_block;           // being filled
uint8_t* g_scratch;         // filled instead where nobody reads the log
uint8_t* g_inputs;          // where the next one goes; null: none is kept
uint8_t* g_room_end;        // of the memory that is there for what is kept in place of a log
uint8_t* g_counted;         // where its next record goes, in place of a log; null: nowhere
uint64_t g_executed;        // instructions that are not told there yet
uint64_t g_place_in_code;   // what the log's register had when code was entered
uint64_t g_log_in_code;     // and the place that it means
uint64_t g_beginning_hash;  // of what the block starts with
uint64_t g_beginning_end;   // the log behind that
Position g_ended_at;        // where the block before ended; block ~0: superblocks go on from there
uint8_t* g_recipe_top;
uint32_t g_recipe_count, g_block_number;
uint32_t g_first_block;  // of the ring
TtqRing* g_segment;      // of the process that is about to be forked; of one that was, its own
size_t g_segment_bytes;
RingName g_segment_name;
uint64_t g_limit;  // no record begins beyond
uint64_t g_turn_end = ~uint64_t{0}, g_turn_bytes;
const volatile uint32_t* g_interrupts;
Position g_stop = {~uint32_t{0}, 0};
uint32_t g_last_kind;  // of control records
bool g_begins;         // a block, which gets what it starts with

bool g_turns_to_log;    // with the next block
uint32_t g_log_begins;  // the block from which on there is a log; where there are no inputs: 0

uint32_t g_next_id = 1;
struct KnownRecipe {
  uint64_t hash;
  uint32_t id;
};
KnownRecipe* g_known;  // by hash: open addressing
size_t g_known_capacity, g_known_count;

void SetLimit(uint64_t limit) {
  g_limit = limit;
  auto* place = const_cast<volatile uint64_t*>(&g_context.log_limit);
  *place = limit < g_turn_end ? limit : g_turn_end;
  if (g_stop.block == g_block_number) {
    const uint64_t stop = Number(g_block + sizeof(TtqBlock)) + g_stop.offset - 1;
    if (stop < *place) *place = stop;
  }
  if (g_stop.block < g_block_number) *place = 0;  // another block has begun there
  // A signal's handler may have come before the line above, or come now: in this order.
  if (g_interrupts != nullptr && *g_interrupts != 0) *place = 0;
}

void Wake(uint32_t* word) { Syscall(SYS_futex, Number(word), FUTEX_WAKE, 0x7fffffff); }

// Waits until *word is no longer `seen`, at most half a second.
void Wait(uint32_t* word, uint32_t seen) {
  const int64_t half[2] = {0, 500'000'000};
  Syscall(SYS_futex, Number(word), FUTEX_WAIT, seen, Number(half));
}

// The directory, opened for a moment: a descriptor that stays would be in the program's reach.
class Directory {
 public:
  Directory()
      : fd_(Syscall(SYS_open, Number(g_options.directory), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  ~Directory() {
    if (!Failed(fd_)) Syscall(SYS_close, static_cast<uint64_t>(fd_));
  }
  bool ok() const { return !Failed(fd_); }
  int64_t result() const { return fd_; }
  uint64_t fd() const { return static_cast<uint64_t>(fd_); }

 private:
  int64_t fd_;
};

// The recorder holds a lock on the directory, which the kernel opens however the recorder ends.
// Where the directory is out of reach, its process number must do.
bool RecorderIsGone() {
  Directory d;
  if (!d.ok()) return Syscall(SYS_kill, g_recorder_pid, 0) == kNoProcess;
  if (Failed(Syscall(SYS_flock, d.fd(), LOCK_SH | LOCK_NB))) return false;
  Syscall(SYS_flock, d.fd(), LOCK_UN);
  return true;
}

void LogName(char (*name)[40]) {
  Text t;
  t << "log." << static_cast<uint64_t>(Syscall(SYS_getpid));
  memcpy(*name, t.c_str(), t.size() + 1);
}

// What a recorder that is gone cannot take away any more. The last process finds the directory
// empty.
void LeaveNothingBehind() {
  {
    Directory d;
    char log[40];
    LogName(&log);
    if (!d.ok()) return;
    Syscall(SYS_unlinkat, d.fd(), Number(g_name), 0);
    Syscall(SYS_unlinkat, d.fd(), Number(log), 0);
    Syscall(SYS_unlinkat, d.fd(), Number(TTQ_BELL), 0);
  }
  Syscall(SYS_rmdir, Number(g_options.directory));
}

void DetachIfRecorderIsGone() {
  if (g_detached || !RecorderIsGone()) return;
  g_detached = true;
  LeaveNothingBehind();
}

bool HaveMemory(uint8_t* at, size_t bytes) {
  constexpr int kPopulateWrite = 23;
  const int64_t r = Syscall(SYS_madvise, Number(at), bytes, kPopulateWrite);
  if (r >= 0 || r == kInvalid /* Linux before 5.14 */) return true;
  Syscall(SYS_madvise, Number(at), bytes, MADV_REMOVE);
  return false;
}

// Of one in the ring.
uint64_t BlockBytes() {
  const bool is_log = !g_options.inputs && !g_options.again;
  return g_options.block_bytes * (is_log ? 1 : kTtqInputsRoom);
}

// Of them, those for which memory is asked before the block is used. Of inputs there are few.
uint64_t FirstBytes() { return g_options.inputs ? kInputsStep : g_options.block_bytes; }

uint8_t* BlockAt(uint32_t number) {
  return reinterpret_cast<uint8_t*>(g_ring) + kTtqRingHeaderBytes +
         size_t{(number - g_first_block) % g_ring->block_count} * g_ring->block_bytes;
}

void DetachForMemory() {
  constexpr char kWhy[] = "there was no memory for its ring any more";
  memcpy(g_ring->incomplete, kWhy, sizeof(kWhy));
  WriteLog(Text() << "ttq: process " << static_cast<uint64_t>(Syscall(SYS_getpid))
                  << " is not recorded any further: there is no memory for its ring\n");
  g_detached = true;
}

// The file, whatever limit and mask the program has set for its own files: a descriptor, or a
// negative error.
int64_t MakeFile(const Directory& d, const char* name, uint64_t bytes) {
  uint64_t old[2] = {}, wanted[2];
  Syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, Number(old));
  wanted[0] = bytes;
  wanted[1] = old[1] < bytes ? bytes : old[1];
  const bool limited = old[0] < bytes;  // beyond the limit is a signal, not only an error
  if (limited) {
    const int64_t r = Syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, Number(wanted));
    if (Failed(r)) return r;
  }
  int64_t fd =
      Syscall(SYS_openat, d.fd(), Number(name), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (!Failed(fd)) {
    Syscall(SYS_fchmod, static_cast<uint64_t>(fd), 0600);
    const int64_t r = Syscall(SYS_ftruncate, static_cast<uint64_t>(fd), bytes);
    if (Failed(r)) {
      Syscall(SYS_close, static_cast<uint64_t>(fd));
      fd = r;
    }
  }
  if (limited) Syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, Number(old));
  return fd;
}

void MakeName(RingName* name) {
  static uint32_t number;
  Text t;
  t << "r-" << static_cast<uint64_t>(Syscall(SYS_getpid)) << "-" << uint64_t{number++} << "-";
  t.Hex(static_cast<uint64_t>(WallNs()) & 0xffffffff);
  memset(*name, 0, sizeof(*name));
  memcpy(*name, t.c_str(), t.size());
}

// What the file is called until it is announced.
void TemporaryName(const RingName& ring, char (*name)[40]) {
  (*name)[0] = '.';
  memcpy(*name + 1, ring, sizeof(ring));
}

// The ring's file, mapped; null when it cannot be had, after a message if `says`.
TtqRing* MapRing(const RingName& ring, size_t bytes, bool says) {
  Directory d;
  char temporary[40];
  TemporaryName(ring, &temporary);
  const char* what = "create";
  int64_t r = d.ok() ? MakeFile(d, temporary, bytes) : d.result();
  TtqRing* made = nullptr;
  if (!Failed(r)) {
    const auto fd = static_cast<uint64_t>(r);
    what = "map";
    r = MapOwn(bytes, MAP_SHARED, r);
    Syscall(SYS_close, fd);
    if (!Failed(r)) made = reinterpret_cast<TtqRing*>(r);
  }
  if (made != nullptr &&
      !HaveMemory(reinterpret_cast<uint8_t*>(made), kTtqRingHeaderBytes + FirstBytes())) {
    Syscall(SYS_munmap, Number(made), bytes);
    made = nullptr;
    what = "get memory for";
    r = kNoSpace;
  }
  if (made != nullptr) return made;
  if (d.ok()) Syscall(SYS_unlinkat, d.fd(), Number(temporary), 0);
  if (!says) return nullptr;
  WriteLog(Text() << "ttq: process " << static_cast<uint64_t>(Syscall(SYS_getpid))
                  << " is not recorded: cannot " << what << " its ring in " << g_options.directory
                  << " (error " << static_cast<uint64_t>(-r) << ")\n");
  return nullptr;
}

// In place of a log.
bool HaveRoomUpTo(const uint8_t* end) {
  if (end <= g_room_end) return true;
  const uint64_t more =
      (static_cast<uint64_t>(end - g_room_end) + kInputsStep - 1) & ~(uint64_t{kInputsStep} - 1);
  if (!g_detached && !HaveMemory(g_room_end, more)) {
    DetachForMemory();
    return false;
  }
  g_room_end += more;
  return true;
}

// A superblock's records are a header and a count each. Of the rest, what memory and vector
// registers hold is of no use.
void KeepCounted(uint32_t kind, const void* head, size_t head_bytes, const void* body,
                 size_t body_bytes) {
  if (kind == kTtqKernelWrite || kind == kTtqVectors) return;
  constexpr size_t kHeads = 16;  // of a superblock and of a control record
  if (!HaveRoomUpTo(g_counted + kHeads + head_bytes + body_bytes)) {
    g_counted = nullptr;
    return;
  }
  const auto put = [](const void* bytes, size_t count) {
    memcpy(g_counted, bytes, count);
    g_counted += count;
  };
  const auto put_word = [&put](uint64_t value) {
    const auto word = static_cast<uint32_t>(value);
    put(&word, sizeof(word));
  };
  if (g_executed != 0) {
    put_word(g_context.header);
    put_word(g_executed);
    g_executed = 0;
  }
  if (kind == 0) return;
  put_word(kind);
  put_word(head_bytes + body_bytes);
  put(head, head_bytes);
  if (body_bytes != 0) put(body, body_bytes);
}

void StartBlock(bool between) {
  if (g_counts != nullptr) g_is_counting = g_counts(g_block_number);
  if (g_detached || g_options.inputs || g_is_counting) {
    // The ring's blocks may still be being read.
    if (g_scratch == nullptr) g_scratch = static_cast<uint8_t*>(Allocate(g_options.block_bytes));
    g_block = g_scratch;
  } else {
    g_block = BlockAt(g_block_number);
  }
  g_inputs = g_counted = nullptr;
  if (g_is_counting && !g_detached) {
    g_counted = BlockAt(g_block_number) + sizeof(TtqBlock);
    g_room_end = BlockAt(g_block_number) + FirstBytes();
    KeepCounted(kTtqCounted, nullptr, 0, nullptr, 0);
  }
  auto* b = reinterpret_cast<TtqBlock*>(g_block);
  b->number = g_block_number;
  b->wall_start_ns = g_wall != nullptr ? g_wall(g_block_number, false) : WallNs();
  b->between_superblocks = between;
  g_recipe_top = g_block + g_options.block_bytes;
  g_recipe_count = 0;
  g_context.log = Number(g_block + sizeof(TtqBlock));
  g_turn_end = g_turn_bytes == 0 ? ~uint64_t{0} : g_context.log + g_turn_bytes;
  SetLimit(Number(g_recipe_top) - kTtqMaxRecordBytes);
}

// What has been handed over of a process that is recorded by its inputs.
void FinishInputs() {
  uint8_t* block = BlockAt(g_block_number);
  auto* b = reinterpret_cast<TtqBlock*>(block);
  memcpy(b, g_block, sizeof(TtqBlock));
  const TtqInputsBlock head = {g_beginning_hash, b->log_bytes, b->ends_between_superblocks,
                               b->wall_start_ns, b->wall_end_ns};
  memcpy(block + sizeof(TtqBlock), &head, sizeof(head));
  b->recipe_bytes = b->recipe_count = 0;
  b->log_bytes = static_cast<uint32_t>(g_inputs - block - sizeof(TtqBlock));
}

// The same of a block in which instructions were counted. Its recipes are at its end. None of it
// takes more room than in the log, but for what says so and for eight bytes, where there had been
// four, before a control record: it fits in twice that.
bool FinishCounted() {
  KeepCounted(0, nullptr, 0, nullptr, 0);
  if (g_counted == nullptr) return false;
  uint8_t* block = BlockAt(g_block_number);
  auto* b = reinterpret_cast<TtqBlock*>(block);
  memcpy(b, g_block, sizeof(TtqBlock));
  b->log_bytes = static_cast<uint32_t>(g_counted - block - sizeof(TtqBlock));
  uint8_t* recipes = block + BlockBytes() - b->recipe_bytes;
  const uint64_t page = reinterpret_cast<uint64_t>(recipes) & (kPage - 1);
  if (b->recipe_bytes != 0 && !HaveMemory(recipes - page, page + b->recipe_bytes)) return false;
  memcpy(recipes, g_recipe_top, b->recipe_bytes);
  return true;
}

void Publish(bool between) {
  auto* b = reinterpret_cast<TtqBlock*>(g_block);
  if (g_note != nullptr && g_ring->verify) g_note(g_ring);
  b->ends_between_superblocks = between;
  b->log_bytes = static_cast<uint32_t>(g_context.log - Number(g_block) - sizeof(TtqBlock));
  b->recipe_bytes = static_cast<uint32_t>(g_block + g_options.block_bytes - g_recipe_top);
  b->recipe_count = g_recipe_count;
  b->wall_end_ns = g_wall != nullptr ? g_wall(g_block_number, true) : WallNs();
  if (g_options.inputs) FinishInputs();
  if (g_counted != nullptr && !FinishCounted()) return DetachForMemory();
  __atomic_store_n(&g_ring->produced, g_block_number + 1, __ATOMIC_RELEASE);
  Wake(&g_ring->produced);
}

void DetachIfTold() {
  if (__atomic_load_n(&g_ring->command, __ATOMIC_ACQUIRE) == kTtqDetach) g_detached = true;
}

void WaitUntilVerified() {
  if (!g_ring->verify) return;
  while (!g_detached) {
    const uint32_t verified = __atomic_load_n(&g_ring->verified, __ATOMIC_ACQUIRE);
    if (verified > g_block_number) return;
    Wait(&g_ring->verified, verified);
    DetachIfTold();
    DetachIfRecorderIsGone();
  }
}

// Whoever reads the ring wants to see the memory that the next block begins with.
void HoldIfTold() {
  const uint32_t next = g_block_number + 1;
  while (!g_detached && __atomic_load_n(&g_ring->hold_before, __ATOMIC_ACQUIRE) == next) {
    Wait(&g_ring->hold_before, next);
    DetachIfTold();
    DetachIfRecorderIsGone();
  }
}

// The next block and those after it hold a log.
void BeginLog() {
  g_turns_to_log = false;
  g_options.inputs = false;
  g_log_begins = g_block_number + 1;
  __atomic_store_n(&g_ring->inputs_before, g_log_begins, __ATOMIC_RELEASE);
  // The recipes so far were not handed over.
  memset(g_known, 0, g_known_capacity * sizeof(*g_known));
  g_known_count = 0;
}

// The block has what it starts with.
void BeginInputs() {
  if (!g_options.inputs || g_detached) return;  // what was handed over may still be being read
  g_beginning_hash = HashOfBlock();
  g_beginning_end = g_context.log;
  uint8_t* head = BlockAt(g_block_number) + sizeof(TtqBlock);
  const TtqInputsBlock beginning = {g_beginning_hash, 0, 0,
                                    reinterpret_cast<TtqBlock*>(g_block)->wall_start_ns, 0};
  memcpy(head, &beginning, sizeof(beginning));
  g_inputs = head + sizeof(TtqInputsBlock);
  g_room_end = BlockAt(g_block_number) + kInputsStep;
}

// An input that a block was ended for, or that came next, belongs to where that block ended.
void KeepInput(uint32_t kind, const void* head, size_t head_bytes, const void* body,
               size_t body_bytes) {
  const bool comes_first = g_context.log == g_beginning_end && g_ended_at.block != ~uint32_t{0};
  const Position place = comes_first ? g_ended_at : Here();
  const TtqInput input = {place.block, place.offset, kind,
                          static_cast<uint32_t>(head_bytes + body_bytes)};
  if (!HaveRoomUpTo(g_inputs + BytesOfInput(input))) {
    g_inputs = nullptr;
    return;
  }
  memcpy(g_inputs, &input, sizeof(input));
  memcpy(g_inputs + sizeof(input), head, head_bytes);
  if (body_bytes != 0) memcpy(g_inputs + sizeof(input) + head_bytes, body, body_bytes);
  const size_t bytes = sizeof(input) + input.bytes;
  memset(g_inputs + bytes, 0, BytesOfInput(input) - bytes);
  g_inputs += BytesOfInput(input);
}

struct Parent {  // of a forked process
  char ring[32] = {};
  uint32_t pid = 0, fork_number = 0;
};

KnownRecipe* FindKnown(uint64_t hash) {
  size_t i = hash & (g_known_capacity - 1);
  while (g_known[i].hash != 0 && g_known[i].hash != hash) i = (i + 1) & (g_known_capacity - 1);
  return &g_known[i];
}

void GrowKnown() {
  const KnownRecipe* old = g_known;
  const size_t old_capacity = g_known_capacity;
  g_known_capacity = old_capacity == 0 ? 1 << 14 : 2 * old_capacity;
  g_known = AllocateArray<KnownRecipe>(g_known_capacity);
  for (size_t i = 0; i < old_capacity; ++i) {
    if (old[i].hash != 0) *FindKnown(old[i].hash) = old[i];
  }
}

void FillHeader(const Parent& parent, uint32_t blocks, TtqRing* ring) {
  ring->magic = TTQ_RING_MAGIC;
  ring->version = kTtqStreamVersion;
  ring->pid = static_cast<uint32_t>(Syscall(SYS_getpid));
  ring->parent_pid = parent.pid;
  ring->fork_number = parent.fork_number;
  memcpy(ring->parent_ring, parent.ring, sizeof(ring->parent_ring));
  ring->block_bytes = static_cast<uint32_t>(BlockBytes());
  ring->log_block_bytes = static_cast<uint32_t>(g_options.block_bytes);
  ring->inputs_before = g_options.inputs ? ~uint32_t{0} : 0;
  ring->block_count = blocks;
  ring->start_wall_ns = WallNs();
  ring->verify = g_options.verify;
}

void Create(const Parent& parent) {
  MakeName(&g_name);
  g_ring_bytes = kTtqRingHeaderBytes + BlockBytes() * g_options.block_count;
  // What a forked child goes on from is not known where its parent is not recorded.
  g_detached = g_detached && parent.ring[0] != 0;
  g_finished = g_announced = false;
  g_ring = nullptr;
  DetachIfRecorderIsGone();
  TtqRing* made = g_detached ? nullptr : MapRing(g_name, g_ring_bytes, true);
  if (made == nullptr) {
    g_detached = true;
    made = static_cast<TtqRing*>(Allocate(g_ring_bytes));
  }
  g_ring = made;
  FillHeader(parent, g_options.block_count, g_ring);
  g_counts = nullptr;  // a child goes on with its parent's translations until it has its own
  g_before_block = nullptr;
  g_block_number = g_log_begins = g_first_block = 0;
  g_ended_at = {~uint32_t{0}, 0};
  // A forked child's ids go on from its parent's, whose translations it keeps.
  StartBlock(false);
  BeginInputs();
}

// The recorder finds a ring by its name.
void Announce(const RingName& ring) {
  Directory d;
  char temporary[40];
  TemporaryName(ring, &temporary);
  // It fails when the recorder is gone and its directory too.
  if (!d.ok() || Failed(Syscall(SYS_renameat, d.fd(), Number(temporary), d.fd(), Number(ring)))) {
    g_detached = true;
    return;
  }
  // For reading too: without a reader, to write is a signal.
  const int64_t bell =
      Syscall(SYS_openat, d.fd(), Number(TTQ_BELL), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (Failed(bell)) return;  // it looks now and then
  Syscall(SYS_write, static_cast<uint64_t>(bell), Number("!"), 1);
  Syscall(SYS_close, static_cast<uint64_t>(bell));
}

// A block ends where it has no room, which is hardly ever between two records that belong together.
// The engine of tests also ends it at one control record in four, at the same ones in each run.
bool EndsEarly() {
#ifdef TTQ_SHORT_BLOCKS
  constexpr uint32_t kAtLeast = 3000, kMultiplier = 0x85ebca6b;
  const uint32_t bytes = Here().offset;
  return !g_begins && bytes > kAtLeast && bytes * kMultiplier >> 30 == 0;
#else
  return false;
#endif
}

}  // namespace

void SetOptions(const Options& options) {
  g_options = options;
  g_recorder_pid = 0;
  for (const char* c = options.directory; *c != 0; ++c) {  // …-PID of the recorder
    if (*c == '-') {
      g_recorder_pid = 0;
    } else {
      g_recorder_pid = 10 * g_recorder_pid + static_cast<uint32_t>(*c - '0');
    }
  }
}

void Create() { Create({}); }

void CreateInChild(uint32_t fork_number) {
  static char arguments[sizeof(TtqRing::arguments)];
  const uint32_t bytes = g_ring->argument_bytes;
  memcpy(arguments, g_ring->arguments, bytes);
  Parent parent;
  parent.pid = g_ring->pid;
  parent.fork_number = fork_number;
  memcpy(parent.ring, g_name, sizeof(parent.ring));
  Syscall(SYS_munmap, Number(g_ring), g_ring_bytes);
  Create(parent);
  memcpy(g_ring->arguments, arguments, bytes);
  g_ring->argument_bytes = bytes;
}

void AddArgument(const char* text) {
  const auto n = static_cast<uint32_t>(Length(text) + 1);
  if (g_ring->argument_bytes + n > sizeof(g_ring->arguments)) return;
  memcpy(g_ring->arguments + g_ring->argument_bytes, text, n);
  g_ring->argument_bytes += n;
}

void Announce() {
  if (g_announced || g_detached || IsSegment()) return;
  g_announced = true;
  Announce(g_name);
}

bool MakeSegment(uint32_t first) {
  if (g_detached) return false;
  MakeName(&g_segment_name);
  g_segment_bytes = kTtqRingHeaderBytes + BlockBytes() * kSegmentBlocks;
  g_segment = MapRing(g_segment_name, g_segment_bytes, false);
  if (g_segment == nullptr) return false;
  Parent process;
  process.pid = g_ring->pid;
  memcpy(process.ring, g_name, sizeof(process.ring));
  FillHeader(process, kSegmentBlocks, g_segment);
  g_segment->produced = g_segment->consumed = first;
  g_segment->again = g_ring->again;
  g_segment->again.goes_on = 0;
  return true;
}

void AnnounceSegment(uint32_t pid) {
  g_segment->pid = pid;
  Announce(g_segment_name);
  Syscall(SYS_munmap, Number(g_segment), g_segment_bytes);
  g_segment = nullptr;
}

void GiveUpSegment() {
  char temporary[40];
  TemporaryName(g_segment_name, &temporary);
  const Directory d;
  if (d.ok()) Syscall(SYS_unlinkat, d.fd(), Number(temporary), 0);
  Syscall(SYS_munmap, Number(g_segment), g_segment_bytes);
  g_segment = nullptr;
}

void EnterSegment() {
  Syscall(SYS_munmap, Number(g_ring), g_ring_bytes);
  g_ring = g_segment;
  g_ring_bytes = g_segment_bytes;
  g_first_block = g_ring->consumed;
  g_ring->pid = static_cast<uint32_t>(Syscall(SYS_getpid));
  memcpy(g_name, g_segment_name, sizeof(g_name));
}

bool IsSegment() { return g_ring != nullptr && g_ring == g_segment; }

void EndSegment() {
  g_finished = g_detached = true;
  __atomic_store_n(&g_ring->state, uint32_t{kTtqFinished}, __ATOMIC_RELEASE);
  Wake(&g_ring->produced);
}

bool IsOpen() { return g_ring != nullptr; }
Logged WhatIsLogged() {
  if (g_options.inputs) return Logged::kNothing;
  return g_is_counting ? Logged::kCount : Logged::kAll;
}
void SetCounts(bool (*counts)(uint32_t block)) {
  if (g_options.inputs) return;  // nothing is kept
  g_counts = counts;
  StartBlock(false);
}

void EnterCode() {
  if (!g_is_counting) return;
  const uint64_t log = g_context.log, limit = g_context.log_limit;
  g_log_in_code = log;
  g_place_in_code = log <= limit ? kNoRoom - 1 - (limit - log) : kNoRoom;
  g_context.log = g_place_in_code;
}

void LeaveCode() {
  if (!g_is_counting) return;
  const uint64_t at = g_context.log;
  g_executed += at >> kPlaceBits;
  g_context.log = g_log_in_code + ((at & (2 * kNoRoom - 1)) - g_place_in_code);
}

void CountOpen(uint32_t header, uint32_t instructions) {
  if (g_counted == nullptr) return;
  KeepCounted(0, nullptr, 0, nullptr, 0);
  g_context.header = header;
  g_executed = instructions;
}
bool TurnToLog(const char* why) {
  const bool counts = g_options.inputs && !g_options.again;
  if (g_ring == nullptr || g_detached || !counts || g_turns_to_log) return false;
  memcpy(g_ring->log_because, why, Least(Length(why), sizeof(g_ring->log_because) - 1));
  g_turns_to_log = true;
  NextBlock(false);
  return true;
}
void NoteSoFar(int64_t wall_ns) {
  if (g_inputs == nullptr || g_detached) return;
  auto& noted = g_ring->so_far;
  const uint32_t changes = noted.changes;
  __atomic_store_n(&noted.changes, changes + 1, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  const uint8_t* records = BlockAt(g_block_number) + sizeof(TtqBlock) + sizeof(TtqInputsBlock);
  __atomic_store_n(&noted.block, g_block_number, __ATOMIC_RELAXED);
  __atomic_store_n(&noted.log_bytes, Here().offset, __ATOMIC_RELAXED);
  __atomic_store_n(&noted.bytes, static_cast<uint32_t>(g_inputs - records), __ATOMIC_RELAXED);
  __atomic_store_n(&noted.wall_ns, wall_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&noted.changes, changes + 2, __ATOMIC_RELEASE);
}

bool IsDetached() {
  DetachIfRecorderIsGone();
  return g_detached;
}
TtqRing* Header() { return g_ring; }
const char* Name() { return g_name; }
void SetBegin(void (*begin)()) { g_begin = begin; }
void SetBeforeBlock(void (*before)(uint32_t block, bool between)) { g_before_block = before; }
void SetWall(int64_t (*wall)(uint32_t block, bool end)) {
  g_wall = wall;
  reinterpret_cast<TtqBlock*>(g_block)->wall_start_ns = wall(g_block_number, false);
}
void SetBeforeHandingOver(void (*note)(TtqRing*)) { g_note = note; }

void NextBlock(bool between) {
  g_ended_at = between ? Position{~uint32_t{0}, 0} : Here();
  Announce();  // a reader may be waited for below
  if (!g_detached) Publish(between);
  WaitUntilVerified();
  HoldIfTold();
  if (g_turns_to_log) BeginLog();
  if (g_before_block != nullptr) g_before_block(g_block_number + 1, between);
  const uint32_t next = g_block_number + 1, block_count = g_ring->block_count;
  const uint32_t used = next - g_first_block;  // of the ring's blocks
  if (!g_detached && used < block_count && !HaveMemory(BlockAt(next), FirstBytes())) {
    // Nothing has used a block twice yet, so the reader finds those before where it would have.
    __atomic_store_n(&g_ring->block_count, used, __ATOMIC_RELEASE);
  }
  for (;;) {
    const uint32_t consumed = __atomic_load_n(&g_ring->consumed, __ATOMIC_ACQUIRE);
    DetachIfTold();
    if (g_detached || next - consumed < g_ring->block_count) break;
    Wait(&g_ring->consumed, consumed);
    DetachIfRecorderIsGone();
  }
  // What was used for inputs may have less than a log needs.
  const bool was_smaller = next >= block_count && next - g_log_begins < block_count;
  if (!g_detached && g_log_begins != 0 && was_smaller && !HaveMemory(BlockAt(next), FirstBytes())) {
    DetachForMemory();
  }
  ++g_block_number;
  StartBlock(between);
  g_begins = true;
  if (g_begin != nullptr) g_begin();
  g_begins = false;
  BeginInputs();
}

void SetInterruptedBy(const volatile uint32_t* waits) {
  g_interrupts = waits;
  SetLimit(g_limit);
}

void LookForInterrupts() { SetLimit(g_limit); }
void Interrupt() { *const_cast<volatile uint64_t*>(&g_context.log_limit) = 0; }

void BeginTurn(uint64_t bytes) {
  g_turn_bytes = bytes;
  g_turn_end = bytes == 0 ? ~uint64_t{0} : g_context.log + bytes;
  SetLimit(g_limit);
}

uint64_t HashOfBlock() {
  const uint8_t* begin = g_block + sizeof(TtqBlock);
  return HashBytes(begin, g_context.log - Number(begin));
}

Position Here() {
  return {g_block_number,
          static_cast<uint32_t>(g_context.log - Number(g_block) - sizeof(TtqBlock))};
}

void StopAt(Position place) {
  g_stop = place;
  SetLimit(g_limit);
}

bool IsFull() { return g_context.log > g_limit; }

void Finish(uint32_t fatal_signal, bool complete) {
  if (g_ring == nullptr || g_finished) return;
  g_finished = true;
  g_ring->fatal_signal = fatal_signal;
  const bool is_recorded = !g_detached;
  if (is_recorded) Publish(complete);
  WaitUntilVerified();
  DetachIfRecorderIsGone();
  g_detached = true;
  if (!is_recorded) return;  // up to here
  __atomic_store_n(&g_ring->state, uint32_t{kTtqFinished}, __ATOMIC_RELEASE);
  Wake(&g_ring->produced);
}

void Break(bool begun) {
  g_finished = true;
  if (!g_detached && !begun) Publish(false);
  WaitUntilVerified();
  g_detached = true;
  if (g_ring->again.goes_on) return;
  __atomic_store_n(&g_ring->state, uint32_t{kTtqCutOff}, __ATOMIC_RELEASE);
  Wake(&g_ring->produced);
}

void Append(uint32_t kind, const void* head, size_t head_bytes, const void* body,
            size_t body_bytes) {
  const auto payload = static_cast<uint32_t>(head_bytes + body_bytes);
  // A fault closes the open record before it, and the registers behind it tell how far that came.
  // Both stay in its block: behind the limit is room.
  const bool stays = kind == kTtqFault || (kind == kTtqRegisters && g_last_kind == kTtqFault);
  if (!stays && (EndsEarly() || g_context.log + 8 + payload > g_limit)) NextBlock(false);
  g_last_kind = kind;
  if (g_inputs != nullptr) KeepInput(kind, head, head_bytes, body, body_bytes);
  if (g_counted != nullptr) KeepCounted(kind, head, head_bytes, body, body_bytes);
  auto* at = reinterpret_cast<uint8_t*>(g_context.log);
  memcpy(at, &kind, 4);
  memcpy(at + 4, &payload, 4);
  memcpy(at + 8, head, head_bytes);
  if (body_bytes != 0) memcpy(at + 8 + head_bytes, body, body_bytes);
  g_context.log += 8 + payload;
}

AddedRecipe AddRecipe(uint64_t hash, uint32_t bytes) {
  // Code that is translated again, after its translation was given up, keeps its id.
  if (2 * g_known_count >= g_known_capacity) GrowKnown();
  KnownRecipe* known = FindKnown(hash);
  if (known->hash != 0) return {known->id, nullptr};
  const uint32_t id = g_next_id++;
  if (id >> (32 - kTtqExitBits)) Refuse(Text() << "it executes too much code");
  *known = {hash, id};
  ++g_known_count;
  if (g_context.log + bytes > g_limit) NextBlock(true);
  g_recipe_top -= bytes;
  SetLimit(g_limit - bytes);
  ++g_recipe_count;
  return {id, g_options.inputs ? nullptr : g_recipe_top};
}

void WriteLog(const Text& line) {
  Directory d;
  char name[40];
  LogName(&name);
  if (!d.ok()) return;
  const int64_t fd =
      Syscall(SYS_openat, d.fd(), Number(name), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (Failed(fd)) return;
  Syscall(SYS_write, static_cast<uint64_t>(fd), Number(line.c_str()), line.size());
  Syscall(SYS_close, static_cast<uint64_t>(fd));
}

}  // namespace ttq::engine::ring

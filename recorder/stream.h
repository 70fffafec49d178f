// SPDX-License-Identifier: MIT
//
// The stream: what the Valgrind tool writes and ingest reads, through a ring in shared memory.
// Plain C11 and C++20; both sides are built from the same tree and check kStreamVersion.
//
// A ring is a file, mapped shared by both: one TtqRing, then `block_count` blocks of `block_bytes`.
// The tool fills block `produced % block_count`, then increments `produced`; ingest handles block
// `consumed % block_count`, then increments `consumed`. Each wakes the other with a futex on the
// word it changed. The tool waits when produced - consumed == block_count: nothing is ever dropped.
// It lowers block_count, once, when it gets no memory for a block that it has not used yet.
//
// A block is a TtqBlock header, then the log growing up, and recipes growing down from its end. A
// recipe is in the same block as its first execution, or in an earlier one. Everything is
// little-endian and unaligned.
//
// The log is a sequence of records, each led by a 32-bit word: superblock id << 7 | low seven bits.
//   id != 0: one execution of a superblock. The low bits say by which exit it left (0: the end,
//            1…: side exits in program order), kTtqExitOpen: it did not, a fault stopped it; the
//            next records are then kTtqFault and kTtqRegisters. The slots of the recipe follow, up
//            to the length the recipe gives for that exit (for an open one: all of them, the later
//            ones undefined or zero).
//   id == 0: a control record; the low bits are its kind, a 32-bit payload length and the payload
//            follow.
//
// Of a process that is run again nobody asks for more than the times of control records before
// block hold_before. Such a block begins with kTtqCounted; superblocks are told, before each
// control record and at the end, by the header of the last one and a 32-bit number of instructions.
// Control records that tell what memory and vector registers hold are left out. See
// docs/stream-format.md.

#ifndef TTQ_RECORDER_STREAM_H_
#define TTQ_RECORDER_STREAM_H_

#ifdef __cplusplus
#include <cstdint>
typedef uint8_t ttq_u8;
typedef uint16_t ttq_u16;
typedef uint32_t ttq_u32;
typedef uint64_t ttq_u64;
typedef int64_t ttq_i64;
#define TTQ_STATIC_ASSERT static_assert
#else  // the tool has no libc; it includes Valgrind's basics first
typedef UChar ttq_u8;
typedef UShort ttq_u16;
typedef UInt ttq_u32;
typedef ULong ttq_u64;
typedef Long ttq_i64;
#define TTQ_STATIC_ASSERT _Static_assert
#endif

// 1: first; 2: kTtqSetVector; 3: kTtqVectors; 4: high halves of vector registers, st(0);
// 5: kTtqMark; 6: kTtqDescriptor, kTtqThreadAt, TtqRing::beginning; 7: kTtqUndetermined,
// kTtqFileSize; 8: TtqRing::holds_inputs, again, not_again; 9: TtqRing::hold_before;
// 10: TtqRing::inputs_before and log_because in place of holds_inputs and not_again, again.goes_on,
// kTtqCutOff; 11: TtqRing::exit_status, so_far; 12: the native engine's records, and so places in
// the log, are other ones where code uses nearly all registers; 13: programs and the engine lie
// elsewhere
enum { kTtqStreamVersion = 13 };

// 2: kTtqCounted, TtqRing::log_block_bytes
#define TTQ_RING_MAGIC 0x32474e5251545451ull  // "QTTQRNG2"

enum {
  kTtqExitBits = 7,
  kTtqExitOpen = 127,
  kTtqMaxSideExits = 120,
  kTtqMaxRecordBytes = 32 << 10,  // header and slots of one superblock execution
  kTtqMaxThreads = 500,           // Valgrind's own limit
};

// The registers a snapshot holds: the sixteen general ones in encoding order, then three that
// addresses can depend on.
enum { kTtqRegFs = 16, kTtqRegGs = 17, kTtqRegDirection = 18, kTtqRegCount = 19 };

// TtqRing::state; kTtqCutOff: no more comes, and more may have happened
enum { kTtqRunning = 0, kTtqFinished = 1, kTtqCutOff = 2 };
// TtqRing::command, written by the recorder
enum { kTtqRecord = 0, kTtqDetach = 1 };

enum { kTtqMaxPending = 1024 };

typedef struct {
  ttq_u64 magic;
  ttq_u32 version;
  ttq_u32 pid;
  ttq_u32 parent_pid;   // of the process that forked it; 0 when it was exec'ed or is the first
  ttq_u32 fork_number;  // the kTtqFork of the parent's stream it comes from; 0: see parent_ring
  // File name of that parent's ring, "" when there is none. Of a process that is run again, without
  // a fork_number: the ring has a segment of that ring's process, from block `consumed` on.
  char parent_ring[32];
  ttq_u32 block_bytes, block_count;
  ttq_u32 log_block_bytes;     // of block_bytes, what a log and its recipes get; 0: all
  ttq_u32 produced, consumed;  // futex words
  ttq_u32 state, command;
  ttq_i64 start_wall_ns;   // CLOCK_REALTIME
  ttq_u32 fatal_signal;    // 0: none
  ttq_u32 verify;          // wait after each block until ingest has compared memory
  ttq_u32 verified;        // blocks compared; futex word
  ttq_u32 argument_bytes;  // NUL-separated: program path, working directory, argv…
  char arguments[64 << 10];
  ttq_u32 beginning;     // ttq::Beginning: 0 from the start, else of one moment alone
  char incomplete[512];  // what is missing, one clause
  ttq_u32 became_other;  // it may have become, by exec, a program that cannot be recorded
  // Blocks before this one hold, in place of a log, what recorder/inputs.h says; 0: none does, ~0:
  // all so far.
  ttq_u32 inputs_before;
  char log_because[256];      // of these: why the others hold a log, one clause
  struct {                    // of a process that is run again: as it was recorded
    ttq_u32 pid;              // 0: it is not
    ttq_u32 process, parent;  // their numbers in the recording; 0: it has no parent
    ttq_u32 superseded;       // it replaced itself, by exec
    ttq_u32 goes_on;          // its log does, by another producer, when the process has ended
  } again;
  // Of such a process: before this block it stands still, with nothing done that is not logged,
  // until the number is another one; 0: nowhere. Blocks before it may be counted. Futex word.
  ttq_u32 hold_before;
  // Of the block that is being filled with inputs, as of the last system call that was begun.
  struct {
    ttq_u32 changes;  // odd: it is being changed
    ttq_u32 block;
    ttq_u32 log_bytes, bytes;  // of the log; of the records in its place
    ttq_i64 wall_ns;           // CLOCK_REALTIME
  } so_far;
  ttq_u32 exit_status;  // natively: that it ended itself with, and 1; 0: it has not
  // Only with `verify`: memory that system calls under way may be writing.
  ttq_u32 pending_count;
  struct {
    ttq_u64 address, bytes;
  } pending[kTtqMaxPending];
} TtqRing;

enum { kTtqRingHeaderBytes = 128 << 10 };
// A FIFO beside the rings, with a byte in it for each ring that has been announced.
#define TTQ_BELL "bell"
TTQ_STATIC_ASSERT(sizeof(TtqRing) <= kTtqRingHeaderBytes, "ring header");

typedef struct {
  ttq_u32 number;        // from 0
  ttq_u32 log_bytes;     // after this header
  ttq_u32 recipe_bytes;  // at the end of the block
  ttq_u32 recipe_count;
  ttq_u32 between_superblocks;  // began while client code ran: the registers it starts with are
                                // those the block before it ended with
  ttq_u32 ends_between_superblocks;  // at its end all that has happened has been logged
  ttq_i64 wall_start_ns, wall_end_ns;
} TtqBlock;

// ---- Recipes ------------------------------------------------------------------------------------
//
// What one execution of a superblock does. Values are expressions over `nodes`, a node's operands
// being earlier nodes; every node is an unsigned 64-bit number, zero above its width.

enum {            // TtqNode::op; w is a width in bytes
  kTtqConst = 0,  // imm
  kTtqReg = 1,    // register a as it was at entry
  kTtqSlot = 2,   // w bytes at offset imm of the record (its header is at 0)
  kTtqAddI = 3,   // (a + imm) mod 2^8w
  kTtqAdd = 4,    // a + b, …, all mod 2^8w
  kTtqSub = 5,
  kTtqAnd = 6,
  kTtqOr = 7,
  kTtqXor = 8,
  kTtqMul = 9,
  kTtqShl = 10,  // a << (b & 8w-1)
  kTtqShr = 11,
  kTtqSar = 12,
  kTtqNot = 13,      // ~a mod 2^8w
  kTtqExtract = 14,  // (a >> 8c) mod 2^8w
  kTtqSext = 15,     // the low w bytes of a, sign-extended to c bytes
  kTtqInsert = 16,   // a with its w bytes from byte c on replaced by b
  kTtqEq = 17,       // 1 if the w low bytes of a and b are equal, else 0; …
  kTtqNe = 18,
  kTtqLtS = 19,
  kTtqLtU = 20,
  kTtqLeS = 21,
  kTtqLeU = 22,
  kTtqIte = 23,          // a ? b : c
  kTtqVectorConst = 24,  // w bytes, byte i is 0xff where bit i of imm is set, else 0
};

typedef struct {
  ttq_u8 op, w;
  ttq_u16 a, b, c;
  ttq_u64 imm;
} TtqNode;
TTQ_STATIC_ASSERT(sizeof(TtqNode) == 16, "node");

enum {                  // TtqEffect::kind
  kTtqInstruction = 0,  // the next instruction starts
  kTtqLoad = 1,         // `size` bytes at addr, if guard
  kTtqStore = 2,        // `size` bytes of value to addr, if guard
  kTtqSetReg = 3,       // register `size` becomes value
  kTtqExit = 4,         // exit number `size`; a record that leaves here is `addr` bytes long
  kTtqSetVector = 5,    // vector word `size` becomes value; kTtqNoNode: is not known
};
enum {                  // vector words
  kTtqVectorCount = 8,  // 0 … 7: the low 8 bytes of xmm0 … xmm7, which calls pass arguments in
  kTtqHighWord = 8,     // 8 … 15: their high 8 bytes
  kTtqX87Word = 16,     // st(0), as the double that Valgrind computes with
  kTtqVectorWords = 17
};
enum { kTtqNoNode = 0xffff };

typedef struct {
  ttq_u8 kind, size;
  ttq_u16 addr, value, guard;  // node numbers, kTtqNoNode where there is none
} TtqEffect;
TTQ_STATIC_ASSERT(sizeof(TtqEffect) == 8, "effect");

// In program order: TtqRecipe, TtqNode[], TtqEffect[], then per instruction its address (u64), its
// length (u8) and its bytes.
typedef struct {
  ttq_u32 bytes;  // all of it
  ttq_u32 id;
  ttq_u16 node_count, effect_count, instruction_count, exit_count;
  ttq_u16 record_bytes;       // of the longest record
  ttq_u16 instruction_bytes;  // of the instruction list
  ttq_u32 jump_kind;          // kTtqJump…: how the end leaves
} TtqRecipe;
TTQ_STATIC_ASSERT(sizeof(TtqRecipe) == 24, "recipe");

enum {
  kTtqJumpPlain = 0,
  kTtqJumpCall = 1,
  kTtqJumpReturn = 2,
  kTtqJumpSyscall = 3,
  kTtqJumpOther = 4
};

// ---- Control records ----------------------------------------------------------------------------

enum {                    // kinds; stored: do not renumber. See TtqControlKindOf, too
  kTtqRegisters = 1,      // TtqRegisters
  kTtqThread = 2,         // u32 tid: the records that follow are of this thread
  kTtqKernelWrite = 3,    // TtqKernelWrite, bytes
  kTtqMap = 4,            // TtqMap, path
  kTtqUnmap = 5,          // TtqRange
  kTtqProtect = 6,        // TtqRange
  kTtqRemap = 7,          // TtqRemap
  kTtqSyscallEnter = 8,   // TtqSyscall
  kTtqSyscallExit = 9,    // TtqSyscall
  kTtqThreadStart = 10,   // TtqThread
  kTtqThreadExit = 11,    // TtqThread
  kTtqSignal = 12,        // TtqSignal
  kTtqFault = 13,         // TtqSignal: closes the open record before it
  kTtqOutput = 14,        // TtqOutput, bytes
  kTtqFork = 15,          // u32 number
  kTtqExecve = 16,        // u32 tid, path: about to be tried
  kTtqExitProcess = 17,   // u32 status
  kTtqRecipeMark = 18,    // nothing; never sent
  kTtqVectors = 19,       // TtqVectors
  kTtqMark = 20,          // TtqMark, text: see recorder/mark.h
  kTtqDescriptor = 21,    // u32 descriptor, text: of a moment, see TtqRing::beginning
  kTtqThreadAt = 22,      // TtqThreadAt, name: of a moment
  kTtqUndetermined = 23,  // TtqUndetermined: of the instruction that ends the superblock before it
  kTtqFileSize = 24,      // TtqFileSize: of one that is mapped
  kTtqCounted = 25,       // nothing; first of a block: see above. Never stored
};

// TtqKernelWrite::actor. The first values are those of ttq::Actor.
enum {
  kTtqBySyscall = 1,
  kTtqBySignal = 2,
  kTtqByMap = 3,
  kTtqByThreadExit = 4,
  kTtqInitial = 64
};  // first contents of a new mapping: not a write

#pragma pack(push, 1)
typedef struct {
  ttq_u32 tid;
  ttq_u64 reg[kTtqRegCount];
  ttq_u64 pc;
} TtqRegisters;
typedef struct {
  ttq_u32 tid;
  ttq_u64 word[kTtqVectorWords];
} TtqVectors;
typedef struct {
  ttq_u32 tid;
  ttq_u8 actor;
  ttq_i64 syscall;
  ttq_u64 address;
} TtqKernelWrite;
typedef struct {
  ttq_u64 address, bytes;
  ttq_u8 protection;
  ttq_u8 shared;
  ttq_u8 kind;     // kTtqMapAnonymous…
  ttq_u8 content;  // kTtqContentZero…
  ttq_u64 file_offset, dev, ino, file_bytes;
  ttq_i64 mtime_ns;
} TtqMap;
typedef struct {
  ttq_u64 address, bytes;
  ttq_u8 protection;
} TtqRange;
typedef struct {
  ttq_u64 from, to, bytes;
} TtqRemap;
typedef struct {
  ttq_u32 tid;
  ttq_i64 number;
  ttq_u64 args[6];
  ttq_i64 result;  // negative errno
  ttq_i64 wall_ns;
} TtqSyscall;
typedef struct {
  ttq_u32 tid, os_tid, parent;
  union {
    ttq_u64 number;  // of a start: the how many-th thread of the process was made; 0: not known
    ttq_u64 clear_address;  // of an exit: where the kernel writes a zero; 0: nowhere
  };
} TtqThread;
typedef struct {
  ttq_u32 tid;
  ttq_u32 number;
  ttq_i64 code;
  ttq_u64 address, pc;
  ttq_i64 wall_ns;
  ttq_u8 on_alternate_stack;
} TtqSignal;
typedef struct {
  ttq_u32 tid;
  ttq_u32 fd;
} TtqOutput;
typedef struct {
  ttq_u32 tid;
  ttq_i64 wall_ns;
} TtqMark;
typedef struct {
  ttq_u32 tid;
  ttq_i64 syscall;  // that it is in; -1: none
} TtqThreadAt;
// What an instruction found that its operands do not determine (cpuid, rdtsc, rdrand, …): the
// registers that it writes, in the order of their numbers, and the flags after it.
typedef struct {
  ttq_u32 tid;
  ttq_u32 count;
  ttq_u64 value[4];
  ttq_u64 flags;
} TtqUndetermined;
typedef struct {
  ttq_u64 dev, ino, bytes;
} TtqFileSize;
#pragma pack(pop)

#ifdef __cplusplus
// What whoever passes control records on needs to know of a kind.
struct TtqControlKind {
  size_t head_bytes = 0;        // of the fixed part
  bool of_thread = false;       // which begins with the number of its thread, a u32
  bool by_instruction = false;  // an instruction of the program's makes it
  bool keeps_memory = false;    // memory and mappings stay as they are
  const char* name = "a record";
};
constexpr TtqControlKind TtqControlKindOf(ttq_u32 kind) {
  switch (kind) {
    case kTtqRegisters:
      return {.head_bytes = sizeof(TtqRegisters), .of_thread = true};
    case kTtqThread:
      return {.head_bytes = sizeof(ttq_u32), .of_thread = true, .name = "another thread"};
    case kTtqKernelWrite:
      return {.head_bytes = sizeof(TtqKernelWrite)};
    case kTtqMap:
      return {.head_bytes = sizeof(TtqMap)};
    case kTtqUnmap:
    case kTtqProtect:
      return {.head_bytes = sizeof(TtqRange)};
    case kTtqRemap:
      return {.head_bytes = sizeof(TtqRemap)};
    case kTtqSyscallEnter:
      return {.head_bytes = sizeof(TtqSyscall),
              .of_thread = true,
              .by_instruction = true,
              .keeps_memory = true,
              .name = "a system call"};
    case kTtqSyscallExit:
      return {.head_bytes = sizeof(TtqSyscall), .of_thread = true, .keeps_memory = true};
    case kTtqThreadStart:
      return {.head_bytes = sizeof(TtqThread), .of_thread = true, .name = "another thread"};
    case kTtqThreadExit:
      return {.head_bytes = sizeof(TtqThread), .of_thread = true};
    case kTtqSignal:
      return {.head_bytes = sizeof(TtqSignal), .of_thread = true, .name = "a signal"};
    case kTtqFault:
      return {.head_bytes = sizeof(TtqSignal),
              .of_thread = true,
              .by_instruction = true,
              .name = "a fault"};
    case kTtqOutput:
      return {.head_bytes = sizeof(TtqOutput), .of_thread = true, .keeps_memory = true};
    case kTtqFork:
    case kTtqExitProcess:
    case kTtqDescriptor:
      return {.head_bytes = sizeof(ttq_u32)};
    case kTtqExecve:
      return {.head_bytes = sizeof(ttq_u32), .of_thread = true};
    case kTtqVectors:
      return {.head_bytes = sizeof(TtqVectors), .of_thread = true};
    case kTtqMark:
      return {.head_bytes = sizeof(TtqMark),
              .of_thread = true,
              .by_instruction = true,
              .keeps_memory = true,
              .name = "a mark"};
    case kTtqThreadAt:
      return {.head_bytes = sizeof(TtqThreadAt), .of_thread = true};
    case kTtqUndetermined:
      return {.head_bytes = sizeof(TtqUndetermined),
              .of_thread = true,
              .by_instruction = true,
              .keeps_memory = true,
              .name = "an instruction such as rdtsc"};
    case kTtqFileSize:
      return {.head_bytes = sizeof(TtqFileSize)};
    default:
      return {};
  }
}
#endif

enum {
  kTtqMapAnonymous = 0,
  kTtqMapFile = 1,
  kTtqMapHeap = 2,
  kTtqMapStack = 3,
  kTtqMapStartup = 4,
  kTtqMapSysV = 5
};
enum {
  kTtqContentZero = 0,     // zero, but for what kTtqInitial writes say
  kTtqContentFile = 1,     // the file's own bytes: an ELF file, read from its path by ingest
  kTtqContentUnknown = 2,  // too large to send
};

#endif  // TTQ_RECORDER_STREAM_H_

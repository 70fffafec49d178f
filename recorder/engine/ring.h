// SPDX-License-Identifier: MIT
//
// The producer's side of the ring (recorder/stream.h): where records are appended and blocks handed
// over. Where the next record goes is Context::log; translated code keeps it in a register.
//
// When the recorder is gone, or has told it to detach, the program goes on unrecorded: a block that
// nobody reads is filled over and over.

#ifndef TTQ_RECORDER_ENGINE_RING_H_
#define TTQ_RECORDER_ENGINE_RING_H_

#include "recorder/engine/base.h"
#include "recorder/stream.h"

namespace ttq::engine::ring {

struct Options {
  const char* directory;
  uint64_t block_bytes = 4 << 20;
  uint32_t block_count = 12;
  bool verify = false;
  bool inputs = false;               // nothing but the inputs is handed over
  bool again = false;                // what is run was recorded
  const char* code_cache = nullptr;  // how its files' names begin (code_cache.h); null: none
};

// Before all else.
void SetOptions(const Options& options);
// Makes and maps the ring of this process; the recorder does not see it before Announce, or before
// its first block ends. A process that gets none goes on unrecorded, with a line in the log.
void Create();
// The same in a child that this process's ring had a fork record of: gives up the parent's ring,
// and begins with its arguments.
void CreateInChild(uint32_t fork_number);
void AddArgument(const char* text);
void Announce();
bool IsOpen();
// How much of the executed instructions is logged. Places are the same in each case.
enum class Logged : uint8_t {
  kNothing,  // nothing: the process's inputs are recorded
  kCount,    // their number: a second run, in blocks that no question needs
  kAll,
};
Logged WhatIsLogged();
// `counts` decides for each block when it begins, and at once for the current one, whether it is
// counted (kCount). A change discards all translations.
void SetCounts(bool (*counts)(uint32_t block));
// A process that is forked between two blocks logs those from `first`, the next, on. In this one,
// before the fork: whether there is memory for the other's ring; once there is that process; where
// there is none. In the other: its ring takes the place of this one's.
bool MakeSegment(uint32_t first);
void AnnounceSegment(uint32_t pid);
void GiveUpSegment();
void EnterSegment();
bool IsSegment();
// The segment ends before the next block: all of its blocks are handed over.
void EndSegment();
// Called before a block begins that is not a process's or segment's first.
void SetBeforeBlock(void (*before)(uint32_t block, bool between));
// Called before translated code continues with the context's registers, and after it was left.
// Between the two, Context::log has the form that translated code keeps in the log's register;
// otherwise it is a place.
void EnterCode();
void LeaveCode();
// Where instructions are counted: of a superblock that a fault stopped, of the record `header`.
void CountOpen(uint32_t header, uint32_t instructions);
// Of a process whose inputs are recorded: it cannot be run again from here on, because `why`, one
// clause. Begins a block that holds a log, as all later ones do. True: translations that were made
// so far log nothing and are to be given up; false: nothing changes.
bool TurnToLog(const char* why);
// Of a process whose inputs are recorded: those so far are of use without what follows. May be said
// often, and is said before the process waits.
void NoteSoFar(int64_t wall_ns);
// Whether nobody records this process any more.
bool IsDetached();
TtqRing* Header();
const char* Name();

// `begin` appends what a block starts with.
void SetBegin(void (*begin)());
// `note` is called with --verify before a block is handed over.
void SetBeforeHandingOver(void (*note)(TtqRing*));

// Appends a control record, at the start of a new block if need be.
void Append(uint32_t kind, const void* head, size_t head_bytes, const void* body = nullptr,
            size_t body_bytes = 0);
template <class T>
void AppendStruct(uint32_t kind, const T& head) {
  Append(kind, &head, sizeof(head));
}

struct AddedRecipe {
  uint32_t id;
  uint8_t* at;  // null: it is not to be encoded
};
// Room in the block for a recipe of `bytes`, which is encoded at once, unless an equal one, of the
// same hash, is known. Where only inputs are kept, the room is counted and nothing else.
AddedRecipe AddRecipe(uint64_t hash, uint32_t bytes);

// From now on, the current block included, `wall` gives the wall-clock times of each block's start
// and end.
void SetWall(int64_t (*wall)(uint32_t block, bool end));
// Hands the block over and begins another. `between`: everything up to here is logged, and the
// program's own code continues.
void NextBlock(bool between);

// While *waits is not zero, the next superblock leaves translated code before it does anything.
void SetInterruptedBy(const volatile uint32_t* waits);
// *waits has changed. Interrupt: to not zero; may be called in a signal handler.
void LookForInterrupts();
void Interrupt();
// A turn begins: the next superblock after so many bytes of log leaves translated code. 0: no end.
void BeginTurn(uint64_t bytes);
// A place in the stream: a block's number, and bytes of its log.
struct Position {
  uint32_t block, offset;
};
Position Here();
// Of what the block holds so far.
uint64_t HashOfBlock();
// No superblock begins there, or behind it in the same block: it leaves translated code instead.
void StopAt(Position place);
// Whether it is the block that has no room for another superblock.
bool IsFull();

// The last block. Everything after it is not recorded. `complete`: all that has happened has been
// logged.
void Finish(uint32_t fatal_signal, bool complete = true);
// The process was recorded no further: hands the block over, unless it is only begun.
void Break(bool begun);

// Appends to the file that the recorder shows.
void WriteLog(const Text& line);

}  // namespace ttq::engine::ring

#endif  // TTQ_RECORDER_ENGINE_RING_H_

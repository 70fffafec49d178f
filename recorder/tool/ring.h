// SPDX-License-Identifier: GPL-2.0-or-later
//
// The tool's side of the ring: where records are appended and blocks handed over.

#ifndef TTQ_RECORDER_TOOL_RING_H_
#define TTQ_RECORDER_TOOL_RING_H_

#include "pub_tool_basics.h"
#include "recorder/stream.h"

// Creates the ring file of this process in `directory` and maps it. `parent_ring` and `fork_number`
// say where a forked child comes from. When the recorder is gone, or after a message when the ring
// cannot be made, the process goes on unrecorded.
void ttq_ring_create(const HChar* directory, ULong block_bytes, UInt block_count, Bool verify,
                     const HChar* parent_ring, UInt parent_pid, UInt fork_number);
// Renames it into place, which tells the recorder. Its header must be complete.
void ttq_ring_announce(void);
// In a forked child: forgets the parent's ring, which the child must not write to.
void ttq_ring_forget(void);
// Whether nobody records this process any more.
Bool ttq_ring_is_detached(void);
const HChar* ttq_ring_name(void);
TtqRing* ttq_ring(void);

// Where the next record goes, and the last place a superblock's record may start. Threads that run
// client code keep their own copy; see log.c.
typedef struct {
  UChar* next;
  UChar* limit;
} TtqLog;
extern TtqLog ttq_log;

// Appends one control record of `head_bytes` + `body_bytes`. REQUIRES: together they fit a block.
void ttq_append(UInt kind, const void* head, UInt head_bytes, const void* body, UInt body_bytes);
// Stores a recipe, returns its id: that of an equal one stored before, or a new one.
UInt ttq_store_recipe(const TtqRecipe* recipe);
// Length of the longest record of a superblock.
UInt ttq_record_bytes(UInt id);

// Hands the block over and starts the next, waiting for room. `begin` writes what every block
// starts with. `between_superblocks`: client code runs, see TtqBlock.
void ttq_ring_next_block(Bool between_superblocks);
void ttq_ring_set_begin(void (*begin)(void));
// `f` is called before each block is handed over.
void ttq_ring_set_before_handing_over(void (*f)(TtqRing*));
// Hands over the last block.
void ttq_ring_finish(void);
// Wall clock, nanoseconds since the epoch.
Long ttq_wall_ns(void);

#endif  // TTQ_RECORDER_TOOL_RING_H_

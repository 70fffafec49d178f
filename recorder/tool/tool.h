// SPDX-License-Identifier: GPL-2.0-or-later
//
// What the files of the tool share. Every function here runs under Valgrind's big lock, or inside
// the fault handler of the thread that holds it.

#ifndef TTQ_RECORDER_TOOL_TOOL_H_
#define TTQ_RECORDER_TOOL_TOOL_H_

#include "libvex_guest_amd64.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_basics.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "pub_tool_xarray.h"
#include "recorder/mark.h"
#include "recorder/tool/faults.h"
#include "recorder/tool/recipe.h"
#include "recorder/tool/ring.h"

extern Int ttq_register_offset(Int reg);
extern Int ttq_vector_offset(Int word);
// Valgrind keeps these to itself.
extern SysRes VG_(pread)(Int fd, void* buffer, Int count, OffT offset);
extern Int VG_(fcntl)(Int fd, Int command, Addr argument);
extern SysRes VG_(mk_SysRes_Error)(UWord error);
extern SysRes VG_(mk_SysRes_Success)(UWord value);
extern Addr VG_(clstk_end);
extern Int VG_(cl_exec_fd);
extern UInt VG_(clo_smc_check);
extern void VG_(discard_translations)(Addr start, ULong size, const HChar* who);
extern HChar** VG_(client_envp);  // on the program's stack
extern Addr VG_(trampoline_stuff_start);
extern UWord* VG_(client_auxv);

extern const HChar* clo_ring;
extern Long clo_block_bytes;
extern Long clo_block_count;
extern Bool clo_verify;

enum { kChunk = 256 << 10 };                 // bytes of memory in one record
static const ULong kMaxInline = 1ULL << 30;  // contents of one mapping that are sent

typedef struct {
  Bool alive;
  Bool has_snapshot;
  Bool left_by_fault;  // `snapshot` is of the signal's handler, which the reader does not know of
  TtqRegisters snapshot;  // as the reader knows them
  Long syscall;           // in progress, -1: none
  UWord args[6];
  Addr clear_address;  // the kernel writes 0 there when the thread ends; 0: none
  Addr robust_list;    // the kernel marks the locks in it when the thread ends; 0: none
  ULong turns;         // of the program's threads when its system call began
} ThreadInfo;
extern ThreadInfo g_thread[kTtqMaxThreads + 1];

// A piece of memory that the system call in progress may write. Another thread may run, or fork,
// while the kernel has written it and this thread has not come back to say so.
typedef struct {
  Addr address;
  SizeT bytes;
  SizeT saved, at;  // the first `saved` bytes, as they were before the call, are at `memory` + `at`
  Bool guessed;     // nobody says that the call writes it
} Piece;
typedef struct {
  Piece* piece;
  UChar* memory;
  UInt count, capacity;
  SizeT memory_bytes, memory_capacity;
} Pieces;
extern Pieces g_pieces[kTtqMaxThreads + 1];

extern ThreadId g_logged_thread;  // the thread the reader takes records to be of
extern ULong g_turns;             // how often that changed
extern Bool g_in_client;          // client code is running: the log's words are in its shadow state
extern UInt g_forks;

typedef struct {
  UInt kind;
  Addr start, end;
  ULong dev, ino, offset;  // of kFile
} Range;
enum { kShared = 1, kFile = 2, kNotForked = 4, kWipedOnFork = 8 };
extern Range* g_ranges;  // in no order, a few; two of a kind never overlap
extern UInt g_range_count;
extern UInt g_told_count;  // of kernel_writes.c

// ---- log.c ---------------------------------------------------------------------------------

void ttq_load_log(ThreadId tid);
// Appends a control record from anywhere, also from inside the fault handler.
void ttq_append_anywhere(UInt kind, const void* head, UInt head_bytes, const void* body,
                         UInt body_bytes);
void ttq_get_registers(ThreadId tid, TtqRegisters* r);
// What every block starts with: all threads' registers, and whose records follow.
void ttq_begin_block(void);
// Called by client code when the next superblock's record might not fit.
void ttq_room(void);
void ttq_start_client_code(ThreadId tid, ULong blocks);
void ttq_stop_client_code(ThreadId tid, ULong blocks);
IRSB* ttq_instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                     const VexGuestExtents* extents, const VexArchInfo* host, IRType guest_word,
                     IRType host_word);

// ---- memory.c ------------------------------------------------------------------------------

void ttq_send_bytes(UInt actor, ThreadId tid, Addr address, const UChar* bytes, SizeT size);
Bool ttq_is_zero(const UChar* at, SizeT n);
// Memory that is there before the program starts: its pages that are not zero.
void ttq_send_pages(Addr address, SizeT size);
UInt ttq_protection_of(Bool r, Bool w, Bool x);
void ttq_send_map(Addr a, SizeT len, UInt protection, UInt kind, UInt content, Bool shared,
                  const NSegment* seg, const struct vg_stat* st, ULong shmid);
// Memory as it is, whatever its protection: pages that cannot be read, such as those beyond the end
// of a file, are left out.
void ttq_send_real(UInt actor, ThreadId tid, Addr address, SizeT size);
// Memory that the tool can read itself, as far as it can.
void ttq_send_memory(UInt actor, ThreadId tid, Addr address, SizeT size);

// ---- ranges.c ------------------------------------------------------------------------------

void ttq_add_range(Range r);
// [start, end) is no longer of these kinds.
void ttq_cut_ranges(Addr start, Addr end, UInt kinds);
Bool ttq_in_range(Addr a, UInt kind);
void ttq_new_mem_startup(Addr a, SizeT len, Bool rr, Bool ww, Bool xx, ULong handle);
void ttq_new_mem_mmap(Addr a, SizeT len, Bool rr, Bool ww, Bool xx, ULong handle);
// The break is not a multiple of a page; what lies before it in its page stays.
Addr ttq_page_up(Addr a);
void ttq_new_mem_brk(Addr a, SizeT len, ThreadId tid);
void ttq_die_mem(Addr a, SizeT len);
void ttq_die_mem_brk(Addr a, SizeT len);
void ttq_change_mem_mprotect(Addr a, SizeT len, Bool rr, Bool ww, Bool xx);
void ttq_copy_mem_remap(Addr from, Addr to, SizeT len);

// ---- kernel_writes.c -----------------------------------------------------------------------

void ttq_add_pieces(ThreadId tid, UInt number, const UWord* args);
// Only where the kernel writes what it also reads: elsewhere a change is another thread's.
void ttq_pre_mem_read(CorePart part, ThreadId tid, const HChar* what, Addr a, SizeT size);
void ttq_pre_mem_write(CorePart part, ThreadId tid, const HChar* what, Addr a, SizeT size);
// The block goes to a reader that compares memory: says what the kernel may be writing meanwhile.
void ttq_note_pending(TtqRing* ring);
void ttq_post_mem_write(CorePart part, ThreadId tid, Addr a, SizeT size);
void ttq_send_told(ThreadId tid, UInt number, const UWord* args, Long result);
void ttq_send_changes(ThreadId tid, Bool guesses);
// What was too large to be saved. It is sent as a whole where any of it may have been written.
void ttq_send_unsaved(ThreadId tid);
void ttq_forget_pieces(ThreadId tid);

// ---- signals.c -----------------------------------------------------------------------------

void ttq_new_mem_stack_signal(Addr a, SizeT len, ThreadId tid);
// The frame holds Valgrind's own state of the thread too; nobody else reports that part.
void ttq_post_reg_write(CorePart part, ThreadId tid, PtrdiffT offset, SizeT size);

// ---- threads.c -----------------------------------------------------------------------------

void ttq_pre_thread_ll_create(ThreadId tid, ThreadId child);
void ttq_pre_thread_first_insn(ThreadId tid);
void ttq_pre_thread_ll_exit(ThreadId tid);
// Private memory of no file that the kernel made zero again.
void ttq_zero_range(Addr start, SizeT size);
// In the child, which is about to end.
void ttq_tell_parent_of_vfork(void);
// In the parent. A child that waits for another thread of this process, which cannot run now, would
// have it wait for ever.
void ttq_fork_parent(ThreadId tid);
void ttq_fork_pre(ThreadId tid);
void ttq_fork_child(ThreadId tid);

// ---- syscalls.c ----------------------------------------------------------------------------

void ttq_pre_syscall(ThreadId tid, UInt number, UWord* args, UInt count);
// What the program says to its recorder. Requests of other tools are not answered.
Bool ttq_handle_client_request(ThreadId tid, UWord* args, UWord* result);
void ttq_post_syscall(ThreadId tid, UInt number, UWord* args, UInt count, SysRes result);

#endif  // TTQ_RECORDER_TOOL_TOOL_H_

// SPDX-License-Identifier: GPL-2.0-or-later
//
// The ring's producer. One per process; only the thread that holds Valgrind's big lock comes here.
//
// When the recorder is gone, or told to detach, or there is no memory for a ring, the program goes
// on unrecorded: a private block is filled over and over and never handed on.
//
// Shared memory that cannot be had is found out by asking for each block before it is first used: a
// store to it would end the program by SIGBUS. The ring then makes do with the blocks it has.

#include "recorder/tool/ring.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

// Valgrind keeps these to itself; their interface has been stable since 3.4.
extern SysRes VG_(am_shared_mmap_file_float_valgrind)(SizeT length, UInt prot, Int fd,
                                                      Off64T offset);
extern SysRes VG_(am_mmap_anon_float_valgrind)(SizeT length);
extern Int VG_(safe_fd)(Int fd);  // moves it out of the program's reach

TtqLog ttq_log;

static TtqRing* g_ring;
static SizeT g_ring_bytes;
static HChar g_name[32];
static const HChar* g_directory_name;
static Int g_directory = -1;  // the rings' directory; a child may be anywhere when it is forked
static UInt g_recorder_pid;
static Bool g_detached;
static void (*g_begin)(void);
static void (*g_before_handing_over)(TtqRing*);

static UChar* g_block;       // the block being filled
static UChar* g_scratch;     // what is filled instead once detached
static UChar* g_recipe_top;  // its recipes start here
static UInt g_recipe_count, g_block_number;

static UInt g_next_id = 1;
static UShort* g_record_bytes;  // by id
static UInt g_record_capacity;

// Recipes known, by hash: open addressing, power of two.
typedef struct {
  ULong hash;
  UInt id;
} KnownRecipe;
static KnownRecipe* g_known;
static UInt g_known_capacity, g_known_count;

static long raw_syscall(long n, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

enum { kFutexWait = 0, kFutexWake = 1 };

static void futex_wake(UInt* word) {
  raw_syscall(__NR_futex, (long)word, kFutexWake, 0x7fffffff, 0, 0, 0);
}

// Waits until *word is no longer `seen`, at most half a second.
static void futex_wait(UInt* word, UInt seen) {
  struct vki_timespec half = {0, 500000000};
  raw_syscall(__NR_futex, (long)word, kFutexWait, seen, (long)&half, 0, 0);
}

Long ttq_wall_ns(void) {
  struct vki_timespec t;
  raw_syscall(__NR_clock_gettime, 0 /* CLOCK_REALTIME */, (long)&t, 0, 0, 0, 0);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

const HChar* ttq_ring_name(void) { return g_name; }
TtqRing* ttq_ring(void) { return g_ring; }
void ttq_ring_set_begin(void (*begin)(void)) { g_begin = begin; }
void ttq_ring_set_before_handing_over(void (*f)(TtqRing*)) { g_before_handing_over = f; }

// The recorder holds a lock on the directory, which the kernel opens however the recorder ends, and
// also while nobody has waited for it. Where the directory is out of reach, its number must do.
static Bool recorder_is_gone(void) {
  if (g_directory < 0)
    return raw_syscall(__NR_kill, g_recorder_pid, 0, 0, 0, 0, 0) == -3 /* ESRCH */;
  if (raw_syscall(__NR_flock, g_directory, 1 | 4 /* LOCK_SH | LOCK_NB */, 0, 0, 0, 0) < 0)
    return False;
  raw_syscall(__NR_flock, g_directory, 8 /* LOCK_UN */, 0, 0, 0, 0);
  return True;
}

// What a recorder that is gone cannot take away any more. The last process finds the directory
// empty.
static void leave_nothing_behind(void) {
  HChar log[40];
  raw_syscall(__NR_unlinkat, g_directory, (long)g_name, 0, 0, 0, 0);
  VG_(snprintf)(log, sizeof(log), "log.%u", (UInt)VG_(getpid)());
  raw_syscall(__NR_unlinkat, g_directory, (long)log, 0, 0, 0, 0);
  raw_syscall(__NR_unlinkat, g_directory, (long)TTQ_BELL, 0, 0, 0, 0);
  raw_syscall(__NR_rmdir, (long)g_directory_name, 0, 0, 0, 0, 0);
}

static void detach_if_recorder_is_gone(void) {
  if (g_detached || !recorder_is_gone()) return;
  g_detached = True;
  leave_nothing_behind();
}

Bool ttq_ring_is_detached(void) {
  detach_if_recorder_is_gone();
  return g_detached;
}

// Makes sure that there is memory behind a piece of the ring.
static Bool have_memory(UChar* at, SizeT bytes) {
  long r = raw_syscall(__NR_madvise, (long)at, bytes, 23 /* MADV_POPULATE_WRITE */, 0, 0, 0);
  if (r >= 0 || r == -22 /* EINVAL: Linux before 5.14 */) return True;
  raw_syscall(__NR_madvise, (long)at, bytes, 9 /* MADV_REMOVE */, 0, 0, 0);
  return False;
}

static UChar* block_at(UInt number) {
  return (UChar*)g_ring + kTtqRingHeaderBytes +
         (SizeT)(number % g_ring->block_count) * g_ring->block_bytes;
}

typedef struct {
  ULong soft, hard;
} Limit;
enum { kLimitFileSize = 1 };

// Makes the file, whatever limit and mask the program has set for its own files. Gives a
// descriptor, or a negative error.
static long make_file(const HChar* name, ULong bytes) {
  Limit old, wanted = {bytes, 0};
  raw_syscall(__NR_prlimit64, 0, kLimitFileSize, 0, (long)&old, 0, 0);
  wanted.hard = old.hard < bytes ? bytes : old.hard;
  Bool limited = old.soft < bytes;
  if (limited) {  // beyond the limit is a signal, not only an error
    long r = raw_syscall(__NR_prlimit64, 0, kLimitFileSize, (long)&wanted, 0, 0, 0);
    if (r < 0) return r;
  }
  long fd =
      raw_syscall(__NR_openat, g_directory, (long)name,
                  VKI_O_RDWR | VKI_O_CREAT | VKI_O_EXCL | 02000000 /* O_CLOEXEC */, 0600, 0, 0);
  if (fd >= 0) {
    raw_syscall(__NR_fchmod, fd, 0600, 0, 0, 0, 0);
    long r = raw_syscall(__NR_ftruncate, fd, bytes, 0, 0, 0, 0);
    if (r < 0) {
      raw_syscall(__NR_close, fd, 0, 0, 0, 0, 0);
      fd = r;
    }
  }
  if (limited) raw_syscall(__NR_prlimit64, 0, kLimitFileSize, (long)&old, 0, 0, 0);
  return fd;
}

static void start_block(Bool between_superblocks) {
  if (g_detached) {
    // The ring's blocks may still be being read.
    if (!g_scratch) g_scratch = VG_(malloc)("ttq.scratch", g_ring->block_bytes);
    g_block = g_scratch;
  } else {
    g_block = block_at(g_block_number);
  }
  TtqBlock* b = (TtqBlock*)g_block;
  b->number = g_block_number;
  b->wall_start_ns = ttq_wall_ns();
  b->between_superblocks = between_superblocks;
  g_recipe_top = g_block + g_ring->block_bytes;
  g_recipe_count = 0;
  ttq_log.next = g_block + sizeof(TtqBlock);
  ttq_log.limit = g_recipe_top - kTtqMaxRecordBytes;
}

// The ring's file, mapped; null, after a message, when it cannot be had.
static TtqRing* map_ring_file(ULong block_bytes) {
  HChar temporary[40];
  VG_(snprintf)(temporary, sizeof(temporary), ".%s", g_name);
  const HChar* what = "create";
  // The directory is made by the recorder for this recording; r-…, so the name is new.
  long fd = make_file(temporary, g_ring_bytes);
  long r = fd;
  TtqRing* ring = NULL;
  if (fd >= 0) {
    SysRes m = VG_(am_shared_mmap_file_float_valgrind)(g_ring_bytes, VKI_PROT_READ | VKI_PROT_WRITE,
                                                       fd, 0);
    raw_syscall(__NR_close, fd, 0, 0, 0, 0, 0);
    what = "map";
    if (sr_isError(m))
      r = -(long)sr_Err(m);
    else
      ring = (TtqRing*)sr_Res(m);
  }
  if (ring && !have_memory((UChar*)ring, kTtqRingHeaderBytes + block_bytes)) {
    VG_(am_munmap_valgrind)((Addr)ring, g_ring_bytes);
    ring = NULL;
    what = "get memory for";
    r = -28;
  }
  if (ring) return ring;
  raw_syscall(__NR_unlinkat, g_directory, (long)temporary, 0, 0, 0, 0);
  VG_(fmsg)
  ("ttq: process %u is not recorded: cannot %s its ring in %s (error %ld)\n", (UInt)VG_(getpid)(),
   what, g_directory_name, -r);
  return NULL;
}

void ttq_ring_create(const HChar* directory, ULong block_bytes, UInt block_count, Bool verify,
                     const HChar* parent_ring, UInt parent_pid, UInt fork_number) {
  static UInt number;
  g_directory_name = directory;
  HChar* at = VG_(strrchr)(directory, '-');  // …-PID of the recorder
  g_recorder_pid = at ? VG_(strtoll10)(at + 1, NULL) : 0;
  if (g_directory < 0) {
    SysRes d = VG_(open)(directory, VKI_O_RDONLY, 0);
    if (!sr_isError(d)) g_directory = VG_(safe_fd)(sr_Res(d));
  }
  UInt pid = VG_(getpid)();
  VG_(snprintf)
  (g_name, sizeof(g_name), "r-%u-%u-%llx", pid, number++, (ULong)ttq_wall_ns() & 0xffffffff);
  g_ring_bytes = kTtqRingHeaderBytes + block_bytes * block_count;
  // What a forked child goes on from is not known where its parent is not recorded.
  g_detached = g_detached && parent_ring[0] != 0;
  if (!g_detached) detach_if_recorder_is_gone();
  g_ring = g_detached ? NULL : map_ring_file(block_bytes);
  if (!g_ring) {
    g_detached = True;
    SysRes m = VG_(am_mmap_anon_float_valgrind)(g_ring_bytes);
    if (sr_isError(m)) VG_(tool_panic)("ttq: no address space for a ring");
    g_ring = (TtqRing*)sr_Res(m);
  }
  g_ring->magic = TTQ_RING_MAGIC;
  g_ring->version = kTtqStreamVersion;
  g_ring->pid = pid;
  g_ring->parent_pid = parent_pid;
  g_ring->fork_number = fork_number;
  VG_(strncpy)(g_ring->parent_ring, parent_ring, sizeof(g_ring->parent_ring) - 1);
  g_ring->block_bytes = block_bytes;
  g_ring->block_count = block_count;
  g_ring->start_wall_ns = ttq_wall_ns();
  g_ring->verify = verify;
  g_block_number = 0;
  // A forked child's ids go on from its parent's, whose translations it keeps.
  start_block(False);
}

void ttq_ring_announce(void) {
  if (g_detached) return;
  HChar temporary[40];
  VG_(snprintf)(temporary, sizeof(temporary), ".%s", g_name);
  // It fails when the recorder is gone and its directory too.
  if (raw_syscall(__NR_renameat, g_directory, (long)temporary, g_directory, (long)g_name, 0, 0) <
      0) {
    g_detached = True;
    return;
  }
  // For reading too: without a reader, to write is a signal.
  long bell = raw_syscall(__NR_openat, g_directory, (long)TTQ_BELL,
                          VKI_O_RDWR | VKI_O_NONBLOCK | 02000000 /* O_CLOEXEC */, 0, 0, 0);
  if (bell < 0) return;  // it looks now and then
  raw_syscall(__NR_write, bell, (long)"!", 1, 0, 0, 0);
  raw_syscall(__NR_close, bell, 0, 0, 0, 0, 0);
}

void ttq_ring_forget(void) {
  VG_(am_munmap_valgrind)((Addr)g_ring, g_ring_bytes);
  g_ring = NULL;
}

static void publish(Bool between_superblocks) {
  TtqBlock* b = (TtqBlock*)g_block;
  if (g_before_handing_over) g_before_handing_over(g_ring);
  b->ends_between_superblocks = between_superblocks;
  b->log_bytes = ttq_log.next - g_block - sizeof(TtqBlock);
  b->recipe_bytes = g_block + g_ring->block_bytes - g_recipe_top;
  b->recipe_count = g_recipe_count;
  b->wall_end_ns = ttq_wall_ns();
  __atomic_store_n(&g_ring->produced, g_block_number + 1, __ATOMIC_RELEASE);
  futex_wake(&g_ring->produced);
}

static void detach_if_told(void) {
  if (__atomic_load_n(&g_ring->command, __ATOMIC_ACQUIRE) == kTtqDetach) g_detached = True;
}

static void wait_until_verified(void) {
  if (!g_ring->verify) return;
  while (!g_detached) {
    UInt verified = __atomic_load_n(&g_ring->verified, __ATOMIC_ACQUIRE);
    if (verified > g_block_number) return;
    futex_wait(&g_ring->verified, verified);
    detach_if_told();
    detach_if_recorder_is_gone();
  }
}

void ttq_ring_next_block(Bool between_superblocks) {
  if (!g_detached) publish(between_superblocks);
  wait_until_verified();
  if (!g_detached && g_block_number + 1 < g_ring->block_count &&
      !have_memory(block_at(g_block_number + 1), g_ring->block_bytes)) {
    // Nothing has used a block twice yet, so the reader finds those before where it would have.
    __atomic_store_n(&g_ring->block_count, g_block_number + 1, __ATOMIC_RELEASE);
  }
  for (;;) {
    UInt consumed = __atomic_load_n(&g_ring->consumed, __ATOMIC_ACQUIRE);
    detach_if_told();
    if (g_detached || g_block_number + 1 - consumed < g_ring->block_count) break;
    futex_wait(&g_ring->consumed, consumed);
    detach_if_recorder_is_gone();
  }
  if (!g_detached) g_block_number++;
  start_block(between_superblocks);
  if (g_begin) g_begin();
}

void ttq_ring_finish(void) {
  if (!g_detached) publish(True);
  wait_until_verified();
  detach_if_recorder_is_gone();
  g_detached = True;
  __atomic_store_n(&g_ring->state, kTtqFinished, __ATOMIC_RELEASE);
  futex_wake(&g_ring->produced);
}

void ttq_append(UInt kind, const void* head, UInt head_bytes, const void* body, UInt body_bytes) {
  UInt payload = head_bytes + body_bytes;
  // A fault closes the open record before it, and the registers behind it tell how far that came.
  // Both stay in its block: behind the limit is room.
  static UInt last_kind;
  Bool stays = kind == kTtqFault || (kind == kTtqRegisters && last_kind == kTtqFault);
  if (!stays && ttq_log.next + 8 + payload > ttq_log.limit) ttq_ring_next_block(False);
  last_kind = kind;
  tl_assert(ttq_log.next + 8 + payload <= ttq_log.limit + kTtqMaxRecordBytes);
  VG_(memcpy)(ttq_log.next, &kind, 4);
  VG_(memcpy)(ttq_log.next + 4, &payload, 4);
  VG_(memcpy)(ttq_log.next + 8, head, head_bytes);
  if (body_bytes) VG_(memcpy)(ttq_log.next + 8 + head_bytes, body, body_bytes);
  ttq_log.next += 8 + payload;
}

static ULong hash_recipe(const TtqRecipe* r) {
  const UChar* at = (const UChar*)r;
  ULong h = 0x9e3779b97f4a7c15ULL;
  for (UInt i = 0; i + 8 <= r->bytes; i += 8) {
    ULong w;
    VG_(memcpy)(&w, at + i, 8);
    h = (h ^ w) * 0xff51afd7ed558ccdULL;
    h ^= h >> 32;
  }
  for (UInt i = r->bytes & ~7u; i < r->bytes; i++) h = (h ^ at[i]) * 0xc4ceb9fe1a85ec53ULL;
  return h ^ (h >> 29) ? h ^ (h >> 29) : 1;
}

static KnownRecipe* find_known(ULong hash) {
  UInt i = hash & (g_known_capacity - 1);
  while (g_known[i].hash && g_known[i].hash != hash) i = (i + 1) & (g_known_capacity - 1);
  return &g_known[i];
}

static void grow_known(void) {
  KnownRecipe* old = g_known;
  UInt old_capacity = g_known_capacity;
  g_known_capacity = old_capacity ? old_capacity * 2 : 1 << 14;
  g_known = VG_(calloc)("ttq.known", g_known_capacity, sizeof(KnownRecipe));
  for (UInt i = 0; i < old_capacity; i++)
    if (old[i].hash) *find_known(old[i].hash) = old[i];
  if (old) VG_(free)(old);
}

UInt ttq_store_recipe(const TtqRecipe* recipe) {
  // `id` is zero here, so equal recipes hash alike: code translated again, after Valgrind evicted
  // it, keeps its id.
  if (2 * g_known_count >= g_known_capacity) grow_known();
  ULong hash = hash_recipe(recipe);
  KnownRecipe* known = find_known(hash);
  if (known->hash) return known->id;
  UInt id = g_next_id++;
  if (id >> (32 - kTtqExitBits)) VG_(tool_panic)("ttq: too many translations");
  known->hash = hash;
  known->id = id;
  g_known_count++;
  if (id >= g_record_capacity) {
    g_record_capacity = g_record_capacity ? g_record_capacity * 2 : 1 << 14;
    g_record_bytes = VG_(realloc)("ttq.record", g_record_bytes, g_record_capacity * sizeof(UShort));
  }
  g_record_bytes[id] = recipe->record_bytes;
  if (ttq_log.next + recipe->bytes > ttq_log.limit) ttq_ring_next_block(False);
  g_recipe_top -= recipe->bytes;
  ttq_log.limit -= recipe->bytes;
  VG_(memcpy)(g_recipe_top, recipe, recipe->bytes);
  ((TtqRecipe*)g_recipe_top)->id = id;
  g_recipe_count++;
  return id;
}

UInt ttq_record_bytes(UInt id) { return id < g_next_id ? g_record_bytes[id] : 0; }

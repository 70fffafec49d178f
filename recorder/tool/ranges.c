// SPDX-License-Identifier: GPL-2.0-or-later
//
// Mappings: what they hold, and the ranges that need more care than other memory, shared ones,
// those of files that may change, and those that a fork leaves out.

#include "recorder/tool/tool.h"

Range* g_ranges;  // in no order, a few; two of a kind never overlap
UInt g_range_count;
static UInt g_range_capacity;

void ttq_add_range(Range r) {
  if (g_range_count == g_range_capacity) {
    g_range_capacity = g_range_capacity ? 2 * g_range_capacity : 64;
    g_ranges = VG_(realloc)("ttq.ranges", g_ranges, g_range_capacity * sizeof(Range));
  }
  g_ranges[g_range_count++] = r;
}

void ttq_cut_ranges(Addr start, Addr end, UInt kinds) {
  for (UInt i = g_range_count; i-- > 0;) {
    Range r = g_ranges[i];
    if (!(r.kind & kinds) || r.end <= start || r.start >= end) continue;
    g_ranges[i] = g_ranges[--g_range_count];
    Range head = r, tail = r;
    head.end = start;
    tail.start = end;
    tail.offset += end - r.start;
    if (head.start < head.end) ttq_add_range(head);
    if (tail.start < tail.end) ttq_add_range(tail);
  }
}

Bool ttq_in_range(Addr a, UInt kind) {
  for (UInt i = 0; i < g_range_count; i++)
    if (g_ranges[i].kind == kind && g_ranges[i].start <= a && a < g_ranges[i].end) return True;
  return False;
}

// The program is to see the environment its user gave it: what Valgrind added goes, before the
// first instruction. The vectors on the stack are closed up; the strings stay.
static void clean_environment(void) {
  UWord *from = (UWord*)VG_(client_envp), *to = from;
  for (; *from; from++) {
    HChar* entry = (HChar*)*from;
    if (VG_(strncmp)(entry, "VALGRIND_LIB=", 13) == 0) continue;
    if (VG_(strncmp)(entry, "LD_PRELOAD=", 11) == 0) {
      HChar* ours = VG_(strstr)(entry, "/vgpreload_core-");
      HChar* rest = ours ? VG_(strstr)(ours, ".so") : NULL;
      if (rest && rest[3] == 0) continue;
      if (rest && rest[3] == ':') {  // the user's own come after it
        HChar* into = entry + 11;
        for (rest += 4; (*into++ = *rest++);) {
        }
      }
    }
    *to++ = *from;
  }
  if (to == from) return;
  SizeT gone = from - to;
  UWord* auxv = from + 1;
  UWord* end = auxv;
  while (*end) end += 2;
  end += 2;
  *to++ = 0;
  if (VG_(client_auxv) == auxv) VG_(client_auxv) = to;
  for (UWord* at = auxv; at < end; at++) *to++ = *at;
  VG_(memset)(to, 0, gone * sizeof(UWord));
}

void ttq_new_mem_startup(Addr a, SizeT len, Bool rr, Bool ww, Bool xx, ULong handle) {
  const NSegment* seg = VG_(am_find_nsegment)(a);
  if (!seg || !(seg->kind & (SkAnonC | SkFileC | SkShmC))) return;  // Valgrind's own code page
  // No register has its value yet.
  Addr envp = (Addr)VG_(client_envp);
  Bool stack = seg->kind == SkAnonC && a <= envp && envp <= seg->end;
  if (stack) clean_environment();
  Addr start = stack ? seg->start : a;
  SizeT size = stack ? seg->end + 1 - seg->start : len;
  // The one page of this tool that the program may execute: Valgrind's trampolines.
  Addr own = (Addr)&VG_(trampoline_stuff_start);
  Bool trampoline = a <= own && own < a + len;
  Bool file = seg->kind == SkFileC && !trampoline;
  struct vg_stat st;
  Bool known = False;
  if (file) {
    SysRes r = VG_(stat)(VG_(am_get_filename)(seg), &st);
    known = !sr_isError(r);
  }
  ttq_send_map(start, size, ttq_protection_of(rr, ww, xx),
               stack  ? kTtqMapStack
               : file ? kTtqMapFile
                      : kTtqMapStartup,
               kTtqContentZero, False, trampoline ? NULL : seg, known ? &st : NULL, 0);
  ttq_send_pages(start, size);
}

// The contents of a file mapping, read from the program's own descriptor.
static void send_file(Int fd, Addr address, SizeT size, Off64T offset) {
  UChar* buffer = VG_(malloc)("ttq.file", kChunk);
  for (SizeT done = 0; done < size;) {
    SizeT want = size - done < kChunk ? size - done : kChunk;
    SysRes r = VG_(pread)(fd, buffer, want, offset + done);
    if (sr_isError(r) || sr_Res(r) == 0) break;
    SizeT got = sr_Res(r);
    for (SizeT at = 0; at < got; at += 4096) {
      SizeT n = got - at < 4096 ? got - at : 4096;
      if (n < 4096 || !ttq_is_zero(buffer + at, 4096))
        ttq_send_bytes(kTtqInitial, 0, address + done + at, buffer + at, n);
    }
    done += got;
  }
  VG_(free)(buffer);
}

// Code in a file does not change, Valgrind assumes, and does not look whether it did. A program
// that may write to such code makes it look from now on, at a cost.
static void look_for_changed_code(Addr a, SizeT len) {
  enum { kAlways = 2 };  // Vg_SmcAll
  VG_(clo_smc_check) = kAlways;
  VG_(discard_translations)(a, len, "ttq");
}

void ttq_new_mem_mmap(Addr a, SizeT len, Bool rr, Bool ww, Bool xx, ULong handle) {
  ThreadId tid = VG_(get_running_tid)();
  const NSegment* seg = VG_(am_find_nsegment)(a);
  UInt protection = ttq_protection_of(rr, ww, xx);
  const ThreadInfo* t = tid != VG_INVALID_THREADID ? &g_thread[tid] : NULL;
  ttq_cut_ranges(a, a + len, ~0u);
  Range range = {.start = a, .end = a + len};
  if (seg && seg->kind == SkShmC) {
    ttq_send_map(a, len, protection, kTtqMapSysV, kTtqContentZero, True, seg, NULL,
                 t && t->syscall == __NR_shmat ? t->args[0] : 0);
    ttq_send_real(kTtqInitial, tid, a, len);
    range.kind = kShared;
    ttq_add_range(range);
    return;
  }
  if (t && t->syscall == __NR_mremap) {  // the part that is new
    range.kind = ttq_in_range(a - 1, kShared) ? kShared : 0;
    ttq_send_map(a, len, protection, seg && seg->kind == SkFileC ? kTtqMapFile : kTtqMapAnonymous,
                 len > kMaxInline && seg->kind == SkFileC ? kTtqContentUnknown : kTtqContentZero,
                 range.kind == kShared, seg, NULL, 0);
    if (range.kind) ttq_add_range(range);
    if (seg && seg->kind == SkFileC) {
      for (UInt i = 0; i < g_range_count; i++) {
        if (g_ranges[i].kind == kFile && g_ranges[i].end == a) g_ranges[i].end = a + len;
      }
      if (len <= kMaxInline) ttq_send_real(kTtqInitial, tid, a, len);
    }
    return;
  }
  Bool by_mmap = t && t->syscall == __NR_mmap;
  // Asynchronous I/O keeps a ring in memory that the kernel writes whenever it likes.
  Bool shared = (by_mmap && (t->args[3] & VKI_MAP_SHARED)) || (t && t->syscall == __NR_io_setup);
  if (shared) {
    range.kind = kShared;
    ttq_add_range(range);
  }
  if (xx && (shared || ww) && seg && seg->kind == SkFileC) look_for_changed_code(a, len);
  if (!seg || seg->kind != SkFileC || !by_mmap) {
    UInt content = t && t->syscall == __NR_io_setup ? kTtqContentUnknown : kTtqContentZero;
    ttq_send_map(a, len, protection, kTtqMapAnonymous, content, shared, seg, NULL, 0);
    return;
  }
  Int fd = t->args[4];
  Off64T offset = t->args[5];
  struct vg_stat st;
  Bool known = VG_(fstat)(fd, &st) == 0;
  UChar magic[4] = {0};
  SysRes r = VG_(pread)(fd, magic, 4, 0);
  Bool elf =
      known && !shared && !sr_isError(r) && sr_Res(r) == 4 && VG_(memcmp)(magic, "\177ELF", 4) == 0;
  UInt content = elf ? kTtqContentFile : len > kMaxInline ? kTtqContentUnknown : kTtqContentZero;
  ttq_send_map(a, len, protection, kTtqMapFile, content, shared, seg, known ? &st : NULL, 0);
  if (content == kTtqContentZero) send_file(fd, a, len, offset);
  if (known && !elf) {
    range.kind = kFile;
    range.dev = st.dev;
    range.ino = st.ino;
    range.offset = offset;
    ttq_add_range(range);
  }
}

Addr ttq_page_up(Addr a) { return (a + 4095) & ~4095UL; }

void ttq_new_mem_brk(Addr a, SizeT len, ThreadId tid) {
  Addr start = ttq_page_up(a), end = ttq_page_up(a + len);
  if (start < end)
    ttq_send_map(start, end - start, 3, kTtqMapHeap, kTtqContentZero, False, NULL, NULL, 0);
}

void ttq_die_mem(Addr a, SizeT len) {
  TtqRange r = {.address = a, .bytes = len};
  ttq_cut_ranges(a, a + len, ~0u);
  ttq_append_anywhere(kTtqUnmap, &r, sizeof(r), NULL, 0);
}

void ttq_die_mem_brk(Addr a, SizeT len) {
  Addr start = ttq_page_up(a), end = ttq_page_up(a + len);
  ttq_send_memory(kTtqBySyscall, VG_(get_running_tid)(), a,
                  (start < a + len ? start : a + len) - a);
  if (start < end) ttq_die_mem(start, end - start);
}

void ttq_change_mem_mprotect(Addr a, SizeT len, Bool rr, Bool ww, Bool xx) {
  TtqRange r = {.address = a, .bytes = len, .protection = ttq_protection_of(rr, ww, xx)};
  const NSegment* seg = VG_(am_find_nsegment)(a);
  if (seg && seg->kind == SkFileC &&
      ((ww && (xx || seg->hasT)) || (xx && ttq_in_range(a, kShared))))
    look_for_changed_code(a, len);
  ttq_append_anywhere(kTtqProtect, &r, sizeof(r), NULL, 0);
}

void ttq_copy_mem_remap(Addr from, Addr to, SizeT len) {
  TtqRemap r = {.from = from, .to = to, .bytes = len};
  ttq_cut_ranges(to, to + len, ~0u);
  for (UInt i = 0, n = g_range_count; i < n; i++) {
    Range moved = g_ranges[i];
    if (moved.end <= from || moved.start >= from + len) continue;
    if (moved.start < from) {
      moved.offset += from - moved.start;
      moved.start = from;
    }
    if (moved.end > from + len) moved.end = from + len;
    moved.start += to - from;
    moved.end += to - from;
    ttq_add_range(moved);
  }
  ttq_cut_ranges(from, from + len, ~0u);
  ttq_append_anywhere(kTtqRemap, &r, sizeof(r), NULL, 0);
}

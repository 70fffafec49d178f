// SPDX-License-Identifier: GPL-2.0-or-later
//
// Contents of memory, sent as records.

#include "recorder/tool/tool.h"

void ttq_send_bytes(UInt actor, ThreadId tid, Addr address, const UChar* bytes, SizeT size) {
  TtqKernelWrite w = {.tid = tid, .actor = actor, .syscall = -1};
  if (tid != VG_INVALID_THREADID && tid <= kTtqMaxThreads) w.syscall = g_thread[tid].syscall;
  while (size) {
    SizeT n = size < kChunk ? size : kChunk;
    w.address = address;
    ttq_append_anywhere(kTtqKernelWrite, &w, sizeof(w), bytes, n);
    address += n;
    bytes += n;
    size -= n;
  }
}

Bool ttq_is_zero(const UChar* at, SizeT n) {
  const ULong* w = (const ULong*)at;
  for (SizeT i = 0; i < n / 8; i++)
    if (w[i]) return False;
  return True;
}

void ttq_send_pages(Addr address, SizeT size) {
  size = ttq_readable_prefix(address, size);
  for (Addr a = address; a < address + size; a += 4096)
    if (!ttq_is_zero((UChar*)a, 4096)) ttq_send_bytes(kTtqInitial, 0, a, (UChar*)a, 4096);
}

UInt ttq_protection_of(Bool r, Bool w, Bool x) { return (r ? 1 : 0) | (w ? 2 : 0) | (x ? 4 : 0); }

void ttq_send_map(Addr a, SizeT len, UInt protection, UInt kind, UInt content, Bool shared,
                  const NSegment* seg, const struct vg_stat* st, ULong shmid) {
  TtqMap m = {.address = a,
              .bytes = len,
              .protection = protection,
              .kind = kind,
              .content = content,
              .shared = shared};
  const HChar* path = NULL;
  if (seg && (seg->kind == SkFileC)) {
    path = VG_(am_get_filename)(seg);
    m.file_offset = seg->offset + (a - seg->start);
    m.dev = seg->dev;
    m.ino = seg->ino;
  }
  if (kind == kTtqMapSysV) {
    m.dev = ~0ULL;  // no device
    m.ino = shmid + 1;
  }
  if (st) {
    m.dev = st->dev;
    m.ino = st->ino;
    m.file_bytes = st->size;
    m.mtime_ns = st->mtime * 1000000000LL + st->mtime_nsec;
  }
  ttq_append_anywhere(kTtqMap, &m, sizeof(m), path ? path : "", path ? VG_(strlen)(path) : 0);
}

void ttq_send_real(UInt actor, ThreadId tid, Addr address, SizeT size) {
  SysRes r = VG_(open)("/proc/self/mem", VKI_O_RDONLY, 0);
  if (sr_isError(r)) {
    ttq_send_bytes(actor, tid, address, (const UChar*)address, ttq_readable_prefix(address, size));
    return;
  }
  Int fd = sr_Res(r);
  UChar* buffer = VG_(malloc)("ttq.real", kChunk);
  for (Addr end = address + size; address < end;) {
    SizeT want = end - address < kChunk ? end - address : kChunk;
    r = VG_(pread)(fd, buffer, want, address);
    SizeT got = sr_isError(r) ? 0 : sr_Res(r);
    if (got) ttq_send_bytes(actor, tid, address, buffer, got);
    address += got;
    if (got < want) address = (address + 4096) & ~4095UL;
  }
  VG_(free)(buffer);
  VG_(close)(fd);
}

void ttq_send_memory(UInt actor, ThreadId tid, Addr address, SizeT size) {
  SizeT readable = ttq_readable_prefix(address, size);
  ttq_send_bytes(actor, tid, address, (const UChar*)address, readable);
}

// SPDX-License-Identifier: GPL-2.0-or-later
//
// The log while client code runs: its next word is in the shadow state of the running thread.

#include "recorder/tool/tool.h"

void ttq_load_log(ThreadId tid) {
  VG_(get_shadow_regs_area)(tid, (UChar*)&ttq_log.next, 1, kShadowNext, 8);
}

static void store_log(ThreadId tid) {
  VG_(set_shadow_regs_area)(tid, 1, kShadowNext, 8, (const UChar*)&ttq_log.next);
  VG_(set_shadow_regs_area)(tid, 1, kShadowLimit, 8, (const UChar*)&ttq_log.limit);
}

void ttq_append_anywhere(UInt kind, const void* head, UInt head_bytes, const void* body,
                         UInt body_bytes) {
  ThreadId running = g_in_client ? VG_(get_running_tid)() : VG_INVALID_THREADID;
  if (running != VG_INVALID_THREADID) ttq_load_log(running);
  ttq_append(kind, head, head_bytes, body, body_bytes);
  if (running != VG_INVALID_THREADID) store_log(running);
}

void ttq_get_registers(ThreadId tid, TtqRegisters* r) {
  r->tid = tid;
  VG_(get_shadow_regs_area)(tid, (UChar*)r->reg, 0, ttq_register_offset(0), 128);
  for (Int i = 16; i < kTtqRegCount; i++)
    VG_(get_shadow_regs_area)(tid, (UChar*)&r->reg[i], 0, ttq_register_offset(i), 8);
  VG_(get_shadow_regs_area)(tid, (UChar*)&r->pc, 0, offsetof(VexGuestAMD64State, guest_RIP), 8);
}

static void get_vectors(ThreadId tid, TtqVectors* v) {
  v->tid = tid;
  for (Int i = 0; i < kTtqX87Word; i++)
    VG_(get_shadow_regs_area)(tid, (UChar*)&v->word[i], 0, ttq_vector_offset(i), 8);
  UInt top;
  VG_(get_shadow_regs_area)(tid, (UChar*)&top, 0, offsetof(VexGuestAMD64State, guest_FTOP), 4);
  VG_(get_shadow_regs_area)
  (tid, (UChar*)&v->word[kTtqX87Word], 0, offsetof(VexGuestAMD64State, guest_FPREG) + 8 * (top & 7),
   8);
}

void ttq_begin_block(void) {
  for (ThreadId tid = 1; tid <= kTtqMaxThreads; tid++) {
    if (!g_thread[tid].alive) continue;
    TtqRegisters r;
    ttq_get_registers(tid, &r);
    ttq_append(kTtqRegisters, &r, sizeof(r), NULL, 0);
    TtqVectors v;
    get_vectors(tid, &v);
    ttq_append(kTtqVectors, &v, sizeof(v), NULL, 0);
  }
  UInt tid = g_logged_thread;
  if (tid) ttq_append(kTtqThread, &tid, 4, NULL, 0);
}

void ttq_room(void) {
  ThreadId tid = VG_(get_running_tid)();
  ttq_load_log(tid);
  ttq_ring_next_block(True);
  store_log(tid);
}

void ttq_start_client_code(ThreadId tid, ULong blocks) {
  ThreadInfo* t = &g_thread[tid];
  if (g_logged_thread != tid) {
    // The reader learns where the other thread stopped.
    ThreadInfo* other = &g_thread[g_logged_thread];
    if (g_logged_thread && other->alive && other->has_snapshot)
      ttq_append(kTtqRegisters, &other->snapshot, sizeof(TtqRegisters), NULL, 0);
    g_logged_thread = tid;
    g_turns++;
    UInt id = tid;
    ttq_append(kTtqThread, &id, 4, NULL, 0);
  }
  TtqRegisters r;
  ttq_get_registers(tid, &r);
  if (!t->has_snapshot || t->left_by_fault || VG_(memcmp)(&r, &t->snapshot, sizeof(r)) != 0)
    ttq_append(kTtqRegisters, &r, sizeof(r), NULL, 0);
  t->left_by_fault = False;
  store_log(tid);
  g_in_client = True;
}

void ttq_stop_client_code(ThreadId tid, ULong blocks) {
  if (g_in_client) ttq_load_log(tid);  // a fault has done so already
  g_in_client = False;
  ttq_get_registers(tid, &g_thread[tid].snapshot);
  g_thread[tid].has_snapshot = True;
}

IRSB* ttq_instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                     const VexGuestExtents* extents, const VexArchInfo* host, IRType guest_word,
                     IRType host_word) {
  return ttq_instrument_superblock(in, layout, ttq_store_recipe, ttq_room);
}

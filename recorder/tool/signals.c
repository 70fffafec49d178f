// SPDX-License-Identifier: GPL-2.0-or-later
//
// Signals: the frame that Valgrind builds for a handler.

#include "recorder/tool/tool.h"

static Addr g_frame;  // a signal frame being built, 0: none
static SizeT g_frame_bytes;

void ttq_new_mem_stack_signal(Addr a, SizeT len, ThreadId tid) {
  g_frame = a + 128;  // the core adds the red zone to the address, not to the size
  g_frame_bytes = len;
}

void ttq_post_reg_write(CorePart part, ThreadId tid, PtrdiffT offset, SizeT size) {
  if (part != Vg_CoreSignal || !g_frame) return;
  ttq_send_memory(kTtqBySignal, tid, g_frame, g_frame_bytes);
  g_frame = 0;
}

// Every signal passes here before it is delivered, with all that the kernel said about it (--wrap).
Bool __real_vgPlain_gdbserver_report_signal(vki_siginfo_t* info, ThreadId tid);
Bool __wrap_vgPlain_gdbserver_report_signal(vki_siginfo_t* info, ThreadId tid);
Bool __wrap_vgPlain_gdbserver_report_signal(vki_siginfo_t* info, ThreadId tid) {
  ttq_correct_signal(info, VG_(get_IP)(tid));
  TtqSignal s = {.tid = tid, .number = info->si_signo, .code = info->si_code};
  s.address = (Addr)info->_sifields._sigfault._addr;
  s.pc = VG_(get_IP)(tid);
  s.wall_ns = ttq_wall_ns();
  if (g_in_client && VG_(get_running_tid)() == tid) {
    // A fault inside a superblock. Its record is complete up to the faulting instruction.
    UChar* record;
    UInt header;
    VG_(get_shadow_regs_area)(tid, (UChar*)&record, 1, kShadowRecord, 8);
    VG_(memcpy)(&header, record, 4);
    UInt id = header >> kTtqExitBits;
    header = id << kTtqExitBits | kTtqExitOpen;
    VG_(memcpy)(record, &header, 4);
    ttq_log.next = record + ttq_record_bytes(id);
    VG_(set_shadow_regs_area)(tid, 1, kShadowNext, 8, (const UChar*)&ttq_log.next);
    ttq_append_anywhere(kTtqFault, &s, sizeof(s), NULL, 0);
    // The handler's registers are set before client code stops.
    g_thread[tid].left_by_fault = True;
    TtqRegisters r;
    ttq_get_registers(tid, &r);
    ttq_append_anywhere(kTtqRegisters, &r, sizeof(r), NULL, 0);
    // When the fault ends the process, other threads run next, and end, before this one stops.
    g_in_client = False;
  } else {
    ttq_append_anywhere(kTtqSignal, &s, sizeof(s), NULL, 0);
  }
  return __real_vgPlain_gdbserver_report_signal(info, tid);
}

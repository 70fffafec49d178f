// SPDX-License-Identifier: GPL-2.0-or-later
//
// ttq's recorder tool: translates, logs values, never interprets.
//
// What the program's own instructions do is logged by the code that recipe.c adds to each
// superblock. The other files log everything else that changes memory or registers: system calls
// (syscalls.c, kernel_writes.c), signals, mappings (ranges.c), threads; faults.c closes the record
// that a fault left open. This file sets the tool up and ends it.
//
// Thread-safety: every function of the tool runs under Valgrind's big lock, or inside the fault
// handler of the thread that holds it.

#include "recorder/tool/tool.h"

const HChar* clo_ring = NULL;
Long clo_block_bytes = 4 << 20;
Long clo_block_count = 12;
Bool clo_verify = False;
ThreadInfo g_thread[kTtqMaxThreads + 1];
ThreadId g_logged_thread;  // the thread the reader takes records to be of
ULong g_turns;             // how often that changed
Bool g_in_client;          // client code is running: the log's words are in its shadow state
UInt g_forks;
Pieces g_pieces[kTtqMaxThreads + 1];

static void add_argument(const HChar* text) {
  TtqRing* r = ttq_ring();
  UInt n = VG_(strlen)(text) + 1;
  if (r->argument_bytes + n > sizeof(r->arguments)) return;
  VG_(memcpy)(r->arguments + r->argument_bytes, text, n);
  r->argument_bytes += n;
}

// Valgrind opens its log with the number that is the program's next, goes on with a copy that is
// out of the program's reach, and leaves the first one open.
typedef struct {
  Int fd;
  UInt kind;
  HChar* name;
} OutputSink;
extern OutputSink VG_(log_output_sink);
static void close_copy_of_log(void) {
  enum { kFile = 1 };
  struct vg_stat log, st;
  if (VG_(log_output_sink).kind != kFile || VG_(fstat)(VG_(log_output_sink).fd, &log) != 0) return;
  for (Int fd = 0; fd < VG_(log_output_sink).fd; fd++) {
    if (VG_(fstat)(fd, &st) != 0 || st.dev != log.dev || st.ino != log.ino) continue;
    VG_(close)(fd);
    return;
  }
}

static void post_clo_init(void) {
  if (!clo_ring) {
    VG_(fmsg)("ttq: this tool is run by `ttq record`\n");
    VG_(exit)(125);
  }
  ttq_ring_set_begin(ttq_begin_block);
  if (clo_verify) ttq_ring_set_before_handing_over(ttq_note_pending);
  ttq_ring_create(clo_ring, clo_block_bytes, clo_block_count, clo_verify, "", 0, 0);
  add_argument(VG_(args_the_exename));
  add_argument(VG_(get_startup_wd)() ? VG_(get_startup_wd)() : "");
  add_argument(VG_(args_the_exename));
  for (Int i = 0; i < VG_(sizeXA)(VG_(args_for_client)); i++)
    add_argument(*(HChar**)VG_(indexXA)(VG_(args_for_client), i));
  ttq_ring_announce();
  close_copy_of_log();
  VG_(atfork)(ttq_fork_pre, ttq_fork_parent, ttq_fork_child);
}

static void fini(Int exit_code) {
  if (g_in_client) {
    ThreadId tid = VG_(get_running_tid)();
    if (tid != VG_INVALID_THREADID) ttq_load_log(tid);
    g_in_client = False;
  }
}

static void send_last_registers(void) {
  for (ThreadId tid = 1; tid <= kTtqMaxThreads; tid++)
    if (g_thread[tid].has_snapshot)
      ttq_append_anywhere(kTtqRegisters, &g_thread[tid].snapshot, sizeof(TtqRegisters), NULL, 0);
}

// Valgrind ends the process by one of these, after fini.
void __real_vgPlain_kill_self(Int number);
void __wrap_vgPlain_kill_self(Int number);
void __wrap_vgPlain_kill_self(Int number) {
  if (ttq_ring()) {
    ttq_ring()->fatal_signal = number;
    send_last_registers();
    ttq_ring_finish();
  }
  __real_vgPlain_kill_self(number);
}

void __real_vgPlain_client_exit(Int status) __attribute__((noreturn));
void __wrap_vgPlain_client_exit(Int status) __attribute__((noreturn));
void __wrap_vgPlain_client_exit(Int status) {
  if (ttq_ring()) {
    UInt s = status;
    ttq_append_anywhere(kTtqExitProcess, &s, 4, NULL, 0);
    send_last_registers();
    ttq_ring_finish();
  }
  __real_vgPlain_client_exit(status);
}

// Valgrind would read the symbols of every file that is mapped, which takes seconds for large ones;
// this tool asks for none.
ULong __wrap_vgPlain_di_notify_mmap(Addr a, Bool allow_mapping, Int fd);
ULong __wrap_vgPlain_di_notify_mmap(Addr a, Bool allow_mapping, Int fd) { return 0; }

// Valgrind would write its own core file into the working directory.
void __wrap_vgPlain_make_coredump(ThreadId tid, const vki_siginfo_t* info, ULong max);
void __wrap_vgPlain_make_coredump(ThreadId tid, const vki_siginfo_t* info, ULong max) {}

// Valgrind shows its mappings, and pages of advice, when it gets no memory. One line is enough; the
// status is that of a recorder that failed.
void __real_vgPlain_am_show_nsegments(Int level, const HChar* who);
void __wrap_vgPlain_am_show_nsegments(Int level, const HChar* who);
void __wrap_vgPlain_am_show_nsegments(Int level, const HChar* who) {
  if (VG_(strcmp)(who, "out_of_memory") != 0) return __real_vgPlain_am_show_nsegments(level, who);
  VG_(fmsg)
  ("ttq: process %u is not recorded: Valgrind gets no memory (see ulimit -v)\n",
   (UInt)VG_(getpid)());
  VG_(exit)(125);
}

// Where the rings are; null before the command line is there. Valgrind asks for files before it has
// read the options.
extern XArray* VG_(args_for_valgrind);
static const HChar* ring_directory(void) {
  for (Int i = 0; VG_(args_for_valgrind) && i < VG_(sizeXA)(VG_(args_for_valgrind)); i++) {
    HChar* option = *(HChar**)VG_(indexXA)(VG_(args_for_valgrind), i);
    if (VG_(strncmp)(option, "--ring=", 7) == 0) return option + 7;
  }
  return NULL;
}

// Valgrind keeps what it shows the program as /proc/self/cmdline in a file. It goes beside the
// rings: the user's TMPDIR is for the program, and may not be there.
HChar* __real_vgPlain_getenv(const HChar* name);
HChar* __wrap_vgPlain_getenv(const HChar* name);
HChar* __wrap_vgPlain_getenv(const HChar* name) {
  const HChar* rings = VG_(strcmp)(name, "TMPDIR") == 0 ? ring_directory() : NULL;
  if (!rings) return __real_vgPlain_getenv(name);
  struct vg_stat st;
  return (HChar*)(sr_isError(VG_(stat)(rings, &st)) ? "/tmp" : rings);
}

// A recorder that was killed may have left this program to itself before it began, and the next one
// may have taken the directory away: no reason for Valgrind to end it for want of a log.
SysRes __real_vgPlain_open(const HChar* path, Int flags, Int mode);
SysRes __wrap_vgPlain_open(const HChar* path, Int flags, Int mode);
SysRes __wrap_vgPlain_open(const HChar* path, Int flags, Int mode) {
  SysRes r = __real_vgPlain_open(path, flags, mode);
  if (!sr_isError(r) || !(flags & VKI_O_CREAT)) return r;
  const HChar* rings = ring_directory();
  const SizeT n = rings ? VG_(strlen)(rings) : 0;
  if (!n || VG_(strncmp)(path, rings, n) != 0 || VG_(strncmp)(path + n, "/log.", 5) != 0) return r;
  return __real_vgPlain_open("/dev/null", VKI_O_WRONLY, 0);
}

// A forked child goes on with its parent's log. Valgrind would open one by name, and end a child
// that is where it cannot.
void __wrap_vgPlain_logging_atfork_child(ThreadId tid);
void __wrap_vgPlain_logging_atfork_child(ThreadId tid) {}

// A program that is about to be exec'ed runs by itself, unrecorded, where nobody records it, or
// where recording would keep it from running: with another user's rights, or with another
// instruction set.
Bool __real_vgPlain_should_we_trace_this_child(const HChar* name, const HChar** argv);
Bool __wrap_vgPlain_should_we_trace_this_child(const HChar* name, const HChar** argv);
Bool __wrap_vgPlain_should_we_trace_this_child(const HChar* name, const HChar** argv) {
  Bool ours = __real_vgPlain_should_we_trace_this_child(name, argv);
  struct vg_stat st;
  if (!name || sr_isError(VG_(stat)(name, &st))) return ours;
  if ((st.mode & 04000) && st.uid != VG_(geteuid)()) ours = False;
  if ((st.mode & 02000) && st.gid != VG_(getegid)()) ours = False;
  SysRes file = VG_(open)(name, VKI_O_RDONLY, 0);
  if (!sr_isError(file)) {
    UChar head[20];
    if (VG_(read)(sr_Res(file), head, sizeof(head)) == sizeof(head) &&
        VG_(memcmp)(head, "\177ELF", 4) == 0 && (head[4] != 2 || head[18] != 62))
      ours = False;  // not 64 bits, or not x86
    VG_(close)(sr_Res(file));
  }
  ttq_ring()->became_other = !ours;
  return ours && !ttq_ring_is_detached();
}

static Bool process_option(const HChar* arg) {
  if (VG_STR_CLO(arg, "--ring", clo_ring)) {
  } else if (VG_BINT_CLO(arg, "--block-bytes", clo_block_bytes, 512 << 10, 256 << 20)) {
  } else if (VG_BINT_CLO(arg, "--block-count", clo_block_count, 2, 1024)) {
  } else if (VG_BOOL_CLO(arg, "--verify", clo_verify)) {
  } else {
    return False;
  }
  return True;
}

static void print_usage(void) {
  VG_(printf)("    (run by `ttq record`, which sets the options)\n");
}

static void pre_clo_init(void) {
  VG_(details_name)("ttq");
  VG_(details_version)(NULL);
  VG_(details_description)("records a program's whole history");
  VG_(details_copyright_author)("The ttq authors, GPL-2.0-or-later");
  VG_(details_bug_reports_to)("the ttq project");
  VG_(details_avg_translation_sizeB)(700);
  VG_(basic_tool_funcs)(post_clo_init, ttq_instrument, fini);
  VG_(needs_command_line_options)(process_option, print_usage, print_usage);
  VG_(needs_syscall_wrapper)(ttq_pre_syscall, ttq_post_syscall);
  VG_(needs_client_requests)(ttq_handle_client_request);
  VG_(track_new_mem_startup)(ttq_new_mem_startup);
  VG_(track_new_mem_mmap)(ttq_new_mem_mmap);
  VG_(track_new_mem_brk)(ttq_new_mem_brk);
  VG_(track_new_mem_stack_signal)(ttq_new_mem_stack_signal);
  VG_(track_copy_mem_remap)(ttq_copy_mem_remap);
  VG_(track_change_mem_mprotect)(ttq_change_mem_mprotect);
  VG_(track_die_mem_brk)(ttq_die_mem_brk);
  VG_(track_die_mem_munmap)(ttq_die_mem);
  VG_(track_pre_mem_read)(ttq_pre_mem_read);
  VG_(track_pre_mem_write)(ttq_pre_mem_write);
  VG_(track_post_mem_write)(ttq_post_mem_write);
  VG_(track_post_reg_write)(ttq_post_reg_write);
  VG_(track_start_client_code)(ttq_start_client_code);
  VG_(track_stop_client_code)(ttq_stop_client_code);
  VG_(track_pre_thread_ll_create)(ttq_pre_thread_ll_create);
  VG_(track_pre_thread_first_insn)(ttq_pre_thread_first_insn);
  VG_(track_pre_thread_ll_exit)(ttq_pre_thread_ll_exit);
  VG_(clo_vex_control).iropt_register_updates_default = VexRegUpdAllregsAtEachInsn;
  VG_(clo_px_file_backed) = VexRegUpdAllregsAtEachInsn;
  // Each execution of a superblock has a record: the further short loops are unrolled, the fewer.
  // An exit takes two statements at least, so there are no more than kTtqMaxSideExits.
  VG_(clo_vex_control).iropt_unroll_thresh = 2 * kTtqMaxSideExits;
}

VG_DETERMINE_INTERFACE_VERSION(pre_clo_init)

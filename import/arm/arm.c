/* SPDX-License-Identifier: MIT
 *
 * See arm.h. The thread that gets the signal asks all others for their registers, by the same
 * signal; they wait in its handler until the process is forked. What is called here is safe in a
 * handler of any signal: system calls, and functions of memory.
 */
#define _GNU_SOURCE
#include "import/arm/arm.h"

#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "import/arm/write_core.h"

/* How long threads are waited for. One that blocks the signal does not answer. */
enum { kPatienceMs = 300, kMaxRounds = 8, kHandlerStackBytes = 64 << 10 };

static const int kFatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS};
enum { kFatalCount = sizeof(kFatal) / sizeof(kFatal[0]) };

static struct {
  struct ArmedProcess* process; /* its own memory: it is there before it is needed */
  struct sigaction before[kFatalCount];
  atomic_int busy; /* the process that takes a snapshot; a child that was forked then is another */
  atomic_int answers;   /* a futex: how many threads have answered */
  atomic_int snapshots; /* a futex: how many were taken */
} armed;

static long Futex(atomic_int* word, int operation, int value, const struct timespec* wait) {
  return syscall(SYS_futex, word, operation, value, wait, NULL, 0);
}

static pid_t Tid(void) { return (pid_t)syscall(SYS_gettid); }

static int64_t NowMs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- The state of a thread ------------------------------------------------------------------- */

/* What the kernel puts behind an FXSAVE area in a signal's frame (asm/sigcontext.h). */
enum { kSoftwareBytes = 464, kMagic = 0x46505853 };

static void TakeVectors(const unsigned char* area, struct ArmedThread* thread) {
  uint32_t magic, size;
  if (area == NULL) return;
  memcpy(&magic, area + kSoftwareBytes, sizeof(magic));
  memcpy(&size, area + kSoftwareBytes + 16, sizeof(size));
  if (magic != kMagic || size > kMaxVectorBytes) size = kFxsaveBytes;
  memcpy(thread->vectors, area, size);
  /* A core dump has there which states the processor saves. */
  if (size > kFxsaveBytes) {
    memcpy(thread->vectors + kSoftwareBytes, area + kSoftwareBytes + 8, 8);
    memset(thread->vectors + kSoftwareBytes + 8, 0, 8);
  }
  thread->vector_bytes = size;
}

/* The number that begins at *text, decimal or after 0x; *text goes on at the next word. */
static uint64_t NextNumber(const char** text) {
  const int is_hexadecimal = (*text)[0] == '0' && (*text)[1] == 'x';
  if (is_hexadecimal) *text += 2;
  const uint64_t value = ReadNumber(text, is_hexadecimal ? 16 : 10);
  while (**text == ' ') ++*text;
  return value;
}

/* The system call that the thread waited in when the signal came: as the kernel's dumps have it. */
static void TakeCall(struct ArmedThread* thread) {
  struct user_regs_struct* r = &thread->registers;
  static const unsigned char kSyscall[] = {0x0f, 0x05};
  const char* text = thread->call;
  if (*text >= '0' && *text <= '9') {
    const uint64_t number = NextNumber(&text);
    for (int i = 0; i < 6; ++i) NextNumber(&text);
    const uint64_t sp = NextNumber(&text), pc = NextNumber(&text);
    if (sp != r->rsp || (pc != r->rip && pc != r->rip + sizeof(kSyscall))) return;
    r->orig_rax = number;
    r->rip = pc;
    r->rax = (uint64_t)-EINTR;
    return;
  }
  /* Of the thread that got the signal itself: one that is to be made once more. */
  if (*text == 0 && memcmp((const void*)r->rip, kSyscall, sizeof(kSyscall)) == 0 && r->rax < 1024) {
    r->orig_rax = r->rax;
    r->rip += sizeof(kSyscall);
    r->rax = (uint64_t)-EINTR;
  }
}

static void TakeState(const ucontext_t* context, int asked_by_us, struct ArmedThread* thread) {
  const greg_t* g = context->uc_mcontext.gregs;
  struct user_regs_struct* r = &thread->registers;
  r->r15 = (uint64_t)g[REG_R15];
  r->r14 = (uint64_t)g[REG_R14];
  r->r13 = (uint64_t)g[REG_R13];
  r->r12 = (uint64_t)g[REG_R12];
  r->rbp = (uint64_t)g[REG_RBP];
  r->rbx = (uint64_t)g[REG_RBX];
  r->r11 = (uint64_t)g[REG_R11];
  r->r10 = (uint64_t)g[REG_R10];
  r->r9 = (uint64_t)g[REG_R9];
  r->r8 = (uint64_t)g[REG_R8];
  r->rax = (uint64_t)g[REG_RAX];
  r->rcx = (uint64_t)g[REG_RCX];
  r->rdx = (uint64_t)g[REG_RDX];
  r->rsi = (uint64_t)g[REG_RSI];
  r->rdi = (uint64_t)g[REG_RDI];
  r->rip = (uint64_t)g[REG_RIP];
  r->eflags = (uint64_t)g[REG_EFL];
  r->rsp = (uint64_t)g[REG_RSP];
  r->cs = (uint64_t)g[REG_CSGSFS] & 0xffff;
  r->ss = (uint64_t)g[REG_CSGSFS] >> 48;
  unsigned long base = 0;
  syscall(SYS_arch_prctl, ARCH_GET_FS, &base);
  r->fs_base = base;
  base = 0;
  syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
  r->gs_base = base;
  TakeVectors((const unsigned char*)context->uc_mcontext.fpregs, thread);
  r->orig_rax = ~0ull;
  if (asked_by_us) TakeCall(thread);
}

/* ---- All threads ----------------------------------------------------------------------------- */

static struct ArmedThread* Find(pid_t tid) {
  struct ArmedProcess* p = armed.process;
  const uint32_t count = atomic_load(&p->thread_count);
  for (uint32_t i = 0; i < count; ++i) {
    if (p->threads[i].tid == tid) return &p->threads[i];
  }
  return NULL;
}

static int IsBusy(void) { return atomic_load(&armed.busy) == getpid(); }

/* Whether this thread is to take the snapshot. */
static int Begin(void) {
  const int own = getpid();
  int other = atomic_load(&armed.busy);
  while (other != own) {
    if (atomic_compare_exchange_weak(&armed.busy, &other, own)) return 1;
  }
  return 0;
}

/* Leaves this thread's state, and waits until the snapshot is taken. */
static void Answer(const ucontext_t* context, int asked_by_us) {
  const int taken = atomic_load(&armed.snapshots);
  struct ArmedThread* thread = Find(Tid());
  if (thread != NULL && atomic_load(&thread->state) == kThreadAsked) {
    TakeState(context, asked_by_us, thread);
    atomic_store(&thread->state, kThreadKnown);
    atomic_fetch_add(&armed.answers, 1);
    Futex(&armed.answers, FUTEX_WAKE_PRIVATE, 1, NULL);
  }
  while (IsBusy() && atomic_load(&armed.snapshots) == taken) {
    Futex(&armed.snapshots, FUTEX_WAIT_PRIVATE, taken, NULL);
  }
}

/* "/proc/self/task/TID/syscall" */
static void ReadCall(struct ArmedThread* thread) {
  char path[64] = "/proc/self/task/";
  AppendNumber(path, (uint64_t)thread->tid);
  strcat(path, "/syscall");
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, thread->call, sizeof(thread->call) - 1);
  if (fd >= 0) close(fd);
  if (n <= 0) {
    memcpy(thread->call, "unknown", 8);
  } else {
    thread->call[n] = 0;
  }
}

/* Asks each thread that was not asked yet; gives how many. */
static uint32_t AskThreads(pid_t pid) {
  struct Entry {
    uint64_t inode;
    int64_t offset;
    unsigned short bytes;
    unsigned char type;
    char name[];
  };
  struct ArmedProcess* p = armed.process;
  uint32_t asked = 0;
  char* entries = (char*)p->scratch;
  const int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return 0;
  for (long n; (n = syscall(SYS_getdents64, fd, entries, sizeof(p->scratch))) > 0;) {
    for (long at = 0; at < n;) {
      const struct Entry* entry = (const struct Entry*)(entries + at);
      at += entry->bytes;
      const char* name = entry->name;
      const pid_t tid = *name >= '0' && *name <= '9' ? (pid_t)ReadNumber(&name, 10) : 0;
      const uint32_t count = atomic_load(&p->thread_count);
      if (tid == 0 || Find(tid) != NULL || count == kMaxThreads) continue;
      struct ArmedThread* thread = &p->threads[count];
      memset(thread, 0, sizeof(*thread));
      thread->tid = tid;
      ReadCall(thread);
      atomic_store(&thread->state, kThreadAsked);
      atomic_store(&p->thread_count, count + 1);
      ++asked;
      siginfo_t question = {.si_signo = SIGUSR2, .si_code = SI_QUEUE};
      question.si_pid = pid;
      question.si_value.sival_ptr = p;
      if (syscall(SYS_rt_tgsigqueueinfo, pid, tid, SIGUSR2, &question) != 0) {
        atomic_store(&thread->state, kThreadGone);
      }
    }
  }
  close(fd);
  return asked;
}

static uint32_t CountOf(int state) {
  struct ArmedProcess* p = armed.process;
  uint32_t n = 0;
  for (uint32_t i = 0; i < atomic_load(&p->thread_count); ++i) {
    n += atomic_load(&p->threads[i].state) == state;
  }
  return n;
}

static void CollectThreads(pid_t pid) {
  const int64_t until = NowMs() + kPatienceMs;
  for (int round = 0; round < kMaxRounds; ++round) {
    const uint32_t asked = AskThreads(pid);
    while (1) {
      const int answers = atomic_load(&armed.answers);
      const int64_t left = until - NowMs();
      if (CountOf(kThreadAsked) == 0 || left <= 0) break;
      const struct timespec wait = {left / 1000, left % 1000 * 1000000};
      Futex(&armed.answers, FUTEX_WAIT_PRIVATE, answers, &wait);
    }
    /* Those who answered may have made others before. */
    if (asked == 0) break;
  }
  struct ArmedProcess* p = armed.process;
  for (uint32_t i = 0; i < atomic_load(&p->thread_count); ++i) {
    struct ArmedThread* thread = &p->threads[i];
    int state = kThreadAsked;
    if (syscall(SYS_tgkill, pid, thread->tid, 0) != 0) {
      atomic_compare_exchange_strong(&thread->state, &state, kThreadGone);
    }
  }
}

/* ---- The snapshot ---------------------------------------------------------------------------- */

static pid_t Fork(void) {
  /* Without a signal to this process when it ends, and without what libraries do about forks. */
  return (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
}

static void WaitFor(pid_t child) {
  while (syscall(SYS_wait4, child, NULL, __WALL, NULL) < 0 && errno == EINTR) {
  }
}

/* A copy writes. Nobody waits for it, unless the process would end before it is done. */
static void Write(int wait) {
  const pid_t child = Fork();
  if (child == 0) {
    if (!wait && Fork() != 0) _exit(0);
    WriteCoreAndImport(armed.process);
  }
  if (child > 0) WaitFor(child);
}

/* Of the thread that got the signal. */
static void Take(int number, const siginfo_t* info, const ucontext_t* context) {
  struct ArmedProcess* p = armed.process;
  while (!Begin()) {
    Answer(context, 0);
    /* A crash is taken after what somebody asked for, but not after another crash: that ends it. */
    if (number == SIGUSR2 || p->signal != 0) return;
  }
  p->pid = getpid();
  p->signal = number == SIGUSR2 ? 0 : number;
  memcpy(&p->information, info, sizeof(p->information));
  struct ArmedThread* own = &p->threads[0];
  memset(own, 0, sizeof(*own));
  own->tid = Tid();
  TakeState(context, number == SIGUSR2, own);
  atomic_store(&own->state, kThreadKnown);
  atomic_store(&p->thread_count, 1);
  CollectThreads(p->pid);
  Write(number != SIGUSR2);
  atomic_store(&p->thread_count, 0);
  atomic_store(&armed.busy, 0);
  atomic_fetch_add(&armed.snapshots, 1);
  Futex(&armed.snapshots, FUTEX_WAKE_PRIVATE, kMaxThreads, NULL);
}

/* The handler of before, or none: the instruction is executed again, or abort goes on. A signal
 * that somebody sent does not come by itself. */
static void HandOn(int number, const siginfo_t* info) {
  for (int i = 0; i < kFatalCount; ++i) {
    if (kFatal[i] == number) sigaction(number, &armed.before[i], NULL);
  }
  if (info->si_code <= 0) syscall(SYS_tgkill, getpid(), Tid(), number);
}

static void OnSignal(int number, siginfo_t* info, void* context) {
  const int error = errno;
  const int is_question =
      number == SIGUSR2 && info->si_code == SI_QUEUE && info->si_value.sival_ptr == armed.process;
  if (is_question) {
    /* It may come late: to a thread that had the signal blocked. */
    if (IsBusy()) Answer(context, 1);
  } else {
    Take(number, info, context);
    if (number != SIGUSR2) HandOn(number, info);
  }
  errno = error;
}

int ttq_arm(const char* command) {
  if (armed.process == NULL) {
    void* memory = mmap(NULL, sizeof(*armed.process), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return errno;
    armed.process = memory;
  }
  struct ArmedProcess* p = armed.process;
  if (strlen(command) >= sizeof(p->command)) return ENAMETOOLONG;
  strcpy(p->command, command);
  const char* folder = getenv("TMPDIR");
  if (folder == NULL || *folder == 0 || strlen(folder) >= sizeof(p->folder)) folder = "/var/tmp";
  strcpy(p->folder, folder);
  /* A stack that has overflowed has no room for a handler. */
  stack_t stack;
  if (sigaltstack(NULL, &stack) == 0 && (stack.ss_flags & SS_DISABLE) != 0) {
    stack.ss_sp =
        mmap(NULL, kHandlerStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack.ss_size = kHandlerStackBytes;
    stack.ss_flags = 0;
    if (stack.ss_sp != MAP_FAILED) sigaltstack(&stack, NULL);
  }
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = OnSignal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigfillset(&action.sa_mask);
  if (sigaction(SIGUSR2, &action, NULL) != 0) return errno;
  for (int i = 0; i < kFatalCount; ++i) {
    struct sigaction before;
    if (sigaction(kFatal[i], &action, &before) != 0) return errno;
    /* Armed twice. */
    if (before.sa_sigaction != OnSignal) armed.before[i] = before;
  }
  return 0;
}

/* What LD_PRELOAD brings in is armed by the path in TTQ_ARM. */
__attribute__((constructor)) static void ArmPreloaded(void) {
  const char* command = getenv("TTQ_ARM");
  if (command != NULL && *command != 0) ttq_arm(command);
}

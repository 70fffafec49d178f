// SPDX-License-Identifier: MIT
//
// Preloaded into ttq: makes the N-th call of one kind fail, in this process alone.
//
//   FAIL_KIND   write, open, mmap, malloc, sync, thread, file (ftruncate, rename, mkdir, unlink,
//               fallocate), system (FIFO, pipe, fork, vfork, dup, flock, stat)
//   FAIL_AT     the number of the call that fails, from 1; 0: none
//   FAIL_ERROR  errno; of a write 0 means that half of it is written
//   FAIL_ON     1: each later call fails too
//   FAIL_LOG    a file that gets a line per call: its number, and a hash of who made it
//
// The program that ttq records is not concerned: the variables are taken out of the environment
// before main. Nor are calls that the C library makes of itself, or that are made before main:
// where there is no memory for what libraries set up then, no program can say so. Nor are calls of
// malloc for the destructors of thread-local objects: glibc ends the process (docs/limits.md).

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum Kind { kNone, kWrite, kOpen, kMmap, kMalloc, kSync, kThread, kFile, kSystem };
static const char* const kNames[] = {"",     "write",  "open", "mmap",  "malloc",
                                     "sync", "thread", "file", "system"};

static enum Kind g_kind;  // since main began
static enum Kind g_wanted;
static long g_at, g_calls;
static int g_error, g_on, g_log = -1;
static __thread int g_inside;

static void log_call(long number) {
  // Two calls that come from the same places are of one sort.
  void* frames[14];
  g_inside = 1;
  int n = backtrace(frames, 14);
  uint64_t hash = 1469598103934665603u;
  for (int i = 2; i < n; i++) {
    hash = (hash ^ (uintptr_t)frames[i]) * 1099511628211u;
  }
  char line[64];
  int size = snprintf(line, sizeof(line), "%ld %016llx\n", number, (unsigned long long)hash);
  syscall(SYS_write, g_log, line, size);
  g_inside = 0;
}

// Whether this call is to fail.
static int fails(enum Kind kind) {
  if (kind != g_kind || g_inside) return 0;
  long number = __atomic_add_fetch(&g_calls, 1, __ATOMIC_RELAXED);
  if (g_log >= 0) log_call(number);
  return g_at != 0 && (number == g_at || (g_on && number > g_at));
}

static int fail(void) {
  errno = g_error;
  return -1;
}

__attribute__((constructor)) static void begin(void) {
  const char* kind = getenv("FAIL_KIND");
  const char *at = getenv("FAIL_AT"), *error = getenv("FAIL_ERROR"), *on = getenv("FAIL_ON");
  const char* log = getenv("FAIL_LOG");
  for (int i = 1; kind && i < (int)(sizeof(kNames) / sizeof(*kNames)); i++) {
    if (strcmp(kind, kNames[i]) == 0) g_wanted = (enum Kind)i;
  }
  if (log) {
    int fd =
        (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    g_log = fcntl(fd, F_DUPFD_CLOEXEC, 900);
    syscall(SYS_close, fd);
    void* frames[2];
    backtrace(frames, 2);  // it allocates when it is first called
  }
  g_at = at ? atol(at) : 0;
  g_error = error ? atoi(error) : EIO;
  g_on = on && atoi(on);
  unsetenv("LD_PRELOAD");
  unsetenv("FAIL_KIND");
  unsetenv("FAIL_AT");
  unsetenv("FAIL_ERROR");
  unsetenv("FAIL_ON");
  unsetenv("FAIL_LOG");
}

#define NEXT(name)                                     \
  static __typeof__(&name) next;                       \
  if (!next) {                                         \
    g_inside++;                                        \
    next = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
    g_inside--;                                        \
  }

// ---- Memory -------------------------------------------------------------------------------------

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

int __cxa_thread_atexit_impl(void (*destructor)(void*), void* object, void* library) {
  NEXT(__cxa_thread_atexit_impl)
  g_inside++;
  const int failed = next(destructor, object, library);
  g_inside--;
  return failed;
}

static void* no_memory(void) {
  errno = ENOMEM;
  return NULL;
}

void* malloc(size_t n) { return fails(kMalloc) ? no_memory() : __libc_malloc(n); }
void* calloc(size_t n, size_t m) { return fails(kMalloc) ? no_memory() : __libc_calloc(n, m); }
void* realloc(void* at, size_t n) { return fails(kMalloc) ? no_memory() : __libc_realloc(at, n); }
void* memalign(size_t a, size_t n) { return fails(kMalloc) ? no_memory() : __libc_memalign(a, n); }
void* aligned_alloc(size_t a, size_t n) {
  return fails(kMalloc) ? no_memory() : __libc_memalign(a, n);
}
int posix_memalign(void** out, size_t a, size_t n) {
  if (fails(kMalloc)) return ENOMEM;
  *out = __libc_memalign(a, n);
  return *out ? 0 : ENOMEM;
}

void* mmap(void* at, size_t n, int protection, int flags, int fd, off_t offset) {
  if (fails(kMmap)) {
    fail();
    return MAP_FAILED;
  }
  NEXT(mmap);
  return next(at, n, protection, flags, fd, offset);
}
void* mmap64(void* at, size_t n, int protection, int flags, int fd, off64_t offset) {
  return mmap(at, n, protection, flags, fd, offset);
}
int mprotect(void* at, size_t n, int protection) {
  if (fails(kMmap)) return fail();
  NEXT(mprotect);
  return next(at, n, protection);
}

// ---- From main on ----------------------------------------------------------------------------

typedef int Main(int, char**, char**);
static Main* g_main;
static int begin_main(int argc, char** argv, char** environment) {
  g_kind = g_wanted;
  return g_main(argc, argv, environment);
}
int __libc_start_main(Main* of, int argc, char** argv, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void* stack) {
  __typeof__(&__libc_start_main) next =
      (__typeof__(&__libc_start_main))dlsym(RTLD_NEXT, "__libc_start_main");
  g_main = of;
  return next(begin_main, argc, argv, init, fini, loader_fini, stack);
}

// ---- Writing ------------------------------------------------------------------------------------

// What of `n` bytes is written: all, half, or none (-1).
static ssize_t part(size_t n) {
  if (!fails(kWrite)) return (ssize_t)n;
  if (g_error == 0 && n > 1) return (ssize_t)(n / 2);
  return g_error == 0 ? (ssize_t)n : fail();
}

ssize_t write(int fd, const void* from, size_t n) {
  ssize_t bytes = part(n);
  return bytes < 0 ? -1 : syscall(SYS_write, fd, from, bytes);
}
ssize_t pwrite(int fd, const void* from, size_t n, off_t at) {
  ssize_t bytes = part(n);
  return bytes < 0 ? -1 : syscall(SYS_pwrite64, fd, from, bytes, at);
}
ssize_t pwrite64(int fd, const void* from, size_t n, off64_t at) { return pwrite(fd, from, n, at); }
ssize_t writev(int fd, const struct iovec* pieces, int count) {
  if (fails(kWrite)) return fail();
  return syscall(SYS_writev, fd, pieces, count);
}

// ---- Opening ------------------------------------------------------------------------------------

static int open_at(int directory, const char* path, int flags, va_list more) {
  mode_t mode = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, mode_t) : 0;
  if (fails(kOpen)) return fail();
  return (int)syscall(SYS_openat, directory, path, flags, mode);
}

#define OPEN(name)                                 \
  int name(const char* path, int flags, ...) {     \
    va_list more;                                  \
    va_start(more, flags);                         \
    int fd = open_at(AT_FDCWD, path, flags, more); \
    va_end(more);                                  \
    return fd;                                     \
  }
OPEN(open)
OPEN(open64)
int openat(int directory, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  int fd = open_at(directory, path, flags, more);
  va_end(more);
  return fd;
}

#define FAILS_AS(kind, value, type, name, parameters, arguments) \
  type name parameters {                                         \
    if (fails(kind)) {                                           \
      fail();                                                    \
      return value;                                              \
    }                                                            \
    NEXT(name);                                                  \
    return next arguments;                                       \
  }

typedef struct __dirstream DIR;
FILE* fopen(const char* path, const char* mode);
FILE* fopen64(const char* path, const char* mode);
DIR* opendir(const char* path);
DIR* fdopendir(int fd);
FAILS_AS(kOpen, NULL, FILE*, fopen, (const char* path, const char* mode), (path, mode))
FAILS_AS(kOpen, NULL, FILE*, fopen64, (const char* path, const char* mode), (path, mode))
FAILS_AS(kOpen, NULL, DIR*, opendir, (const char* path), (path))
FAILS_AS(kOpen, NULL, DIR*, fdopendir, (int fd), (fd))

// ---- The rest -----------------------------------------------------------------------------------

FAILS_AS(kSync, -1, int, fsync, (int fd), (fd))
FAILS_AS(kSync, -1, int, fdatasync, (int fd), (fd))
// Without flags it does nothing, and is asked whether it could.
int sync_file_range(int fd, off64_t at, off64_t n, unsigned flags) {
  if (flags != 0 && fails(kSync)) return fail();
  return (int)syscall(SYS_sync_file_range, fd, at, n, flags);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*work)(void*),
                   void* argument) {
  if (fails(kThread)) return EAGAIN;
  NEXT(pthread_create);
  return next(thread, attributes, work, argument);
}

int posix_fallocate(int fd, off_t at, off_t n) {
  if (fails(kFile)) return g_error;
  NEXT(posix_fallocate);
  return next(fd, at, n);
}
FAILS_AS(kFile, -1, int, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))
FAILS_AS(kFile, -1, int, ftruncate, (int fd, off_t n), (fd, n))
FAILS_AS(kFile, -1, int, rename, (const char* from, const char* to), (from, to))
FAILS_AS(kFile, -1, int, link, (const char* from, const char* to), (from, to))
FAILS_AS(kFile, -1, int, mkdir, (const char* path, mode_t mode), (path, mode))
FAILS_AS(kFile, -1, int, unlink, (const char* path), (path))
int renameat2(int, const char*, int, const char*, unsigned);
FAILS_AS(kFile, -1, int, renameat2,
         (int a, const char* from, int b, const char* to, unsigned flags), (a, from, b, to, flags))

int mkfifo(const char* path, mode_t mode);
int flock(int fd, int operation);
FAILS_AS(kSystem, -1, int, mkfifo, (const char* path, mode_t mode), (path, mode))
FAILS_AS(kSystem, -1, int, pipe, (int ends[2]), (ends))
FAILS_AS(kSystem, -1, int, pipe2, (int ends[2], int flags), (ends, flags))
FAILS_AS(kSystem, -1, pid_t, fork, (void), ())
// vfork comes back twice to who called it: it is jumped to, with nothing of ours on the stack.
// Null: it fails.
__attribute__((used)) static void* next_vfork(void) {
  if (fails(kSystem)) {
    fail();
    return NULL;
  }
  return dlsym(RTLD_NEXT, "vfork");
}
__asm__(
    ".globl vfork\n.type vfork, @function\nvfork:\n"
    "  sub $8, %rsp\n  call next_vfork\n  add $8, %rsp\n"
    "  test %rax, %rax\n  je 1f\n  jmp *%rax\n"
    "1: mov $-1, %eax\n  ret\n.size vfork, .-vfork\n");
FAILS_AS(kSystem, -1, int, dup, (int fd), (fd))
FAILS_AS(kSystem, -1, int, flock, (int fd, int operation), (fd, operation))
FAILS_AS(kSystem, -1, int, fstat, (int fd, struct stat* out), (fd, out))
FAILS_AS(kSystem, -1, int, stat, (const char* path, struct stat* out), (path, out))
FAILS_AS(kSystem, -1, int, lstat, (const char* path, struct stat* out), (path, out))

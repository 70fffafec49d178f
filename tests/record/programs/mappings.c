// SPDX-License-Identifier: MIT
//
// Memory that changes by other means than stores to it: files behind mappings, mappings that move,
// what the kernel takes back or writes by itself. Each case has a slice of memory of its own.
//
//     mappings FILE
//
// Prints a line per slice, as kernel_writes does, and writes all slices to FILE.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kPage = 4096, kSlice = 2 * kPage, kMaxCount = 200, kReadWrite = PROT_READ | PROT_WRITE };
static unsigned char* const kArena = (unsigned char*)0x30000000;
static int g_count;
static const char* g_name[kMaxCount];
static long g_result[kMaxCount];
#define B (kArena + 3L * kPage * g_count)  // the slice at hand

#define T(name, ...)                          \
  do {                                        \
    long r = 0;                               \
    g_name[g_count] = name;                   \
    errno = 0;                                \
    __VA_ARGS__;                              \
    g_result[g_count++] = r < 0 ? -errno : r; \
  } while (0)

static char g_path[64];

// A new file of so many bytes, all of them known.
static int Named(int size) {
  strcpy(g_path, "/tmp/ttq-mappings-XXXXXX");
  int fd = mkstemp(g_path);
  for (int i = 0; i < size; i += 16) {
    char text[17];
    snprintf(text, sizeof(text), "%016x", i * 7 + g_count);
    if (write(fd, text, 16) != 16) abort();
  }
  return fd;
}

static int File(int size) {
  int fd = Named(size);
  unlink(g_path);
  return fd;
}

static void Map(int fd, int protection, int flags, long offset) {
  if (mmap(B, kSlice, protection, flags | MAP_FIXED, fd, offset) != B) abort();
}
static void Anonymous(void) { Map(-1, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS, 0); }

static void OnSignal(int number, siginfo_t* info, void* context) {
  (void)number, (void)info, (void)context;
}

// Ends with a lock.
static void* KeepLock(void* at) {
  struct {
    void* next;
    long offset;
    void* pending;
  }* head = at;
  head->next = (char*)at + 64;
  head->offset = 8;
  head->pending = NULL;
  *(void**)((char*)at + 64) = at;
  *(int*)((char*)at + 72) = (int)((unsigned)gettid() | 0x80000000);
  syscall(SYS_set_robust_list, head, 24);
  return NULL;
}

static void* TakeLock(void* at) {
  int* lock = at;
  syscall(SYS_futex, lock, FUTEX_LOCK_PI, 0, 0, 0, 0);
  lock[4] = 77;
  syscall(SYS_futex, lock, FUTEX_UNLOCK_PI, 0, 0, 0, 0);
  return NULL;
}

int main(int argc, char** argv) {
  int f, g;
  if (argc != 2) return 2;
  T("private", f = File(8192); Map(f, kReadWrite, MAP_PRIVATE, 0); memset(B + 5, 1, 3); close(f));
  T("private offset", f = File(16384); Map(f, PROT_READ, MAP_PRIVATE, 4096); close(f));
  T("private short file", f = File(5008); Map(f, kReadWrite, MAP_PRIVATE, 0); close(f));
  T("private, file written after", f = File(8192); Map(f, PROT_READ, MAP_PRIVATE, 0);
    r = pwrite(f, "hello", 5, 10); close(f));
  T("private, cow page then file written", f = File(8192); Map(f, kReadWrite, MAP_PRIVATE, 0);
    B[20] = 9; r = pwrite(f, "hello", 5, 10); pwrite(f, "world", 5, 4100); close(f));
  T("shared ro, write", f = File(8192); Map(f, PROT_READ, MAP_SHARED, 0);
    r = pwrite(f, "hello", 5, 10); close(f));
  T("shared ro, write at pos", f = File(8192); Map(f, PROT_READ, MAP_SHARED, 0); lseek(f, 50, 0);
    r = write(f, "hello", 5); struct iovec io[2] = {{"abc", 3}, {"defg", 4}}; writev(f, io, 2);
    close(f));
  T("shared ro, O_APPEND", f = Named(4096); g = open(g_path, O_WRONLY | O_APPEND); unlink(g_path);
    Map(f, PROT_READ, MAP_SHARED, 0); r = write(g, "hello", 5); close(f); close(g));
  T("shared ro, pwrite O_APPEND", f = Named(4096); g = open(g_path, O_WRONLY | O_APPEND);
    unlink(g_path); Map(f, PROT_READ, MAP_SHARED, 0); r = pwrite(g, "hello", 5, 10); close(f);
    close(g));
  T("shared ro, dup fd closed", f = File(8192); g = dup(f); Map(f, PROT_READ, MAP_SHARED, 0);
    close(f); r = pwrite(g, "hello", 5, 4090); close(g));
  T("shared ro, pwritev", f = File(8192); Map(f, PROT_READ, MAP_SHARED, 0);
    struct iovec io[2] = {{"abc", 3}, {"defg", 4}}; r = pwritev(f, io, 2, 100);
    r = pwritev2(f, io, 2, 200, 0); r = pwritev2(f, io, 2, -1, 0); close(f));
  T("shared ro, sendfile", f = File(8192); g = File(4096); Map(f, PROT_READ, MAP_SHARED, 0);
    lseek(f, 30, 0); off_t o = 16; r = sendfile(f, g, &o, 100); close(f); close(g));
  T("shared ro, splice", f = File(8192); int q[2]; pipe(q); write(q[1], "splicedata", 10);
    Map(f, PROT_READ, MAP_SHARED, 0); loff_t o = 300; r = splice(q[0], 0, f, &o, 10, 0); close(f));
  T("shared ro, copy_file_range", f = File(8192); g = File(4096); Map(f, PROT_READ, MAP_SHARED, 0);
    loff_t a = 0; loff_t b = 500; r = copy_file_range(g, &a, f, &b, 50, 0); close(f); close(g));
  T("shared ro, ftruncate", f = File(8192); Map(f, PROT_READ, MAP_SHARED, 0); r = ftruncate(f, 100);
    r = ftruncate(f, 8192); close(f));
  T("shared ro, truncate", f = Named(8192); Map(f, PROT_READ, MAP_SHARED, 0);
    r = truncate(g_path, 100); r = truncate(g_path, 8192); close(f); unlink(g_path));
  T("shared ro, O_TRUNC", f = Named(8192); Map(f, PROT_READ, MAP_SHARED, 0);
    g = open(g_path, O_RDWR | O_TRUNC); r = ftruncate(g, 8192); close(f); close(g); unlink(g_path));
  T("shared ro, punch", f = File(8192); Map(f, PROT_READ, MAP_SHARED, 0);
    r = fallocate(f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 10, 500); close(f));
  T("shared ro, zero range", f = File(8192); Map(f, PROT_READ, MAP_SHARED, 0);
    r = fallocate(f, FALLOC_FL_ZERO_RANGE, 10, 500); close(f));
  T("shared ro, collapse", f = File(16384); Map(f, PROT_READ, MAP_SHARED, 0);
    r = fallocate(f, FALLOC_FL_COLLAPSE_RANGE, 4096, 4096); close(f));
  T("shared ro, aio write", f = File(8192); Map(f, PROT_READ, MAP_SHARED, 0); aio_context_t ctx = 0;
    syscall(SYS_io_setup, 4, &ctx); struct iocb cb = {0}; struct iocb * l[1] = {&cb};
    cb.aio_lio_opcode = 1; cb.aio_fildes = f; cb.aio_buf = (uint64_t) "aiowrite"; cb.aio_nbytes = 8;
    cb.aio_offset = 64; r = syscall(SYS_io_submit, ctx, 1, l); struct io_event e;
    syscall(SYS_io_getevents, ctx, 1, 1, &e, 0); close(f));
  T("shared ro, file rw mapped elsewhere", f = File(8192); Map(f, PROT_READ, MAP_SHARED, 0);
    char* m = mmap(0, 8192, kReadWrite, MAP_SHARED, f, 0); m[77] = 1; close(f));
  T("shared rw twice", f = File(8192); Map(f, kReadWrite, MAP_SHARED, 0);
    char* m = mmap(0, 8192, kReadWrite, MAP_SHARED, f, 0); B[76] = 3; m[77] = 1; close(f));
  T("read into alias", f = File(8192); Map(f, PROT_READ, MAP_SHARED, 0);
    char* m = mmap(0, 8192, kReadWrite, MAP_SHARED, f, 0); g = File(4096); r = read(g, m + 100, 50);
    close(g); close(f));
  T("anon fixed over", Anonymous(); memset(B, 7, 8192);
    mmap(B + 4096, 4096, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
  T("anon unmapped, mapped", Anonymous(); memset(B, 7, 8192); munmap(B, 4096);
    mmap(B, 4096, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
  T("dontneed", Anonymous(); memset(B, 7, 8192); r = madvise(B + 4096, 4096, MADV_DONTNEED));
  T("dontneed private file", f = File(8192); Map(f, kReadWrite, MAP_PRIVATE, 0); memset(B, 7, 8192);
    r = madvise(B, 4096, MADV_DONTNEED); close(f));
  T("dontneed shared file", f = File(8192); Map(f, kReadWrite, MAP_SHARED, 0);
    memset(B + 10, 7, 10); r = madvise(B, 4096, MADV_DONTNEED); close(f));
  T("dontneed locked", Anonymous(); memset(B, 7, 8192); r = madvise(B, 4096, 24));
  T("free", Anonymous(); memset(B, 7, 8192); r = madvise(B, 4096, MADV_FREE));
  T("remove", f = memfd_create("x", 0); ftruncate(f, 8192); Map(f, kReadWrite, MAP_SHARED, 0);
    memset(B, 7, 8192); r = madvise(B, 4096, MADV_REMOVE); close(f));
  T("cold pageout", Anonymous(); memset(B, 7, 8192); r = madvise(B, 8192, 20);
    r = madvise(B, 8192, 21));
  T("populate", f = File(8192); Map(f, kReadWrite, MAP_PRIVATE, 0); r = madvise(B, 8192, 23);
    close(f));
  T("mremap move", char* m = mmap(0, 8192, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(m, 5, 8192); r = mremap(m, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, B) == B);
  T("mremap move file", f = File(8192); char* m = mmap(0, 8192, kReadWrite, MAP_PRIVATE, f, 0);
    memset(m + 9, 5, 9); r = mremap(m, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, B) == B;
    pwrite(f, "after", 5, 5000); close(f));
  T("mremap grow file", f = File(8192); mmap(B, 4096, kReadWrite, MAP_PRIVATE | MAP_FIXED, f, 0);
    memset(B + 9, 5, 9); r = mremap(B, 4096, 8192, 0) == B; pwrite(f, "after", 5, 5000); close(f));
  T("mremap grow and move", f = File(16384);
    char* m = mmap(0, 4096, kReadWrite, MAP_PRIVATE, f, 4096); memset(m + 9, 5, 9);
    r = mremap(m, 4096, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, B) == B; close(f));
  T("mremap 0 (shared copy)", f = File(8192); char* m = mmap(0, 8192, kReadWrite, MAP_SHARED, f, 0);
    memset(m + 9, 5, 9); r = mremap(m, 0, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, B) == B; close(f));
  T("mremap dontunmap", char* m = mmap(0, 8192, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(m, 5, 8192); r = mremap(m, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED | 4, B) == B);
  T("mremap dontunmap, source", Anonymous(); memset(B, 5, 8192);
    char* m = mmap(0, 8192, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    r = mremap(B, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED | 4, m) == m);
  T("mremap shrink grow", Anonymous(); memset(B, 5, 8192); mremap(B, 8192, 4096, 0);
    r = mremap(B, 4096, 8192, 0) == B);
  T(
      "mremap grow, many times", Anonymous();
      char* m = mmap(0, 4096, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      for (int k = 1; k < 60; ++k) {
        m = mremap(m, 4096L * k, 4096L * (k + 1), MREMAP_MAYMOVE);
        memset(m + 4096L * k, k, 4096);
        if (k % 20 == 0)
          mmap(m + 4096L * (k + 1), 4096, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      } memcpy(B, m + 4096L * 40, 8192);
      r = munmap(m, 4096L * 60));
  T("memfd", f = memfd_create("x", 0); write(f, "0123456789", 10); ftruncate(f, 8192);
    Map(f, kReadWrite, MAP_SHARED, 0); memset(B + 4096, 1, 10); close(f));
  T("shm, SHM_REMAP", Anonymous(); memset(B, 5, 8192); int h = shmget(IPC_PRIVATE, 8192, 0600);
    r = (long)shmat(h, B, 040000) > 0; shmctl(h, IPC_RMID, 0));
  T("mprotect", Anonymous(); memset(B, 5, 8192); mprotect(B, 8192, PROT_READ));
  T("alt stack frame", Anonymous(); stack_t s = {.ss_sp = B, .ss_size = 8192};
    r = sigaltstack(&s, 0);
    struct sigaction a = {.sa_sigaction = OnSignal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGUSR1, &a, 0); raise(SIGUSR1); s.ss_flags = SS_DISABLE; sigaltstack(&s, 0));
  T("robust list", Anonymous(); pthread_t t; pthread_create(&t, 0, KeepLock, B); pthread_join(t, 0);
    r = *(int*)(B + 72) == 0x40000000);
  T("PI lock handed over", Anonymous(); int* w = (int*)(B + 64);
    syscall(SYS_futex, w, FUTEX_LOCK_PI, 0, 0, 0, 0); pthread_t t;
    pthread_create(&t, 0, TakeLock, w); usleep(100000);
    syscall(SYS_futex, w, FUTEX_UNLOCK_PI, 0, 0, 0, 0); pthread_join(t, 0));
  T("brk", char* b = sbrk(0); sbrk(20000); memset(b, 4, 20000); sbrk(-20000); sbrk(20000);
    Anonymous(); memcpy(B, b + 4096, 8192); sbrk(-20000));

  int out = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
  static char text[kSlice];
  for (int i = 0; i < g_count; ++i) {
    unsigned char* slice = kArena + 3L * kPage * i;
    memset(text, 0, sizeof(text));
    for (int page = 0; page < 2; ++page) {  // not all can be read
      struct iovec to = {text + kPage * page, kPage}, from = {slice + kPage * page, kPage};
      process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    }
    if (write(out, text, kSlice) != kSlice) return 3;
    printf("%p %d %ld %s\n", (void*)slice, kSlice, g_result[i], g_name[i]);
  }
  fflush(stdout);
  _exit(0);
}

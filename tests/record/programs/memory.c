// SPDX-License-Identifier: MIT
//
// Mappings that move, grow, vanish, share a file or one another, or are given back to the kernel.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kPage = 4096 };

static int g_line;
#define CHECK(c) ((c) ? (void)0 : (void)(g_line = __LINE__, printf("failed: %s\n", #c)))

static char* Map(size_t bytes, int protection, int flags, int fd) {
  char* m = mmap(NULL, bytes, protection, flags | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
  CHECK(m != MAP_FAILED);
  return m;
}

static void Fill(char* m, size_t bytes, int seed) {
  for (size_t i = 0; i < bytes; ++i) m[i] = (char)(i * 7 + i / kPage + (size_t)seed);
}

static void Huge(void) {
  char* reserve = Map(32ul << 30, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE, -1);
  mprotect(reserve + (16ul << 30), 8 * kPage, PROT_READ | PROT_WRITE);
  Fill(reserve + (16ul << 30), 3 * kPage, 1);
  CHECK(mmap(reserve + (16ul << 30), kPage, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == reserve + (16ul << 30));
  reserve[16ul << 30] = 3;
  munmap(reserve, 32ul << 30);
  char* sparse = Map(8ul << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, -1);
  for (size_t i = 0; i < 8ul << 30; i += 512ul << 20) sparse[i + i / 4096 % 77] = 5;
  mprotect(sparse, 4ul << 30, PROT_NONE);
  mprotect(sparse + (8ul << 30) - kPage, kPage, PROT_READ);
  munmap(sparse, (8ul << 30) - 5 * kPage);
}

static void Moves(void) {
  char* m = Map(16 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, -1);
  Fill(m, 16 * kPage, 3);
  Map(kPage, PROT_READ, MAP_PRIVATE, -1);
  m = mremap(m, 16 * kPage, 64 * kPage, MREMAP_MAYMOVE);
  CHECK(m != MAP_FAILED && m[15 * kPage + 5] == (char)((15 * kPage + 5) * 7 + 15 + 3));
  Fill(m + 30 * kPage, kPage, 9);
  char* target = Map(80 * kPage, PROT_READ, MAP_PRIVATE, -1);
  m = mremap(m, 64 * kPage, 70 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, target + kPage);
  CHECK(m == target + kPage && m[30 * kPage + 1] == 7 + 9);
  m = mremap(m, 70 * kPage, 3 * kPage, 0);
  CHECK(m == target + kPage);
  mmap(m + kPage, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  CHECK(m[kPage] == 0 && m[2 * kPage] != 0);
}

static void GivenBack(void) {
  char* m = Map(64 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, -1);
  Fill(m, 64 * kPage, 1);
  madvise(m + 8 * kPage, 8 * kPage, MADV_DONTNEED);
  CHECK(m[8 * kPage + 9] == 0 && m[7 * kPage + 1] != 0);
  m[9 * kPage] = 7;
  madvise(m + 32 * kPage, 16 * kPage, MADV_FREE);
  Fill(m + 33 * kPage, 10, 4);
  madvise(m, kPage, MADV_WILLNEED);
  char* shared = Map(4 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, -1);
  Fill(shared, 4 * kPage, 6);
  madvise(shared, 2 * kPage, MADV_DONTNEED);  // it stays
  CHECK(shared[1] == 7 + 6);
  CHECK(madvise(shared + kPage, kPage, MADV_REMOVE) == 0);
  CHECK(shared[kPage] == 0 && shared[2 * kPage] != 0);
  // What a child gets.
  CHECK(madvise(m + 40 * kPage, 2 * kPage, MADV_WIPEONFORK) == 0);
  CHECK(madvise(m + 50 * kPage, 2 * kPage, MADV_DONTFORK) == 0);
  Fill(m + 40 * kPage, 4 * kPage, 2);
  if (fork() == 0) {
    _exit(m[40 * kPage + 3] == 0 && m[42 * kPage + 3] != 0 ? 0 : 1);
  }
  int status;
  wait(&status);
  CHECK(status == 0);
}

static void Break(void) {
  char* start = sbrk(0);
  CHECK(sbrk(12345) == start);
  Fill(start, 12345, 3);
  sbrk(-5000);
  CHECK(start[7344] != 0);
  CHECK(sbrk(9000) == start + 7345);
  CHECK(start[7344] != 0 && start[12000] == 0);
  Fill(start + 7345, 9000, 5);
  sbrk(-100);
  sbrk(1 << 20);
  sbrk(-(1 << 20));
  sbrk(1 << 16);
}

static void Files(void) {
  char name[] = "/tmp/ttq-memory-XXXXXX";
  int fd = mkstemp(name);
  unlink(name);
  char text[3 * kPage];
  Fill(text, sizeof(text), 8);
  CHECK(write(fd, text, sizeof(text)) == sizeof(text));
  char* copy = Map(2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd);
  char* shared = Map(4 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  copy[kPage] = 99;
  shared[5] = 55;
  CHECK(pwrite(fd, "hello", 5, kPage - 2) == 5);
  CHECK(memcmp(shared + kPage - 2, "hello", 5) == 0 && copy[kPage] == 99);
  lseek(fd, 100, SEEK_SET);
  struct iovec parts[2] = {{"ab", 2}, {"cdef", 4}};
  CHECK(writev(fd, parts, 2) == 6);
  CHECK(shared[103] == 'd');
  CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kPage, kPage) == 0);
  CHECK(shared[kPage + 8] == 0);
  CHECK(ftruncate(fd, kPage) == 0 && ftruncate(fd, 4 * kPage) == 0);
  CHECK(shared[2 * kPage] == 0);
  shared[3 * kPage] = 1;
  CHECK(pread(fd, text, 10, 0) == 10 && text[5] == 55);
  madvise(copy, 2 * kPage, MADV_DONTNEED);
  CHECK(copy[kPage] == 0 && copy[5] == 55);
  char* grown = mremap(shared, 4 * kPage, 6 * kPage, MREMAP_MAYMOVE);
  CHECK(grown != MAP_FAILED && grown[3 * kPage] == 1);
  CHECK(ftruncate(fd, 6 * kPage) == 0);
  grown[5 * kPage] = 4;
  msync(grown, kPage, MS_SYNC);
}

static void Aliases(void) {
  int fd = memfd_create("alias", 0);
  CHECK(ftruncate(fd, 4 * kPage) == 0);
  char* one = Map(4 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  char* two = Map(4 * kPage, PROT_READ, MAP_SHARED, fd);
  Fill(one, 3 * kPage, 5);
  CHECK(memcmp(one, two, 4 * kPage) == 0);
  char* three = mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 2 * kPage);
  three[17] = 1;
  CHECK(two[2 * kPage + 17] == 1);
  int id = shmget(IPC_PRIVATE, 8 * kPage, IPC_CREAT | 0600);
  if (id >= 0) {
    char* here = shmat(id, NULL, 0);
    Fill(here, 2 * kPage, 2);
    char* there = shmat(id, NULL, SHM_RDONLY);
    here[3 * kPage] = 8;
    CHECK(there[3 * kPage] == 8 && there[1] == 9);
    shmdt(here);
    shmctl(id, IPC_RMID, NULL);
  }
}

static void ByOtherWays(void) {
  char* m = Map(4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, -1);
  char text[5000];
  Fill(text, sizeof(text), 3);
  struct iovec local = {text, 5000}, remote[2] = {{m + 10, 4990}, {m + 3 * kPage, 10}};
  CHECK(process_vm_writev(getpid(), &local, 1, remote, 2, 0) == 5000);
  CHECK(process_vm_readv(getpid(), &(struct iovec){m + 2 * kPage, 100}, 1, &local, 1, 0) == 100);
  mprotect(m + kPage, kPage, PROT_NONE);
  mprotect(m + 2 * kPage, kPage, PROT_READ | PROT_EXEC);
  mprotect(m + kPage, kPage, PROT_READ | PROT_WRITE);
  m[kPage + 7] = 4;
  munmap(m + kPage, 5);  // rounded up
  mlock(m, kPage);
}

static long Deep(long n) {
  volatile char room[2000];
  room[n % 2000] = (char)n;
  return n == 0 ? room[0] : Deep(n - 1) + room[n % 2000];
}

int main(void) {
  for (int i = 0; i < 3; ++i) {
    Huge();
    Moves();
    GivenBack();
    Break();
    Files();
    Aliases();
    ByOtherWays();
  }
  printf("%ld\n", Deep(3000));  // 6 MB of stack
  printf("done %d\n", g_line);
  return g_line != 0;
}

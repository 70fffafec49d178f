// SPDX-License-Identifier: MIT
//
// Programs' usual ways to die, by name. Each mistake is made in one function and found in another,
// as in life.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

struct item {
  long id;
  struct item* next;
  long (*weigh)(struct item*);
  char name[40];
};

static struct item* list;
static volatile int zero;

NOINLINE struct item* new_item(long id) {
  struct item* i = malloc(sizeof *i);
  memset(i, 0, sizeof *i);
  i->id = id;
  return i;
}

NOINLINE void release(struct item* i) { free(i); }

// Scribbles over what malloc gave back.
NOINLINE void reuse(size_t size) {
  void* block = memset(malloc(size), 0x5a, size);
  __asm__ volatile("" : : "r"(block) : "memory");
}

NOINLINE long second_id(struct item* i) { return i->next->id; }

// With the address of the first element computed before the loop.
NOINLINE long sum_from(struct item* i, long first) {
  const long* number = (const long*)i->next + first;
  long sum = 0;
  __asm__ volatile("" : "+r"(number));
  for (long n = 0; n < i->id; ++n) sum += number[n];
  return sum;
}

NOINLINE long weigh(struct item* i) { return i->weigh(i); }

NOINLINE void rename_item(struct item* i, const char* name, size_t n) { memcpy(i->name, name, n); }

// A local variable that nobody has set, where leave_behind has left something.
NOINLINE void leave_behind(void) {
  volatile long left[32];
  for (int i = 0; i < 32; ++i) left[i] = 0x5a5a5a5a5a5a;
  (void)left[0];
}
NOINLINE void keep_local(void) {
  struct item local[4] = {{.id = 1, .next = list}};
  list = &local[0];
  __asm__ volatile("" : : "r"(local) : "memory");
}
// The same, under frames that have its place by now.
NOINLINE long deeper(struct item* i, int depth) {
  long room[12] = {depth};
  __asm__ volatile("" : : "r"(room) : "memory");
  return depth > 0 ? deeper(i, depth - 1) + room[3] : second_id(i);
}
NOINLINE long id_of_local(int which) {
  struct item* items[16];
  __asm__ volatile("" : : "r"(items) : "memory");
  return items[which]->id;
}

NOINLINE long deep(long n) {
  volatile char room[3000];
  room[n % 3000] = (char)n;
  return deep(n + 1) + room[7];
}

NOINLINE void smash(long* words, int n) {
  for (int i = 0; i < n; ++i) words[i] = 0x4141414141;
}

NOINLINE long weigh_first(struct item** items) { return weigh(*items); }

NOINLINE void return_to_nowhere(int n) {
  long words[2];
  smash(words, n);
  __asm__ volatile("" : : "r"(words) : "memory");
}

NOINLINE void overrun(char* bytes, int n) {
  for (int i = 0; i < n; ++i) {
    bytes[i] = 'o';
    __asm__ volatile("" ::: "memory");  // byte by byte
  }
}

// Compiled with a stack guard.
NOINLINE int guarded(int n) {
  char room[16];
  overrun(room, n);
  return room[3];
}

NOINLINE char* give(size_t size) { return malloc(size); }
NOINLINE void take(char* bytes) { free(bytes); }

NOINLINE void read_too_much(char* bytes, size_t n) {
  int ends[2];
  char text[256];
  memset(text, 'r', sizeof text);
  if (pipe(ends) != 0 || write(ends[1], text, n) < 0 || read(ends[0], bytes, n) < 0) exit(1);
}

// What the allocator does between the mistake and its end.
NOINLINE void use_heap(void) {
  for (size_t i = 1; i < 200; ++i) free(memset(give(400 + i * 37 % 900), 1, 100));
}

NOINLINE void free_nothing(void) { abort(); }

// Faults in malloc, whose words glibc has written outside of malloc and free.
static void* fault_in_malloc(void* how) {
  char* kept = memset(give(40), 1, 40);
  char* small = memset(give(40), 1, 40);
  give(8000);  // the arena and this chunk are on different pages
  char* large = memset(give(100000), 1, 100000);
  give(100);
  take(small);
  take(large);
  if (!strcmp(how, "heap-trimmed")) malloc_trim(0);
  if (!strcmp(how, "heap-forked")) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
  }
  mprotect((char*)((uintptr_t)(large - 16) & ~4095ul), 4096, PROT_NONE);
  give(100000);
  return kept;
}

// Keeps the pointer in a register that ten functions save and restore.
NOINLINE void saves_rbx(void) { __asm__ volatile("xorl %%ebx, %%ebx" ::: "rbx"); }
NOINLINE struct item* kept_in_rbx(struct item* item) {
  __asm__ volatile(
      "movq %0, %%rbx\n\tsubq $128, %%rsp\n\t"
      ".rept 10\n\tcall saves_rbx\n\t.endr\n\t"
      "addq $128, %%rsp\n\tmovq %%rbx, %0"
      : "+r"(item)::"rbx", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory");
  return item;
}

static sem_t waiting;

static void* wait_for_ever(void* unused) {
  sem_post(&waiting);
  for (;;) pause();
  return unused;
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  list = new_item(1);
  list->next = new_item(2);
  if (!strcmp(how, "null")) {
    list->next = NULL;
    printf("%ld\n", second_id(list));
  }
  if (!strcmp(how, "null-array")) {
    list->next = NULL;
    printf("%ld\n", sum_from(list, 2));
  }
  if (!strcmp(how, "use-after-free")) {
    struct item* kept = list;
    release(list);
    reuse(sizeof *kept);
    release(kept->next);  // wild
    printf("%ld\n", second_id(kept));
  }
  if (!strcmp(how, "read-after-free")) {
    struct item* kept = list;
    release(list);
    char* other = malloc(2000);
    free(other);
    printf("%ld\n", second_id(kept));  // glibc has put its own pointers there
  }
  if (!strcmp(how, "double-free")) {
    release(list);
    release(list);
  }
  if (!strcmp(how, "double-free-kept")) {
    release(list);
    release(kept_in_rbx(list));
  }
  if (!strcmp(how, "bad-free")) release((struct item*)((char*)list + 16));
  if (!strcmp(how, "out-of-bounds")) {
    struct item* a = new_item(3);
    struct item* b = new_item(4);
    b->weigh = NULL;
    b->next = list;
    char text[128];
    memset(text, 'A', sizeof text);
    rename_item(a, text, 80);  // 40 too many: over b
    printf("%ld\n", second_id(b));
  }
  if (!strcmp(how, "overflow")) printf("%ld\n", deep(0));
  if (!strcmp(how, "corrupted-pointer")) {
    list->weigh = (long (*)(struct item*))0x123456789a;
    printf("%ld\n", weigh(list));
  }
  if (!strcmp(how, "small")) printf("%ld\n", weigh_first((struct item**)8));
  if (!strcmp(how, "null-member")) {  // the address is computed before it is used
    struct item** first = NULL;
    __asm__ volatile("" : "+r"(first));
    struct item** second;
    __asm__ volatile("leaq 8(%1), %0" : "=r"(second) : "r"(first));
    printf("%ld\n", weigh_first(second));
  }
  if (!strcmp(how, "jump-8")) {
    list->weigh = (long (*)(struct item*))8;
    printf("%ld\n", weigh(list));
  }
  if (!strcmp(how, "jump-0")) printf("%ld\n", weigh(list));
  if (!strcmp(how, "return")) return_to_nowhere(8);
  if (!strcmp(how, "divide")) printf("%d\n", argc / zero);
  if (!strcmp(how, "test")) __asm__ volatile("testb $8, 0xa9(%0)" ::"r"(NULL) : "cc");
  if (!strcmp(how, "alarm")) {  // the kernel's timer
    ualarm(100000, 0);
    for (;;) pause();
  }
  if (!strcmp(how, "raise")) raise(SIGUSR1);
  if (!strcmp(how, "sent")) {  // by another process
    if (fork() == 0) {
      usleep(300000);  // until it waits
      kill(getppid(), SIGTERM);
      _exit(0);
    }
    for (;;) pause();
  }
  if (!strcmp(how, "illegal")) __asm__ volatile("ud2");
  if (!strcmp(how, "breakpoint")) __asm__ volatile("int3");
  if (!strcmp(how, "privileged")) __asm__ volatile("hlt");
  if (!strcmp(how, "abort")) {
    fprintf(stderr, "this cannot be\n");
    abort();
  }
  if (!strcmp(how, "read-only")) *(volatile char*)"constant" = 'C';
  if (!strcmp(how, "non-canonical")) {
    list->next = (struct item*)0x4141414141414141;
    printf("%ld\n", second_id(list));
  }
  if (!strcmp(how, "unmapped")) {
    char* m = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    list->next = (struct item*)(m + 4096);
    munmap(m, 8192);
    printf("%ld\n", second_id(list));
  }
  if (!strcmp(how, "bus")) {
    char path[] = "/tmp/ttq-faults-XXXXXX";
    int fd = mkstemp(path);
    unlink(path);
    char* m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    m[10] = 1;
  }
  if (!strcmp(how, "guard")) printf("%d\n", guarded(60));
  if (!strcmp(how, "heap-after")) {
    char *a = give(100), *b = give(100);
    overrun(a, 120);
    use_heap();
    take(b);
  }
  if (!strcmp(how, "heap-before")) {
    char* a = give(100);
    overrun(a - 8, 8);
    use_heap();
    take(a);
  }
  if (!strcmp(how, "heap-freed")) {  // a call of malloc follows the list, the next one uses it
    char *a = give(100), *b = give(100);
    take(a);
    take(b);
    overrun(b, 8);
    give(100);
    use_heap();
    give(100);
  }
  if (!strcmp(how, "heap-freed-large")) {
    char* a = give(2000);
    give(100);
    take(a);
    overrun(a, 64);
    give(3000);
  }
  if (!strcmp(how, "heap-read")) {
    char *a = give(100), *b = give(100);
    read_too_much(a, 120);
    use_heap();
    take(b);
  }
  if (!strcmp(how, "heap-divided")) {  // where a larger block was before
    take(give(3000));
    char *a = give(80), *b = give(80);
    overrun(a, 96);
    take(b);
  }
  if (!strcmp(how, "stale")) {
    release(list);
    reuse(sizeof *list);
    printf("%ld\n", weigh(list));
  }
  if (!strcmp(how, "stale-copy")) {  // made when there was no block any more
    release(list);
    list->next = NULL;
    struct item** copy = malloc(sizeof *copy);
    *copy = list;
    list = NULL;
    reuse(sizeof *list);
    printf("%ld\n", second_id(*copy));
  }
  if (!strcmp(how, "grown")) {  // where it is: the other pointer is good
    struct item** array = malloc(1000);
    struct item*** other = malloc(sizeof *other);
    *other = array;
    array[0] = NULL;
    array = realloc(array, 990);
    printf("%ld\n", (*other)[0]->id);
  }
  if (!strcmp(how, "not-set") || !strcmp(how, "not-set-by-malloc")) {
    memset(list, 0x5a, sizeof *list);
    __asm__ volatile("" : : "r"(list) : "memory");
    release(list);
    list = malloc(sizeof *list);
    list->id = 1;
    printf("%ld\n", !strcmp(how, "not-set") ? weigh(list) : second_id(list));
  }
  if (!strcmp(how, "returned") || !strcmp(how, "returned-deeper")) {
    keep_local();
    leave_behind();
    printf("%ld\n", !strcmp(how, "returned") ? second_id(list) : deeper(list, 8));
  }
  if (!strcmp(how, "local-not-set")) {
    leave_behind();
    printf("%ld\n", id_of_local(3));
  }
  if (!strcmp(how, "heap-not")) {  // the heap is as it should be
    use_heap();
    free_nothing();
  }
  if (!strcmp(how, "heap-trimmed") || !strcmp(how, "heap-forked")) {
    pthread_t t;
    pthread_create(&t, NULL, fault_in_malloc, argv[1]);
    pthread_join(t, NULL);
  }
  if (!strcmp(how, "threads")) {
    pthread_t t[3];
    sem_init(&waiting, 0, 0);
    for (int i = 0; i < 3; ++i) pthread_create(&t[i], NULL, wait_for_ever, NULL);
    for (int i = 0; i < 3; ++i) sem_wait(&waiting);
    list->next = NULL;
    printf("%ld\n", second_id(list));
  }
  return 0;
}

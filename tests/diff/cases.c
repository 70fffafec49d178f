// SPDX-License-Identifier: MIT
//
// Many small programs in one, for diff_test.py: case k runs in a process of its own. The build with
// -DCHANGED, the second environment and the second input each change exactly one thing in each
// case; the line that a comparison must find holds HERE(k).
// A mark belongs to the line it stands in.
// clang-format off
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef CHANGED
#define PICK(a, b) (b)
#else
#define PICK(a, b) (a)
#endif
#define HERE(k)

static int input = -1;
static volatile long sink;

static void emit(long v) {
  char text[32];
  int n = snprintf(text, sizeof text, "%ld\n", v);
  if (write(1, text, n) != n) _exit(9);
}

struct node {
  struct node* next;
  long value;
};

static struct node* push(struct node* list, long value) {
  struct node* n = malloc(sizeof *n);
  n->next = list;
  n->value = value;
  return n;
}

static long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static long twice(long n) { return 2 * n; }
static long thrice(long n) { return 3 * n; }

// ---- A constant in the code ---------------------------------------------------------------------

static void case0(void) {
  int limit = PICK(10, 12); HERE(0)
  long sum = 0;
  for (int i = 0; i < limit; ++i) sum += i;
  emit(sum);
}

static void case1(void) {
  long sum = 0;
  for (int i = 0; i < PICK(7, 9); ++i) HERE(1)
    sum += i;
  emit(sum);
}

static void case2(void) {
  long table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  int at = PICK(3, 5); HERE(2)
  long v = table[at];
  if (v > 4) v *= 10;
  emit(v);
}

static void case3(void) {
  struct node* list = NULL;
  for (long i = 0; i < 5; ++i) list = push(list, i);
  list->next->value += PICK(1, 100); HERE(3)
  for (struct node* n = list; n; n = n->next) {
    if (n->value > 50) emit(n->value);
  }
}

static void case4(void) {
  long n = PICK(6, 8); HERE(4)
  emit(fib(n));
}

static void case5(void) {
  long (*f)(long) = PICK(twice, thrice); HERE(5)
  emit(f(21));
}

static void case6(void) {
  char text[32];
  strcpy(text, "hello");
  text[2] = PICK('l', 'x'); HERE(6)
  emit(strcmp(text, "hello") == 0);
}

static void case7(void) {
  uint32_t h = PICK(2166136261u, 2166136262u); HERE(7)
  for (int i = 0; i < 200; ++i) h = (h ^ i) * 16777619u;
  emit(h % 97 > 48 ? (long)h : -(long)h);
}

static void case8(void) {
  int v = 41;
  v += PICK(1, 2); HERE(8)
  switch (v) {
    case 42: emit(1); break;
    case 43: emit(2); break;
    default: emit(3);
  }
}

static void case9(void) {
  unsigned bits = 0;
  for (int i = 0; i < 20; ++i) bits |= 1u << (i % PICK(5, 6)); HERE(9)
  while (bits) {
    sink += bits & 1;
    bits >>= 1;
  }
  emit(sink);
}

static void case10(void) {
  long sum = 0;
  for (int i = 0; i < 3000; ++i) {
    long x = i == 1234 ? sink + PICK(2, 5) : 0; HERE(10)
    sum += x;
  }
  if (sum > 3) emit(sum);
}

static void case11(void) {
  double x = PICK(1.5, 2.5); HERE(11)
  if (x * 2 > 4) emit(7);
  emit(1);
}

static void case12(void) {
  long a[16];
  for (int i = 0; i < 16; ++i) a[i] = (i * 7) % 16;
  a[9] = PICK(15, 3); HERE(12)
  for (int i = 1; i < 16; ++i) {
    for (int k = i; k > 0 && a[k] < a[k - 1]; --k) {
      long t = a[k];
      a[k] = a[k - 1];
      a[k - 1] = t;
    }
  }
  emit(a[3]);
}

static void case13(void) {
  char buffer[64];
  memset(buffer, 0, sizeof buffer);
  memset(buffer, 'a', PICK(20, 21)); HERE(13)
  emit((long)strlen(buffer));
}

static void case14(void) {
  size_t bytes = PICK(64, 96); HERE(14)
  char* p = malloc(bytes);
  for (size_t i = 0; i < bytes; ++i) p[i] = (char)i;
  emit(p[10]);
  free(p);
}

static void case15(void) {
  long x = PICK(5, 6); HERE(15)
  long y = x * x - 3 * x + 2;
  long z = y << 3;
  emit(z / 3 % 2 ? z : -z);
}

static void case16(void) {
  uint8_t small = PICK(200, 100); HERE(16)
  int8_t s = (int8_t)small;
  if (s < 0) emit(-1);
  else emit(1);
}

static void case17(void) {
  struct { int a, b; } pair = {1, PICK(2, 3)}; HERE(17)
  struct { int a, b; } copy;
  memcpy(&copy, &pair, sizeof copy);
  emit(copy.b == 2 ? 11 : 22);
}

static int depth(int n, int bottom) { return n <= bottom ? 0 : 1 + depth(n - 1, bottom); }
static void case18(void) {
  emit(depth(12, PICK(4, 3))); HERE(18)
}

static void case19(void) {
  emit(PICK(17, 18)); HERE(19)
}

static void case20(void) {
  long total = 0;
  for (int i = 0; i < 10; ++i) total += i * PICK(2, 3); HERE(20)
  char out = (char)('A' + total % 20);
  if (write(1, &out, 1) != 1) _exit(9);
}

static void case21(void) {
  int code = PICK(3, 4); HERE(21)
  _exit(code);
}

static void case22(void) {
  long* p = &(long){5};
  if (sink + PICK(0, 1)) p = NULL; HERE(22)
  emit(*p);
}

static void case23(void) {
  uint64_t seed = PICK(88172645463325252u, 88172645463325253u); HERE(23)
  long hits = 0;
  for (int i = 0; i < 500; ++i) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    hits += 1;
  }
  emit(seed & 1 ? hits : -hits);
}

static void case24(void) {
  char format[16] = "%d";
  format[1] = PICK('d', 'x'); HERE(24)
  char out[32];
  snprintf(out, sizeof out, format, 255);
  emit((long)strlen(out));
}

// ---- A byte of the input ------------------------------------------------------------------------

static int byte(int at) {
  unsigned char c = 0;
  if (pread(input, &c, 1, at) != 1) _exit(8);
  return c;
}

static void case25(void) {
  int c = byte(25); HERE(25)
  if (c > 'm') emit(1);
  emit(2);
}

static void case26(void) {
  long n = byte(26) - 'a'; HERE(26)
  while (n-- > 0) sink += n;
  emit(sink);
}

static void case27(void) {
  char word[4] = {'c', 'a', (char)byte(27), 0}; HERE(27)
  emit(strcmp(word, "caa"));
}

static void case28(void) {
  struct node* list = NULL;
  for (long i = 0; i < 6; ++i) list = push(list, i == 2 ? byte(28) : i); HERE(28)
  long most = 0;
  for (struct node* n = list; n; n = n->next) {
    if (n->value > most) most = n->value;
  }
  emit(most > 'q');
}

static void case29(void) {
  int c = byte(29); HERE(29)
  long x = c ^ 0x55;
  x = x * 31 + 7;
  char* p = malloc(16);
  memset(p, (int)(x & 0x7f), 15);
  p[15] = 0;
  emit(p[7] > 64 ? 1 : 2);
}

static void case30(void) {
  long sum = 0;
  for (int i = 0; i < 40; ++i) sum = sum * 3 % 1009 + (i == 11 ? byte(30) : i); HERE(30)
  emit(sum % 2);
  emit(sum);
}

static void case31(void) {
  char out = (char)byte(31); HERE(31)
  if (write(1, &out, 1) != 1) _exit(9);
}

// ---- An environment variable --------------------------------------------------------------------

static void case32(void) {
  if (strcmp(getenv("CASE32"), "fast") == 0) emit(1); HERE(32)
  emit(2);
}

static void case33(void) {
  int level = atoi(getenv("CASE33")); HERE(33)
  for (int i = 0; i < level; ++i) sink += i;
  emit(sink);
}

static void case34(void) {
  const char* mode = getenv("CASE34");
  if (mode[0] == 'b') emit(1); HERE(34)
  emit(2);
}

static void case35(void) {
  long n = (long)strlen(getenv("CASE35")); HERE(35)
  emit(n);
}

static void case36(void) {
  char copy[32];
  strncpy(copy, getenv("CASE36"), sizeof copy - 1); HERE(36)
  copy[31] = 0;
  if (copy[3] == 'd') emit(3);
  emit(4);
}

// ---- What must not be found ---------------------------------------------------------------------

static void case37(void) {
  struct node* list = NULL;
  for (long i = 0; i < 20; ++i) list = push(list, i);
  long sum = 0;
  for (struct node* n = list; n; n = n->next) sum += n->value;
  emit(sum);
}

static void case38(void) {
  char where[64];
  memset(where, 'x', sizeof where - 1);
  where[63] = 0;
  emit((long)strlen(where) + (long)strlen(getenv("SAME")));
}

// With --ignore noise.
static int noise(int at) {
  return byte(at) > 'm';
}
static void case39(void) {
  if (noise(39)) ++sink;
  else --sink;
  emit(5);
}

typedef void (*test)(void);
static const test cases[] = {
    case0,  case1,  case2,  case3,  case4,  case5,  case6,  case7,  case8,  case9,
    case10, case11, case12, case13, case14, case15, case16, case17, case18, case19,
    case20, case21, case22, case23, case24, case25, case26, case27, case28, case29,
    case30, case31, case32, case33, case34, case35, case36, case37, case38, case39};

int main(int argc, char** argv) {
  input = open(argc > 1 ? argv[1] : "/dev/null", O_RDONLY);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    pid_t child = fork();
    if (child == 0) {
      cases[i]();
      _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
  }
  return 0;
}

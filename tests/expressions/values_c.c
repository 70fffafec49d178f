/* SPDX-License-Identifier: MIT
 *
 * Values of every kind that C has, at one place where both gdb and ttq look at them. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum colour { RED, GREEN = 5, BLUE };
enum flags { FLAG_A = 1, FLAG_B = 2, FLAG_C = 4 };

struct point {
  int x, y;
};
struct bits {
  unsigned a : 3;
  int b : 5;
  unsigned long c : 40;
  _Bool d : 1;
};
union number {
  int i;
  float f;
  unsigned char bytes[4];
};
struct node {
  int value;
  struct node* next;
  const char* name;
  struct {
    int inner;
    union {
      int as_int;
      float as_float;
    };
  };
  int (*callback)(int);
};
struct hidden; /* defined in values_other.c */
struct pair {
  long in;
  long out;
};

typedef struct point point_t;
typedef int (*callback_t)(int);

int counter = 42;
static int file_static = -7;
double ratio = 3.14159;
float half = 0.5f;
long double precise = 1.25L;
__float128 quad = -1.5Q;
#if defined(__clang__) && __clang_major__ < 15  // which does not know the type
unsigned short sixteen = 0x3c01, least = 1;
#else
_Float16 sixteen = 1.0009765625f16, least = 5.9604644775390625e-8f16;
#endif
_Complex long double turn = 2.0L;
char letter = 'a';
unsigned char byte_value = 200;
unsigned int nearly_all = 0xfffffff0u;
signed char negative_char = -1;
_Bool truth = 1;
char text[16] = "hello";
char escaped[] = "tab\there \"quoted\" \\ \001 end\n";
const char* words[3] = {"zero", "one", NULL};
int numbers[5] = {1, 2, 3, 4, 5};
int zeros[40];
int matrix[2][3] = {{1, 2, 3}, {4, 5, 6}};
enum colour colour = GREEN;
enum flags some_flags = FLAG_A | FLAG_C;
struct point origin = {3, 4};
struct point* origin_pointer = &origin;
struct bits bits = {5, -3, 123456789012, 1};
union number number = {.i = 0x3f800000};
point_t points[2] = {{1, 2}, {3, 4}};
uint8_t small = 9;
int64_t large = -9000000000;
size_t size = 77;
void* nothing = NULL;
extern struct hidden* hidden;
struct hidden* make_hidden(void);
__int128 wide = (__int128)1 << 70;
__thread int per_thread = 11;

int twice(int n) { return 2 * n; }
callback_t callback = twice;

__attribute__((noinline)) void stop_here(void) { __asm__ volatile("" ::: "memory"); }

__attribute__((noinline)) long by_value(struct pair full_args, int extra, const char* label) {
  long sum = full_args.in + full_args.out + extra;
  stop_here();
  return sum + (long)strlen(label);
}

__attribute__((noinline)) int sum_to(struct node* list, int limit) {
  int total = 0;
  static int calls;
  ++calls;
  for (struct node* p = list; p != NULL && p->value < limit; p = p->next) {
    int doubled = twice(p->value);
    total += doubled;
  }
  int length = limit;
  char scratch[length];
  memset(scratch, 'z', (size_t)length);
  stop_here();
  return total + scratch[1];
}

int main(void) {
  struct node second = {2, NULL, "second", {7, {.as_int = 8}}, twice};
  struct node first = {1, &second, "first", {5, {.as_int = 6}}, NULL};
  per_thread = 12;
  hidden = make_hidden();
  struct pair pair = {10, 20};
  long got = by_value(pair, 3, "label");
  int total = sum_to(&first, 10);
  counter += (int)got + total;
  stop_here();
  return counter == 0;
}

// SPDX-License-Identifier: MIT
//
// Functions that are inlined, that begin with what is inlined into them, and whose arguments are
// called as columns are. Each is asked for its calls with a condition on an argument.
#include <cstdio>

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))

struct Node {
  int value;
  Node* next;
};

volatile int sink;

INLINE int inner(int v, int w) {
  sink = v;
  return v ^ w;
}
INLINE int middle(Node* q, int w) {
  int r = inner(q->value, w);
  sink = q->value;
  return r + q->value;
}
INLINE int plain(int q) { return inner(q, q + 1) + sink; }

struct Sum {
  long total = 0;
  int count = 0;
  INLINE int last(Sum* self, int line) {
    self->count = line;
    return inner(line, self->count);
  }
  NOINLINE int add(int line) {
    total += line;
    return last(this, line) + count;
  }
  NOINLINE int begins(char thread, long file) { return plain(thread) + static_cast<int>(file); }
};

NOINLINE int direct(Node* p, int line) { return middle(p, line); }
NOINLINE int simple(int q) { return plain(q); }
NOINLINE int either(int z, int w) {
  if (z > 3) return plain(w);
  Node node = {z, nullptr};
  return middle(&node, w);
}

Sum sum;

int main() {
  int s = 0;
  for (int i = 0; i < 10; ++i) {
    Node node = {40 + i, nullptr};
    s += direct(&node, 40 + i);
    s += simple(40 + i);
    s += either(i, 40 + i);
    s += plain(40 + i);
    s += middle(&node, i);
    s += sum.add(40 + i);
    s += sum.begins(static_cast<char>(40 + i), 40 + i);
  }
  std::printf("%d\n", s);
}

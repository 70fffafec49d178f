/* SPDX-License-Identifier: MIT */
/* What gdb's own tests of reverse debugging step through: calls, returns, recursion, loops, a
 * watched variable. No library is called between the marks, so that gdb's `record full` can follow
 * too. */

int watched;
int table[64];

int callee(int x) {
  int y = x * 2;
  return y + 1;
}

int outer(int x) {
  int first = callee(x);
  int second = callee(first);
  return first + second;
}

int recursive(int n) {
  if (n <= 0) return 1;
  int rest = recursive(n - 1);
  return n * rest;
}

void loop(int count) {
  int i;
  for (i = 0; i < count; ++i) {
    watched += i;
    table[i % 64] = watched;
  }
  watched = -1;
}

int main(void) {
  int result = 0;
  result += callee(1);
  result += callee(callee(2));
  result += outer(3);
  result += recursive(4);
  loop(10);
  result += table[5];
  watched = result;
  watched = 7;
  result += callee(8);
  return result & 1;
}

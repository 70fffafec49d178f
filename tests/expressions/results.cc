// SPDX-License-Identifier: MIT
//
// Functions that return something of every kind, each called once or twice, and calls of functions
// that the dynamic linker chooses by processor.

#include <emmintrin.h>
#include <math.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#define NOINLINE extern "C" __attribute__((noinline, noclone))

enum Colour { kRed, kGreen = 5, kBlue };
struct Pair {
  int a, b;
};
struct Two {
  long first;
  unsigned second;
};
struct Large {
  long numbers[4];
  const char* name;
};
union Word {
  unsigned char byte;
  unsigned word;
};

int global = 42;
volatile int minus = -1;  // so that nothing is known when it is compiled

// The upper bits of the register hold something else.
NOINLINE bool ReturnsBool() {
  bool result;
  asm("movl $0xabcd00, %%eax; movb $1, %%al" : "=a"(result));
  return result;
}
NOINLINE signed char ReturnsChar() {
  signed char result;
  asm("movl $0x123456fb, %%eax" : "=a"(result));
  return result;
}
NOINLINE unsigned short ReturnsUnsignedShort() {
  unsigned short result;
  asm("movl $0x1234fffe, %%eax" : "=a"(result));
  return result;
}
NOINLINE short ReturnsShort() { return static_cast<short>(minus * 300); }
NOINLINE int ReturnsInt() { return minus * 7; }
NOINLINE unsigned ReturnsUnsigned() { return static_cast<unsigned>(minus) - 1; }
NOINLINE long ReturnsLong() { return minus * 5000000000; }
NOINLINE unsigned long ReturnsUnsignedLong() { return static_cast<unsigned long>(minus) - 9; }
NOINLINE const char* ReturnsText() { return "seven"; }
NOINLINE int* ReturnsPointer() { return &global; }
NOINLINE void* ReturnsNull() { return nullptr; }
NOINLINE int& ReturnsReference() { return global; }
NOINLINE Colour ReturnsEnum() { return minus < 0 ? kGreen : kRed; }
NOINLINE Pair ReturnsPair() { return {minus, 2}; }
NOINLINE Two ReturnsTwo() { return {minus * 3L, 9}; }
NOINLINE Large ReturnsLarge() { return {{1, minus, 3, 4}, nullptr}; }
NOINLINE Word ReturnsUnion() {
  Word w;
  w.word = 0x1ff;
  return w;
}
NOINLINE void ReturnsNothing() { asm volatile("movl $77, %%eax" ::: "eax"); }
NOINLINE double ReturnsDouble() { return minus / 4.0; }
NOINLINE float ReturnsFloat() { return static_cast<float>(minus) * 1.5f; }
struct Mixed {
  double real;
  long whole;
};
NOINLINE Mixed ReturnsMixed() { return {minus * 2.5, 8}; }
NOINLINE long double ReturnsLongDouble() { return minus * 2.25L; }
typedef float Floats __attribute__((vector_size(16)));
typedef int Ints __attribute__((vector_size(16)));
NOINLINE Floats ReturnsFloats() {
  const float f = static_cast<float>(minus);
  return Floats{f, 2, f * 3, 4} + Floats{f, f, f, f};
}
NOINLINE __m128i ReturnsIntegers() { return _mm_set_epi64x(minus * 3, minus * 7); }
struct InVector {
  __m128d pair;
};
NOINLINE InVector ReturnsInVector() { return {_mm_set_pd(minus * 0.5, minus * 0.25)}; }
NOINLINE float Dot(Floats a, int before, Floats b, double scale, Ints c) {
  asm volatile("");
  const Floats product = a * b;
  return (product[0] + product[1] + product[2] + product[3]) * static_cast<float>(scale * before) +
         static_cast<float>(c[0] + c[1] + c[2] + c[3]);
}
NOINLINE double Blend(double weight, float bias, int count, Mixed mixed, const double* more) {
  return weight * bias + count + mixed.real + static_cast<double>(mixed.whole) + *more;
}
NOINLINE double Scale(double weight, int count) {
  asm volatile("");
  return weight * count;
}
NOINLINE double Mix(double a, double b, float c, double d) {
  asm volatile("");
  return a + 2 * b + 3 * c + 4 * d;
}
// All registers taken: the address of the text is passed on the stack.
NOINLINE unsigned long SizeOf(long a, long b, long c, long d, long e, long f, std::string text) {
  asm volatile("" ::"r"(a + b + c + d + e + f));
  return text.size();
}
NOINLINE long Tenths(long double amount, long digit) {
  asm volatile("");
  return static_cast<long>(amount * 10) + digit;
}
// Arguments that branches change on the way to a call.
static void CallMix(int i) {
  double a = i * minus * -0.5, b = i * minus * -0.25, d = i * minus * -2.0;
  float c = static_cast<float>(i * minus * -1);
  if (minus * i & 1) {
    a = -a;
    c = -c;
  }
  if (minus * i & 2) {
    b *= minus;
    d = b + d;
  }
  Mix(a, b, c, d);
}
// Results that a loop or a branch makes, which return from another superblock.
NOINLINE double Sum(const double* numbers, int count) {
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += numbers[i];
  return sum;
}
NOINLINE float Either(int first, float a, float b) {
  if (first) return a;
  return b * 2;
}
// The sign of the other, given by operations on all bits, and back over a jump.
NOINLINE double Signed(double a, double sign, int times) {
  a = __builtin_copysign(a, sign);
  asm goto("cmpl $0, %0; jne %l1" ::"r"(times) : "cc" : out);
  asm volatile("");
out:
  return a;
}
// What may not be copied bit by bit is passed by its address, however small it is.
struct Counted {
  int n;
  explicit Counted(int number) : n(number) {}
  Counted(const Counted& other) : n(other.n + 0) {}
};
struct Holder {
  Counted inner;
};
struct Plain {
  int n;
  Plain(const Plain&) = default;
  explicit Plain(int number) : n(number) {}
};
NOINLINE int Takes(std::string text, std::optional<int> maybe, Colour colour, Counted counted,
                   std::unique_ptr<int> owned, Holder holder, Plain plain) {
  return static_cast<int>(text.size()) + *maybe + colour + counted.n + *owned + holder.inner.n +
         plain.n;
}
// The compiler makes a copy of it without the first parameter, which is always the same.
static __attribute__((noinline)) double Cloned(const char* name, long scale, double weight) {
  asm volatile("" ::"r"(name) : "memory");
  return static_cast<double>(scale) * weight + name[0];
}
std::string __attribute__((noinline)) ReturnsString() { return std::string(3, 'x') + "yz"; }

// Recursion: results come in another order than calls, and from memory.
NOINLINE Large Down(int n) {
  if (n == 0) return ReturnsLarge();
  Large inner = Down(n - 1);
  inner.numbers[0] += n;
  return inner;
}

// Without a use the compiler would leave the call out.
template <class T>
void Keep(T&& value) {
  asm volatile("" ::"r"(&value) : "memory");
}

// Begins with what is inlined into it, which begins with another.
__attribute__((always_inline)) inline int Innermost(int a, int b) { return a * 31 + b; }
__attribute__((always_inline)) inline int Inner(int n) { return Innermost(n, 3) ^ n; }
__attribute__((noinline, noclone)) int Outer(int n) { return Inner(n); }

int main(int argc, char** argv) {
  if (argc > 1) {  // so many that blocks end anywhere in between
    const int count = atoi(argv[1]);
    for (int i = 0; i < count; ++i) Keep(Scale(i * 0.25, 4));
    return 0;
  }
  Keep(ReturnsBool());
  Keep(ReturnsChar());
  Keep(ReturnsShort());
  Keep(ReturnsUnsignedShort());
  Keep(ReturnsInt());
  Keep(ReturnsUnsigned());
  Keep(ReturnsLong());
  Keep(ReturnsUnsignedLong());
  Keep(ReturnsText());
  Keep(ReturnsPointer());
  Keep(ReturnsNull());
  Keep(ReturnsReference());
  Keep(ReturnsEnum());
  Keep(ReturnsPair());
  Keep(ReturnsTwo());
  Keep(ReturnsLarge());
  Keep(ReturnsUnion());
  ReturnsNothing();
  Keep(SizeOf(1, 2, 3, 4, 5, 6, "passed"));
  for (int i = 1; i < 4; ++i) Keep(Tenths(i * 1.5L, i));
  Keep(ReturnsDouble());
  Keep(ReturnsFloat());
  Keep(ReturnsMixed());
  Keep(ReturnsLongDouble());
  Keep(ReturnsFloats());
  Keep(ReturnsIntegers());
  Keep(ReturnsInVector());
  for (int i = 1; i <= 2; ++i) {
    const float f = static_cast<float>(i * minus);
    Keep(Dot(Floats{f, 2, 3, 4}, i, Floats{5, f, 7, f}, i * 0.5, Ints{1, i, 3, minus}));
  }
  double more = minus * 0.5;
  for (int i = 1; i <= 3; ++i) Keep(Blend(minus * 1.25 * i, 0.5f, i, {more * i, i}, &more));
  const double numbers[] = {minus * 1.5, 2, 4.25};
  for (int i = 0; i <= 3; ++i) Keep(Sum(numbers, i));
  for (int i = 0; i < 4; ++i) CallMix(i);
  for (int i = 0; i < 2; ++i) Keep(Either(i, 2.5f, minus * 3.5f));
  for (int i = 0; i < 2; ++i) Keep(Signed(2.5 + i, minus * (0.5 - i), i));
  for (int i = 1; i <= 2; ++i) Keep(atan2(minus * 0.0, minus * 1.0 * i));
  Keep(Takes("text", minus * 4, kBlue, Counted(11), std::make_unique<int>(12), Holder{Counted(13)},
             Plain(14)));
  for (int i = 1; i <= 2; ++i) Keep(Cloned("clone", minus * i, i * 0.5));
  for (int i = 1; i <= 2; ++i) Keep(Outer(minus * i));
  Keep(ReturnsString());
  Keep(Down(3));
  char from[512] = {}, to[512];
  size_t sizes[] = {1, 33, 300};
  for (size_t& size : sizes) {
    memcpy(to, from, static_cast<size_t>(argc) * size);
    asm volatile("" ::"r"(to) : "memory");
  }
  return static_cast<int>(strlen(argv[0])) == 0;
}

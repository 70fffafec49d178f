// SPDX-License-Identifier: MIT
//
// One number, taken through instructions that leave it as it is (extended, cut to a size in which
// it fits, copied, put somewhere and fetched back), and through some that make another one of it.
// Where the results come from is asked.

#define NOINLINE __attribute__((noinline))

long source, cell, passed[40], made[20];

NOINLINE void set_source(void) { source = 77; }

#define THROUGH(result, code)                                                                     \
  do {                                                                                            \
    long number = source;                                                                         \
    __asm__ volatile(code : "+a"(number) : : "rcx", "rdx", "rsi", "rdi", "xmm0", "cc", "memory"); \
    result = number;                                                                              \
  } while (0)

NOINLINE void pass(void) {
  long* to = passed;
  THROUGH(*to++, "cltq");
  THROUGH(*to++, "movslq %%eax, %%rax");
  THROUGH(*to++, "cwtl\n\tcltq");
  THROUGH(*to++, "cbtw\n\tcwtl\n\tcltq");
  THROUGH(*to++, "movsbl %%al, %%ecx\n\tmovslq %%ecx, %%rax");
  THROUGH(*to++, "movsbq %%al, %%rax");
  THROUGH(*to++, "movswq %%ax, %%rax");
  THROUGH(*to++, "movzbl %%al, %%eax");
  THROUGH(*to++, "movzwl %%ax, %%eax");
  THROUGH(*to++, "movzbw %%al, %%cx\n\tmovzwl %%cx, %%eax");
  THROUGH(*to++, "movl %%eax, %%ecx\n\tmovl %%ecx, %%eax");
  THROUGH(*to++, "xchgq %%rax, %%rcx\n\txchgq %%rcx, %%rax");
  THROUGH(*to++, "xchgq %%rax, cell(%%rip)\n\txorl %%eax, %%eax\n\txchgq cell(%%rip), %%rax");
  THROUGH(*to++,
          "subq $256, %%rsp\n\tpushq %%rax\n\tpopq %%rcx\n\taddq $256, %%rsp\n\t"
          "movq %%rcx, %%rax");
  THROUGH(*to++,
          "subq $256, %%rsp\n\tpushq cell(%%rip)\n\tmovq %%rax, (%%rsp)\n\t"
          "popq cell(%%rip)\n\taddq $256, %%rsp\n\tmovq cell(%%rip), %%rax");
  THROUGH(*to++, "andl $255, %%eax");
  THROUGH(*to++, "andq $-1, %%rax");
  THROUGH(*to++, "leaq (%%rax), %%rcx\n\tmovq %%rcx, %%rax");
  THROUGH(*to++, "leal (%%rax), %%ecx\n\tmovslq %%ecx, %%rax");
  THROUGH(*to++, "movd %%eax, %%xmm0\n\tmovd %%xmm0, %%ecx\n\tmovslq %%ecx, %%rax");
  THROUGH(*to++, "movq %%rax, %%xmm0\n\tmovq %%xmm0, %%rax");
  THROUGH(*to++, "movb %%al, %%cl\n\tmovzbl %%cl, %%eax");
  THROUGH(*to++, "movb %%al, %%ah\n\tmovzbl %%ah, %%eax");
  THROUGH(*to++, "testq %%rax, %%rax\n\tcmovneq %%rax, %%rcx\n\tmovq %%rcx, %%rax");
  THROUGH(*to++, "leaq cell(%%rip), %%rdi\n\tstosq\n\tleaq cell(%%rip), %%rsi\n\tlodsq");
  THROUGH(*to++, "movl %%eax, cell(%%rip)\n\tmovslq cell(%%rip), %%rax");
  THROUGH(*to++, "xorl %%ecx, %%ecx\n\taddq %%rcx, %%rax");
  THROUGH(*to++, "movq $0, cell(%%rip)\n\tsubq cell(%%rip), %%rax");
  // The word is found as it should be, and %rax stays; it is another one, and %rax becomes it.
  THROUGH(*to++, "movq %%rax, cell(%%rip)\n\tmovl $9, %%ecx\n\tlock cmpxchgq %%rcx, cell(%%rip)");
  THROUGH(*to++,
          "movq %%rax, cell(%%rip)\n\tmovl $1, %%eax\n\tmovl $9, %%ecx\n\t"
          "lock cmpxchgq %%rcx, cell(%%rip)");
  THROUGH(*to++, "movq $1, cell(%%rip)\n\tmovl $1, %%ecx\n\tlock xaddq %%rcx, cell(%%rip)");
}

NOINLINE void make(void) {
  long* to = made;
  THROUGH(*to++, "cqto\n\tmovq %%rdx, %%rax");
  THROUGH(*to++, "bswapq %%rax");
  THROUGH(*to++, "negq %%rax");
  THROUGH(*to++, "movl $3, %%ecx\n\tmulq %%rcx");
  THROUGH(*to++, "movl $3, %%ecx\n\txorl %%edx, %%edx\n\tdivq %%rcx");
  THROUGH(*to++, "andq $-8, %%rax");
  THROUGH(*to++, "rolq $8, %%rax");
  THROUGH(*to++, "leaq (%%rax, %%rax), %%rax");
  // What is only written is no input.
  THROUGH(*to++, "leal (%%rax, %%rax, 2), %%ecx\n\tmovl %%ecx, %%eax");
  THROUGH(*to++, "imulq $3, %%rax, %%rcx\n\tmovq %%rcx, %%rax");
  THROUGH(*to++, "popcntq %%rax, %%rcx\n\tmovq %%rcx, %%rax");
  // The index of an element: its origin is asked for.
  THROUGH(*to++, "leaq 8(, %%rax, 4), %%rcx\n\tmovq %%rcx, %%rax");
  THROUGH(*to++, "leaq (, %%rax, 8), %%rax");
}

int main(void) {
  set_source();
  pass();
  make();
}

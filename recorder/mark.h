/* SPDX-License-Identifier: MIT
 *
 * ttq/mark.h: a program under `ttq record` leaves a mark in its own history.
 *
 *     #include <ttq/mark.h>
 *     TTQ_MARK("request 17 begins");
 *
 * `ttq "events mark"` lists the marks with their times. Outside of a recording a mark does nothing:
 * it is five instructions that leave everything as it was, found by a recorder that reads the
 * program's code (Valgrind's client requests; valgrind/valgrind.h describes them). Nothing is
 * linked, and any thread may mark. Programs without a compiler call ttq_mark() of libttq, or
 * ttq.mark() of its Python package.
 */
#ifndef TTQ_MARK_H_
#define TTQ_MARK_H_

#ifdef __cplusplus
extern "C" {
#endif

/* The request's number: "TQ", as Valgrind's tools begin theirs, then 1. Recorders rely on it. */
#define TTQ_REQUEST_MARK 0x54510001UL

/* `text`: UTF-8, ends in NUL; NULL is no mark. More than 4,095 bytes are cut. */
#define TTQ_MARK(text) ttq_mark_request_(text)

static inline void ttq_mark_request_(const char* text) {
#if defined(__x86_64__) && defined(__linux__)
  unsigned long request[6] = {TTQ_REQUEST_MARK, (unsigned long)text, 0, 0, 0, 0};
  unsigned long result = 0;
  __asm__ volatile(
      "rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
      : "+d"(result)
      : "a"(&request[0])
      : "cc", "memory");
#else
  (void)text;
#endif
}

#ifdef __cplusplus
}
#endif

#endif /* TTQ_MARK_H_ */

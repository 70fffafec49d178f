/* SPDX-License-Identifier: MIT
 *
 * A program that takes snapshots of itself: where nobody may trace it, and when it crashes.
 */
#ifndef TTQ_IMPORT_ARM_ARM_H_
#define TTQ_IMPORT_ARM_ARM_H_

/* The type of a note in the core dumps that this writes, beside those of Linux: a clause about what
 * is missing. */
enum { kTtqRemark = 0x54545131 };

#ifdef __cplusplus
extern "C" {
#endif

/* From here on SIGUSR2, and a signal that would end the process by a fault or by abort, makes a
 * recording of the process as it is then: its memory and threads are written to a core dump below
 * $TMPDIR (or /var/tmp), which `command import` makes a recording of. After SIGUSR2 the process
 * goes on as soon as it is forked; a crash goes on when the recording is made, to the handler that
 * was there before or to its end. `command`: the path of ttq; it is copied. 0, or an errno.
 *
 * Handlers that were installed before are called after a crash's snapshot; that of SIGUSR2 is
 * replaced. Threads that block SIGUSR2 are missing in the snapshot, which says so. System calls
 * that SA_RESTART does not restart (poll, nanosleep) end with EINTR. */
__attribute__((visibility("default"))) int ttq_arm(const char* command);

#ifdef __cplusplus
}
#endif

#endif /* TTQ_IMPORT_ARM_ARM_H_ */

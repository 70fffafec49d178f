// SPDX-License-Identifier: MIT
//
// What the native engine says of a program that it cannot record any further, for `ttq record` to
// find in its log.

#ifndef TTQ_RECORDER_REFUSAL_H_
#define TTQ_RECORDER_REFUSAL_H_

namespace ttq {

// Ends the line where nothing that the program has done is seen outside of its process, so that it
// can be run from its beginning once more; the other where something may be.
constexpr char kRefusedUnseen[] = "; use --engine=valgrind (nothing that it did is seen outside)";
constexpr char kRefusedSeen[] = "; use --engine=valgrind";

}  // namespace ttq

#endif  // TTQ_RECORDER_REFUSAL_H_

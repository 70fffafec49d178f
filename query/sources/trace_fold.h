// SPDX-License-Identifier: MIT
//
// The lines of an activation with its loops folded: a line that a loop executes many times is one
// row, with how often it ran, and the first and the last time. Lines outside of loops stay in the
// order in which they were executed.
//
// A loop is told by its lines alone: a line that comes back at least twice begins one, which goes
// on as long as lines come that it has had. Activations called from one line of a loop are folded
// into one another.

#ifndef TTQ_QUERY_SOURCES_TRACE_FOLD_H_
#define TTQ_QUERY_SOURCES_TRACE_FOLD_H_

#include <cstdint>
#include <vector>

namespace ttq {

// Steps by their numbers, in the order of time.
struct FoldInput {
  std::vector<uint64_t> keys;                        // by step: equal for the same line
  std::vector<std::vector<uint32_t>> called;         // by step: activations
  std::vector<std::vector<uint32_t>> of_activation;  // by activation: its steps
};

struct FoldedStep {
  uint32_t first = 0, last = 0;
  uint64_t times = 1;
  std::vector<uint32_t> steps;  // all of them, `first` and `last` among them
};

// From activation `root` on.
std::vector<FoldedStep> FoldLoops(const FoldInput& input, uint32_t root);

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_TRACE_FOLD_H_

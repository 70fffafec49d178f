// SPDX-License-Identifier: MIT
//
// Where two runs take different ways and meet again, within one call of a function: what a value
// depends on that different instructions wrote. Both ways are compared instruction by instruction;
// they meet where both are at the same place again, in the function that they parted in or in one
// of its callers.

#ifndef TTQ_DIFF_DETOUR_H_
#define TTQ_DIFF_DETOUR_H_

#include <array>
#include <optional>

#include "absl/status/statusor.h"
#include "diff/align.h"
#include "diff/side.h"
#include "store/read/reader.h"

namespace ttq::diff {

// The place where the runs of a thread part so that one of them, or both, executes what it does at
// `written` (0: nothing is asked of that side), though both get to `read` together afterwards. It
// is the last such place. Nullopt where there is none, or none that is certain: no function that is
// active at `read` was called before `written` and within the last million instructions, or the two
// ways do not get to `read` together.
absl::StatusOr<std::optional<Divergence>> FindDetour(const std::array<Side*, 2>& sides,
                                                     ThreadNo thread,
                                                     const std::array<Time, 2>& written,
                                                     const std::array<Time, 2>& read);

// When a function was called that is active before `t`: its first instruction. Nullopt: not known.
absl::StatusOr<std::optional<Time>> CallOf(Side* side, const Frame& frame, Time t);

}  // namespace ttq::diff

#endif  // TTQ_DIFF_DETOUR_H_

// SPDX-License-Identifier: MIT

#ifndef TTQ_BASE_EDIT_DISTANCE_H_
#define TTQ_BASE_EDIT_DISTANCE_H_

#include <cstddef>
#include <string_view>

namespace ttq {

// Levenshtein's distance with adjacent swaps counted as one (optimal string alignment), or
// `limit` + 1 when it is more.
size_t EditDistance(std::string_view a, std::string_view b, size_t limit);

}  // namespace ttq

#endif  // TTQ_BASE_EDIT_DISTANCE_H_

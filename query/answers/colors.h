// SPDX-License-Identifier: MIT
//
// What makes a terminal show text in another way (ECMA-48, SGR).

#ifndef TTQ_QUERY_ANSWERS_COLORS_H_
#define TTQ_QUERY_ANSWERS_COLORS_H_

#include <string_view>

namespace ttq {

inline constexpr std::string_view kBold = "\x1b[1m", kDim = "\x1b[2m", kGreen = "\x1b[32m",
                                  kYellow = "\x1b[33m", kReset = "\x1b[0m";

}  // namespace ttq

#endif  // TTQ_QUERY_ANSWERS_COLORS_H_

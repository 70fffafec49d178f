// SPDX-License-Identifier: MIT
//
// Values as a comparison shows them.

#ifndef TTQ_DIFF_VALUE_TEXT_H_
#define TTQ_DIFF_VALUE_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace ttq::diff {

// In decimal where that is short: "-3", "0x7ffe1000".
std::string NumberText(uint64_t v);

// As a number; more than eight bytes as "hex:0011…".
std::string BytesText(std::string_view bytes);

}  // namespace ttq::diff

#endif  // TTQ_DIFF_VALUE_TEXT_H_

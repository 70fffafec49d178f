// SPDX-License-Identifier: MIT
//
// How much room a text takes on a terminal, and how it is made to take less. Texts are UTF-8 and
// printable (see Printable of base/text.h). Thread-safe.

#ifndef TTQ_BASE_DISPLAY_WIDTH_H_
#define TTQ_BASE_DISPLAY_WIDTH_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ttq {

// Columns of a terminal: two for a wide character, none for one that combines with the last.
size_t DisplayWidth(std::string_view text);

// `text`, or as much of its beginning (its end) as leaves room for an ellipsis in `width` columns.
std::string CutEnd(std::string_view text, size_t width);
std::string CutBeginning(std::string_view text, size_t width);

// `text` in lines of at most `width` columns, broken behind a space where there is one in the
// line's second half. REQUIRES: width >= 2.
std::vector<std::string> WrapText(std::string_view text, size_t width);

}  // namespace ttq

#endif  // TTQ_BASE_DISPLAY_WIDTH_H_

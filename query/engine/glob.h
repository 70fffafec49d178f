// SPDX-License-Identifier: MIT

#ifndef TTQ_QUERY_ENGINE_GLOB_H_
#define TTQ_QUERY_ENGINE_GLOB_H_

#include <string>
#include <string_view>

namespace ttq {

// The regular expression (RE2) that matches what the glob does: `*`, `?`, `[a-z]`, `[!a-z]`. It is
// to be matched with the whole text.
std::string GlobToRegex(std::string_view glob);

}  // namespace ttq

#endif  // TTQ_QUERY_ENGINE_GLOB_H_

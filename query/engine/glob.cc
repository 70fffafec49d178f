// SPDX-License-Identifier: MIT

#include "query/engine/glob.h"

#include "re2/re2.h"

namespace ttq {

std::string GlobToRegex(std::string_view glob) {
  std::string regex;
  for (size_t i = 0; i < glob.size(); ++i) {
    const char c = glob[i];
    if (c == '*') {
      regex += "(?s:.*)";
    } else if (c == '?') {
      regex += "(?s:.)";
    } else if (c == '[') {
      const size_t end = glob.find(']', i + 2);
      if (end == std::string_view::npos) {
        regex += "\\[";
        continue;
      }
      std::string set(glob.substr(i + 1, end - i - 1));
      if (set[0] == '!') set[0] = '^';
      std::string escaped;
      for (const char s : set) {
        if (s == '\\' || s == '[') escaped += '\\';
        escaped += s;
      }
      regex += "[" + escaped + "]";
      i = end;
    } else {
      regex += RE2::QuoteMeta(std::string_view(&c, 1));
    }
  }
  return regex;
}

}  // namespace ttq

// SPDX-License-Identifier: MIT
//
// Names in the order in which people count: run-2 before run-10.

#ifndef TTQ_BASE_NATURAL_ORDER_H_
#define TTQ_BASE_NATURAL_ORDER_H_

#include <string.h>

#include <string>

namespace ttq {

// A total order: numbers within names go by their size, all else by its bytes.
inline bool NaturalLess(const std::string& a, const std::string& b) {
  return strverscmp(a.c_str(), b.c_str()) < 0;
}

}  // namespace ttq

#endif  // TTQ_BASE_NATURAL_ORDER_H_

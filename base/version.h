// SPDX-License-Identifier: MIT

#ifndef TTQ_BASE_VERSION_H_
#define TTQ_BASE_VERSION_H_

namespace ttq {

// "0.1.0", as CMakeLists.txt has it.
extern const char kVersion[];

}  // namespace ttq

#endif  // TTQ_BASE_VERSION_H_

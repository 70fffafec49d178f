// SPDX-License-Identifier: MIT

#ifndef TTQ_STORE_VERSION_H_
#define TTQ_STORE_VERSION_H_

namespace ttq {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace ttq

#endif  // TTQ_STORE_VERSION_H_

// SPDX-License-Identifier: MIT
//
// Floating-point numbers as C programs for x86-64 have them in memory: the binary formats of IEEE
// 754 with 16, 32, 64 and 128 bits, bfloat16, and the 80 bits of x87 (Intel SDM volume 1, 4.2.2).

#ifndef TTQ_QUERY_CTYPES_FLOATING_POINT_H_
#define TTQ_QUERY_CTYPES_FLOATING_POINT_H_

#include <string>
#include <string_view>

#include "query/ctypes/type.h"
#include "query/value.h"

namespace ttq {

// `type` is kFloat or kComplex, without typedefs; `bytes` are all of one number. A number of 128
// bits is rounded to a long double.
long double FloatOf(const CType& type, std::string_view bytes);
// The number as `type` holds it, as many bytes as it has.
std::string FloatBytes(const CType& type, long double number);
// With as many digits as tell it from its neighbours: "0.100000001", "-inf",
// "nan(0x8000000000000)".
std::string FloatText(const CType& type, std::string_view bytes);
// A float, or the nearest double.
Value FloatValue(const CType& type, std::string_view bytes);

// Numbers of 128 bits, which are passed in vector registers; those of x87 are not.
bool IsQuad(const CType& type);

}  // namespace ttq

#endif  // TTQ_QUERY_CTYPES_FLOATING_POINT_H_

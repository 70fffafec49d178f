// SPDX-License-Identifier: MIT
//
// Numbers and addresses as every answer shows them.

#ifndef TTQ_BASE_NUMBER_TEXT_H_
#define TTQ_BASE_NUMBER_TEXT_H_

#include <cstdint>
#include <string>

#include "base/types.h"

namespace ttq {

// "0x401136"
std::string Hex(uint64_t n);
std::string Hex(Address a);
// "0x1000..0x2000", or "0x1000+8" for up to 64 bytes.
std::string ToText(const AddressRange& range);

// The fewest digits that read back as `value` in its own precision, as Python writes them: "0.1",
// "2.0", "1e+16", "nan", "-inf". Without `point` whole numbers have no ".0".
std::string RealText(double value, bool point = true);
std::string RealText(float value, bool point = true);
// A complex number the same way: "(1+2j)", "0.5j".
std::string ComplexText(double real, double imaginary);
std::string ComplexText(float real, float imaginary);

}  // namespace ttq

#endif  // TTQ_BASE_NUMBER_TEXT_H_

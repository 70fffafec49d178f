// SPDX-License-Identifier: MIT
//
// Two digests of a block, compared as far as SkimBlock goes.

#ifndef TTQ_TESTS_SUPPORT_SKIMMED_H_
#define TTQ_TESTS_SUPPORT_SKIMMED_H_

#include <string>

#include "store/walk/digest.h"

namespace ttq {

// What differs, in words; empty: nothing does.
std::string SkimmedDifference(const BlockDigest& a, const BlockDigest& b);

}  // namespace ttq

#endif  // TTQ_TESTS_SUPPORT_SKIMMED_H_

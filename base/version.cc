// SPDX-License-Identifier: MIT

#include "base/version.h"

namespace ttq {

const char kVersion[] = TTQ_VERSION;

}  // namespace ttq

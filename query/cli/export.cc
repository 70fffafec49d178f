// SPDX-License-Identifier: MIT
#include "query/cli/commands.h"
namespace ttq {
int RunExport(int, char**) { return kUsage; }
}  // namespace ttq

// SPDX-License-Identifier: MIT
//
// The addresses that took part in a crash, one of which may be that of the Python object at fault.

#ifndef TTQ_QUERY_SOURCES_SUSPECTS_H_
#define TTQ_QUERY_SOURCES_SUSPECTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/process/origin.h"
#include "query/process/stack.h"
#include "query/sources/crash_report.h"
#include "query/sources/fault_object.h"
#include "store/read/reader.h"

namespace ttq {

// Those that lead most directly to an object come first. `control` may be null.
absl::StatusOr<std::vector<Suspect>> SuspectsOf(const Context& context, OriginTracer& tracer,
                                                Unwinder& unwinder, const CrashReport& report,
                                                ScanControl* control);

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_SUSPECTS_H_

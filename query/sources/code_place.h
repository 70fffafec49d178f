// SPDX-License-Identifier: MIT
//
// Places in code, for people.

#ifndef TTQ_QUERY_SOURCES_CODE_PLACE_H_
#define TTQ_QUERY_SOURCES_CODE_PLACE_H_

#include <string>

#include "query/cpython/context.h"
#include "query/process/stack.h"
#include "store/read/reader.h"

namespace ttq {

// "load (list.c:12)"; "load+0x12" without lines; "" outside of modules.
std::string DescribeCode(const Context& context, Address pc, Time t);
// Who made the access. Of one in a library's function also for whom: "memcpy (memcpy.c:30) for load
// (list.c:12)".
std::string DescribeWriter(const Context& context, Unwinder& unwinder, const Access& access);

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_CODE_PLACE_H_

// SPDX-License-Identifier: MIT
//
// What ended a process, and what led to it. Everything in it can be asked for by itself; this is
// the order in which one would ask.

#ifndef TTQ_QUERY_SOURCES_CRASH_REPORT_H_
#define TTQ_QUERY_SOURCES_CRASH_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/outcome.h"
#include "query/process/origin.h"
#include "query/process/stack.h"
#include "query/sources/address_kind.h"
#include "query/sources/pointer_chain.h"
#include "query/value.h"
#include "store/read/reader.h"

namespace ttq {

// As the columns of `crash` say, empty or nullopt where there is none.
struct CrashReport {
  Time time;
  ThreadNo thread;
  Registers registers;
  Event event;                // the signal's
  bool by_processor = false;  // not sent by a program
  std::string signal, cause, message, instruction, access;
  Object operands;
  std::optional<uint8_t> base;  // the general register that the address was made from
  std::optional<Address> address;
  AddressKind memory;
  std::vector<Hop> origin;
  std::optional<Address> word;
  AddressKind word_memory;
  std::vector<Pointer> pointers;  // that led to the address
  Value stale_pointer;
  List last_writes, backtraces;
  Stack stack;               // of the thread that crashed
  uint64_t py_function = 0;  // the Python function it ran; 0: none, or not known
  Value python_object;
};

// REQUIRES: the process died by a signal. `control` may be null.
absl::StatusOr<CrashReport> InvestigateCrash(const Context& context, ScanControl* control,
                                             Outcome* outcome);

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_CRASH_REPORT_H_

// SPDX-License-Identifier: MIT
//
// The autopsy of a process: why it died, how the bad value came there, the stacks, the object and
// the memory at fault, what happened around it. One document, as JSON (docs/report.md has its
// schema) and as a page of HTML made of that.
//
// The same recording gives the same bytes. Environment variables and the contents of files are
// never in it.

#ifndef TTQ_REPORT_AUTOPSY_H_
#define TTQ_REPORT_AUTOPSY_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "query/engine/engine.h"
#include "store/read/reader.h"

namespace ttq {

struct AutopsyOptions {
  // A TIME of the language; empty: the crash or the exception that ended it, else the end.
  std::string at;
  bool redact_strings = false;  // leave out texts that the program had, and what it printed
  bool redact_paths = false;    // leave out directories
  ScanControl* control = nullptr;
};

// InvalidArgument for a time that is none; the store's errors. Cancelled when interrupted.
absl::StatusOr<std::string> AutopsyJson(const Recording& recording, const Engine& engine,
                                        const AutopsyOptions& options);

// The page, with the document in it: at most 2 MB, for what is long is cut. It needs no network and
// no script. REQUIRES: `json` is of AutopsyJson.
std::string AutopsyHtml(std::string_view json);

// What is behind AutopsyOptions: `strings`: quoted texts become "…"; `paths`: only base names stay.
std::string Redact(std::string_view json, bool strings, bool paths);

}  // namespace ttq

#endif  // TTQ_REPORT_AUTOPSY_H_

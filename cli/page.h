// SPDX-License-Identifier: MIT
//
// The page of `ttq report`, for the commands that make one besides.

#ifndef TTQ_CLI_PAGE_H_
#define TTQ_CLI_PAGE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "report/autopsy.h"

namespace ttq {

// Of the recording's default process.
absl::StatusOr<std::string> PageOf(const std::string& trace, const AutopsyOptions& options);

// Writes that page to `path` and says so on stderr, or why not. False: it could not.
bool WritePage(const std::string& trace, const std::string& path);

// Writes a file that appears when it is whole. The error names it and says why.
absl::Status WriteWhole(const std::string& path, std::string_view text);

}  // namespace ttq

#endif  // TTQ_CLI_PAGE_H_

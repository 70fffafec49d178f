// SPDX-License-Identifier: MIT
//
// One run of `ttq record`.

#ifndef TTQ_CLI_RECORD_RUN_H_
#define TTQ_CLI_RECORD_RUN_H_

#include <string>

#include "cli/record_watch.h"
#include "recorder/launcher.h"

namespace ttq {

struct RecordOptions {
  LaunchOptions launch;
  RecordLimits limits;
  bool stop_when_full = true, quiet = false;
  bool may_change_recorder = false;  // to Valgrind, see NeedsValgrind
};

struct RecordedRun {
  int status = 0;            // to exit with
  bool crashed = false;      // the program died by a signal
  bool own_failure = false;  // ttq's, not the program's: another try would end the same way
  std::string directory;
};

// Records one run, in `output` or in a place of its own. What goes wrong is said on stderr.
RecordedRun RecordOnce(const RecordOptions& options, const std::string& output);

}  // namespace ttq

#endif  // TTQ_CLI_RECORD_RUN_H_

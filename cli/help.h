// SPDX-License-Identifier: MIT
//
// What --help shows, of any command.

#ifndef TTQ_CLI_HELP_H_
#define TTQ_CLI_HELP_H_

#include "cli/command_line.h"

namespace ttq {

// Prints the manual's text of the command that `line` is ("ttq NAME"), with its options.
void ShowHelp(const CommandLine& line);

}  // namespace ttq

#endif  // TTQ_CLI_HELP_H_

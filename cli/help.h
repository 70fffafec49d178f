// SPDX-License-Identifier: MIT
//
// What --help shows, of any command.

#ifndef TTQ_CLI_HELP_H_
#define TTQ_CLI_HELP_H_

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"

namespace ttq {

// Prints the manual's text of the command that `app` is ("ttq NAME"), with the options of `app`.
void ShowHelp(const CLI::App& app);

}  // namespace ttq

#endif  // TTQ_CLI_HELP_H_

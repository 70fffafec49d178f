// SPDX-License-Identifier: MIT
//
// The commands of `ttq`, one file each. Every command gets its arguments as main does, argv[0]
// being its own name, does its work, and gives the exit status: 0 answered, 1 no rows (with
// --exit-code), 2 a bad query or bad usage, 3 a trace that cannot be read, 130 interrupted. What
// goes wrong is said on stderr, in one line.

#ifndef TTQ_CLI_COMMANDS_H_
#define TTQ_CLI_COMMANDS_H_

#include <string>
#include <vector>

namespace ttq {

class OutsideMemory;

// Of `ttq record`, beside the program's own; as env(1) and nohup(1) give them.
enum RecordStatus { kOwnFailure = 125, kCannotRun = 126, kNotFound = 127 };
enum ExitStatus { kAnswered = 0, kNoRows = 1, kUsage = 2, kUnreadable = 3, kInterrupted = 130 };

// Gives the recorded program's status.
int RunRecord(int argc, char** argv);

int RunImport(int argc, char** argv);
int RunSnapshot(int argc, char** argv);
// Becomes the program that it runs.
int RunArm(int argc, char** argv);
int RunQuery(int argc, char** argv);
// `ttq query` with these words, of a recording in `directory` whose store lacks `memory` (null: it
// has all). The next question is typed as `said_as` and its words.
int AskMoment(const std::vector<std::string>& words, const std::string& directory,
              const std::string& said_as, const OutsideMemory* memory);
int RunShell(int argc, char** argv);
int RunInfo(int argc, char** argv);
int RunLs(int argc, char** argv);
int RunRm(int argc, char** argv);
// The history of a recording that has its inputs only.
int RunIndex(int argc, char** argv);
int RunCheck(int argc, char** argv);
int RunCrash(int argc, char** argv);
int RunBatchCommand(int argc, char** argv);
int RunDiff(int argc, char** argv);
// The autopsy of a process as a page.
int RunReport(int argc, char** argv);
int RunExport(int argc, char** argv);
int RunGdbCommand(int argc, char** argv);
// Recordings for agents, on stdin and stdout.
int RunMcp(int argc, char** argv);
int RunHelp(int argc, char** argv);

// The overview that `ttq help` prints.
std::string UsageText();

}  // namespace ttq

#endif  // TTQ_CLI_COMMANDS_H_

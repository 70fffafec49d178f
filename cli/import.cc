// SPDX-License-Identifier: MIT
//
// `ttq import`: a core dump as a recording of its one moment.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/directory.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/recordings.h"
#include "fmt/core.h"
#include "import/import_core.h"
#include "import/write_moment.h"

namespace ttq {
namespace {

// Remarks on standard error: a long list of missing files helps nobody.
constexpr size_t kRemarks = 8;

void TellRemarks(const std::vector<std::string>& remarks) {
  for (size_t i = 0; i < std::min(remarks.size(), kRemarks); ++i) {
    Complain("note: " + remarks[i], 0);
  }
  if (remarks.size() > kRemarks) {
    Complain(fmt::format("note: and {} more", remarks.size() - kRemarks), 0);
  }
}

}  // namespace

int RunImport(int argc, char** argv) {
  CommandLine line("ttq import");
  std::string core_name, output;
  FileSearch search;
  bool quiet = false, remove_core = false;
  line.Add("CORE", &core_name,
           "A core dump, plain or packed (.zst, .lz4, .gz), or a pid of coredumpctl's list")
      .Required();
  line.Add("-o,--output", &output, "Directory of the recording (must not exist)").Called("DIR");
  line.Add("--exe", &search.executable, "The program, where it is not at its own path")
      .Called("FILE");
  line.Add("--sysroot", &search.sysroot, "A copy of the file system it ran in").Called("DIR");
  line.Add("--search", &search.directories,
           "Look for programs and libraries below this directory, by build-id")
      .Called("DIR")
      .OneWordEach();
  line.AddFlag("--remove", &remove_core, "Remove CORE when the recording is made");
  line.AddFlag("-q,--quiet", &quiet, "No summary line");
  if (const std::optional<int> done = ParseArguments(line, Arguments(argc, argv))) return *done;
  absl::StatusOr<std::unique_ptr<CoreFile>> core = OpenCore(core_name, search);
  if (!core.ok()) return Complain(core.status(), kUnreadable);
  const ProcessMoment& moment = (*core)->moment();
  std::string directory;
  std::vector<std::string> command = moment.arguments;
  command[0] = moment.program;
  auto writer = NewRecording(output, command, &directory);
  if (!writer.ok()) return Complain(writer.status(), kUnreadable);
  const absl::Status written =
      WriteMoment(moment, **core, MemoryContents::kStored, (*core)->vdso(), writer->get());
  if (!written.ok()) return Complain(written, kUnreadable);
  if (remove_core && unlink(core_name.c_str()) != 0) {
    Complain(fmt::format("note: cannot remove {}: {}", core_name, strerror(errno)), 0);
  }
  PointLatestAt(directory);
  TellRemarks(moment.remarks);
  if (!quiet) {
    writer->reset();
    Complain(fmt::format("imported {} of {} with {} thread{}, {:.1f} MB: {}",
                         moment.signal ? SignalName(moment.signal->number) : "a moment",
                         BaseName(moment.program), moment.threads.size(),
                         moment.threads.size() == 1 ? "" : "s",
                         static_cast<double>(BytesUnder(directory)) / 1e6, directory),
             0);
  }
  return kAnswered;
}

}  // namespace ttq

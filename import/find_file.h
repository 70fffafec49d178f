// SPDX-License-Identifier: MIT
//
// Finds the files that a process had mapped, on this machine or in a copy of its own: by build-id,
// never by name alone. A file whose build-id is not the one in memory is another version of it.

#ifndef TTQ_IMPORT_FIND_FILE_H_
#define TTQ_IMPORT_FIND_FILE_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "import/moment.h"

namespace ttq {

struct FileSearch {
  pid_t process = 0;                     // that runs now: its own files, deleted ones too
  std::string executable;                // the program's, if somebody says which it is
  std::string sysroot;                   // a copy of the process's file system
  std::vector<std::string> directories;  // looked through with all below them
};

// Sets `bytes_at` of the mappings whose file is found, and adds remarks on those of ELF files that
// are not.
void FindFiles(const FileSearch& search, const MomentMemory& memory, ProcessMoment* moment);

}  // namespace ttq

#endif  // TTQ_IMPORT_FIND_FILE_H_

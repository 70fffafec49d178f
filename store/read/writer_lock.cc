// SPDX-License-Identifier: MIT

#include "store/read/writer_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "store/format/inputs_log.h"

namespace ttq {

bool IsBeingWritten(const std::string& directory) {
  if (IsRecordingInputs(directory)) return true;
  int fd = open((directory + "/db/LOCK").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  bool held = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  close(fd);
  return held;
}

}  // namespace ttq

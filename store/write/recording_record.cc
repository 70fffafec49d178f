// SPDX-License-Identifier: MIT

#include "store/write/recording_record.h"

#include <time.h>
#include <unistd.h>

#include "base/version.h"
#include "store/format/format.h"
#include "store/format/message.h"
#include "store/format/trace.capnp.h"

namespace ttq {

RecordingInfo DescribeRecording(const std::vector<std::string>& command) {
  RecordingInfo info;
  info.command = command;
  info.finished = true;
  char buffer[4096] = "";
  if (getcwd(buffer, sizeof(buffer)) != nullptr) info.working_directory = buffer;
  char host[4096] = "";
  gethostname(host, sizeof(host) - 1);
  info.host = host;
  info.recorder_version = kVersion;
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  info.start_wall_ns = t.tv_sec * 1000000000LL + t.tv_nsec;
  return info;
}

std::string EncodeRecording(const RecordingInfo& info, bool finished) {
  MessageBuilder message;
  auto r = message.initRoot<schema::Recording>();
  r.setStoreVersion(kStoreVersion);
  auto words = r.initCommand(static_cast<unsigned>(info.command.size()));
  for (unsigned i = 0; i < info.command.size(); ++i) words.set(i, info.command[i]);
  r.setWorkingDirectory(info.working_directory);
  r.setHost(info.host);
  r.setRecorderVersion(info.recorder_version);
  r.setStartWallNs(info.start_wall_ns);
  r.setFinished(finished);
  return BytesOf(message);
}

}  // namespace ttq

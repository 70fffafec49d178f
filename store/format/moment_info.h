// SPDX-License-Identifier: MIT
//
// Of a process that was not recorded from its start: what of one moment of its life was found, in a
// core dump or by looking at it while it ran. Nothing that was before is known then.

#ifndef TTQ_STORE_FORMAT_MOMENT_INFO_H_
#define TTQ_STORE_FORMAT_MOMENT_INFO_H_

#include <cstdint>
#include <string>
#include <vector>

namespace ttq {

enum class Beginning : uint8_t {
  kStart = 0,     // recorded; stored: do not renumber
  kCore = 1,      // a core dump
  kSnapshot = 2,  // a running process
};
// "this core dump", "this snapshot"; not for kStart.
const char* MomentName(Beginning beginning);

// An open descriptor: "/dev/null", "pipe:[4242]", "socket:[4243] 127.0.0.1:80".
struct Descriptor {
  int fd = -1;
  std::string what;
};

// Of a thread at that moment.
struct ThreadMoment {
  std::string name;
  int64_t in_syscall = -1;  // the number of the one it was in; its arguments are in its registers
};

struct MomentInfo {
  Beginning beginning = Beginning::kStart;
  std::vector<Descriptor> descriptors;
  std::vector<ThreadMoment> threads;  // by ThreadNo - 1; of a recording empty

  bool history_unknown() const { return beginning != Beginning::kStart; }
};

}  // namespace ttq

#endif  // TTQ_STORE_FORMAT_MOMENT_INFO_H_

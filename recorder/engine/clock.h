// SPDX-License-Identifier: MIT

#ifndef TTQ_RECORDER_ENGINE_CLOCK_H_
#define TTQ_RECORDER_ENGINE_CLOCK_H_

#include <cstdint>

namespace ttq::engine {

// Looks for the kernel's own function in the vDSO, which takes a seventh of what the system call
// does. `auxiliary`: the vector that the kernel gave this process. Without it WallNs makes the
// call.
void SetUpClock(const uint64_t* auxiliary);
int64_t WallNs();  // CLOCK_REALTIME

}  // namespace ttq::engine

#endif  // TTQ_RECORDER_ENGINE_CLOCK_H_

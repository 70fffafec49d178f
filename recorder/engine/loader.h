// SPDX-License-Identifier: MIT
//
// Puts the program into memory as the kernel would.

#ifndef TTQ_RECORDER_ENGINE_LOADER_H_
#define TTQ_RECORDER_ENGINE_LOADER_H_

#include "recorder/engine/base.h"

namespace ttq::engine {

// Loads the program, with its interpreter, and makes its stack; fills in the context.
// `path`: of the file, which may be a script. `arguments`: its argv, the first word of which may be
// anything. `environment`, `auxiliary`: as the kernel gave them to the engine.
void LoadProgram(const char* path, char** arguments, char** environment, const uint64_t* auxiliary);

}  // namespace ttq::engine

#endif  // TTQ_RECORDER_ENGINE_LOADER_H_

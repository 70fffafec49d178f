// SPDX-License-Identifier: MIT
//
// Between translated code and the engine: finding, making and linking superblocks.

#ifndef TTQ_RECORDER_ENGINE_DISPATCH_H_
#define TTQ_RECORDER_ENGINE_DISPATCH_H_

#include "recorder/engine/context.h"
#include "recorder/engine/translator.h"

namespace ttq::engine {

// Maps the places for translated code.
void SetUpCode();
// All translations are given up. The engine is to go on by Resume.
void FlushTranslations();
// The superblock whose code holds `code`; null when there is none.
const Superblock* FindByCode(uint64_t code);
// Goes on with the program as the context has it, after delivering signals that wait.
[[noreturn]] void Resume();

}  // namespace ttq::engine

#endif  // TTQ_RECORDER_ENGINE_DISPATCH_H_

// SPDX-License-Identifier: MIT
//
// Between translated code and the engine: finding, making and linking superblocks.

#ifndef TTQ_RECORDER_ENGINE_DISPATCH_H_
#define TTQ_RECORDER_ENGINE_DISPATCH_H_

#include "recorder/engine/context.h"
#include "recorder/engine/translator.h"

namespace ttq::engine {

// How translated code is left: what Context::exit names.
struct Exit {
  uint64_t target;
  uint32_t distance;   // where that of the jump to the stub is, from kCodeBegin on; 0: nowhere
  uint32_t stub : 28;  // from kStubsBegin on
  uint32_t kind : 4;   // ExitKind

  uint8_t* distance_at() const { return reinterpret_cast<uint8_t*>(kCodeBegin + distance); }
};
static_assert(kStubsBytes <= 1 << 28);

// All that is translated, and where the next translation goes.
struct Translations {
  // Those made here from the front, in order of their code; those of the code cache from the end.
  Superblock* superblocks;
  uint32_t made, taken;
  Exit* exits;
  uint32_t exit_count;
  uint8_t *code, *stubs;
  uint64_t* literals;
};
extern Translations g_translations;

inline constexpr uint32_t kMaxSuperblocks = 1 << 19, kMaxExits = 1 << 22;
inline constexpr uint64_t kLiteralsBytes = 8 << 20;  // at the end of the stubs
inline constexpr uint64_t kLiteralsBegin = kStubsBegin + kStubsBytes - kLiteralsBytes;
// Where to look first in a table of 2^bits.
inline uint64_t HashOfPc(uint64_t pc, unsigned bits) {
  return pc * 0x9e3779b97f4a7c15 >> (64 - bits);
}

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

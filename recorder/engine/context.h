// SPDX-License-Identifier: MIT
//
// The state that translated code and the engine share. It lies at a fixed address below 2 GiB, so
// that code reaches it without a register; only one thread of the program runs at a time.

#ifndef TTQ_RECORDER_ENGINE_CONTEXT_H_
#define TTQ_RECORDER_ENGINE_CONTEXT_H_

#include <cstdint>

namespace ttq::engine {

enum Register : uint8_t {
  kRax,
  kRcx,
  kRdx,
  kRbx,
  kRsp,
  kRbp,
  kRsi,
  kRdi,
  kR8,
  kR9,
  kR10,
  kR11,
  kR12,
  kR13,
  kR14,
  kR15
};

// Where memory is laid out. Instructions that address memory relative to themselves are copied as
// they are, so that the copies must be within 2 GiB of the program's modules.
constexpr uint64_t kCodeBegin = 0x60000000, kCodeBytes = 0x8000000;     // translated code
constexpr uint64_t kStubsBegin = 0x68000000, kStubsBytes = 0x8000000;   // and how it is left
constexpr uint64_t kEngineBegin = 0x70000000, kEngineEnd = 0x71000000;  // the engine itself
constexpr uint64_t kModulesBegin = 0x71000000, kModulesEnd = 0xd8000000;

enum { kJumpTableBits = 16 };

// While translated code runs, r11 holds the place in the log where the next record goes, and the
// program's own r11 is in `r`; so is any register that a superblock has lent itself. Where records
// are only counted (ring.h), r11 holds how many instructions were executed from bit kPlaceBits on,
// and below, how far the log has come: the highest of these bits is set where it has no room.
enum { kPlaceBits = 23 };
struct Context {
  uint64_t r[16];      // the program's registers while the engine runs
  uint64_t flags;      // and its flags
  uint64_t pc;         // of its next instruction while the engine runs
  uint64_t log;        // r11 while the engine runs
  uint64_t log_limit;  // no record begins beyond; 0 makes the next superblock ask the engine
  uint64_t spill[2];   // of registers that an instruction's translation borrows
  uint64_t target;     // of an indirect branch that missed
  uint64_t exit;       // number of the exit by which code was left
  uint64_t resume;     // where translated code goes on
  uint64_t engine_stack;
  uint64_t fs_base, gs_base;  // the program's
  // Its flag AC, which programs set to find out what processor there is. It is not in force: the
  // engine's own accesses are not aligned.
  uint64_t alignment_check;
  uint64_t header;              // of the record last begun, where records are only counted
  uint32_t executable_changes;  // how often the mappings of what can be executed have changed
  // By the low bits of an address: the first of the checks (translator.h) for all that have them.
  const void* jump[1 << kJumpTableBits];
};

extern Context g_context;
inline constexpr uint64_t kAlignmentCheck = 0x40000, kDirectionFlag = 0x400;
// Of the flags, when a signal's handler begins: direction, trap, resume.
inline constexpr uint64_t kClearedForHandler = kDirectionFlag | 0x100 | 0x10000;

extern "C" {
// Where translated code goes to leave by exit `exit`; when an indirect branch found no code.
void EngineExit();
void EngineMiss();
// Goes on in translated code at Context::resume, with the registers of the context.
[[noreturn]] void EngineResume();
}

}  // namespace ttq::engine

#endif  // TTQ_RECORDER_ENGINE_CONTEXT_H_

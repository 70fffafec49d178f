// SPDX-License-Identifier: MIT
//
// The engine's own program, which `ttq record --engine=native` runs in place of the program to be
// recorded:
//
//     ttq-engine --ring=DIRECTORY --block-bytes=N --block-count=N --verify=yes|no [--seen=yes|no]
//     --
//         PATH ARGV0 ...
//
// It loads PATH into its own process and goes on in it. With --inputs=FILE in place of `-- PATH …`
// it runs again what those are of (replay.h).

#include <sys/syscall.h>

#include "recorder/engine/clock.h"
#include "recorder/engine/code_cache.h"
#include "recorder/engine/dispatch.h"
#include "recorder/engine/loader.h"
#include "recorder/engine/replay.h"
#include "recorder/engine/ring.h"
#include "recorder/engine/signals.h"
#include "recorder/engine/syscalls.h"
#include "recorder/engine/threads.h"
#include "recorder/engine/traces.h"

namespace ttq::engine {
namespace {

[[gnu::used]] alignas(64) uint8_t g_stack[64 << 10];  // until the first thread has its own

uint64_t ParseNumber(const char* s) {
  uint64_t n = 0;
  for (; *s >= '0' && *s <= '9'; ++s) n = 10 * n + static_cast<uint64_t>(*s - '0');
  return n;
}

// Takes the options; gives the words after them, or null when something is missing.
char** TakeOptions(char** argv, ring::Options* options, const char** inputs) {
  for (++argv; *argv != nullptr; ++argv) {
    if (Equal(*argv, "--")) {
      const bool complete =
          options->directory != nullptr && argv[1] != nullptr && argv[2] != nullptr;
      return complete ? argv + 1 : nullptr;
    }
    if (const char* v = After(*argv, "--ring=")) options->directory = v;
    if (const char* v = After(*argv, "--block-bytes=")) options->block_bytes = ParseNumber(v);
    if (const char* v = After(*argv, "--block-count=")) {
      options->block_count = static_cast<uint32_t>(ParseNumber(v));
    }
    if (const char* v = After(*argv, "--verify=")) options->verify = Equal(v, "yes");
    if (const char* v = After(*argv, "--record=")) options->inputs = Equal(v, "inputs");
    if (const char* v = After(*argv, "--code-cache=")) options->code_cache = v;
    if (Equal(*argv, "--seen=yes")) traces::SetLeft();
    if (const char* v = After(*argv, "--inputs=")) *inputs = v;
    if (const char* v = After(*argv, "--files=")) replay::SetFiles(v);
  }
  return options->directory != nullptr && *inputs != nullptr ? argv : nullptr;
}

// Where the file really is: what is recorded may change the working directory.
const char* OwnPath() {
  static char path[4096];
  Syscall(SYS_readlink, reinterpret_cast<uint64_t>("/proc/self/exe"),
          reinterpret_cast<uint64_t>(path), sizeof(path) - 1);
  return path;
}

[[noreturn]] void RunAgain(const char* inputs, const ring::Options& options) {
  replay::Open(inputs, options.block_bytes);
  replay::FillRing();
  SetUpCode();
  threads::SetUp();
  replay::Begin();
  ring::Announce();
  signals::SetUpForFaults();
  Resume();
}

}  // namespace

extern "C" [[noreturn]] void EngineMain(uint64_t* stack) {
  auto** argv = reinterpret_cast<char**>(stack + 1);
  auto** environment = argv + stack[0] + 1;
  auto** end = environment;
  while (*end != nullptr) ++end;
  const auto* auxiliary = reinterpret_cast<const uint64_t*>(end + 1);

  ring::Options options = {};
  const char* inputs = nullptr;
  char** words = TakeOptions(argv, &options, &inputs);
  if (words == nullptr) {
    constexpr char kUsage[] = "ttq-engine: this program is run by `ttq record`\n";
    Syscall(SYS_write, 2, reinterpret_cast<uint64_t>(kUsage), sizeof(kUsage) - 1);
    for (;;) Syscall(SYS_exit_group, 125);
  }
  options.again = inputs != nullptr;
  syscalls::g_program.engine = OwnPath();
  syscalls::g_program.options = options;
  SetUpClock(auxiliary);
  ring::SetOptions(options);
  ring::SetBegin(threads::BeginBlock);
  ring::SetBeforeHandingOver(threads::NotePending);
  ring::Create();
  if (inputs != nullptr) RunAgain(inputs, options);
  char directory[4096] = {};
  Syscall(SYS_getcwd, reinterpret_cast<uint64_t>(directory), sizeof(directory));
  ring::AddArgument(words[0]);
  ring::AddArgument(directory);
  for (char** w = words + 1; *w != nullptr; ++w) ring::AddArgument(*w);
  SetUpCode();
  threads::SetUp();
  LoadProgram(words[0], words + 1, environment, auxiliary);
  if (options.inputs && options.code_cache != nullptr) {
    code_cache::Open(options.code_cache, syscalls::g_program.path);
  }
  ring::Announce();
  signals::SetUp();
  threads::Begin();
  Resume();
}

__asm__(
    ".text\n.globl _start\n_start:\n"
    "  mov %rsp, %rdi\n"
    "  lea _ZN3ttq6engine12_GLOBAL__N_17g_stackE+65536, %rsp\n"
    "  xor %ebp, %ebp\n  call EngineMain\n");

}  // namespace ttq::engine

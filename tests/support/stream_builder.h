// SPDX-License-Identifier: MIT
//
// Makes the stream of a program that never was, as the Valgrind tool would send it, and feeds it to
// the real ingest. Each instruction is a superblock of its own whose address and value are slots;
// the builder keeps registers, so that every block begins as docs/stream-format.md demands.
//
// Not thread-safe.

#ifndef TTQ_TESTS_SUPPORT_STREAM_BUILDER_H_
#define TTQ_TESTS_SUPPORT_STREAM_BUILDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "recorder/stream.h"

namespace ttq {

class StreamBuilder {
 public:
  // One effect at most; all instructions are four bytes long (a nop).
  struct Instruction {
    enum Kind { kNop, kLoad, kStore, kSetReg } kind = kNop;
    uint64_t pc = 0;
    uint64_t address = 0;  // of a load or a store
    uint32_t size = 0;     // bytes, 1 to 32
    std::string value;     // of a store, `size` bytes
    uint32_t reg = 0;      // kSetReg
    uint64_t result = 0;
  };

  StreamBuilder();

  // The program as its ring describes it.
  void SetProgram(const std::string& path, const std::vector<std::string>& arguments);
  // Ends the block; what follows is in the next.
  void NextBlock();
  // The records that follow are of this thread, which starts when it is first named.
  void Thread(uint32_t tid);
  void ThreadExit(uint32_t tid, uint64_t clear_address);
  void Execute(const Instruction& instruction);
  // An instruction that raises a signal: its effect does not happen.
  void Fault(const Instruction& instruction, uint32_t signal, uint64_t address);
  void Map(uint64_t begin, uint64_t end, uint8_t protection, bool shared, const std::string& path);
  void Unmap(uint64_t begin, uint64_t end);
  void Protect(uint64_t begin, uint64_t end, uint8_t protection);
  void Remap(uint64_t from, uint64_t to, uint64_t bytes);
  // A change of memory by the kernel; `actor` is kTtqBySyscall….
  void KernelWrite(uint8_t actor, uint64_t address, std::string_view bytes);
  void SyscallEnter(int64_t number, const std::vector<uint64_t>& arguments);
  void SyscallExit(int64_t result);
  void Output(uint32_t fd, std::string_view bytes);
  void Exit(uint32_t status);
  void SetFatalSignal(uint32_t signal) { fatal_signal_ = signal; }
  // The process is killed here: what the last block holds is lost.
  void Killed() { killed_ = true; }

  // Runs ingest over all of it. The directory must not exist.
  absl::Status Record(const std::string& directory);

 private:
  struct Block {
    std::string log, recipes;
    uint32_t recipe_count = 0;
    bool between_superblocks = false;
  };

  void Control(uint32_t kind, std::string_view head, std::string_view body = {});
  void BeginBlock();
  uint32_t Superblock(const Instruction& instruction);
  void AppendRecord(uint32_t id, uint32_t exit, const Instruction& instruction);
  std::string RingFile();

  std::vector<std::string> words_;
  std::vector<Block> blocks_;
  std::map<uint32_t, TtqRegisters> threads_;
  std::map<uint32_t, TtqSyscall> syscalls_;  // in progress, by thread
  std::map<std::tuple<int, uint64_t, uint32_t, uint32_t>, uint32_t> superblocks_;
  uint32_t current_ = 0, fatal_signal_ = 0;
  bool killed_ = false;
};

}  // namespace ttq

#endif  // TTQ_TESTS_SUPPORT_STREAM_BUILDER_H_

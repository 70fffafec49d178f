// SPDX-License-Identifier: MIT
//
// See stream_builder.h. The ring is a file that is full and finished when ingest first sees it.

#include "tests/support/stream_builder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/status_macros.h"
#include "recorder/ring.h"
#include "store/write/ingest.h"
#include "store/write/recording_record.h"

namespace ttq {
namespace {

constexpr int64_t kStartWallNs = 1'700'000'000'000'000'000;
constexpr int64_t kBlockWallNs = 1'000'000;
constexpr uint32_t kPid = 0x7fffffff;  // of no process
constexpr char kNop[] = "\x0f\x1f\x40\x00";
constexpr uint32_t kInstructionBytes = 4;

template <class T>
std::string_view BytesOf(const T& pod) {
  return {reinterpret_cast<const char*>(&pod), sizeof(pod)};
}

template <class T>
void Append(std::string* out, const T& pod) {
  out->append(BytesOf(pod));
}

}  // namespace

StreamBuilder::StreamBuilder() {
  SetProgram("/bin/program", {"program"});
  blocks_.emplace_back();
}

void StreamBuilder::SetProgram(const std::string& path, const std::vector<std::string>& arguments) {
  words_ = {path, "/"};
  words_.insert(words_.end(), arguments.begin(), arguments.end());
}

void StreamBuilder::Control(uint32_t kind, std::string_view head, std::string_view body) {
  std::string* log = &blocks_.back().log;
  Append(log, kind);
  Append(log, static_cast<uint32_t>(head.size() + body.size()));
  log->append(head).append(body);
}

void StreamBuilder::BeginBlock() {
  for (const auto& [tid, registers] : threads_) Control(kTtqRegisters, BytesOf(registers));
  if (current_ != 0) Control(kTtqThread, BytesOf(current_));
}

void StreamBuilder::NextBlock() {
  blocks_.emplace_back();
  blocks_.back().between_superblocks = true;
  BeginBlock();
}

void StreamBuilder::Thread(uint32_t tid) {
  if (!threads_.contains(tid)) {
    const TtqThread start{tid, kPid + tid - 1, current_, {0}};
    threads_[tid].tid = tid;
    Control(kTtqThreadStart, BytesOf(start));
  }
  if (current_ != 0) Control(kTtqRegisters, BytesOf(threads_[current_]));
  current_ = tid;
  Control(kTtqThread, BytesOf(tid));
  Control(kTtqRegisters, BytesOf(threads_[tid]));
}

void StreamBuilder::ThreadExit(uint32_t tid, uint64_t clear_address) {
  const TtqThread end{tid, 0, 0, {clear_address}};
  Control(kTtqThreadExit, BytesOf(end));
  threads_.erase(tid);
}

// The recipe is made on first sight. A store's node 0 is its address, node 1 its value.
uint32_t StreamBuilder::Superblock(const Instruction& instruction) {
  const auto key = std::make_tuple(static_cast<int>(instruction.kind), instruction.pc,
                                   instruction.size, instruction.reg);
  auto [it, is_new] = superblocks_.try_emplace(key, superblocks_.size() + 1);
  if (!is_new) return it->second;
  std::vector<TtqNode> nodes;
  std::vector<TtqEffect> effects = {{kTtqInstruction, 0, kTtqNoNode, kTtqNoNode, kTtqNoNode}};
  uint16_t record_bytes = 4;
  const auto slot = [&](uint32_t size) {
    nodes.push_back({kTtqSlot, static_cast<ttq_u8>(size), 0, 0, 0, record_bytes});
    record_bytes = static_cast<uint16_t>(record_bytes + size);
    return static_cast<ttq_u16>(nodes.size() - 1);
  };
  const auto size = static_cast<ttq_u8>(instruction.size);
  switch (instruction.kind) {
    case Instruction::kNop:
      break;
    case Instruction::kLoad:
      effects.push_back({kTtqLoad, size, slot(8), kTtqNoNode, kTtqNoNode});
      break;
    case Instruction::kStore: {
      const ttq_u16 address = slot(8);
      effects.push_back({kTtqStore, size, address, slot(instruction.size), kTtqNoNode});
      break;
    }
    case Instruction::kSetReg:
      effects.push_back(
          {kTtqSetReg, static_cast<ttq_u8>(instruction.reg), kTtqNoNode, slot(8), kTtqNoNode});
      break;
  }
  effects.push_back({kTtqExit, 0, record_bytes, kTtqNoNode, kTtqNoNode});
  TtqRecipe head{};
  head.instruction_bytes = 9 + kInstructionBytes;
  head.bytes = static_cast<uint32_t>(sizeof(head) + nodes.size() * sizeof(TtqNode) +
                                     effects.size() * sizeof(TtqEffect) + head.instruction_bytes);
  head.id = it->second;
  head.node_count = static_cast<uint16_t>(nodes.size());
  head.effect_count = static_cast<uint16_t>(effects.size());
  head.instruction_count = 1;
  head.exit_count = 1;
  head.record_bytes = record_bytes;
  std::string* out = &blocks_.back().recipes;
  Append(out, head);
  for (const TtqNode& node : nodes) Append(out, node);
  for (const TtqEffect& effect : effects) Append(out, effect);
  Append(out, instruction.pc);
  out->push_back(kInstructionBytes);
  out->append(kNop, kInstructionBytes);
  ++blocks_.back().recipe_count;
  return it->second;
}

void StreamBuilder::AppendRecord(uint32_t id, uint32_t exit, const Instruction& instruction) {
  std::string* log = &blocks_.back().log;
  Append(log, id << kTtqExitBits | exit);
  if (instruction.kind == Instruction::kLoad || instruction.kind == Instruction::kStore) {
    Append(log, instruction.address);
  }
  if (instruction.kind == Instruction::kStore) {
    std::string value = instruction.value;
    value.resize(instruction.size);
    log->append(value);
  }
  if (instruction.kind == Instruction::kSetReg) Append(log, instruction.result);
}

void StreamBuilder::Execute(const Instruction& instruction) {
  AppendRecord(Superblock(instruction), 0, instruction);
  TtqRegisters& registers = threads_[current_];
  registers.pc = instruction.pc + kInstructionBytes;
  if (instruction.kind == Instruction::kSetReg) registers.reg[instruction.reg] = instruction.result;
}

void StreamBuilder::Fault(const Instruction& instruction, uint32_t signal, uint64_t address) {
  AppendRecord(Superblock(instruction), kTtqExitOpen, instruction);
  TtqSignal s{};
  s.tid = current_;
  s.number = signal;
  s.code = 1;
  s.address = address;
  s.pc = instruction.pc;
  Control(kTtqFault, BytesOf(s));
  TtqRegisters& registers = threads_[current_];
  registers.pc = instruction.pc;
  Control(kTtqRegisters, BytesOf(registers));
}

void StreamBuilder::Map(uint64_t begin, uint64_t end, uint8_t protection, bool shared,
                        const std::string& path) {
  TtqMap map{};
  map.address = begin;
  map.bytes = end - begin;
  map.protection = protection;
  map.shared = shared;
  map.kind = path.empty() ? kTtqMapAnonymous : kTtqMapFile;
  map.content = kTtqContentZero;
  Control(kTtqMap, BytesOf(map), path);
}

void StreamBuilder::Unmap(uint64_t begin, uint64_t end) {
  const TtqRange range{begin, end - begin, 0};
  Control(kTtqUnmap, BytesOf(range));
}

void StreamBuilder::Protect(uint64_t begin, uint64_t end, uint8_t protection) {
  const TtqRange range{begin, end - begin, protection};
  Control(kTtqProtect, BytesOf(range));
}

void StreamBuilder::Remap(uint64_t from, uint64_t to, uint64_t bytes) {
  const TtqRemap remap{from, to, bytes};
  Control(kTtqRemap, BytesOf(remap));
}

void StreamBuilder::KernelWrite(uint8_t actor, uint64_t address, std::string_view bytes) {
  const auto open = syscalls_.find(current_);
  const TtqKernelWrite write{actor == kTtqInitial ? 0 : current_, actor,
                             open == syscalls_.end() ? -1 : open->second.number, address};
  Control(kTtqKernelWrite, BytesOf(write), bytes);
}

void StreamBuilder::SyscallEnter(int64_t number, const std::vector<uint64_t>& arguments) {
  TtqSyscall call{};
  call.tid = current_;
  call.number = number;
  for (size_t i = 0; i < std::min<size_t>(arguments.size(), 6); ++i) call.args[i] = arguments[i];
  call.wall_ns = kStartWallNs;
  syscalls_[current_] = call;
  Control(kTtqSyscallEnter, BytesOf(call));
}

void StreamBuilder::SyscallExit(int64_t result) {
  TtqSyscall call = syscalls_[current_];
  call.result = result;
  syscalls_.erase(current_);
  Control(kTtqSyscallExit, BytesOf(call));
}

void StreamBuilder::Output(uint32_t fd, std::string_view bytes) {
  const TtqOutput output{current_, fd};
  Control(kTtqOutput, BytesOf(output), bytes);
}

void StreamBuilder::Exit(uint32_t status) { Control(kTtqExitProcess, BytesOf(status)); }

std::string StreamBuilder::RingFile() {
  if (!killed_) {  // as recorders do, where each thread is at the end
    for (const auto& [tid, registers] : threads_) Control(kTtqRegisters, BytesOf(registers));
  }
  size_t largest = 0;
  for (const Block& block : blocks_) {
    largest = std::max(largest, sizeof(TtqBlock) + block.log.size() + block.recipes.size());
  }
  const uint32_t block_bytes = static_cast<uint32_t>((largest + 4095) & ~size_t{4095});
  auto header = std::make_unique<TtqRing>();
  header->magic = TTQ_RING_MAGIC;
  header->version = kTtqStreamVersion;
  header->pid = kPid;
  header->block_bytes = block_bytes;
  // The reader wants a ring of two blocks at least.
  header->block_count = static_cast<uint32_t>(std::max<size_t>(blocks_.size(), 2));
  header->produced = static_cast<uint32_t>(blocks_.size() - (killed_ ? 1 : 0));
  header->state = killed_ ? kTtqRunning : kTtqFinished;
  header->start_wall_ns = kStartWallNs;
  header->fatal_signal = fatal_signal_;
  for (const std::string& word : words_) {
    if (header->argument_bytes + word.size() + 1 > sizeof(header->arguments)) break;
    memcpy(header->arguments + header->argument_bytes, word.c_str(), word.size() + 1);
    header->argument_bytes += static_cast<uint32_t>(word.size() + 1);
  }
  std::string out(kTtqRingHeaderBytes + size_t{block_bytes} * header->block_count, '\0');
  memcpy(out.data(), header.get(), sizeof(TtqRing));
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    char* at = out.data() + kTtqRingHeaderBytes + i * block_bytes;
    TtqBlock head{};
    head.number = static_cast<uint32_t>(i);
    head.log_bytes = static_cast<uint32_t>(block.log.size());
    head.recipe_bytes = static_cast<uint32_t>(block.recipes.size());
    head.recipe_count = block.recipe_count;
    head.between_superblocks = block.between_superblocks;
    head.ends_between_superblocks = 1;
    head.wall_start_ns = kStartWallNs + static_cast<int64_t>(i) * kBlockWallNs;
    head.wall_end_ns = head.wall_start_ns + kBlockWallNs;
    memcpy(at, &head, sizeof(head));
    memcpy(at + sizeof(head), block.log.data(), block.log.size());
    memcpy(at + block_bytes - block.recipes.size(), block.recipes.data(), block.recipes.size());
  }
  return out;
}

absl::Status StreamBuilder::Record(const std::string& directory) {
  std::string path = std::filesystem::temp_directory_path() / "ttq-stream-XXXXXX";
  const int fd = mkstemp(path.data());
  if (fd < 0) return absl::ErrnoToStatus(errno, path);
  const std::string file = RingFile();
  const bool written = write(fd, file.data(), file.size()) == static_cast<ssize_t>(file.size());
  close(fd);
  auto ring = written ? Ring::Open(path) : absl::ErrnoToStatus(errno, path);
  unlink(path.c_str());
  if (!ring.ok()) return ring.status();
  ASSIGN_OR_RETURN(
      auto writer,
      RecordingWriter::Create(directory, DescribeRecording({words_.begin() + 2, words_.end()})));
  writer->Start(*std::move(ring));
  return writer->Finish();
}

}  // namespace ttq

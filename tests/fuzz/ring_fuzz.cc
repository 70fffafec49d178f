// SPDX-License-Identifier: MIT
//
// Any ring: opened, taken from, and (the greater part of the inputs) ingested. Whatever the program
// that was to be recorded has written to it, the recorder ends; what it stored opens, checks, and
// answers, unless it said why not.

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/ring.h"
#include "recorder/stream.h"
#include "store/read/reader.h"
#include "store/write/ingest.h"
#include "store/write/recording_record.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/stream_input.h"

namespace ttq {
namespace {

constexpr uint32_t kNoProcess = 0x7fffffff;  // the recorder may send it a signal
constexpr uint32_t kBlockBytes = 16 << 10;
constexpr uint32_t kMaxRecipes = 3;

struct Block {
  std::string log, recipes;
};

// What a block starts with, see docs/stream-format.md.
std::string Opening() {
  std::string log;
  TtqRegisters registers{};
  registers.tid = 1;
  Append(&log, uint32_t{kTtqRegisters});
  Append(&log, static_cast<uint32_t>(sizeof(registers)));
  Append(&log, registers);
  Append(&log, uint32_t{kTtqThread});
  Append(&log, uint32_t{4});
  Append(&log, uint32_t{1});
  return log;
}

std::string TakeRing(FuzzInput* in) {
  std::vector<RecipeDraft> recipes;
  Block first;
  for (uint32_t n = in->Below(kMaxRecipes + 1); n > 0; --n) {
    recipes.push_back(RecipeTaker(in).Take(static_cast<uint32_t>(recipes.size() + 1)));
    first.recipes += recipes.back().encoded;
  }
  std::vector<Block> blocks(1 + in->Below(3));
  blocks[0] = first;
  auto header = std::make_unique<TtqRing>();
  memset(header.get(), 0, sizeof(TtqRing));
  header->magic = TTQ_RING_MAGIC;
  header->version = kTtqStreamVersion;
  header->block_bytes = kBlockBytes;
  header->block_count = static_cast<uint32_t>(blocks.size() + in->Below(2));
  header->produced = static_cast<uint32_t>(blocks.size());
  header->state = kTtqFinished;
  header->start_wall_ns = in->Take<uint8_t>();
  // A few fields as they come.
  for (uint32_t n = in->Below(4); n > 0; --n) {
    uint32_t* const fields[] = {
        &header->block_bytes,   &header->block_count,    &header->produced,
        &header->consumed,      &header->state,          &header->command,
        &header->fatal_signal,  &header->argument_bytes, &header->became_other,
        &header->pending_count, &header->fork_number,    &header->version};
    *fields[in->Below(std::size(fields))] =
        in->Below(2) ? in->Take<uint8_t>() : in->Take<uint32_t>();
  }
  if (in->Below(8) == 0) {
    const std::string_view name = in->Bytes(sizeof(header->parent_ring));
    memcpy(header->parent_ring, name.data(), name.size());
  }
  const std::string_view words = in->Bytes(in->Below(16));
  memcpy(header->arguments, words.data(), words.size());
  header->pid = kNoProcess;
  std::string out(kTtqRingHeaderBytes, '\0');
  memcpy(out.data(), header.get(), sizeof(TtqRing));
  for (size_t i = 0; i < blocks.size(); ++i) {
    Block& b = blocks[i];
    if (in->Below(8) != 0) b.log = Opening();
    b.log += TakeLog(in, recipes, 1 + in->Below(kBlockBytes / 2));
    if (sizeof(TtqBlock) + b.log.size() + b.recipes.size() > kBlockBytes) b.log.clear();
    TtqBlock head{};
    head.number = static_cast<uint32_t>(i);
    head.log_bytes = static_cast<uint32_t>(b.log.size());
    head.recipe_bytes = static_cast<uint32_t>(b.recipes.size());
    head.wall_start_ns = in->Take<int8_t>();
    head.wall_end_ns = in->Take<int8_t>();
    if (in->Below(16) == 0) head = in->Take<TtqBlock>();
    std::string bytes(kBlockBytes, '\0');
    memcpy(bytes.data(), &head, sizeof(head));
    memcpy(bytes.data() + sizeof(head), b.log.data(), b.log.size());
    memcpy(bytes.data() + kBlockBytes - b.recipes.size(), b.recipes.data(), b.recipes.size());
    out += bytes;
  }
  if (in->Below(16) == 0) out.resize(in->Take<uint32_t>() % out.size());
  return out;
}

absl::StatusOr<std::unique_ptr<Ring>> OpenRing(const std::string& bytes) {
  const std::string path = "/dev/shm/ttq-fuzz-ring-" + std::to_string(getpid());
  unlink(path.c_str());
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  Require(fd >= 0 && write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
          "cannot write the ring");
  close(fd);
  auto ring = Ring::Open(path);
  unlink(path.c_str());
  return ring;
}

void TakeAll(Ring* ring) {
  (void)ring->arguments();
  (void)ring->parent_ring();
  (void)ring->pending();
  volatile uint8_t last = 0;  // so that every byte is read
  int taken = 0;
  while (const TtqBlock* block = ring->Next()) {
    Require(++taken <= 1000, "more blocks than there can be");
    BlockView view;
    if (ring->Take(block, &view).ok()) {
      for (char c : view.log) last = static_cast<uint8_t>(c);
      for (char c : view.recipes) last = static_cast<uint8_t>(c);
    }
    ring->Release();
  }
  (void)last;
}

void AskAll(const Recording& recording) {
  for (const ProcessInfo& info : recording.processes()) {
    const auto process = recording.Open(info.number);
    Require(process.ok(), "a process does not open", process.status().ToString());
    const Time end = (*process)->info().end;
    (void)(*process)->WallClock(end);
    (void)(*process)->MappingsAt(end);
    (void)(*process)->Memory(Address(0x7f0000000000), 4096, end);
    (void)(*process)->RegistersAt(Time(end.v / 2), std::nullopt);
    AccessQuery query;
    query.ranges = {{Address(0), Address(~uint64_t{0})}};
    query.reads = true;
    query.full_scan = true;
    auto rows = (*process)->Accesses(query, nullptr);
    for (int i = 0; rows.ok() && i < 1000; ++i) {
      const auto row = (*rows)->Next();
      if (!row.ok() || !*row) break;
    }
  }
}

}  // namespace
}  // namespace ttq

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ttq;
  FuzzInput in(data, size);
  const uint8_t what = in.Take<uint8_t>();
  const std::string bytes = TakeRing(&in);
  auto ring = OpenRing(bytes);
  if (!ring.ok()) {
    Require(!ring.status().message().empty(), "an error without words");
    return 0;
  }
  if (what % 4 == 0) {
    TakeAll(ring->get());
    return 0;
  }
  const std::string directory = "/dev/shm/ttq-fuzz-" + std::to_string(getpid());
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  auto writer = RecordingWriter::Create(directory, DescribeRecording({"program"}));
  Require(writer.ok(), "no recording", writer.status().ToString());
  (*writer)->Start(*std::move(ring));
  const absl::Status finished = (*writer)->Finish();
  Require(finished.ok() || !finished.message().empty(), "an error without words");
  writer->reset();
  auto recording = Recording::Open(directory);
  Require(recording.ok(), "it does not open", recording.status().ToString());
  std::string problems;
  const absl::Status checked =
      (*recording)->Check([&](const std::string& problem) { problems += problem + "\n"; }, nullptr);
  Require(checked.ok(), "it does not check", checked.ToString());
  Require(problems.empty(), "it is not sound", problems);
  AskAll(**recording);
  recording->reset();
  std::filesystem::remove_all(directory, ignored);
  return 0;
}

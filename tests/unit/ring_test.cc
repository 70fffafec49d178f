// SPDX-License-Identifier: MIT
//
// Rings that no sound tool would have written: the recorder says what is wrong and ends.

#include "recorder/ring.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "recorder/stream.h"
#include "store/read/reader.h"
#include "store/write/ingest.h"
#include "store/write/recording_record.h"

namespace ttq {
namespace {

constexpr uint32_t kBlockBytes = 32 << 10, kBlocks = 2;

template <class T>
void Append(std::string* out, const T& pod) {
  out->append(reinterpret_cast<const char*>(&pod), sizeof(pod));
}

template <class T>
std::string Control(uint32_t kind, const T& payload, std::string_view body = {}) {
  std::string out;
  Append(&out, kind);
  Append(&out, static_cast<uint32_t>(sizeof(payload) + body.size()));
  Append(&out, payload);
  return out.append(body);
}

class RingTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string place = std::filesystem::temp_directory_path() / "ttq-ring-XXXXXX";
    ASSERT_NE(mkdtemp(place.data()), nullptr);
    scratch_ = place;
  }
  void TearDown() override { std::filesystem::remove_all(scratch_); }

  // A finished ring of one block with this log, after `change`.
  std::shared_ptr<Ring> Make(
      std::string_view log, const std::function<void(TtqRing*)>& change = [](TtqRing*) {},
      const std::string& name = "r-1") {
    auto header = std::make_unique<TtqRing>();
    memset(header.get(), 0, sizeof(TtqRing));
    header->magic = TTQ_RING_MAGIC;
    header->version = kTtqStreamVersion;
    header->pid = 0x7fffffff;  // of no process
    header->block_bytes = kBlockBytes;
    header->block_count = kBlocks;
    header->produced = 1;
    header->state = kTtqFinished;
    change(header.get());
    std::string file(kTtqRingHeaderBytes + kBlockBytes * kBlocks, '\0');
    memcpy(file.data(), header.get(), sizeof(TtqRing));
    TtqBlock block{};
    block.log_bytes = static_cast<uint32_t>(log.size());
    memcpy(file.data() + kTtqRingHeaderBytes, &block, sizeof(block));
    memcpy(file.data() + kTtqRingHeaderBytes + sizeof(block), log.data(), log.size());
    const std::string path = scratch_ + "/" + name;
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    EXPECT_EQ(write(fd, file.data(), file.size()), static_cast<ssize_t>(file.size()));
    close(fd);
    auto ring = Ring::Open(path);
    EXPECT_TRUE(ring.ok()) << ring.status();
    return ring.ok() ? *std::move(ring) : nullptr;
  }

  // What ingest says of a log; what it stored must open and check whatever it said.
  std::string Ingest(std::shared_ptr<Ring> ring) {
    const std::string directory = scratch_ + "/x.ttq";
    std::filesystem::remove_all(directory);
    auto writer = RecordingWriter::Create(directory, DescribeRecording({"program"}));
    EXPECT_TRUE(writer.ok()) << writer.status();
    (*writer)->Start(std::move(ring));
    const absl::Status finished = (*writer)->Finish();
    auto recording = Recording::Open(directory);
    EXPECT_TRUE(recording.ok()) << recording.status();
    EXPECT_TRUE((*recording)
                    ->Check([](const std::string& problem) { ADD_FAILURE() << problem; }, nullptr)
                    .ok());
    return std::string(finished.message());
  }
  std::string IngestLog(std::string_view log) { return Ingest(Make(log)); }

  std::string scratch_;
};

TEST_F(RingTest, CountersThatCannotBeTrueEndIt) {
  auto ring = Make("", [](TtqRing* h) { h->produced = kBlocks + 1; });
  EXPECT_EQ(ring->Next(), nullptr);
  EXPECT_EQ(ring->status().message(), "the ring says that it has more blocks than it holds");
  ring = Make("", [](TtqRing* h) { h->produced = ~0u; });
  EXPECT_EQ(Ingest(ring), "the ring says that it has more blocks than it holds");
}

TEST_F(RingTest, ABlockLargerThanItsRoomIsRefused) {
  auto ring = Make("");
  TtqBlock block{};
  block.log_bytes = kBlockBytes;
  BlockView view;
  EXPECT_FALSE(ring->Take(&block, &view).ok());
  block.log_bytes = 0;
  block.recipe_bytes = ~0u;
  EXPECT_FALSE(ring->Take(&block, &view).ok());
}

// It would wait for a parent that may never come, or for itself.
// It alone is incomplete: others are recorded as they were.
TEST_F(RingTest, AChildOfNobodyIsRefused) {
  for (const char* parent : {"r-1", "r-2"}) {
    auto ring = Make("", [&](TtqRing* h) { strcpy(h->parent_ring, parent); });
    EXPECT_EQ(Ingest(ring), "");
    auto recording = Recording::Open(scratch_ + "/x.ttq");
    ASSERT_TRUE(recording.ok()) << recording.status();
    ASSERT_EQ((*recording)->processes().size(), 1u);
    const ProcessInfo& child = (*recording)->processes()[0];
    EXPECT_EQ(child.blocks, 0u);
    EXPECT_FALSE(child.complete);
    EXPECT_EQ(child.incomplete_reason, "the process that forked this one was not recorded");
  }
}

// It must not count as recorded, with blocks whose code and memory are nowhere.
TEST_F(RingTest, AChildWhoseForkWasLostHoldsNothing) {
  const std::string directory = scratch_ + "/x.ttq";
  auto writer = RecordingWriter::Create(directory, DescribeRecording({"program"}));
  ASSERT_TRUE(writer.ok()) << writer.status();
  (*writer)->Start(Make(""));
  (*writer)->Start(Make(
      "",
      [](TtqRing* h) {
        strcpy(h->parent_ring, "r-1");
        h->fork_number = 1;
        h->pid = 0x7ffffffe;
      },
      "r-2"));
  EXPECT_TRUE((*writer)->Finish().ok());
  auto recording = Recording::Open(directory);
  ASSERT_TRUE(recording.ok()) << recording.status();
  ASSERT_EQ((*recording)->processes().size(), 2u);
  const ProcessInfo& child = (*recording)->processes()[1];
  EXPECT_EQ(child.parent, ProcessNo(1));
  EXPECT_EQ(child.blocks, 0u);
  EXPECT_FALSE(child.complete);
  EXPECT_EQ(child.incomplete_reason, "the process that forked this one was lost");
}

TEST_F(RingTest, ThreadNumbersHaveALimit) {
  for (uint32_t kind :
       {kTtqThread, kTtqRegisters, kTtqVectors, kTtqThreadStart, kTtqSyscallEnter}) {
    TtqRegisters longest{};
    longest.tid = kTtqMaxThreads;
    EXPECT_EQ(IngestLog(Control(kind, longest)), "") << kind;
    longest.tid = kTtqMaxThreads + 1;
    EXPECT_EQ(IngestLog(Control(kind, longest)), "log at byte 0: a thread number that is too large")
        << kind;
  }
}

TEST_F(RingTest, MovesAndMapsAtTheEndOfAllAddresses) {
  EXPECT_EQ(IngestLog(Control(kTtqRemap, TtqRemap{~uint64_t{0}, 0x1000, 4096})),
            "a move of parts of pages");
  EXPECT_EQ(IngestLog(Control(kTtqRemap, TtqRemap{~uint64_t{4095}, 0x1000, 8192})),
            "a move beyond all addresses");
  EXPECT_EQ(IngestLog(Control(kTtqRemap, TtqRemap{0x1000, ~uint64_t{4095}, 8192})),
            "a move beyond all addresses");
  for (uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{4096}, ~uint64_t{0}}) {
    TtqMap map{};
    map.address = ~uint64_t{0} - 10;
    map.bytes = bytes;
    EXPECT_EQ(IngestLog(Control(kTtqMap, map)), "") << bytes;
    EXPECT_EQ(IngestLog(Control(kTtqUnmap, TtqRange{map.address, bytes, 0})), "") << bytes;
  }
}

TEST_F(RingTest, AWriteToTheLastPage) {
  const TtqKernelWrite write{1, kTtqBySyscall, 0, ~uint64_t{0} - 7};
  EXPECT_EQ(IngestLog(Control(kTtqKernelWrite, write, "12345678")), "");
}

TEST_F(RingTest, ForksWithoutChildrenHaveALimit) {
  std::string log;
  for (uint32_t i = 0; i < 1000; ++i) log += Control(kTtqFork, i);
  EXPECT_EQ(IngestLog(log), "");
  log += Control(kTtqFork, uint32_t{1000});
  EXPECT_EQ(IngestLog(log), "too many forks whose child never came");
}

// A file that was mapped may be a pipe by the time ingest looks at it.
TEST_F(RingTest, NobodyWaitsForAPipe) {
  const std::string path = scratch_ + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  TtqMap map{};
  map.address = 0x10000;
  map.bytes = 4096;
  map.kind = kTtqMapFile;
  map.content = kTtqContentFile;
  EXPECT_EQ(IngestLog(Control(kTtqMap, map, path)), "");
}

}  // namespace
}  // namespace ttq

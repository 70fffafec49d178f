// SPDX-License-Identifier: MIT

#include "store/format/inputs_log.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "store/format/inputs_frame.h"

namespace ttq {
namespace {

constexpr char kPath[] = "/usr/lib/libthing.so";

template <class T>
std::string Bytes(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

TtqInputs Head() {
  TtqInputs head = {};
  head.magic = TTQ_INPUTS_MAGIC;
  head.stream_version = kTtqStreamVersion;
  head.pid = 4711;
  return head;
}

std::string Record(uint32_t block, uint32_t offset, uint32_t kind, const std::string& payload) {
  std::string out =
      Bytes(TtqInput{block, offset, kind, static_cast<uint32_t>(payload.size())}) + payload;
  out.resize((out.size() + 7) & ~size_t{7});
  return out;
}

std::string MapRecord() {
  TtqMap map = {};
  map.kind = kTtqMapFile;
  map.content = kTtqContentFile;
  map.dev = 0x801;
  map.ino = 0x1234;
  map.file_bytes = 0x5678;
  map.mtime_ns = 0x9abc;
  return Record(0, 8, kTtqMap, Bytes(map) + kPath);
}

// The frame that comes after so many others.
std::string FrameBehind(uint32_t frames, InputsFrame kind, const std::string& payload) {
  InputsFrameWriter writer;
  for (uint32_t k = 0; k < frames; ++k) writer.Next(InputsFrame::kLog, "");
  return writer.Next(kind, payload);
}

std::string BeginFrame(InputsFrameWriter* writer) {
  return writer->Next(InputsFrame::kBegin, Bytes(Head()) + std::string("/bin/p\0/\0p\0", 11));
}

// One process of two blocks.
std::vector<std::string> Frames() {
  const TtqInputsBlock first = {1, 100, 1, 10, 20}, second = {2, 50, 0, 20, 30};
  TtqInputs end = Head();
  end.finished = 1;
  InputsFrameWriter writer;
  std::vector<std::string> out = {BeginFrame(&writer)};
  out.push_back(writer.Next(InputsFrame::kBlock, Bytes(first) + MapRecord()));
  out.push_back(writer.Next(InputsFrame::kBlock,
                            Bytes(second) + Record(1, 40, kTtqOutput, std::string(5000, 'x'))));
  out.push_back(writer.Next(InputsFrame::kEnd, Bytes(end)));
  return out;
}

class InputsLogTest : public testing::Test {
 protected:
  InputsLogTest() : path_(testing::TempDir() + "/inputs-log-test-" + std::to_string(getpid())) {}
  ~InputsLogTest() override { std::filesystem::remove(path_); }

  absl::StatusOr<RecordedInputs> Read(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return ReadInputs(path_);
  }

  const std::string path_;
};

TEST_F(InputsLogTest, WhatWasWritten) {
  std::string all;
  for (const std::string& frame : Frames()) all += frame;
  const auto read = Read(all);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->has_ended);
  EXPECT_TRUE(read->log_because.empty());
  EXPECT_EQ(read->file.head.pid, 4711u);
  EXPECT_EQ(read->file.head.finished, 1u);
  EXPECT_EQ(read->file.arguments, std::string("/bin/p\0/\0p\0", 11));
  ASSERT_EQ(read->file.blocks.size(), 2u);
  EXPECT_EQ(read->file.blocks[1].log_bytes, 50u);
  std::vector<std::string> mapped;
  ForEachMappedFile(read->file.records, [&](const TtqMap& map, const std::string& path) {
    mapped.push_back(CopyName(map) + " " + path);
  });
  EXPECT_EQ(mapped, std::vector<std::string>{std::string("801-1234-5678-9abc ") + kPath});
}

TEST_F(InputsLogTest, RecordsThatHaveMuchInCommon) {
  std::string records;
  for (uint32_t k = 0; k < 300; ++k) {
    TtqRegisters r = {.tid = 1 + k % 3, .pc = 0x401000 + k};
    for (uint64_t i = 0; i < kTtqRegCount; ++i) r.reg[i] = 0x7ffff7a31230 + i * (k % 2);
    const TtqSyscall enter = {.tid = r.tid, .number = 202, .args = {k, 2, 3}};
    TtqSyscall exit = enter;
    exit.result = -11;
    exit.wall_ns = 1795747094653219305 + 100 * k;
    records += Record(0, 100 * k, kTtqSyscallEnter, Bytes(enter));
    records += Record(0, 100 * k + 80, kTtqSyscallExit, Bytes(exit));
    records += Record(0, 100 * k + 90, kTtqRegisters, Bytes(r));
  }
  records += Record(0, 7, kTtqRegisters, "abc") + Record(0, 7, kTtqVectors, std::string(9, 'v')) +
             Record(0, 9, kTtqVectors, std::string(19, 'v'));
  const TtqInputsBlock block = {1, 100000, 1, 10, 20};
  const std::string frame = FrameBehind(1, InputsFrame::kBlock, Bytes(block) + records);
  EXPECT_LT(frame.size(), records.size() / 20);
  const auto read = Read(Frames()[0] + frame);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->file.records, records);
}

TEST_F(InputsLogTest, CutOffAnywhere) {
  std::string all;
  std::vector<size_t> ends;
  for (const std::string& frame : Frames()) ends.push_back((all += frame).size());
  for (size_t n = 0; n < all.size(); ++n) {
    const auto read = Read(all.substr(0, n));
    if (n < ends[0]) {
      EXPECT_TRUE(absl::IsOutOfRange(read.status())) << n;
      continue;
    }
    ASSERT_TRUE(read.ok()) << n << ": " << read.status();
    EXPECT_FALSE(read->has_ended) << n;
    EXPECT_EQ(read->file.blocks.size(), n < ends[1] ? 0u : n < ends[2] ? 1u : 2u) << n;
  }
}

// Blocks that read the same, some of them while the program waited.
TEST_F(InputsLogTest, BlocksHaveWhatTheOnesBeforeHad) {
  std::string same;
  for (uint32_t k = 0; k < 50000; ++k)
    same += static_cast<char>(k * k >> 7 ^ k * 2654435761u >> 24);
  InputsFrameWriter writer;
  std::string all = BeginFrame(&writer), records;
  std::vector<size_t> ends, sizes;
  for (uint32_t k = 0; k < 40; ++k) {
    const bool in_haste = k / 5 % 2 == 1;
    const std::string more = Record(k, 40, kTtqOutput, same + std::to_string(k));
    sizes.push_back(all.size());
    all +=
        writer.Next(InputsFrame::kBlock, Bytes(TtqInputsBlock{1, k, 1, 10, 20}) + more, in_haste);
    sizes.back() = all.size() - sizes.back();
    ends.push_back(all.size());
    records += more;
  }
  // The first two have it: one by itself, one as the stream's first; then each that begins anew.
  EXPECT_GT(sizes[1], same.size() / 2);
  EXPECT_LT(sizes[2], same.size() / 20);
  EXPECT_LT(sizes[3], same.size() / 20);
  EXPECT_LT(sizes[7], same.size() / 20);
  const auto read = Read(all);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->file.records, records);
  ASSERT_EQ(read->file.blocks.size(), 40u);
  for (const size_t k : {3, 5, 11, 38}) {
    const auto cut = Read(all.substr(0, ends[k] - 1));
    ASSERT_TRUE(cut.ok()) << k << ": " << cut.status();
    EXPECT_EQ(cut->file.blocks.size(), k);
  }
  for (size_t n = 0; n < all.size(); n += 997) {
    std::string wrong = all;
    wrong[n] = static_cast<char>(wrong[n] ^ 4);
    const auto damaged = Read(wrong);
    EXPECT_TRUE(!damaged.ok() || damaged->file.blocks.size() < 40) << n;
  }
}

// A block that took long, and then ended, or did not.
TEST_F(InputsLogTest, BlocksSoFar) {
  const std::string first = Record(0, 40, kTtqOutput, "1"),
                    second = Record(0, 80, kTtqOutput, "22"),
                    third = Record(0, 120, kTtqOutput, "333"),
                    fourth = Record(1, 40, kTtqOutput, "4444");
  const auto block = [](uint32_t log_bytes) {
    return Bytes(TtqInputsBlock{1, log_bytes, 0, 10, 20});
  };
  InputsFrameWriter writer;
  std::string all = BeginFrame(&writer);
  all += writer.Next(InputsFrame::kBlockSoFar, block(50) + first);
  all += writer.Next(InputsFrame::kBlockSoFar, block(90) + second);
  auto read = Read(all);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->file.blocks.size(), 1u);
  EXPECT_EQ(read->file.blocks[0].log_bytes, 90u);
  EXPECT_EQ(read->file.records, first + second);
  all += writer.Next(InputsFrame::kBlock, block(130) + third);
  all += writer.Next(InputsFrame::kBlockSoFar, block(60) + fourth);
  read = Read(all);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->file.blocks.size(), 2u);
  EXPECT_EQ(read->file.blocks[0].log_bytes, 130u);
  EXPECT_EQ(read->file.blocks[1].log_bytes, 60u);
  EXPECT_EQ(read->file.records, first + second + third + fourth);
  EXPECT_FALSE(read->has_ended);
  all += writer.Next(InputsFrame::kIncomplete, "the disk was full");
  all += writer.Next(InputsFrame::kEnd, Bytes(Head()));
  read = Read(all);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->has_ended);
  EXPECT_EQ(WhatIsMissing(*read, {}), "the disk was full");
  EXPECT_EQ(read->file.blocks.size(), 2u);
}

TEST_F(InputsLogTest, AByteThatIsWrongIsNoticed) {
  std::string all;
  for (const std::string& frame : Frames()) all += frame;
  for (size_t n = 0; n < all.size(); ++n) {
    for (const int bit : {0, 7}) {
      std::string wrong = all;
      wrong[n] = static_cast<char>(wrong[n] ^ 1 << bit);
      const auto read = Read(wrong);
      // A length that is too large is a frame that is cut off.
      EXPECT_TRUE(!read.ok() || !read->has_ended) << n;
    }
  }
}

TEST_F(InputsLogTest, FramesInAnotherOrder) {
  const std::vector<std::string> f = Frames();
  EXPECT_TRUE(absl::IsDataLoss(Read(f[0] + f[2] + f[1] + f[3]).status()));
  EXPECT_TRUE(absl::IsDataLoss(Read(f[1] + f[0]).status()));
  EXPECT_TRUE(absl::IsOutOfRange(Read("").status()));
}

// As they are put behind the blocks, with the frames from there on.
std::vector<std::string> LogFrames(const std::string& log) {
  std::vector<std::string> out;
  for (uint32_t number = 2; number < 4; ++number) {
    BlockView block;
    block.head = {.number = number,
                  .log_bytes = static_cast<uint32_t>(log.size()),
                  .recipe_bytes = 7,
                  .recipe_count = 1};
    block.log = log;
    block.recipes = "recipes";
    out.push_back(FrameBehind(number + 1, InputsFrame::kLog, EncodeLogBlock(block)));
  }
  return out;
}

TEST_F(InputsLogTest, ALogBehindTheBlocks) {
  const std::vector<std::string> f = Frames(), logs = LogFrames(std::string(3000, 'l'));
  const std::string blocks = f[0] + f[1] + f[2], all = blocks + logs[0] + logs[1];
  const auto numbers = [this](const RecordedInputs& inputs) {
    std::vector<uint32_t> out;
    const absl::Status s = ForEachLogBlock(path_, inputs, [&out](const BlockView& block) {
      EXPECT_EQ(block.log, std::string(3000, 'l'));
      EXPECT_EQ(block.recipes, "recipes");
      out.push_back(block.head.number);
      return absl::OkStatus();
    });
    if (!s.ok()) out.push_back(~uint32_t{0});
    return out;
  };
  const auto read = Read(all);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->file.blocks.size(), 2u);
  EXPECT_EQ(read->log_at, blocks.size());
  const std::vector<uint32_t> both = {2, 3};
  EXPECT_EQ(numbers(*read), both);
  const auto cut = Read(all.substr(0, all.size() - 1));
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(numbers(*cut), std::vector<uint32_t>{2});
  for (size_t n = blocks.size(); n < all.size(); ++n) {
    std::string wrong = all;
    wrong[n] = static_cast<char>(wrong[n] ^ 1);
    const auto damaged = Read(wrong);
    EXPECT_TRUE(!damaged.ok() || numbers(*damaged) != both) << n;
  }
  // Inputs do not follow a log.
  EXPECT_TRUE(absl::IsDataLoss(
      Read(blocks + logs[0] +
           FrameBehind(4, InputsFrame::kBlock, std::string(sizeof(TtqInputsBlock), '\0')))
          .status()));
}

TEST_F(InputsLogTest, OfAnotherVersion) {
  TtqInputs head = Head();
  head.stream_version = kTtqStreamVersion + 1;
  const auto read = Read(FrameBehind(0, InputsFrame::kBegin, Bytes(head)));
  EXPECT_TRUE(absl::IsFailedPrecondition(read.status())) << read.status();
}

}  // namespace
}  // namespace ttq

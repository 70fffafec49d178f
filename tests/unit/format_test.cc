// SPDX-License-Identifier: MIT

#include "store/format/format.h"

#include <link.h>

#include <cstring>
#include <fstream>
#include <random>

#include "absl/strings/escaping.h"
#include "base/elf.h"
#include "gtest/gtest.h"

namespace ttq {
namespace {

PageEntry RandomEntry(std::mt19937_64* random, bool whole) {
  PageEntry e;
  for (int i = 0; i < 40; ++i) {
    e.written.set((*random)() % kWordsPerPage);
    e.read.set((*random)() % kWordsPerPage);
  }
  e.content = e.written;
  if ((*random)() % 2) e.content.set((*random)() % kWordsPerPage);
  e.whole = whole;
  for (uint64_t& w : e.words) w = (*random)();
  return e;
}

TEST(PageEntryTest, ReadsBackWhatWasWritten) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200; ++i) {
    PageEntry e = RandomEntry(&random, i % 3 == 0);
    std::string encoded = e.Encode();
    auto view = PageEntryView::Parse(encoded);
    ASSERT_TRUE(view.ok());
    EXPECT_EQ(view->written(), e.written);
    EXPECT_EQ(view->read(), e.read);
    size_t words = 0;
    view->ForEachWord([&](uint32_t w, uint64_t v) {
      EXPECT_EQ(v, e.words[w]);
      EXPECT_TRUE(e.whole || e.content[w]);
      ++words;
    });
    EXPECT_EQ(words, e.whole ? kWordsPerPage : e.content.count());
  }
}

TEST(PageEntryTest, EveryCutIsNoticed) {
  std::mt19937_64 random(8);
  std::string encoded = RandomEntry(&random, false).Encode();
  for (size_t n = 0; n < encoded.size(); ++n) {
    EXPECT_FALSE(PageEntryView::Parse(std::string_view(encoded).substr(0, n)).ok()) << n;
  }
  EXPECT_FALSE(PageEntryView::Parse(encoded + "x").ok());
}

TEST(KeyTest, OrderIsTheQuestionsOrder) {
  ProcessNo p(3);
  // Within a group a page's blocks stand together, in time order; pages in address order.
  EXPECT_LT(PageKey(p, 0, 0x10, 5), PageKey(p, 0, 0x10, 6));
  EXPECT_LT(PageKey(p, 0, 0x10, 0xffffffff), PageKey(p, 0, 0x11, 0));
  EXPECT_LT(PageKey(p, 0, ~uint64_t{0}, 0), PageKey(p, 32, 0, 0));
  EXPECT_LT(EventKey(p, Time(255), 9), EventKey(p, Time(256), 0));
  EXPECT_LT(EventKey(p, kTimeMax, 0), EventKey(ProcessNo(4), Time(0), 0));
  EXPECT_EQ(ReadBig64(PageKey(p, 32, 0x7fffffffe, 6).substr(8)), 0x7fffffffeu);
}

TEST(MapChangeTest, ReadsBackWhatWasWritten) {
  MapChange c;
  c.kind = MapChange::kRemap;
  c.time = Time(1234567890123);
  c.thread = ThreadNo(7);
  c.pc = Address(0x401000);
  c.range = {Address(0x7f0000000000), Address(0x7f0000010000)};
  c.to = Address(0x7e0000000000);
  c.protection = 5;
  c.shared = true;
  c.syscall = 25;
  c.file_offset = 4096;
  c.file_id = ~uint64_t{0};
  c.path = "/lib/x.so";
  auto back = MapChange::Parse(c.Encode());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->Encode(), c.Encode());
  EXPECT_EQ(back->to, c.to);
  EXPECT_EQ(back->syscall, 25);
  EXPECT_EQ(back->path, "/lib/x.so");
  std::string encoded = c.Encode();
  for (size_t n = 0; n + c.path.size() < encoded.size(); ++n) {
    EXPECT_FALSE(MapChange::Parse(std::string_view(encoded).substr(0, n)).ok()) << n;
  }
}

TEST(MapChangeTest, ASystemCallOfAnyNumber) {
  MapChange c;
  c.syscall = INT32_MAX;  // one more is no number
  EXPECT_FALSE(MapChange::Parse(c.Encode()).ok());
  c.syscall = INT32_MAX - 1;
  auto back = MapChange::Parse(c.Encode());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->syscall, INT32_MAX - 1);
}

TEST(VarintTest, ReadsBackAndStopsAtTheEnd) {
  for (uint64_t v : {uint64_t{0}, uint64_t{127}, uint64_t{128}, ~uint64_t{0}}) {
    std::string s;
    AppendVarint(&s, v);
    std::string_view in = s;
    uint64_t back;
    ASSERT_TRUE(ReadVarint(&in, &back));
    EXPECT_EQ(back, v);
    EXPECT_TRUE(in.empty());
    in = std::string_view(s).substr(0, s.size() - 1);
    EXPECT_FALSE(ReadVarint(&in, &back));
  }
}

TEST(SpanPagesTest, ReadsBackWhatWasWritten) {
  const std::vector<std::pair<uint64_t, uint32_t>> pages = {
      {7, 1}, {8, 0xffff}, {300, 0x8000}, {uint64_t{1} << 40, 2}};
  std::vector<std::pair<uint64_t, uint32_t>> read;
  const auto take = [&](uint64_t page, uint32_t parts) {
    read.emplace_back(page, parts);
    return page != 300;
  };
  EXPECT_TRUE(SpanPages::ForEach(SpanPages::Encode(pages), 7, take).ok());
  EXPECT_EQ(read, std::vector(pages.begin(), pages.begin() + 3));
}

TEST(SpanPagesTest, DamageIsAnError) {
  const auto all = [](uint64_t, uint32_t) { return true; };
  const std::string row = SpanPages::Encode({{{7, 1}, {1000, 0x8000}}});
  for (size_t n = 1; n < row.size(); ++n) {
    EXPECT_EQ(SpanPages::ForEach(row.substr(0, n), 7, all).ok(), n == 2) << n;
  }
  EXPECT_FALSE(SpanPages::ForEach(SpanPages::Encode({{{7, 1 << kSpanParts}}}), 7, all).ok());
}

TEST(ElfTest, RubbishHasNoBuildIdAndNoBias) {
  EXPECT_EQ(ElfBuildId(""), "");
  EXPECT_EQ(ElfBuildId(std::string(64, '\x7f')), "");
  EXPECT_TRUE(ElfLoadBiases("\x7f"
                            "ELF",
                            0, 0x1000, 5)
                  .empty());
}

TEST(ElfTest, ReadsTheBuildId) {
  std::ifstream in("/proc/self/exe", std::ios::binary);
  ASSERT_TRUE(in);
  const std::string id = ElfBuildId([&](uint64_t offset, size_t n, void* out) {
    in.clear();
    in.seekg(static_cast<std::streamoff>(offset));
    return static_cast<bool>(in.read(static_cast<char*>(out), static_cast<std::streamsize>(n)));
  });
  // What the linker wrote is in this program's memory too.
  std::string expected;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& p = info->dlpi_phdr[i];
          if (p.p_type != PT_NOTE) continue;
          const char* at = reinterpret_cast<const char*>(info->dlpi_addr + p.p_vaddr);
          for (const char* end = at + p.p_filesz; at < end;) {
            ElfW(Nhdr) note;
            memcpy(&note, at, sizeof(note));
            at += sizeof(note) + ((note.n_namesz + 3) & ~3u);
            if (note.n_type == NT_GNU_BUILD_ID) {
              *static_cast<std::string*>(to) = absl::BytesToHexString({at, note.n_descsz});
            }
            at += (note.n_descsz + 3) & ~3u;
          }
        }
        return 1;  // the program itself comes first
      },
      &expected);
  EXPECT_EQ(id, expected);
}

}  // namespace
}  // namespace ttq

// SPDX-License-Identifier: MIT
//
// Stores whose rows are wrong although every checksum is right, which damage to files (see
// damage_test.py) hardly ever makes: rows that are missing, changed, or swapped, other versions,
// databases of others. Whatever they say, a reader gives answers or errors with words, and `check`
// notices what would make an answer wrong.

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <rocksdb/db.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "store/database.h"
#include "store/format/format.h"
#include "store/format/message.h"
#include "store/format/seal.h"
#include "store/format/trace.capnp.h"
#include "store/read/reader.h"
#include "tests/support/trace_text.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;

constexpr AddressRange kMemory{Address(0x10000), Address(0x50000)};

struct Row {
  Family family;
  std::string key, value;
};
using Rows = std::vector<Row>;

// What a reader said.
struct Answers {
  absl::Status opened;
  std::vector<absl::Status> errors;
  std::vector<std::string> problems;  // of check
};

void Expect(const absl::Status& s, Answers* out) {
  if (s.ok()) return;
  const auto code = s.code();
  EXPECT_TRUE(code == absl::StatusCode::kDataLoss || code == absl::StatusCode::kNotFound ||
              code == absl::StatusCode::kFailedPrecondition ||
              code == absl::StatusCode::kOutOfRange)
      << s;
  EXPECT_FALSE(s.message().empty());
  EXPECT_EQ(s.message().find('\n'), absl::string_view::npos) << s;
  out->errors.push_back(s);
}

template <class Row>
void Pull(absl::StatusOr<std::unique_ptr<Cursor<Row>>> cursor, Answers* out) {
  if (!cursor.ok()) return Expect(cursor.status(), out);
  for (int i = 0; i < 10000; ++i) {
    auto row = (*cursor)->Next();
    if (!row.ok()) return Expect(row.status(), out);
    if (!*row) return;
  }
  ADD_FAILURE() << "a cursor without end";
}

void AskAt(const Process& process, Time t, Answers* out) {
  Expect(process.MappingsAt(t).status(), out);
  Expect(process.Memory(Address(0x40000), 8192, t).status(), out);
  Expect(process.ThreadAt(t).status(), out);
  Expect(process.RegistersAt(t, std::nullopt).status(), out);
  Expect(process.RegistersAt(t, ThreadNo(2)).status(), out);
  (void)process.DescribeUnmapped(Address(0x14000), t);
  (void)process.WallClock(t);
}

void AskProcess(const Process& process, Answers* out) {
  const Time end = process.info().end;
  for (Time t : {Time(0), Time(2), Time(3), Time(end.v / 2), end}) AskAt(process, t, out);
  auto moment = process.At(Time(0));
  Expect(moment.status(), out);
  for (uint64_t t = 0; moment.ok() && t < std::min<uint64_t>(end.v, 60); t += 3) {
    char bytes[64];
    Expect((*moment)->MoveTo(Time(t)), out);
    Expect((*moment)->Read(Address(0x10000), sizeof(bytes), bytes).status(), out);
    Expect((*moment)->RegistersOf(std::nullopt).status(), out);
  }
  for (Direction direction : {Direction::kForward, Direction::kBackward}) {
    for (bool full_scan : {false, true}) {
      AccessQuery query;
      query.ranges = {kMemory};
      query.reads = true;
      query.direction = direction;
      query.full_scan = full_scan;
      Pull(process.Accesses(query, nullptr), out);
      Expect(process.ExplainAccesses(query).status(), out);
    }
    const std::vector<AddressRange> code = {{Address(0x401000), Address(0x401010)}};
    Pull(process.Executions(code, {}, direction, std::nullopt, nullptr), out);
    EventQuery events;
    events.direction = direction;
    Pull(process.Events(events), out);
  }
  Expect(process.Modules().status(), out);
}

Answers AskAll(const std::string& directory) {
  Answers out;
  auto recording = Recording::Open(directory);
  out.opened = recording.status();
  Expect(recording.status(), &out);
  if (!recording.ok()) return out;
  for (const ProcessInfo& info : (*recording)->processes()) {
    auto process = (*recording)->Open(info.number);
    Expect(process.status(), &out);
    if (process.ok()) AskProcess(**process, &out);
  }
  Expect((*recording)->Check([&](const std::string& p) { out.problems.push_back(p); }, nullptr),
         &out);
  for (const std::string& p : out.problems) EXPECT_FALSE(p.empty());
  return out;
}

class StoreTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    // Hundreds of stores are made; on a disk each waits for it several times.
    std::error_code none;
    std::string place = (fs::is_directory("/dev/shm", none) ? "/dev/shm" : "/tmp");
    place += "/store-test-XXXXXX";
    ASSERT_NE(mkdtemp(place.data()), nullptr);
    scratch_ = new std::string(place);
    good_ = new Rows();
    std::ifstream file(TTQ_HISTORY);
    const std::string history{std::istreambuf_iterator<char>(file), {}};
    const absl::Status s = RecordText(history, place + "/good");
    ASSERT_TRUE(s.ok()) << s;
    auto database = Database::OpenForReading(place + "/good/db");
    ASSERT_TRUE(database.ok()) << database.status();
    for (int f = 0; f < static_cast<int>(Family::kCount); ++f) {
      auto it = (*database)->NewIterator(static_cast<Family>(f));
      for (it->Seek(""); it->Valid(); it->Next()) {
        good_->push_back(
            {static_cast<Family>(f), std::string(it->key()), std::string(it->value())});
      }
    }
  }
  static void TearDownTestSuite() {
    fs::remove_all(*scratch_);
    delete scratch_;
    delete good_;
  }

  // A recording of these rows.
  static std::string Write(const Rows& rows) {
    const std::string directory = *scratch_ + "/written";
    fs::remove_all(directory);
    fs::create_directory(directory);
    auto database = Database::Create(directory + "/db");
    EXPECT_TRUE(database.ok()) << database.status();
    Database::Batch batch;
    std::map<std::pair<Family, std::string>, std::string> sorted;  // no key twice
    for (const Row& r : rows) sorted[{r.family, r.key}] = r.value;
    for (const auto& [place, value] : sorted) {
      if (place.first == Family::kMeta) {
        EXPECT_TRUE((*database)->Put(place.second, value).ok());
      } else {
        batch.Put(place.first, place.second, value);
      }
    }
    EXPECT_TRUE((*database)->Add(std::move(batch)).ok());
    EXPECT_TRUE((*database)->Flush().ok());
    database->reset();
    EXPECT_TRUE(WriteSeal(directory).ok());
    return directory;
  }

  // Up to `most` rows of each family, spread over it.
  static std::vector<size_t> Sample(size_t most) {
    std::map<Family, std::vector<size_t>> by_family;
    for (size_t i = 0; i < good_->size(); ++i) by_family[(*good_)[i].family].push_back(i);
    std::vector<size_t> out;
    for (const auto& [family, rows] : by_family) {
      const size_t step = std::max<size_t>(1, rows.size() / most);
      for (size_t i = 0; i < rows.size(); i += step) out.push_back(rows[i]);
    }
    return out;
  }

  // The rows with one record of kMeta changed.
  template <class Root>
  static Rows Changed(const std::string& key,
                      const std::function<void(typename Root::Builder)>& f) {
    Rows rows = *good_;
    for (Row& r : rows) {
      if (r.family != Family::kMeta || r.key != key) continue;
      capnp::MallocMessageBuilder message;
      const absl::Status s = ReadMessage<Root>(
          r.value, "test", [&](typename Root::Reader reader) { message.setRoot(reader); });
      EXPECT_TRUE(s.ok());
      f(message.getRoot<Root>());
      r.value = BytesOf(message);
    }
    return rows;
  }

  static std::string Describe(const Row& row) {
    std::string out = FamilyName(row.family) + std::string(" row ");
    for (unsigned char c : row.key) {
      char hex[4];
      std::snprintf(hex, sizeof(hex), "%02x", c);
      out += hex;
    }
    return out;
  }

  static std::string* scratch_;
  static Rows* good_;
};
std::string* StoreTest::scratch_;
Rows* StoreTest::good_;

TEST_F(StoreTest, WhatIsWrittenAgainIsAsGood) {
  const Answers answers = AskAll(Write(*good_));
  EXPECT_TRUE(answers.opened.ok());
  EXPECT_TRUE(answers.problems.empty()) << answers.problems[0];
  // Thread 2 has not begun, or is gone, at some of the times.
  for (const absl::Status& s : answers.errors) EXPECT_TRUE(absl::IsNotFound(s)) << s;
}

TEST_F(StoreTest, AnyRowMayBeMissing) {
  for (size_t i : Sample(5)) {
    SCOPED_TRACE(Describe((*good_)[i]) + " is missing");
    const Family family = (*good_)[i].family;
    Rows rows = *good_;
    rows.erase(rows.begin() + static_cast<ptrdiff_t>(i));
    const Answers answers = AskAll(Write(rows));
    // A missing event or mapping cannot be seen, nor the page that a mapping moved. The others can.
    bool touched = family == Family::kBlock || family == Family::kExec || family == Family::kCode;
    if (family == Family::kPage) {
      auto entry = PageEntryView::Parse((*good_)[i].value);
      ASSERT_TRUE(entry.ok());
      touched = entry->written().any() || entry->read().any();
    }
    if (touched) {
      EXPECT_FALSE(answers.problems.empty());
    }
  }
}

TEST_F(StoreTest, AnyByteMayBeAnother) {
  std::mt19937 random(5);
  size_t noticed = 0, tried = 0;
  for (size_t i : Sample(8)) {
    SCOPED_TRACE(Describe((*good_)[i]) + " is changed");
    Rows rows = *good_;
    std::string& value = rows[i].value;
    if (value.empty()) continue;
    for (int n = 0; n < 3; ++n) {
      value[random() % value.size()] ^= static_cast<char>(1 << random() % 8);
    }
    const Answers answers = AskAll(Write(rows));
    ++tried;
    noticed += !answers.problems.empty() || !answers.opened.ok();
  }
  EXPECT_GT(noticed, tried / 3) << "of " << tried;
}

TEST_F(StoreTest, AnyValueMayBeCutOrLonger) {
  for (size_t i : Sample(3)) {
    SCOPED_TRACE(Describe((*good_)[i]));
    Rows rows = *good_;
    rows[i].value.resize(rows[i].value.size() / 2);
    (void)AskAll(Write(rows));
    rows[i].value = (*good_)[i].value + std::string(100, '\xff');
    (void)AskAll(Write(rows));
  }
}

// A row that is sound, at another row's place.
TEST_F(StoreTest, AnyTwoRowsMayBeSwapped) {
  std::mt19937 random(6);
  for (size_t i : Sample(6)) {
    std::vector<size_t> others;
    for (size_t j = 0; j < good_->size(); ++j) {
      if ((*good_)[j].family == (*good_)[i].family && j != i) others.push_back(j);
    }
    if (others.empty()) continue;
    const size_t j = others[random() % others.size()];
    SCOPED_TRACE(Describe((*good_)[i]) + " has the value of " + Describe((*good_)[j]));
    Rows rows = *good_;
    std::swap(rows[i].value, rows[j].value);
    const Answers answers = AskAll(Write(rows));
    if ((*good_)[i].family == Family::kBlock) {
      EXPECT_FALSE(answers.problems.empty());
    }
  }
}

TEST_F(StoreTest, BlocksThatTheIndexMadeUp) {
  for (uint32_t block : {uint32_t{43}, uint32_t{5000}, ~uint32_t{0}}) {
    Rows rows = *good_;
    for (Row& r : rows) {
      if (r.family == Family::kExec) AppendVarint(&r.value, block), AppendVarint(&r.value, 1);
    }
    Row page;
    for (const Row& r : rows) {
      if (r.family == Family::kPage) page = r;
    }
    page.key.resize(page.key.size() - 4);
    AppendBig32(&page.key, block);
    rows.push_back(page);
    EXPECT_TRUE(AskAll(Write(rows)).opened.ok());
  }
}

TEST_F(StoreTest, OtherVersions) {
  auto open = [&](uint32_t version) {
    return std::string(AskAll(Write(Changed<schema::Recording>(RecordingKey(), [&](auto r) {
                         r.setStoreVersion(version);
                       }))).opened.message());
  };
  const std::string place = *scratch_ + "/written: ";
  for (uint32_t known = kOldestStoreVersion; known <= kStoreVersion; ++known) {
    EXPECT_EQ(open(known), "");
  }
  const std::string reads = ", this ttq reads versions " + std::to_string(kOldestStoreVersion) +
                            " to " + std::to_string(kStoreVersion);
  EXPECT_EQ(open(kStoreVersion + 1), place + "store version " + std::to_string(kStoreVersion + 1) +
                                         reads + "; use a newer ttq");
  const std::string old = std::to_string(kOldestStoreVersion - 1);
  EXPECT_EQ(open(kOldestStoreVersion - 1), place + "store version " + old + reads);
}

TEST_F(StoreTest, TimesThatCannotBe) {
  const std::string group = GroupKey(ProcessNo(1), 0);
  auto ask = [&](const std::function<void(schema::Group::Builder)>& f) {
    return AskAll(Write(Changed<schema::Group>(group, f)));
  };
  const auto said = [](const Answers& answers, std::string_view what) {
    for (const std::string& p : answers.problems) {
      if (p.find(what) != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_TRUE(
      said(ask([](auto g) { g.getBlocks()[1].setEndTime(0); }), "a block ends before it starts"));
  EXPECT_TRUE(said(ask([](auto g) { g.setFirstBlock(7); }), "the record of block 0 is missing"));
  EXPECT_TRUE(said(ask([](auto g) { g.getBlocks()[0].setEndTime(2); }),
                   "it starts at another time than the one before ends"));
  auto last = ask([](auto g) {
    auto b = g.getBlocks();
    b[b.size() - 1].setEndTime(~uint64_t{0});
  });
  EXPECT_FALSE(last.problems.empty());
  ask([](auto g) {
    for (auto b : g.getBlocks()) {
      b.setWallStartNs(INT64_MIN);
      b.setWallEndNs(INT64_MAX);
    }
  });
}

// What is missing at the end does not look like damage; the process's record tells.
TEST_F(StoreTest, AHistoryThatIsCutShortIsIncomplete) {
  const auto of = [](const Rows& rows) {
    auto recording = Recording::Open(Write(rows));
    EXPECT_TRUE(recording.ok()) << recording.status();
    auto process = (*recording)->Open(ProcessNo(1));
    EXPECT_TRUE(process.ok()) << process.status();
    return (*process)->info();
  };
  EXPECT_TRUE(of(*good_).complete);
  std::string last;  // group
  for (const Row& r : *good_) {
    if (r.family == Family::kMeta && r.key.starts_with("group/")) last = r.key;
  }
  Rows rows = *good_;
  std::erase_if(rows, [&](const Row& r) { return r.key == last; });
  ProcessInfo info = of(rows);
  EXPECT_FALSE(info.complete);
  EXPECT_NE(info.incomplete_reason.find("it is damaged: of "), std::string::npos)
      << info.incomplete_reason;
  info = of(Changed<schema::Group>(last, [](auto g) {
    auto some =
        capnp::Orphanage::getForMessageContaining(g)
            .template newOrphan<capnp::List<schema::Group::BlockSummary>>(g.getBlocks().size() - 1);
    for (unsigned i = 0; i < some.get().size(); ++i) {
      some.get().setWithCaveats(i, g.getBlocks()[i].asReader());
    }
    g.adoptBlocks(std::move(some));
  }));
  EXPECT_FALSE(info.complete);
}

// A file's bytes are what its id says, or none.
TEST_F(StoreTest, FilesAreComparedWithTheirHash) {
  const auto id_of = [](const std::string& bytes) {
    return FileIdOf(XXH3_64bits(bytes.data(), bytes.size()));
  };
  const std::string a(100'000, 'a'), b(100'000, 'b');
  Rows rows = *good_;
  for (const std::string& bytes : {a, b}) {
    capnp::MallocMessageBuilder message;
    auto r = message.initRoot<schema::File>();
    r.setPath("/nowhere/at/all");
    r.setSize(bytes.size());
    rows.push_back({Family::kMeta, FileKey(id_of(bytes)), BytesOf(message)});
    for (uint32_t chunk : {0, 1}) {
      rows.push_back({Family::kFile, FileChunkKey(id_of(bytes), chunk),
                      bytes.substr(chunk * kFileChunkBytes, kFileChunkBytes)});
    }
  }
  {
    auto recording = Recording::Open(Write(rows));
    ASSERT_TRUE(recording.ok()) << recording.status();
    auto image = (*recording)->FileContents(id_of(a));
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(std::string(image->bytes().begin(), image->bytes().end()), a);
    EXPECT_TRUE((*recording)->Damage().ok());
    EXPECT_TRUE(AskAll((*recording)->info().path).problems.empty());
  }
  const auto expect_damage = [&](const Rows& damaged, std::string_view what) {
    auto recording = Recording::Open(Write(damaged));
    ASSERT_TRUE(recording.ok()) << recording.status();
    const absl::Status s = (*recording)->FileContents(id_of(a)).status();
    EXPECT_TRUE(absl::IsDataLoss(s)) << s;
    EXPECT_NE(std::string(s.message()).find(what), std::string::npos) << s;
    // Also for who did not look at the error.
    EXPECT_EQ((*recording)->Damage(), s);
    EXPECT_FALSE(AskAll((*recording)->info().path).problems.empty());
  };
  Rows swapped = rows;
  const size_t n = rows.size();
  std::swap(swapped[n - 5].value, swapped[n - 2].value);
  std::swap(swapped[n - 4].value, swapped[n - 1].value);
  expect_damage(swapped, "differs from its hash");
  Rows cut = rows;
  cut.erase(cut.end() - 4);
  expect_damage(cut, "is cut off");
}

// Sorted files that are sound, under each other's names.
TEST_F(StoreTest, SortedFilesHaveTheirPlace) {
  const std::string directory = *scratch_ + "/sorted";
  {
    auto database = Database::Create(directory);
    ASSERT_TRUE(database.ok()) << database.status();
    for (const char* text : {"a", "b"}) {
      Database::Batch batch;
      batch.Put(Family::kEvent, std::string(text) + "-key", std::string(text) + "-value");
      ASSERT_TRUE((*database)->Add(std::move(batch)).ok());
    }
  }
  std::map<uintmax_t, std::vector<fs::path>> by_size;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".sst") by_size[entry.file_size()].push_back(entry.path());
  }
  ASSERT_EQ(by_size.size(), 1u);  // else they would be told apart by their size
  const std::vector<fs::path>& files = by_size.begin()->second;
  ASSERT_EQ(files.size(), 2u);
  const auto read = [&] {
    auto database = Database::OpenForReading(directory);
    if (!database.ok()) return absl::Status(database.status());
    absl::Status s = (*database)->Get(Family::kEvent, "a-key").status();
    if (s.ok() || absl::IsNotFound(s)) s = (*database)->Get(Family::kEvent, "b-key").status();
    EXPECT_EQ((*database)->VerifyChecksums().ok(), s.ok());
    EXPECT_EQ((*database)->Damage().ok(), s.ok());
    return s;
  };
  EXPECT_TRUE(read().ok()) << read();
  fs::rename(files[0], directory + "/other");
  fs::rename(files[1], files[0]);
  fs::rename(directory + "/other", files[1]);
  EXPECT_TRUE(absl::IsDataLoss(read())) << read();
  fs::remove_all(directory);
}

// Where rows end is told from where they cannot be read, also from one sorted file to the next.
TEST_F(StoreTest, AnIteratorDoesNotEndAtDamage) {
  const std::string directory = *scratch_ + "/several";
  constexpr int kFiles = 4;
  {
    auto database = Database::Create(directory);
    ASSERT_TRUE(database.ok()) << database.status();
    for (int i = 0; i < kFiles; ++i) {
      Database::Batch batch;
      for (char c : {'a', 'b', 'c'}) {
        batch.Put(Family::kEvent, std::to_string(i) + c, std::string(100, c));
      }
      ASSERT_TRUE((*database)->Add(std::move(batch)).ok());
    }
  }
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".sst") files.push_back(entry.path());
  }
  ASSERT_EQ(files.size(), size_t{kFiles});
  std::sort(files.begin(), files.end());
  // How many rows come, and what is said at their end.
  const auto walk = [&](bool forward, std::string_view from) {
    auto database = Database::OpenForReading(directory);
    if (!database.ok()) return std::pair(0, absl::Status(database.status()));
    auto it = (*database)->NewIterator(Family::kEvent);
    int rows = 0;
    forward ? it->Seek(from) : it->SeekForPrev(from);
    for (; it->Valid(); forward ? it->Next() : it->Prev()) ++rows;
    EXPECT_EQ((*database)->Damage(), it->status());
    return std::pair(rows, it->status());
  };
  // How many there are.
  const auto between = [](bool forward, std::string_view from) {
    int rows = 0;
    for (int i = 0; i < kFiles; ++i) {
      for (char c : {'a', 'b', 'c'}) {
        const std::string key = std::to_string(i) + c;
        rows += forward ? key >= from : key <= from;
      }
    }
    return rows;
  };
  const auto places = {"", "0b", "1", "1bb", "2a", "3a", "3c", "9"};
  for (bool forward : {true, false}) {
    for (std::string_view from : places) {
      EXPECT_EQ(walk(forward, from), std::pair(between(forward, from), absl::OkStatus())) << from;
    }
  }
  for (const fs::path& path : files) {
    std::ifstream in(path, std::ios::binary);
    const std::string good{std::istreambuf_iterator<char>(in), {}};
    // The first block, the properties, and the file as a whole.
    for (size_t at : {size_t{3}, good.size() - 300, good.size()}) {
      std::string bad = good;
      at < bad.size() ? (void)(bad[at] ^= 4) : bad.resize(60);
      std::ofstream(path, std::ios::binary).write(bad.data(), std::ssize(bad));
      for (bool forward : {true, false}) {
        for (std::string_view from : places) {
          const auto [rows, status] = walk(forward, from);
          EXPECT_TRUE(!status.ok() || rows == between(forward, from))
              << path << " " << at << " " << from << " " << rows;
        }
        EXPECT_TRUE(absl::IsDataLoss(walk(forward, forward ? "" : "9").second)) << path << at;
      }
    }
    std::ofstream(path, std::ios::binary).write(good.data(), std::ssize(good));
  }
  fs::remove_all(directory);
}

TEST_F(StoreTest, ProcessesThatCannotBe) {
  const std::string key = ProcessKey(ProcessNo(1));
  auto ask = [&](const std::function<void(schema::Process::Builder)>& f) {
    return AskAll(Write(Changed<schema::Process>(key, f)));
  };
  ask([](auto p) { p.setNumber(0); });
  ask([](auto p) { p.setNumber(9); });
  ask([](auto p) { p.setParent(1); });  // its own
  ask([](auto p) { p.setParent(77); });
  ask([](auto p) { p.setBlocks(~uint64_t{0}); });
  ask([](auto p) { p.setCrash(INT64_MAX); });
  ask([](auto p) { p.setForkTime(~uint64_t{0}); });
  ask([](auto p) {
    for (auto t : p.getThreads()) t.setNumber(0);
  });
}

// Those that RocksDB keeps of the file itself, which it reads when it opens the file.
TEST_F(StoreTest, AnyByteOfTheEndOfAFileMayBeAnother) {
  constexpr size_t kEnd = 200;
  size_t files = 0, noticed = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(*scratch_ + "/good/db")) {
    if (entry.path().extension() != ".sst") continue;
    ++files;
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string good{std::istreambuf_iterator<char>(in), {}};
    const auto write = [&](const std::string& bytes) {
      std::ofstream(entry.path(), std::ios::binary).write(bytes.data(), std::ssize(bytes));
    };
    ASSERT_GT(good.size(), kEnd);
    for (size_t i = good.size() - kEnd; i < good.size(); ++i) {
      SCOPED_TRACE("byte " + std::to_string(i) + " of " + entry.path().filename().string());
      std::string bytes = good;
      bytes[i] ^= static_cast<char>(0x80);
      write(bytes);
      auto database = Database::OpenForReading(*scratch_ + "/good/db");
      const absl::Status s =
          database.ok() ? (*database)->VerifyChecksums() : absl::Status(database.status());
      EXPECT_TRUE(s.ok() || absl::IsDataLoss(s)) << s;
      noticed += !s.ok();
    }
    write(good);
  }
  EXPECT_GT(noticed, files * kEnd / 2);  // a part of a footer is not used
}

TEST_F(StoreTest, DatabasesOfOthers) {
  const std::string directory = *scratch_ + "/foreign";
  auto message = [&] { return std::string(Recording::Open(directory).status().message()); };
  fs::create_directory(directory);
  {
    rocksdb::Options options;
    options.create_if_missing = true;
    rocksdb::DB* db = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(options, directory + "/db", &db).ok());
    ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), "recording", "of something else").ok());
    delete db;
  }
  EXPECT_EQ(message(), directory + "/db: a RocksDB store, but not a recording");
  fs::remove_all(directory + "/db");
  {
    auto database = Database::Create(directory + "/db");
    ASSERT_TRUE(database.ok());
  }
  EXPECT_EQ(message(), directory + ": a RocksDB store, but not a recording");
  fs::remove_all(directory + "/db");
  {
    auto database = Database::Create(directory + "/db");
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE((*database)->Put(RecordingKey(), "rubbish").ok());
  }
  EXPECT_EQ(message(), "a damaged record: recording");
}

}  // namespace
}  // namespace ttq

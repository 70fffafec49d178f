// SPDX-License-Identifier: MIT
//
// The engine on a recording in memory: a query, and the rows or the error it must give.

#include "query/engine/engine.h"

#include <cmath>
#include <limits>

#include "base/text.h"
#include "gtest/gtest.h"
#include "query/answers/format.h"
#include "query/language/diagnostic.h"
#include "query/language/parser.h"
#include "tests/support/fake_recording.h"

namespace ttq {
namespace {

class EngineTest : public ::testing::Test {
 protected:
  EngineTest() {
    FakeProcess& p = recording_.process_;
    p.Map(0x1000, 0x3000);
    p.Map(0x8000, 0x9000, "/lib/libx.so");
    p.initial_[Address(0x2000)] = std::string("hello\0there", 11);
    p.threads_.push_back({.number = ThreadNo(2),
                          .os_tid = 101,
                          .start = Time(50),
                          .end = Time(900),
                          .instructions = 400});
    p.AddWrite(10, 0x1000, 0x11, 8, 0x401000);
    p.AddWrite(20, 0x1004, 0x22, 4, 0x401010);
    p.AddRead(25, 0x1000, 8, 0x401020);
    p.AddWrite(30, 0x1000, 0x33, 1, 0x401000, 2);
    p.AddWrite(40, 0x1000, 0x44, 8, 0x401000).actor = Actor::kSyscall;
    p.accesses_.back().syscall = 0;
    p.AddWrite(50, 0x1040, 0x55, 32);
    for (uint64_t t : {100, 200, 300, 400}) {
      p.executions_.push_back({Time(t), ThreadNo(t == 300 ? 2 : 1), Address(0x401000)});
    }
    p.events_.push_back({.time = Time(5),
                         .thread = ThreadNo(1),
                         .kind = EventKind::kSyscall,
                         .detail = "brk(0) = 0x1000",
                         .number = 12,
                         .result = 4096});
    p.events_.push_back({.time = Time(60),
                         .thread = ThreadNo(1),
                         .kind = EventKind::kOutput,
                         .detail = "hi\\n",
                         .bytes = "hi\n"});
    p.registers_[1].gpr[kRdi] = 0x2000;
  }

  // Column names, then rows, values separated by spaces as they are in JSON; or the error with its
  // caret. `select` of a few columns keeps expectations short.
  std::string Ask(const std::string& text, const RunOptions& options = {}) {
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Open(&recording_, std::nullopt);
    EXPECT_TRUE(engine.ok());
    engine_ = *std::move(engine);
    absl::StatusOr<ast::Query> query = ParseQuery(text);
    if (!query.ok()) return Error(query.status(), text);
    absl::StatusOr<std::unique_ptr<ResultStream>> stream = engine_->Run(*query, options);
    if (!stream.ok()) return Error(stream.status(), text);
    stream_ = *std::move(stream);
    std::string out;
    for (const Column& column : stream_->columns()) out += (out.empty() ? "" : " ") + column.name;
    Row row;
    while (true) {
      absl::StatusOr<bool> more = stream_->Next(&row);
      if (!more.ok()) return out + "\n" + Error(more.status(), text);
      if (!*more) return out;
      out += '\n';
      for (size_t i = 0; i < row.size(); ++i) {
        if (i > 0) out += ' ';
        AppendJson(row[i], stream_->columns()[i].type, &out);
      }
    }
  }

  std::string Format(const std::string& text, FormatOptions options) {
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Open(&recording_, std::nullopt);
    engine_ = *std::move(engine);
    absl::StatusOr<ast::Query> query = ParseQuery(text);
    EXPECT_TRUE(query.ok()) << query.status();
    absl::StatusOr<std::unique_ptr<ResultStream>> stream = engine_->Run(*query, {});
    EXPECT_TRUE(stream.ok()) << stream.status();
    std::string out;
    AnswerSummary summary;
    const absl::Status status = WriteAnswer(
        **stream, {.trace = "T", .process = 1, .query = text}, options,
        [&out](std::string_view piece) { out += piece; }, &summary);
    EXPECT_TRUE(status.ok()) << status;
    return out;
  }

  static std::string Error(const absl::Status& status, const std::string& text) {
    const std::optional<Diagnostic> diagnostic = GetDiagnostic(status);
    return diagnostic ? RenderDiagnostic(text, *diagnostic) : status.ToString();
  }

  FakeRecording recording_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<ResultStream> stream_;
};

TEST_F(EngineTest, LastWriteIsTheLastThatTouchesTheByte) {
  EXPECT_EQ(Ask("last write to 0x1000 | select time, address, size, value, previous, actor"),
            "time address size value previous actor\n"
            R"(40 "0x1000" 8 "0x44" "0x2200000033" "syscall read")");
  // One byte of the word: the write of four bytes at 0x1004 covers it too.
  EXPECT_EQ(Ask("last write to 0x1004 before 40 | select time"), "time\n20");
  EXPECT_EQ(Ask("last write to 0x1003 before 40 | select time"), "time\n10");
}

TEST_F(EngineTest, LastWriteAsksBackwardsAndStops) {
  Ask("last write to 0x1000");
  EXPECT_EQ(recording_.process_.last_query_.direction, Direction::kBackward);
  EXPECT_EQ(recording_.process_.accesses_given_, 1u);
}

TEST_F(EngineTest, EveryColumnOfAMoment) {
  EXPECT_EQ(Ask("first write to 0x1000"),
            "time thread pc function module file line python address size value previous actor\n"
            R"(10 1 "0x401000" null null null null null "0x1000" 8 "0x11" "0x0" "instruction")");
}

TEST_F(EngineTest, SpansExcludeWhatTheySay) {
  EXPECT_EQ(Ask("writes to 0x1000 before 40 | select time"), "time\n10\n30");
  EXPECT_EQ(Ask("writes to 0x1000 after 10 | select time"), "time\n30\n40");
  EXPECT_EQ(Ask("writes to 0x1000 between 10 and 40 | select time"), "time\n10\n30");
  EXPECT_EQ(Ask("next write to 0x1000 after 10 | select time"), "time\n30");
  EXPECT_EQ(Ask("writes to 0x1000 len 8 in thread 2 | select time, thread"), "time thread\n30 2");
}

TEST_F(EngineTest, ReadsAndAccesses) {
  EXPECT_EQ(Ask("reads of 0x1000 | select time, value, previous"),
            "time value previous\n25 \"0x2200000011\" null");
  EXPECT_EQ(Ask("accesses to 0x1000 | select time, kind"),
            "time kind\n10 \"write\"\n25 \"read\"\n30 \"write\"\n40 \"write\"");
}

TEST_F(EngineTest, ConditionsSayWhichWriteIsMeant) {
  EXPECT_EQ(Ask("last write to 0x1000 where size == 1 | select time"), "time\n30");
  EXPECT_EQ(Ask("last write to 0x1000 | where size == 1 | select time"), "time\n30");
  EXPECT_EQ(Ask("writes to 0x1000..0x1010 where value in (0x22, 0x33) and not thread = 1"
                " | select time"),
            "time\n30");
  EXPECT_EQ(Ask("writes to 0x1000 where actor matches \"sys*\" | select time"), "time\n40");
  EXPECT_EQ(Ask("writes to 0x1000 where actor matches /^inst/ | select time"), "time\n10\n30");
  EXPECT_EQ(Ask("writes to 0x1000 where function is null and time between 20 and 30"
                " | select time"),
            "time\n30");
  EXPECT_EQ(Ask("writes to 0x1000 where string($rdi) = \"hello\" | count"), "count\n2");
}

TEST_F(EngineTest, BoundsOnTimeAndThreadReachTheStore) {
  Ask("writes to 0x1000 where time > 10 and time <= 30 and thread == 2");
  EXPECT_EQ(recording_.process_.last_query_.span, (TimeSpan{Time(11), Time(31)}));
  EXPECT_EQ(recording_.process_.last_query_.thread, ThreadNo(2));
}

TEST_F(EngineTest, NullIsNeitherEqualNorUnequal) {
  EXPECT_EQ(Ask("writes to 0x1000 where function = \"f\" | count"), "count\n0");
  EXPECT_EQ(Ask("writes to 0x1000 where function != \"f\" | count"), "count\n0");
  EXPECT_EQ(Ask("writes to 0x1000 where not function = \"f\" | count"), "count\n0");
  EXPECT_EQ(Ask("writes to 0x1000 where function = \"f\" or size > 0 | count"), "count\n3");
}

TEST_F(EngineTest, Stages) {
  EXPECT_EQ(Ask("writes to 0x1000..0x2000 | last 2 | select time"), "time\n40\n50");
  EXPECT_EQ(recording_.process_.last_query_.direction, Direction::kBackward);
  EXPECT_EQ(Ask("writes to 0x1000..0x2000 | first 2 | select time"), "time\n10\n20");
  EXPECT_EQ(Ask("writes to 0x1000..0x2000 | sort by size, time desc | select size, time"),
            "size time\n1 30\n4 20\n8 40\n8 10\n32 50");
  EXPECT_EQ(Ask("writes to 0x1000..0x2000 | sort by time desc | first 1 | select time"),
            "time\n50");
  EXPECT_EQ(Ask("writes to 0x1000..0x2000 | count by thread, pc"),
            "thread pc count\n1 \"0x401000\" 3\n1 \"0x401010\" 1\n2 \"0x401000\" 1");
  EXPECT_EQ(Ask("writes to 0x1000..0x2000 | distinct thread"), "thread\n1\n2");
  EXPECT_EQ(Ask("writes to 0x1000..0x2000 | select time + 1, size * 2 | last 1"),
            "time + 1 size * 2\n51 64");
  EXPECT_EQ(Ask("writes to 0x1000 | first 1 | select size, size"), "size size_2\n8 8");
}

TEST_F(EngineTest, Reals) {
  EXPECT_EQ(Ask("writes to 0x1000 | select size / 16.0, size * 0.5, time - 0.25, -1e-3, 2.5"),
            "size / 16.0 size * 0.5 time - 0.25 -0.001 2.5\n"
            "0.5 4.0 9.75 -0.001 2.5\n0.0625 0.5 29.75 -0.001 2.5\n0.5 4.0 39.75 -0.001 2.5");
  for (const Column& column : stream_->columns()) EXPECT_EQ(column.type, Type::kReal);
  EXPECT_EQ(Ask("writes to 0x1000 where size > 1.5 | select time"), "time\n10\n40");
  EXPECT_EQ(Ask("writes to 0x1000 where size between 0.5 and 1.0 | select time"), "time\n30");
  EXPECT_EQ(Ask("writes to 0x1000 where time in (30.0, 10.5) | select time"), "time\n30");
  EXPECT_EQ(Ask("writes to 0x1000 | select size / 16.0 | sort by `size / 16.0` | first 1"),
            "size / 16.0\n0.0625");
  EXPECT_EQ(Ask("writes to 0x1000 | count by size * 0.5"), "size * 0.5 count\n4.0 2\n0.5 1");
  EXPECT_EQ(Ask("writes to 0x1000 | first 1 | select size / 0.0, 1e308 * 10, -1e308 * 10, !0.0"),
            "size / 0.0 1e+308 * 10 -1e+308 * 10 !0.0\nnull \"inf\" \"-inf\" 1");
  // NaN is as in C.
  EXPECT_EQ(Ask("writes to 0x1000 | select 1e308 * 10 - 1e308 * 10, time"
                " | where `1e+308 * 10 - 1e+308 * 10` != 1 | count"),
            "count\n3");
  EXPECT_EQ(Ask("writes to 0x1000 where 1e308 * 10 - 1e308 * 10 >= 1 | count"), "count\n0");
  EXPECT_EQ(Ask("writes to 0x1000 where size % 1.5 == 0"),
            "ttq: this must be a whole number, and it is real\n"
            "  writes to 0x1000 where size % 1.5 == 0\n"
            "                                ^~~\n");
  EXPECT_EQ(Format("writes to 0x1000 | select time, size / 16.0", {.format = Format::kTable}),
            "time  size / 16.0\n  10          0.5\n  30       0.0625\n  40          0.5\n");
  EXPECT_EQ(Format("writes to 0x1000 | first 1 | select size / 16.0, 1e308 * 10",
                   {.format = Format::kCsv}),
            "size / 16.0,1e+308 * 10\n0.5,inf\n");
}

TEST(ValueTest, NumbersOfAllKindsAreInOneOrder) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  // Neighbours that no double tells apart are in order too.
  const std::vector<Value> ascending = {Null{},
                                        -kInf,
                                        -1e300,
                                        std::nextafter(-0x1p63, -kInf),
                                        kMin,
                                        kMin + 1,
                                        -2.5,
                                        int64_t{-2},
                                        -0.5,
                                        int64_t{0},
                                        5e-324,
                                        0.1,
                                        0.1f,
                                        Time(1),
                                        1.5f,
                                        Word{2},
                                        int64_t{(1ll << 53) - 1},
                                        0x1p53,
                                        int64_t{(1ll << 53) + 1},
                                        int64_t{INT64_MAX},
                                        0x1p63,
                                        Word{(1ull << 63) + 1},
                                        Word{UINT64_MAX},
                                        0x1p64,
                                        kInf,
                                        std::nan(""),
                                        "text"};
  for (size_t i = 0; i < ascending.size(); ++i) {
    for (size_t k = 0; k < ascending.size(); ++k) {
      EXPECT_EQ(Compare(ascending[i], ascending[k]), i < k ? -1 : i > k ? 1 : 0) << i << " " << k;
    }
  }
}

TEST(ValueTest, EqualNumbersHashAlike) {
  const std::vector<std::vector<Value>> equal = {{int64_t{0}, 0.0, -0.0, 0.0f, Word{0}, Time(0)},
                                                 {int64_t{-3}, -3.0, -3.0f},
                                                 {Word{1ull << 63}, 0x1p63, 0x1p63f},
                                                 {std::numeric_limits<int64_t>::min(), -0x1p63},
                                                 {0.5, 0.5f},
                                                 {1e300, 1e300},
                                                 {std::nan(""), -std::nan("1"), std::nanf("")}};
  for (const std::vector<Value>& values : equal) {
    for (const Value& v : values) {
      EXPECT_TRUE(v == values[0]);
      EXPECT_EQ(HashOf(v), HashOf(values[0]));
    }
  }
}

TEST(ValueTest, IsNoLargerThanItsText) {
  EXPECT_EQ(sizeof(Value), sizeof(std::variant<Null, std::string>));
}

TEST(ValueTest, TextOfReals) {
  const auto json = [](Value v) {
    std::string out;
    AppendJson(v, Type::kReal, &out);
    return out;
  };
  EXPECT_EQ(json(0.1), "0.1");
  EXPECT_EQ(json(0.1f), "0.1");
  EXPECT_EQ(json(double{0.1f}), "0.10000000149011612");
  EXPECT_EQ(json(2.0), "2.0");
  EXPECT_EQ(json(-0.0), "-0.0");
  EXPECT_EQ(json(1e16), "1e+16");
  EXPECT_EQ(json(-std::numeric_limits<float>::infinity()), "\"-inf\"");
  EXPECT_EQ(json(std::nan("")), "\"nan\"");
  EXPECT_EQ(CellText(std::nan(""), Type::kReal), "nan");
}

TEST_F(EngineTest, CountingNeedsNoValues) {
  EXPECT_EQ(Ask("writes to 0x1000 | count"), "count\n3");
  EXPECT_FALSE(recording_.process_.last_query_.want_values);
  Ask("writes to 0x1000 where value = 1 | count");
  EXPECT_TRUE(recording_.process_.last_query_.want_values);
}

TEST_F(EngineTest, TimesOfQueries) {
  EXPECT_EQ(Ask("memory 0x1000 len 8 at (last write to 0x1000)"),
            "time address size bytes\n40 \"0x1000\" 8 \"3300000022000000\"");
  EXPECT_EQ(Ask("memory 0x1000 len 8 at (last write to 0x1000) + 1"),
            "time address size bytes\n41 \"0x1000\" 8 \"4400000000000000\"");
  EXPECT_EQ(Ask("writes to 0x1000 before (last write to 0x1000) | count"), "count\n2");
  EXPECT_EQ(Ask("memory 0x1000 at (last write to 0x7000)"),
            "ttq: this query has no rows, so it gives no time: nothing wrote 0x7000 (proved from "
            "the index)\n"
            "  memory 0x1000 at (last write to 0x7000)\n"
            "                   ^~~~~~~~~~~~~~~~~~~~~~\n");
}

TEST_F(EngineTest, MemoryThatIsNotMapped) {
  EXPECT_EQ(Ask("memory 0x2ffe len 4"),
            "time address size bytes\n1000 \"0x2ffe\" 2 \"0000\"\n1000 \"0x3000\" 2 null");
  EXPECT_EQ(stream_->note(), "0x3000 was never mapped");
}

TEST_F(EngineTest, LongValuesAreBytes) {
  EXPECT_EQ(Ask("last write to 0x1040 | select value"),
            "value\n\"hex:5500000000000000000000000000000000000000000000000000000000000000\"");
}

TEST_F(EngineTest, NothingIsExplained) {
  Ask("last write to 0x8010");
  EXPECT_EQ(stream_->presentation().no_rows, "nothing wrote 0x8010 (proved from the index)");
  EXPECT_EQ(
      stream_->note(),
      "the bytes come from the mapping of /lib/libx.so at time 0 (0x8010 is its offset 0x10)");
  Ask("last write to 0x7000 before 12");
  EXPECT_EQ(stream_->note(), "0x7000 was never mapped");
  Ask("writes to 0x1000 where size = 3");
  EXPECT_EQ(stream_->presentation().no_rows, "no row passes the conditions");
  Ask("writes to 0x1000 | first 0");
  EXPECT_EQ(stream_->presentation().no_rows, "");
}

TEST_F(EngineTest, Executions) {
  EXPECT_EQ(Ask("executions of 0x401000 | select time, thread"),
            "time thread\n100 1\n200 1\n300 2\n400 1");
  EXPECT_EQ(Ask("executions of 0x401000 after 100 in thread 1 | last 1 | select time"),
            "time\n400");
}

TEST_F(EngineTest, EventsRegistersThreadsMaps) {
  EXPECT_EQ(Ask("events output | select time, kind, detail, bytes"),
            "time kind detail bytes\n60 \"output\" \"hi\\\\n\" \"68690a\"");
  EXPECT_EQ(Ask("events | count"), "count\n2");
  EXPECT_EQ(Ask("registers at 7 | select time, rdi, rip"),
            "time rdi rip\n7 \"0x2000\" \"0x401000\"");
  EXPECT_EQ(Ask("threads | select thread, os_tid, start, end, instructions"),
            "thread os_tid start end instructions\n1 100 0 null 1000\n2 101 50 900 400");
  EXPECT_EQ(Ask("threads at 10 | select thread, pc"), "thread pc\n1 \"0x401000\"");
  EXPECT_EQ(Ask("maps | select address, end, protection, path"),
            "address end protection path\n\"0x1000\" \"0x3000\" \"rw-p\" null\n"
            "\"0x8000\" \"0x9000\" \"rw-p\" \"/lib/libx.so\"");
}

TEST_F(EngineTest, Interruption) {
  recording_.process_.cancel_after_ = 2;
  EXPECT_EQ(Ask("writes to 0x1000..0x2000 | select time"), "time\n10\n20");
  EXPECT_TRUE(stream_->interrupted());
  EXPECT_FALSE(stream_->complete());
  EXPECT_EQ(stream_->note(), "interrupted before the end");
  recording_.process_.accesses_given_ = 0;
  EXPECT_EQ(Ask("writes to 0x1000..0x2000 | count"), "count\n2");
}

TEST_F(EngineTest, AnIncompleteRecordingSaysSo) {
  recording_.process_.info_.complete = false;
  recording_.process_.info_.incomplete_reason = "the last block was lost";
  Ask("writes to 0x1000 | count");
  EXPECT_FALSE(stream_->complete());
  EXPECT_EQ(stream_->note(), "the last block was lost");
}

TEST_F(EngineTest, ADamagedStoreIsAnErrorAfterTheRows) {
  recording_.process_.fail_ = absl::DataLossError("block 3 is damaged");
  EXPECT_EQ(Ask("writes to 0x1000 before 20 | select time"),
            "time\n10\nDATA_LOSS: block 3 is damaged");
}

TEST_F(EngineTest, Errors) {
  EXPECT_EQ(Ask("writes to 0x1000 where sze = 1"),
            "ttq: there is no column sze\n"
            "  writes to 0x1000 where sze = 1\n"
            "                         ^~~\n"
            "did you mean size?\n");
  EXPECT_EQ(Ask("writes to 0x1000 where actor = 1"),
            "ttq: actor is text and 1 is a number: they are never equal\n"
            "  writes to 0x1000 where actor = 1\n"
            "                                 ^\n");
  EXPECT_EQ(Ask("memory 0x1000 at 1001"),
            "ttq: time 1001 is past the end, 1000\n"
            "  memory 0x1000 at 1001\n"
            "                   ^~~~\n");
  EXPECT_EQ(Ask("registers at crash"),
            "ttq: the program did not crash: it exited with status 0; use `end`\n"
            "  registers at crash\n"
            "               ^~~~~\n");
  EXPECT_EQ(Ask("writes to 0x1000 in thread 7"),
            "ttq: there is no thread 7: this process had threads 1 to 2\n"
            "  writes to 0x1000 in thread 7\n"
            "                   ^~~~~~~~~~~\n");
  EXPECT_EQ(Ask("registers at 5 by python f"),
            "ttq: 'by python' does not go with 'registers'\n"
            "  registers at 5 by python f\n"
            "                 ^~~~~~~~~~~\n");
  EXPECT_EQ(Ask("executions of 0x1000 by f"),
            "ttq: 'by' does not go with 'executions of'\n"
            "  executions of 0x1000 by f\n"
            "                       ^~~~\n");
  EXPECT_EQ(Ask("events sycall"),
            "ttq: there are no events of kind sycall\n"
            "  events sycall\n"
            "         ^~~~~~\n"
            "did you mean syscall?\n");
  EXPECT_EQ(Ask("writes to nothing_here"),
            "ttq: no module has a global named nothing_here\n"
            "  writes to nothing_here\n"
            "            ^~~~~~~~~~~~\n");
}

TEST_F(EngineTest, JsonDocument) {
  std::string json =
      Format("writes to 0x1000 | select time, value", {.format = Format::kJson, .limit = 1});
  const size_t elapsed = json.find("\"elapsed_ms\":");
  ASSERT_NE(elapsed, std::string::npos);
  EXPECT_EQ(json.substr(0, elapsed),
            R"({"trace":"T","process":1,"query":"writes to 0x1000 | select time, value",)"
            R"("columns":[{"name":"time","type":"time"},{"name":"value","type":"value"}],)"
            R"("rows":[{"time":10,"value":"0x11"}],"truncated":true,"complete":true,"note":null,)");
}

TEST_F(EngineTest, OtherFormats) {
  EXPECT_EQ(Format("writes to 0x1000 | select time, value, function | first 1",
                   {.format = Format::kJsonLines}),
            "{\"time\":10,\"value\":\"0x11\",\"function\":null}\n");
  EXPECT_EQ(Format("events output | select time, detail, function", {.format = Format::kCsv}),
            "time,detail,function\n60,hi\\n,\n");
  EXPECT_EQ(Format("writes to 0x1000 | first 2", {.format = Format::kTable}),
            "time  thread  address  size  previous  value  actor        where\n"
            "  10       1  0x1000      8  0x0       0x11   instruction  -\n"
            "  30       2  0x1000      1  0x11      0x33   instruction  -\n");
  EXPECT_EQ(Format("last write to 0x7000 len 8 before 5", {.format = Format::kTable}),
            "no rows: nothing wrote 0x7000+8 before time 5 (proved from the index)\n"
            "note: 0x7000 was never mapped\n");
  EXPECT_EQ(
      Format("memory 0x2003 len 16", {.format = Format::kTable}),
      "0x0000000000002000           6c 6f 00 74 68  65 72 65 00 00 00 00 00  |   lo.there.....|\n"
      "0x0000000000002010  00 00 00                                          |...|\n");
  EXPECT_EQ(Format("writes to 0x1000 | select time", {.format = Format::kTable, .limit = 1}),
            "time\n  10\n"
            "… only the first 1 rows are shown; --limit N shows more, --limit 0 all\n");
}

TEST_F(EngineTest, NothingThatATerminalInterpretsGetsThere) {
  EXPECT_EQ(Printable("a\x1b[31m\n\xc2\x9b\xff\xc3\xa9"), "a\\x1b[31m\\n\\u009b\\xff\xc3\xa9");
  // What turns text round, what nobody sees, what XML has not.
  EXPECT_EQ(Printable("\u202eb\u200b\ufeff\U000e0041\ufffe"),
            "\\u202eb\\u200b\\ufeff\\U000e0041\\ufffe");
  std::string json;
  AppendJsonString("\x01\"\xff", &json);
  EXPECT_EQ(json, "\"\\u0001\\\"\\ufffd\"");
  json.clear();
  AppendJsonString("\u202e\u0085\U000e0041\u00e9", &json);
  EXPECT_EQ(json, "\"\\u202e\\u0085\\udb40\\udc41\u00e9\"");
}

TEST_F(EngineTest, Explain) {
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Open(&recording_, std::nullopt);
  EXPECT_EQ(
      *(*engine)->Explain(*ParseQuery("writes to 0x1000 where size = 8 | last 2 | count"), {}),
      "what wrote 0x1000, last to first, without values: by index, at most 1 of 1 blocks\n"
      "where size == 8\n"
      "stop after 2 rows; turn them round\n"
      "count\n");
}

// Names of a real program, placed in the recording at an address of its own.
TEST_F(EngineTest, Names) {
  FakeProcess& p = recording_.process_;
  recording_.files_[1] = TTQ_TEST_PROGRAMS "/symbols_c";
  p.modules_.push_back({.path = "/bin/symbols_c",
                        .file_id = 1,
                        .range = {Address(0x555500000000), Address(0x555500010000)},
                        .load_bias = 0x555500000000});
  EXPECT_EQ(Ask("writes to global_count | count"), "count\n0");
  EXPECT_EQ(p.last_query_.ranges.at(0).size(), 4u);
  const uint64_t variable = p.last_query_.ranges[0].begin.v;
  EXPECT_EQ(variable >> 16, 0x55550000u);

  EXPECT_EQ(Ask("writes to global_count by Work | count"), "count\n0");
  ASSERT_FALSE(p.last_query_.code.empty());
  const uint64_t pc = p.last_query_.code[0].begin.v;
  p.AddWrite(70, variable, 9, 4, pc);
  p.AddWrite(80, variable, 8, 4, 0x401000);
  p.executions_.push_back({Time(70), ThreadNo(1), Address(pc)});
  EXPECT_EQ(Ask("writes to global_count by Work | select time, function, module"),
            "time function module\n70 \"Work\" \"symbols_c\"");
  EXPECT_EQ(Ask("writes to global_count where function = \"Work\" | select time"), "time\n70");
  EXPECT_EQ(Ask("writes to global_count by symbols_c!/^Wo/ | select time"), "time\n70");
  EXPECT_EQ(Ask("executions of Work | select time, function, line is null"),
            "time function line is null\n70 \"Work\" 0");
  EXPECT_EQ(Ask("writes to global_coutn"),
            "ttq: no module has a global named global_coutn\n"
            "  writes to global_coutn\n"
            "            ^~~~~~~~~~~~\n"
            "did you mean global_count?\n");
  EXPECT_EQ(Ask("executions of Wrok"),
            "ttq: no module has a function named Wrok\n"
            "  executions of Wrok\n"
            "                ^~~~\n"
            "did you mean Work?\n");
  EXPECT_EQ(Ask("memory *(short *)0x1000 | select size"), "size\n2");
  EXPECT_EQ(Ask("memory &global_count | select size"), "size\n64");
}

// A regex that backtracks exponentially elsewhere.
TEST_F(EngineTest, APatternCannotHang) {
  EXPECT_EQ(Ask("writes to 0x1000 where actor matches /(i*)*(n*)*(s*)*(x+x+)+y/ | count"),
            "count\n0");
}

}  // namespace
}  // namespace ttq

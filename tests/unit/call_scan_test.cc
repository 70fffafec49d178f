// SPDX-License-Identifier: MIT
//
// Calls found in histories made by hand: what is a call, which return is its own, and that neither
// blocks, threads nor the direction of the search change the answer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <random>

#include "fmt/core.h"
#include "store/read/reader.h"
#include "tests/support/trace_text.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

constexpr uint64_t kFunction = 0x402000, kOther = 0x403000;
constexpr uint64_t kNever = kTimeMax.v;

// Writes the history of programs that call and return, as their instructions would do it.
class Program {
 public:
  Program() {
    text_ = "map 0x10000 0x30000 rw\n";
    Switch(1);
  }

  uint64_t time() const { return time_; }
  const std::string& text() const { return text_; }
  void Line(const std::string& line) { text_ += line + "\n"; }
  void NextBlock() { Line("block"); }
  void Switch(uint32_t thread) {
    thread_ = thread;
    Line(fmt::format("thread {}", thread));
    if (stacks_.try_emplace(thread, 0x10000 + thread * 0x8000).second) SetStack(Stack());
  }
  uint64_t& Stack() { return stacks_[thread_]; }
  void Step(uint64_t pc, const std::string& what = "nop") {
    Line(fmt::format("{:#x} {}", pc, what));
    ++time_;
  }
  void SetStack(uint64_t sp) {
    Step(0x401f00, fmt::format("set rsp = {:#x}", sp));
    Stack() = sp;
  }

  // A call instruction before `back`; the time of the function's first instruction.
  uint64_t Call(uint64_t back, uint64_t function = kFunction) {
    SetStack(Stack() - 8);
    Step(back - 4, fmt::format("store {:#x} 8 = {:#x}", Stack(), back));
    return Enter(function);
  }
  // Jumps there, as a tail call does.
  uint64_t Enter(uint64_t function = kFunction) {
    Step(function);
    return time_ - 1;
  }
  // The time of the instruction after the return.
  uint64_t Return(uint64_t back, uint64_t result) {
    Step(0x402100, fmt::format("set rax = {}", result));
    SetStack(Stack() + 8);
    Step(back);
    return time_ - 1;
  }

 private:
  std::string text_;
  uint64_t time_ = 0;
  uint32_t thread_ = 0;
  std::map<uint32_t, uint64_t> stacks_;
};

struct Seen {
  uint64_t time, return_time, result, back;
  uint32_t thread;
  bool operator==(const Seen&) const = default;
};
void PrintTo(const Seen& s, std::ostream* out) {
  *out << fmt::format("{{{} -> {} = {} back to {:#x}, thread {}}}", s.time, s.return_time, s.result,
                      s.back, s.thread);
}

class CallScan : public testing::Test {
 protected:
  void SetUp() override {
    place_ = testing::TempDir() + "/calls." + std::to_string(getpid());
    fs::remove_all(place_);
  }
  void TearDown() override { fs::remove_all(place_); }

  void Record(const Program& program) {
    recording_.reset();
    fs::remove_all(place_);
    const absl::Status s = RecordText(program.text(), place_);
    ASSERT_TRUE(s.ok()) << s << "\n" << program.text();
    auto recording = Recording::Open(place_);
    ASSERT_TRUE(recording.ok()) << recording.status();
    recording_ = *std::move(recording);
    auto process = recording_->Open(recording_->processes()[0].number);
    ASSERT_TRUE(process.ok()) << process.status();
    process_ = *process;
  }

  std::vector<Seen> Calls(CallQuery query = {}) {
    if (query.entries.empty()) query.entries = {Address(kFunction)};
    auto cursor = process_->Calls(query, nullptr);
    EXPECT_TRUE(cursor.ok()) << cursor.status();
    std::vector<Seen> seen;
    while (cursor.ok()) {
      auto call = (*cursor)->Next();
      EXPECT_TRUE(call.ok()) << call.status();
      if (!call.ok() || !*call) break;
      seen.push_back({(*call)->time.v, (*call)->return_time.v, (*call)->result,
                      (*call)->return_address.value_or(Address(0)).v, (*call)->thread.v});
    }
    if (query.direction == Direction::kBackward) std::reverse(seen.begin(), seen.end());
    return seen;
  }

  std::string place_;
  std::unique_ptr<Recording> recording_;
  const Process* process_ = nullptr;
};

TEST_F(CallScan, ACallAndItsReturn) {
  Program p;
  const uint64_t time = p.Call(0x401010);
  const uint64_t back = p.Return(0x401010, 7);
  Record(p);
  EXPECT_THAT(Calls(), ElementsAre(Seen{time, back, 7, 0x401010, 1}));
  CallQuery without;
  without.want_returns = false;
  EXPECT_THAT(Calls(without), ElementsAre(Seen{time, kNever, 0, 0x401010, 1}));
}

TEST_F(CallScan, ReturnsOfARecursionAreInTurn) {
  Program p;
  const uint64_t outer = p.Call(0x401010), middle = p.Call(0x402020), inner = p.Call(0x402020);
  const uint64_t a = p.Return(0x402020, 1);
  p.NextBlock();
  const uint64_t b = p.Return(0x402020, 2), c = p.Return(0x401010, 3);
  Record(p);
  EXPECT_THAT(Calls(), ElementsAre(Seen{outer, c, 3, 0x401010, 1}, Seen{middle, b, 2, 0x402020, 1},
                                   Seen{inner, a, 1, 0x402020, 1}));
}

TEST_F(CallScan, ATailCallReturnsForItsCaller) {
  Program p;
  p.Call(0x401010, kOther);
  const uint64_t time = p.Enter();
  const uint64_t back = p.Return(0x401010, 9);
  Record(p);
  EXPECT_THAT(Calls(), ElementsAre(Seen{time, back, 9, 0x401010, 1}));
}

// The address after a call is executed, but by a jump within the caller.
TEST_F(CallScan, ExecutingTheReturnAddressIsNotEnough) {
  Program p;
  const uint64_t time = p.Call(0x401010);
  p.Step(0x401010);
  const uint64_t back = p.Return(0x401010, 5);
  Record(p);
  EXPECT_THAT(Calls(), ElementsAre(Seen{time, back, 5, 0x401010, 1}));
}

// longjmp: the next call from the same place is another one.
TEST_F(CallScan, ACallThatWasLeftHasNoReturn) {
  Program p;
  const uint64_t sp = p.Stack();
  const uint64_t left = p.Call(0x401010);
  p.Call(0x402020, kOther);
  p.SetStack(sp);
  p.NextBlock();
  const uint64_t time = p.Call(0x401010);
  const uint64_t back = p.Return(0x401010, 4);
  Record(p);
  EXPECT_THAT(Calls(),
              ElementsAre(Seen{left, kNever, 0, 0x401010, 1}, Seen{time, back, 4, 0x401010, 1}));
}

// The same call instruction then calls another function, from the same stack.
TEST_F(CallScan, ACallThatWasLeftHasNotTheReturnOfAnotherFunction) {
  for (const bool in_blocks : {false, true}) {
    Program p;
    const uint64_t sp = p.Stack();
    const uint64_t left = p.Call(0x401010);
    p.SetStack(sp);
    if (in_blocks) p.NextBlock();
    p.Call(0x401010, kOther);
    if (in_blocks) p.NextBlock();
    p.Return(0x401010, 8);
    if (in_blocks) p.NextBlock();
    const uint64_t time = p.Call(0x401010);
    if (in_blocks) p.NextBlock();
    const uint64_t back = p.Return(0x401010, 4);
    Record(p);
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
      CallQuery query;
      query.direction = direction;
      EXPECT_THAT(Calls(query), ElementsAre(Seen{left, kNever, 0, 0x401010, 1},
                                            Seen{time, back, 4, 0x401010, 1}));
    }
  }
}

TEST_F(CallScan, CallersSpansAndThreadsNarrowIt) {
  Program p;
  const uint64_t a = p.Call(0x401010);
  p.Return(0x401010, 1);
  const uint64_t b = p.Call(0x404010);
  p.Switch(2);
  const uint64_t c = p.Call(0x401010);
  p.Return(0x401010, 2);
  p.Switch(1);
  p.Return(0x404010, 3);
  Record(p);
  const auto times = [&](const CallQuery& query) {
    std::vector<uint64_t> out;
    for (const Seen& s : Calls(query)) out.push_back(s.time);
    return out;
  };
  EXPECT_THAT(times({}), ElementsAre(a, b, c));
  CallQuery by;
  by.callers = {{Address(0x404000), Address(0x404100)}};
  EXPECT_THAT(times(by), ElementsAre(b));
  CallQuery in;
  in.thread = ThreadNo(2);
  EXPECT_THAT(times(in), ElementsAre(c));
  // The return lies after the span.
  CallQuery span;
  span.span = {Time(b), Time(b + 1)};
  const std::vector<Seen> one = Calls(span);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].result, 3u);
}

// Against a model: threads that call, return, call in place of returning and are left, with a new
// block now and then.
TEST_F(CallScan, AgreesWithAModel) {
  std::mt19937 random(5);
  for (int round = 0; round < 8; ++round) {
    Program p;
    std::vector<Seen> expected;
    struct Active {
      uint64_t back;
      std::vector<size_t> calls;  // of kFunction that return there
    };
    std::map<uint32_t, std::vector<Active>> stacks;
    uint32_t thread = 1;
    for (int step = 0; step < 300; ++step) {
      std::vector<Active>& stack = stacks[thread];
      switch (random() % 9) {
        case 0:
        case 1:
        case 2: {
          const uint64_t back = 0x401000 + 0x10 * (random() % 4);
          const bool wanted = random() % 3 != 0;
          const uint64_t time = p.Call(back, wanted ? kFunction : kOther);
          stack.push_back({back, {}});
          if (wanted) {
            stack.back().calls.push_back(expected.size());
            expected.push_back({time, kNever, 0, back, thread});
          }
          break;
        }
        case 3:
        case 4:
        case 5: {
          if (stack.empty()) break;
          const uint64_t result = random() % 1000, time = p.Return(stack.back().back, result);
          for (const size_t i : stack.back().calls) {
            expected[i].return_time = time;
            expected[i].result = result;
          }
          stack.pop_back();
          break;
        }
        case 6: {
          if (stack.empty()) break;
          stack.back().calls.push_back(expected.size());
          expected.push_back({p.Enter(), kNever, 0, stack.back().back, thread});
          break;
        }
        case 7: {  // an exception: the calls that it leaves never return
          if (stack.empty()) break;
          const size_t left = 1 + random() % stack.size();
          p.SetStack(p.Stack() + 8 * left);
          stack.resize(stack.size() - left);
          break;
        }
        default:
          if (random() % 2 == 0) {
            p.NextBlock();
            p.Line(fmt::format("thread {}", thread));
          } else {
            thread = 1 + random() % 2;
            p.Switch(thread);
          }
          break;
      }
    }
    ASSERT_NO_FATAL_FAILURE(Record(p));
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
      CallQuery query;
      query.direction = direction;
      EXPECT_EQ(Calls(query), expected) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace ttq

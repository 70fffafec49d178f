// SPDX-License-Identifier: MIT

#include "query/sources/suspects.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/sources/pointer_chain.h"
#include "re2/re2.h"

namespace ttq {
namespace {

struct PassedValue {
  uint64_t value = 0;
  std::string how;
  std::optional<Address> holder;
};

// Where a function gave a constant that no memory held, as a null pointer for a failure: what it
// was called with, and where that came from.
absl::StatusOr<std::vector<PassedValue>> FindArguments(const Context& context, OriginTracer& tracer,
                                                       Unwinder& unwinder,
                                                       const CrashReport& report,
                                                       ScanControl* control) {
  std::vector<PassedValue> arguments;
  const Process& process = context.process();
  if (report.origin.empty() || report.origin.back().kind != "constant") return arguments;
  const Hop& made = report.origin.back();
  ASSIGN_OR_RETURN(std::unique_ptr<Moment> moment, process.At(made.time));
  const absl::StatusOr<Stack> stack = unwinder.StackOf(*moment, made.thread, {.max_frames = 8});
  if (!stack.ok()) return arguments;
  const auto frame = std::find_if(stack->frames.begin(), stack->frames.end(),
                                  [](const Frame& f) { return f.kind != Frame::Kind::kInlined; });
  // One that has not returned yet gave nothing.
  if (frame == stack->frames.end() || !frame->cfa || frame->cfa->v > report.registers.gpr[kRsp]) {
    return arguments;
  }
  ASSIGN_OR_RETURN(const std::optional<Time> called, CalledAt(process, *frame, made.time));
  if (!called) return arguments;
  ASSIGN_OR_RETURN(const Registers registers, process.RegistersAt(*called, made.thread));
  constexpr int kMaxArguments = 2;
  for (int i = 0; i < kMaxArguments; ++i) {
    PassedValue argument;
    argument.value = registers.gpr[ArgumentRegister(i)];
    argument.how = fmt::format("argument {} of {}, which gave the pointer", i + 1, frame->function);
    ValueLocation place;
    place.kind = ValueLocation::Kind::kGeneral;
    place.number = ArgumentRegister(i);
    place.thread = made.thread;
    place.before = *called;
    ASSIGN_OR_RETURN(const std::optional<Holder> holder, HolderOf(context, tracer, place, control));
    if (holder) argument.holder = holder->word;
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

}  // namespace

absl::StatusOr<std::vector<Suspect>> SuspectsOf(const Context& context, OriginTracer& tracer,
                                                Unwinder& unwinder, const CrashReport& report,
                                                ScanControl* control) {
  const Process& process = context.process();
  using Interest = Suspect::Interest;
  std::vector<Suspect> suspects;
  // What CPython found wrong itself, it names.
  static const RE2* const kAddress = new RE2("0x([0-9a-f]{6,12})");
  re2::StringPiece message = report.message;
  std::string digits;
  while (RE2::FindAndConsume(&message, *kAddress, &digits)) {
    uint64_t address = 0;
    if (absl::SimpleHexAtoi(digits, &address)) {
      suspects.push_back({address, false, Interest::kAny, "the message"});
    }
  }
  const auto add_register = [&](uint8_t number, Interest interest) {
    const RegisterName name{RegisterName::File::kGeneral, number, 0, 8};
    suspects.push_back({report.registers.gpr[number], false, interest, name.Text().substr(1)});
  };
  // Of what was read through a pointer to a freed object nothing can be trusted, so the outermost
  // one goes first.
  if (report.access != "free") {
    for (auto pointer = report.pointers.rbegin(); pointer != report.pointers.rend(); ++pointer) {
      if (!pointer->holder) continue;
      suspects.push_back({.address = pointer->value,
                          .interest = Interest::kDangling,
                          .how = fmt::format("the word at {:#x}", pointer->holder->word.v),
                          .holder = pointer->holder});
    }
  }
  if (report.base) add_register(*report.base, Interest::kAny);
  // Who frees an object gives back its block, which begins with the collector's header if it has
  // one.
  constexpr uint64_t kHeader = 16;
  if (report.address && report.access == "free") {
    for (const uint64_t before : {kHeader, uint64_t{0}}) {
      suspects.push_back({report.address->v + before, false, Interest::kAny, "the address"});
    }
  }
  // Who lives, and holds the word, goes before who had its memory earlier.
  if (report.word && report.word_memory.kind != "stack") {
    const std::string how = fmt::format("the word at {:#x}", report.word->v);
    ASSIGN_OR_RETURN(MemoryImage image, process.Memory(*report.word, 8, report.time));
    std::optional<uint64_t> broken;
    if (image.bytes.size() == sizeof *broken) {
      memcpy(&broken.emplace(), image.bytes.data(), sizeof *broken);
    }
    const auto add_living = [&](uint64_t address, Interest interest = Interest::kLiving) {
      suspects.push_back({address, true, interest, how, broken});
    };
    if (report.pointers.size() > 1) add_living(report.pointers[1].value);
    add_living(report.word->v);
    if (report.pointers.size() > 1 && report.pointers[1].holder) {
      add_living(report.pointers[1].holder->word.v, Interest::kHolding);
    }
  }
  std::vector<PassedValue> arguments;
  if (!report.word) {
    ASSIGN_OR_RETURN(arguments, FindArguments(context, tracer, unwinder, report, control));
  }
  for (const PassedValue& argument : arguments) {
    suspects.push_back({argument.value, false, Interest::kLiving, argument.how});
    if (!argument.holder) continue;
    suspects.push_back({argument.holder->v, true, Interest::kLiving,
                        fmt::format("the word at {:#x}", argument.holder->v)});
  }
  if (report.address && report.memory.kind != "stack") {
    suspects.push_back({report.address->v, true, Interest::kLiving, "the address"});
  }
  // Of a stale pointer it is known what it was to.
  if (report.word && report.word_memory.kind != "stack" && report.stale_pointer.is_null()) {
    suspects.push_back(
        {report.word->v, true, Interest::kAny, fmt::format("the word at {:#x}", report.word->v)});
  }
  if (report.address && report.memory.kind != "stack" && report.stale_pointer.is_null()) {
    suspects.push_back({report.address->v, true, Interest::kAny, "the address"});
  }
  suspects.push_back({report.py_function, false, Interest::kFreed, "the function that ran"});
  for (const Gpr at_hand :
       {kRdi, kRbx, kRbp, kR12, kR13, kR14, kR15, kRsi, kRdx, kRcx, kR8, kR9, kRax, kR10, kR11}) {
    add_register(at_hand, Interest::kCountedAfter);
  }
  return suspects;
}

}  // namespace ttq

// SPDX-License-Identifier: MIT
//
// See agent_expression.h. The numbers are those of gdb's gdbsupport/ax.def, which its manual lists
// under "Bytecode Descriptions".

#include "gdb/agent_expression.h"

#include <utility>
#include <vector>

namespace ttq::gdb {
namespace {

enum Op : uint8_t {
  kAdd = 0x02,
  kSub = 0x03,
  kMul = 0x04,
  kDivSigned = 0x05,
  kDivUnsigned = 0x06,
  kRemSigned = 0x07,
  kRemUnsigned = 0x08,
  kLsh = 0x09,
  kRshSigned = 0x0a,
  kRshUnsigned = 0x0b,
  kLogNot = 0x0e,
  kBitAnd = 0x0f,
  kBitOr = 0x10,
  kBitXor = 0x11,
  kBitNot = 0x12,
  kEqual = 0x13,
  kLessSigned = 0x14,
  kLessUnsigned = 0x15,
  kExt = 0x16,
  kRef8 = 0x17,
  kRef16 = 0x18,
  kRef32 = 0x19,
  kRef64 = 0x1a,
  kIfGoto = 0x20,
  kGoto = 0x21,
  kConst8 = 0x22,
  kConst16 = 0x23,
  kConst32 = 0x24,
  kConst64 = 0x25,
  kReg = 0x26,
  kEnd = 0x27,
  kDup = 0x28,
  kPop = 0x29,
  kZeroExt = 0x2a,
  kSwap = 0x2b,
  kPick = 0x32,
  kRot = 0x33,
};

constexpr int kMaxSteps = 10000;
constexpr size_t kMaxStack = 1000;

class Machine {
 public:
  Machine(std::string_view code, const AgentState& state) : code_(code), state_(state) {}

  std::optional<uint64_t> Run() {
    for (int step = 0; step < kMaxSteps && !failed_; ++step) {
      const auto op = static_cast<uint8_t>(Next(1));
      if (failed_) break;
      if (op == kEnd) {
        const uint64_t result = Pop();
        return failed_ ? std::nullopt : std::optional(result);
      }
      Execute(op);
    }
    return std::nullopt;
  }

 private:
  // A big-endian number of the code.
  uint64_t Next(size_t bytes) {
    if (at_ + bytes > code_.size()) {
      failed_ = true;
      return 0;
    }
    uint64_t n = 0;
    for (size_t i = 0; i < bytes; ++i) n = n << 8 | static_cast<uint8_t>(code_[at_++]);
    return n;
  }

  uint64_t Pop() {
    if (stack_.empty()) {
      failed_ = true;
      return 0;
    }
    const uint64_t top = stack_.back();
    stack_.pop_back();
    return top;
  }

  void Push(uint64_t n) {
    if (stack_.size() >= kMaxStack) {
      failed_ = true;
      return;
    }
    stack_.push_back(n);
  }

  void PushKnown(std::optional<uint64_t> n) {
    if (!n) failed_ = true;
    Push(n.value_or(0));
  }

  void Execute(uint8_t op) {
    switch (op) {
      case kRef8:
      case kRef16:
      case kRef32:
      case kRef64:
        PushKnown(state_.memory(Pop(), 1u << (op - kRef8)));
        return;
      case kConst8:
      case kConst16:
      case kConst32:
      case kConst64:
        Push(Next(size_t{1} << (op - kConst8)));
        return;
      case kReg:
        PushKnown(state_.reg(static_cast<uint32_t>(Next(2))));
        return;
      case kGoto:
        at_ = Next(2);
        return;
      case kIfGoto: {
        const uint64_t to = Next(2);
        if (Pop() != 0) at_ = to;
        return;
      }
      case kLogNot:
        Push(Pop() == 0);
        return;
      case kBitNot:
        Push(~Pop());
        return;
      case kExt:
      case kZeroExt: {
        const uint64_t bits = Next(1);
        const uint64_t n = Pop();
        if (bits == 0 || bits > 64) {
          failed_ = true;
          return;
        }
        const auto unused = static_cast<int>(64 - bits);
        Push(op == kExt ? static_cast<uint64_t>(static_cast<int64_t>(n << unused) >> unused)
                        : n << unused >> unused);
        return;
      }
      case kDup:
        Push(Pop());
        if (!failed_) Push(stack_.back());
        return;
      case kPop:
        Pop();
        return;
      case kSwap: {
        const uint64_t b = Pop(), a = Pop();
        Push(b);
        Push(a);
        return;
      }
      case kPick: {
        const uint64_t depth = Next(1);
        if (depth >= stack_.size()) {
          failed_ = true;
          return;
        }
        Push(stack_[stack_.size() - 1 - depth]);
        return;
      }
      case kRot: {  // a b c → c a b
        const uint64_t c = Pop(), b = Pop(), a = Pop();
        Push(c);
        Push(a);
        Push(b);
        return;
      }
      default:
        Binary(op);
    }
  }

  void Binary(uint8_t op) {
    const uint64_t b = Pop(), a = Pop();
    const auto signed_a = static_cast<int64_t>(a), signed_b = static_cast<int64_t>(b);
    const bool divides = op >= kDivSigned && op <= kRemUnsigned;
    // The one quotient that does not fit, too.
    if (divides && (b == 0 || (signed_b == -1 && op != kDivUnsigned && op != kRemUnsigned))) {
      if (b == 0) failed_ = true;
      Push(op == kDivSigned ? 0 - a : 0);
      return;
    }
    switch (op) {
      case kAdd:
        return Push(a + b);
      case kSub:
        return Push(a - b);
      case kMul:
        return Push(a * b);
      case kDivSigned:
        return Push(static_cast<uint64_t>(signed_a / signed_b));
      case kDivUnsigned:
        return Push(a / b);
      case kRemSigned:
        return Push(static_cast<uint64_t>(signed_a % signed_b));
      case kRemUnsigned:
        return Push(a % b);
      case kLsh:
        return Push(b < 64 ? a << b : 0);
      case kRshSigned:
        return Push(static_cast<uint64_t>(signed_a >> (b < 64 ? b : 63)));
      case kRshUnsigned:
        return Push(b < 64 ? a >> b : 0);
      case kBitAnd:
        return Push(a & b);
      case kBitOr:
        return Push(a | b);
      case kBitXor:
        return Push(a ^ b);
      case kEqual:
        return Push(a == b);
      case kLessSigned:
        return Push(signed_a < signed_b);
      case kLessUnsigned:
        return Push(a < b);
      default:
        failed_ = true;
    }
  }

  const std::string_view code_;
  const AgentState& state_;
  size_t at_ = 0;
  std::vector<uint64_t> stack_;
  bool failed_ = false;
};

}  // namespace

std::optional<uint64_t> EvaluateAgentExpression(std::string_view code, const AgentState& state) {
  return Machine(code, state).Run();
}

}  // namespace ttq::gdb

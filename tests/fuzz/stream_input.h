// SPDX-License-Identifier: MIT
//
// Recipes and logs as a fuzzer's input describes them: most of what comes out is sound, since bytes
// alone would hardly ever pass the checks of sizes; a little is left as it comes.

#ifndef TTQ_TESTS_FUZZ_STREAM_INPUT_H_
#define TTQ_TESTS_FUZZ_STREAM_INPUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "recorder/stream.h"
#include "store/walk/walk.h"
#include "tests/fuzz/fuzz.h"

namespace ttq {

template <class T>
void Append(std::string* out, const T& pod) {
  out->append(reinterpret_cast<const char*>(&pod), sizeof(pod));
}

struct RecipeDraft {
  std::string encoded;
  std::vector<uint32_t> lengths;  // of records, by exit
};

inline uint64_t TakeNumber(FuzzInput* in) {
  switch (in->Below(8)) {
    case 0:
      return in->Take<uint64_t>();
    case 1:
      return ~uint64_t{0} - in->Take<uint8_t>();
    case 2:
      return 0x7f0000000ff0 + in->Take<uint8_t>();
    case 3:
      return uint64_t{1} << in->Below(64);
    default:
      return in->Take<uint8_t>();
  }
}

// Takes one recipe.
class RecipeTaker {
 public:
  explicit RecipeTaker(FuzzInput* in) : in_(*in) {}

  RecipeDraft Take(uint32_t id) {
    for (ttq_u16 r = 0; r < 3; ++r) nodes_.push_back({kTtqReg, 8, r, 0, 0, 0});
    for (uint32_t n = in_.Below(24); n > 0; --n) TakeNode();
    uint32_t instructions = 0, exits = 1;
    for (uint32_t n = 1 + in_.Below(16); n > 0; --n) {
      if (instructions == 0 || in_.Below(4) == 0) {
        effects_.push_back({kTtqInstruction, 0, kTtqNoNode, kTtqNoNode, kTtqNoNode});
        ++instructions;
      } else if (in_.Below(6) == 0) {
        TakeExit(exits++);
      } else {
        TakeEffect();
      }
    }
    TakeExit(0);
    RecipeDraft out;
    out.lengths.resize(exits);
    for (const TtqEffect& e : effects_) {
      if (e.kind == kTtqExit && e.size < exits) out.lengths[e.size] = e.addr;
    }
    std::string list;
    for (uint32_t i = 0; i < instructions; ++i) {
      Append(&list, uint64_t{0x400000} + id * 64 + in_.Below(4) * i);
      list += std::string("\x01\x90", 2);
    }
    TtqRecipe head{};
    head.id = id;
    head.node_count = static_cast<ttq_u16>(nodes_.size());
    head.effect_count = static_cast<ttq_u16>(effects_.size());
    head.instruction_count = static_cast<ttq_u16>(instructions);
    head.exit_count = static_cast<ttq_u16>(exits);
    head.record_bytes = record_bytes_;
    head.instruction_bytes = static_cast<ttq_u16>(list.size());
    head.bytes = static_cast<ttq_u32>(sizeof(head) + nodes_.size() * sizeof(TtqNode) +
                                      effects_.size() * sizeof(TtqEffect) + list.size());
    Append(&out.encoded, head);
    for (const TtqNode& n : nodes_) Append(&out.encoded, n);
    for (const TtqEffect& e : effects_) Append(&out.encoded, e);
    out.encoded += list;
    return out;
  }

 private:
  uint8_t Width() { return static_cast<uint8_t>(1 << in_.Below(4)); }
  uint16_t Node() { return static_cast<uint16_t>(in_.Below(static_cast<uint32_t>(nodes_.size()))); }

  void TakeNode() {
    if (in_.Below(64) == 63) {
      nodes_.push_back(in_.Take<TtqNode>());
      return;
    }
    TtqNode n{};
    n.op = static_cast<uint8_t>(in_.Below(kTtqVectorConst + 1));
    n.w = Width();
    n.a = n.op == kTtqReg ? static_cast<uint16_t>(in_.Below(kTtqRegCount)) : Node();
    n.b = Node();
    n.c = n.op == kTtqExtract || n.op == kTtqInsert ? static_cast<uint16_t>(in_.Below(8))
          : n.op == kTtqSext                        ? Width()
                                                    : Node();
    if (n.op == kTtqSlot || n.op == kTtqVectorConst) {
      n.w = static_cast<uint8_t>(in_.Below(3) != 0 ? Width() : 1 + in_.Below(32));
    }
    if (n.op == kTtqSlot) {
      n.imm = record_bytes_;
      record_bytes_ = static_cast<uint16_t>(record_bytes_ + n.w);
    } else {
      n.imm = TakeNumber(&in_);
    }
    nodes_.push_back(n);
  }

  void TakeExit(uint32_t number) {
    effects_.push_back(
        {kTtqExit, static_cast<uint8_t>(number), record_bytes_, kTtqNoNode, kTtqNoNode});
  }

  void TakeEffect() {
    static constexpr uint8_t kSizes[] = {1, 2, 4, 8, 8, 3, 16, 32, 64, 5};
    if (in_.Below(64) == 63) {
      effects_.push_back(in_.Take<TtqEffect>());
      return;
    }
    const uint16_t guard = in_.Below(4) == 0 ? Node() : static_cast<uint16_t>(kTtqNoNode);
    const uint8_t size = kSizes[in_.Below(std::size(kSizes))];
    switch (in_.Below(3)) {
      case 0:
        effects_.push_back({kTtqLoad, size, Node(), kTtqNoNode, guard});
        break;
      case 1:
        effects_.push_back({kTtqStore, size, Node(), Node(), guard});
        break;
      default:
        effects_.push_back({kTtqSetReg, static_cast<uint8_t>(in_.Below(kTtqRegCount)), kTtqNoNode,
                            Node(), kTtqNoNode});
    }
  }

  FuzzInput& in_;
  std::vector<TtqNode> nodes_;
  std::vector<TtqEffect> effects_;
  uint16_t record_bytes_ = 4;
};

inline void TakeControl(FuzzInput* in, std::string* log) {
  const uint32_t kind = in->Below(20);
  const size_t size = ControlHeadBytes(kind) + in->Below(24);
  std::string payload(in->Bytes(size));
  payload.resize(size);
  // Threads that come back.
  if (in->Below(8) != 0 && size >= 4) {
    const uint32_t tid = 1 + in->Below(3);
    memcpy(payload.data(), &tid, 4);
  }
  Append(log, kind);
  Append(log, static_cast<uint32_t>(payload.size()));
  *log += payload;
}

// At most a few records longer than max_bytes.
inline std::string TakeLog(FuzzInput* in, const std::vector<RecipeDraft>& recipes,
                           size_t max_bytes) {
  std::string log;
  while (!in->empty() && log.size() < max_bytes) {
    const uint32_t what = in->Below(16);
    if (what >= 12 || recipes.empty()) {
      TakeControl(in, &log);
      continue;
    }
    const uint32_t id = 1 + in->Below(static_cast<uint32_t>(recipes.size()));
    const RecipeDraft& r = recipes[id - 1];
    const uint32_t exit = in->Below(static_cast<uint32_t>(r.lengths.size()));
    if (what == 11) {  // cut off by a fault
      TtqRecipe head;
      memcpy(&head, r.encoded.data(), sizeof(head));
      Append(&log, id << kTtqExitBits | kTtqExitOpen);
      std::string slots(in->Bytes(std::max<size_t>(head.record_bytes, 4) - 4));
      slots.resize(std::max<size_t>(head.record_bytes, 4) - 4);
      log += slots;
      TtqSignal fault = in->Take<TtqSignal>();
      fault.pc = 0x400000 + id * 64 + in->Below(16);
      Append(&log, uint32_t{kTtqFault});
      Append(&log, uint32_t{sizeof(fault)});
      Append(&log, fault);
      continue;
    }
    // Often enough, in some inputs, that it becomes machine code.
    const uint32_t times = what < 4 ? 60 : 1;
    for (uint32_t i = 0; i < times && log.size() < max_bytes; ++i) {
      Append(&log, id << kTtqExitBits | exit);
      std::string slots(in->Bytes(std::max(r.lengths[exit], 4u) - 4));
      slots.resize(std::max(r.lengths[exit], 4u) - 4, static_cast<char>(i));
      log += slots;
    }
  }
  return log;
}

}  // namespace ttq

#endif  // TTQ_TESTS_FUZZ_STREAM_INPUT_H_

// SPDX-License-Identifier: MIT
//
// The vocabulary of a trace: times, addresses, threads, blocks. Each is a type of its own, so that
// a time is never passed where an address is meant. All are trivially copyable values; ranges are
// half-open everywhere.

#ifndef TTQ_BASE_TYPES_H_
#define TTQ_BASE_TYPES_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace ttq {

// An integer that only mixes with its own kind. `+ n` and `- n` move it; the difference of two is a
// plain signed count.
template <class Tag, class Rep = uint64_t>
struct Strong {
  Rep v = 0;

  constexpr Strong() = default;
  constexpr explicit Strong(Rep value) : v(value) {}
  constexpr auto operator<=>(const Strong&) const = default;
  constexpr Strong operator+(Rep n) const { return Strong(static_cast<Rep>(v + n)); }
  constexpr Strong operator-(Rep n) const { return Strong(static_cast<Rep>(v - n)); }
  constexpr Strong& operator+=(Rep n) {
    v = static_cast<Rep>(v + n);
    return *this;
  }
  constexpr Strong& operator++() {
    ++v;
    return *this;
  }
  template <class H>
  friend H AbslHashValue(H h, Strong s) {
    return H::combine(std::move(h), s.v);
  }
};

// Guest instructions retired by the process since it started. State "at t" is the state before
// instruction t executes; a write "at t" is made by instruction t.
using Time = Strong<struct TimeTag>;
// A virtual address of the recorded process.
using Address = Strong<struct AddressTag>;
// Of an x86-64 page, the unit of what is mapped and of the index.
inline constexpr uint64_t kPageBytes = 4096;
// A block's ordinal within its process, from 0.
using BlockNo = Strong<struct BlockTag, uint32_t>;
// A thread's ordinal within its process in order of creation, from 1, never reused. 0: none.
using ThreadNo = Strong<struct ThreadTag, uint32_t>;
// A process's ordinal within its recording, from 1; an exec starts a new one.
using ProcessNo = Strong<struct ProcessTag, uint32_t>;
// A superblock as translated once; its recipe says what an execution of it does.
using SuperblockId = Strong<struct SuperblockTag, uint32_t>;

inline constexpr Time kTimeMax{~uint64_t{0}};

// [begin, end)
struct AddressRange {
  Address begin, end;
  constexpr uint64_t size() const { return end.v - begin.v; }
  constexpr bool empty() const { return end <= begin; }
  constexpr bool Contains(Address a) const { return begin <= a && a < end; }
  constexpr bool Overlaps(Address a, uint64_t size) const {
    return a.v < end.v && begin.v < a.v + size;
  }
  constexpr bool operator==(const AddressRange&) const = default;
};

// [begin, end)
struct TimeSpan {
  Time begin{0}, end = kTimeMax;
  constexpr bool Contains(Time t) const { return begin <= t && t < end; }
  constexpr bool empty() const { return end <= begin; }
  constexpr bool operator==(const TimeSpan&) const = default;
};

// The sixteen general registers in the order of their x86-64 encoding.
enum Gpr : uint8_t {
  kRax,
  kRcx,
  kRdx,
  kRbx,
  kRsp,
  kRbp,
  kRsi,
  kRdi,
  kR8,
  kR9,
  kR10,
  kR11,
  kR12,
  kR13,
  kR14,
  kR15,
  kGprCount
};

struct Registers {
  uint64_t gpr[kGprCount] = {};
  Address pc;
  uint64_t fs_base = 0, gs_base = 0;
  // The low and high 8 bytes of xmm0 … xmm7, and st(0), where a call or return recorded them and
  // nothing has written them since: bit i says so.
  std::array<uint64_t, 8> xmm{}, xmm_high{};
  uint8_t xmm_known = 0, xmm_high_known = 0;
  bool st0_known = false;
  double st0 = 0;
  bool operator==(const Registers&) const = default;
};

// "rax", "rcx", …
const char* GprName(Gpr reg);

}  // namespace ttq

#endif  // TTQ_BASE_TYPES_H_

// SPDX-License-Identifier: MIT
//
// See registers.h. The features are those that gdb wants of a Linux x86-64 target (its manual,
// "i386 Features").

#include "gdb/registers.h"

#include <array>
#include <cstring>
#include <string_view>

#include "fmt/core.h"
#include "gdb/packet.h"

namespace ttq::gdb {
namespace {

constexpr Gpr kOrder[] = {kRax, kRbx, kRcx, kRdx, kRsi, kRdi, kRbp, kRsp,
                          kR8,  kR9,  kR10, kR11, kR12, kR13, kR14, kR15};

struct Described {
  std::string_view name, type;
  uint32_t bytes;
  std::string_view feature;  // the one that begins with this register
};

constexpr std::array<Described, kRegisterCount> kRegisters = {{
    {"rax", "int64", 8, "core"},
    {"rbx", "int64", 8, ""},
    {"rcx", "int64", 8, ""},
    {"rdx", "int64", 8, ""},
    {"rsi", "int64", 8, ""},
    {"rdi", "int64", 8, ""},
    {"rbp", "data_ptr", 8, ""},
    {"rsp", "data_ptr", 8, ""},
    {"r8", "int64", 8, ""},
    {"r9", "int64", 8, ""},
    {"r10", "int64", 8, ""},
    {"r11", "int64", 8, ""},
    {"r12", "int64", 8, ""},
    {"r13", "int64", 8, ""},
    {"r14", "int64", 8, ""},
    {"r15", "int64", 8, ""},
    {"rip", "code_ptr", 8, ""},
    {"eflags", "int32", 4, ""},
    {"cs", "int32", 4, ""},
    {"ss", "int32", 4, ""},
    {"ds", "int32", 4, ""},
    {"es", "int32", 4, ""},
    {"fs", "int32", 4, ""},
    {"gs", "int32", 4, ""},
    {"st0", "i387_ext", 10, ""},
    {"st1", "i387_ext", 10, ""},
    {"st2", "i387_ext", 10, ""},
    {"st3", "i387_ext", 10, ""},
    {"st4", "i387_ext", 10, ""},
    {"st5", "i387_ext", 10, ""},
    {"st6", "i387_ext", 10, ""},
    {"st7", "i387_ext", 10, ""},
    {"fctrl", "int", 4, ""},
    {"fstat", "int", 4, ""},
    {"ftag", "int", 4, ""},
    {"fiseg", "int", 4, ""},
    {"fioff", "int", 4, ""},
    {"foseg", "int", 4, ""},
    {"fooff", "int", 4, ""},
    {"fop", "int", 4, ""},
    {"xmm0", "vec128", 16, "sse"},
    {"xmm1", "vec128", 16, ""},
    {"xmm2", "vec128", 16, ""},
    {"xmm3", "vec128", 16, ""},
    {"xmm4", "vec128", 16, ""},
    {"xmm5", "vec128", 16, ""},
    {"xmm6", "vec128", 16, ""},
    {"xmm7", "vec128", 16, ""},
    {"xmm8", "vec128", 16, ""},
    {"xmm9", "vec128", 16, ""},
    {"xmm10", "vec128", 16, ""},
    {"xmm11", "vec128", 16, ""},
    {"xmm12", "vec128", 16, ""},
    {"xmm13", "vec128", 16, ""},
    {"xmm14", "vec128", 16, ""},
    {"xmm15", "vec128", 16, ""},
    {"mxcsr", "int", 4, ""},
    {"orig_rax", "int64", 8, "linux"},
    {"fs_base", "int64", 8, "segments"},
    {"gs_base", "int64", 8, ""},
}};
constexpr uint32_t kXmm0 = 40, kFsBase = 58, kGsBase = 59;

// gdb needs to be told of what a vector register can be seen as.
constexpr std::string_view kVectorTypes =
    R"(<vector id="v4f" type="ieee_single" count="4"/>
<vector id="v2d" type="ieee_double" count="2"/>
<vector id="v16i8" type="int8" count="16"/>
<vector id="v8i16" type="int16" count="8"/>
<vector id="v4i32" type="int32" count="4"/>
<vector id="v2i64" type="int64" count="2"/>
<union id="vec128">
<field name="v4_float" type="v4f"/>
<field name="v2_double" type="v2d"/>
<field name="v16_int8" type="v16i8"/>
<field name="v8_int16" type="v8i16"/>
<field name="v4_int32" type="v4i32"/>
<field name="v2_int64" type="v2i64"/>
<field name="uint128" type="uint128"/>
</union>
)";

std::string LittleEndian(uint64_t n) {
  char bytes[8];
  memcpy(bytes, &n, sizeof(bytes));
  return ToHex(std::string_view(bytes, sizeof(bytes)));
}

}  // namespace

std::optional<uint64_t> RegisterNumbered(const Registers& registers, uint32_t number) {
  if (number < std::size(kOrder)) return registers.gpr[kOrder[number]];
  if (number == kGdbRip) return registers.pc.v;
  if (number == kFsBase) return registers.fs_base;
  if (number == kGsBase) return registers.gs_base;
  return std::nullopt;
}

std::string RegisterText(const Registers& registers, uint32_t number) {
  if (const std::optional<uint64_t> n = RegisterNumbered(registers, number)) {
    return LittleEndian(*n);
  }
  if (number >= kXmm0 && number < kXmm0 + registers.xmm.size()) {
    const uint32_t i = number - kXmm0;
    if ((registers.xmm_known & registers.xmm_high_known) >> i & 1) {
      return LittleEndian(registers.xmm[i]) + LittleEndian(registers.xmm_high[i]);
    }
  }
  return std::string(2 * kRegisters[number].bytes, 'x');
}

std::string TargetDescription() {
  std::string out =
      "<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n<target>\n"
      "<architecture>i386:x86-64</architecture>\n<osabi>GNU/Linux</osabi>\n";
  bool open = false;
  for (size_t i = 0; i < kRegisters.size(); ++i) {
    const Described& r = kRegisters[i];
    if (!r.feature.empty()) {
      out += fmt::format("{}<feature name=\"org.gnu.gdb.i386.{}\">\n", open ? "</feature>\n" : "",
                         r.feature);
      open = true;
      if (r.feature == "sse") out += kVectorTypes;
    }
    out += fmt::format("<reg name=\"{}\" bitsize=\"{}\" type=\"{}\" regnum=\"{}\"/>\n", r.name,
                       r.bytes * 8, r.type, i);
  }
  return out + "</feature>\n</target>\n";
}

}  // namespace ttq::gdb

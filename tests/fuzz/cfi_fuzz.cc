// SPDX-License-Identifier: MIT
//
// The reader of call-frame information on arbitrary bytes: as .eh_frame, as its index and as
// .debug_frame. Each row it finds has its expressions evaluated, on registers and memory made up.

#include "query/code/dwarf_expression.h"
#include "query/code/unwind.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/elf_bytes.h"

namespace ttq {
namespace {

constexpr uint64_t kFrames = 0x1000, kHeader = 0x8000;

void Evaluate(absl::Span<const uint8_t> expression) {
  LocationInput input;
  input.first = 0x7000;
  input.register_value = [](int reg) { return std::optional<uint64_t>(reg * 0x1000); };
  input.memory = [](uint64_t address, uint32_t) { return std::optional<uint64_t>(address >> 3); };
  EvaluateNumber(expression, input);
}

}  // namespace
}  // namespace ttq

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ttq;
  FuzzInput in(data, size);
  const uint8_t which = in.Take<uint8_t>();
  const std::string frames(in.Bytes(in.Below(2048)));
  const std::string rest(in.Bytes(2048));
  std::vector<ElfPart> parts = {{".eh_frame", frames, kFrames}};
  if (which & 1) parts.push_back({".eh_frame_hdr", rest, kHeader, PT_GNU_EH_FRAME});
  if (which & 2) parts.push_back({".debug_frame", rest});
  auto elf = ElfFile::Parse(FileImage::FromString(MakeElf(std::move(parts))));
  Require(elf.ok(), "the file is well-formed");
  UnwindTable table(*elf, nullptr);
  // Where an honest table would have its functions: around small numbers, and relative to itself.
  for (const uint64_t base : {uint64_t{0}, kFrames, kHeader}) {
    for (uint64_t step = 0; step < 64; ++step) {
      const UnwindRow* row = table.Find(base + step * step);
      if (row == nullptr) continue;
      Require(row == table.Find(base + step * step), "a row stays");
      Evaluate(row->cfa_expression);
      for (const UnwindRule& rule : row->rules) Evaluate(rule.expression);
    }
  }
  Evaluate(absl::MakeConstSpan(data, size));
  return 0;
}

// SPDX-License-Identifier: MIT
//
// CPython 3.10: what is otherwise than in 3.9.

#include "query/cpython/versions.h"

namespace ttq::python {
namespace {

constexpr FieldOffset kOffsets[] = {
    {&Layout::interp_eval_frame, 1368}, {&Layout::frame_instruction, 96},
    {&Layout::frame_stack_top, 80},     {&Layout::frame_localsplus, 352},
    {&Layout::frame_generator, 88},     {&Layout::frame_state, 108},
    {&Layout::generator_code, 24},      {&Layout::generator_name, 40},
    {&Layout::generator_qualname, 48},  {&Layout::heap_name, 848},
    {&Layout::heap_qualname, 864},      {&Layout::heap_cached_keys, 872},
    {&Layout::heap_module, 880},        {&Layout::function_code, 48},
    {&Layout::function_globals, 16},    {&Layout::function_name, 32},
    {&Layout::function_qualname, 40},   {&Layout::function_defaults, 56},
    {&Layout::function_kwdefaults, 64}, {&Layout::function_closure, 72},
    {&Layout::function_dict, 88},       {&Layout::function_module, 104},
};

constexpr AsyncioOffsets kAsyncio = {136, 176, 32, 48, 56, 72, 136, 144, 152, 168, kAbsent};

void Change(Layout* layout) {
  Traits& traits = layout->traits;
  traits.stack_top = StackTop::kDepth;
  traits.lasti_bytes = 2;
  traits.line_table = LineTable::kRanges;  // PEP 626
  traits.pool_bytes = 16384;
  traits.method_wrappers_show = true;
  layout->asyncio = &kAsyncio;
  layout->opcodes = {.raise = 130,
                     .pop_top = 1,
                     .extended = 144,
                     .reraise = 119,
                     .match = 121,
                     .match_jumps = true,
                     .yield_from = 72};
}

}  // namespace

extern const Version kVersion310 = {.minor = 10, .offsets = kOffsets, .change = Change};

}  // namespace ttq::python

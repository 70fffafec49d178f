// SPDX-License-Identifier: MIT
//
// CPython 3.12: what is otherwise than in 3.11.

#include "query/cpython/versions.h"

namespace ttq::python {
namespace {

constexpr FieldOffset kOffsets[] = {
    {&Layout::runtime_main_thread, 64},
    {&Layout::runtime_tstate_current, kAbsent},
    {&Layout::runtime_gil, kAbsent},
    {&Layout::interp_id, 8},
    {&Layout::interp_threads_head, 72},
    {&Layout::interp_gil, 384},
    {&Layout::interp_gc, 112},
    {&Layout::interp_modules, 944},
    {&Layout::interp_sysdict, 352},
    {&Layout::interp_builtins, 360},
    {&Layout::interp_eval_frame, 1744},
    {&Layout::thread_exc_info, 104},
    {&Layout::thread_pthread, 136},
    {&Layout::thread_native_id, 144},
    {&Layout::thread_id, 224},
    {&Layout::thread_datastack_chunk, 232},
    {&Layout::thread_datastack_top, 240},
    {&Layout::cframe_current, 0},
    {&Layout::cframe_previous, 8},
    {&Layout::frame_previous, 8},
    {&Layout::frame_code, 0},
    {&Layout::frame_function, 16},
    {&Layout::frame_globals, 24},
    {&Layout::frame_builtins, 32},
    {&Layout::frame_locals, 40},
    {&Layout::frame_object, 48},
    {&Layout::frame_is_entry, kAbsent},
    {&Layout::frame_owner, 70},
    {&Layout::code_argcount, 52},
    {&Layout::code_posonlyargcount, 56},
    {&Layout::code_kwonlyargcount, 60},
    {&Layout::code_nlocalsplus, 72},
    {&Layout::code_stacksize, 64},
    {&Layout::code_firstlineno, 68},
    {&Layout::code_firsttraceable, 176},
    {&Layout::code_adaptive, 192},
    {&Layout::generator_code, kAbsent},
    {&Layout::generator_name, 24},
    {&Layout::generator_qualname, 32},
    {&Layout::generator_state, 67},
    {&Layout::generator_iframe, 72},
    {&Layout::heap_name, 856},
    {&Layout::heap_qualname, 872},
    {&Layout::heap_cached_keys, 880},
    {&Layout::heap_module, 888},
    {&Layout::str_wstr, kAbsent},
    {&Layout::str_data, 56},
    {&Layout::str_ascii_data, 40},
    {&Layout::str_compact_data, 56},
};

void Change(Layout* layout) {
  Traits& traits = layout->traits;
  traits.exception_words = 1;
  traits.shims = true;
  traits.immortal_counts = true;  // PEP 683
  traits.tagged_ints = true;
  traits.attribute_values = AttributeValues::kTagged;
  traits.threads_link_first = false;
  traits.ordered_dicts_as_dicts = true;
  traits.paths_keep_parts = false;
  layout->opcodes = {.raise = 130,
                     .pop_top = 1,
                     .extended = 144,
                     .reraise = 119,
                     .push_exc_info = 35,
                     .match = 36,
                     .match_group = 37,
                     .send_again = 134,
                     .pairs = {84, 86, 88, 154, 158},
                     .return_const = {121, 247}};
}

}  // namespace

extern const Version kVersion312 = {.minor = 12, .offsets = kOffsets, .change = Change};

}  // namespace ttq::python

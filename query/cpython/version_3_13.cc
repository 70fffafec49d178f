// SPDX-License-Identifier: MIT
//
// CPython 3.13: what is otherwise than in 3.12.

#include "query/cpython/versions.h"

namespace ttq::python {
namespace {

constexpr FieldOffset kOffsets[] = {
    {&Layout::runtime_finalizing, 608},  {&Layout::runtime_interpreters_head, 632},
    {&Layout::runtime_main_thread, 656}, {&Layout::interp_next, 7264},
    {&Layout::interp_id, 7272},          {&Layout::interp_threads_head, 7344},
    {&Layout::interp_gil, 16},           {&Layout::interp_gc, 7400},
    {&Layout::interp_modules, 7656},     {&Layout::interp_sysdict, 7640},
    {&Layout::interp_builtins, 7648},    {&Layout::interp_eval_frame, 8472},
    {&Layout::thread_cframe, kAbsent},   {&Layout::thread_current_frame, 72},
    {&Layout::thread_exception, 112},    {&Layout::thread_exc_info, 120},
    {&Layout::thread_pthread, 152},      {&Layout::thread_native_id, 160},
    {&Layout::thread_tracing, 60},       {&Layout::cframe_current, kAbsent},
    {&Layout::cframe_previous, kAbsent}, {&Layout::frame_object_extra_locals, 48},
    {&Layout::code_firsttraceable, 184}, {&Layout::code_adaptive, 200},
    {&Layout::values_array, 8},
};

// Of the free-threaded build: what its longer head of objects does not move by itself.
constexpr FieldOffset kFreeThreaded[] = {
    {&Layout::interp_modules, 7664},     {&Layout::interp_sysdict, 7648},
    {&Layout::interp_builtins, 7656},    {&Layout::interp_eval_frame, 8488},
    {&Layout::gil_last_holder, 16},      {&Layout::gil_locked, 24},
    {&Layout::object_refcount, kAbsent}, {&Layout::object_tid, 0},
    {&Layout::object_gc_bits, 11},       {&Layout::object_ref_local, 12},
    {&Layout::object_ref_shared, 16},
};

constexpr FieldOffset kDebugOffsets[] = {
    {&Layout::runtime_finalizing, 32},
    {&Layout::runtime_interpreters_head, 40},
    {&Layout::interp_id, 56},
    {&Layout::interp_next, 64},
    {&Layout::interp_threads_head, 72},
    {&Layout::interp_gc, 80},
    {&Layout::interp_modules, 88},
    {&Layout::interp_sysdict, 96},
    {&Layout::interp_builtins, 104},
    {&Layout::interp_gil, 112},
    {&Layout::thread_prev, 160},
    {&Layout::thread_next, 168},
    {&Layout::thread_interp, 176},
    {&Layout::thread_current_frame, 184},
    {&Layout::thread_pthread, 192},
    {&Layout::thread_native_id, 200},
    {&Layout::thread_datastack_chunk, 208},
    {&Layout::frame_previous, 232},
    {&Layout::frame_code, 240},
    {&Layout::frame_instruction, 248},
    {&Layout::frame_localsplus, 256},
    {&Layout::frame_owner, 264},
    {&Layout::code_filename, 280},
    {&Layout::code_name, 288},
    {&Layout::code_qualname, 296},
    {&Layout::code_linetable, 304},
    {&Layout::code_firstlineno, 312},
    {&Layout::code_argcount, 320},
    {&Layout::code_localsplusnames, 328},
    {&Layout::code_localspluskinds, 336},
    {&Layout::code_adaptive, 344},
    {&Layout::object_type, 360},
    {&Layout::type_name, 376},
    {&Layout::type_repr, 384},
    {&Layout::type_flags, 392},
    {&Layout::tuple_items, 408},
    {&Layout::list_items, 432},
    {&Layout::dict_keys, 456},
    {&Layout::dict_values, 464},
    {&Layout::float_value, 480},
    {&Layout::long_size, 496},
    {&Layout::long_digits, 504},
    {&Layout::bytes_data, 528},
    {&Layout::str_state, 544},
    {&Layout::str_length, 552},
    {&Layout::str_ascii_data, 560},
};

constexpr AsyncioOffsets kAsyncio = {88, 128, 32, 48, 56, 80, 96, 104, 112, kAbsent, 88};

void Change(Layout* layout) {
  Traits& traits = layout->traits;
  traits.cleanup_codes = true;
  traits.attribute_values = AttributeValues::kBehindHead;
  traits.order_of_values = ValueOrder::kBehind;
  traits.free_lists_link_by_count = layout->free_threaded;
  layout->asyncio = layout->free_threaded ? nullptr : &kAsyncio;
  layout->opcodes = {.raise = 101,
                     .pop_top = 32,
                     .extended = 71,
                     .reraise = 102,
                     .push_exc_info = 33,
                     .match = 7,
                     .match_group = 6,
                     .send_again = 78,
                     .return_const = {103, 240}};
}

}  // namespace

extern const Version kVersion313 = {.minor = 13,
                                    .offsets = kOffsets,
                                    .free_threaded = kFreeThreaded,
                                    .debug_offsets = kDebugOffsets,
                                    .change = Change};

}  // namespace ttq::python

// SPDX-License-Identifier: MIT
//
// CPython 3.14: what is otherwise than in 3.13.

#include "query/cpython/versions.h"

namespace ttq::python {
namespace {

constexpr FieldOffset kOffsets[] = {
    {&Layout::runtime_finalizing, 784},  {&Layout::runtime_interpreters_head, 808},
    {&Layout::runtime_main_thread, 832}, {&Layout::interp_next, 7272},
    {&Layout::interp_id, 7280},          {&Layout::interp_gc, 7408},
    {&Layout::interp_modules, 7688},     {&Layout::interp_sysdict, 7672},
    {&Layout::interp_builtins, 7680},    {&Layout::interp_eval_frame, 8520},
    {&Layout::frame_owner, 74},          {&Layout::frame_localsplus, 80},
    {&Layout::code_firsttraceable, 192}, {&Layout::code_adaptive, 208},
    {&Layout::tuple_items, 32},          {&Layout::lock_semaphore, kAbsent},
    {&Layout::rlock_owner, kAbsent},     {&Layout::interp_tasks, 10880},
    {&Layout::thread_tasks, 880},
};

// The same of the free-threaded build.
constexpr FieldOffset kFreeThreaded[] = {
    {&Layout::interp_modules, 7712},  {&Layout::interp_sysdict, 7696},
    {&Layout::interp_builtins, 7704}, {&Layout::interp_eval_frame, 8560},
    {&Layout::frame_owner, 78},       {&Layout::frame_tlbc_index, 72},
    {&Layout::code_tlbc, 224},        {&Layout::code_adaptive, 232},
    {&Layout::interp_tasks, 17304},
};

constexpr FieldOffset kDebugOffsets[] = {
    {&Layout::runtime_finalizing, 32},
    {&Layout::runtime_interpreters_head, 40},
    {&Layout::interp_id, 56},
    {&Layout::interp_next, 64},
    {&Layout::interp_threads_head, 72},
    {&Layout::interp_gc, 88},
    {&Layout::interp_modules, 96},
    {&Layout::interp_sysdict, 104},
    {&Layout::interp_builtins, 112},
    {&Layout::interp_gil, 120},
    {&Layout::thread_prev, 184},
    {&Layout::thread_next, 192},
    {&Layout::thread_interp, 200},
    {&Layout::thread_current_frame, 208},
    {&Layout::thread_pthread, 216},
    {&Layout::thread_native_id, 224},
    {&Layout::thread_datastack_chunk, 232},
    {&Layout::frame_previous, 256},
    {&Layout::frame_code, 264},
    {&Layout::frame_instruction, 272},
    {&Layout::frame_localsplus, 280},
    {&Layout::frame_owner, 288},
    {&Layout::code_filename, 320},
    {&Layout::code_name, 328},
    {&Layout::code_qualname, 336},
    {&Layout::code_linetable, 344},
    {&Layout::code_firstlineno, 352},
    {&Layout::code_argcount, 360},
    {&Layout::code_localsplusnames, 368},
    {&Layout::code_localspluskinds, 376},
    {&Layout::code_adaptive, 384},
    {&Layout::object_type, 408},
    {&Layout::type_name, 424},
    {&Layout::type_repr, 432},
    {&Layout::type_flags, 440},
    {&Layout::tuple_items, 456},
    {&Layout::list_items, 480},
    {&Layout::dict_keys, 536},
    {&Layout::dict_values, 544},
    {&Layout::float_value, 560},
    {&Layout::long_size, 576},
    {&Layout::long_digits, 584},
    {&Layout::bytes_data, 608},
    {&Layout::str_state, 624},
    {&Layout::str_length, 632},
    {&Layout::str_ascii_data, 640},
};

constexpr std::string_view kReusedTypes[] = {"tuple",
                                             "list",
                                             "dict",
                                             "float",
                                             "slice",
                                             "frame",
                                             "Context",
                                             "_contextvars.Context",
                                             "async_generator_asend",
                                             "async_generator_wrapped_value",
                                             "int",
                                             "list_iterator",
                                             "tuple_iterator",
                                             "range",
                                             "range_iterator",
                                             "method",
                                             "builtin_function_or_method",
                                             "builtin_method"};

constexpr AsyncioOffsets kAsyncio = {96, 152, 32, 48, 56, 88, 104, 112, 120, kAbsent, 96, 136};

void Change(Layout* layout) {
  Traits& traits = layout->traits;
  traits.stack_top = StackTop::kPointer;
  traits.tagged_references = true;
  traits.count_has_flags = true;
  traits.free_lists_link_by_count = true;
  traits.reused_types = kReusedTypes;
  traits.attribute_values = AttributeValues::kBehindObject;
  // `interned` has a byte of its own there.
  if (layout->free_threaded) traits.str_kind_bit = 8;
  layout->asyncio = layout->free_threaded ? nullptr : &kAsyncio;
  layout->opcodes = {.raise = 104,
                     .pop_top = 31,
                     .extended = 69,
                     .reraise = 105,
                     .push_exc_info = 32,
                     .match = 6,
                     .match_group = 5,
                     .send_again = 76,
                     .end_for = 9,
                     .pop_iter = 30};
}

}  // namespace

extern const Version kVersion314 = {.minor = 14,
                                    .offsets = kOffsets,
                                    .free_threaded = kFreeThreaded,
                                    .debug_offsets = kDebugOffsets,
                                    .change = Change};

}  // namespace ttq::python

// SPDX-License-Identifier: MIT
//
// CPython 3.15: what is otherwise than in 3.14.

#include "query/cpython/versions.h"

namespace ttq::python {
namespace {

constexpr FieldOffset kOffsets[] = {
    {&Layout::runtime_finalizing, 912},
    {&Layout::runtime_interpreters_head, 936},
    {&Layout::runtime_main_thread, 960},
    {&Layout::interp_next, 7264},
    {&Layout::interp_id, 7272},
    {&Layout::interp_threads_head, 7336},
    {&Layout::interp_gc, 7400},
    {&Layout::interp_modules, 7592},
    {&Layout::interp_sysdict, 7576},
    {&Layout::interp_builtins, 7584},
    {&Layout::interp_eval_frame, 8472},
    {&Layout::thread_exception, 136},
    {&Layout::thread_exc_info, 144},
    {&Layout::thread_pthread, 176},
    {&Layout::thread_native_id, 184},
    {&Layout::thread_id, 248},
    {&Layout::thread_datastack_chunk, 256},
    {&Layout::thread_datastack_top, 264},
    {&Layout::thread_tracing, 64},
    {&Layout::heap_name, 864},
    {&Layout::heap_qualname, 880},
    {&Layout::heap_cached_keys, 888},
    {&Layout::heap_module, 896},
    {&Layout::module_name, 40},
    {&Layout::interp_tasks, 10856},
    {&Layout::thread_tasks, 1048},
};

// The same of the free-threaded build.
constexpr FieldOffset kFreeThreaded[] = {
    {&Layout::interp_modules, 7592},  {&Layout::interp_sysdict, 7576},
    {&Layout::interp_builtins, 7584}, {&Layout::interp_eval_frame, 8488},
    {&Layout::interp_tasks, 17256},
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
    {&Layout::thread_pthread, 240},
    {&Layout::thread_native_id, 248},
    {&Layout::thread_datastack_chunk, 256},
    {&Layout::frame_previous, 320},
    {&Layout::frame_code, 328},
    {&Layout::frame_instruction, 336},
    {&Layout::frame_localsplus, 344},
    {&Layout::frame_owner, 352},
    {&Layout::code_filename, 384},
    {&Layout::code_name, 392},
    {&Layout::code_qualname, 400},
    {&Layout::code_linetable, 408},
    {&Layout::code_firstlineno, 416},
    {&Layout::code_argcount, 424},
    {&Layout::code_localsplusnames, 432},
    {&Layout::code_localspluskinds, 440},
    {&Layout::code_adaptive, 448},
    {&Layout::object_type, 472},
    {&Layout::type_name, 488},
    {&Layout::type_repr, 496},
    {&Layout::type_flags, 504},
    {&Layout::tuple_items, 552},
    {&Layout::list_items, 576},
    {&Layout::dict_keys, 632},
    {&Layout::dict_values, 640},
    {&Layout::float_value, 656},
    {&Layout::long_size, 672},
    {&Layout::long_digits, 680},
    {&Layout::bytes_data, 704},
    {&Layout::str_state, 720},
    {&Layout::str_length, 728},
    {&Layout::str_ascii_data, 736},
    {&Layout::thread_exception, 288},
    {&Layout::type_basicsize, 512},
    {&Layout::type_dictoffset, 520},
    {&Layout::heap_cached_keys, 536},
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
                                             "builtin_method",
                                             "complex"};

void Change(Layout* layout) {
  Traits& traits = layout->traits;
  // FRAME_CREATED is 0, and the suspended states follow it.
  traits.generator_executing = 4;
  traits.awaited_word = 2;  // above it an index, for loops over lists and tuples
  traits.reused_types = kReusedTypes;
  layout->opcodes = {.raise = 103,
                     .pop_top = 29,
                     .extended = 67,
                     .reraise = 104,
                     .push_exc_info = 30,
                     .match = 6,
                     .match_group = 5,
                     .send_again = 75,
                     .end_for = 9,
                     .pop_iter = 28};
}

}  // namespace

extern const Version kVersion315 = {.minor = 15,
                                    .offsets = kOffsets,
                                    .free_threaded = kFreeThreaded,
                                    .debug_offsets = kDebugOffsets,
                                    .change = Change};

}  // namespace ttq::python

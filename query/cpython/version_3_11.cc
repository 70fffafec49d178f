// SPDX-License-Identifier: MIT
//
// CPython 3.11: what is otherwise than in 3.10.

#include "query/cpython/versions.h"

namespace ttq::python {
namespace {

constexpr FieldOffset kOffsets[] = {
    {&Layout::runtime_finalizing, 24},
    {&Layout::runtime_interpreters_head, 40},
    {&Layout::runtime_main_thread, 80},
    {&Layout::runtime_tstate_current, 576},
    {&Layout::runtime_gil, 360},
    {&Layout::interp_id, 48},
    {&Layout::interp_threads_head, 16},
    {&Layout::interp_gc, 648},
    {&Layout::interp_modules, 888},
    {&Layout::interp_sysdict, 904},
    {&Layout::interp_builtins, 912},
    {&Layout::interp_eval_frame, 1424},
    {&Layout::thread_frame, kAbsent},
    {&Layout::thread_cframe, 56},
    {&Layout::thread_exception, 96},
    {&Layout::thread_exc_info, 120},
    {&Layout::thread_pthread, 152},
    {&Layout::thread_native_id, 160},
    {&Layout::thread_id, 240},
    {&Layout::thread_datastack_chunk, 296},
    {&Layout::thread_datastack_top, 304},
    {&Layout::cframe_current, 8},
    {&Layout::cframe_previous, 16},
    {&Layout::frame_previous, 48},
    {&Layout::frame_function, 0},
    {&Layout::frame_globals, 8},
    {&Layout::frame_builtins, 16},
    {&Layout::frame_locals, 24},
    {&Layout::frame_object, 40},
    {&Layout::frame_instruction, 56},
    {&Layout::frame_value_stack, kAbsent},
    {&Layout::frame_stack_top, 64},
    {&Layout::frame_is_entry, 68},
    {&Layout::frame_owner, 69},
    {&Layout::frame_localsplus, 72},
    {&Layout::frame_generator, kAbsent},
    {&Layout::frame_state, kAbsent},
    {&Layout::frame_object_frame, 24},
    {&Layout::code_flags, 48},
    {&Layout::code_argcount, 56},
    {&Layout::code_posonlyargcount, 60},
    {&Layout::code_kwonlyargcount, 64},
    {&Layout::code_nlocals, 80},
    {&Layout::code_nlocalsplus, 76},
    {&Layout::code_stacksize, 68},
    {&Layout::code_firstlineno, 72},
    {&Layout::code_bytes, kAbsent},
    {&Layout::code_consts, 24},
    {&Layout::code_names, 32},
    {&Layout::code_varnames, kAbsent},
    {&Layout::code_freevars, kAbsent},
    {&Layout::code_cellvars, kAbsent},
    {&Layout::code_localsplusnames, 96},
    {&Layout::code_localspluskinds, 104},
    {&Layout::code_filename, 112},
    {&Layout::code_name, 120},
    {&Layout::code_qualname, 128},
    {&Layout::code_linetable, 136},
    {&Layout::code_exceptiontable, 40},
    {&Layout::code_firsttraceable, 168},
    {&Layout::code_adaptive, 184},
    {&Layout::generator_frame, kAbsent},
    {&Layout::generator_code, 16},
    {&Layout::generator_name, 32},
    {&Layout::generator_qualname, 40},
    {&Layout::generator_state, 75},
    {&Layout::generator_iframe, 80},
    {&Layout::keys_size, kAbsent},
    {&Layout::keys_log2_index_bytes, 9},
    {&Layout::keys_kind, 10},
    {&Layout::keys_nentries, 24},
    {&Layout::keys_indices, 32},
    {&Layout::exception_traceback, 40},
    {&Layout::exception_context, 48},
    {&Layout::exception_cause, 56},
};

constexpr AsyncioOffsets kAsyncio = {112, 160, 32, 48, 56, 72, 112, 120, 128, kAbsent, 152};

void Change(Layout* layout) {
  Traits& traits = layout->traits;
  traits.frame_is_object = false;
  traits.stack_top = StackTop::kDepthInFrame;
  traits.version_in_sys_only = false;         // Py_Version
  traits.line_table = LineTable::kLocations;  // PEP 657
  traits.attribute_values = AttributeValues::kPointer;
  traits.order_of_values = ValueOrder::kBefore;
  traits.threads_link_first = true;
  traits.handled_words = 1;
  traits.flags_have_no_name = false;
  traits.flag_classes = true;
  layout->asyncio = &kAsyncio;
  layout->opcodes = {.raise = 130,
                     .pop_top = 1,
                     .extended = 144,
                     .reraise = 119,
                     .push_exc_info = 35,
                     .match = 36,
                     .match_group = 37,
                     .send_again = 134,
                     .pairs = {44, 45, 46, 161, 167}};
}

}  // namespace

extern const Version kVersion311 = {.minor = 11, .offsets = kOffsets, .change = Change};

}  // namespace ttq::python

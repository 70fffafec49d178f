// SPDX-License-Identifier: MIT

#include "query/cpython/layout.h"

#include <cstring>
#include <iterator>

namespace ttq::python {
namespace {

struct Field {
  Offset Layout::*field;
  const char* name;
  Offset offsets[8];
};

#define TTQ_FIELD(name, ...)              \
  {                                       \
    &Layout::name, #name, { __VA_ARGS__ } \
  }
constexpr Offset kNo = kAbsent;

// Each row one field; columns 3.9, 3.10, 3.11, 3.12, 3.13, 3.13t, 3.14, 3.14t.
constexpr Field kFields[] = {
    TTQ_FIELD(runtime_finalizing, 16, 16, 24, 24, 608, 608, 784, 784),
    TTQ_FIELD(runtime_interpreters_head, 32, 32, 40, 40, 632, 632, 808, 808),
    TTQ_FIELD(runtime_main_thread, 72, 72, 80, 64, 656, 656, 832, 832),
    TTQ_FIELD(runtime_tstate_current, 568, 568, 576, kNo, kNo, kNo, kNo, kNo),
    TTQ_FIELD(runtime_gil, 352, 352, 360, kNo, kNo, kNo, kNo, kNo),

    TTQ_FIELD(interp_next, 0, 0, 0, 0, 7264, 7264, 7272, 7272),
    TTQ_FIELD(interp_id, 24, 24, 48, 8, 7272, 7272, 7280, 7280),
    TTQ_FIELD(interp_threads_head, 8, 8, 16, 72, 7344, 7344, 7344, 7344),
    TTQ_FIELD(interp_gil, kNo, kNo, kNo, 384, 16, 16, 16, 16),
    TTQ_FIELD(interp_gc, 616, 616, 648, 112, 7400, 7400, 7408, 7408),
    TTQ_FIELD(interp_modules, 856, 856, 888, 944, 7656, 7664, 7688, 7712),
    TTQ_FIELD(interp_sysdict, 872, 872, 904, 352, 7640, 7648, 7672, 7696),
    TTQ_FIELD(interp_builtins, 880, 880, 912, 360, 7648, 7656, 7680, 7704),
    TTQ_FIELD(interp_eval_frame, 1400, 1368, 1424, 1744, 8472, 8488, 8520, 8560),
    TTQ_FIELD(gil_last_holder, 8, 8, 8, 8, 8, 8, 8, 8),
    TTQ_FIELD(gil_locked, 16, 16, 16, 16, 16, 16, 16, 16),

    TTQ_FIELD(thread_prev, 0, 0, 0, 0, 0, 0, 0, 0),
    TTQ_FIELD(thread_next, 8, 8, 8, 8, 8, 8, 8, 8),
    TTQ_FIELD(thread_interp, 16, 16, 16, 16, 16, 16, 16, 16),
    TTQ_FIELD(thread_frame, 24, 24, kNo, kNo, kNo, kNo, kNo, kNo),
    TTQ_FIELD(thread_cframe, kNo, kNo, 56, 56, kNo, kNo, kNo, kNo),
    TTQ_FIELD(thread_current_frame, kNo, kNo, kNo, kNo, 72, 72, 72, 72),
    TTQ_FIELD(thread_exception, 88, 88, 96, 96, 112, 112, 112, 112),
    TTQ_FIELD(thread_exc_info, 144, 144, 120, 104, 120, 120, 120, 120),
    TTQ_FIELD(thread_pthread, 176, 176, 152, 136, 152, 152, 152, 152),
    TTQ_FIELD(thread_native_id, kNo, kNo, 160, 144, 160, 160, 160, 160),
    TTQ_FIELD(thread_id, 256, 256, 240, 224, 224, 224, 224, 224),
    TTQ_FIELD(thread_datastack_chunk, kNo, kNo, 296, 232, 232, 232, 232, 232),
    TTQ_FIELD(thread_datastack_top, kNo, kNo, 304, 240, 240, 240, 240, 240),
    TTQ_FIELD(thread_tracing, 44, 44, 44, 44, 60, 60, 60, 60),
    TTQ_FIELD(cframe_current, kNo, kNo, 8, 0, kNo, kNo, kNo, kNo),
    TTQ_FIELD(cframe_previous, kNo, kNo, 16, 8, kNo, kNo, kNo, kNo),

    TTQ_FIELD(frame_previous, 24, 24, 48, 8, 8, 8, 8, 8),
    TTQ_FIELD(frame_code, 32, 32, 32, 0, 0, 0, 0, 0),
    TTQ_FIELD(frame_function, kNo, kNo, 0, 16, 16, 16, 16, 16),
    TTQ_FIELD(frame_globals, 48, 48, 8, 24, 24, 24, 24, 24),
    TTQ_FIELD(frame_builtins, 40, 40, 16, 32, 32, 32, 32, 32),
    TTQ_FIELD(frame_locals, 56, 56, 24, 40, 40, 40, 40, 40),
    TTQ_FIELD(frame_object, kNo, kNo, 40, 48, 48, 48, 48, 48),
    TTQ_FIELD(frame_instruction, 104, 96, 56, 56, 56, 56, 56, 56),
    TTQ_FIELD(frame_stack_top, 72, 80, 64, 64, 64, 64, 64, 64),
    TTQ_FIELD(frame_is_entry, kNo, kNo, 68, kNo, kNo, kNo, kNo, kNo),
    TTQ_FIELD(frame_owner, kNo, kNo, 69, 70, 70, 70, 74, 78),
    TTQ_FIELD(frame_tlbc_index, kNo, kNo, kNo, kNo, kNo, kNo, kNo, 72),
    TTQ_FIELD(frame_localsplus, 360, 352, 72, 72, 72, 72, 80, 80),
    TTQ_FIELD(frame_generator, 96, 88, kNo, kNo, kNo, kNo, kNo, kNo),
    TTQ_FIELD(frame_state, kNo, 108, kNo, kNo, kNo, kNo, kNo, kNo),
    TTQ_FIELD(frame_object_frame, kNo, kNo, 24, 24, 24, 40, 24, 40),
    TTQ_FIELD(frame_object_extra_locals, kNo, kNo, kNo, kNo, 48, 64, 48, 64),

    TTQ_FIELD(code_flags, 36, 36, 48, 48, 48, 64, 48, 64),
    TTQ_FIELD(code_argcount, 16, 16, 56, 52, 52, 68, 52, 68),
    TTQ_FIELD(code_posonlyargcount, 20, 20, 60, 56, 56, 72, 56, 72),
    TTQ_FIELD(code_kwonlyargcount, 24, 24, 64, 60, 60, 76, 60, 76),
    TTQ_FIELD(code_nlocals, 28, 28, 80, 80, 80, 96, 80, 96),
    TTQ_FIELD(code_nlocalsplus, kNo, kNo, 76, 72, 72, 88, 72, 88),
    TTQ_FIELD(code_stacksize, 32, 32, 68, 64, 64, 80, 64, 80),
    TTQ_FIELD(code_firstlineno, 40, 40, 72, 68, 68, 84, 68, 84),
    TTQ_FIELD(code_bytes, 48, 48, kNo, kNo, kNo, kNo, kNo, kNo),
    TTQ_FIELD(code_consts, 56, 56, 24, 24, 24, 40, 24, 40),
    TTQ_FIELD(code_names, 64, 64, 32, 32, 32, 48, 32, 48),
    TTQ_FIELD(code_varnames, 72, 72, kNo, kNo, kNo, kNo, kNo, kNo),
    TTQ_FIELD(code_freevars, 80, 80, kNo, kNo, kNo, kNo, kNo, kNo),
    TTQ_FIELD(code_cellvars, 88, 88, kNo, kNo, kNo, kNo, kNo, kNo),
    TTQ_FIELD(code_localsplusnames, kNo, kNo, 96, 96, 96, 112, 96, 112),
    TTQ_FIELD(code_localspluskinds, kNo, kNo, 104, 104, 104, 120, 104, 120),
    TTQ_FIELD(code_filename, 104, 104, 112, 112, 112, 128, 112, 128),
    TTQ_FIELD(code_name, 112, 112, 120, 120, 120, 136, 120, 136),
    TTQ_FIELD(code_qualname, kNo, kNo, 128, 128, 128, 144, 128, 144),
    TTQ_FIELD(code_linetable, 120, 120, 136, 136, 136, 152, 136, 152),
    TTQ_FIELD(code_firsttraceable, kNo, kNo, 168, 176, 184, 200, 192, 208),
    TTQ_FIELD(code_tlbc, kNo, kNo, kNo, kNo, kNo, kNo, kNo, 224),
    TTQ_FIELD(code_adaptive, kNo, kNo, 184, 192, 200, 216, 208, 232),

    TTQ_FIELD(generator_frame, 16, 16, kNo, kNo, kNo, kNo, kNo, kNo),
    TTQ_FIELD(generator_code, 32, 24, 16, kNo, kNo, kNo, kNo, kNo),
    TTQ_FIELD(generator_name, 48, 40, 32, 24, 24, 40, 24, 40),
    TTQ_FIELD(generator_qualname, 56, 48, 40, 32, 32, 48, 32, 48),
    TTQ_FIELD(generator_state, kNo, kNo, 75, 67, 67, 83, 67, 83),
    TTQ_FIELD(generator_iframe, kNo, kNo, 80, 72, 72, 88, 72, 88),

    TTQ_FIELD(object_refcount, 0, 0, 0, 0, 0, kNo, 0, kNo),
    TTQ_FIELD(object_type, 8, 8, 8, 8, 8, 24, 8, 24),
    TTQ_FIELD(object_size, 16, 16, 16, 16, 16, 32, 16, 32),
    TTQ_FIELD(object_tid, kNo, kNo, kNo, kNo, kNo, 0, kNo, 0),
    TTQ_FIELD(object_gc_bits, kNo, kNo, kNo, kNo, kNo, 11, kNo, 11),
    TTQ_FIELD(object_ref_local, kNo, kNo, kNo, kNo, kNo, 12, kNo, 12),
    TTQ_FIELD(object_ref_shared, kNo, kNo, kNo, kNo, kNo, 16, kNo, 16),
    TTQ_FIELD(object_head, 16, 16, 16, 16, 16, 32, 16, 32),

    TTQ_FIELD(type_name, 24, 24, 24, 24, 24, 40, 24, 40),
    TTQ_FIELD(type_basicsize, 32, 32, 32, 32, 32, 48, 32, 48),
    TTQ_FIELD(type_itemsize, 40, 40, 40, 40, 40, 56, 40, 56),
    TTQ_FIELD(type_repr, 88, 88, 88, 88, 88, 104, 88, 104),
    TTQ_FIELD(type_flags, 168, 168, 168, 168, 168, 184, 168, 184),
    TTQ_FIELD(type_base, 256, 256, 256, 256, 256, 272, 256, 272),
    TTQ_FIELD(type_dict, 264, 264, 264, 264, 264, 280, 264, 280),
    TTQ_FIELD(type_dictoffset, 288, 288, 288, 288, 288, 304, 288, 304),
    TTQ_FIELD(type_weaklistoffset, 208, 208, 208, 208, 208, 224, 208, 224),
    TTQ_FIELD(type_mro, 344, 344, 344, 344, 344, 360, 344, 360),
    TTQ_FIELD(type_members, 240, 240, 240, 240, 240, 256, 240, 256),
    TTQ_FIELD(heap_name, 840, 848, 848, 856, 856, 872, 856, 872),
    TTQ_FIELD(heap_qualname, 856, 864, 864, 872, 872, 888, 872, 888),
    TTQ_FIELD(heap_cached_keys, 864, 872, 872, 880, 880, 896, 880, 896),
    TTQ_FIELD(heap_module, 872, 880, 880, 888, 888, 904, 888, 904),

    TTQ_FIELD(str_length, 16, 16, 16, 16, 16, 32, 16, 32),
    TTQ_FIELD(str_state, 32, 32, 32, 32, 32, 48, 32, 48),
    TTQ_FIELD(str_wstr, 40, 40, 40, kNo, kNo, kNo, kNo, kNo),
    TTQ_FIELD(str_data, 72, 72, 72, 56, 56, 72, 56, 72),
    TTQ_FIELD(str_ascii_data, 48, 48, 48, 40, 40, 56, 40, 56),
    TTQ_FIELD(str_compact_data, 72, 72, 72, 56, 56, 72, 56, 72),
    TTQ_FIELD(long_size, 16, 16, 16, 16, 16, 32, 16, 32),
    TTQ_FIELD(long_digits, 24, 24, 24, 24, 24, 40, 24, 40),
    TTQ_FIELD(float_value, 16, 16, 16, 16, 16, 32, 16, 32),
    TTQ_FIELD(bytes_data, 32, 32, 32, 32, 32, 48, 32, 48),
    TTQ_FIELD(bytearray_start, 40, 40, 40, 40, 40, 56, 40, 56),
    TTQ_FIELD(tuple_items, 24, 24, 24, 24, 24, 40, 32, 48),
    TTQ_FIELD(list_items, 24, 24, 24, 24, 24, 40, 24, 40),
    TTQ_FIELD(dict_used, 16, 16, 16, 16, 16, 32, 16, 32),
    TTQ_FIELD(dict_version, 24, 24, 24, 24, 24, 40, 24, 40),
    TTQ_FIELD(dict_keys, 32, 32, 32, 32, 32, 48, 32, 48),
    TTQ_FIELD(dict_values, 40, 40, 40, 40, 40, 56, 40, 56),
    TTQ_FIELD(keys_size, 8, 8, kNo, kNo, kNo, kNo, kNo, kNo),
    TTQ_FIELD(keys_log2_index_bytes, kNo, kNo, 9, 9, 9, 9, 9, 9),
    TTQ_FIELD(keys_kind, kNo, kNo, 10, 10, 10, 10, 10, 10),
    TTQ_FIELD(keys_nentries, 32, 32, 24, 24, 24, 24, 24, 24),
    TTQ_FIELD(keys_indices, 40, 40, 32, 32, 32, 32, 32, 32),
    TTQ_FIELD(values_array, 0, 0, 0, 0, 8, 8, 8, 8),
    TTQ_FIELD(set_fill, 16, 16, 16, 16, 16, 32, 16, 32),
    TTQ_FIELD(set_used, 24, 24, 24, 24, 24, 40, 24, 40),
    TTQ_FIELD(set_mask, 32, 32, 32, 32, 32, 48, 32, 48),
    TTQ_FIELD(set_table, 40, 40, 40, 40, 40, 56, 40, 56),
    TTQ_FIELD(function_code, 16, 48, 48, 48, 48, 64, 48, 64),
    TTQ_FIELD(function_globals, 24, 16, 16, 16, 16, 32, 16, 32),
    TTQ_FIELD(function_name, 64, 32, 32, 32, 32, 48, 32, 48),
    TTQ_FIELD(function_qualname, 104, 40, 40, 40, 40, 56, 40, 56),
    TTQ_FIELD(function_defaults, 32, 56, 56, 56, 56, 72, 56, 72),
    TTQ_FIELD(function_kwdefaults, 40, 64, 64, 64, 64, 80, 64, 80),
    TTQ_FIELD(function_closure, 48, 72, 72, 72, 72, 88, 72, 88),
    TTQ_FIELD(function_dict, 72, 88, 88, 88, 88, 104, 88, 104),
    TTQ_FIELD(function_module, 88, 104, 104, 104, 104, 120, 104, 120),
    TTQ_FIELD(method_function, 16, 16, 16, 16, 16, 32, 16, 32),
    TTQ_FIELD(method_self, 24, 24, 24, 24, 24, 40, 24, 40),
    TTQ_FIELD(builtin_def, 16, 16, 16, 16, 16, 32, 16, 32),
    TTQ_FIELD(builtin_self, 24, 24, 24, 24, 24, 40, 24, 40),
    TTQ_FIELD(builtin_module, 32, 32, 32, 32, 32, 48, 32, 48),
    TTQ_FIELD(module_dict, 16, 16, 16, 16, 16, 32, 16, 32),
    TTQ_FIELD(module_name, 48, 48, 48, 48, 48, 64, 48, 64),
    TTQ_FIELD(cell_value, 16, 16, 16, 16, 16, 32, 16, 32),
    TTQ_FIELD(exception_dict, 16, 16, 16, 16, 16, 32, 16, 32),
    TTQ_FIELD(exception_args, 24, 24, 24, 24, 24, 40, 24, 40),
    TTQ_FIELD(exception_traceback, 32, 32, 40, 40, 40, 56, 40, 56),
    TTQ_FIELD(exception_context, 40, 40, 48, 48, 48, 64, 48, 64),
    TTQ_FIELD(exception_cause, 48, 48, 56, 56, 56, 72, 56, 72),
    TTQ_FIELD(traceback_next, 16, 16, 16, 16, 16, 32, 16, 32),
    TTQ_FIELD(traceback_frame, 24, 24, 24, 24, 24, 40, 24, 40),
    TTQ_FIELD(traceback_lasti, 32, 32, 32, 32, 32, 48, 32, 48),
    TTQ_FIELD(traceback_lineno, 36, 36, 36, 36, 36, 52, 36, 52),
};
#undef TTQ_FIELD

// What _Py_DebugOffsets says where (Include/internal/pycore_runtime.h of 3.13,
// pycore_debug_offsets.h of 3.14): its layout is fixed within a minor version.
struct Described {
  Offset Layout::*field;
  int at_13, at_14;
};
constexpr Described kDescribed[] = {
    {&Layout::runtime_finalizing, 32, 32},
    {&Layout::runtime_interpreters_head, 40, 40},
    {&Layout::interp_id, 56, 56},
    {&Layout::interp_next, 64, 64},
    {&Layout::interp_threads_head, 72, 72},
    {&Layout::interp_gc, 80, 88},
    {&Layout::interp_modules, 88, 96},
    {&Layout::interp_sysdict, 96, 104},
    {&Layout::interp_builtins, 104, 112},
    {&Layout::interp_gil, 112, 120},
    {&Layout::thread_prev, 160, 184},
    {&Layout::thread_next, 168, 192},
    {&Layout::thread_interp, 176, 200},
    {&Layout::thread_current_frame, 184, 208},
    {&Layout::thread_pthread, 192, 216},
    {&Layout::thread_native_id, 200, 224},
    {&Layout::thread_datastack_chunk, 208, 232},
    {&Layout::frame_previous, 232, 256},
    {&Layout::frame_code, 240, 264},
    {&Layout::frame_instruction, 248, 272},
    {&Layout::frame_localsplus, 256, 280},
    {&Layout::frame_owner, 264, 288},
    {&Layout::code_filename, 280, 320},
    {&Layout::code_name, 288, 328},
    {&Layout::code_qualname, 296, 336},
    {&Layout::code_linetable, 304, 344},
    {&Layout::code_firstlineno, 312, 352},
    {&Layout::code_argcount, 320, 360},
    {&Layout::code_localsplusnames, 328, 368},
    {&Layout::code_localspluskinds, 336, 376},
    {&Layout::code_adaptive, 344, 384},
    {&Layout::object_type, 360, 408},
    {&Layout::type_name, 376, 424},
    {&Layout::type_repr, 384, 432},
    {&Layout::type_flags, 392, 440},
    {&Layout::tuple_items, 408, 456},
    {&Layout::list_items, 432, 480},
    {&Layout::dict_keys, 456, 536},
    {&Layout::dict_values, 464, 544},
    {&Layout::float_value, 480, 560},
    {&Layout::long_size, 496, 576},
    {&Layout::long_digits, 504, 584},
    {&Layout::bytes_data, 528, 608},
    {&Layout::str_state, 544, 624},
    {&Layout::str_length, 552, 632},
    {&Layout::str_ascii_data, 560, 640},
};
constexpr char kCookie[8] = {'x', 'd', 'e', 'b', 'u', 'g', 'p', 'y'};

}  // namespace

std::optional<Layout> LayoutOf(int minor, bool free_threaded) {
  if (minor < kFirstMinor || minor > kLastMinor || (free_threaded && minor < 13)) {
    return std::nullopt;
  }
  int column = minor - kFirstMinor;
  if (minor == 13) column = free_threaded ? 5 : 4;
  if (minor == 14) column = free_threaded ? 7 : 6;
  Layout layout;
  layout.minor = minor;
  layout.free_threaded = free_threaded;
  for (const Field& field : kFields) layout.*field.field = field.offsets[column];
  return layout;
}

std::vector<std::pair<const char*, Offset>> NamedOffsets(const Layout& layout) {
  std::vector<std::pair<const char*, Offset>> named;
  for (const Field& field : kFields) named.emplace_back(field.name, layout.*field.field);
  return named;
}

std::optional<DebugOffsetsHead> ReadDebugOffsetsHead(Memory& memory, uint64_t runtime) {
  struct {
    char cookie[8];
    uint64_t version, free_threaded;
  } head;
  if (!memory.Read(runtime, sizeof head, &head)) return std::nullopt;
  if (memcmp(head.cookie, kCookie, sizeof kCookie) != 0 || head.version >> 24 != 3) {
    return std::nullopt;
  }
  return DebugOffsetsHead{head.version, head.free_threaded != 0};
}

std::string ApplyDebugOffsets(Memory& memory, uint64_t runtime, Layout* layout) {
  std::string contradicted;
  if (layout->minor != 13 && layout->minor != 14) return contradicted;
  for (const Described& described : kDescribed) {
    const int at = layout->minor == 13 ? described.at_13 : described.at_14;
    const std::optional<uint64_t> said = memory.Get<uint64_t>(runtime + at);
    // No structure is as large as a MiB: anything above is not an offset.
    if (!said || *said >= 1 << 20) continue;
    const Offset offset = static_cast<Offset>(*said);
    if (layout->*described.field == offset) continue;
    for (const Field& field : kFields) {
      if (field.field == described.field) contradicted += std::string(field.name) + " ";
    }
    layout->*described.field = offset;
  }
  return contradicted;
}

}  // namespace ttq::python

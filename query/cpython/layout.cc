// SPDX-License-Identifier: MIT

#include "query/cpython/layout.h"

#include <cstring>
#include <iterator>
#include <string>

#include "absl/types/span.h"
#include "query/cpython/versions.h"

namespace ttq::python {
namespace {

struct LayoutField {
  Offset Layout::*field;
  const char* name;
};

#define TTQ_FIELD(name) \
  { &Layout::name, #name }
// Of the interpreter's own structures.
constexpr LayoutField kFields[] = {
    TTQ_FIELD(runtime_finalizing),
    TTQ_FIELD(runtime_interpreters_head),
    TTQ_FIELD(runtime_main_thread),
    TTQ_FIELD(runtime_tstate_current),
    TTQ_FIELD(runtime_gil),
    TTQ_FIELD(interp_next),
    TTQ_FIELD(interp_id),
    TTQ_FIELD(interp_threads_head),
    TTQ_FIELD(interp_gil),
    TTQ_FIELD(interp_gc),
    TTQ_FIELD(interp_modules),
    TTQ_FIELD(interp_sysdict),
    TTQ_FIELD(interp_builtins),
    TTQ_FIELD(interp_eval_frame),
    TTQ_FIELD(interp_tasks),
    TTQ_FIELD(gil_last_holder),
    TTQ_FIELD(gil_locked),
    TTQ_FIELD(thread_prev),
    TTQ_FIELD(thread_next),
    TTQ_FIELD(thread_interp),
    TTQ_FIELD(thread_frame),
    TTQ_FIELD(thread_cframe),
    TTQ_FIELD(thread_current_frame),
    TTQ_FIELD(thread_exception),
    TTQ_FIELD(thread_exc_info),
    TTQ_FIELD(thread_pthread),
    TTQ_FIELD(thread_native_id),
    TTQ_FIELD(thread_id),
    TTQ_FIELD(thread_datastack_chunk),
    TTQ_FIELD(thread_datastack_top),
    TTQ_FIELD(thread_tracing),
    TTQ_FIELD(thread_tasks),
    TTQ_FIELD(cframe_current),
    TTQ_FIELD(cframe_previous),
    TTQ_FIELD(frame_previous),
    TTQ_FIELD(frame_code),
    TTQ_FIELD(frame_function),
    TTQ_FIELD(frame_globals),
    TTQ_FIELD(frame_builtins),
    TTQ_FIELD(frame_locals),
    TTQ_FIELD(frame_object),
    TTQ_FIELD(frame_instruction),
    TTQ_FIELD(frame_value_stack),
    TTQ_FIELD(frame_stack_top),
    TTQ_FIELD(frame_is_entry),
    TTQ_FIELD(frame_owner),
    TTQ_FIELD(frame_tlbc_index),
    TTQ_FIELD(frame_localsplus),
    TTQ_FIELD(frame_generator),
    TTQ_FIELD(frame_state),
    TTQ_FIELD(keys_size),
    TTQ_FIELD(keys_log2_index_bytes),
    TTQ_FIELD(keys_kind),
    TTQ_FIELD(keys_nentries),
    TTQ_FIELD(keys_indices),
    TTQ_FIELD(values_array),
};
// Of objects: all of them lie further back where the head of an object is longer.
constexpr LayoutField kObjectFields[] = {
    TTQ_FIELD(frame_object_frame),
    TTQ_FIELD(frame_object_extra_locals),
    TTQ_FIELD(code_flags),
    TTQ_FIELD(code_argcount),
    TTQ_FIELD(code_posonlyargcount),
    TTQ_FIELD(code_kwonlyargcount),
    TTQ_FIELD(code_nlocals),
    TTQ_FIELD(code_nlocalsplus),
    TTQ_FIELD(code_stacksize),
    TTQ_FIELD(code_firstlineno),
    TTQ_FIELD(code_bytes),
    TTQ_FIELD(code_consts),
    TTQ_FIELD(code_names),
    TTQ_FIELD(code_varnames),
    TTQ_FIELD(code_freevars),
    TTQ_FIELD(code_cellvars),
    TTQ_FIELD(code_localsplusnames),
    TTQ_FIELD(code_localspluskinds),
    TTQ_FIELD(code_filename),
    TTQ_FIELD(code_name),
    TTQ_FIELD(code_qualname),
    TTQ_FIELD(code_linetable),
    TTQ_FIELD(code_exceptiontable),
    TTQ_FIELD(code_firsttraceable),
    TTQ_FIELD(code_tlbc),
    TTQ_FIELD(code_adaptive),
    TTQ_FIELD(generator_frame),
    TTQ_FIELD(generator_code),
    TTQ_FIELD(generator_name),
    TTQ_FIELD(generator_qualname),
    TTQ_FIELD(generator_state),
    TTQ_FIELD(generator_iframe),
    TTQ_FIELD(object_refcount),
    TTQ_FIELD(object_type),
    TTQ_FIELD(object_size),
    TTQ_FIELD(object_tid),
    TTQ_FIELD(object_gc_bits),
    TTQ_FIELD(object_ref_local),
    TTQ_FIELD(object_ref_shared),
    TTQ_FIELD(object_head),
    TTQ_FIELD(type_name),
    TTQ_FIELD(type_basicsize),
    TTQ_FIELD(type_itemsize),
    TTQ_FIELD(type_repr),
    TTQ_FIELD(type_flags),
    TTQ_FIELD(type_base),
    TTQ_FIELD(type_dict),
    TTQ_FIELD(type_dictoffset),
    TTQ_FIELD(type_weaklistoffset),
    TTQ_FIELD(type_mro),
    TTQ_FIELD(type_members),
    TTQ_FIELD(heap_name),
    TTQ_FIELD(heap_qualname),
    TTQ_FIELD(heap_cached_keys),
    TTQ_FIELD(heap_module),
    TTQ_FIELD(str_length),
    TTQ_FIELD(str_state),
    TTQ_FIELD(str_wstr),
    TTQ_FIELD(str_data),
    TTQ_FIELD(str_ascii_data),
    TTQ_FIELD(str_compact_data),
    TTQ_FIELD(long_size),
    TTQ_FIELD(long_digits),
    TTQ_FIELD(float_value),
    TTQ_FIELD(bytes_data),
    TTQ_FIELD(bytearray_start),
    TTQ_FIELD(tuple_items),
    TTQ_FIELD(list_items),
    TTQ_FIELD(dict_used),
    TTQ_FIELD(dict_version),
    TTQ_FIELD(dict_keys),
    TTQ_FIELD(dict_values),
    TTQ_FIELD(set_fill),
    TTQ_FIELD(set_used),
    TTQ_FIELD(set_mask),
    TTQ_FIELD(set_table),
    TTQ_FIELD(function_code),
    TTQ_FIELD(function_globals),
    TTQ_FIELD(function_name),
    TTQ_FIELD(function_qualname),
    TTQ_FIELD(function_defaults),
    TTQ_FIELD(function_kwdefaults),
    TTQ_FIELD(function_closure),
    TTQ_FIELD(function_dict),
    TTQ_FIELD(function_module),
    TTQ_FIELD(method_function),
    TTQ_FIELD(method_self),
    TTQ_FIELD(builtin_def),
    TTQ_FIELD(builtin_self),
    TTQ_FIELD(builtin_module),
    TTQ_FIELD(module_dict),
    TTQ_FIELD(module_name),
    TTQ_FIELD(cell_value),
    TTQ_FIELD(exception_dict),
    TTQ_FIELD(exception_args),
    TTQ_FIELD(exception_traceback),
    TTQ_FIELD(exception_context),
    TTQ_FIELD(exception_cause),
    TTQ_FIELD(traceback_next),
    TTQ_FIELD(traceback_frame),
    TTQ_FIELD(traceback_lasti),
    TTQ_FIELD(traceback_lineno),
    TTQ_FIELD(lock_semaphore),
    TTQ_FIELD(rlock_owner),
};
#undef TTQ_FIELD

// What the head of an object is longer by in a free-threaded build.
constexpr Offset kLongerHead = 16;

constexpr char kCookie[8] = {'x', 'd', 'e', 'b', 'u', 'g', 'p', 'y'};

}  // namespace

const int kFirstMinor = kVersions[0]->minor;
const int kLastMinor = kVersions[std::size(kVersions) - 1]->minor;

std::optional<Layout> LayoutOf(int minor, bool free_threaded) {
  if (minor < kFirstMinor || minor > kLastMinor || (free_threaded && minor < kFirstFreeThreaded)) {
    return std::nullopt;
  }
  const absl::Span<const Version* const> versions(kVersions, minor - kFirstMinor + 1);
  Layout layout;
  layout.minor = minor;
  layout.free_threaded = free_threaded;
  for (const auto& [field, name] : kFields) layout.*field = kAbsent;
  for (const auto& [field, name] : kObjectFields) layout.*field = kAbsent;
  for (const Version* version : versions) {
    for (const auto& [field, offset] : version->offsets) layout.*field = offset;
    if (version->change != nullptr) version->change(&layout);
  }
  if (free_threaded) {
    for (const auto& [field, name] : kObjectFields) {
      if (layout.*field != kAbsent) layout.*field += kLongerHead;
    }
    for (const Version* version : versions) {
      for (const auto& [field, offset] : version->free_threaded) layout.*field = offset;
    }
  }
  return layout;
}

std::vector<std::pair<const char*, Offset>> NamedOffsets(const Layout& layout) {
  std::vector<std::pair<const char*, Offset>> named;
  for (const auto& [field, name] : kFields) named.emplace_back(name, layout.*field);
  for (const auto& [field, name] : kObjectFields) named.emplace_back(name, layout.*field);
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
  for (const auto& [field, at] : kVersions[layout->minor - kFirstMinor]->debug_offsets) {
    const std::optional<uint64_t> said = memory.Get<uint64_t>(runtime + at);
    // No structure is as large as a MiB: anything above is not an offset.
    if (!said || *said >= 1 << 20) continue;
    const Offset offset = static_cast<Offset>(*said);
    if (layout->*field == offset) continue;
    for (const absl::Span<const LayoutField> fields :
         {absl::MakeSpan(kFields), absl::MakeSpan(kObjectFields)}) {
      for (const LayoutField& known : fields) {
        if (known.field == field) contradicted += std::string(known.name) + " ";
      }
    }
    layout->*field = offset;
  }
  return contradicted;
}

}  // namespace ttq::python

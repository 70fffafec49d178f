// SPDX-License-Identifier: MIT
//
// Where CPython keeps what, and what its versions do otherwise: byte offsets on x86-64 Linux and
// traits, as data (versions.h). Offsets are those of the release builds' headers (Include/cpython,
// Include/internal); within a minor version the fields below do not move between patch releases.
// A debug build (Py_DEBUG) lays objects and frames out alike and shifts only what lies behind its
// extra counters in the runtime and the interpreter state: the finder of query/cpython/runtime.h
// tests those by what they point to. From 3.13 on `_Py_DebugOffsets`, which the interpreter carries
// itself, has the last word on what it describes.
//
// Plain values; thread-safe.

#ifndef TTQ_QUERY_CPYTHON_LAYOUT_H_
#define TTQ_QUERY_CPYTHON_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "query/cpython/memory.h"

namespace ttq::python {

// An offset; kAbsent where this version has no such field.
using Offset = int32_t;
inline constexpr Offset kAbsent = -1;

// tp_flags (Include/object.h).
inline constexpr uint64_t kInlineValues = 1 << 2;  // 3.13+
inline constexpr uint64_t kManagedWeakref = 1 << 3;
inline constexpr uint64_t kManagedDict = 1 << 4;
inline constexpr uint64_t kHeapType = 1 << 9;
inline constexpr uint64_t kReady = 1 << 12;
inline constexpr uint64_t kHaveGc = 1 << 14;
inline constexpr uint64_t kLongSubclass = 1 << 24;
inline constexpr uint64_t kListSubclass = 1 << 25;
inline constexpr uint64_t kTupleSubclass = 1 << 26;
inline constexpr uint64_t kBytesSubclass = 1 << 27;
inline constexpr uint64_t kUnicodeSubclass = 1 << 28;
inline constexpr uint64_t kDictSubclass = 1 << 29;
inline constexpr uint64_t kExceptionSubclass = 1 << 30;
inline constexpr uint64_t kTypeSubclass = uint64_t{1} << 31;

// co_flags (Include/cpython/code.h).
inline constexpr uint32_t kCodeOptimized = 0x1;
inline constexpr uint32_t kCodeNewLocals = 0x2;
inline constexpr uint32_t kCodeVarArgs = 0x4;
inline constexpr uint32_t kCodeVarKeywords = 0x8;
inline constexpr uint32_t kCodeGenerator = 0x20;
inline constexpr uint32_t kCodeCoroutine = 0x80;
inline constexpr uint32_t kCodeAsyncGenerator = 0x200;
// Of a function that, called, only makes an object that its code runs in later.
inline constexpr uint32_t kCodeGeneratorLike =
    kCodeGenerator | kCodeCoroutine | kCodeAsyncGenerator;

// co_localspluskinds (Include/internal/pycore_code.h).
inline constexpr uint8_t kLocalHidden = 0x10;  // 3.12+: of an inlined comprehension
inline constexpr uint8_t kLocalFast = 0x20;
inline constexpr uint8_t kLocalCell = 0x40;
inline constexpr uint8_t kLocalFree = 0x80;

// Who owns a frame's memory, in the numbers of 3.14.
enum class FrameOwner : uint8_t {
  kThread = 0,
  kGenerator = 1,
  kFrameObject = 2,
  kShim = 3,  // marks where C called Python; no Python function
};

// How a code object says which instruction belongs to which line.
enum class LineTable : uint8_t {
  kLnotab,     // 3.9: co_lnotab. Tracing goes by its ranges too
  kRanges,     // 3.10: co_linetable of PEP 626
  kLocations,  // 3.11+: co_linetable with columns, PEP 657
};

// Where an object whose type has kManagedDict keeps its attributes while it has no dict.
enum class AttributeValues : uint8_t {
  kNone,          // up to 3.10: there are no such types
  kPointer,       // 3.11: the word 32 bytes before the object points to them
  kTagged,        // 3.12: so does the word 24 bytes before it, less 1; without the 1 it is the dict
  kBehindHead,    // 3.13: they follow PyObject, if the type has kInlineValues
  kBehindObject,  // 3.14+: they follow all of the object
};

// Where the values of a split dict keep the order in which they were inserted.
enum class ValueOrder : uint8_t {
  kByKeys,  // up to 3.10: it is that of the keys
  kBefore,  // 3.11, 3.12: in the bytes before the values
  kBehind,  // 3.13+: in the bytes behind them
};

// What is at frame_stack_top.
enum class StackTop : uint8_t {
  kPointer,       // 3.9, 3.14+: behind the uppermost word
  kDepth,         // 3.10: an int32, of the stack at frame_value_stack
  kDepthInFrame,  // 3.11 to 3.13: an int32, of the variables and the stack at frame_localsplus
};

// What a version does otherwise than others beyond where its fields are. The defaults are those of
// the oldest versions.
struct Traits {
  // A frame is a PyFrameObject and says its instruction as f_lasti, an int32 (up to 3.10); later it
  // is a _PyInterpreterFrame with a pointer.
  bool frame_is_object = false;
  StackTop stack_top = StackTop::kPointer;
  int awaited_word = 1;  // what a suspended frame awaits, from the top of its stack
  int lasti_bytes = 1;   // of code that 1 in f_lasti stands for
  bool shims = false;    // C that runs Python has frames of its own, told by their owner (3.12+)
  bool cleanup_codes = false;       // _Py_InitCleanup is a code object (3.13+)
  bool threads_link_first = false;  // a thread state is linked before it has its interpreter (3.11)
  int8_t generator_executing = 0;   // of gi_frame_state; suspended: less than that
  int exception_words = 1;          // of the exception that is set in a thread state
  int handled_words = 1;            // of the one that a _PyErr_StackItem has, which is handled
  LineTable line_table = LineTable::kLnotab;
  bool version_in_sys_only = false;  // no symbol and no _Py_DebugOffsets says it

  // Objects.
  bool immortal_counts = false;  // PEP 683; the low half of the word alone is the count (3.12+)
  bool count_has_flags = false;  // the high half of the word holds flags (3.14+)
  bool free_lists_link_by_count = false;  // an object in a free list has its link in the count
  bool tagged_references = false;         // those in frames carry a tag in their low bits (3.14+)
  bool tagged_ints = false;  // an int's size is shifted, with its sign in the low bits (3.12+)
  int str_kind_bit = 2;  // of a str's state; `compact` and `ascii` follow the three bits of `kind`
  AttributeValues attribute_values = AttributeValues::kNone;
  ValueOrder order_of_values = ValueOrder::kByKeys;
  uint64_t pool_bytes = 4096;  // of obmalloc
  // Types whose free lists hand out objects without storing the type again.
  absl::Span<const std::string_view> reused_types;

  // What repr() shows.
  bool ordered_dicts_as_dicts = false;  // OrderedDict({'a': 1}) instead of OrderedDict([('a', 1)])
  bool method_wrappers_show = false;    // staticmethod and classmethod show what they wrap
  bool flags_have_no_name = false;      // a Flag of several members has no _name_
  bool flag_classes = false;            // <flag 'F'> instead of <enum 'F'>
  bool paths_keep_parts = false;        // a pathlib path holds _drv, _root and _parts
};

// The opcodes that the history of lines, exceptions and results is read from (Include/opcode.h,
// Include/opcode_ids.h). 0: the version has none, or it is not needed there.
struct Opcodes {
  uint8_t raise = 0, pop_top = 0, extended = 0;
  uint8_t reraise = 0;  // of lines: sets the word back when it has an argument
  uint8_t push_exc_info = 0;
  uint8_t match = 0;         // followed by a jump that is taken where the class is another one
  uint8_t match_group = 0;   // followed by one more instruction and the jump
  bool match_jumps = false;  // `match` is the jump
  uint8_t yield_from = 0;    // sets the word back, to be executed again
  uint8_t send_again = 0;    // jumps back in a loop that is none to the reader
  uint8_t pairs[5] = {};
  uint8_t return_const[2] = {};  // returns a constant of the code; and its instrumented twin
  uint8_t end_for = 0;           // with pop_iter, the end of a loop: neither begins a line
  // 3.14: nor does the instruction after it, which has the line of the instruction before the two.
  uint8_t pop_iter = 0;
};

// FutureObj and TaskObj (Modules/_asynciomodule.c): their sizes, and offsets from the end of the
// head.
struct AsyncioOffsets {
  int64_t future_bytes, task_bytes;
  Offset exception, result, source_traceback, state, waiter, coroutine, name, must_cancel,
      cancels_requested;
  // From 3.14 on: a struct llist_node, in the list of the thread that runs the task, or of the
  // interpreter once that thread has ended (Layout::thread_tasks, interp_tasks).
  Offset node = kAbsent;
};

struct Layout {
  int minor = 0;  // of 3.minor
  bool free_threaded = false;
  Traits traits;
  Opcodes opcodes;
  const AsyncioOffsets* asyncio = nullptr;  // null: not known

  // _PyRuntimeState
  Offset runtime_finalizing, runtime_interpreters_head, runtime_main_thread, runtime_tstate_current,
      runtime_gil;  // runtime_gil: the GIL itself, up to 3.11
  // PyInterpreterState. interp_gil: a pointer to the GIL, from 3.12 on.
  Offset interp_next, interp_id, interp_threads_head, interp_gil, interp_gc, interp_modules,
      interp_sysdict, interp_builtins, interp_eval_frame, interp_tasks;
  // The GIL: {interval, last_holder, locked, switch_number}.
  Offset gil_last_holder, gil_locked;
  // PyThreadState. thread_frame: the frame up to 3.10; thread_cframe: 3.11 and 3.12, a _PyCFrame on
  // the C stack that holds the frame at cframe_current; thread_current_frame: from 3.13 on.
  Offset thread_prev, thread_next, thread_interp, thread_frame, thread_cframe, thread_current_frame,
      thread_exception, thread_exc_info, thread_pthread, thread_native_id, thread_id,
      thread_datastack_chunk, thread_datastack_top, thread_tracing, thread_tasks;
  Offset cframe_current, cframe_previous;

  // A frame: PyFrameObject up to 3.10, _PyInterpreterFrame from 3.11 on. frame_instruction: up to
  // 3.10 f_lasti (i32, in bytes in 3.9 and code units in 3.10), later a pointer into the code.
  Offset frame_previous, frame_code, frame_function, frame_globals, frame_builtins, frame_locals,
      frame_object, frame_instruction, frame_value_stack, frame_stack_top, frame_is_entry,
      frame_owner, frame_tlbc_index, frame_localsplus, frame_generator, frame_state;
  // PyFrameObject from 3.11 on: its _PyInterpreterFrame.
  Offset frame_object_frame, frame_object_extra_locals;

  // PyCodeObject. code_bytes: co_code, a bytes object, up to 3.10; code_adaptive: the instructions
  // themselves, from 3.11 on.
  Offset code_flags, code_argcount, code_posonlyargcount, code_kwonlyargcount, code_nlocals,
      code_nlocalsplus, code_stacksize, code_firstlineno, code_bytes, code_consts, code_names,
      code_varnames, code_freevars, code_cellvars, code_localsplusnames, code_localspluskinds,
      code_filename, code_name, code_qualname, code_linetable, code_exceptiontable,
      code_firsttraceable, code_tlbc, code_adaptive;

  // PyGenObject, PyCoroObject, PyAsyncGenObject. generator_frame: the frame object up to 3.10;
  // generator_iframe: the frame itself inside the generator, from 3.11 on.
  Offset generator_frame, generator_code, generator_name, generator_qualname, generator_state,
      generator_iframe;

  // PyObject and PyVarObject. Free-threaded builds count in two words.
  Offset object_refcount, object_type, object_size, object_tid, object_gc_bits, object_ref_local,
      object_ref_shared, object_head;  // object_head: sizeof(PyObject)

  // PyTypeObject, PyHeapTypeObject
  Offset type_name, type_basicsize, type_itemsize, type_repr, type_flags, type_base, type_dict,
      type_dictoffset, type_weaklistoffset, type_mro, type_members, heap_name, heap_qualname,
      heap_cached_keys, heap_module;

  // Built-in objects
  Offset str_length, str_state, str_wstr, str_data, str_ascii_data, str_compact_data;
  Offset long_size, long_digits, float_value, bytes_data, bytearray_start;
  Offset tuple_items, list_items;
  Offset dict_used, dict_version, dict_keys, dict_values;
  Offset keys_size, keys_log2_index_bytes, keys_kind, keys_nentries, keys_indices;
  Offset values_array;
  Offset set_fill, set_used, set_mask, set_table;
  Offset function_code, function_globals, function_name, function_qualname, function_defaults,
      function_kwdefaults, function_closure, function_dict, function_module;
  Offset method_function, method_self, builtin_def, builtin_self, builtin_module;
  Offset module_dict, module_name, cell_value;
  Offset exception_dict, exception_args, exception_traceback, exception_context, exception_cause;
  Offset traceback_next, traceback_frame, traceback_lasti, traceback_lineno;
  // lockobject and rlockobject (Modules/_threadmodule.c) while they have a semaphore, which is at
  // the same place in both. rlock_owner: as threading.get_ident() gives it.
  Offset lock_semaphore, rlock_owner;

  // A reference in a frame (f_executable, f_funcobj, locals, value stack) carries a tag in its low
  // bits where the version has tagged_references, and 1 is its NULL.
  uint64_t Untag(uint64_t reference) const {
    return traits.tagged_references ? reference & ~uint64_t{3} : reference;
  }
  // Of what is at frame_instruction.
  uint64_t instruction_bytes() const { return traits.frame_is_object ? 4 : 8; }
  // The offset in the code of what f_lasti says; -1: the frame has not begun.
  int64_t OffsetOfLasti(int32_t lasti) const {
    return lasti < 0 ? -1 : int64_t{lasti} * traits.lasti_bytes;
  }
};

// The first and the last minor version with a table.
extern const int kFirstMinor, kLastMinor;

// The table of CPython 3.minor; nullopt for a version without one.
std::optional<Layout> LayoutOf(int minor, bool free_threaded);

// Every offset of a layout with its name in Layout, for tests.
std::vector<std::pair<const char*, Offset>> NamedOffsets(const Layout& layout);

// The head of _Py_DebugOffsets.
struct DebugOffsetsHead {
  uint64_t version = 0;  // as PY_VERSION_HEX
  bool free_threaded = false;
};
// nullopt when there is none at `runtime`: before 3.13, or not a runtime at all.
std::optional<DebugOffsetsHead> ReadDebugOffsetsHead(Memory& memory, uint64_t runtime);
// Replaces what the _Py_DebugOffsets at `runtime` describes. Gives the names of the fields that it
// contradicted, for tests.
std::string ApplyDebugOffsets(Memory& memory, uint64_t runtime, Layout* layout);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_LAYOUT_H_

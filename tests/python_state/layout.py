# SPDX-License-Identifier: MIT
"""layout.py DUMP: the tables of offsets against the debug information of each CPython found.

gdb says where each field is; a table must agree on every field that it has and gdb knows. An
interpreter without debug information is passed over.
"""

import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from interpreters import interpreters  # noqa: E402

RT, IS, TS, FR, CO = "struct pyruntimestate", "PyInterpreterState", "PyThreadState", "frame", "PyCodeObject"
GEN, TYPE, HEAP, FUNC = "PyGenObject", "PyTypeObject", "PyHeapTypeObject", "PyFunctionObject"
STR, DICT, KEYS, EXC = "PyUnicodeObject", "PyDictObject", "struct _dictkeysobject", "PyBaseExceptionObject"

# The name in ttq's table: where the field is in C, the first that exists counts.
FIELDS = {
    "runtime_finalizing": [(RT, "_finalizing")],
    "runtime_interpreters_head": [(RT, "interpreters.head")],
    "runtime_main_thread": [(RT, "main_thread")],
    "runtime_tstate_current": [(RT, "gilstate.tstate_current")],
    "interp_next": [(IS, "next")], "interp_id": [(IS, "id")],
    "interp_threads_head": [(IS, "threads.head"), (IS, "tstate_head")],
    "interp_gc": [(IS, "gc")], "interp_modules": [(IS, "imports.modules"), (IS, "modules")],
    "interp_sysdict": [(IS, "sysdict")], "interp_builtins": [(IS, "builtins")],
    "interp_eval_frame": [(IS, "eval_frame")], "interp_tasks": [(IS, "asyncio_tasks_head")],
    "thread_prev": [(TS, "prev")], "thread_next": [(TS, "next")], "thread_interp": [(TS, "interp")],
    "thread_frame": [(TS, "frame")], "thread_cframe": [(TS, "cframe")],
    "thread_current_frame": [(TS, "current_frame")],
    "thread_exception": [(TS, "current_exception"), (TS, "curexc_type")],
    "thread_exc_info": [(TS, "exc_info")], "thread_pthread": [(TS, "thread_id")],
    "thread_native_id": [(TS, "native_thread_id")], "thread_id": [(TS, "id")],
    "thread_datastack_chunk": [(TS, "datastack_chunk")], "thread_datastack_top": [(TS, "datastack_top")],
    "thread_tracing": [(TS, "tracing")], "thread_tasks": [("_PyThreadStateImpl", "asyncio_tasks_head")],
    "cframe_current": [("_PyCFrame", "current_frame")], "cframe_previous": [("_PyCFrame", "previous")],
    "frame_previous": [(FR, "previous"), (FR, "f_back")],
    "frame_code": [(FR, "f_executable"), (FR, "f_code")],
    "frame_function": [(FR, "f_funcobj"), (FR, "f_func")],
    "frame_globals": [(FR, "f_globals")], "frame_builtins": [(FR, "f_builtins")],
    "frame_locals": [(FR, "f_locals")], "frame_object": [(FR, "frame_obj")],
    "frame_instruction": [(FR, "instr_ptr"), (FR, "prev_instr"), (FR, "f_lasti")],
    "frame_value_stack": [(FR, "f_valuestack")],
    "frame_stack_top": [(FR, "stackpointer"), (FR, "stacktop"), (FR, "f_stackdepth"), (FR, "f_stacktop")],
    "frame_is_entry": [(FR, "is_entry")], "frame_owner": [(FR, "owner")],
    "frame_localsplus": [(FR, "localsplus"), (FR, "f_localsplus")],
    "frame_generator": [(FR, "f_gen")], "frame_state": [(FR, "f_state")],
    "frame_object_frame": [("PyFrameObject", "f_frame")],
    "frame_object_extra_locals": [("PyFrameObject", "f_extra_locals")],
    **{"code_" + f: [(CO, "co_" + f)] for f in (
        "flags", "argcount", "posonlyargcount", "kwonlyargcount", "nlocals", "nlocalsplus", "stacksize",
        "firstlineno", "consts", "names", "varnames", "freevars", "cellvars", "localsplusnames",
        "localspluskinds", "filename", "name", "qualname")},
    "code_bytes": [(CO, "co_code")], "code_exceptiontable": [(CO, "co_exceptiontable")], "code_linetable": [(CO, "co_linetable"), (CO, "co_lnotab")],
    "code_firsttraceable": [(CO, "_co_firsttraceable")], "code_adaptive": [(CO, "co_code_adaptive")],
    "generator_frame": [(GEN, "gi_frame")], "generator_code": [(GEN, "gi_code")],
    "generator_name": [(GEN, "gi_name")], "generator_qualname": [(GEN, "gi_qualname")],
    "generator_state": [(GEN, "gi_frame_state")], "generator_iframe": [(GEN, "gi_iframe")],
    "object_refcount": [("PyObject", "ob_refcnt")], "object_type": [("PyObject", "ob_type")],
    "object_size": [("PyVarObject", "ob_size")],
    **{"type_" + f: [(TYPE, "tp_" + f)] for f in (
        "name", "basicsize", "itemsize", "repr", "flags", "base", "dict", "dictoffset", "weaklistoffset",
        "mro", "members")},
    "heap_name": [(HEAP, "ht_name")], "heap_qualname": [(HEAP, "ht_qualname")],
    "heap_cached_keys": [(HEAP, "ht_cached_keys")], "heap_module": [(HEAP, "ht_module")],
    "str_length": [(STR, "_base._base.length")], "str_state": [(STR, "_base._base.state")],
    "str_wstr": [(STR, "_base._base.wstr")], "str_data": [(STR, "data")],
    "long_size": [("PyLongObject", "long_value.lv_tag"), ("PyLongObject", "ob_base.ob_size")],
    "long_digits": [("PyLongObject", "long_value.ob_digit"), ("PyLongObject", "ob_digit")],
    "float_value": [("PyFloatObject", "ob_fval")], "bytes_data": [("PyBytesObject", "ob_sval")],
    "bytearray_start": [("PyByteArrayObject", "ob_start")],
    "tuple_items": [("PyTupleObject", "ob_item")], "list_items": [("PyListObject", "ob_item")],
    "dict_used": [(DICT, "ma_used")], "dict_version": [(DICT, "ma_version_tag"), (DICT, "_ma_watcher_tag")],
    "dict_keys": [(DICT, "ma_keys")], "dict_values": [(DICT, "ma_values")],
    "keys_size": [(KEYS, "dk_size")], "keys_log2_index_bytes": [(KEYS, "dk_log2_index_bytes")],
    "keys_kind": [(KEYS, "dk_kind")], "keys_nentries": [(KEYS, "dk_nentries")],
    "keys_indices": [(KEYS, "dk_indices")],
    "values_array": [("struct _dictvalues", "values")],
    **{"set_" + f: [("PySetObject", f)] for f in ("fill", "used", "mask", "table")},
    **{"function_" + f: [(FUNC, "func_" + f)] for f in (
        "code", "globals", "name", "qualname", "defaults", "kwdefaults", "closure", "dict", "module")},
    "method_function": [("PyMethodObject", "im_func")], "method_self": [("PyMethodObject", "im_self")],
    "builtin_def": [("PyCFunctionObject", "m_ml")], "builtin_self": [("PyCFunctionObject", "m_self")],
    "builtin_module": [("PyCFunctionObject", "m_module")],
    "module_dict": [("PyModuleObject", "md_dict")], "module_name": [("PyModuleObject", "md_name")],
    "cell_value": [("PyCellObject", "ob_ref")],
    "lock_semaphore": [("lockobject", "lock_lock"), ("rlockobject", "rlock_lock")],
    "rlock_owner": [("rlockobject", "rlock_owner")],
    **{"exception_" + f: [(EXC, f)] for f in ("dict", "args", "traceback", "context", "cause")},
    **{"traceback_" + f: [("PyTracebackObject", "tb_" + f)] for f in ("next", "frame", "lasti", "lineno")},
}

# There, and of no use: 3.10's _PyCFrame holds no frame.
LEFT_OUT = {(10, "thread_cframe")}


def by_gdb(library, minor):
    """The offset of each field that the debug information has."""
    frame = "PyFrameObject" if minor < 11 else "struct _PyInterpreterFrame"
    script, keys = ["set pagination off", "set confirm off"], []
    for name, places in FIELDS.items():
        for struct, member in places:
            struct = frame if struct == FR else struct
            script.append(f'printf "{name} "')
            script.append(f"print/d (long)&(({struct} *)0)->{member}")
    commands = "\n".join("python\ntry:\n  gdb.execute(%r)\nexcept gdb.error: print('no')\nend" % line
                         for line in script)
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"layout-{os.getpid()}.gdb")
    with open(path, "w", encoding="utf-8") as file:
        file.write(commands + "\n")
    try:
        run = subprocess.run(["gdb", "-nx", "-batch", "-x", path, library], capture_output=True, text=True)
    finally:
        os.unlink(path)
    found = {}
    for name, offset in re.findall(r"^(\w+) \$\d+ = (\d+)$", run.stdout, re.M):
        found.setdefault(name, int(offset))
    return found


def code_of(python):
    """The flags of an interpreter's build, and the file that holds it: the program or its libpython."""
    run = subprocess.run([python, "-c", "import sys; print(sys.abiflags, sys.executable, sep='\\n')"],
                         capture_output=True, text=True, check=True)
    flags, program = run.stdout.splitlines()
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    shared = re.search(r"=> (\S*/libpython3\.\S+)", libraries)
    return flags, shared[1] if shared else program


def main():
    dump = sys.argv[1]
    if not shutil.which("gdb"):
        print("gdb is not installed")
        sys.exit(77)
    checked = wrong = 0
    for (_, minor, _), python in interpreters():
        flags, library = code_of(python)
        if "d" in flags:  # what lies behind a debug build's counters is looked for
            continue
        table = subprocess.run([dump, str(minor)] + ["t"] * ("t" in flags), capture_output=True, text=True)
        if table.returncode != 0:
            continue
        offsets = {n: int(o) for n, o in (line.split() for line in table.stdout.splitlines())}
        truth = by_gdb(library, minor)
        if len(truth) < 50:
            print(f"{library}: no debug information")
            continue
        checked += 1
        for name, offset in truth.items():
            if offsets[name] != offset and (minor, name) not in LEFT_OUT:
                wrong += 1
                print(f"{library}: {name} is at {offset}, the table says {offsets[name]}")
        print(f"{library}: {len(truth)} offsets compared")
    if not checked:
        print("no CPython with debug information to compare with")
        sys.exit(77)
    sys.exit(1 if wrong else 0)


main()

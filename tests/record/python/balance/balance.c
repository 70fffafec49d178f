// SPDX-License-Identifier: MIT
//
// An extension whose functions each count references to one object wrongly, and their twins that
// count them right: faults.inc.

#include <Python.h>

struct State {
  PyObject *last, *other;
};

#define WRONG 1
#define FN(name) name
#include "faults.inc"
#undef WRONG
#undef FN
#define WRONG 0
#define FN(name) name##_right
#include "faults.inc"

// clang-format off
#define BOTH(name) {#name, name, METH_O, NULL}, {#name "_right", name##_right, METH_O, NULL}
// clang-format on
static PyMethodDef methods[] = {BOTH(item_kept),
                                BOTH(error_path),
                                BOTH(early_return),
                                BOTH(append),
                                BOTH(made_and_stored),
                                BOTH(attribute),
                                BOTH(loop_left),
                                BOTH(callback_result),
                                BOTH(callback_argument),
                                BOTH(packed),
                                BOTH(state_replaced),
                                BOTH(global_replaced),
                                BOTH(returned_twice),
                                BOTH(exported),
                                BOTH(boxed),
                                BOTH(borrowed_kept),
                                BOTH(state_borrowed),
                                BOTH(tuple_stolen),
                                BOTH(list_stolen),
                                BOTH(given_back),
                                BOTH(given_back_by_key),
                                BOTH(borrowed_returned),
                                BOTH(error_twice),
                                BOTH(packed_borrowed),
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "balance", NULL,
                                        sizeof(struct State), methods};
PyMODINIT_FUNC PyInit_balance(void) { return PyModule_Create(&definition); }

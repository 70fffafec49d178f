// SPDX-License-Identifier: MIT
//
// An extension that returns None, with a reference to it and without.

#include <Python.h>

static PyObject* right(PyObject* self, PyObject* unused) { Py_RETURN_NONE; }

static PyObject* wrong(PyObject* self, PyObject* unused) { return Py_None; }  // at: wrong

static PyMethodDef methods[] = {{"right", right, METH_NOARGS, NULL},
                                {"wrong", wrong, METH_NOARGS, NULL},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "nothing", NULL, -1, methods};

PyMODINIT_FUNC PyInit_nothing(void) { return PyModule_Create(&module); }

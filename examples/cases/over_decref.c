// SPDX-License-Identifier: MIT
//
// An extension that gives back a reference it does not have.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject* average(PyObject* self, PyObject* list) {
  (void)self;
  double sum = 0;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
    PyObject* item = PyList_GET_ITEM(list, i);
    PyObject* value = PyObject_GetAttrString(item, "value");
    if (value == NULL) return NULL;
    sum += PyFloat_AsDouble(value);
    Py_DECREF(value);
    Py_DECREF(item);  // the list's: it was only borrowed
  }
  return PyFloat_FromDouble(sum / (double)PyList_GET_SIZE(list));
}

static PyMethodDef methods[] = {{"average", average, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "over_decref", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_over_decref(void) { return PyModule_Create(&module); }

// SPDX-License-Identifier: MIT
//
// A day's readings of a weather station, as a Python type in C. It holds room for three readings
// and has a mistake of the common kind: `add` lets a fourth in. Days are allocated side by side, so
// the fourth reading of one day lands on the head of the next: its reference count and its type.
//
// Nothing happens then. Python crashes when somebody asks that other day for anything.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

enum { kReadings = 3 };

typedef struct {
  long hour;
  double celsius;
} Reading;

typedef struct {
  PyObject_HEAD long station;
  long count;
  Reading readings[kReadings];
} Day;

static int day_init(Day* self, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"station", NULL};
  self->count = 0;
  return PyArg_ParseTupleAndKeywords(args, kwargs, "l", names, &self->station) ? 0 : -1;
}

static PyObject* day_add(Day* self, PyObject* args) {
  Reading reading;
  if (!PyArg_ParseTuple(args, "ld", &reading.hour, &reading.celsius)) return NULL;
  if (self->count > kReadings) {  // the mistake: >= was meant
    PyErr_SetString(PyExc_ValueError, "the day is full");
    return NULL;
  }
  Reading* place = &self->readings[self->count++];
  place->hour = reading.hour;
  place->celsius = reading.celsius;
  Py_RETURN_NONE;
}

static PyObject* day_mean(Day* self, PyObject* unused) {
  (void)unused;
  double sum = 0;
  for (long i = 0; i < self->count; i++) sum += self->readings[i].celsius;
  return PyFloat_FromDouble(self->count ? sum / (double)self->count : 0);
}

static PyMethodDef day_methods[] = {
    {"add", (PyCFunction)day_add, METH_VARARGS, "add(hour, celsius): one more reading"},
    {"mean", (PyCFunction)day_mean, METH_NOARGS, "mean(): of the temperatures so far"},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject DayType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "weather.Day",
    .tp_basicsize = sizeof(Day),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Up to three readings of one station on one day",
    .tp_methods = day_methods,
    .tp_init = (initproc)day_init,
    .tp_new = PyType_GenericNew,
};

static struct PyModuleDef weather_module = {PyModuleDef_HEAD_INIT, .m_name = "weather",
                                            .m_size = -1};

PyMODINIT_FUNC PyInit_weather(void) {
  PyObject* module = PyModule_Create(&weather_module);
  if (module == NULL || PyModule_AddType(module, &DayType) < 0) return NULL;
  return module;
}

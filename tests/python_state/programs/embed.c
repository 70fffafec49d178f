// SPDX-License-Identifier: MIT
//
// Embeds Python twice, one time after the other, each with a second interpreter beside the first.
#include <Python.h>

static PyObject* native(PyObject* self, PyObject* callable) {
  return PyObject_CallFunctionObjArgs(callable, NULL);
}

static PyMethodDef method = {"native", native, METH_O, ""};

static void run(const char* text) {
  if (PyRun_SimpleString(text) != 0) exit(1);
}

static void round_of(int n) {
  char text[64];
  Py_Initialize();
  PyObject* function = PyCFunction_New(&method, NULL);
  PyObject_SetAttrString(PyImport_AddModule("__main__"), "native", function);
  Py_DECREF(function);
  run("import sys\n"
      "def inner():\n"
      "  sys.stdout.write('@inner\\n'); sys.stdout.flush()\n"
      "def outer(n):\n"
      "  return native(inner)\n");
  snprintf(text, sizeof text, "outer(%d)\n", n);
  run(text);
  PyThreadState* first = PyThreadState_Get();
  PyThreadState* other = Py_NewInterpreter();
  run("import sys\n"
      "def second(n):\n"
      "  sys.stdout.write('@second\\n'); sys.stdout.flush()\n"
      "second(2)\n");
  Py_EndInterpreter(other);
  PyThreadState_Swap(first);
  run(text);
  Py_Finalize();
}

int main(void) {
  for (int n = 1; n <= 2; ++n) round_of(n);
  return 0;
}

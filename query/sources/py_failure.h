// SPDX-License-Identifier: MIT
//
// The exception that a Python program failed by: one that nobody caught or, of a run of pytest or
// unittest, that of the first test that failed.

#ifndef TTQ_QUERY_SOURCES_PY_FAILURE_H_
#define TTQ_QUERY_SOURCES_PY_FAILURE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/cpython/failed_tests.h"
#include "query/cpython/raises.h"
#include "query/outcome.h"
#include "query/sources/native_raise.h"
#include "query/value.h"

namespace ttq {

struct PythonFailure {
  // nullopt: of tests that failed otherwise.
  std::optional<python::Raise> raise;
  std::optional<NativeRaise> native;      // where C code made it
  std::vector<python::FailedTest> tests;  // in order; empty: nobody caught the exception
  bool exits = false;                     // a SystemExit with something to say

  Time time() const { return raise ? raise->time : tests.front().time; }
};

struct PythonEnding {
  std::optional<PythonFailure> failure;
  // What made it exit with its status, where that is known and no failure.
  std::optional<python::Raise> exit;
};

// Of a program that ended well, died by a signal or has no Python that is known: nothing.
absl::StatusOr<PythonEnding> FindPythonEnding(const Context& context, ScanControl* control);

// "ValueError: not a number"
std::string TextOf(const python::Raise& raise);
// "nobody caught ValueError: not a number", "test_x.py::test_f failed by …"
std::string CauseOf(const PythonFailure& failure);

// An object of `type`, `message`, `time`, `thread`, `function`, `file`, `line`, `raised_by`,
// `native` (NativeRaise; null: Python code raised it, or that is not known), `test`, `frames` (the
// innermost first, each with its `locals` when it was raised), `traceback`, `chain`, `exceptions`
// and `failed_tests`.
absl::StatusOr<Value> ValueOf(const PythonFailure& failure, const Context& context,
                              Outcome* outcome);

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_PY_FAILURE_H_

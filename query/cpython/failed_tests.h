// SPDX-License-Identifier: MIT
//
// Which tests failed in a run of pytest or unittest, and the exception that the first of them
// failed by. Read from what their own reports say at the end of the run.

#ifndef TTQ_QUERY_CPYTHON_FAILED_TESTS_H_
#define TTQ_QUERY_CPYTHON_FAILED_TESTS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/raises.h"
#include "store/read/reader.h"

namespace ttq::python {

struct FailedTest {
  std::string name;   // "test_x.py::test_f[1]", "module.Class.test_f"
  std::string error;  // as its runner says it, in one line: "AssertionError: 3 != 4"
  Time time;          // at which that was written down
};

struct TestRun {
  std::vector<FailedTest> failed;  // in order of time; at most kMaxTests
  // What the first one failed by; nullopt where it failed by no exception, or by one of another
  // process.
  std::optional<Raise> raise;
};
inline constexpr size_t kMaxTests = 100;

// The run of tests that ended last before t. None failed, or there was no run: `failed` is empty.
absl::StatusOr<TestRun> FindFailedTests(const Recording& recording, const Process& process, Time t,
                                        ScanControl* control);

// Whether a file is part of what runs tests.
bool IsOfTestRunner(const std::string& file);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_FAILED_TESTS_H_

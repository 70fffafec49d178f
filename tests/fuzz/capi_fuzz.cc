// SPDX-License-Identifier: MIT
//
// Any bytes as a query with values, through the C API and on a real recording: every call ends with
// an answer or an error that says what is wrong, the rows can be read in every way, and the two
// ways of reading them agree on their number.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "capi/ttq.h"
#include "tests/support/trace_text.h"

namespace {

constexpr const char kHistory[] =
    "map 0x10000 0x12000 rw\n"
    "thread 1\n"
    "0x401000 store 0x10000 4 = 7\n"
    "0x401004 store 0x10020 16 = \"sixteen bytes in\"\n"
    "block\n"
    "thread 2\n"
    "0x402004 store 0x10000 1 = 9\n"
    "output 1 \"caf\\xe9\\n\"\n"
    "fault 11 0xdead0000: 0x401008 store 0xdead0000 4 = 1\n"
    "fatal 11\n";
constexpr uint64_t kMaxRows = 1000;

ttq_process* process;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s; last error: %s\n", what, ttq_last_error()->message);
  std::abort();
}

bool Failed(ttq_status status, size_t length) {
  if (status >= 0) return false;
  const ttq_error& error = *ttq_last_error();
  Require(error.status == status, "the error is of another call");
  Require(status != TTQ_ERROR_INTERNAL, "an internal error");
  Require(error.message[0] != '\0', "an error without a message");
  Require(error.begin == TTQ_NOWHERE || (error.begin <= error.end && error.end <= length),
          "a place outside the query");
  return true;
}

uint64_t ReadRows(ttq_result* result) {
  uint64_t rows = 0;
  while (ttq_result_next(result) == TTQ_ROW) {
    ++rows;
    for (size_t i = 0; i < ttq_result_column_count(result); ++i) {
      const char* text;
      const void* bytes;
      size_t size;
      uint64_t number;
      int64_t integer;
      const ttq_status status = ttq_result_text(result, i, &text, &size);
      Require(status == TTQ_OK || status == TTQ_ERROR_NULL, "a value without a text");
      ttq_result_bytes(result, i, &bytes, &size);
      ttq_result_uint64(result, i, &number);
      ttq_result_int64(result, i, &integer);
    }
  }
  return rows;
}

// -1 when a value does not fit its column.
int64_t ReadArrays(ttq_result* result) {
  ArrowArrayStream stream;
  ArrowSchema schema;
  Require(ttq_result_arrow(result, nullptr, &stream) == TTQ_OK, "no stream");
  Require(stream.get_schema(&stream, &schema) == 0, "no schema");
  int64_t rows = 0;
  for (ArrowArray array;; array.release(&array)) {
    if (stream.get_next(&stream, &array) != 0) {
      Require(stream.get_last_error(&stream) != nullptr, "an error without a message");
      rows = -1;
      break;
    }
    if (!array.release) break;
    Require(array.n_children == schema.n_children, "an array that is not of the schema");
    for (int64_t i = 0; i < array.n_children; ++i) {
      Require(array.children[i]->length == array.length, "columns of different lengths");
    }
    rows += array.length;
  }
  schema.release(&schema);
  stream.release(&stream);
  return rows;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  char scratch[] = "/tmp/ttq-fuzz-XXXXXX";
  Require(mkdtemp(scratch) != nullptr, "no scratch directory");
  const std::string trace = std::string(scratch) + "/fuzz.ttq";
  Require(ttq::RecordText(kHistory, trace).ok(), "the history cannot be recorded");
  ttq_recording* recording;
  Require(ttq_open(trace.c_str(), &recording) == TTQ_OK, "the recording cannot be opened");
  Require(ttq_process_open(recording, 0, &process) == TTQ_OK, "its process cannot be opened");
  ttq_close(recording);
  std::filesystem::remove_all(scratch);  // what is open stays readable
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const uint8_t kinds = data[0];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  ttq_query* query;
  if (Failed(ttq_prepare(process, text.data(), text.size(), &query), text.size())) return 0;
  for (size_t i = 0; i < ttq_query_parameter_count(query); ++i) {
    switch ((kinds >> (i % 4 * 2)) & 3) {
      case 0:
        ttq_bind_uint64(query, i, 0x10000);
        break;
      case 1:
        ttq_bind_int64(query, i, 3 - static_cast<int64_t>(i));
        break;
      case 2:
        ttq_bind_text(query, i, text.data(), text.size() / 2);
        break;
      case 3:
        ttq_bind_name(query, i, text.data(), text.size() / 2);
        break;
    }
  }
  ttq_run_options options = TTQ_RUN_OPTIONS_INIT;
  options.limit = kMaxRows;
  ttq_result *by_row, *by_array;
  if (!Failed(ttq_run(query, &options, &by_row), text.size())) {
    Require(ttq_run(query, &options, &by_array) == TTQ_OK, "the second run fails");
    const uint64_t rows = ReadRows(by_row);
    const int64_t in_arrays = ReadArrays(by_array);
    Require(in_arrays < 0 || static_cast<uint64_t>(in_arrays) == rows, "different numbers of rows");
    ttq_result_free(by_array);
    ttq_result_free(by_row);
  }
  ttq_query_free(query);
  return 0;
}

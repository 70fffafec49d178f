/* SPDX-License-Identifier: MIT
 *
 * capi_test RECORD_TEXT HISTORY: every function of ttq.h, on a recording of HISTORY. Prints what
 * fails; exit status 0 when nothing did.
 */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capi/ttq.h"

static int failures;

#define EXPECT(condition)                                                             \
  do {                                                                                \
    if (!(condition)) {                                                               \
      fprintf(stderr, "%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition, \
              ttq_last_error()->message);                                             \
      ++failures;                                                                     \
    }                                                                                 \
  } while (0)
#define EXPECT_TEXT(actual, expected)                                                   \
  do {                                                                                  \
    const char* text_ = (actual);                                                       \
    if (!text_ || strcmp(text_, (expected)) != 0) {                                     \
      fprintf(stderr, "%s:%d: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, #actual, \
              text_ ? text_ : "(null)", (expected));                                    \
      ++failures;                                                                       \
    }                                                                                   \
  } while (0)
#define REQUIRE(condition) \
  do {                     \
    EXPECT(condition);     \
    if (failures) exit(1); \
  } while (0)

static const char* directory;
static ttq_recording* recording;
static ttq_process* process;

static ttq_query* Prepare(const char* text) {
  ttq_query* query;
  REQUIRE(ttq_prepare(process, text, TTQ_NOWHERE, &query) == TTQ_OK);
  return query;
}

static ttq_result* Run(const char* text) {
  ttq_query* query = Prepare(text);
  ttq_result* result;
  REQUIRE(ttq_run(query, NULL, &result) == TTQ_OK);
  ttq_query_free(query); /* a result does not need it */
  return result;
}

static size_t ColumnOf(const ttq_result* result, const char* name) {
  for (size_t i = 0; i < ttq_result_column_count(result); ++i) {
    ttq_column column = {sizeof column, NULL, 0, 0};
    if (ttq_result_column(result, i, &column) == TTQ_OK && strcmp(column.name, name) == 0) return i;
  }
  fprintf(stderr, "there is no column %s\n", name);
  exit(1);
}

static uint64_t Number(ttq_result* result, const char* column) {
  uint64_t value = 0;
  EXPECT(ttq_result_uint64(result, ColumnOf(result, column), &value) == TTQ_OK);
  return value;
}

static const char* Text(ttq_result* result, const char* column) {
  const char* text = NULL;
  EXPECT(ttq_result_text(result, ColumnOf(result, column), &text, NULL) == TTQ_OK);
  return text;
}

static void TestNames(void) {
  EXPECT(strncmp(ttq_version(), "0.", 2) == 0);
  EXPECT_TEXT(ttq_status_name(TTQ_OK), "TTQ_OK");
  EXPECT_TEXT(ttq_status_name(TTQ_ERROR_BUSY), "TTQ_ERROR_BUSY");
  EXPECT_TEXT(ttq_status_name(-99), "unknown");
  EXPECT_TEXT(ttq_type_name(TTQ_TYPE_VALUE), "value");
  EXPECT_TEXT(ttq_type_name(TTQ_TYPE_REAL), "real");
  EXPECT_TEXT(ttq_type_name(0), "unknown");
  EXPECT_TEXT(ttq_register_name(0), "rax");
  EXPECT_TEXT(ttq_register_name(15), "r15");
  EXPECT(ttq_register_name(16) == NULL);
}

static void TestOpen(void) {
  ttq_recording* none = (ttq_recording*)&failures;
  EXPECT(ttq_open("/nonexistent", &none) == TTQ_ERROR_NOT_FOUND);
  EXPECT(none == NULL);
  EXPECT_TEXT(ttq_last_error()->message, "there is no recording /nonexistent");
  EXPECT(ttq_last_error()->begin == TTQ_NOWHERE);
  EXPECT(ttq_open("/", &none) == TTQ_ERROR_NOT_A_RECORDING);
  EXPECT(ttq_open(directory, NULL) == TTQ_ERROR_INVALID_ARGUMENT);
  ttq_close(NULL);

  setenv("TTQ_TRACE", directory, 1);
  EXPECT(ttq_open(NULL, &none) == TTQ_OK); /* the same recording a second time */
  ttq_close(none);

  ttq_recording_info info = {sizeof info};
  REQUIRE(ttq_describe_recording(recording, &info) == TTQ_OK);
  EXPECT_TEXT(info.path, directory);
  EXPECT(info.process_count == 1 && info.default_process == 1 && info.finished);
  EXPECT(info.argument_count == 3);
  EXPECT_TEXT(info.arguments[2], "two");

  ttq_process_info p = {sizeof p};
  REQUIRE(ttq_describe_process(recording, 0, &p) == TTQ_OK);
  EXPECT(p.number == 1 && p.parent == 0 && p.fatal_signal == 11 && !p.has_exit_status);
  EXPECT(p.has_crash && p.crash == p.end - 1);
  EXPECT_TEXT(p.program, "/bin/demo");
  EXPECT(ttq_describe_process(recording, 1, &p) == TTQ_ERROR_INVALID_ARGUMENT);
  p.size = 0;
  EXPECT(ttq_describe_process(recording, 0, &p) == TTQ_ERROR_INVALID_ARGUMENT);

  ttq_process* other;
  EXPECT(ttq_process_open(recording, 7, &other) == TTQ_ERROR_NOT_FOUND);
  EXPECT(other == NULL);
  EXPECT(ttq_process_number(process) == 1 && ttq_process_number(NULL) == 0);
}

/* A caller that was compiled when the structure ended earlier. */
static void TestOlderStructures(void) {
  struct {
    size_t size;
    uint32_t number;
    uint32_t beyond[40];
  } old = {offsetof(ttq_process_info, parent), 0, {0}};
  EXPECT(ttq_describe_process(recording, 0, (ttq_process_info*)&old) == TTQ_OK);
  EXPECT(old.size == offsetof(ttq_process_info, parent) && old.number == 1 && old.beyond[0] == 0);
}

static void TestState(void) {
  uint8_t bytes[8], known[8];
  EXPECT(ttq_memory(process, 0x10000, 4, 0, bytes, known) == TTQ_OK);
  EXPECT(bytes[0] == 0 && known[0] == 1);
  EXPECT(ttq_memory(process, 0x10000, 4, 1, bytes, NULL) == TTQ_OK);
  EXPECT(bytes[0] == 7);
  memset(bytes, 0xff, sizeof bytes);
  EXPECT(ttq_memory(process, 0x11ffc, 8, 1, bytes, known) == TTQ_OK);
  EXPECT(known[3] == 1 && known[4] == 0 && bytes[4] == 0);
  EXPECT(ttq_memory(process, 0x10000, 4, 1000000, bytes, known) == TTQ_ERROR_OUT_OF_RANGE);
  EXPECT(ttq_memory(process, ~(uint64_t)0, 4, 0, bytes, known) == TTQ_ERROR_OUT_OF_RANGE);
  EXPECT(ttq_memory(process, 0, 0, 0, NULL, NULL) == TTQ_OK);
  EXPECT(ttq_memory(process, 0, 1, 0, NULL, NULL) == TTQ_ERROR_INVALID_ARGUMENT);
  EXPECT(ttq_memory(process, 0, (uint64_t)1 << 40, 0, bytes, NULL) == TTQ_ERROR_INVALID_ARGUMENT);

  ttq_register_values registers = {sizeof registers};
  EXPECT(ttq_registers(process, 5, 0, &registers) == TTQ_OK);
  EXPECT(registers.thread == 2 && registers.general[0] == 5 && registers.pc == 0x402004);
  EXPECT(ttq_registers(process, 5, 1, &registers) == TTQ_OK);
  EXPECT(registers.thread == 1 && registers.general[0] == 0);
  EXPECT(ttq_registers(process, 5, 9, &registers) == TTQ_ERROR_NOT_FOUND);
  int64_t wall;
  EXPECT(ttq_wall_clock(process, 5, &wall) == TTQ_OK);
  EXPECT(ttq_wall_clock(process, 1000000, &wall) == TTQ_ERROR_OUT_OF_RANGE);
}

static void TestRows(void) {
  ttq_result* result = Run("writes to 0x10000..0x10200");
  uint64_t number;
  EXPECT(ttq_result_uint64(result, 0, &number) == TTQ_ERROR_INVALID_ARGUMENT); /* no row yet */
  EXPECT(ttq_result_next(result) == TTQ_ROW);
  EXPECT(Number(result, "time") == 0 && Number(result, "address") == 0x10000);
  EXPECT(Number(result, "value") == 7);
  EXPECT_TEXT(Text(result, "value"), "0x7");
  EXPECT_TEXT(Text(result, "actor"), "instruction");
  int is_null = 0;
  EXPECT(ttq_result_is_null(result, ColumnOf(result, "function"), &is_null) == TTQ_OK && is_null);
  EXPECT(ttq_result_uint64(result, ColumnOf(result, "function"), &number) == TTQ_ERROR_NULL);
  EXPECT(ttq_result_uint64(result, ColumnOf(result, "actor"), &number) == TTQ_ERROR_WRONG_TYPE);
  EXPECT(ttq_result_uint64(result, 1000, &number) == TTQ_ERROR_INVALID_ARGUMENT);

  EXPECT(ttq_result_next(result) == TTQ_ROW);
  const void* bytes;
  size_t size;
  EXPECT(ttq_result_bytes(result, ColumnOf(result, "value"), &bytes, &size) == TTQ_OK);
  EXPECT(size == 8 && memcmp(bytes, "caf\xe9!\0\0\0", 8) == 0);
  EXPECT(ttq_result_next(result) == TTQ_ROW);
  EXPECT(Number(result, "value") == 0x8000000000000001);
  int64_t negative;
  EXPECT(ttq_result_int64(result, ColumnOf(result, "value"), &negative) == TTQ_ERROR_WRONG_TYPE);
  EXPECT(ttq_result_int64(result, ColumnOf(result, "size"), &negative) == TTQ_OK && negative == 8);
  EXPECT(ttq_result_next(result) == TTQ_ROW);
  EXPECT(ttq_result_uint64(result, ColumnOf(result, "value"), &number) == TTQ_ERROR_WRONG_TYPE);
  EXPECT(ttq_result_bytes(result, ColumnOf(result, "value"), &bytes, &size) == TTQ_OK);
  EXPECT(size == 16 && memcmp(bytes, "sixteen bytes in", 16) == 0);
  EXPECT(ttq_result_next(result) == TTQ_ROW);
  EXPECT(ttq_result_next(result) == TTQ_OK);
  EXPECT(ttq_result_next(result) == TTQ_OK);
  EXPECT(ttq_result_uint64(result, 0, &number) == TTQ_ERROR_INVALID_ARGUMENT);
  ttq_summary summary = {sizeof summary};
  EXPECT(ttq_result_summary(result, &summary) == TTQ_OK);
  EXPECT(summary.rows == 5 && summary.complete && !summary.interrupted);
  EXPECT(summary.layout == TTQ_LAYOUT_ROWS);
  ttq_column column = {sizeof column};
  EXPECT(ttq_result_column(result, 0, &column) == TTQ_OK);
  EXPECT(column.type == TTQ_TYPE_TIME && column.shown);
  EXPECT(ttq_result_column(result, ColumnOf(result, "module"), &column) == TTQ_OK && !column.shown);
  EXPECT(ttq_result_column(result, 1000, &column) == TTQ_ERROR_INVALID_ARGUMENT);
  ttq_result_free(result);

  /* Reals, and whole numbers as the nearest. */
  result = Run("writes to 0x10000 | first 1 | select time, size / 8.0, actor");
  EXPECT(ttq_result_next(result) == TTQ_ROW);
  double real = 0;
  EXPECT(ttq_result_double(result, 1, &real) == TTQ_OK && real == 0.5);
  EXPECT(ttq_result_double(result, 0, &real) == TTQ_OK && real == 0);
  EXPECT(ttq_result_double(result, 2, &real) == TTQ_ERROR_WRONG_TYPE);
  EXPECT(ttq_result_double(result, 1, NULL) == TTQ_ERROR_INVALID_ARGUMENT);
  EXPECT(ttq_result_int64(result, 1, &negative) == TTQ_ERROR_WRONG_TYPE);
  EXPECT(ttq_result_uint64(result, 1, &number) == TTQ_ERROR_WRONG_TYPE);
  EXPECT_TEXT(Text(result, "size / 8.0"), "0.5");
  EXPECT(ttq_result_column(result, 1, &column) == TTQ_OK && column.type == TTQ_TYPE_REAL);
  ttq_result_free(result);

  /* Text that the program wrote, which is not UTF-8. */
  result = Run("events output");
  EXPECT(ttq_result_next(result) == TTQ_ROW);
  EXPECT(strstr(Text(result, "detail"), "\xe9") == NULL);
  ttq_result_free(result);

  result = Run("writes to 0x50000");
  EXPECT(ttq_result_next(result) == TTQ_OK);
  EXPECT(ttq_result_summary(result, &summary) == TTQ_OK);
  EXPECT(strstr(summary.no_rows, "nothing wrote 0x50000"));
  EXPECT(strstr(summary.note, "never mapped"));
  ttq_result_free(result);
}

static void TestLimit(void) {
  ttq_query* query = Prepare("writes to 0x10000..0x10200");
  ttq_run_options options = TTQ_RUN_OPTIONS_INIT;
  options.limit = 2;
  ttq_result* result;
  REQUIRE(ttq_run(query, &options, &result) == TTQ_OK);
  EXPECT(ttq_result_next(result) == TTQ_ROW && ttq_result_next(result) == TTQ_ROW);
  ttq_summary summary = {sizeof summary};
  EXPECT(ttq_result_summary(result, &summary) == TTQ_OK && !summary.truncated);
  EXPECT(ttq_result_next(result) == TTQ_OK);
  EXPECT(ttq_result_summary(result, &summary) == TTQ_OK && summary.truncated && summary.rows == 2);
  ttq_result_free(result);
  ttq_query_free(query);
}

static void TestBadQueries(void) {
  ttq_query* query = (ttq_query*)&failures;
  EXPECT(ttq_prepare(process, "last write too x", TTQ_NOWHERE, &query) == TTQ_ERROR_QUERY);
  EXPECT(query == NULL);
  const ttq_error* error = ttq_last_error();
  EXPECT(error->status == TTQ_ERROR_QUERY && error->begin == 11 && error->end == 14);
  EXPECT_TEXT(error->hint, "'to'");
  EXPECT(strstr(error->rendered, "^~~"));
  EXPECT(ttq_prepare(process, "threads\0x", 9, &query) == TTQ_ERROR_QUERY);
  EXPECT(ttq_prepare(process, NULL, 0, &query) == TTQ_ERROR_INVALID_ARGUMENT);
  EXPECT(ttq_prepare(process, "threadsX", 7, &query) == TTQ_OK);
  ttq_query_free(query);

  ttq_result* result = (ttq_result*)&failures;
  query = Prepare("memory ? len 4 at :t");
  EXPECT(ttq_run(query, NULL, &result) == TTQ_ERROR_QUERY && result == NULL);
  EXPECT_TEXT(ttq_last_error()->message, "no value is bound to '?'");
  EXPECT(ttq_last_error()->begin == 7 && ttq_last_error()->end == 8);
  EXPECT(ttq_bind_uint64(query, 0, 0x10000) == TTQ_OK);
  EXPECT(ttq_bind_uint64(query, 1, 1000000) == TTQ_OK);
  EXPECT(ttq_run(query, NULL, &result) != TTQ_OK);
  EXPECT(ttq_last_error()->begin == 18); /* the time is past the end */
  ttq_query_free(query);
}

static void* FailElsewhere(void* message) {
  ttq_recording* none;
  ttq_open("/nonexistent", &none);
  strcpy(message, ttq_last_error()->message);
  return NULL;
}

static void TestErrorsAreOfTheirThread(void) {
  ttq_query* query;
  EXPECT(ttq_prepare(process, "bad", TTQ_NOWHERE, &query) == TTQ_ERROR_QUERY);
  char message[200];
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, FailElsewhere, message) == 0);
  pthread_join(thread, NULL);
  EXPECT(strstr(message, "/nonexistent"));
  EXPECT(ttq_last_error()->status == TTQ_ERROR_QUERY);
}

static void TestParameters(void) {
  ttq_query* query = Prepare("writes to :a len :n where value == ? and actor == :who");
  EXPECT(ttq_query_parameter_count(query) == 4);
  EXPECT_TEXT(ttq_query_parameter_name(query, 0), "a");
  EXPECT_TEXT(ttq_query_parameter_name(query, 2), "");
  EXPECT(ttq_query_parameter_name(query, 4) == NULL);
  size_t index = 99;
  EXPECT(ttq_query_parameter_index(query, "who", &index) == TTQ_OK && index == 3);
  EXPECT(ttq_query_parameter_index(query, "nobody", &index) == TTQ_ERROR_NOT_FOUND);
  EXPECT(ttq_query_parameter_index(query, "", &index) == TTQ_ERROR_NOT_FOUND);
  EXPECT(ttq_bind_uint64(query, 0, 0x10000) == TTQ_OK);
  EXPECT(ttq_bind_int64(query, 1, 8) == TTQ_OK);
  EXPECT(ttq_bind_uint64(query, 2, 9) == TTQ_OK);
  EXPECT(ttq_bind_text(query, 3, "instruction, and more", 11) == TTQ_OK);
  ttq_result *first, *second;
  REQUIRE(ttq_run(query, NULL, &first) == TTQ_OK);
  EXPECT(ttq_bind_uint64(query, 2, 7) == TTQ_OK);
  REQUIRE(ttq_run(query, NULL, &second) == TTQ_OK);
  EXPECT(ttq_result_next(first) == TTQ_ROW && Number(first, "time") == 5);
  EXPECT(ttq_result_next(second) == TTQ_ROW && Number(second, "time") == 0);
  ttq_result_free(first);
  ttq_result_free(second);

  EXPECT(ttq_bind_text(query, 3, "\xff", TTQ_NOWHERE) == TTQ_ERROR_INVALID_ARGUMENT);
  EXPECT(ttq_bind_name(query, 3, "a`b", TTQ_NOWHERE) == TTQ_ERROR_INVALID_ARGUMENT);
  EXPECT(ttq_bind_name(query, 3, "", TTQ_NOWHERE) == TTQ_ERROR_INVALID_ARGUMENT);
  EXPECT(ttq_bind_uint64(query, 4, 0) == TTQ_ERROR_INVALID_ARGUMENT);
  EXPECT(ttq_bind_double(query, 1, 1.5) == TTQ_OK);
  EXPECT(ttq_run(query, NULL, &first) == TTQ_ERROR_QUERY);
  EXPECT_TEXT(ttq_last_error()->message,
              "':n' must be a number here, and a fraction is bound to it");
  EXPECT(ttq_query_clear(query) == TTQ_OK);
  EXPECT(ttq_run(query, NULL, &first) == TTQ_ERROR_QUERY);
  ttq_query_free(query);

  query = Prepare("threads | select :column");
  EXPECT(ttq_bind_name(query, 0, "os_tid", TTQ_NOWHERE) == TTQ_OK);
  REQUIRE(ttq_run(query, NULL, &first) == TTQ_OK);
  EXPECT(ttq_result_column_count(first) == 1);
  ttq_result_free(first);
  ttq_query_free(query);
}

static void Collect(void* words, const char* word) { strcat(strcat(words, word), " "); }

static void TestExplainAndComplete(void) {
  ttq_query* query = Prepare("writes to 0x10000");
  const char* steps = NULL;
  EXPECT(ttq_explain(query, &steps) == TTQ_OK && strstr(steps, "0x10000"));
  ttq_query_free(query);
  char words[1000] = "";
  EXPECT(ttq_complete("last wr", TTQ_NOWHERE, Collect, words) == TTQ_OK);
  EXPECT_TEXT(words, "write writes ");
}

/* ---- Interruption and threads --------------------------------------------------------------- */

static int Refuse(void* calls, uint64_t done, uint64_t total) {
  (void)done, (void)total;
  atomic_fetch_add((atomic_int*)calls, 1);
  return 1;
}

static void TestInterrupt(void) {
  /* A query that was interrupted before its rows are read. */
  ttq_query* query = Prepare("writes to 0x10000..0x10200");
  ttq_run_options options = TTQ_RUN_OPTIONS_INIT;
  options.full_scan = 1;
  ttq_result* result;
  REQUIRE(ttq_run(query, &options, &result) == TTQ_OK);
  ttq_query_interrupt(query);
  ttq_status status;
  while ((status = ttq_result_next(result)) == TTQ_ROW) continue;
  EXPECT(status == TTQ_ERROR_INTERRUPTED);
  EXPECT(ttq_result_next(result) == TTQ_ERROR_INTERRUPTED);
  ttq_summary summary = {sizeof summary};
  EXPECT(ttq_result_summary(result, &summary) == TTQ_OK && summary.interrupted);
  ttq_result_free(result);

  /* The same by the callback, and the next run is not touched by it. */
  atomic_int calls = 0;
  options.progress = Refuse;
  options.progress_context = &calls;
  options.progress_interval_ms = 1;
  REQUIRE(ttq_run(query, &options, &result) == TTQ_OK);
  while (!atomic_load(&calls)) usleep(1000);
  while ((status = ttq_result_next(result)) == TTQ_ROW) continue;
  EXPECT(status == TTQ_ERROR_INTERRUPTED);
  ttq_result_free(result);
  options.progress = NULL;
  REQUIRE(ttq_run(query, &options, &result) == TTQ_OK);
  while ((status = ttq_result_next(result)) == TTQ_ROW) continue;
  EXPECT(status == TTQ_OK);
  ttq_result_interrupt(result); /* too late, and harmless */
  ttq_result_free(result);
  ttq_query_free(query);
  ttq_query_interrupt(NULL);
  ttq_result_interrupt(NULL);
}

static void* CountRows(void* unused) {
  (void)unused;
  intptr_t wrong = 0;
  for (int i = 0; i < 20; ++i) {
    ttq_query* query;
    ttq_result* result;
    wrong += ttq_prepare(process, "writes to 0x10000..0x10200", TTQ_NOWHERE, &query) != TTQ_OK;
    wrong += ttq_run(query, NULL, &result) != TTQ_OK;
    int rows = 0;
    while (ttq_result_next(result) == TTQ_ROW) ++rows;
    wrong += rows != 5;
    ttq_result_free(result);
    ttq_query_free(query);
  }
  return (void*)wrong;
}

static void TestThreads(void) {
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) REQUIRE(pthread_create(&threads[i], NULL, CountRows, NULL) == 0);
  for (int i = 0; i < 4; ++i) {
    void* wrong;
    pthread_join(threads[i], &wrong);
    EXPECT(wrong == NULL);
  }
}

/* Every row is got exactly once, whoever asks; who comes at the wrong moment is told so. */
static atomic_int shared_rows, strange;
static void* ReadShared(void* result) {
  ttq_status status;
  while ((status = ttq_result_next(result)) == TTQ_ROW || status == TTQ_ERROR_BUSY) {
    if (status == TTQ_ROW) atomic_fetch_add(&shared_rows, 1);
  }
  if (status != TTQ_OK) atomic_fetch_add(&strange, 1);
  return NULL;
}

static void TestAResultReadFromTwoThreads(void) {
  ttq_result* result = Run("memory 0x10000..0x12000");
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) REQUIRE(pthread_create(&threads[i], NULL, ReadShared, result) == 0);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  ttq_summary summary = {sizeof summary};
  EXPECT(ttq_result_summary(result, &summary) == TTQ_OK);
  EXPECT(strange == 0 && (uint64_t)shared_rows == summary.rows && summary.rows > 0);
  ttq_result_free(result);
}

static void TestClosingInAnyOrder(void) {
  ttq_recording* r;
  ttq_process* p;
  ttq_query* q;
  ttq_result* result;
  struct ArrowArrayStream stream;
  REQUIRE(ttq_open(directory, &r) == TTQ_OK);
  REQUIRE(ttq_process_open(r, 0, &p) == TTQ_OK);
  ttq_close(r);
  REQUIRE(ttq_prepare(p, "writes to 0x10000", TTQ_NOWHERE, &q) == TTQ_OK);
  ttq_process_close(p);
  REQUIRE(ttq_run(q, NULL, &result) == TTQ_OK);
  ttq_query_free(q);
  EXPECT(ttq_result_next(result) == TTQ_ROW);
  REQUIRE(ttq_result_arrow(result, NULL, &stream) == TTQ_OK);
  ttq_result_free(result);
  struct ArrowArray array;
  EXPECT(stream.get_next(&stream, &array) == 0 && array.length == 1); /* the second row */
  stream.release(&stream);
  EXPECT(*(const uint64_t*)array.children[0]->buffers[1] == 5);
  array.release(&array);
}

/* ---- Arrow ---------------------------------------------------------------------------------- */

static int64_t FieldOf(const struct ArrowSchema* schema, const char* name) {
  for (int64_t i = 0; i < schema->n_children; ++i) {
    if (strcmp(schema->children[i]->name, name) == 0) return i;
  }
  fprintf(stderr, "there is no field %s\n", name);
  exit(1);
}

static int Valid(const struct ArrowArray* array, int64_t i) {
  const uint8_t* bits = array->buffers[0];
  return !bits || (bits[i / 8] >> (i % 8) & 1);
}

static void TestArrow(void) {
  ttq_result* result = Run("writes to 0x10000..0x10200");
  struct ArrowArrayStream stream;
  ttq_arrow_options options = TTQ_ARROW_OPTIONS_INIT;
  options.batch_rows = 4;
  REQUIRE(ttq_result_arrow(result, &options, &stream) == TTQ_OK);
  struct ArrowSchema schema;
  struct ArrowArray array, next, end;
  REQUIRE(stream.get_schema(&stream, &schema) == 0);
  EXPECT_TEXT(schema.format, "+s");
  const int64_t time = FieldOf(&schema, "time"), value = FieldOf(&schema, "value"),
                wide = FieldOf(&schema, "value_bytes"), actor = FieldOf(&schema, "actor"),
                function = FieldOf(&schema, "function");
  EXPECT_TEXT(schema.children[time]->format, "L");
  EXPECT_TEXT(schema.children[value]->format, "L");
  EXPECT_TEXT(schema.children[wide]->format, "Z");
  EXPECT_TEXT(schema.children[actor]->format, "i");
  EXPECT_TEXT(schema.children[actor]->dictionary->format, "U");
  const char* metadata = schema.children[FieldOf(&schema, "address")]->metadata;
  EXPECT(metadata && memcmp(metadata + 8, "ttq.type", 8) == 0 &&
         memcmp(metadata + 20, "address", 7) == 0);

  REQUIRE(stream.get_next(&stream, &array) == 0);
  EXPECT(array.length == 4 && array.n_children == schema.n_children);
  EXPECT(((const uint64_t*)array.children[time]->buffers[1])[3] == 3);
  EXPECT(((const uint64_t*)array.children[value]->buffers[1])[2] == 0x8000000000000001);
  EXPECT(Valid(array.children[value], 2) && !Valid(array.children[value], 3));
  EXPECT(array.children[value]->null_count == 1);
  const struct ArrowArray* bytes = array.children[wide];
  const int64_t* offsets = bytes->buffers[1];
  EXPECT(!Valid(bytes, 0) && Valid(bytes, 3) && offsets[4] - offsets[3] == 16);
  EXPECT(memcmp((const char*)bytes->buffers[2] + offsets[3], "sixteen bytes in", 16) == 0);
  const struct ArrowArray* words = array.children[actor]->dictionary;
  EXPECT(words->length == 1 && memcmp(words->buffers[2], "instruction", 11) == 0);
  EXPECT(array.children[function]->null_count == 4);
  REQUIRE(stream.get_next(&stream, &next) == 0);
  EXPECT(next.length == 1 && ((const uint64_t*)next.children[time]->buffers[1])[0] == 5);
  REQUIRE(stream.get_next(&stream, &end) == 0);
  EXPECT(end.release == NULL);
  stream.release(&stream);
  EXPECT(stream.release == NULL);
  ttq_result_free(result);
  /* Arrays live on. A child may be moved out, and then released by itself. */
  struct ArrowArray moved = *array.children[time];
  array.children[time]->release = NULL;
  array.release(&array);
  EXPECT(((const uint64_t*)moved.buffers[1])[1] == 1);
  moved.release(&moved);
  /* Reals. */
  result = Run("writes to 0x10000 | select size / 8.0, value / 0.0");
  REQUIRE(ttq_result_arrow(result, NULL, &stream) == TTQ_OK);
  struct ArrowSchema reals;
  struct ArrowArray rows;
  REQUIRE(stream.get_schema(&stream, &reals) == 0 && stream.get_next(&stream, &rows) == 0);
  EXPECT_TEXT(reals.children[0]->format, "g");
  EXPECT(((const double*)rows.children[0]->buffers[1])[0] == 0.5);
  EXPECT(rows.children[0]->null_count == 0 && rows.children[1]->null_count == rows.length);
  rows.release(&rows);
  reals.release(&reals);
  stream.release(&stream);
  ttq_result_free(result);
  next.release(&next);
  schema.release(&schema);

  /* Text as text, and what was interrupted. */
  result = Run("threads");
  options.plain = 1;
  REQUIRE(ttq_result_arrow(result, &options, &stream) == TTQ_OK);
  REQUIRE(stream.get_schema(&stream, &schema) == 0);
  EXPECT(schema.children[0]->dictionary == NULL);
  schema.release(&schema);
  stream.release(&stream);
  ttq_result_free(result);
  result = Run("writes to 0x10000..0x10200");
  ttq_result_interrupt(result);
  REQUIRE(ttq_result_arrow(result, NULL, &stream) == TTQ_OK);
  EXPECT(stream.get_next(&stream, &array) == EINTR);
  EXPECT_TEXT(stream.get_last_error(&stream), "interrupted");
  stream.release(&stream);
  ttq_result_free(result);
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: capi_test RECORD_TEXT HISTORY\n");
    return 2;
  }
  char scratch[] = "/tmp/ttq-capi-XXXXXX", path[64], command[4096];
  REQUIRE(mkdtemp(scratch) != NULL);
  snprintf(path, sizeof path, "%s/demo.ttq", scratch);
  snprintf(command, sizeof command, "'%s' %s < '%s'", argv[1], path, argv[2]);
  REQUIRE(system(command) == 0);
  directory = path;
  EXPECT(ttq_last_error()->status == TTQ_OK);
  REQUIRE(ttq_open(directory, &recording) == TTQ_OK);
  REQUIRE(ttq_process_open(recording, 0, &process) == TTQ_OK);
  TestNames();
  TestOpen();
  TestOlderStructures();
  TestState();
  TestRows();
  TestLimit();
  TestBadQueries();
  TestErrorsAreOfTheirThread();
  TestParameters();
  TestExplainAndComplete();
  TestInterrupt();
  TestThreads();
  TestAResultReadFromTwoThreads();
  TestClosingInAnyOrder();
  TestArrow();
  ttq_process_close(process);
  ttq_close(recording);
  snprintf(command, sizeof command, "rm -r %s", scratch);
  EXPECT(system(command) == 0);
  if (!failures) puts("all good");
  return failures != 0;
}

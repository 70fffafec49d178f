/* SPDX-License-Identifier: MIT
 *
 * last_write RECORDING ADDRESS: who wrote an address last, and what it held before and after. Shows
 * opening, binding a parameter, reading a row, memory at a time, and what to do with errors.
 *
 *     cc last_write.c $(pkg-config --cflags --libs ttq) -o last_write
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ttq.h>

static int Complain(void) {
  fputs(ttq_last_error()->rendered, stderr);
  return 1;
}

/* The value of a column as text; "-" when it is missing. */
static const char* Show(ttq_result* result, const char* name) {
  for (size_t i = 0; i < ttq_result_column_count(result); ++i) {
    ttq_column column = {sizeof column, NULL, 0, 0};
    const char* text;
    if (ttq_result_column(result, i, &column) == TTQ_OK && strcmp(column.name, name) == 0 &&
        ttq_result_text(result, i, &text, NULL) == TTQ_OK) {
      return text;
    }
  }
  return "-";
}

static int Ask(ttq_process* process, uint64_t address) {
  ttq_query* query = NULL;
  ttq_result* result = NULL;
  uint64_t time;
  uint8_t before[8], after[8];
  ttq_status status = ttq_prepare(process, "last write to :address len 8", TTQ_NOWHERE, &query);
  if (status == TTQ_OK) status = ttq_bind_uint64(query, 0, address);
  if (status == TTQ_OK) status = ttq_run(query, NULL, &result);
  ttq_query_free(query);
  if (status == TTQ_OK) status = ttq_result_next(result);
  if (status == TTQ_OK) {
    ttq_summary summary = {sizeof summary, 0, 0, 0, NULL, NULL, 0, 0};
    ttq_result_summary(result, &summary);
    printf("%s\n", summary.no_rows);
  } else if (status == TTQ_ROW) {
    printf("%s wrote %s bytes at %s, at time %s\n", Show(result, "actor"), Show(result, "size"),
           Show(result, "address"), Show(result, "time"));
    printf("in %s, %s:%s\n", Show(result, "function"), Show(result, "file"), Show(result, "line"));
    status = ttq_result_uint64(result, 0, &time); /* the first column of every access */
    if (status == TTQ_OK) status = ttq_memory(process, address, 8, time, before, NULL);
    if (status == TTQ_OK) status = ttq_memory(process, address, 8, time + 1, after, NULL);
    for (int i = 0; i < 8 && status == TTQ_OK; ++i) {
      printf("  %#" PRIx64 ": %02x -> %02x\n", address + i, before[i], after[i]);
    }
  }
  ttq_result_free(result);
  return status < 0 ? Complain() : 0;
}

int main(int argc, char** argv) {
  ttq_recording* recording;
  ttq_process* process;
  int failed;
  if (argc != 3) {
    fprintf(stderr, "usage: last_write RECORDING ADDRESS\n");
    return 2;
  }
  if (ttq_open(argv[1], &recording) != TTQ_OK) return Complain();
  failed = ttq_process_open(recording, 0, &process) == TTQ_OK ? 0 : Complain();
  if (!failed) {
    failed = Ask(process, strtoull(argv[2], NULL, 0));
    ttq_process_close(process);
  }
  ttq_close(recording);
  return failed;
}

/* SPDX-License-Identifier: MIT
 *
 * threads_test RECORDING QUERIES [RECORDING QUERIES]...: a file of queries, one a line, for each
 * recording. Threads that share the recordings must get what one thread alone gets, whoever fills a
 * cache first; and a query may be interrupted at any moment from elsewhere. Exit status 0 when so.
 * Run by threads_test.py, with and without ThreadSanitizer.
 */
#define _DEFAULT_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capi/ttq.h"

enum { kThreads = 4, kMaxRecordings = 8, kMaxQueries = 100, kInterruptions = 40 };

struct Asked {
  const char* path;
  char* queries[kMaxQueries];
  uint64_t expected[kMaxQueries]; /* what Digest gives */
  size_t count;
  ttq_recording* recording;
  ttq_process* process;
};

static struct Asked asked[kMaxRecordings];
static size_t asked_count;
static atomic_int failures;

static void Require(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "%s: %s\n", what, ttq_last_error()->message);
  exit(1);
}

static void Open(const char* path, ttq_recording** recording, ttq_process** process) {
  Require(ttq_open(path, recording) == TTQ_OK, path);
  Require(ttq_process_open(*recording, 0, process) == TTQ_OK, path);
}

static uint64_t Add(uint64_t digest, const char* text) {
  do digest = (digest ^ (unsigned char)*text) * 0x100000001b3u;
  while (*text++);
  return digest;
}

/* Of all rows of an answer and how it ended. `rows` may be NULL. */
static uint64_t Digest(ttq_process* process, const char* text, uint64_t* rows) {
  uint64_t digest = 0xcbf29ce484222325u;
  ttq_query* query;
  ttq_result* result;
  ttq_status status = ttq_prepare(process, text, TTQ_NOWHERE, &query);
  if (status == TTQ_OK) status = ttq_run(query, NULL, &result);
  if (status != TTQ_OK) {
    fprintf(stderr, "%s: %s\n", text, ttq_last_error()->message);
    exit(1);
  }
  while ((status = ttq_result_next(result)) == TTQ_ROW) {
    for (size_t i = 0; i < ttq_result_column_count(result); ++i) {
      const char* cell;
      int is_null;
      ttq_result_is_null(result, i, &is_null);
      if (is_null) {
        digest = Add(digest, "(null)");
      } else if (ttq_result_text(result, i, &cell, NULL) == TTQ_OK) {
        digest = Add(digest, cell);
      }
    }
  }
  ttq_summary summary = {sizeof summary};
  ttq_result_summary(result, &summary);
  digest = Add(digest, summary.note);
  if (rows) *rows = status == TTQ_OK ? summary.rows : 0;
  ttq_result_free(result);
  ttq_query_free(query);
  return digest ^ (uint64_t)(int64_t)status;
}

static void Load(struct Asked* a, const char* path, const char* queries) {
  a->path = path;
  FILE* file = fopen(queries, "r");
  Require(file != NULL, queries);
  char line[1000];
  while (a->count < kMaxQueries && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    if (line[0]) a->queries[a->count++] = strdup(line);
  }
  fclose(file);
  Open(path, &a->recording, &a->process);
  for (size_t i = 0; i < a->count; ++i) {
    uint64_t rows;
    a->expected[i] = Digest(a->process, a->queries[i], &rows);
    if (rows == 0) {
      fprintf(stderr, "%s: no rows: %s\n", a->queries[i], ttq_last_error()->message);
      ++failures;
    }
  }
  /* The threads find all caches empty. */
  ttq_process_close(a->process);
  ttq_close(a->recording);
  Open(path, &a->recording, &a->process);
}

static pthread_barrier_t start;

/* Every query of every recording, each thread from another place on. */
static void* AskAll(void* number) {
  size_t total = 0;
  for (size_t r = 0; r < asked_count; ++r) total += asked[r].count;
  pthread_barrier_wait(&start);
  /* One of its own beside the shared ones. */
  ttq_recording* recording;
  ttq_process* process;
  Open(asked[0].path, &recording, &process);
  for (size_t n = 0; n < total; ++n) {
    size_t at = (n + (size_t)(intptr_t)number * total / kThreads) % total, r = 0;
    while (at >= asked[r].count) at -= asked[r++].count;
    if (Digest(r == 0 && n % 2 ? process : asked[r].process, asked[r].queries[at], NULL) !=
        asked[r].expected[at]) {
      fprintf(stderr, "another answer among threads: %s\n", asked[r].queries[at]);
      ++failures;
    }
  }
  ttq_process_close(process);
  ttq_close(recording);
  return NULL;
}

static void TestManyThreads(void) {
  pthread_t threads[kThreads];
  pthread_barrier_init(&start, NULL, kThreads);
  for (intptr_t i = 0; i < kThreads; ++i) {
    Require(pthread_create(&threads[i], NULL, AskAll, (void*)i) == 0, "pthread_create");
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&start);
}

struct Interruption {
  ttq_query* query;
  atomic_int delay_us; /* 0: end */
  pthread_barrier_t go;
};

static void* Interrupt(void* context) {
  struct Interruption* i = context;
  while (1) {
    pthread_barrier_wait(&i->go);
    const int delay = atomic_load(&i->delay_us);
    if (delay == 0) return NULL;
    usleep((useconds_t)delay);
    ttq_query_interrupt(i->query);
    pthread_barrier_wait(&i->go);
  }
}

static int GoOn(void* calls, uint64_t done, uint64_t total) {
  (void)done, (void)total;
  atomic_fetch_add((atomic_int*)calls, 1);
  return 0;
}

/* Before, during and after the run; it ends as interrupted or as whole, and the next is whole. */
static void TestInterrupt(void) {
  struct Asked* a = &asked[0];
  struct Interruption interruption;
  atomic_int calls = 0;
  ttq_run_options options = TTQ_RUN_OPTIONS_INIT;
  options.full_scan = 1;
  options.progress = GoOn;
  options.progress_context = &calls;
  options.progress_interval_ms = 1;
  Require(ttq_prepare(a->process, a->queries[0], TTQ_NOWHERE, &interruption.query) == TTQ_OK,
          a->queries[0]);
  pthread_barrier_init(&interruption.go, NULL, 2);
  pthread_t thread;
  Require(pthread_create(&thread, NULL, Interrupt, &interruption) == 0, "pthread_create");
  int interrupted = 0;
  for (int n = 0; n < kInterruptions; ++n) {
    atomic_store(&interruption.delay_us, 1 + n * n * 20);
    pthread_barrier_wait(&interruption.go);
    ttq_result* result;
    ttq_status status = ttq_run(interruption.query, &options, &result);
    if (status == TTQ_OK) {
      while ((status = ttq_result_next(result)) == TTQ_ROW) continue;
      ttq_result_free(result);
    }
    interrupted += status == TTQ_ERROR_INTERRUPTED;
    if (status != TTQ_OK && status != TTQ_ERROR_INTERRUPTED) {
      fprintf(stderr, "interrupted query: %s\n", ttq_last_error()->message);
      ++failures;
    }
    pthread_barrier_wait(&interruption.go);
  }
  atomic_store(&interruption.delay_us, 0);
  pthread_barrier_wait(&interruption.go);
  pthread_join(thread, NULL);
  pthread_barrier_destroy(&interruption.go);
  ttq_query_free(interruption.query);
  if (Digest(a->process, a->queries[0], NULL) != a->expected[0]) {
    fprintf(stderr, "after interruptions: another answer\n");
    ++failures;
  }
  printf("%d of %d interrupted\n", interrupted, kInterruptions);
}

int main(int argc, char** argv) {
  if (argc < 3 || argc % 2 == 0 || argc > 1 + 2 * kMaxRecordings) {
    fprintf(stderr, "usage: threads_test RECORDING QUERIES [RECORDING QUERIES]...\n");
    return 2;
  }
  for (int i = 1; i < argc; i += 2) Load(&asked[asked_count++], argv[i], argv[i + 1]);
  TestManyThreads();
  TestInterrupt();
  for (size_t r = 0; r < asked_count; ++r) {
    ttq_process_close(asked[r].process);
    ttq_close(asked[r].recording);
    for (size_t i = 0; i < asked[r].count; ++i) free(asked[r].queries[i]);
  }
  if (!failures) puts("all good");
  return failures != 0;
}

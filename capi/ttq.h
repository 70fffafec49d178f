/* SPDX-License-Identifier: MIT
 *
 * libttq: asks recordings of ttq, from C and from anything that can call C. docs/c-api.md goes
 * through it with examples; this header is the reference.
 *
 *     ttq_recording* recording;          which holds processes,
 *     ttq_process* process;              which are asked
 *     ttq_query* query;                  queries, with values bound to their parameters,
 *     ttq_result* result;                which give rows (or Arrow arrays).
 *
 * Rules that hold for every function:
 *
 * - Success is TTQ_OK (0) or, for ttq_result_next, TTQ_ROW; errors are negative. After an error
 *   ttq_last_error() says more, for the calling thread. Output parameters are only written on
 *   success, but for handles: those become NULL on failure.
 * - Handles are counted among themselves: they may be closed in any order, and what a later one
 *   needs of an earlier one lives as long. Closing NULL does nothing. Using a handle after it was
 *   closed is undefined, as in any C library.
 * - Recordings and processes may be used by several threads at once. A query and a result belong to
 *   one thread at a time (they may be handed over); what may be called from elsewhere says so. A
 *   result that two threads use at the same moment answers one of them with TTQ_ERROR_BUSY.
 * - Text is UTF-8. `const char*` results end in NUL, and belong to the handle they came from; they
 *   live as long as it does unless the function says otherwise.
 * - Times are instructions retired since the process started; state "at t" is before instruction t.
 *   Ranges are half-open. Sizes are bytes.
 * - Structures that begin with `size` grow at their end only: set `size` to sizeof the structure
 *   you know (the TTQ_…_INIT macros do), and the library leaves out fields that you do not know.
 * - No function changes a recording. One may be open any number of times, in any number of
 *   processes, also while it is being made: then it ends with the last block that was complete when
 *   it was opened.
 */
#ifndef TTQ_TTQ_H_
#define TTQ_TTQ_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TTQ_API __attribute__((visibility("default")))
#else
#define TTQ_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Versions and errors ------------------------------------------------------------------- */

/* Of this header. A library with the same major number answers programs built with this header. */
#define TTQ_API_MAJOR 0
#define TTQ_API_MINOR 1

/* Of the library, "0.1.0". */
TTQ_API const char* ttq_version(void);

/* Never renumbered. */
typedef int32_t ttq_status;
enum {
  TTQ_OK = 0,
  TTQ_ROW = 1,                     /* ttq_result_next: there is a row */
  TTQ_ERROR_INVALID_ARGUMENT = -1, /* a wrong call: NULL, no such column or parameter, … */
  TTQ_ERROR_QUERY = -2,            /* a bad query; the error says where */
  TTQ_ERROR_NOT_FOUND = -3,        /* no such recording, process or thread */
  TTQ_ERROR_NOT_A_RECORDING = -4,  /* not one, or one of a version this library cannot read */
  TTQ_ERROR_DAMAGED = -5,          /* a file of the recording is damaged */
  TTQ_ERROR_OUT_OF_RANGE = -6,     /* a time or an address that was not recorded */
  TTQ_ERROR_INTERRUPTED = -7,      /* by ttq_*_interrupt or the progress callback */
  TTQ_ERROR_WRONG_TYPE = -8,       /* the value is of another type than asked for */
  TTQ_ERROR_NULL = -9,             /* the value is missing */
  TTQ_ERROR_BUSY = -10,            /* another thread is using the result */
  TTQ_ERROR_OUT_OF_MEMORY = -11,
  TTQ_ERROR_UNAVAILABLE = -12, /* the system refused: permissions, too many files, I/O errors */
  TTQ_ERROR_UNSUPPORTED = -13, /* a question that this version cannot answer */
  TTQ_ERROR_INTERNAL = -14     /* a mistake in ttq; please report it */
};

/* "TTQ_ERROR_QUERY"; "unknown" for a number that is none. Static. */
TTQ_API const char* ttq_status_name(ttq_status status);

/* Leaves a mark in the history of the calling program, when `ttq record` is making one: an event of
 * kind `mark` with `text` (UTF-8; more than 4,095 bytes are cut). Does nothing otherwise. A program
 * that is not linked with this library has the macro TTQ_MARK of ttq/mark.h. */
TTQ_API void ttq_mark(const char* text);

#define TTQ_NOWHERE ((size_t)-1)

typedef struct ttq_error {
  ttq_status status;
  const char* message; /* one line, never NULL */
  /* The bytes of the query that the message is about, [begin, end); TTQ_NOWHERE for both when it is
   * about none. begin == end points between two bytes. */
  size_t begin, end;
  const char* hint;     /* what was probably meant; "" when there is no idea */
  const char* rendered; /* for people: the message, the line of the query, carets below it */
} ttq_error;

/* The error of the last call of this thread that failed. Never NULL: status is TTQ_OK when none
 * did. Valid until the next call of this thread that fails. */
TTQ_API const ttq_error* ttq_last_error(void);

/* ---- Recordings and processes --------------------------------------------------------------- */

typedef struct ttq_recording ttq_recording;
typedef struct ttq_process ttq_process;

/* Opens a recording: a directory, or a name as `ttq ls` shows it. NULL or "": what the environment
 * variable TTQ_TRACE names, else the latest one in TTQ_HOME. */
TTQ_API ttq_status ttq_open(const char* name, ttq_recording** recording);
TTQ_API void ttq_close(ttq_recording* recording);

typedef struct ttq_recording_info {
  size_t size;
  const char* path;
  const char* name;
  const char* working_directory;
  const char* host;
  uint32_t store_version;
  uint32_t default_process; /* the one that a signal ended, else what the first became; 0: none */
  size_t process_count;
  size_t argument_count; /* of the command that was recorded */
  const char* const* arguments;
  int64_t start_wall_ns; /* nanoseconds since 1970 */
  int finished;          /* 0: it is still being made, or the recorder was cut off */
} ttq_recording_info;

typedef struct ttq_process_info {
  size_t size;
  uint32_t number; /* from 1 */
  uint32_t parent; /* 0: none */
  uint32_t pid;
  int by_exec; /* it replaced its parent, in the same pid */
  const char* program;
  uint64_t end;        /* time: instructions retired; see history_unknown */
  int has_crash;       /* a signal ended it, raised by an instruction: */
  uint64_t crash;      /* at this time */
  int fatal_signal;    /* 0: none */
  int has_exit_status; /* it exited by itself */
  int exit_status;
  int64_t start_wall_ns; /* nanoseconds since 1970 */
  int64_t end_wall_ns;
  int complete; /* 0: something was not recorded, and why: */
  const char* incomplete_reason;
  int history_unknown; /* 1: a core dump or a snapshot; `end` is 0 and counts nothing then */
} ttq_process_info;

TTQ_API ttq_status ttq_describe_recording(ttq_recording* recording, ttq_recording_info* info);
/* Process number `index` (from 0) of process_count. */
TTQ_API ttq_status ttq_describe_process(ttq_recording* recording, size_t index,
                                        ttq_process_info* info);

/* Opens a process by its number; 0: the default one. */
TTQ_API ttq_status ttq_process_open(ttq_recording* recording, uint32_t number,
                                    ttq_process** process);
TTQ_API void ttq_process_close(ttq_process* process);
/* The number it has in its recording; 0 for NULL. */
TTQ_API uint32_t ttq_process_number(const ttq_process* process);

/* ---- State at a time, without a query ------------------------------------------------------- */

/* `size` bytes of memory at `address` as they were at `time`, into `bytes`. `known`, unless it is
 * NULL, gets one byte for each: 1, or 0 where nothing was mapped or the content is not known (and
 * then the byte is 0). TTQ_ERROR_OUT_OF_RANGE: a time after the end. At most 1 GiB at once. */
TTQ_API ttq_status ttq_memory(ttq_process* process, uint64_t address, uint64_t size, uint64_t time,
                              uint8_t* bytes, uint8_t* known);

/* The general registers in the order of their x86-64 encoding: rax rcx rdx rbx rsp rbp rsi rdi
 * r8 … r15. */
enum { TTQ_REGISTER_COUNT = 16 };
typedef struct ttq_register_values {
  size_t size;
  uint64_t pc; /* of the instruction that is next */
  uint64_t general[TTQ_REGISTER_COUNT];
  uint32_t thread;
} ttq_register_values;

/* Of thread `thread` at `time`; 0: of the one that runs then. TTQ_ERROR_NOT_FOUND: it does not live
 * at that time. */
TTQ_API ttq_status ttq_registers(ttq_process* process, uint64_t time, uint32_t thread,
                                 ttq_register_values* values);
/* "rax", …; NULL for an index that is not one. Static. */
TTQ_API const char* ttq_register_name(size_t index);

/* Wall clock at `time`, nanoseconds since 1970, interpolated between samples. */
TTQ_API ttq_status ttq_wall_clock(ttq_process* process, uint64_t time, int64_t* wall_ns);

/* ---- Queries -------------------------------------------------------------------------------- */

typedef struct ttq_query ttq_query;
typedef struct ttq_result ttq_result;

/* Reads a query of `length` bytes (TTQ_NOWHERE: up to its NUL). The text is copied. A query that is
 * not in the language is TTQ_ERROR_QUERY; names are only looked up when it runs. */
TTQ_API ttq_status ttq_prepare(ttq_process* process, const char* text, size_t length,
                               ttq_query** query);
TTQ_API void ttq_query_free(ttq_query* query);

/* `?` and `:name` stand for values that are bound to the query, wherever a number, a text or a name
 * can stand: `memory ? len 64 at :t`, `calls to :function where arg0 == ?`. They count from 0 in
 * the order in which they first appear; each `?` is one of its own, all `:name` of one name are
 * one. */
TTQ_API size_t ttq_query_parameter_count(const ttq_query* query);
/* Without the colon, "" for `?`; NULL when there is no such parameter. */
TTQ_API const char* ttq_query_parameter_name(const ttq_query* query, size_t parameter);
/* The index of `:name`; TTQ_ERROR_NOT_FOUND when there is none. */
TTQ_API ttq_status ttq_query_parameter_index(const ttq_query* query, const char* name,
                                             size_t* parameter);

/* Each binds a value in place of the one before; it holds for all later runs. Addresses, times,
 * counts and line numbers are numbers. Text is what a string in quotes would be: a function's name
 * or a pattern with wildcards, a string to compare with. A name is one without wildcards: of a
 * variable, a column, a function. Text and names are copied; lengths as in ttq_prepare.
 * TTQ_ERROR_INVALID_ARGUMENT: no such parameter, a text that is not UTF-8, a name with control
 * characters, quotes or backticks. A value that cannot stand in its place is found by ttq_run. */
TTQ_API ttq_status ttq_bind_uint64(ttq_query* query, size_t parameter, uint64_t value);
TTQ_API ttq_status ttq_bind_int64(ttq_query* query, size_t parameter, int64_t value);
TTQ_API ttq_status ttq_bind_double(ttq_query* query, size_t parameter, double value);
TTQ_API ttq_status ttq_bind_text(ttq_query* query, size_t parameter, const char* text,
                                 size_t length);
TTQ_API ttq_status ttq_bind_name(ttq_query* query, size_t parameter, const char* name,
                                 size_t length);
/* Takes all values away. */
TTQ_API ttq_status ttq_query_clear(ttq_query* query);

/* Told how far a query is: blocks of the recording read, of so many to read (both grow). Called
 * from a thread of the library's own, one call at a time, from the start of ttq_run until the
 * result is read to its end or freed; it must not call functions on that query or result other than
 * ttq_*_interrupt. Not 0: the query is interrupted. */
typedef int (*ttq_progress)(void* context, uint64_t done, uint64_t total);

typedef struct ttq_run_options {
  size_t size;
  ttq_progress progress; /* NULL: none */
  void* progress_context;
  uint32_t progress_interval_ms; /* 0: 100 */
  int full_scan;                 /* read every block and no index; the rows are the same */
  uint64_t limit;                /* rows to give at most; 0: all */
} ttq_run_options;
#define TTQ_RUN_OPTIONS_INIT \
  { sizeof(ttq_run_options), 0, 0, 0, 0, 0 }

/* Runs the query; `options` may be NULL. It may be run again, also while earlier results are being
 * read: a result keeps the values it was run with. TTQ_ERROR_QUERY: a value is missing or of the
 * wrong kind, or the query makes no sense for this process. */
TTQ_API ttq_status ttq_run(ttq_query* query, const ttq_run_options* options, ttq_result** result);
TTQ_API void ttq_result_free(ttq_result* result);

/* Any thread may call these at any time before the handle is freed. What runs at that moment ends
 * soon, with TTQ_ERROR_INTERRUPTED; of a query, the run that was started last. */
TTQ_API void ttq_query_interrupt(ttq_query* query);
TTQ_API void ttq_result_interrupt(ttq_result* result);

/* The steps in which the query would be run, one per line, without running it. The text belongs to
 * the query and is valid until the next such call. */
TTQ_API ttq_status ttq_explain(ttq_query* query, const char** text);

/* Words of the language that could stand at the end of the first `length` bytes of `text`, or
 * complete the word there; called for one word at a time, which is valid during the call. */
typedef void (*ttq_word)(void* context, const char* word);
TTQ_API ttq_status ttq_complete(const char* text, size_t length, ttq_word found, void* context);

/* ---- Rows ----------------------------------------------------------------------------------- */

/* Never renumbered. */
typedef int32_t ttq_type;
enum {
  TTQ_TYPE_TIME = 1,    /* unsigned; instructions */
  TTQ_TYPE_ADDRESS = 2, /* unsigned */
  TTQ_TYPE_INTEGER = 3, /* signed */
  TTQ_TYPE_TEXT = 4,
  TTQ_TYPE_BYTES = 5,  /* a piece of memory */
  TTQ_TYPE_OBJECT = 6, /* names with values, or values of several types: JSON as text */
  TTQ_TYPE_LIST = 7,   /* JSON as text */
  TTQ_TYPE_VALUE = 8,  /* what an access moved, a register: unsigned up to 8 bytes, else bytes */
  TTQ_TYPE_REAL = 9    /* a floating-point number */
};
/* "time", "address", …; "unknown". Static. */
TTQ_API const char* ttq_type_name(ttq_type type);

/* How an answer is best shown to people. Never renumbered. */
typedef int32_t ttq_layout;
enum {
  TTQ_LAYOUT_ROWS = 0,    /* a table */
  TTQ_LAYOUT_RECORD = 1,  /* one wide row: a name and a value per line */
  TTQ_LAYOUT_HEX_DUMP = 2 /* rows of address, size and bytes */
};

typedef struct ttq_column {
  size_t size;
  const char* name;
  ttq_type type;
  int shown; /* a table for people has this column */
} ttq_column;

TTQ_API size_t ttq_result_column_count(const ttq_result* result);
TTQ_API ttq_status ttq_result_column(const ttq_result* result, size_t index, ttq_column* column);

/* TTQ_ROW: there is a next row, which the functions below read. TTQ_OK: there is none, and never
 * will be. An error is final too, but for TTQ_ERROR_BUSY. */
TTQ_API ttq_status ttq_result_next(ttq_result* result);

/* The values of the row, by column from 0. Before the first row and after the last:
 * TTQ_ERROR_INVALID_ARGUMENT. TTQ_ERROR_NULL: missing. TTQ_ERROR_WRONG_TYPE: none such.
 * uint64: times, addresses, values up to 8 bytes, integers that are not negative.
 * int64:  every whole number below 2^63.
 * double: reals, a float exactly; and every other number, as the nearest double.
 * text:   any value, as ttq's JSON shows it, strings without quotes. `length`, which may be NULL,
 *         does not count the final NUL.
 * bytes:  bytes, values and strings; a number's bytes are in memory's order, 8 of them.
 * Pointers are valid until the next call of ttq_result_next. */
TTQ_API ttq_status ttq_result_is_null(ttq_result* result, size_t column, int* is_null);
TTQ_API ttq_status ttq_result_uint64(ttq_result* result, size_t column, uint64_t* value);
TTQ_API ttq_status ttq_result_int64(ttq_result* result, size_t column, int64_t* value);
TTQ_API ttq_status ttq_result_double(ttq_result* result, size_t column, double* value);
TTQ_API ttq_status ttq_result_text(ttq_result* result, size_t column, const char** text,
                                   size_t* length);
TTQ_API ttq_status ttq_result_bytes(ttq_result* result, size_t column, const void** bytes,
                                    size_t* size);

typedef struct ttq_summary {
  size_t size;
  uint64_t rows; /* given so far, one by one or in arrays */
  /* What follows is final at the end of the rows. */
  int complete;        /* 0: the answer could miss something; the note says why */
  int interrupted;     /* by ttq_*_interrupt or the progress callback */
  const char* note;    /* facts beside the rows; "" when there are none */
  const char* no_rows; /* what an answer without rows says: "nothing wrote 0x10 …"; or "" */
  ttq_layout layout;
  int truncated; /* the limit was reached; there may be more rows */
} ttq_summary;

/* The texts are valid until the next call on this result. */
TTQ_API ttq_status ttq_result_summary(ttq_result* result, ttq_summary* summary);

/* ---- Whole columns: the Arrow C data interface ---------------------------------------------- */

/* As https://arrow.apache.org/docs/format/CDataInterface.html has them, guards included. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};

#endif /* ARROW_C_DATA_INTERFACE */

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};

#endif /* ARROW_C_STREAM_INTERFACE */

typedef struct ttq_arrow_options {
  size_t size;
  uint64_t batch_rows; /* at most, per array; 0: 65536 */
  int plain;           /* text columns as text, not as dictionaries */
} ttq_arrow_options;
#define TTQ_ARROW_OPTIONS_INIT \
  { sizeof(ttq_arrow_options), 0, 0 }

/* The rows that were not yet read, as struct arrays with a child per column; `options` may be NULL.
 *
 *     time, address    uint64
 *     integer          int64
 *     real             float64
 *     text             dictionary<int32, large_utf8>; bytes that are not UTF-8 become U+FFFD
 *     object, list     the same, as JSON
 *     bytes            large_binary
 *     value            uint64, null where it has more than 8 bytes; a second column with `_bytes`
 *                      after its name, large_binary, has those
 *
 * Each field carries its type of ttq as metadata `ttq.type`. Arrays belong to the caller, who
 * releases them, and outlive stream, result and all. The stream shares the result's rows and
 * belongs to one thread at a time; the result may be freed before it. get_next fails with EINTR
 * when the query was interrupted and EIO otherwise. */
TTQ_API ttq_status ttq_result_arrow(ttq_result* result, const ttq_arrow_options* options,
                                    struct ArrowArrayStream* stream);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TTQ_TTQ_H_ */

// SPDX-License-Identifier: MIT
//
// Asking a recording: an engine answers syntax trees with streams of typed rows. Everything that
// shows answers (the command line, the C API, Python) stands on this header; nothing here prints.
//
// An Engine is made for one process of a recording and may be used by several threads at once. A
// ResultStream belongs to one thread at a time and must not outlive its engine.
//
// Errors: InvalidArgument for a question that has no meaning here (the message carries its place in
// the query, see diagnostic.h), NotFound for a process the recording does not have, and whatever
// the store says of a recording that cannot be read (DataLoss, FailedPrecondition, …).

#ifndef TTQ_QUERY_ENGINE_ENGINE_H_
#define TTQ_QUERY_ENGINE_ENGINE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "query/language/ast.h"
#include "query/rows/run_options.h"
#include "query/value.h"
#include "store/read/reader.h"

namespace ttq {

class ResultStream {
 public:
  virtual ~ResultStream() = default;

  virtual const std::vector<Column>& columns() const = 0;
  virtual const Presentation& presentation() const = 0;

  // Puts the next row, one value per column, into `row`; false at the end. After an error or the
  // end it gives the same again. An interrupted query ends without an error.
  virtual absl::StatusOr<bool> Next(Row* row) = 0;

  // What follows is final once Next has given false.

  // False when the answer could miss something; the note says why.
  virtual bool complete() const = 0;
  // The query was cancelled through RunOptions::control.
  virtual bool interrupted() const = 0;
  // Facts beside the rows, one sentence or several; empty: none.
  virtual const std::string& note() const = 0;
};

class Context;

class Engine {
 public:
  // For process `number` of the recording, or its default one. `recording` must outlive the engine.
  static absl::StatusOr<std::unique_ptr<Engine>> Open(const Recording* recording,
                                                      std::optional<ProcessNo> number);
  virtual ~Engine() = default;

  // The stream owns what it needs of `query`, which may go away.
  virtual absl::StatusOr<std::unique_ptr<ResultStream>> Run(const ast::Query& query,
                                                            const RunOptions& options) const = 0;
  // How Run would go about it: one step per line, the source first, with its bound on the blocks to
  // decode. Queries nested in times are run, the query itself is not.
  virtual absl::StatusOr<std::string> Explain(const ast::Query& query,
                                              const RunOptions& options) const = 0;
  virtual const Process& process() const = 0;
  // The process's names, types and lazy indexes (query/cpython/context.h), for callers that need
  // more than rows. Lives as long as the engine.
  virtual const Context& context() const = 0;
};

}  // namespace ttq

#endif  // TTQ_QUERY_ENGINE_ENGINE_H_

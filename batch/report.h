// SPDX-License-Identifier: MIT
//
// Results of a batch as text: lines for people, JSON lines, JUnit XML. Each is told of a result
// when it comes; JUnit XML comes at the end.

#ifndef TTQ_BATCH_REPORT_H_
#define TTQ_BATCH_REPORT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "batch/batch.h"

namespace ttq {

class BatchReport {
 public:
  virtual ~BatchReport() = default;
  virtual void Add(const BatchResult& result) = 0;
  virtual void Finish() {}
};

enum class BatchFormat { kTable, kJsonLines, kJunit };

// `write` takes pieces of text, in order. `colour` is for kTable.
std::unique_ptr<BatchReport> MakeBatchReport(BatchFormat format, bool colour,
                                             std::function<void(std::string_view)> write);

// One line of JSON, without a line break, with the keys trace, question, query, expect, verdict,
// rows, more, complete, detail, first_rows, elapsed_ms.
std::string ToJsonLine(const BatchResult& result);
// nullopt for a line that is not such a one.
std::optional<BatchResult> FromJsonLine(std::string_view line);

}  // namespace ttq

#endif  // TTQ_BATCH_REPORT_H_

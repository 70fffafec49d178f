// SPDX-License-Identifier: MIT
//
// Results of a batch as text: a summary for people, JSON lines, JUnit XML. Each is told of a result
// when it comes; all but JSON lines come at the end.

#ifndef TTQ_BATCH_REPORT_H_
#define TTQ_BATCH_REPORT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "batch/batch.h"

namespace ttq {

class BatchReport {
 public:
  virtual ~BatchReport() = default;
  virtual void Add(const BatchResult& result) = 0;
  virtual void Finish() {}
};

enum class BatchFormat { kTable, kJsonLines, kJunit };

// Of kTable.
struct BatchStyle {
  bool colour = false;
  bool verbose = false;                // answers that are as expected are shown, too
  std::vector<std::string> questions;  // names, in the order to show them
};

// `write` takes pieces of text, in order.
std::unique_ptr<BatchReport> MakeBatchReport(BatchFormat format, const BatchStyle& style,
                                             std::function<void(std::string_view)> write);

// One line of JSON, without a line break, with the keys trace, question, query, expect, verdict,
// rows, more, complete, detail, first_rows, elapsed_ms.
std::string ToJsonLine(const BatchResult& result);
// nullopt for a line that is not such a one.
std::optional<BatchResult> FromJsonLine(std::string_view line);

}  // namespace ttq

#endif  // TTQ_BATCH_REPORT_H_

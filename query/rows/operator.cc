// SPDX-License-Identifier: MIT

#include "query/rows/operator.h"

#include <utility>

namespace ttq {
namespace {

class Rows : public Operator {
 public:
  explicit Rows(std::vector<Row> rows) : rows_(std::move(rows)) {}
  absl::StatusOr<bool> Next(Row* row) override {
    if (next_ == rows_.size()) return false;
    *row = std::move(rows_[next_++]);
    return true;
  }

 private:
  std::vector<Row> rows_;
  size_t next_ = 0;
};

}  // namespace

OperatorPtr MakeRows(std::vector<Row> rows) { return std::make_unique<Rows>(std::move(rows)); }

}  // namespace ttq

// SPDX-License-Identifier: MIT
//
// The pipeline's operators; see operators.h.

#include "query/engine/operators.h"

#include <algorithm>
#include <deque>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "base/status_macros.h"

namespace ttq {
namespace {

struct RowHash {
  size_t operator()(const Row& row) const {
    size_t hash = row.size();
    for (const Value& v : row) hash = absl::HashOf(hash, HashOf(v));
    return hash;
  }
};

int CompareRows(const Row& a, const Row& b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (const int c = Compare(a[i], b[i])) return c;
  }
  return 0;
}

absl::Status EvaluateColumns(const std::vector<BoundExpression>& columns, const Row& row,
                             Row* out) {
  out->clear();
  for (const BoundExpression& column : columns) {
    ASSIGN_OR_RETURN(Value value, column.value(row));
    out->push_back(std::move(value));
  }
  return absl::OkStatus();
}

class Filter : public Operator {
 public:
  Filter(OperatorPtr input, BoundExpression condition)
      : input_(std::move(input)), condition_(std::move(condition)) {}
  absl::StatusOr<bool> Next(Row* row) override {
    while (true) {
      absl::StatusOr<bool> more = input_->Next(row);
      if (!more.ok() || !*more) return more;
      ASSIGN_OR_RETURN(Value pass, condition_.value(*row));
      if (IsTrue(pass)) return true;
    }
  }

 private:
  OperatorPtr input_;
  BoundExpression condition_;
};

class First : public Operator {
 public:
  First(OperatorPtr input, uint64_t count) : input_(std::move(input)), left_(count) {}
  absl::StatusOr<bool> Next(Row* row) override {
    if (left_ == 0) return false;
    --left_;
    return input_->Next(row);
  }

 private:
  OperatorPtr input_;
  uint64_t left_;
};

// An operator that must see all rows before it gives any.
class Blocking : public Operator {
 public:
  absl::StatusOr<bool> Next(Row* row) final {
    if (!filled_) {
      filled_ = true;
      RETURN_IF_ERROR(Fill());
    }
    if (next_ == rows_.size()) return false;
    *row = std::move(rows_[next_++]);
    return true;
  }

 protected:
  // Puts the rows to give into rows_.
  virtual absl::Status Fill() = 0;
  std::deque<Row> rows_;

 private:
  bool filled_ = false;
  size_t next_ = 0;
};

class Last : public Blocking {
 public:
  Last(OperatorPtr input, uint64_t count) : input_(std::move(input)), count_(count) {}

 private:
  absl::Status Fill() override {
    Row row;
    while (true) {
      ASSIGN_OR_RETURN(bool more, input_->Next(&row));
      if (!more) return absl::OkStatus();
      if (count_ == 0) continue;
      if (rows_.size() == count_) rows_.pop_front();
      rows_.push_back(std::move(row));
    }
  }
  OperatorPtr input_;
  uint64_t count_;
};

class Reverse : public Blocking {
 public:
  explicit Reverse(OperatorPtr input) : input_(std::move(input)) {}

 private:
  absl::Status Fill() override {
    Row row;
    while (true) {
      ASSIGN_OR_RETURN(bool more, input_->Next(&row));
      if (!more) return absl::OkStatus();
      rows_.push_front(std::move(row));
    }
  }
  OperatorPtr input_;
};

class Sort : public Blocking {
 public:
  Sort(OperatorPtr input, std::vector<BoundSortKey> keys, std::optional<uint64_t> limit)
      : input_(std::move(input)), keys_(std::move(keys)), limit_(limit) {}

 private:
  struct Keyed {
    Row keys, row;
    uint64_t order;  // of arrival: makes the sort stable
  };

  bool Less(const Keyed& a, const Keyed& b) const {
    for (size_t i = 0; i < keys_.size(); ++i) {
      const int c = Compare(a.keys[i], b.keys[i]);
      if (c != 0) return keys_[i].descending ? c > 0 : c < 0;
    }
    return a.order < b.order;
  }

  absl::Status Fill() override {
    const auto less = [this](const Keyed& a, const Keyed& b) { return Less(a, b); };
    std::vector<Keyed> rows;
    Keyed next;
    for (uint64_t order = 0;; ++order) {
      ASSIGN_OR_RETURN(bool more, input_->Next(&next.row));
      if (!more) break;
      next.keys.clear();
      for (const BoundSortKey& key : keys_) {
        ASSIGN_OR_RETURN(Value value, key.expression.value(next.row));
        next.keys.push_back(std::move(value));
      }
      next.order = order;
      rows.push_back(std::move(next));
      if (limit_ && rows.size() / 2 >= *limit_ + 512) {
        std::nth_element(rows.begin(), rows.begin() + *limit_, rows.end(), less);
        rows.resize(*limit_);
      }
    }
    std::sort(rows.begin(), rows.end(), less);
    if (limit_ && rows.size() > *limit_) rows.resize(*limit_);
    for (Keyed& keyed : rows) rows_.push_back(std::move(keyed.row));
    return absl::OkStatus();
  }
  OperatorPtr input_;
  std::vector<BoundSortKey> keys_;
  std::optional<uint64_t> limit_;
};

class Count : public Blocking {
 public:
  Count(OperatorPtr input, std::vector<BoundExpression> by)
      : input_(std::move(input)), by_(std::move(by)) {}

 private:
  absl::Status Fill() override {
    absl::flat_hash_map<Row, int64_t, RowHash> counts;
    if (by_.empty()) counts[Row()] = 0;
    Row row, key;
    while (true) {
      ASSIGN_OR_RETURN(bool more, input_->Next(&row));
      if (!more) break;
      RETURN_IF_ERROR(EvaluateColumns(by_, row, &key));
      ++counts[key];
    }
    std::vector<std::pair<Row, int64_t>> sorted(counts.begin(), counts.end());
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      if (a.second != b.second) return a.second > b.second;
      return CompareRows(a.first, b.first) < 0;
    });
    for (auto& [values, count] : sorted) {
      values.push_back(count);
      rows_.push_back(std::move(values));
    }
    return absl::OkStatus();
  }
  OperatorPtr input_;
  std::vector<BoundExpression> by_;
};

class Project : public Operator {
 public:
  Project(OperatorPtr input, std::vector<BoundExpression> columns)
      : input_(std::move(input)), columns_(std::move(columns)) {}
  absl::StatusOr<bool> Next(Row* row) override {
    absl::StatusOr<bool> more = input_->Next(&in_);
    if (!more.ok() || !*more) return more;
    RETURN_IF_ERROR(EvaluateColumns(columns_, in_, row));
    return true;
  }

 private:
  OperatorPtr input_;
  std::vector<BoundExpression> columns_;
  Row in_;
};

class Distinct : public Operator {
 public:
  explicit Distinct(OperatorPtr input) : input_(std::move(input)) {}
  absl::StatusOr<bool> Next(Row* row) override {
    while (true) {
      absl::StatusOr<bool> more = input_->Next(row);
      if (!more.ok() || !*more) return more;
      if (seen_.insert(*row).second) return true;
    }
  }

 private:
  OperatorPtr input_;
  absl::flat_hash_set<Row, RowHash> seen_;
};

class Extender : public Operator {
 public:
  Extender(OperatorPtr input, Extend extend)
      : input_(std::move(input)), extend_(std::move(extend)) {}
  absl::StatusOr<bool> Next(Row* row) override {
    absl::StatusOr<bool> more = input_->Next(row);
    if (!more.ok() || !*more) return more;
    RETURN_IF_ERROR(extend_(row));
    return true;
  }

 private:
  OperatorPtr input_;
  Extend extend_;
};

}  // namespace

OperatorPtr MakeFilter(OperatorPtr input, BoundExpression condition) {
  return std::make_unique<Filter>(std::move(input), std::move(condition));
}
OperatorPtr MakeFirst(OperatorPtr input, uint64_t count) {
  return std::make_unique<First>(std::move(input), count);
}
OperatorPtr MakeLast(OperatorPtr input, uint64_t count) {
  return std::make_unique<Last>(std::move(input), count);
}
OperatorPtr MakeReverse(OperatorPtr input) { return std::make_unique<Reverse>(std::move(input)); }
OperatorPtr MakeSort(OperatorPtr input, std::vector<BoundSortKey> keys,
                     std::optional<uint64_t> limit) {
  return std::make_unique<Sort>(std::move(input), std::move(keys), limit);
}
OperatorPtr MakeCount(OperatorPtr input, std::vector<BoundExpression> by) {
  return std::make_unique<Count>(std::move(input), std::move(by));
}
OperatorPtr MakeProject(OperatorPtr input, std::vector<BoundExpression> columns) {
  return std::make_unique<Project>(std::move(input), std::move(columns));
}
OperatorPtr MakeDistinct(OperatorPtr input) { return std::make_unique<Distinct>(std::move(input)); }
OperatorPtr MakeExtend(OperatorPtr input, Extend extend) {
  return std::make_unique<Extender>(std::move(input), std::move(extend));
}

}  // namespace ttq

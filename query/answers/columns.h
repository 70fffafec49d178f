// SPDX-License-Identifier: MIT
//
// Rows as columns, laid out in memory as Apache Arrow has them
// (https://arrow.apache.org/docs/format/Columnar.html): what the C API hands out as arrays and
// `ttq export` writes to files. A builder belongs to one thread.

#ifndef TTQ_QUERY_ANSWERS_COLUMNS_H_
#define TTQ_QUERY_ANSWERS_COLUMNS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "query/answers/format.h"
#include "query/value.h"

namespace ttq {

enum class ColumnLayout {
  kUnsigned,    // uint64
  kSigned,      // int64
  kReal,        // float64
  kText,        // large_utf8
  kDictionary,  // int32 indices into large_utf8
  kBinary,      // large_binary, of all values that are bytes
  kWideBytes,   // the same, of those that are longer than a word
};

// One column of a batch of rows. Unused buffers are empty.
struct ColumnData {
  int64_t length = 0, nulls = 0;
  std::vector<uint8_t> validity;  // a bit per row, lowest first
  std::vector<uint64_t> words;    // uint64, int64, the bits of float64
  std::vector<int64_t> offsets;   // into `data`, one more than rows
  std::vector<int32_t> indices;   // into the dictionary
  std::string data;
  std::vector<int64_t> dictionary_offsets;  // one more than texts
  std::string dictionary_data;

  bool valid(int64_t row) const { return (validity[row / 8] >> (row % 8) & 1) != 0; }
  std::string_view text(int64_t row) const {
    return std::string_view(data).substr(offsets[row], offsets[row + 1] - offsets[row]);
  }
};

// Which column of a result becomes a field, and how.
struct ColumnField {
  size_t column = 0;  // of the result
  std::string name;
  Type type = Type::kString;
  ColumnLayout layout = ColumnLayout::kText;
};

// Collects the values of one field. `field` outlives the builder.
class ColumnBuilder {
 public:
  explicit ColumnBuilder(const ColumnField* field) : field_(field) { Reset(); }

  // Adds the value of the next row. On failure nothing is added: kInvalidArgument for a number that
  // does not fit the column, kOutOfRange for a dictionary with more than 2^31 texts.
  absl::Status Add(const Value& value);
  // What was added; the builder starts anew.
  ColumnData Finish();
  // Of memory, about.
  size_t bytes() const {
    return data_.data.size() + dictionary_bytes_ + 8 * static_cast<size_t>(data_.length);
  }

 private:
  void Reset();
  void AddValidity(bool valid);
  void AddData(bool valid, std::string_view data);
  absl::Status AddNumber(const Value& value);
  absl::Status AddReal(const Value& value);
  void AddBytes(const Value& value);
  absl::Status AddIndex(const Value& value);
  // Of a text in the dictionary; -1 when there are too many.
  int32_t IndexOf(const std::string& text);
  // Of a column of objects or lists JSON; of others strings as they are, all else as JSON has it,
  // without quotes.
  std::string TextOf(const Value& value) const;

  const ColumnField* field_;
  ColumnData data_;
  absl::node_hash_map<std::string, int32_t> index_of_;
  std::vector<const std::string*> texts_;  // keys of index_of_, by index
  int32_t last_text_ = -1;                 // the index given last
  size_t dictionary_bytes_ = 0;
  const void* last_shared_ = nullptr;
  Value last_value_;
  int32_t last_index_ = -1;
};

// A file that batches are written to. All batches have the fields that it was made with.
class ColumnFile {
 public:
  virtual ~ColumnFile() = default;
  // kOutOfRange when a batch holds more text than the format has offsets for.
  virtual absl::Status Write(const std::vector<ColumnData>& batch) = 0;
  // Ends the file, which then is whole. REQUIRES: called once, last.
  virtual void Finish() = 0;
};
// An Arrow IPC file (Feather version 2), without compression. Layouts: numbers and kText.
std::unique_ptr<ColumnFile> MakeArrowFile(const std::vector<ColumnField>& fields, Sink sink);
// An Apache Parquet file, a row group per batch, compressed by zstd. Layouts: numbers and
// kDictionary.
std::unique_ptr<ColumnFile> MakeParquetFile(const std::vector<ColumnField>& fields, Sink sink);

// Pulls the stream to its end and writes its rows as the format "arrow" or "parquet": times and
// integers as 64-bit integers, reals as doubles, the rest as text. Status and summary as
// WriteAnswer.
absl::Status WriteColumns(ResultStream& stream, std::string_view format, const Sink& sink,
                          AnswerSummary* summary);

}  // namespace ttq

#endif  // TTQ_QUERY_ANSWERS_COLUMNS_H_

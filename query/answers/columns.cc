// SPDX-License-Identifier: MIT

#include "query/answers/columns.h"

#include <bit>
#include <limits>
#include <utility>

#include "base/status_macros.h"
#include "fmt/core.h"

namespace ttq {
namespace {

// A batch ends with so many rows, or so much memory: what of a file is held at a time.
constexpr int64_t kFileBatchRows = 65536;
constexpr size_t kFileBatchBytes = size_t{64} << 20;

ColumnLayout FileLayout(Type type, bool dictionaries) {
  switch (type) {
    case Type::kTime:
      return ColumnLayout::kUnsigned;
    case Type::kInteger:
      return ColumnLayout::kSigned;
    case Type::kReal:
      return ColumnLayout::kReal;
    default:
      return dictionaries ? ColumnLayout::kDictionary : ColumnLayout::kText;
  }
}

}  // namespace

absl::Status ColumnBuilder::Add(const Value& value) {
  switch (field_->layout) {
    case ColumnLayout::kUnsigned:
    case ColumnLayout::kSigned:
      return AddNumber(value);
    case ColumnLayout::kReal:
      return AddReal(value);
    case ColumnLayout::kText:
      if (value.is_null()) {
        AddData(false, "");
      } else {
        AddData(true, TextOf(value));
      }
      return absl::OkStatus();
    case ColumnLayout::kDictionary:
      return AddIndex(value);
    case ColumnLayout::kBinary:
    case ColumnLayout::kWideBytes:
      AddBytes(value);
      return absl::OkStatus();
  }
  return absl::InternalError("unknown layout");
}

ColumnData ColumnBuilder::Finish() {
  if (field_->layout == ColumnLayout::kDictionary) {
    data_.dictionary_offsets = {0};
    for (const std::string* text : texts_) {
      data_.dictionary_data += Utf8(*text);
      data_.dictionary_offsets.push_back(static_cast<int64_t>(data_.dictionary_data.size()));
    }
  }
  ColumnData done = std::move(data_);
  Reset();
  return done;
}

void ColumnBuilder::Reset() {
  data_ = {};
  data_.offsets = {0};
  index_of_.clear();
  texts_.clear();
  dictionary_bytes_ = 0;
  last_text_ = -1;
  last_shared_ = nullptr;
  last_index_ = -1;
}

void ColumnBuilder::AddValidity(bool valid) {
  if (data_.length % 8 == 0) data_.validity.push_back(0);
  if (valid) data_.validity.back() |= static_cast<uint8_t>(1u << (data_.length % 8));
  data_.nulls += !valid;
  ++data_.length;
}

void ColumnBuilder::AddData(bool valid, std::string_view data) {
  AddValidity(valid);
  data_.data += data;
  data_.offsets.push_back(static_cast<int64_t>(data_.data.size()));
}

absl::Status ColumnBuilder::AddNumber(const Value& value) {
  uint64_t magnitude = 0;
  bool negative = false;
  const bool number = value.AsNumber(&magnitude, &negative);
  if (value.AsReal() && field_->type != Type::kValue) {
    return absl::InvalidArgumentError(
        fmt::format("{} holds {}, which does not fit its column of type {}", field_->name,
                    TextOf(value), TypeName(field_->type)));
  }
  if (!number && !value.is_null() && field_->type != Type::kValue) {
    return absl::InternalError(
        fmt::format("{} holds something that is not a number", field_->name));
  }
  const bool fits = field_->layout == ColumnLayout::kUnsigned
                        ? !negative
                        : negative || magnitude <= std::numeric_limits<int64_t>::max();
  if (number && !fits) {
    return absl::InvalidArgumentError(fmt::format(
        "{} holds {}{}, which does not fit its column of type {}", field_->name,
        negative ? "-" : "", negative ? 0 - magnitude : magnitude, TypeName(field_->type)));
  }
  AddValidity(number);
  data_.words.push_back(number ? magnitude : 0);
  return absl::OkStatus();
}

absl::Status ColumnBuilder::AddReal(const Value& value) {
  const std::optional<double> real = value.ToReal();
  if (!real && !value.is_null()) {
    return absl::InternalError(
        fmt::format("{} holds something that is not a number", field_->name));
  }
  AddValidity(real.has_value());
  data_.words.push_back(std::bit_cast<uint64_t>(real.value_or(0)));
  return absl::OkStatus();
}

void ColumnBuilder::AddBytes(const Value& value) {
  if (const auto* b = value.get<Bytes>()) {
    AddData(true, b->data);
  } else if (const auto* w = value.get<Word>(); w && field_->layout == ColumnLayout::kBinary) {
    AddData(true, std::string_view(reinterpret_cast<const char*>(&w->v), sizeof w->v));
  } else {
    AddData(false, "");
  }
}

std::string ColumnBuilder::TextOf(const Value& value) const {
  const bool json_only = field_->type == Type::kObject || field_->type == Type::kList;
  if (const auto* s = value.get<std::string>(); s != nullptr && !json_only) return Utf8(*s);
  std::string json;
  AppendJson(value, field_->type, &json);
  // An address, say: JSON has it as a string.
  return json.front() == '"' && !json_only ? json.substr(1, json.size() - 2) : json;
}

absl::Status ColumnBuilder::AddIndex(const Value& value) {
  if (value.is_null()) {
    AddValidity(false);
    data_.indices.push_back(0);
    return absl::OkStatus();
  }
  // Neighbouring rows often share one object, and writing it as JSON is what costs.
  const void* shared = value.object() ? static_cast<const void*>(value.object())
                                      : static_cast<const void*>(value.list());
  int32_t index;
  if (shared && shared == last_shared_) {
    index = last_index_;
  } else if (const auto* s = value.get<std::string>(); s && field_->type == Type::kString) {
    index = IndexOf(*s);
  } else {
    index = IndexOf(TextOf(value));
    last_value_ = value;  // so that no other object takes its place
    last_shared_ = shared;
    last_index_ = index;
  }
  if (index < 0) {
    return absl::OutOfRangeError(
        fmt::format("{} has more than 2^31 different texts", field_->name));
  }
  AddValidity(true);
  data_.indices.push_back(index);
  return absl::OkStatus();
}

int32_t ColumnBuilder::IndexOf(const std::string& text) {
  if (texts_.size() >= static_cast<size_t>(std::numeric_limits<int32_t>::max())) return -1;
  // Neighbouring rows are often alike.
  if (last_text_ >= 0 && *texts_[last_text_] == text) return last_text_;
  const auto [entry, added] = index_of_.try_emplace(text, static_cast<int32_t>(texts_.size()));
  if (added) {
    texts_.push_back(&entry->first);
    dictionary_bytes_ += text.size();
  }
  return last_text_ = entry->second;
}

absl::Status WriteColumns(ResultStream& stream, std::string_view format, const Sink& sink,
                          AnswerSummary* summary) {
  const bool parquet = format == "parquet";
  std::vector<ColumnField> fields;
  for (size_t i = 0; i < stream.columns().size(); ++i) {
    const Column& column = stream.columns()[i];
    fields.push_back({i, column.name, column.type, FileLayout(column.type, parquet)});
  }
  std::vector<ColumnBuilder> builders;
  for (const ColumnField& field : fields) builders.emplace_back(&field);
  const std::unique_ptr<ColumnFile> file =
      parquet ? MakeParquetFile(fields, sink) : MakeArrowFile(fields, sink);
  int64_t rows = 0;  // of the batch
  const auto flush = [&] {
    std::vector<ColumnData> batch;
    for (ColumnBuilder& builder : builders) batch.push_back(builder.Finish());
    rows = 0;
    return file->Write(batch);
  };
  Row row;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, stream.Next(&row));
    if (!more) break;
    for (size_t i = 0; i < builders.size(); ++i) RETURN_IF_ERROR(builders[i].Add(row[i]));
    ++summary->rows;
    ++rows;
    size_t bytes = 0;
    if (rows % 256 == 0) {
      for (const ColumnBuilder& builder : builders) bytes += builder.bytes();
    }
    if (rows >= kFileBatchRows || bytes >= kFileBatchBytes) RETURN_IF_ERROR(flush());
  }
  if (rows > 0) RETURN_IF_ERROR(flush());
  file->Finish();
  summary->interrupted = stream.interrupted();
  summary->remarks = stream.note();
  return absl::OkStatus();
}

}  // namespace ttq

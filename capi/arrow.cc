// SPDX-License-Identifier: MIT
//
// Rows as arrays of the Arrow C data interface (see ttq.h for the mapping). An array owns its
// buffers and nothing else, so that it may outlive everything it came from.

#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/container/node_hash_map.h"
#include "capi/error.h"
#include "capi/handles.h"
#include "capi/ttq.h"
#include "fmt/format.h"
#include "query/answers/format.h"

namespace ttq::capi {
namespace {

constexpr uint64_t kDefaultBatchRows = 65536;
// An array ends early when its columns hold this much.
constexpr size_t kMaxBatchBytes = size_t{256} << 20;

// ---- What the structures of the interface own -------------------------------------------------

struct SchemaParts {
  std::string format, name, metadata;
  std::vector<std::unique_ptr<ArrowSchema>> children;
  std::vector<ArrowSchema*> child_pointers;
  std::unique_ptr<ArrowSchema> dictionary;
};

void ReleaseSchema(ArrowSchema* schema) {
  auto* parts = static_cast<SchemaParts*>(schema->private_data);
  for (const auto& child : parts->children) {
    if (child->release) child->release(child.get());
  }
  if (parts->dictionary && parts->dictionary->release) {
    parts->dictionary->release(parts->dictionary.get());
  }
  delete parts;
  schema->release = nullptr;
}

void FillSchema(std::unique_ptr<SchemaParts> parts, ArrowSchema* out) {
  *out = {};
  out->format = parts->format.c_str();
  out->name = parts->name.c_str();
  out->metadata = parts->metadata.empty() ? nullptr : parts->metadata.data();
  out->flags = ARROW_FLAG_NULLABLE;
  for (const auto& child : parts->children) parts->child_pointers.push_back(child.get());
  out->n_children = static_cast<int64_t>(parts->children.size());
  out->children = parts->children.empty() ? nullptr : parts->child_pointers.data();
  out->dictionary = parts->dictionary.get();
  out->release = ReleaseSchema;
  out->private_data = parts.release();
}

struct ArrayParts {
  std::vector<uint8_t> validity;
  std::vector<uint64_t> words;   // uint64, int64, the bits of float64
  std::vector<int64_t> offsets;  // of large_utf8 and large_binary
  std::vector<int32_t> indices;  // into a dictionary
  std::string data;
  std::vector<const void*> buffers;
  std::vector<std::unique_ptr<ArrowArray>> children;
  std::vector<ArrowArray*> child_pointers;
  std::unique_ptr<ArrowArray> dictionary;
};

void ReleaseArray(ArrowArray* array) {
  auto* parts = static_cast<ArrayParts*>(array->private_data);
  for (const auto& child : parts->children) {
    if (child->release) child->release(child.get());
  }
  if (parts->dictionary && parts->dictionary->release) {
    parts->dictionary->release(parts->dictionary.get());
  }
  delete parts;
  array->release = nullptr;
}

void FillArray(std::unique_ptr<ArrayParts> parts, int64_t length, int64_t null_count,
               ArrowArray* out) {
  *out = {};
  out->length = length;
  out->null_count = null_count;
  out->n_buffers = static_cast<int64_t>(parts->buffers.size());
  out->buffers = parts->buffers.data();
  for (const auto& child : parts->children) parts->child_pointers.push_back(child.get());
  out->n_children = static_cast<int64_t>(parts->children.size());
  out->children = parts->children.empty() ? nullptr : parts->child_pointers.data();
  out->dictionary = parts->dictionary.get();
  out->release = ReleaseArray;
  out->private_data = parts.release();
}

// One key and its value, as the interface lays metadata out.
std::string Metadata(std::string_view key, std::string_view value) {
  std::string out;
  const auto number = [&out](int32_t n) { out.append(reinterpret_cast<const char*>(&n), 4); };
  number(1);
  number(static_cast<int32_t>(key.size()));
  out += key;
  number(static_cast<int32_t>(value.size()));
  out += value;
  return out;
}

// ---- Columns ----------------------------------------------------------------------------------

// Which of the arrays below a column of the result becomes.
enum class Layout { kUnsigned, kSigned, kReal, kText, kDictionary, kBinary, kWideBytes };

struct Field {
  size_t column = 0;  // of the result
  std::string name;
  Type type = Type::kString;
  Layout layout = Layout::kText;
};

std::vector<Field> FieldsOf(const std::vector<Column>& columns, bool plain) {
  std::vector<Field> fields;
  for (size_t i = 0; i < columns.size(); ++i) {
    const Column& column = columns[i];
    const auto add = [&](Layout layout) {
      fields.push_back({i, column.name, column.type, layout});
    };
    switch (column.type) {
      case Type::kTime:
      case Type::kAddress:
        add(Layout::kUnsigned);
        break;
      case Type::kInteger:
        add(Layout::kSigned);
        break;
      case Type::kReal:
        add(Layout::kReal);
        break;
      case Type::kBytes:
        add(Layout::kBinary);
        break;
      case Type::kValue:
        add(Layout::kUnsigned);
        fields.push_back({i, column.name + "_bytes", Type::kBytes, Layout::kWideBytes});
        break;
      case Type::kString:
      case Type::kObject:
      case Type::kList:
        add(plain ? Layout::kText : Layout::kDictionary);
        break;
    }
  }
  return fields;
}

const char* FormatOf(Layout layout) {
  switch (layout) {
    case Layout::kUnsigned:
      return "L";
    case Layout::kSigned:
      return "l";
    case Layout::kReal:
      return "g";
    case Layout::kText:
      return "U";
    case Layout::kDictionary:
      return "i";
    case Layout::kBinary:
    case Layout::kWideBytes:
      return "Z";
  }
  return "n";
}

void MakeSchema(const std::vector<Field>& fields, ArrowSchema* out) {
  auto top = std::make_unique<SchemaParts>();
  top->format = "+s";
  for (const Field& field : fields) {
    auto parts = std::make_unique<SchemaParts>();
    parts->format = FormatOf(field.layout);
    parts->name = field.name;
    parts->metadata = Metadata("ttq.type", TypeName(field.type));
    if (field.layout == Layout::kDictionary) {
      auto values = std::make_unique<SchemaParts>();
      values->format = "U";
      parts->dictionary = std::make_unique<ArrowSchema>();
      FillSchema(std::move(values), parts->dictionary.get());
    }
    top->children.push_back(std::make_unique<ArrowSchema>());
    FillSchema(std::move(parts), top->children.back().get());
  }
  FillSchema(std::move(top), out);
  out->flags = 0;
}

// Collects the values of one field.
class Builder {
 public:
  explicit Builder(const Field* field) : field_(field) { Reset(); }

  // Of memory, about.
  size_t bytes() const {
    return parts_->data.size() + dictionary_bytes_ + 8 * static_cast<size_t>(length_);
  }

  Ending Add(const Value& value) {
    switch (field_->layout) {
      case Layout::kUnsigned:
      case Layout::kSigned:
        return AddNumber(value);
      case Layout::kReal:
        return AddReal(value);
      case Layout::kText:
        if (value.is_null()) return AddData(false, ""), Ending();
        return AddData(true, TextOf(value)), Ending();
      case Layout::kDictionary:
        return AddIndex(value);
      case Layout::kBinary:
      case Layout::kWideBytes:
        return AddBytes(value);
    }
    return {};
  }

  // What was added, which starts anew.
  void Finish(ArrowArray* out) {
    std::unique_ptr<ArrayParts> parts = std::move(parts_);
    ArrayParts* const p = parts.get();
    const void* const validity = nulls_ ? p->validity.data() : nullptr;
    switch (field_->layout) {
      case Layout::kUnsigned:
      case Layout::kSigned:
      case Layout::kReal:
        p->buffers = {validity, p->words.data()};
        break;
      case Layout::kDictionary:
        p->buffers = {validity, p->indices.data()};
        p->dictionary = std::make_unique<ArrowArray>();
        FinishDictionary(p->dictionary.get());
        break;
      case Layout::kText:
      case Layout::kBinary:
      case Layout::kWideBytes:
        p->buffers = {validity, p->offsets.data(), p->data.data()};
        break;
    }
    FillArray(std::move(parts), length_, nulls_, out);
    Reset();
  }

 private:
  void Reset() {
    parts_ = std::make_unique<ArrayParts>();
    parts_->offsets = {0};
    length_ = nulls_ = 0;
    index_of_.clear();
    words_.clear();
    dictionary_bytes_ = 0;
    last_word_ = -1;
    last_shared_ = nullptr;
    last_index_ = -1;
  }

  void AddValidity(bool valid) {
    if (length_ % 8 == 0) parts_->validity.push_back(0);
    if (valid) parts_->validity.back() |= static_cast<uint8_t>(1u << (length_ % 8));
    nulls_ += !valid;
    ++length_;
  }

  void AddData(bool valid, std::string_view data) {
    AddValidity(valid);
    parts_->data += data;
    parts_->offsets.push_back(static_cast<int64_t>(parts_->data.size()));
  }

  Ending AddNumber(const Value& value) {
    uint64_t magnitude;
    bool negative;
    const bool number = value.AsNumber(&magnitude, &negative);
    if (value.AsReal() && field_->type != Type::kValue) {
      return Ending(TTQ_ERROR_WRONG_TYPE,
                    fmt::format("{} holds {}, which does not fit its column of type {}",
                                field_->name, TextOf(value), TypeName(field_->type)));
    }
    if (!number && !value.is_null() && field_->type != Type::kValue) {
      return Ending(TTQ_ERROR_INTERNAL,
                    fmt::format("{} holds something that is not a number", field_->name));
    }
    const bool fits = field_->layout == Layout::kUnsigned
                          ? !negative
                          : negative || magnitude <= std::numeric_limits<int64_t>::max();
    if (number && !fits) {
      return Ending(TTQ_ERROR_WRONG_TYPE,
                    fmt::format("{} holds {}{}, which does not fit its column of type {}",
                                field_->name, negative ? "-" : "",
                                negative ? 0 - magnitude : magnitude, TypeName(field_->type)));
    }
    AddValidity(number);
    parts_->words.push_back(number ? magnitude : 0);
    return {};
  }

  Ending AddReal(const Value& value) {
    const std::optional<double> real = value.ToReal();
    if (!real && !value.is_null()) {
      return Ending(TTQ_ERROR_INTERNAL,
                    fmt::format("{} holds something that is not a number", field_->name));
    }
    AddValidity(real.has_value());
    parts_->words.push_back(std::bit_cast<uint64_t>(real.value_or(0)));
    return {};
  }

  Ending AddBytes(const Value& value) {
    if (const auto* b = value.get<Bytes>()) {
      AddData(true, b->data);
    } else if (const auto* w = value.get<Word>(); w && field_->layout == Layout::kBinary) {
      AddData(true, std::string_view(reinterpret_cast<const char*>(&w->v), sizeof w->v));
    } else {
      AddData(false, "");
    }
    return {};
  }

  std::string TextOf(const Value& value) const {
    const auto* s = value.get<std::string>();
    if (s != nullptr && field_->type == Type::kString) return Utf8(*s);
    std::string json;
    AppendJson(value, field_->type, &json);
    return json;
  }

  Ending AddIndex(const Value& value) {
    if (value.is_null()) {
      AddValidity(false);
      parts_->indices.push_back(0);
      return {};
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
      return Ending(TTQ_ERROR_OUT_OF_RANGE,
                    fmt::format("{} has more than 2^31 different texts", field_->name));
    }
    AddValidity(true);
    parts_->indices.push_back(index);
    return {};
  }

  // -1 when there are too many.
  int32_t IndexOf(const std::string& text) {
    if (words_.size() >= static_cast<size_t>(std::numeric_limits<int32_t>::max())) return -1;
    // Neighbouring rows are often alike.
    if (last_word_ >= 0 && *words_[last_word_] == text) return last_word_;
    const auto [place, added] = index_of_.try_emplace(text, static_cast<int32_t>(words_.size()));
    if (added) {
      words_.push_back(&place->first);
      dictionary_bytes_ += text.size();
    }
    return last_word_ = place->second;
  }

  void FinishDictionary(ArrowArray* out) {
    auto parts = std::make_unique<ArrayParts>();
    parts->offsets = {0};
    for (const std::string* word : words_) {
      parts->data += Utf8(*word);
      parts->offsets.push_back(static_cast<int64_t>(parts->data.size()));
    }
    parts->buffers = {nullptr, parts->offsets.data(), parts->data.data()};
    FillArray(std::move(parts), static_cast<int64_t>(words_.size()), 0, out);
  }

  const Field* field_;
  std::unique_ptr<ArrayParts> parts_;
  int64_t length_ = 0, nulls_ = 0;
  absl::node_hash_map<std::string, int32_t> index_of_;
  std::vector<const std::string*> words_;  // keys of index_of_, by index
  int32_t last_word_ = -1;                 // the index given last
  size_t dictionary_bytes_ = 0;
  const void* last_shared_ = nullptr;
  Value last_value_;
  int32_t last_index_ = -1;
};

// ---- The stream -------------------------------------------------------------------------------

class Stream {
 public:
  Stream(std::shared_ptr<ResultState> result, const ttq_arrow_options& options)
      : result_(std::move(result)),
        fields_(FieldsOf(result_->stream->columns(), options.plain != 0)),
        batch_rows_(options.batch_rows ? options.batch_rows : kDefaultBatchRows) {
    for (const Field& field : fields_) builders_.emplace_back(&field);
  }

  static int GetSchema(ArrowArrayStream* stream, ArrowSchema* out) {
    Stream* self = static_cast<Stream*>(stream->private_data);
    return self->Answer(Guard([&]() -> Ending {
      MakeSchema(self->fields_, out);
      return {};
    }));
  }

  static int GetNext(ArrowArrayStream* stream, ArrowArray* out) {
    Stream* self = static_cast<Stream*>(stream->private_data);
    *out = {};
    return self->Answer(
        Guard(self->result_->text, [&]() -> Ending { return self->NextBatch(out); }));
  }

  static const char* GetLastError(ArrowArrayStream* stream) {
    Stream* self = static_cast<Stream*>(stream->private_data);
    return self->error_.empty() ? nullptr : self->error_.c_str();
  }

  static void Release(ArrowArrayStream* stream) {
    delete static_cast<Stream*>(stream->private_data);
    stream->release = nullptr;
  }

 private:
  int Answer(ttq_status status) {
    if (status >= 0) return 0;
    error_ = ttq_last_error()->message;
    return status == TTQ_ERROR_INTERRUPTED     ? EINTR
           : status == TTQ_ERROR_OUT_OF_MEMORY ? ENOMEM
           : status == TTQ_ERROR_BUSY          ? EBUSY
                                               : EIO;
  }

  Ending NextBatch(ArrowArray* out) {
    ResultUse use(result_.get());
    if (!use.held()) return ResultUse::Busy();
    if (failed_) return *failed_;
    uint64_t rows = 0;
    size_t bytes = 0;
    while (rows < batch_rows_ && bytes < kMaxBatchBytes) {
      Ending next = result_->Next();
      if (next.code() == TTQ_ROW) {
        for (size_t i = 0; i < fields_.size() && next.code() == TTQ_ROW; ++i) {
          Ending added = builders_[i].Add(result_->row[fields_[i].column]);
          if (added.code() < 0) next = added;
        }
      }
      if (next.code() == TTQ_OK) break;
      if (next.code() < 0) return *(failed_ = next);
      ++rows;
      if (rows % 1024 == 0) {
        bytes = 0;
        for (const Builder& builder : builders_) bytes += builder.bytes();
      }
    }
    result_->has_row = false;
    if (rows == 0) return {};  // a released array: the end
    auto parts = std::make_unique<ArrayParts>();
    for (Builder& builder : builders_) {
      parts->children.push_back(std::make_unique<ArrowArray>());
      builder.Finish(parts->children.back().get());
    }
    parts->buffers = {nullptr};
    FillArray(std::move(parts), static_cast<int64_t>(rows), 0, out);
    return {};
  }

  std::shared_ptr<ResultState> result_;
  const std::vector<Field> fields_;
  std::vector<Builder> builders_;  // one per field
  const uint64_t batch_rows_;
  std::optional<Ending> failed_;
  std::string error_;
};

}  // namespace
}  // namespace ttq::capi

extern "C" ttq_status ttq_result_arrow(ttq_result* result, const ttq_arrow_options* options,
                                       struct ArrowArrayStream* stream) {
  using ttq::capi::Ending;
  using ttq::capi::Stream;
  return ttq::capi::Guard([&]() -> Ending {
    if (!result || !stream) {
      return ttq::capi::InvalidArgument("ttq_result_arrow: an argument is NULL");
    }
    const std::optional<ttq_arrow_options> known = ttq::capi::CopyIn(options);
    if (!known) return ttq::capi::BadSize();
    *stream = {};
    stream->private_data = new Stream(result->state, *known);
    stream->get_schema = Stream::GetSchema;
    stream->get_next = Stream::GetNext;
    stream->get_last_error = Stream::GetLastError;
    stream->release = Stream::Release;
    return {};
  });
}

// SPDX-License-Identifier: MIT
//
// Rows as arrays of the Arrow C data interface (see ttq.h for the mapping). An array owns its
// buffers and nothing else, so that it may outlive everything it came from.

#include <cerrno>
#include <utility>

#include "capi/error.h"
#include "capi/handles.h"
#include "capi/ttq.h"
#include "query/answers/columns.h"

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
  ColumnData column;
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

using Layout = ColumnLayout;
using Field = ColumnField;

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

// Gives a column to the arrays of the interface.
void FillColumn(const Field& field, ColumnData column, ArrowArray* out) {
  auto parts = std::make_unique<ArrayParts>();
  parts->column = std::move(column);
  const ColumnData& c = parts->column;
  const void* const validity = c.nulls ? c.validity.data() : nullptr;
  switch (field.layout) {
    case Layout::kUnsigned:
    case Layout::kSigned:
    case Layout::kReal:
      parts->buffers = {validity, c.words.data()};
      break;
    case Layout::kDictionary: {
      parts->buffers = {validity, c.indices.data()};
      auto texts = std::make_unique<ArrayParts>();
      texts->column.offsets = std::move(parts->column.dictionary_offsets);
      texts->column.data = std::move(parts->column.dictionary_data);
      texts->buffers = {nullptr, texts->column.offsets.data(), texts->column.data.data()};
      const int64_t length = static_cast<int64_t>(texts->column.offsets.size()) - 1;
      parts->dictionary = std::make_unique<ArrowArray>();
      FillArray(std::move(texts), length, 0, parts->dictionary.get());
      break;
    }
    case Layout::kText:
    case Layout::kBinary:
    case Layout::kWideBytes:
      parts->buffers = {validity, c.offsets.data(), c.data.data()};
      break;
  }
  const int64_t length = c.length, nulls = c.nulls;
  FillArray(std::move(parts), length, nulls, out);
}

// How the API calls the failure of a ColumnBuilder.
Ending EndingOf(const absl::Status& status) {
  const std::string message(status.message());
  if (absl::IsInvalidArgument(status)) return Ending(TTQ_ERROR_WRONG_TYPE, message);
  if (absl::IsOutOfRange(status)) return Ending(TTQ_ERROR_OUT_OF_RANGE, message);
  return Ending(TTQ_ERROR_INTERNAL, message);
}

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
          const absl::Status added = builders_[i].Add(result_->row[fields_[i].column]);
          if (!added.ok()) next = EndingOf(added);
        }
      }
      if (next.code() == TTQ_OK) break;
      if (next.code() < 0) return *(failed_ = next);
      ++rows;
      if (rows % 1024 == 0) {
        bytes = 0;
        for (const ColumnBuilder& builder : builders_) bytes += builder.bytes();
      }
    }
    result_->has_row = false;
    if (rows == 0) return {};  // a released array: the end
    auto parts = std::make_unique<ArrayParts>();
    for (size_t i = 0; i < fields_.size(); ++i) {
      parts->children.push_back(std::make_unique<ArrowArray>());
      FillColumn(fields_[i], builders_[i].Finish(), parts->children.back().get());
    }
    parts->buffers = {nullptr};
    FillArray(std::move(parts), static_cast<int64_t>(rows), 0, out);
    return {};
  }

  std::shared_ptr<ResultState> result_;
  const std::vector<Field> fields_;
  std::vector<ColumnBuilder> builders_;  // one per field
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

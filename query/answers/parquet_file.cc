// SPDX-License-Identifier: MIT
//
// An Apache Parquet file (https://parquet.apache.org/docs/file-format/): row groups, in each a
// chunk per column, then a footer that names them. A chunk is one data page, of texts that repeat
// after a page with the dictionary. What describes pages and chunks is Thrift's compact protocol
// (https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md), with the
// field numbers of parquet.thrift. It is written here: Debian has no library of Parquet's, and its
// libthrift brings Qt and OpenSSL.

#include <zstd.h>

#include <algorithm>
#include <limits>

#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/answers/columns.h"

namespace ttq {
namespace {

constexpr std::string_view kParquetMagic = "PAR1";
constexpr int kCompression = 3;

// Enums of parquet.thrift.
enum PhysicalType { kInt64 = 2, kDouble = 5, kByteArray = 6 };
enum ConvertedType { kUtf8 = 0, kUint64Type = 14, kInt64Type = 18, kJson = 19 };
enum Encoding { kPlain = 0, kRle = 3, kRleDictionary = 8 };
enum Page { kDataPage = 0, kDictionaryPage = 2 };
constexpr int kOptional = 1;
constexpr int kZstd = 6;

// Writes structures in Thrift's compact protocol. Fields of a structure come in order of their
// numbers.
class Thrift {
 public:
  const std::string& text() const { return out_; }

  void Integer(int field, int64_t value) { Head(field, 6), Zigzag(value); }
  void Integer32(int field, int64_t value) { Head(field, 5), Zigzag(value); }
  void Byte(int field, int8_t value) { Head(field, 3), out_ += static_cast<char>(value); }
  void Bool(int field, bool value) { Head(field, value ? 1 : 2); }
  void Binary(int field, std::string_view value) { Head(field, 8), Text(value); }
  // A structure whose fields `fill` writes.
  template <class Fill>
  void Struct(int field, Fill fill) {
    Head(field, 12);
    Element(fill);
  }
  // A list; `fill` writes each element by the functions below.
  template <class Fill>
  void Structs(int field, size_t count, Fill fill) {
    List(field, 12, count);
    for (size_t i = 0; i < count; ++i) Element([&] { fill(i); });
  }
  void Integers(int field, const std::vector<int>& values) {
    List(field, 5, values.size());
    for (const int value : values) Zigzag(value);
  }
  void Binaries(int field, const std::vector<std::string>& values) {
    List(field, 8, values.size());
    for (const std::string& value : values) Text(value);
  }
  // The outermost structure, and an element of a list.
  template <class Fill>
  void Element(Fill fill) {
    const int outer = last_;
    last_ = 0;
    fill();
    out_ += '\0';
    last_ = outer;
  }

 private:
  void Head(int field, int type) {
    out_ += static_cast<char>((field - last_) << 4 | type);  // numbers are at most 15 apart
    last_ = field;
  }
  void List(int field, int type, size_t count) {
    Head(field, 9);
    if (count < 15) {
      out_ += static_cast<char>(count << 4 | static_cast<size_t>(type));
    } else {
      out_ += static_cast<char>(0xf0 | type);
      Varint(count);
    }
  }
  void Text(std::string_view text) {
    Varint(text.size());
    out_ += text;
  }
  void Zigzag(int64_t n) { Varint(static_cast<uint64_t>(n) << 1 ^ static_cast<uint64_t>(n >> 63)); }
  void Varint(uint64_t n) {
    for (; n >= 0x80; n >>= 7) out_ += static_cast<char>(n | 0x80);
    out_ += static_cast<char>(n);
  }

  std::string out_;
  int last_ = 0;  // the field written last
};

template <class Number>
void AppendNumber(Number n, std::string* out) {
  out->append(reinterpret_cast<const char*>(&n), sizeof n);
}

// The number of a run of `count` groups of eight values, packed by bits, as it begins one.
void AppendPackedRun(uint64_t groups, std::string* out) {
  uint64_t n = groups << 1 | 1;
  for (; n >= 0x80; n >>= 7) *out += static_cast<char>(n | 0x80);
  *out += static_cast<char>(n);
}

// Which rows have a value: one bit each, in a run with its length before it.
void AppendLevels(const ColumnData& column, std::string* out) {
  std::string run;
  AppendPackedRun(column.validity.size(), &run);
  run.append(column.validity.begin(), column.validity.end());
  AppendNumber(static_cast<uint32_t>(run.size()), out);
  *out += run;
}

void AppendText(std::string_view text, std::string* out) {
  AppendNumber(static_cast<uint32_t>(text.size()), out);
  *out += text;
}

std::string_view Entry(const ColumnData& column, size_t index) {
  const int64_t begin = column.dictionary_offsets[index];
  return std::string_view(column.dictionary_data)
      .substr(begin, column.dictionary_offsets[index + 1] - begin);
}

// The indices of the rows that have a value, packed, after their width in bits.
void AppendIndices(const ColumnData& column, size_t entries, std::string* out) {
  int width = 0;
  while (width < 32 && entries > uint64_t{1} << width) ++width;
  *out += static_cast<char>(width);
  const uint64_t present = static_cast<uint64_t>(column.length - column.nulls);
  const uint64_t groups = (present + 7) / 8;
  AppendPackedRun(groups, out);
  const size_t end = out->size() + groups * static_cast<size_t>(width);
  uint64_t bits = 0;
  int used = 0;
  for (int64_t row = 0; row < column.length; ++row) {
    if (!column.valid(row)) continue;
    bits |= static_cast<uint64_t>(column.indices[row]) << used;
    for (used += width; used >= 8; used -= 8, bits >>= 8) *out += static_cast<char>(bits);
  }
  if (used > 0) *out += static_cast<char>(bits);
  out->resize(end);
}

// What the footer says of a chunk.
struct Chunk {
  std::vector<int> encodings;
  int64_t values = 0, nulls = 0, raw_size = 0, size = 0;
  int64_t data_offset = 0, dictionary_offset = 0;  // 0: no dictionary
  std::string least, most;                         // of whole numbers; empty: not told
};
struct Group {
  std::vector<Chunk> chunks;
  int64_t rows = 0, offset = 0;
};

PhysicalType PhysicalTypeOf(const ColumnField& field) {
  return field.layout == ColumnLayout::kDictionary ? kByteArray
         : field.layout == ColumnLayout::kReal     ? kDouble
                                                   : kInt64;
}

template <class Number>
void SetBounds(const ColumnData& column, Chunk* chunk) {
  bool any = false;
  Number least{}, most{};
  for (int64_t row = 0; row < column.length; ++row) {
    if (!column.valid(row)) continue;
    const auto n = static_cast<Number>(column.words[row]);
    least = any ? std::min(least, n) : n;
    most = any ? std::max(most, n) : n;
    any = true;
  }
  if (!any) return;
  AppendNumber(least, &chunk->least);
  AppendNumber(most, &chunk->most);
}

class ParquetFile : public ColumnFile {
 public:
  ParquetFile(const std::vector<ColumnField>& fields, Sink sink)
      : fields_(fields), sink_(std::move(sink)) {
    Put(kParquetMagic);
  }

  absl::Status Write(const std::vector<ColumnData>& batch) override {
    Group group;
    group.offset = written_;
    group.rows = batch.empty() ? 0 : batch[0].length;
    for (size_t i = 0; i < fields_.size(); ++i) {
      Chunk chunk;
      RETURN_IF_ERROR(WriteChunk(fields_[i], batch[i], &chunk));
      group.chunks.push_back(std::move(chunk));
    }
    rows_ += group.rows;
    groups_.push_back(std::move(group));
    return absl::OkStatus();
  }

  void Finish() override {
    Thrift footer;
    footer.Element([&] {
      footer.Integer32(1, 1);  // version
      footer.Structs(2, fields_.size() + 1, [&](size_t i) { PutSchemaElement(i, footer); });
      footer.Integer(3, rows_);
      footer.Structs(4, groups_.size(), [&](size_t i) { PutGroup(groups_[i], footer); });
      footer.Binary(6, "ttq");
      // Bounds are told in the order of each type.
      footer.Structs(7, fields_.size(), [&](size_t) { footer.Struct(1, [] {}); });
    });
    Put(footer.text());
    std::string size;
    AppendNumber(static_cast<uint32_t>(footer.text().size()), &size);
    Put(size);
    Put(kParquetMagic);
  }

 private:
  void Put(std::string_view bytes) {
    sink_(bytes);
    written_ += static_cast<int64_t>(bytes.size());
  }

  absl::Status WriteChunk(const ColumnField& field, const ColumnData& column, Chunk* chunk) {
    chunk->values = column.length;
    chunk->nulls = column.nulls;
    std::string page;
    AppendLevels(column, &page);
    Encoding encoding = kPlain;
    if (field.layout == ColumnLayout::kDictionary) {
      const size_t entries = column.dictionary_offsets.size() - 1;
      if (entries > 0 && entries * 2 <= static_cast<size_t>(column.length)) {
        std::string dictionary;
        for (size_t i = 0; i < entries; ++i) AppendText(Entry(column, i), &dictionary);
        chunk->dictionary_offset = written_;
        RETURN_IF_ERROR(WritePage(field, kDictionaryPage, dictionary, entries, kPlain, chunk));
        encoding = kRleDictionary;
        chunk->encodings.push_back(kPlain);
        AppendIndices(column, entries, &page);
      } else {
        for (int64_t row = 0; row < column.length; ++row) {
          if (column.valid(row)) AppendText(Entry(column, column.indices[row]), &page);
        }
      }
    } else {
      for (int64_t row = 0; row < column.length; ++row) {
        if (column.valid(row)) AppendNumber(column.words[row], &page);
      }
      if (field.layout == ColumnLayout::kUnsigned) SetBounds<uint64_t>(column, chunk);
      if (field.layout == ColumnLayout::kSigned) SetBounds<int64_t>(column, chunk);
    }
    chunk->encodings.insert(chunk->encodings.end(), {encoding, kRle});
    chunk->data_offset = written_;
    return WritePage(field, kDataPage, page, static_cast<size_t>(column.length), encoding, chunk);
  }

  absl::Status WritePage(const ColumnField& field, Page kind, const std::string& page,
                         size_t values, Encoding encoding, Chunk* chunk) {
    std::string packed(ZSTD_compressBound(page.size()), '\0');
    const size_t size =
        ZSTD_compress(packed.data(), packed.size(), page.data(), page.size(), kCompression);
    if (ZSTD_isError(size)) return absl::ResourceExhaustedError(ZSTD_getErrorName(size));
    packed.resize(size);
    if (std::max(page.size(), size) > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      return absl::OutOfRangeError(
          fmt::format("texts of {} are longer than a Parquet file can have them", field.name));
    }
    Thrift head;
    head.Element([&] {
      head.Integer32(1, kind);
      head.Integer32(2, static_cast<int64_t>(page.size()));
      head.Integer32(3, static_cast<int64_t>(size));
      head.Struct(kind == kDataPage ? 5 : 7, [&] {
        head.Integer32(1, static_cast<int64_t>(values));
        head.Integer32(2, encoding);
        if (kind != kDataPage) return;
        head.Integer32(3, kRle);  // definition levels
        head.Integer32(4, kRle);  // repetition levels, of which there are none
      });
    });
    chunk->raw_size += static_cast<int64_t>(head.text().size() + page.size());
    chunk->size += static_cast<int64_t>(head.text().size() + size);
    Put(head.text());
    Put(packed);
    return absl::OkStatus();
  }

  // The root, then the fields.
  void PutSchemaElement(size_t i, Thrift& to) const {
    if (i == 0) {
      to.Binary(4, "ttq");
      to.Integer32(5, static_cast<int64_t>(fields_.size()));
      return;
    }
    const ColumnField& field = fields_[i - 1];
    to.Integer32(1, PhysicalTypeOf(field));
    to.Integer32(3, kOptional);
    to.Binary(4, field.name);
    if (field.layout == ColumnLayout::kReal) return;
    const bool json = field.type == Type::kObject || field.type == Type::kList;
    if (field.layout == ColumnLayout::kDictionary) {
      to.Integer32(6, json ? kJson : kUtf8);
      to.Struct(10, [&] { to.Struct(json ? 12 : 1, [] {}); });
      return;
    }
    const bool is_signed = field.layout == ColumnLayout::kSigned;
    to.Integer32(6, is_signed ? kInt64Type : kUint64Type);
    to.Struct(10, [&] {
      to.Struct(10, [&] {
        to.Byte(1, 64);
        to.Bool(2, is_signed);
      });
    });
  }

  void PutGroup(const Group& group, Thrift& to) const {
    int64_t raw_size = 0, size = 0;
    for (const Chunk& chunk : group.chunks) raw_size += chunk.raw_size, size += chunk.size;
    to.Structs(1, group.chunks.size(), [&](size_t i) {
      to.Integer(2, 0);  // no metadata beside the footer's
      to.Struct(3, [&] { PutChunk(fields_[i], group.chunks[i], to); });
    });
    to.Integer(2, raw_size);
    to.Integer(3, group.rows);
    to.Integer(5, group.offset);
    to.Integer(6, size);
  }

  static void PutChunk(const ColumnField& field, const Chunk& chunk, Thrift& to) {
    to.Integer32(1, PhysicalTypeOf(field));
    to.Integers(2, chunk.encodings);
    to.Binaries(3, {field.name});
    to.Integer32(4, kZstd);
    to.Integer(5, chunk.values);
    to.Integer(6, chunk.raw_size);
    to.Integer(7, chunk.size);
    to.Integer(9, chunk.data_offset);
    if (chunk.dictionary_offset > 0) to.Integer(11, chunk.dictionary_offset);
    to.Struct(12, [&] {
      to.Integer(3, chunk.nulls);
      if (chunk.least.empty()) return;
      to.Binary(5, chunk.most);
      to.Binary(6, chunk.least);
    });
  }

  const std::vector<ColumnField> fields_;
  const Sink sink_;
  int64_t written_ = 0, rows_ = 0;
  std::vector<Group> groups_;
};

}  // namespace

std::unique_ptr<ColumnFile> MakeParquetFile(const std::vector<ColumnField>& fields, Sink sink) {
  return std::make_unique<ParquetFile>(fields, std::move(sink));
}

}  // namespace ttq

// SPDX-License-Identifier: MIT
//
// Arrow's IPC file: "ARROW1", the messages of a stream, a footer that names the batches
// (https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format). A message is a flatbuffer,
// then its buffers. Debian has no library of Arrow's; the few tables that are needed are built by
// their numbers in Message.fbs, Schema.fbs and File.fbs of Arrow's format/ folder.

#include <limits>
#include <type_traits>

#include "base/status_macros.h"
#include "flatbuffers/flatbuffers.h"
#include "fmt/core.h"
#include "query/answers/columns.h"

namespace ttq {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using flatbuffers::Vector;
struct Table {};  // any of Arrow's

constexpr std::string_view kArrowMagic = "ARROW1";
constexpr uint32_t kContinuation = 0xffffffff;
constexpr int16_t kVersion5 = 4;
constexpr size_t kAlignment = 8;

// Members of unions.
enum class Header : uint8_t { kSchema = 1, kRecordBatch = 3 };
enum class TypeTag : uint8_t { kInt = 2, kFloatingPoint = 3, kUtf8 = 5 };

// Structs of the format, as they lie in a vector.
struct FieldNode {
  int64_t length, null_count;
};
struct Buffer {
  int64_t offset, length;
};
struct Block {
  int64_t offset;
  int32_t metadata_length, padding;
  int64_t body_length;
};

// The offset in a table's vtable of its member `number`, counted from 0.
constexpr flatbuffers::voffset_t Member(int number) {
  return static_cast<flatbuffers::voffset_t>(4 + 2 * number);
}

// Builds a table of which `fill` adds the members.
template <class Fill>
Offset<Table> MakeTable(FlatBufferBuilder& b, Fill fill) {
  const flatbuffers::uoffset_t start = b.StartTable();
  fill();
  return Offset<Table>(b.EndTable(start));
}

template <class Struct>
Offset<Vector<const Struct*>> MakeStructs(FlatBufferBuilder& b,
                                          const std::vector<Struct>& structs) {
  return b.CreateVectorOfStructs(structs);
}

std::string_view Finished(FlatBufferBuilder& b, Offset<Table> root) {
  b.Finish(root);
  return {reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()};
}

class ArrowFile : public ColumnFile {
 public:
  ArrowFile(const std::vector<ColumnField>& fields, Sink sink)
      : fields_(fields), sink_(std::move(sink)) {
    Put(kArrowMagic);
    Pad();
    FlatBufferBuilder b;
    const Offset<Table> schema = Schema(b);
    PutMessage(Finished(b, Message(b, Header::kSchema, schema, 0)));
  }

  absl::Status Write(const std::vector<ColumnData>& batch) override {
    // Where each buffer goes in the body, and what is in it.
    std::vector<Buffer> buffers;
    std::vector<std::string> bodies;
    std::vector<FieldNode> nodes;
    int64_t end = 0;
    const auto add = [&](const void* data, size_t size) {
      buffers.push_back({end, static_cast<int64_t>(size)});
      bodies.emplace_back(static_cast<const char*>(data), size);
      bodies.back().resize((size + kAlignment - 1) / kAlignment * kAlignment);
      end += static_cast<int64_t>(bodies.back().size());
    };
    for (size_t i = 0; i < fields_.size(); ++i) {
      const ColumnData& column = batch[i];
      nodes.push_back({column.length, column.nulls});
      add(column.validity.data(), column.nulls > 0 ? column.validity.size() : 0);
      if (fields_[i].layout != ColumnLayout::kText) {
        add(column.words.data(), column.words.size() * sizeof(uint64_t));
        continue;
      }
      if (column.offsets.back() > std::numeric_limits<int32_t>::max()) {
        return absl::OutOfRangeError(
            fmt::format("a text of {} is longer than an Arrow file can have it", fields_[i].name));
      }
      const std::vector<int32_t> offsets(column.offsets.begin(), column.offsets.end());
      add(offsets.data(), offsets.size() * sizeof(int32_t));
      add(column.data.data(), column.data.size());
    }
    FlatBufferBuilder b;
    const auto node_vector = MakeStructs(b, nodes);
    const auto buffer_vector = MakeStructs(b, buffers);
    const Offset<Table> record_batch = MakeTable(b, [&] {
      b.AddElement<int64_t>(Member(0), batch.empty() ? 0 : batch[0].length, 0);
      b.AddOffset(Member(1), node_vector);
      b.AddOffset(Member(2), buffer_vector);
    });
    const int64_t begin = written_;
    PutMessage(Finished(b, Message(b, Header::kRecordBatch, record_batch, end)));
    blocks_.push_back({begin, static_cast<int32_t>(written_ - begin), 0, end});
    for (const std::string& body : bodies) Put(body);
    return absl::OkStatus();
  }

  void Finish() override {
    PutNumber(kContinuation);
    PutNumber(0);
    FlatBufferBuilder b;
    const Offset<Table> schema = Schema(b);
    const auto dictionaries = MakeStructs(b, std::vector<Block>());
    const auto batches = MakeStructs(b, blocks_);
    const std::string_view footer = Finished(b, MakeTable(b, [&] {
                                               b.AddElement<int16_t>(Member(0), kVersion5, 0);
                                               b.AddOffset(Member(1), schema);
                                               b.AddOffset(Member(2), dictionaries);
                                               b.AddOffset(Member(3), batches);
                                             }));
    Put(footer);
    PutNumber(static_cast<uint32_t>(footer.size()));
    Put(kArrowMagic);
  }

 private:
  void Put(std::string_view bytes) {
    sink_(bytes);
    written_ += static_cast<int64_t>(bytes.size());
  }
  void PutNumber(uint32_t n) { Put({reinterpret_cast<const char*>(&n), sizeof n}); }
  void Pad() {
    const size_t over = static_cast<size_t>(written_) % kAlignment;
    if (over > 0) Put(std::string(kAlignment - over, '\0'));
  }

  // A flatbuffer with its length; ends aligned, as it begins.
  void PutMessage(std::string_view metadata) {
    PutNumber(kContinuation);
    PutNumber(static_cast<uint32_t>((metadata.size() + kAlignment - 1) / kAlignment * kAlignment));
    Put(metadata);
    Pad();
  }

  static Offset<Table> Message(FlatBufferBuilder& b, Header kind, Offset<Table> header,
                               int64_t body_length) {
    return MakeTable(b, [&] {
      b.AddElement<int16_t>(Member(0), kVersion5, 0);
      b.AddElement<uint8_t>(Member(1), static_cast<uint8_t>(kind), 0);
      b.AddOffset(Member(2), header);
      b.AddElement<int64_t>(Member(3), body_length, 0);
    });
  }

  Offset<Table> Schema(FlatBufferBuilder& b) const {
    std::vector<Offset<Table>> fields;
    for (const ColumnField& field : fields_) fields.push_back(Field(b, field));
    const auto vector = b.CreateVector(fields);
    return MakeTable(b, [&] { b.AddOffset(Member(1), vector); });  // little-endian is the default
  }

  static Offset<Table> Field(FlatBufferBuilder& b, const ColumnField& field) {
    TypeTag tag = TypeTag::kUtf8;
    const Offset<Table> type = MakeTable(b, [&] {
      if (field.layout == ColumnLayout::kReal) {
        tag = TypeTag::kFloatingPoint;
        b.AddElement<int16_t>(Member(0), 2, 0);  // double
      } else if (field.layout != ColumnLayout::kText) {
        tag = TypeTag::kInt;
        b.AddElement<int32_t>(Member(0), 64, 0);
        b.AddElement<uint8_t>(Member(1), field.layout == ColumnLayout::kSigned, 0);
      }
    });
    const auto name = b.CreateString(field.name);
    const auto key = b.CreateString("ttq.type");
    const std::string_view type_name = TypeName(field.type);
    const auto value = b.CreateString(type_name.data(), type_name.size());
    const Offset<Table> metadata = MakeTable(b, [&] {
      b.AddOffset(Member(0), key);
      b.AddOffset(Member(1), value);
    });
    const auto metadata_vector = b.CreateVector(std::vector<Offset<Table>>{metadata});
    const auto children = b.CreateVector(std::vector<Offset<Table>>());
    return MakeTable(b, [&] {
      b.AddOffset(Member(0), name);
      b.AddElement<uint8_t>(Member(1), 1, 0);  // nullable
      b.AddElement<uint8_t>(Member(2), static_cast<uint8_t>(tag), 0);
      b.AddOffset(Member(3), type);
      b.AddOffset(Member(5), children);
      b.AddOffset(Member(6), metadata_vector);
    });
  }

  const std::vector<ColumnField> fields_;
  const Sink sink_;
  int64_t written_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace

std::unique_ptr<ColumnFile> MakeArrowFile(const std::vector<ColumnField>& fields, Sink sink) {
  return std::make_unique<ArrowFile>(fields, std::move(sink));
}

}  // namespace ttq

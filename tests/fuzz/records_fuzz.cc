// SPDX-License-Identifier: MIT
//
// Any bytes as what a reader meets in the store: index entries, changes of mappings, Cap'n Proto
// records and blocks. Each is refused with words or read, and what is read reads back from what it
// is written as. The first byte says what the rest is; half of the inputs describe a sound record
// and what to damage in it.

#include <zstd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/elf.h"
#include "store/format/format.h"
#include "store/format/message.h"
#include "store/format/records.h"
#include "store/format/trace.capnp.h"
#include "store/read/track.h"
#include "store/walk/loaded_block.h"
#include "store/walk/packed_log.h"
#include "tests/fuzz/fuzz.h"

namespace ttq {
namespace {

void RequireRefusal(const absl::Status& s) {
  Require(absl::IsDataLoss(s) && !s.message().empty(), "an error of another kind", s.ToString());
}

void Page(std::string_view value) {
  const auto view = PageEntryView::Parse(value);
  if (!view.ok()) return RequireRefusal(view.status());
  PageEntry entry;
  entry.written = view->written();
  entry.read = view->read();
  entry.content = view->content();
  entry.whole = view->whole();
  view->ForEachWord([&](uint32_t w, uint64_t v) { entry.words[w] = v; });
  const std::string encoded = entry.Encode();
  const auto again = PageEntryView::Parse(encoded);
  Require(again.ok(), "its own encoding is refused");
  Require(again->written() == entry.written && again->read() == entry.read &&
              again->whole() == entry.whole,
          "its own encoding names other words");
  again->ForEachWord([&](uint32_t w, uint64_t v) {
    Require(entry.words[w] == v, "its own encoding holds other words");
  });
}

void Map(std::string_view value) {
  const auto change = MapChange::Parse(value);
  if (!change.ok()) return RequireRefusal(change.status());
  Require(change->range.begin <= change->range.end, "a range the wrong way round");
  const auto again = MapChange::Parse(change->Encode());
  Require(again.ok(), "its own encoding is refused");
  Require(again->Encode() == change->Encode(), "its own encoding differs");
}

void Block(std::string_view value) {
  const RecipeTable none;
  auto block = ParseBlock(none, value);
  if (!block.ok()) return RequireRefusal(block.status());
  // As every question about a block begins.
  Walker walker(none);
  StartWalk(*block, &walker);
  ThreadNumbers numbers(*block);
  numbers.Control(kTtqThreadStart, block->log);
  (void)numbers.TidOf(ThreadNo(1));
}

template <class T>
void Record(const absl::StatusOr<T>& record) {
  if (!record.ok()) RequireRefusal(record.status());
}

void AddWords(FuzzInput* in, capnp::List<capnp::Text>::Builder list) {
  for (unsigned i = 0; i < list.size(); ++i) list.set(i, std::string(in->Bytes(in->Below(8))));
}

std::string SoundBlock(FuzzInput* in) {
  const std::string payload(in->Below(600), static_cast<char>(in->Take<uint8_t>()));
  // A log of one control record.
  std::string headers(PackedRoom(payload.size() + 8), '\0'), units = headers;
  PackedCursor end{nullptr, reinterpret_cast<uint8_t*>(headers.data()),
                   reinterpret_cast<uint8_t*>(units.data())};
  PackFirst(in->Below(1 << kTtqExitBits), &end);
  PackControl(payload, 0, &end);
  headers.resize(end.headers - reinterpret_cast<uint8_t*>(headers.data()));
  units.resize(end.units - reinterpret_cast<uint8_t*>(units.data()));
  capnp::MallocMessageBuilder message;
  auto h = message.initRoot<schema::BlockHeader>();
  h.setStartTime(in->Take<uint64_t>());
  h.setCurrentTid(in->Take<uint8_t>());
  h.setLogBytes(static_cast<uint32_t>(payload.size() + 8));
  h.setLogHash(PackedLogHash({"", headers, units}));
  auto threads = h.initThreads(in->Below(4));
  for (auto t : threads) {
    t.setTid(in->Take<uint8_t>());
    auto registers = t.initRegisters(in->Below(2 * kTtqRegCount));
    for (unsigned r = 0; r < registers.size(); ++r) registers.set(r, in->Take<uint16_t>());
  }
  auto compress = [](std::string_view bytes) {
    std::string out(ZSTD_compressBound(bytes.size()), '\0');
    out.resize(ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 1));
    return out;
  };
  std::string out;
  const std::string_view sequences[] = {"", headers, units};
  auto parts = h.initLogParts(3);
  for (unsigned p = 0; p < 3; ++p) {
    const std::string frame = compress(sequences[p]);
    const std::string_view stored = frame.size() < sequences[p].size() ? frame : sequences[p];
    parts[p].setBytes(static_cast<uint32_t>(sequences[p].size()));
    parts[p].setStoredBytes(static_cast<uint32_t>(stored.size()));
    out += stored;
  }
  const std::string header = BytesOf(message);
  out += header;
  AppendBig32(&out, static_cast<uint32_t>(header.size()));
  return out;
}

// A record of the kind, as ingest would write it.
std::string Sound(uint8_t kind, FuzzInput* in) {
  capnp::MallocMessageBuilder message;
  switch (kind) {
    case 0: {
      PageEntry entry;
      for (uint32_t n = in->Below(16); n > 0; --n) {
        const uint32_t w = in->Below(kWordsPerPage);
        entry.written.set(w);
        entry.content.set(w);
        entry.read.set(in->Below(kWordsPerPage));
        entry.words[w] = in->Take<uint16_t>();
      }
      entry.whole = in->Below(2) != 0;
      return entry.Encode();
    }
    case 1: {
      MapChange change;
      change.kind = static_cast<MapChange::Kind>(in->Below(6));
      change.range = {Address(in->Take<uint64_t>()), Address(in->Take<uint64_t>())};
      change.to = Address(in->Take<uint64_t>());
      change.syscall = in->Take<int32_t>();
      change.path = in->Bytes(in->Below(16));
      return change.Encode();
    }
    case 2: {
      auto r = message.initRoot<schema::Recording>();
      r.setStoreVersion(in->Take<uint32_t>());
      AddWords(in, r.initCommand(in->Below(5)));
      r.setHost(std::string(in->Bytes(in->Below(8))));
      return BytesOf(message);
    }
    case 3: {
      auto p = message.initRoot<schema::Process>();
      AddWords(in, p.initArguments(in->Below(5)));
      p.setCrash(in->Take<int64_t>());
      p.setExitStatus(in->Take<int32_t>());
      p.setFatalSignal(in->Take<uint32_t>());
      auto threads = p.initThreads(in->Below(4));
      for (auto t : threads) t.setEnd(in->Take<uint64_t>());
      return BytesOf(message);
    }
    case 4: {
      auto g = message.initRoot<schema::Group>();
      g.setFirstBlock(in->Take<uint32_t>());
      auto blocks = g.initBlocks(in->Below(5));
      for (auto b : blocks) b.setEndTime(in->Take<uint64_t>());
      return BytesOf(message);
    }
    case 5:
      return SoundBlock(in);
    case 6: {
      auto e = message.initRoot<schema::Event>();
      e.setKind(in->Below(12));
      e.setNumber(in->Take<int64_t>());
      e.setResult(in->Take<int64_t>());
      auto args = e.initArgs(in->Below(9));
      for (unsigned i = 0; i < args.size(); ++i) args.set(i, in->Take<uint32_t>());
      e.setText(std::string(in->Bytes(in->Below(8))));
      const std::string_view bytes = in->Bytes(in->Below(80));
      e.setBytes(kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()));
      return BytesOf(message);
    }
    case 7: {
      auto f = message.initRoot<schema::File>();
      f.setPath(std::string(in->Bytes(in->Below(8))));
      f.setSize(in->Take<uint64_t>());
      return BytesOf(message);
    }
    default:
      return std::string(in->Bytes(4096));
  }
}

}  // namespace
}  // namespace ttq

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ttq;
  if (size == 0) return 0;
  FuzzInput in(data, size);
  const uint8_t what = in.Take<uint8_t>(), kind = what % 10;
  std::string record;
  if (what < 128) {
    record = in.Bytes(size);
  } else {
    uint8_t damages = in.Below(4);
    record = Sound(kind, &in);
    for (; damages > 0 && !record.empty(); --damages) {
      const uint32_t at = in.Take<uint16_t>() % static_cast<uint32_t>(record.size());
      record[at] = static_cast<char>(in.Take<uint8_t>());
    }
  }
  // To the byte, for the sanitizer.
  const std::vector<char> exact(record.begin(), record.end());
  const std::string_view value(exact.data(), exact.size());
  switch (kind) {
    case 0:
      Page(value);
      break;
    case 1:
      Map(value);
      break;
    case 2:
      Record(ParseRecording(value));
      break;
    case 3:
      Record(ParseProcess(value));
      break;
    case 4:
      Record(ParseGroup(value));
      break;
    case 5:
      Block(value);
      break;
    case 6:
      Record(ParseEvent(value));
      break;
    case 7:
      Record(ParseFile(value));
      break;
    case 8: {
      uint64_t number;
      for (std::string_view rest = value; ReadVarint(&rest, &number);) {
      }
      break;
    }
    default:
      (void)ElfBuildId(value);
      (void)ElfLoadBiases(value, 0, 0x400000, 5);
      break;
  }
  return 0;
}

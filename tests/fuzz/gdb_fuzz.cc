// SPDX-License-Identifier: MIT
//
// Any bytes as what a debugger sends to `ttq gdb`: the packets are cut alike however the bytes come
// in, and each gets an answer that fits a packet, on a real recording.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gdb/packet.h"
#include "gdb/stub.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/trace_text.h"

namespace ttq::gdb {
namespace {

constexpr const char kHistory[] =
    "map 0x10000 0x12000 rw\n"
    "map 0xffffffffff600000 0xffffffffff601000 r\n"
    "thread 1\n"
    "0x401000 store 0x10000 4 = 7\n"
    "0x401004 store 0x10020 16 = \"sixteen bytes in\"\n"
    "0x401008 set rsp = 65792\n"
    "block\n"
    "thread 2\n"
    "0x402004 store 0x10000 1 = 9\n"
    "0x402008 load 0x10000 8\n"
    "enter read 3 0x10100 5\n"
    "kernel 0x10100 \"bytes\"\n"
    "return 5\n"
    "output 1 \"caf\\xe9\\n\"\n"
    "block\n"
    "thread 1\n"
    "0x401000 store 0x10000 4 = 8\n"
    "fault 11 0xdead0000: 0x401008 store 0xdead0000 4 = 1\n"
    "fatal 11\n";

// Never closed: RocksDB's own globals go first.
const Recording* recording;
const Engine* engine;

using Items = std::vector<PacketParser::Item>;

// Until one that ends the connection.
void TakeAll(PacketParser* parser, Items* items) {
  while (items->empty() || items->back().kind != PacketParser::Item::kTooLong) {
    std::optional<PacketParser::Item> item = parser->Next();
    if (!item) return;
    items->push_back(*std::move(item));
  }
}

// What a client sends: packets with their checksums, and between them anything.
std::string Stream(FuzzInput* in) {
  std::string stream;
  while (!in->empty()) {
    const std::string_view bytes = in->Bytes(in->Below(64) + 1);
    if (in->Below(8) == 0) {
      stream += bytes;
    } else {
      stream += Framed(bytes);
    }
  }
  return stream;
}

Items Cut(std::string_view stream, size_t piece) {
  PacketParser parser;
  Items items;
  for (; !stream.empty(); stream.remove_prefix(std::min(piece, stream.size()))) {
    parser.Feed(stream.substr(0, piece));
    TakeAll(&parser, &items);
  }
  return items;
}

// A `#` would end a packet early and a `$` begin another.
void RequireSendable(std::string_view payload) {
  Require(payload.size() <= kMaxPacket, "an answer longer than a packet", payload.substr(0, 200));
  Require(payload.find_first_of("#$") == std::string_view::npos, "an answer that breaks a packet",
          payload);
}

}  // namespace
}  // namespace ttq::gdb

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  using namespace ttq;
  char scratch[] = "/tmp/ttq-fuzz-XXXXXX";
  Require(mkdtemp(scratch) != nullptr, "no scratch directory");
  const std::string trace = std::string(scratch) + "/fuzz.ttq";
  Require(RecordText(gdb::kHistory, trace).ok(), "the history cannot be recorded");
  absl::StatusOr<std::unique_ptr<Recording>> opened = Recording::Open(trace);
  Require(opened.ok(), "the recording cannot be opened", opened.status().ToString());
  gdb::recording = opened->release();
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Open(gdb::recording, std::nullopt);
  Require(engine.ok(), "its process cannot be opened", engine.status().ToString());
  gdb::engine = engine->release();
  std::filesystem::remove_all(scratch);  // what is open stays readable
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ttq;
  using namespace ttq::gdb;
  FuzzInput in(data, size);
  const size_t piece = in.Below(16) + 1;
  const std::string stream = Stream(&in);
  const Items whole = Cut(stream, stream.size()), pieces = Cut(stream, piece);
  Require(whole.size() == pieces.size(), "other packets in pieces");
  absl::StatusOr<std::unique_ptr<Stub>> stub = Stub::Create(gdb::recording, gdb::engine);
  Require(stub.ok(), "no stub", stub.status().ToString());
  ScanControl control;
  for (size_t i = 0; i < whole.size() && !(*stub)->done(); ++i) {
    Require(whole[i].kind == pieces[i].kind && whole[i].payload == pieces[i].payload,
            "another packet in pieces", pieces[i].payload);
    if (whole[i].kind != PacketParser::Item::kPacket) continue;
    RequireSendable((*stub)->Answer(whole[i].payload, &control, RequireSendable));
  }
  return 0;
}

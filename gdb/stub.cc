// SPDX-License-Identifier: MIT
//
// See stub.h. What moves the process is in resume.cc, `monitor` in monitor.cc.

#include "gdb/stub.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "fmt/core.h"
#include "gdb/registers.h"

namespace ttq::gdb {
namespace {

constexpr char kReadOnly[] =
    "E.a recording cannot be changed: neither memory nor registers can be written, and no function "
    "of the program can be called";
// The protocol's errors are numbers where the text of one would be taken for data.
constexpr char kNoMemory[] = "E14", kNoThread[] = "E03", kBadRequest[] = "E01";

// siginfo_t of x86-64.
constexpr size_t kSigInfoBytes = 128;

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Stub>> Stub::Create(const Recording* recording,
                                                   const Engine* engine) {
  ASSIGN_OR_RETURN(std::unique_ptr<Timeline> timeline, Timeline::Create(&engine->process()));
  return std::unique_ptr<Stub>(new Stub(recording, engine, std::move(timeline)));
}

uint32_t Stub::Pid() const { return std::max(timeline_->process().info().pid, 1u); }

uint32_t Stub::TidOf(ThreadNo thread) const {
  for (const Thread& t : timeline_->process().threads()) {
    if (t.number == thread && t.os_tid != 0) return t.os_tid;
  }
  return thread.v;
}

std::string Stub::IdOf(ThreadNo thread) const {
  if (!multiprocess_) return HexNumber(TidOf(thread));
  return fmt::format("p{:x}.{:x}", Pid(), TidOf(thread));
}

// p PID.TID, TID, -1 (all) or 0 (any).
Stub::ThreadId Stub::ParseThread(Fields* fields) const {
  if (fields->Take("p")) {
    if (!fields->Take("-1")) fields->Hex();
    if (!fields->Take(".")) return {ThreadId::kAll, {}};
  }
  if (fields->Take("-1")) return {ThreadId::kAll, {}};
  const uint64_t tid = fields->Hex();
  if (tid == 0) return {ThreadId::kAny, {}};
  ThreadNo found;
  for (const Thread& thread : timeline_->process().threads()) {
    // Of two that had the same number one after the other, the one that lives.
    if (TidOf(thread.number) == tid && (found.v == 0 || timeline_->IsAlive(thread.number))) {
      found = thread.number;
    }
  }
  return {ThreadId::kOne, found};
}

std::string Stub::Answer(std::string_view packet, ScanControl* control, const Send& send) {
  if (packet.empty()) return "";
  Fields rest(packet.substr(1));
  const ThreadNo stopped = timeline_->stop().thread;
  const ThreadNo to_run = selected_to_run_.v != 0 ? selected_to_run_ : stopped;
  switch (packet[0]) {
    case '?':
      return StopReply();
    case 'H':
      return SetThread(rest);
    case 'T': {
      const ThreadId id = ParseThread(&rest);
      return id.kind == ThreadId::kOne && timeline_->IsAlive(id.thread) ? "OK" : kNoThread;
    }
    case 'g':
      return AllRegisters(std::nullopt);
    case 'p':
      return OneRegister(rest);
    case 'm':
      return ReadMemory(rest, false);
    case 'x':
      return ReadMemory(rest, true);
    case 'G':
    case 'P':
    case 'M':
    case 'X':
      return kReadOnly;
    case 'q':
      return AnswerQuery(packet, control, send);
    case 'Q':
      return AnswerSet(packet);
    case 'v':
      return AnswerV(packet, control);
    case 'Z':
      return ChangePoint(rest, true);
    case 'z':
      return ChangePoint(rest, false);
    case 'b':
      if (packet == "bc") return Go({.direction = Direction::kBackward}, control);
      if (packet == "bs") return Go({.direction = Direction::kBackward, .step = to_run}, control);
      return "";
    case 'c':
    case 'C':
      return Go({}, control);
    case 's':
    case 'S':
      return Go({.step = to_run}, control);
    case 'D':
      done_ = true;
      return "OK";
    case 'k':
      done_ = true;
      return "";
    default:
      return "";
  }
}

std::string Stub::Supported(std::string_view packet) {
  multiprocess_ = packet.find("multiprocess+") != std::string_view::npos;
  return fmt::format(
      "PacketSize={:x};QStartNoAckMode+;multiprocess{};swbreak+;hwbreak+;vContSupported+;"
      "ReverseContinue+;ReverseStep+;ConditionalBreakpoints+;QPassSignals+;"
      "qXfer:features:read+;qXfer:auxv:read+;qXfer:exec-file:read+;qXfer:siginfo:read+;"
      "qXfer:threads:read+",
      kMaxPacket, multiprocess_ ? '+' : '-');
}

std::string Stub::AnswerQuery(std::string_view packet, ScanControl* control, const Send& send) {
  Fields fields(packet);
  if (fields.Take("qSupported")) return Supported(packet);
  if (fields.Take("qXfer:")) return Transfer(fields.rest());
  if (fields.Take("qRcmd,")) return Monitor(fields.rest(), control, send);
  if (fields.Take("qSearch:memory:")) return SearchMemory(fields);
  if (fields.Take("qGetTLSAddr:")) return ThreadLocal(fields);
  if (fields.Take("qMemoryRegionInfo:")) return MemoryRegion(fields);
  if (fields.Take("qThreadExtraInfo,")) {
    const ThreadId id = ParseThread(&fields);
    if (id.kind != ThreadId::kOne) return kBadRequest;
    return ToHex(fmt::format("ttq's thread {}", id.thread.v));
  }
  if (packet == "qC") return "QC" + IdOf(timeline_->stop().thread);
  if (StartsWith(packet, "qAttached")) return "1";
  if (StartsWith(packet, "qSymbol")) return "OK";
  if (packet == "qfThreadInfo") return ThreadList();
  if (packet == "qsThreadInfo") return "l";
  return AnswerOfLldb(packet);
}

std::string Stub::AnswerOfLldb(std::string_view packet) {
  const std::string triple = ToHex("x86_64-pc-linux-gnu");
  if (packet == "qHostInfo") {
    return fmt::format("triple:{};ptrsize:8;endian:little;watchpoint_exceptions_received:after;",
                       triple);
  }
  if (packet == "qProcessInfo") {
    return fmt::format("pid:{:x};triple:{};ostype:linux;endian:little;ptrsize:8;", Pid(), triple);
  }
  return "";
}

// ---- Threads ------------------------------------------------------------------------------------

std::string Stub::SetThread(Fields fields) {
  const bool to_run = fields.Take("c");
  if (!to_run && !fields.Take("g")) return kBadRequest;
  const ThreadId id = ParseThread(&fields);
  if (!fields.ok()) return kBadRequest;
  ThreadNo thread;
  if (id.kind == ThreadId::kOne) {
    thread = id.thread;
    if (!timeline_->IsAlive(thread)) return kNoThread;
  }
  (to_run ? selected_to_run_ : selected_) = thread;
  return "OK";
}

std::string Stub::ThreadList() {
  std::string list;
  for (const Thread& thread : timeline_->Threads()) {
    list += (list.empty() ? "m" : ",") + IdOf(thread.number);
  }
  return list.empty() ? "l" : list;
}

// ---- Registers ----------------------------------------------------------------------------------

std::string Stub::AllRegisters(std::optional<ThreadNo> thread) {
  const ThreadNo selected = selected_.v != 0 ? selected_ : timeline_->stop().thread;
  const absl::StatusOr<Registers> registers = timeline_->RegistersOf(thread.value_or(selected));
  if (!registers.ok()) return kNoThread;
  std::string text;
  for (uint32_t i = 0; i < kRegisterCount; ++i) text += RegisterText(*registers, i);
  return text;
}

std::string Stub::OneRegister(Fields fields) {
  const uint64_t number = fields.Hex();
  if (!fields.ok() || number >= kRegisterCount) return kBadRequest;
  ThreadNo thread = selected_.v != 0 ? selected_ : timeline_->stop().thread;
  if (thread_suffix_ && fields.Take(";thread:")) {
    if (const ThreadId id = ParseThread(&fields); id.kind == ThreadId::kOne) thread = id.thread;
  }
  const absl::StatusOr<Registers> registers = timeline_->RegistersOf(thread);
  if (!registers.ok()) return kNoThread;
  return RegisterText(*registers, static_cast<uint32_t>(number));
}

// ---- Memory -------------------------------------------------------------------------------------

std::string Stub::ReadMemory(Fields fields, bool binary) {
  const Address address(fields.Hex());
  fields.Expect(",");
  const uint64_t size = std::min<uint64_t>(fields.Hex(), (kMaxPacket - 32) / 2);
  if (!fields.ok()) return kBadRequest;
  if (size == 0) return binary ? "OK" : "";
  std::string bytes(size, '\0');
  const absl::StatusOr<uint64_t> got = timeline_->Read(address, size, bytes.data());
  if (!got.ok() || *got == 0) return kNoMemory;
  bytes.resize(*got);
  return binary ? Escaped(bytes) : ToHex(bytes);
}

// ADDRESS;LENGTH;PATTERN: 1,ADDRESS of the first occurrence, or 0.
std::string Stub::SearchMemory(Fields fields) {
  uint64_t address = fields.Hex();
  fields.Expect(";");
  uint64_t length = fields.Hex();
  fields.Expect(";");
  if (!fields.ok()) return kBadRequest;
  std::string pattern;
  for (size_t i = 0; i < fields.rest().size(); ++i) {
    char c = fields.rest()[i];
    if (c == '}' && i + 1 < fields.rest().size()) c = static_cast<char>(fields.rest()[++i] ^ 0x20);
    pattern += c;
  }
  if (pattern.empty()) return kBadRequest;
  constexpr uint64_t kPiece = 1 << 20;
  std::string piece;
  while (length >= pattern.size()) {
    piece.resize(std::min(length, kPiece + pattern.size() - 1));
    const absl::StatusOr<uint64_t> got =
        timeline_->Read(Address(address), piece.size(), piece.data());
    if (!got.ok()) return kNoMemory;
    piece.resize(*got);
    if (const size_t at = piece.find(pattern); at != std::string::npos) {
      return "1," + HexNumber(address + at);
    }
    if (piece.size() < std::min(length, kPiece + pattern.size() - 1)) return "0";
    const uint64_t done = piece.size() - (pattern.size() - 1);
    address += done;
    length -= done;
  }
  return "0";
}

std::string Stub::MemoryRegion(Fields fields) {
  const Address address(fields.Hex());
  if (!fields.ok()) return kBadRequest;
  const absl::StatusOr<std::vector<Mapping>> mappings =
      timeline_->process().MappingsAt(timeline_->now().time);
  if (!mappings.ok()) return kBadRequest;
  AddressRange hole{Address(0), Address(~uint64_t{0})};
  for (const Mapping& m : *mappings) {
    if (m.range.Contains(address)) {
      return fmt::format("start:{:x};size:{:x};permissions:{}{}{};", m.range.begin.v,
                         m.range.size(), m.protection & 1 ? "r" : "", m.protection & 2 ? "w" : "",
                         m.protection & 4 ? "x" : "");
    }
    if (m.range.end <= address) hole.begin = std::max(hole.begin, m.range.end);
    if (m.range.begin > address) hole.end = std::min(hole.end, m.range.begin);
  }
  return fmt::format("start:{:x};size:{:x};", hole.begin.v, hole.size());
}

// THREAD,OFFSET,LINK_MAP: where a thread-local variable of a module lies.
std::string Stub::ThreadLocal(Fields fields) {
  const ThreadId id = ParseThread(&fields);
  fields.Expect(",");
  const uint64_t offset = fields.Hex();
  fields.Expect(",");
  const Address link_map(fields.Hex());
  if (!fields.ok()) return kBadRequest;
  const ThreadNo thread = id.kind == ThreadId::kOne ? id.thread : timeline_->stop().thread;
  const absl::StatusOr<Registers> registers = timeline_->RegistersOf(thread);
  if (!registers.ok()) return kNoThread;
  const std::optional<Address> block = files_.ThreadLocalBlock(link_map, registers->fs_base);
  if (!block) return "E.this module's thread-local variables are not there yet";
  return HexNumber(block->v + offset);
}

// ---- Documents ----------------------------------------------------------------------------------

std::string Stub::SignalInformation() {
  const absl::StatusOr<std::optional<Event>> signal = timeline_->SignalHere();
  if (!signal.ok() || !*signal) return "";
  std::string bytes(kSigInfoBytes, '\0');
  if (timeline_->now().phase == Position::Phase::kBeforeHandler) {
    // The handler has its address as the second argument.
    const absl::StatusOr<Registers> registers =
        timeline_->process().RegistersAt(timeline_->now().time, (*signal)->thread);
    if (!registers.ok()) return "";
    const absl::StatusOr<uint64_t> got =
        timeline_->Read(Address(registers->gpr[kRsi]), bytes.size(), bytes.data());
    return got.ok() && *got == bytes.size() ? bytes : "";
  }
  const auto number = static_cast<int32_t>((*signal)->number);
  const auto code = static_cast<int32_t>((*signal)->result);
  memcpy(bytes.data(), &number, sizeof(number));
  memcpy(bytes.data() + 8, &code, sizeof(code));
  memcpy(bytes.data() + 16, &(*signal)->args[0], 8);
  return bytes;
}

absl::StatusOr<std::string> Stub::Document(std::string_view object, std::string_view annex) {
  if (object == "features" && annex == "target.xml") return TargetDescription();
  if (object == "auxv" && annex.empty()) return files_.AuxiliaryVector();
  if (object == "exec-file") return files_.Program();
  if (object == "siginfo" && annex.empty()) {
    std::string bytes = SignalInformation();
    if (bytes.empty()) return absl::NotFoundError("there is no signal here");
    return bytes;
  }
  if (object == "threads" && annex.empty()) {
    std::string list = "<?xml version=\"1.0\"?>\n<threads>\n";
    for (const Thread& thread : timeline_->Threads()) {
      list += fmt::format("<thread id=\"{}\">ttq's thread {}</thread>\n", IdOf(thread.number),
                          thread.number.v);
    }
    return list + "</threads>\n";
  }
  return absl::NotFoundError("no such document");
}

// OBJECT:read:ANNEX:OFFSET,LENGTH
std::string Stub::Transfer(std::string_view packet) {
  Fields fields(packet);
  const std::string_view object = fields.Until(':');
  const std::string_view operation = fields.Until(':');
  const std::string_view annex = fields.Until(':');
  const uint64_t offset = fields.Hex();
  fields.Expect(",");
  const uint64_t length = fields.Hex();
  if (!fields.ok()) return kBadRequest;
  if (operation != "read") return kReadOnly;
  const absl::StatusOr<std::string> document = Document(object, annex);
  if (!document.ok()) return kBadRequest;
  if (offset >= document->size()) return "l";
  const std::string_view piece =
      std::string_view(*document).substr(offset, std::min<uint64_t>(length, (kMaxPacket - 32) / 2));
  return (offset + piece.size() < document->size() ? "m" : "l") + Escaped(piece);
}

}  // namespace ttq::gdb

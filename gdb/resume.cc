// SPDX-License-Identifier: MIT
//
// The packets that move the process, those that say where it is to stop, and the answer that tells
// why it did.

#include <set>

#include "fmt/core.h"
#include "gdb/registers.h"
#include "gdb/stub.h"

namespace ttq::gdb {
namespace {

constexpr int kSigint = 2, kSigtrap = 5;

std::string Error(const absl::Status& status) { return "E." + std::string(status.message()); }

}  // namespace

std::string Stub::StopReason() const {
  const Stop& stop = timeline_->stop();
  switch (stop.reason) {
    case Stop::Reason::kStep:
    case Stop::Reason::kSignal:
    case Stop::Reason::kInterrupted:
      return "";
    case Stop::Reason::kBreakpoint:
      return stop.hardware ? "hwbreak:;" : "swbreak:;";
    case Stop::Reason::kWatchpoint:
      return fmt::format("{}:{:x};",
                         stop.kind == Watchpoint::Kind::kWrite  ? "watch"
                         : stop.kind == Watchpoint::Kind::kRead ? "rwatch"
                                                                : "awatch",
                         stop.address.v);
    case Stop::Reason::kBegin:
      return "replaylog:begin;";
    case Stop::Reason::kEnd:
      return "replaylog:end;";
  }
  return "";
}

std::string Stub::StopReply() const {
  const Stop& stop = timeline_->stop();
  int signal = kSigtrap;
  if (stop.reason == Stop::Reason::kSignal) signal = GdbSignal(stop.signal);
  if (stop.reason == Stop::Reason::kInterrupted) signal = kSigint;
  return StopReply(signal);
}

std::string Stub::StopReply(int signal) const {
  const Stop& stop = timeline_->stop();
  std::string reply = fmt::format("T{:02x}thread:{};", signal, IdOf(stop.thread));
  const absl::StatusOr<Registers> registers = timeline_->RegistersOf(stop.thread);
  if (registers.ok()) {
    for (const uint32_t number : {kGdbRbp, kGdbRsp, kGdbRip}) {
      reply += fmt::format("{:02x}:{};", number, RegisterText(*registers, number));
    }
  }
  return reply + StopReason();
}

std::string Stub::Go(const Resume& resume, ScanControl* control) {
  if (jump_) {
    const Time to = *jump_;
    jump_.reset();
    if (const absl::Status status = timeline_->Seek(to); !status.ok()) {
      return Error(status);
    }
    selected_ = selected_to_run_ = ThreadNo();
    // No signal: gdb would take a trap in a thread that it did not step for one of the program's.
    return StopReply(0);
  } else {
    const absl::StatusOr<Stop> stop = timeline_->Go(resume, control);
    if (!stop.ok()) return Error(stop.status());
  }
  selected_ = selected_to_run_ = ThreadNo();
  return StopReply();
}

// vCont;ACTION[:THREAD];… : each thread does what the first action says that names it.
std::string Stub::Continue(std::string_view actions, ScanControl* control) {
  Resume resume;
  bool all_run = false;
  std::optional<ThreadNo> runs;
  Fields fields(actions);
  while (!fields.done()) {
    Fields action(fields.Until(';'));
    const char kind = action.Peek();
    if (!action.Take("c") && !action.Take("s") && !action.Take("C") && !action.Take("S") &&
        !action.Take("r")) {
      return "E01";
    }
    AddressRange range;
    if (kind == 'C' || kind == 'S') action.Hex();
    if (kind == 'r') {
      range.begin = Address(action.Hex());
      action.Expect(",");
      range.end = Address(action.Hex());
    }
    ThreadId id;
    if (action.Take(":")) id = ParseThread(&action);
    if (!action.ok()) return "E01";
    const bool steps = kind == 's' || kind == 'S' || kind == 'r';
    if (id.kind == ThreadId::kAny) id = {ThreadId::kOne, timeline_->stop().thread};
    if (steps && !resume.step && !all_run) {
      resume.step = id.kind == ThreadId::kOne ? id.thread : timeline_->stop().thread;
      resume.range = range;
      all_run |= id.kind == ThreadId::kAll;
    } else if (!steps) {
      if (id.kind == ThreadId::kAll) all_run = true;
      if (id.kind == ThreadId::kOne) runs = id.thread;
    }
  }
  if (!all_run) resume.only = resume.step ? resume.step : runs;
  return Go(resume, control);
}

// TYPE,ADDRESS,KIND[;X LENGTH,EXPRESSION…]
std::string Stub::ChangePoint(Fields fields, bool insert) {
  const uint64_t type = fields.Hex();
  fields.Expect(",");
  const Address address(fields.Hex());
  fields.Expect(",");
  const uint64_t kind = fields.Hex();
  if (!fields.ok()) return "E01";
  if (type > 4) return "";
  if (type >= 2) {
    constexpr Watchpoint::Kind kKinds[] = {Watchpoint::Kind::kWrite, Watchpoint::Kind::kRead,
                                           Watchpoint::Kind::kAccess};
    if (kind == 0 || address.v + kind < address.v) return "E01";
    const Watchpoint watchpoint{kKinds[type - 2], {address, address + kind}};
    insert ? timeline_->Insert(watchpoint) : timeline_->Remove(watchpoint);
    return "OK";
  }
  const bool hardware = type == 1;
  if (!insert) {
    timeline_->Remove(address, hardware);
    return "OK";
  }
  std::vector<std::string> conditions;
  // What else there may be, "cmds:", is not offered.
  while (fields.Take(";")) {
    while (fields.Take("X")) {
      const uint64_t length = fields.Hex();
      fields.Expect(",");
      if (!fields.ok() || fields.rest().size() / 2 < length) return "E01";
      std::optional<std::string> code = FromHex(fields.rest().substr(0, 2 * length));
      if (!code) return "E01";
      conditions.push_back(*std::move(code));
      fields.Skip(2 * length);
    }
    if (!fields.done() && fields.Peek() != ';') return "E01";
  }
  if (!fields.done()) return "E01";
  timeline_->Insert(address, hardware, std::move(conditions));
  return "OK";
}

// QPassSignals:SIGNAL;…
std::string Stub::AnswerSet(std::string_view packet) {
  Fields fields(packet);
  if (fields.Take("QStartNoAckMode")) {
    no_acknowledgements_ = true;
    return "OK";
  }
  if (fields.Take("QThreadSuffixSupported")) {
    thread_suffix_ = true;
    return "OK";
  }
  if (fields.Take("QPassSignals:")) {
    std::set<int> signals;
    while (!fields.done()) {
      const uint64_t number = fields.Hex();
      if (!fields.ok() || (!fields.done() && !fields.Take(";"))) return "E01";
      if (const int signal = LinuxSignal(static_cast<int>(number & 0xff)); signal != 0) {
        signals.insert(signal);
      }
    }
    timeline_->Pass(std::move(signals));
    return "OK";
  }
  return "";
}

std::string Stub::AnswerV(std::string_view packet, ScanControl* control) {
  Fields fields(packet);
  if (fields.Take("vCont?")) return "vCont;c;C;s;S;r";
  if (fields.Take("vCont;")) return Continue(fields.rest(), control);
  if (fields.Take("vFile:")) return files_.Answer(fields.rest());
  if (fields.Take("vKill")) {
    done_ = true;
    return "OK";
  }
  if (fields.Take("vRun") || fields.Take("vAttach")) {
    return "E.a recording cannot be run again: `monitor seek start` goes to its beginning";
  }
  return "";
}

}  // namespace ttq::gdb

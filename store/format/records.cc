// SPDX-License-Identifier: MIT

#include "store/format/records.h"

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "fmt/core.h"
#include "store/format/format.h"
#include "store/format/message.h"
#include "store/format/trace.capnp.h"

namespace ttq {
namespace {

std::string DetailOf(const Event& e, std::string_view text) {
  switch (e.kind) {
    case EventKind::kSyscall: {
      std::string out = SyscallName(e.number) + "(";
      for (size_t i = 0; i < e.args.size(); ++i) {
        // Small numbers as such, everything else as an address or flags.
        if (i > 0) out += ", ";
        out += e.args[i] < 4096 ? fmt::format("{}", e.args[i]) : fmt::format("{:#x}", e.args[i]);
      }
      out += ")";
      if (e.number == 60 || e.number == 231) return out;
      if (e.result < 0 && e.result > -4096) {
        const char* name = strerrorname_np(static_cast<int>(-e.result));
        return out + fmt::format(" = -1 {}", name != nullptr ? name : "?");
      }
      uint64_t r = static_cast<uint64_t>(e.result);
      return out + (r < 4096 ? fmt::format(" = {}", r) : fmt::format(" = {:#x}", r));
    }
    case EventKind::kSignal: {
      bool from_kernel = e.args[1] != 0;
      std::string out = SignalName(e.number);
      if (from_kernel && e.number != 17) out += fmt::format(" at {:#x}", e.args[0]);
      return out;
    }
    case EventKind::kThread:
      return fmt::format("{} {}", e.result != 0 ? "start" : "exit", e.number);
    case EventKind::kOutput: {
      std::string out = fmt::format("{} bytes to {}: ", e.bytes.size(), e.number);
      for (char c : e.bytes.substr(0, 60)) {
        auto u = static_cast<unsigned char>(c);
        if (c == '\n')
          out += "\\n";
        else if (c == '\t')
          out += "\\t";
        else if (u < 0x20 || u == 0x7f)
          out += fmt::format("\\x{:02x}", u);
        else
          out += c;
      }
      return out + (e.bytes.size() > 60 ? "…" : "");
    }
    case EventKind::kFork:
      return fmt::format("child {}", e.number);
    case EventKind::kExit:
      return fmt::format("status {}", e.number);
    default:
      return std::string(text);
  }
}

StoredProcess ProcessOf(schema::Process::Reader p) {
  StoredProcess out;
  ProcessInfo& i = out.info;
  i.number = ProcessNo(p.getNumber());
  i.parent = ProcessNo(p.getParent());
  i.by_exec = p.getByExec();
  i.pid = p.getPid();
  i.program = p.getProgram().cStr();
  for (auto a : p.getArguments()) i.arguments.emplace_back(a.cStr());
  i.working_directory = p.getWorkingDirectory().cStr();
  i.end = Time(p.getEnd());
  if (p.getCrash() >= 0) i.crash = Time(static_cast<uint64_t>(p.getCrash()));
  i.fatal_signal = static_cast<int>(p.getFatalSignal());
  if (p.getExitStatus() >= 0) i.exit_status = p.getExitStatus();
  i.start_wall_ns = p.getStartWallNs();
  i.end_wall_ns = p.getEndWallNs();
  i.blocks = p.getBlocks();
  i.writes = p.getWrites();
  i.reads = p.getReads();
  i.log_bytes = p.getLogBytes();
  i.complete = p.getComplete();
  i.incomplete_reason = p.getIncompleteReason().cStr();
  MomentInfo& moment = out.moment;
  i.indexed = {Time(p.getIndexedFrom()), Time(p.getIndexedTo())};
  moment.beginning = static_cast<Beginning>(p.getBeginning());
  for (auto d : p.getDescriptors()) moment.descriptors.push_back({d.getFd(), d.getWhat().cStr()});
  for (auto t : p.getThreads()) {
    out.threads.push_back({ThreadNo(t.getNumber()), t.getOsTid(), Time(t.getStart()),
                           Time(t.getEnd()), t.getInstructions()});
    if (moment.history_unknown()) moment.threads.push_back({t.getName().cStr(), t.getSyscall()});
  }
  out.fork_time = Time(p.getForkTime());
  out.fork_blocks = p.getForkBlocks();
  out.closed = p.getClosed();
  return out;
}

}  // namespace

absl::StatusOr<RecordingInfo> ParseRecording(std::string_view value) {
  RecordingInfo out;
  absl::Status s = ReadMessage<schema::Recording>(value, "recording", [&](auto r) {
    out.store_version = r.getStoreVersion();
    for (auto a : r.getCommand()) out.command.emplace_back(a.cStr());
    out.working_directory = r.getWorkingDirectory().cStr();
    out.host = r.getHost().cStr();
    out.recorder_version = r.getRecorderVersion().cStr();
    out.start_wall_ns = r.getStartWallNs();
    out.finished = r.getFinished();
  });
  if (!s.ok()) return s;
  return out;
}

absl::StatusOr<StoredProcess> ParseProcess(std::string_view value) {
  StoredProcess out;
  absl::Status s =
      ReadMessage<schema::Process>(value, "process", [&](auto p) { out = ProcessOf(p); });
  if (!s.ok()) return s;
  return out;
}

absl::StatusOr<StoredGroup> ParseGroup(std::string_view value) {
  StoredGroup out;
  absl::Status s = ReadMessage<schema::Group>(value, "group", [&](auto g) {
    out.first_block = g.getFirstBlock();
    for (auto b : g.getBlocks()) {
      out.blocks.push_back(
          {Time(b.getEndTime()), b.getWallStartNs(), b.getWallEndNs(), b.getFlags()});
    }
    if (g.hasProcess()) out.process = ProcessOf(g.getProcess());
  });
  if (!s.ok()) return s;
  return out;
}

absl::StatusOr<Event> ParseEvent(std::string_view value) {
  Event e;
  std::string text;
  absl::Status s = ReadMessage<schema::Event>(value, "event", [&](auto r) {
    e.kind = static_cast<EventKind>(r.getKind());
    e.thread = ThreadNo(r.getThread());
    e.pc = Address(r.getPc());
    e.number = r.getNumber();
    e.result = r.getResult();
    auto args = r.getArgs();
    for (unsigned i = 0; i < args.size() && i < e.args.size(); ++i) e.args[i] = args[i];
    text = r.getText().cStr();
    auto bytes = r.getBytes();
    e.bytes.assign(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
    e.wall_ns = r.getWallNs();
  });
  if (!s.ok()) return s;
  e.detail = DetailOf(e, text);
  return e;
}

absl::StatusOr<StoredFile> ParseFile(std::string_view value) {
  StoredFile out;
  absl::Status s = ReadMessage<schema::File>(value, "file", [&](auto f) {
    out.path = f.getPath().cStr();
    out.build_id = f.getBuildId().cStr();
    out.size = f.getSize();
  });
  if (!s.ok()) return s;
  return out;
}

}  // namespace ttq

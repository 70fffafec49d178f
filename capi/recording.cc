// SPDX-License-Identifier: MIT
//
// Recordings and processes of the C API, and state at a time.

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "base/version.h"
#include "capi/error.h"
#include "capi/handles.h"
#include "capi/ttq.h"
#include "fmt/core.h"
#include "query/find_trace.h"
#include "recorder/mark.h"
#include "store/read/moment_info.h"

using ttq::Address;
using ttq::Time;
using ttq::capi::BadSize;
using ttq::capi::CopyOut;
using ttq::capi::Ending;
using ttq::capi::Guard;
using ttq::capi::InvalidArgument;
using ttq::capi::ProcessState;
using ttq::capi::RecordingState;

namespace {

// State may be asked for at the end, not after it.
Ending CheckTime(const ttq::Process& process, uint64_t time) {
  const uint64_t end = process.info().end.v;
  if (time <= end) return {};
  return Ending(TTQ_ERROR_OUT_OF_RANGE,
                fmt::format("time {} is after the end, which is {}", time, end));
}

}  // namespace

extern "C" {

const char* ttq_version(void) { return ttq::kVersion; }

void ttq_mark(const char* text) { TTQ_MARK(text); }

ttq_status ttq_open(const char* name, ttq_recording** recording) {
  return Guard([&]() -> Ending {
    if (!recording) return InvalidArgument("ttq_open: nowhere to put the recording");
    *recording = nullptr;
    ASSIGN_OR_RETURN(std::unique_ptr<ttq::Recording> opened, ttq::OpenRecording(name ? name : ""));
    auto state = std::make_shared<RecordingState>();
    state->recording = std::move(opened);
    for (const std::string& a : state->recording->info().command) {
      state->arguments.push_back(a.c_str());
    }
    *recording = new ttq_recording{std::move(state)};
    return {};
  });
}

void ttq_close(ttq_recording* recording) { delete recording; }

ttq_status ttq_describe_recording(ttq_recording* recording, ttq_recording_info* info) {
  return Guard([&]() -> Ending {
    if (!recording || !info) return InvalidArgument("ttq_describe_recording: an argument is NULL");
    const ttq::Recording& r = *recording->state->recording;
    const ttq::RecordingInfo& known = r.info();
    ttq_recording_info out = {};
    out.path = known.path.c_str();
    out.name = known.name.c_str();
    out.working_directory = known.working_directory.c_str();
    out.host = known.host.c_str();
    out.store_version = known.store_version;
    out.default_process = r.default_process().v;
    out.process_count = r.processes().size();
    out.argument_count = recording->state->arguments.size();
    out.arguments = recording->state->arguments.data();
    out.start_wall_ns = known.start_wall_ns;
    out.finished = known.finished;
    return CopyOut(out, info) ? Ending() : BadSize();
  });
}

ttq_status ttq_describe_process(ttq_recording* recording, size_t index, ttq_process_info* info) {
  return Guard([&]() -> Ending {
    if (!recording || !info) return InvalidArgument("ttq_describe_process: an argument is NULL");
    const auto& processes = recording->state->recording->processes();
    if (index >= processes.size()) {
      return InvalidArgument(
          fmt::format("ttq_describe_process: there are {} processes, and {} is "
                      "not the index of one",
                      processes.size(), index));
    }
    const ttq::ProcessInfo& known = processes[index];
    ttq_process_info out = {};
    out.number = known.number.v;
    out.parent = known.parent.v;
    out.pid = known.pid;
    out.by_exec = known.by_exec;
    out.program = known.program.c_str();
    out.end = known.end.v;
    out.has_crash = known.crash.has_value();
    out.crash = known.crash.value_or(Time(0)).v;
    out.fatal_signal = known.fatal_signal;
    out.has_exit_status = known.exit_status.has_value();
    out.exit_status = known.exit_status.value_or(0);
    out.start_wall_ns = known.start_wall_ns;
    out.end_wall_ns = known.end_wall_ns;
    out.complete = known.complete;
    out.incomplete_reason = known.incomplete_reason.c_str();
    ASSIGN_OR_RETURN(const ttq::Process* process, recording->state->recording->Open(known.number));
    out.history_unknown = ttq::HistoryUnknown(*process);
    return CopyOut(out, info) ? Ending() : BadSize();
  });
}

ttq_status ttq_process_open(ttq_recording* recording, uint32_t number, ttq_process** process) {
  return Guard([&]() -> Ending {
    if (!process) return InvalidArgument("ttq_process_open: nowhere to put the process");
    *process = nullptr;
    if (!recording) return InvalidArgument("ttq_process_open: the recording is NULL");
    std::optional<ttq::ProcessNo> wanted;
    if (number != 0) wanted = ttq::ProcessNo(number);
    auto state = std::make_shared<ProcessState>();
    state->recording = recording->state;
    ASSIGN_OR_RETURN(state->engine, ttq::Engine::Open(recording->state->recording.get(), wanted));
    *process = new ttq_process{std::move(state)};
    return {};
  });
}

void ttq_process_close(ttq_process* process) { delete process; }

uint32_t ttq_process_number(const ttq_process* process) {
  return process ? process->state->engine->process().info().number.v : 0;
}

ttq_status ttq_memory(ttq_process* process, uint64_t address, uint64_t size, uint64_t time,
                      uint8_t* bytes, uint8_t* known) {
  return Guard([&]() -> Ending {
    if (!process) return InvalidArgument("ttq_memory: the process is NULL");
    if (!bytes && size > 0) return InvalidArgument("ttq_memory: nowhere to put the bytes");
    const ttq::Process& p = process->state->engine->process();
    if (Ending bad = CheckTime(p, time); bad.code() != TTQ_OK) return bad;
    if (size > 0 && size - 1 > ~uint64_t{0} - address) {
      return Ending(TTQ_ERROR_OUT_OF_RANGE, "the range goes beyond the end of the address space");
    }
    if (size == 0) return {};
    absl::StatusOr<ttq::MemoryImage> image = p.Memory(Address(address), size, Time(time));
    if (!image.ok()) {
      return absl::IsInvalidArgument(image.status())
                 ? InvalidArgument(std::string(image.status().message()))
                 : Ending(image.status());
    }
    std::copy(image->bytes.begin(), image->bytes.end(), bytes);
    for (uint64_t i = 0; i < size; ++i) {
      if (!image->present[i]) bytes[i] = 0;
      if (known) known[i] = image->present[i];
    }
    return {};
  });
}

ttq_status ttq_registers(ttq_process* process, uint64_t time, uint32_t thread,
                         ttq_register_values* values) {
  return Guard([&]() -> Ending {
    if (!process || !values) return InvalidArgument("ttq_registers: an argument is NULL");
    const ttq::Process& p = process->state->engine->process();
    if (Ending bad = CheckTime(p, time); bad.code() != TTQ_OK) return bad;
    ttq::ThreadNo number(thread);
    if (thread == 0) {
      ASSIGN_OR_RETURN(number, p.ThreadAt(Time(time)));
    }
    ASSIGN_OR_RETURN(ttq::Registers registers, p.RegistersAt(Time(time), number));
    ttq_register_values out = {};
    out.pc = registers.pc.v;
    static_assert(int{TTQ_REGISTER_COUNT} == int{ttq::kGprCount});
    std::copy(std::begin(registers.gpr), std::end(registers.gpr), out.general);
    out.thread = number.v;
    return CopyOut(out, values) ? Ending() : BadSize();
  });
}

const char* ttq_register_name(size_t index) {
  return index < ttq::kGprCount ? ttq::GprName(static_cast<ttq::Gpr>(index)) : nullptr;
}

ttq_status ttq_wall_clock(ttq_process* process, uint64_t time, int64_t* wall_ns) {
  return Guard([&]() -> Ending {
    if (!process || !wall_ns) return InvalidArgument("ttq_wall_clock: an argument is NULL");
    const ttq::Process& p = process->state->engine->process();
    if (Ending bad = CheckTime(p, time); bad.code() != TTQ_OK) return bad;
    *wall_ns = p.WallClock(Time(time));
    return {};
  });
}

}  // extern "C"

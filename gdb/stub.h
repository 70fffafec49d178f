// SPDX-License-Identifier: MIT
//
// A stub for gdb's remote protocol (gdb's manual, "Remote Protocol"): packets in, packets out. It
// reads the recording and changes nothing: what would write memory or registers, or call a
// function of the program, is refused. One client each; belongs to one thread.

#ifndef TTQ_GDB_STUB_H_
#define TTQ_GDB_STUB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "gdb/files.h"
#include "gdb/packet.h"
#include "gdb/timeline.h"
#include "query/engine/engine.h"
#include "store/read/reader.h"

namespace ttq::gdb {

class Stub {
 public:
  // Sends the payload of a packet, ahead of the answer.
  using Send = std::function<void(std::string_view payload)>;

  // Stands at the crash of the engine's process, or at its beginning. Both must outlive this
  // object.
  static absl::StatusOr<std::unique_ptr<Stub>> Create(const Recording* recording,
                                                      const Engine* engine);

  // The answer to a packet; empty for one that is not offered, as the protocol has it. `control`
  // interrupts what takes long.
  std::string Answer(std::string_view packet, ScanControl* control, const Send& send);

  // The client wants no acknowledgements; it is about to leave. Both are said by the last answer.
  bool no_acknowledgements() const { return no_acknowledgements_; }
  bool done() const { return done_; }

 private:
  // Which threads a packet means.
  struct ThreadId {
    enum { kAll, kAny, kOne } kind = kAll;
    ThreadNo thread;
  };

  Stub(const Recording* recording, const Engine* engine, std::unique_ptr<Timeline> timeline)
      : recording_(*recording),
        engine_(*engine),
        timeline_(std::move(timeline)),
        files_(recording, timeline_.get()) {}

  std::string AnswerQuery(std::string_view packet, ScanControl* control, const Send& send);
  std::string AnswerSet(std::string_view packet);
  std::string AnswerV(std::string_view packet, ScanControl* control);
  std::string AnswerOfLldb(std::string_view packet);

  std::string StopReply() const;
  std::string StopReply(int signal) const;  // by gdb's number
  std::string StopReason() const;
  std::string Supported(std::string_view packet);
  std::string SetThread(Fields fields);
  std::string ThreadList();
  std::string AllRegisters(std::optional<ThreadNo> thread);
  std::string OneRegister(Fields fields);
  std::string ReadMemory(Fields fields, bool binary);
  std::string SearchMemory(Fields fields);
  std::string MemoryRegion(Fields fields);
  std::string ThreadLocal(Fields fields);
  std::string Transfer(std::string_view packet);
  absl::StatusOr<std::string> Document(std::string_view object, std::string_view annex);
  std::string SignalInformation();
  std::string ChangePoint(Fields fields, bool insert);
  std::string Continue(std::string_view actions, ScanControl* control);
  std::string Go(const Resume& resume, ScanControl* control);

  // `monitor …`
  std::string Monitor(std::string_view hex, ScanControl* control, const Send& send);
  std::string MonitorText(const std::string& command, ScanControl* control);
  std::string Ask(const std::string& query, ScanControl* control);
  std::string When();
  absl::StatusOr<Time> TimeOf(const std::string& text, ScanControl* control);

  ThreadId ParseThread(Fields* fields) const;
  std::string IdOf(ThreadNo thread) const;
  uint32_t TidOf(ThreadNo thread) const;
  uint32_t Pid() const;

  const Recording& recording_;
  const Engine& engine_;
  const std::unique_ptr<Timeline> timeline_;
  Files files_;
  ThreadNo selected_;         // of H g; 0: the one that stopped
  ThreadNo selected_to_run_;  // of H c
  std::optional<Time> jump_;  // where the next step goes
  bool multiprocess_ = false;
  bool thread_suffix_ = false;
  bool no_acknowledgements_ = false;
  bool done_ = false;
};

// Linux's number of a signal as the protocol counts them, and back; 143 (unknown) and 0 for none.
int GdbSignal(int linux_number);
int LinuxSignal(int gdb_number);

}  // namespace ttq::gdb

#endif  // TTQ_GDB_STUB_H_

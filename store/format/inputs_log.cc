// SPDX-License-Identifier: MIT

#include "store/format/inputs_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/directory.h"
#include "base/file_image.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "store/format/inputs_frame.h"
#include "store/format/records.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;

std::string_view AsText(absl::Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// TtqInputs at the start of a payload.
absl::Status TakeHead(std::string_view payload, TtqInputs* head) {
  if (payload.size() < sizeof(*head)) return absl::DataLossError("is damaged");
  memcpy(head, payload.data(), sizeof(*head));
  if (head->magic == TTQ_INPUTS_MAGIC && head->stream_version == kTtqStreamVersion) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      fmt::format("is of stream version {}, this ttq runs version {} again", head->stream_version,
                  static_cast<int>(kTtqStreamVersion)));
}

absl::Status TakeAll(std::string_view bytes, RecordedInputs* out) {
  InputsFrameReader frames(bytes);
  for (uint32_t number = 0;; ++number) {
    ASSIGN_OR_RETURN(const std::optional<InputsFrameReader::Frame> frame, frames.Next());
    if (!frame) break;
    const InputsFrame kind = frame->kind;
    if (frame->number != number || (kind == InputsFrame::kBegin) != (number == 0) ||
        out->has_ended) {
      return absl::DataLossError("is damaged");
    }
    if (kind == InputsFrame::kLog) {  // there may be much of it: ForEachLogBlock has it
      if (out->log_at == 0) out->log_at = frame->at;
      out->log_bytes += frame->bytes;
      continue;
    }
    ASSIGN_OR_RETURN(const std::string payload, frames.Payload(*frame));
    switch (kind) {
      case InputsFrame::kBegin:
        RETURN_IF_ERROR(TakeHead(payload, &out->file.head));
        out->file.arguments = payload.substr(sizeof(TtqInputs));
        break;
      case InputsFrame::kBlock:
      case InputsFrame::kBlockSoFar:
        if (out->log_at != 0) return absl::DataLossError("is damaged");
        RETURN_IF_ERROR(out->file.AddBlock(payload, kind == InputsFrame::kBlock));
        break;
      case InputsFrame::kLogBecause:
        out->log_because = payload;
        break;
      case InputsFrame::kIncomplete:
        out->incomplete = payload;
        break;
      case InputsFrame::kEnd:
        RETURN_IF_ERROR(TakeHead(payload, &out->file.head));
        out->has_ended = true;
        break;
      default:
        return absl::DataLossError("is damaged");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<BlockView> ParseLogBlock(std::string_view payload) {
  BlockView out;
  if (payload.size() < sizeof(out.head)) return absl::DataLossError("is damaged");
  memcpy(&out.head, payload.data(), sizeof(out.head));
  payload.remove_prefix(sizeof(out.head));
  if (payload.size() != uint64_t{out.head.log_bytes} + out.head.recipe_bytes) {
    return absl::DataLossError("is damaged");
  }
  out.log = payload.substr(0, out.head.log_bytes);
  out.recipes = payload.substr(out.head.log_bytes);
  return out;
}

absl::Status NameFile(const absl::Status& s, const std::string& path) {
  return absl::Status(s.code(), fmt::format("{} {}", path, std::string(s.message())));
}

}  // namespace

std::string InputsDirectory(const std::string& directory) { return directory + "/inputs"; }

std::string InputsRecordPath(const std::string& directory) {
  return InputsDirectory(directory) + "/recording";
}

std::string InputsPath(const std::string& directory, ProcessNo process) {
  return fmt::format("{}/{}", InputsDirectory(directory), process.v);
}

bool HasInputs(const std::string& directory) {
  std::error_code ec;
  return fs::exists(InputsRecordPath(directory), ec);
}

bool HoldsInputsOnly(const std::string& directory) {
  std::error_code ec;
  return HasInputs(directory) && !fs::exists(directory + "/db", ec);
}

std::string PartialPath(const std::string& directory) { return directory + "/partial"; }

bool HistoryIsPartial(const std::string& directory) {
  std::error_code ec;
  return fs::exists(PartialPath(directory), ec) && fs::exists(directory + "/db", ec);
}

std::string SoFarPath(const std::string& directory) { return directory + "/so-far"; }

bool HistoryIsBehind(const std::string& directory) {
  std::ifstream in(SoFarPath(directory));
  uint64_t bytes = 0;
  if (!in.is_open()) return false;
  const absl::StatusOr<InputsSummary> inputs = SummariseInputs(directory);
  return inputs.ok() && !(in >> bytes && inputs->being_recorded && inputs->bytes == bytes);
}

void ForEachInput(std::string_view records,
                  const std::function<void(const TtqInput&, std::string_view payload)>& f) {
  while (records.size() >= sizeof(TtqInput)) {
    TtqInput input;
    memcpy(&input, records.data(), sizeof(input));
    f(input, records.substr(sizeof(input), input.bytes));
    records.remove_prefix(std::min<size_t>(BytesOfInput(input), records.size()));
  }
}

void ForEachMappedFile(std::string_view records,
                       const std::function<void(const TtqMap&, const std::string&)>& f) {
  ForEachInput(records, [&f](const TtqInput& input, std::string_view payload) {
    TtqMap map;
    if (input.kind != kTtqMap || payload.size() <= sizeof(map)) return;
    memcpy(&map, payload.data(), sizeof(map));
    const std::string path(payload.substr(sizeof(map)));
    const bool is_program = map.content == kTtqContentZero && input.block == 0;
    if (map.kind == kTtqMapFile && path[0] == '/' &&
        (map.content == kTtqContentFile || is_program)) {
      f(map, path);
    }
  });
}

std::string CopyName(const TtqMap& map) {
  return fmt::format("{:x}-{:x}-{:x}-{:x}", uint64_t{map.dev}, uint64_t{map.ino},
                     uint64_t{map.file_bytes}, static_cast<uint64_t>(map.mtime_ns));
}

std::string CopiesDirectory(const std::string& directory) {
  return InputsDirectory(directory) + "/files";
}

int OpenUnchanged(const TtqMap& map, const std::string& path) {
  // It may be a pipe by now, for which nobody should wait.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat st;
  if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_dev == map.dev &&
      st.st_ino == map.ino && static_cast<uint64_t>(st.st_size) == map.file_bytes &&
      st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec == map.mtime_ns) {
    return fd;
  }
  if (fd >= 0) close(fd);
  return -1;
}

bool IsRecordingInputs(const std::string& directory) {
  return DirectoryLock::IsHeld(InputsDirectory(directory));
}

absl::StatusOr<InputsSummary> SummariseInputs(const std::string& directory) {
  InputsSummary out;
  ASSIGN_OR_RETURN(const FileImage image, FileImage::Read(InputsRecordPath(directory)));
  ASSIGN_OR_RETURN(out.info, ParseRecording(AsText(image.bytes())));
  ASSIGN_OR_RETURN(const std::vector<ProcessNo> processes, ListInputs(directory));
  out.processes = static_cast<uint32_t>(processes.size());
  out.bytes = BytesUnder(InputsDirectory(directory));
  out.being_recorded = !out.info.finished && IsRecordingInputs(directory);
  return out;
}

absl::StatusOr<RecordedInputs> ReadInputs(const std::string& path) {
  ASSIGN_OR_RETURN(const FileImage image, FileImage::Map(path));
  RecordedInputs out;
  absl::Status s = TakeAll(AsText(image.bytes()), &out);
  if (s.ok() && out.file.head.magic == 0) s = absl::OutOfRangeError("holds no whole frame");
  if (!s.ok()) return NameFile(s, path);
  return out;
}

bool BeginsWithLog(const RecordedInputs& inputs) {
  const TtqInputs& head = inputs.file.head;
  return head.fork_number != 0 && head.log_follows != 0 && inputs.file.blocks.empty();
}

absl::Status ForEachLogBlock(const std::string& path, const RecordedInputs& inputs,
                             const std::function<absl::Status(const BlockView& block)>& f) {
  if (inputs.log_at == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const FileImage image, FileImage::Map(path));
  std::string_view rest = AsText(image.bytes());
  rest.remove_prefix(std::min<uint64_t>(inputs.log_at, rest.size()));
  InputsFrameReader frames(rest);
  for (;;) {
    const auto frame = frames.Next();
    if (!frame.ok()) return NameFile(frame.status(), path);
    if (!*frame || (*frame)->kind != InputsFrame::kLog) break;
    const auto payload = frames.Payload(**frame);
    if (!payload.ok()) return NameFile(payload.status(), path);
    const auto block = ParseLogBlock(*payload);
    if (!block.ok()) return NameFile(block.status(), path);
    RETURN_IF_ERROR(f(*block));
  }
  return absl::OkStatus();
}

std::string WhatIsMissing(const RecordedInputs& inputs, const InputsSummary& summary) {
  if (inputs.has_ended) return inputs.incomplete;
  if (summary.being_recorded) return kBeingRecorded;
  return "the recorder was killed or failed; what came after that is not recorded";
}

absl::StatusOr<std::vector<ProcessInfo>> DescribeInputs(const std::string& directory,
                                                        const InputsSummary& summary) {
  ASSIGN_OR_RETURN(const std::vector<ProcessNo> processes, ListInputs(directory));
  std::vector<ProcessInfo> all;
  for (const ProcessNo process : processes) {
    ProcessInfo& info = all.emplace_back();
    info.number = process;
    const absl::StatusOr<RecordedInputs> inputs = ReadInputs(InputsPath(directory, process));
    if (!absl::IsOutOfRange(inputs.status())) RETURN_IF_ERROR(inputs.status());
    info.incomplete_reason = WhatIsMissing(inputs.ok() ? *inputs : RecordedInputs(), summary);
    info.complete = info.incomplete_reason.empty();
    if (!inputs.ok()) continue;
    const TtqInputs& head = inputs->file.head;
    info.parent = ProcessNo(head.parent);
    info.by_exec = head.parent != 0 && head.fork_number == 0;
    info.pid = head.pid;
    info.fatal_signal = static_cast<int>(head.fatal_signal);
    if (head.exit_status != 0 && head.fatal_signal == 0) {
      info.exit_status = static_cast<int>(head.exit_status) - 1;
    }
    info.start_wall_ns = head.start_wall_ns;
    info.log_bytes = inputs->log_bytes;
    for (const TtqInputsBlock& block : inputs->file.blocks) info.log_bytes += block.log_bytes;
    const std::vector<std::string> words = inputs->file.Words();
    if (words.size() < 2) continue;
    info.program = words[0];
    info.working_directory = words[1];
    info.arguments.assign(words.begin() + 2, words.end());
  }
  return all;
}

std::string EncodeLogBlock(const BlockView& block) {
  std::string out(reinterpret_cast<const char*>(&block.head), sizeof(block.head));
  out += block.log;
  out += block.recipes;
  return out;
}

absl::StatusOr<std::vector<ProcessNo>> ListInputs(const std::string& directory) {
  std::vector<ProcessNo> out;
  std::error_code ec;
  for (auto it = fs::directory_iterator(InputsDirectory(directory), ec);
       !ec && it != fs::directory_iterator(); it.increment(ec)) {
    const std::string name = it->path().filename();
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && end == name.data() + name.size()) out.emplace_back(number);
  }
  if (ec) {
    return absl::UnavailableError(fmt::format("{}: {}", InputsDirectory(directory), ec.message()));
  }
  std::sort(out.begin(), out.end(), [](ProcessNo a, ProcessNo b) { return a.v < b.v; });
  return out;
}

}  // namespace ttq

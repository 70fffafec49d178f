// SPDX-License-Identifier: MIT

#include "store/format/inputs_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "absl/status/status.h"
#include "base/file_image.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "store/format/records.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;

struct FrameHead {
  uint32_t kind, number;
  uint32_t bytes, stored_bytes;  // equal: not compressed
  uint64_t hash;                 // of the payload; of a head without it: see HashOf
};

constexpr size_t kMaxFrameBytes = size_t{1} << 30;
constexpr int kFrameLevel = 3;  // of zstd

// Of the numbers too, that no frame is taken for another.
uint64_t HashOf(const FrameHead& head, std::string_view payload) {
  const uint64_t numbers[] = {head.kind, head.number, HashBytes(payload.data(), payload.size())};
  return HashBytes(numbers, sizeof(numbers));
}

std::string_view AsText(absl::Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The next frame's payload, which is taken off `rest`; nullopt: it is cut off.
absl::StatusOr<std::optional<std::string>> TakeFrame(std::string_view* rest, FrameHead* head) {
  if (rest->size() < sizeof(*head)) return std::nullopt;
  memcpy(head, rest->data(), sizeof(*head));
  if (head->bytes > kMaxFrameBytes || head->stored_bytes > head->bytes) {
    return absl::DataLossError("is damaged");
  }
  if (rest->size() - sizeof(*head) < head->stored_bytes) return std::nullopt;
  const std::string_view stored = rest->substr(sizeof(*head), head->stored_bytes);
  std::string payload(stored);
  if (head->stored_bytes < head->bytes) {
    if (ZSTD_getFrameContentSize(stored.data(), stored.size()) != head->bytes) {
      return absl::DataLossError("is damaged");
    }
    payload.resize(head->bytes);
    const size_t n = ZSTD_decompress(payload.data(), payload.size(), stored.data(), stored.size());
    if (n != head->bytes) return absl::DataLossError("is damaged");
  }
  if (HashOf(*head, payload) != head->hash) return absl::DataLossError("is damaged");
  rest->remove_prefix(sizeof(*head) + stored.size());
  return payload;
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
  for (uint32_t number = 0;; ++number) {
    FrameHead head;
    ASSIGN_OR_RETURN(const std::optional<std::string> payload, TakeFrame(&bytes, &head));
    if (!payload) break;
    const auto kind = static_cast<InputsFrame>(head.kind);
    if (head.number != number || (kind == InputsFrame::kBegin) != (number == 0) || out->has_ended) {
      return absl::DataLossError("is damaged");
    }
    switch (kind) {
      case InputsFrame::kBegin:
        RETURN_IF_ERROR(TakeHead(*payload, &out->file.head));
        out->file.arguments = payload->substr(sizeof(TtqInputs));
        break;
      case InputsFrame::kBlock:
        RETURN_IF_ERROR(out->file.AddBlock(*payload));
        break;
      case InputsFrame::kNotAgain:
        out->not_again = *payload;
        break;
      case InputsFrame::kEnd:
        RETURN_IF_ERROR(TakeHead(*payload, &out->file.head));
        out->has_ended = true;
        break;
      default:
        return absl::DataLossError("is damaged");
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeInputsFrame(InputsFrame kind, uint32_t number, std::string_view payload) {
  FrameHead head = {static_cast<uint32_t>(kind), number, static_cast<uint32_t>(payload.size()),
                    static_cast<uint32_t>(payload.size()), 0};
  head.hash = HashOf(head, payload);
  std::string stored(ZSTD_compressBound(payload.size()), '\0');
  const size_t n =
      ZSTD_compress(stored.data(), stored.size(), payload.data(), payload.size(), kFrameLevel);
  if (ZSTD_isError(n) || n >= payload.size()) {
    stored = payload;
  } else {
    stored.resize(n);
  }
  head.stored_bytes = static_cast<uint32_t>(stored.size());
  return std::string(reinterpret_cast<const char*>(&head), sizeof(head)) + stored;
}

std::string InputsDirectory(const std::string& directory) { return directory + "/inputs"; }

std::string InputsRecordPath(const std::string& directory) {
  return InputsDirectory(directory) + "/recording";
}

std::string InputsPath(const std::string& directory, ProcessNo process) {
  return fmt::format("{}/{}", InputsDirectory(directory), process.v);
}

bool HoldsInputsOnly(const std::string& directory) {
  std::error_code ec;
  return fs::exists(InputsRecordPath(directory), ec) && !fs::exists(directory + "/db", ec);
}

std::string PartialPath(const std::string& directory) { return directory + "/partial"; }

bool HistoryIsPartial(const std::string& directory) {
  std::error_code ec;
  return fs::exists(PartialPath(directory), ec) && fs::exists(directory + "/db", ec);
}

void ForEachMappedFile(std::string_view records,
                       const std::function<void(const TtqMap&, const std::string&)>& f) {
  while (records.size() >= sizeof(TtqInput)) {
    TtqInput input;
    memcpy(&input, records.data(), sizeof(input));
    const std::string_view payload = records.substr(sizeof(input), input.bytes);
    records.remove_prefix(std::min<size_t>(BytesOfInput(input), records.size()));
    TtqMap map;
    if (input.kind != kTtqMap || payload.size() <= sizeof(map)) continue;
    memcpy(&map, payload.data(), sizeof(map));
    const std::string path(payload.substr(sizeof(map)));
    const bool is_program = map.content == kTtqContentZero && input.block == 0;
    if (map.kind == kTtqMapFile && path[0] == '/' &&
        (map.content == kTtqContentFile || is_program)) {
      f(map, path);
    }
  }
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

InputsLock::InputsLock(const std::string& directory, bool wait)
    : fd_(open(InputsDirectory(directory).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (fd_ < 0) return;
  int r;
  do {
    r = flock(fd_, wait ? LOCK_EX : LOCK_EX | LOCK_NB);
  } while (r != 0 && errno == EINTR);
  held_ = r == 0;
}

InputsLock::~InputsLock() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<InputsSummary> SummariseInputs(const std::string& directory) {
  InputsSummary out;
  ASSIGN_OR_RETURN(const FileImage image, FileImage::Read(InputsRecordPath(directory)));
  ASSIGN_OR_RETURN(out.info, ParseRecording(AsText(image.bytes())));
  ASSIGN_OR_RETURN(const std::vector<ProcessNo> processes, ListInputs(directory));
  out.processes = static_cast<uint32_t>(processes.size());
  std::error_code ec;
  for (auto it = fs::recursive_directory_iterator(InputsDirectory(directory), ec);
       !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored)) out.bytes += it->file_size(ignored);
  }
  out.being_recorded = !out.info.finished && !InputsLock(directory, false).held();
  return out;
}

absl::StatusOr<RecordedInputs> ReadInputs(const std::string& path) {
  ASSIGN_OR_RETURN(const FileImage image, FileImage::Read(path));
  RecordedInputs out;
  absl::Status s = TakeAll(AsText(image.bytes()), &out);
  if (s.ok() && out.file.head.magic == 0) s = absl::DataLossError("is cut off");
  if (s.ok()) return out;
  return absl::Status(s.code(), fmt::format("{} {}", path, std::string(s.message())));
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

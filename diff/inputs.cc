// SPDX-License-Identifier: MIT

#include "diff/inputs.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/answers/format.h"

namespace ttq::diff {
namespace {

constexpr size_t kMaxStrings = 4096;
constexpr uint32_t kMaxText = 1 << 17;      // bytes of one argument or variable
constexpr uint32_t kMaxCompared = 1 << 16;  // bytes of one read that Different compares
constexpr size_t kMaxCalls = 1 << 20;
constexpr size_t kShown = 60;
constexpr int kMaxAncestors = 16;

std::string Shortened(std::string text) {
  if (text.size() <= kShown) return text;
  return text.substr(0, kShown) + "…";
}

uint64_t NumberAt(std::string_view bytes, size_t at, size_t size = 8) {
  uint64_t v = 0;
  if (at + size <= bytes.size()) memcpy(&v, bytes.data() + at, size);
  return v;
}

bool IsRandomDevice(const std::string& path) {
  return path == "/dev/urandom" || path == "/dev/random";
}

bool IsClock(const std::string& name) {
  for (const char* one : {"clock_gettime", "gettimeofday", "time", "times", "getrusage"}) {
    if (name == one) return true;
  }
  return false;
}

bool IsProcessNumber(const std::string& name) {
  for (const char* one : {"getpid", "gettid", "getppid", "getpgrp", "getpgid", "getsid",
                          "set_tid_address", "fork", "vfork", "clone", "clone3", "wait4"}) {
    if (name == one) return true;
  }
  return false;
}

bool IsStatus(const std::string& name) {
  for (const char* one : {"stat", "lstat", "fstat", "newfstatat", "statx"}) {
    if (name == one) return true;
  }
  return false;
}

// Which argument of a call is a path, and which the descriptor it is relative to or about.
struct Names {
  int path = -1, descriptor = -1;
};
Names NamesOf(const std::string& name) {
  for (const char* one : {"open", "stat", "lstat", "access", "readlink", "creat"}) {
    if (name == one) return {0, -1};
  }
  for (const char* one : {"openat", "openat2", "newfstatat", "statx", "faccessat", "readlinkat"}) {
    if (name == one) return {1, 0};
  }
  for (const char* one : {"read", "pread64", "readv", "preadv", "recvfrom", "recvmsg", "fstat",
                          "getdents64", "getdents", "lseek", "ioctl"}) {
    if (name == one) return {-1, 0};
  }
  return {};
}

std::string SecondsText(int64_t seconds, int64_t nanoseconds) {
  return fmt::format("{}.{:09}", seconds, nanoseconds);
}

}  // namespace

const char* InputKindName(InputKind kind) {
  switch (kind) {
    case InputKind::kEnvironment:
      return "environment variable";
    case InputKind::kArgument:
      return "argument";
    case InputKind::kFile:
      return "file";
    case InputKind::kDirectory:
      return "directory";
    case InputKind::kStatus:
      return "file status";
    case InputKind::kRandom:
      return "random bytes";
    case InputKind::kTime:
      return "time";
    case InputKind::kProcess:
      return "process number";
    case InputKind::kKernel:
      return "system call";
    case InputKind::kMachine:
      return "machine";
    case InputKind::kUninitialized:
      return "uninitialised memory";
    case InputKind::kThreads:
      return "order of threads";
  }
  return "";
}

// ---- What a program starts with -----------------------------------------------------------------

absl::StatusOr<const Inputs::Start*> Inputs::StartOf(int side) {
  std::optional<Start>& start = starts_[side];
  if (start) return &*start;
  start.emplace();
  Side& s = *sides_[side];
  // What lies there at the start of this process: of a forked one, what its parent left there.
  uint64_t at = s.initial_stack().v;
  const auto word = [&]() -> std::optional<uint64_t> {
    const std::string bytes = s.Memory(Address(at), 8, Time(0));
    at += 8;
    if (bytes.size() < 8) return std::nullopt;
    return NumberAt(bytes, 0);
  };
  const auto strings = [&](std::vector<Text>* out) {
    for (;;) {
      const std::optional<uint64_t> pointer = word();
      if (!pointer || *pointer == 0 || out->size() == kMaxStrings) return pointer.has_value();
      std::string text;
      while (text.size() < kMaxText) {
        const std::string more = s.Memory(Address(*pointer + text.size()),
                                          4096 - (*pointer + text.size()) % 4096, Time(0));
        const size_t nul = more.find('\0');
        text += more.substr(0, nul);
        if (more.empty() || nul != std::string::npos) break;
      }
      out->push_back({Address(*pointer), std::move(text)});
    }
  };
  const std::optional<uint64_t> count = word();
  if (!count || *count > kMaxStrings || !strings(&start->arguments) ||
      !strings(&start->environment)) {
    return &*start;
  }
  constexpr uint64_t kAuxRandom = 25;
  for (int i = 0; i < 64; ++i) {
    const std::optional<uint64_t> type = word(), value = word();
    if (!type || !value || *type == 0) break;
    if (*type == kAuxRandom) start->random = Address(*value);
  }
  return &*start;
}

absl::StatusOr<Input> Inputs::Variable(const std::string& name) {
  Input input;
  input.kind = InputKind::kEnvironment;
  input.name = name;
  std::array<bool, 2> there{};
  for (int i : {0, 1}) {
    ASSIGN_OR_RETURN(const auto start, StartOf(i));
    for (const Text& t : start->environment) {
      if (!absl::StartsWith(t.text, name + "=")) continue;
      input.value[i] = t.text;
      there[i] = true;
      break;
    }
  }
  if (there[0] && there[1]) {
    input.text = input.value[0] == input.value[1]
                     ? Shortened(input.value[0])
                     : Shortened(input.value[0]) + " | " + Shortened(input.value[1]);
  } else if (there[0] || there[1]) {
    input.text =
        Shortened(input.value[there[0] ? 0 : 1]) + (there[0] ? ", only in A" : ", only in B");
  }
  return input;
}

absl::StatusOr<std::optional<Input>> Inputs::OfFirstContents(std::array<Address, 2> at,
                                                             std::array<Time, 2> t) {
  std::array<const Start*, 2> starts{};
  // Which of the strings; counted through arguments and environment.
  std::array<std::optional<size_t>, 2> which;
  std::array<bool, 2> random{};
  for (int i : {0, 1}) {
    ASSIGN_OR_RETURN(starts[i], StartOf(i));
    const auto holds = [&](const Text& text) {
      return at[i] >= text.at && at[i].v <= text.at.v + text.text.size();
    };
    const size_t arguments = starts[i]->arguments.size();
    for (size_t k = 0; k < arguments; ++k) {
      if (holds(starts[i]->arguments[k])) which[i] = k;
    }
    for (size_t k = 0; k < starts[i]->environment.size(); ++k) {
      if (holds(starts[i]->environment[k])) which[i] = arguments + k;
    }
    random[i] = starts[i]->random.v != 0 && at[i] >= starts[i]->random &&
                at[i].v < starts[i]->random.v + 16;
  }
  Input input;
  if (random[0] && random[1]) {
    input.kind = InputKind::kRandom;
    input.name = "AT_RANDOM";
    input.text = "the kernel's 16 random bytes (AT_RANDOM)";
    return std::optional(input);
  }
  const auto name_of = [&](int i) -> std::string {
    const size_t k = *which[i] - starts[i]->arguments.size();
    const std::string& text = starts[i]->environment[k].text;
    return text.substr(0, text.find('='));
  };
  const auto is_variable = [&](int i) {
    return which[i] && *which[i] >= starts[i]->arguments.size();
  };
  if (is_variable(0) && is_variable(1)) {
    const std::string a = name_of(0), b = name_of(1);
    ASSIGN_OR_RETURN(auto x, Variable(a));
    ASSIGN_OR_RETURN(auto y, Variable(b));
    // Of two variables that were taken for each other, the one that the other run lacks.
    if (a == b || x.value[1].empty() || !y.value[0].empty()) return std::optional(std::move(x));
    return std::optional(std::move(y));
  }
  if (which[0] && which[1] && !is_variable(0) && !is_variable(1)) {
    input.kind = InputKind::kArgument;
    input.name = absl::StrCat(*which[0]);
    for (int i : {0, 1}) input.value[i] = starts[i]->arguments[*which[i]].text;
    if (*which[0] == *which[1]) {
      input.text = fmt::format("{}: \"{}\" | \"{}\"", *which[0], Shortened(input.value[0]),
                               Shortened(input.value[1]));
    } else {
      input.text = fmt::format("{}: \"{}\" | {}: \"{}\"", *which[0], Shortened(input.value[0]),
                               *which[1], Shortened(input.value[1]));
    }
    return std::optional(input);
  }
  if (which[0] || which[1]) return std::optional<Input>();
  // A mapped file.
  std::array<const Mapping*, 2> mapping{};
  std::array<std::vector<Mapping>, 2> all;
  for (int i : {0, 1}) {
    ASSIGN_OR_RETURN(all[i], sides_[i]->process().MappingsAt(t[i]));
    for (const Mapping& m : all[i]) {
      if (m.range.Contains(at[i]) && !m.path.empty() && m.path[0] != '[') mapping[i] = &m;
    }
    if (mapping[i] == nullptr) return std::optional<Input>();
  }
  std::array<Read, 2> read;
  std::array<uint64_t, 2> offset{};
  for (int i : {0, 1}) {
    const Mapping& m = *mapping[i];
    offset[i] = at[i].v - m.range.begin.v + m.file_offset;
    read[i] = {t[i], m.range.begin, m.path, m.file_offset, m.range.size()};
  }
  // Other bytes of one file: what differs is the place.
  if (read[0].path == read[1].path && offset[0] != offset[1]) return std::optional<Input>();
  return std::optional(FileBytes({&read[0], &read[1]}, offset));
}

// ---- Files and system calls ---------------------------------------------------------------------

// Which file each descriptor is of, call by call.
absl::Status Inputs::Follow(const Recording& recording, const Process& process, Time until,
                            absl::flat_hash_map<int64_t, Open>* open, Files* files, int depth) {
  const ProcessInfo& info = process.info();
  if (info.parent.v != 0 && depth < kMaxAncestors) {
    // A child begins with the descriptors of its parent.
    ASSIGN_OR_RETURN(const auto parent, recording.Open(info.parent));
    Time end = kTimeMax;
    if (!info.by_exec) {
      ASSIGN_OR_RETURN(auto forks, parent->Events({.kind = EventKind::kFork}));
      for (;;) {
        ASSIGN_OR_RETURN(const auto event, forks->Next());
        if (!event) break;
        if (event->number == info.pid) end = event->time;
      }
    }
    RETURN_IF_ERROR(Follow(recording, *parent, end, open, nullptr, depth + 1));
    for (auto& [fd, file] : *open) file.offset = std::make_shared<uint64_t>(*file.offset);
  } else {
    static constexpr const char* kStandard[] = {"standard input", "standard output",
                                                "standard error"};
    for (int64_t fd = 0; fd < 3; ++fd) {
      (*open)[fd] = {kStandard[fd], std::make_shared<uint64_t>(0)};
    }
  }
  ASSIGN_OR_RETURN(auto cursor,
                   process.Events({.span = {Time(0), until}, .kind = EventKind::kSyscall}));
  const auto text_at = [&](uint64_t at, Time t) -> std::string {
    std::string text;
    for (int k = 0; k < 64 && text.find('\0') == std::string::npos; ++k) {
      const uint64_t from = at + text.size();
      const auto image = process.Memory(Address(from), 64 - from % 64, t);
      if (!image.ok() || !image->all_present()) break;
      text += image->bytes;
    }
    return text.substr(0, text.find('\0'));
  };
  for (size_t count = 0; count < kMaxCalls; ++count) {
    ASSIGN_OR_RETURN(std::optional<Event> next, cursor->Next());
    if (!next) break;
    const Event& e = *next;
    const std::string name = SyscallName(e.number);
    const auto fd = static_cast<int64_t>(static_cast<int32_t>(e.args[0]));
    const auto put = [&](std::string path) {
      if (e.result >= 0) (*open)[e.result] = {std::move(path), std::make_shared<uint64_t>(0)};
    };
    if (e.result < 0) continue;
    const auto known = open->find(fd);
    if (files != nullptr && NamesOf(name).descriptor == 0 && known != open->end()) {
      files->descriptors[e.time.v << 8 | (e.sequence & 0xff)] = known->second.path;
    }
    if (name == "open" || name == "creat") {
      put(text_at(e.args[0], e.time));
    } else if (name == "openat" || name == "openat2") {
      put(text_at(e.args[1], e.time));
    } else if (name == "socket" || name == "accept" || name == "accept4") {
      put("a socket");
    } else if (name == "memfd_create") {
      put("memory file");
    } else if (name == "dup" || name == "dup2" || name == "dup3" ||
               (name == "fcntl" && (e.args[1] == 0 || e.args[1] == 1030))) {
      if (known != open->end()) {
        const Open copy = known->second;
        (*open)[e.result] = copy;
      }
    } else if (name == "pipe" || name == "pipe2") {
      const auto image = process.Memory(Address(e.args[0]), 8, e.time);
      for (size_t k : {0, 4}) {
        if (!image.ok() || !image->all_present()) break;
        (*open)[static_cast<int32_t>(NumberAt(image->bytes, k, 4))] = {
            "a pipe", std::make_shared<uint64_t>(0)};
      }
    } else if (name == "close") {
      open->erase(fd);
    } else if (name == "lseek") {
      if (known != open->end()) *known->second.offset = static_cast<uint64_t>(e.result);
    } else if (name == "read" || name == "recvfrom" || name == "write" || name == "pread64") {
      if (known == open->end()) continue;
      uint64_t& offset = *known->second.offset;
      const uint64_t from = name == "pread64" ? e.args[3] : offset;
      const auto size = static_cast<uint64_t>(e.result);
      if (files != nullptr && name != "write") {
        files->reads.push_back({e.time, Address(e.args[1]), known->second.path, from, size});
      }
      if (name != "pread64") offset += size;
    } else if (name == "readv") {
      if (known == open->end()) continue;
      uint64_t left = static_cast<uint64_t>(e.result);
      for (uint64_t k = 0; k < std::min<uint64_t>(e.args[2], 1024) && left > 0; ++k) {
        const auto image = process.Memory(Address(e.args[1] + 16 * k), 16, e.time);
        if (!image.ok() || !image->all_present()) break;
        const uint64_t size = std::min(left, NumberAt(image->bytes, 8));
        uint64_t& offset = *known->second.offset;
        if (files != nullptr) {
          files->reads.push_back(
              {e.time, Address(NumberAt(image->bytes, 0)), known->second.path, offset, size});
        }
        offset += size;
        left -= size;
      }
    } else if (files != nullptr && (name == "getrandom" || name == "getdents64" || IsClock(name) ||
                                    IsProcessNumber(name))) {
      files->calls.push_back(e);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<const Inputs::Files*> Inputs::FilesOf(int side) {
  if (files_[side]) return &*files_[side];
  Files files;
  absl::flat_hash_map<int64_t, Open> open;
  const Side& s = *sides_[side];
  RETURN_IF_ERROR(Follow(s.recording(), s.process(), kTimeMax, &open, &files, 0));
  files_[side] = std::move(files);
  return &*files_[side];
}

std::string Inputs::PathOf(int side, const Event& e) {
  const Names names = NamesOf(SyscallName(e.number));
  if (names.path >= 0) {
    std::string path = sides_[side]->Memory(Address(e.args[names.path]), 256, e.time);
    path.resize(std::min(path.find('\0'), path.size()));
    if (!path.empty() || names.descriptor < 0) return path;
  }
  if (names.descriptor < 0) return "";
  const auto files = FilesOf(side);
  if (!files.ok()) return "";
  const auto found = (*files)->descriptors.find(e.time.v << 8 | (e.sequence & 0xff));
  return found == (*files)->descriptors.end() ? "" : found->second;
}

// The bytes of a file from an offset on, as text where they are text.
std::string Inputs::ReadText(int side, const Read& read, uint64_t offset) {
  constexpr uint64_t kBytes = 24;
  if (offset < read.offset || offset >= read.offset + read.size) return "its end";
  const uint64_t left = std::min(kBytes, read.offset + read.size - offset);
  std::string bytes = sides_[side]->Memory(read.buffer + (offset - read.offset),
                                           static_cast<uint32_t>(left), read.time);
  const bool text = std::all_of(bytes.begin(), bytes.end(), [](char c) {
    return static_cast<uint8_t>(c) >= 0x20 || c == '\n' || c == '\t';
  });
  if (text) return "\"" + bytes + "\"";
  std::string hex = "hex:";
  for (const char c : bytes.substr(0, 8)) hex += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return hex;
}

Input Inputs::FileBytes(const std::array<const Read*, 2>& read, std::array<uint64_t, 2> offset) {
  Input input;
  const bool random = IsRandomDevice(read[0]->path) || IsRandomDevice(read[1]->path);
  input.kind = random ? InputKind::kRandom : InputKind::kFile;
  input.name = read[0]->path;
  for (int i : {0, 1}) {
    input.value[i] = ReadText(i, *read[i], offset[i]);
    input.time[i] = read[i]->time;
  }
  const std::string bytes = input.value[0] + " | " + input.value[1];
  if (read[0]->path != read[1]->path) {
    input.text = fmt::format("{}, byte {} | {}, byte {}: {}", read[0]->path, offset[0],
                             read[1]->path, offset[1], bytes);
  } else if (offset[0] != offset[1]) {
    input.text = fmt::format("{}, byte {} | byte {}: {}", input.name, offset[0], offset[1], bytes);
  } else {
    input.text = fmt::format("{}, byte {}: {}", input.name, offset[0], bytes);
  }
  return input;
}

std::vector<std::string> Inputs::NamesIn(int side, const Event& e) {
  std::vector<std::string> names;
  if (e.result <= 0 || e.result > 1 << 20) return names;
  const std::string bytes =
      sides_[side]->Memory(Address(e.args[1]), static_cast<uint32_t>(e.result), e.time);
  // struct linux_dirent64: inode, offset, length of the record, type, name.
  for (size_t at = 0; at + 19 < bytes.size();) {
    const auto length = static_cast<size_t>(NumberAt(bytes, at + 16, 2));
    if (length < 20 || at + length > bytes.size()) break;
    const char* name = bytes.data() + at + 19;
    names.emplace_back(name, strnlen(name, length - 19));
    at += length;
  }
  return names;
}

// What a call gave, for people.
std::string Inputs::CallText(int side, const KernelValue& value) {
  const Event& e = value.event;
  const std::string name = SyscallName(e.number);
  const auto memory = [&](int argument, uint32_t size) {
    return sides_[side]->Memory(Address(e.args[argument]), size, e.time);
  };
  if (name == "clock_gettime") {
    const std::string b = memory(1, 16);
    return SecondsText(static_cast<int64_t>(NumberAt(b, 0)), static_cast<int64_t>(NumberAt(b, 8)));
  }
  if (name == "gettimeofday") {
    const std::string b = memory(0, 16);
    return SecondsText(static_cast<int64_t>(NumberAt(b, 0)),
                       1000 * static_cast<int64_t>(NumberAt(b, 8)));
  }
  if (name == "getrandom") {
    std::string hex;
    const auto size = static_cast<uint32_t>(std::clamp<int64_t>(e.result, 0, 8));
    for (const char c : memory(0, size)) hex += fmt::format("{:02x}", static_cast<uint8_t>(c));
    return hex + (e.result > 8 ? "…" : "");
  }
  if (name == "getdents64") return Shortened(absl::StrJoin(NamesIn(side, e), ", "));
  if (name == "getcwd" || name == "readlink" || name == "readlinkat") {
    std::string path = memory(name == "getcwd" ? 0 : name == "readlink" ? 1 : 2, 256);
    path.resize(std::min<size_t>(std::max<int64_t>(e.result, 0), path.size()));
    path.resize(std::min(path.find('\0'), path.size()));
    return path;
  }
  if (IsStatus(name) && value.at && name != "statx") {
    const bool at = name == "newfstatat";
    static constexpr struct {
      uint64_t offset, size;
      const char* name;
    } kFields[] = {{0, 8, "device"},    {8, 8, "inode"},      {16, 8, "links"},
                   {24, 4, "mode"},     {28, 4, "owner"},     {32, 4, "group"},
                   {40, 8, "rdev"},     {48, 8, "size"},      {56, 8, "blksize"},
                   {64, 8, "blocks"},   {72, 16, "accessed"}, {88, 16, "modified"},
                   {104, 16, "changed"}};
    const uint64_t offset = value.at->v - e.args[at ? 2 : 1];
    for (const auto& field : kFields) {
      if (offset < field.offset || offset >= field.offset + field.size) continue;
      const std::string b = memory(at ? 2 : 1, 144);
      if (field.size == 16) {
        return fmt::format("{} {}", field.name,
                           SecondsText(static_cast<int64_t>(NumberAt(b, field.offset)),
                                       static_cast<int64_t>(NumberAt(b, field.offset + 8))));
      }
      return fmt::format("{} {}", field.name, NumberAt(b, field.offset, field.size));
    }
  }
  if (e.result < 0 && e.result > -4096) {
    const char* error = strerrorname_np(static_cast<int>(-e.result));
    return error != nullptr ? error : absl::StrCat(e.result);
  }
  return e.result < 1 << 20 ? absl::StrCat(e.result) : fmt::format("{:#x}", e.result);
}

absl::StatusOr<Input> Inputs::OfSystemCalls(const std::array<KernelValue, 2>& values) {
  Input input;
  const std::array<const Event*, 2> e = {&values[0].event, &values[1].event};
  const std::array<std::string, 2> call = {SyscallName(e[0]->number), SyscallName(e[1]->number)};
  // Bytes of a file.
  std::array<const Read*, 2> read{};
  std::array<uint64_t, 2> offset{};
  for (int i : {0, 1}) {
    ASSIGN_OR_RETURN(const auto files, FilesOf(i));
    const std::vector<Read>& reads = files->reads;
    auto at = std::lower_bound(reads.begin(), reads.end(), e[i]->time,
                               [](const Read& r, Time t) { return r.time < t; });
    for (; at != reads.end() && at->time == e[i]->time; ++at) {
      if (!values[i].at) {
        // How many there were: what matters is where they end.
        read[i] = &*at;
        offset[i] = at->offset + at->size;
      } else if (*values[i].at >= at->buffer && *values[i].at < at->buffer + at->size) {
        read[i] = &*at;
        offset[i] = at->offset + (values[i].at->v - at->buffer.v);
      }
    }
  }
  if (read[0] != nullptr && read[1] != nullptr) {
    // Where the bytes before differ as well, or the same ones were read from other places, people
    // want to see where that begins.
    const uint64_t both = std::min({read[0]->size, read[1]->size, uint64_t{kMaxCompared}});
    std::array<std::string, 2> bytes;
    for (int i : {0, 1}) {
      bytes[i] = sides_[i]->Memory(read[i]->buffer, static_cast<uint32_t>(both), read[i]->time);
    }
    const size_t known = std::min(bytes[0].size(), bytes[1].size());
    size_t at = offset[0] - read[0]->offset;
    if (at != offset[1] - read[1]->offset || at >= known || bytes[0][at] == bytes[1][at]) {
      at = std::mismatch(bytes[0].begin(), bytes[0].begin() + known, bytes[1].begin()).first -
           bytes[0].begin();
    } else {
      while (at > 0 && bytes[0][at - 1] != bytes[1][at - 1]) --at;
    }
    for (int i : {0, 1}) offset[i] = read[i]->offset + at;
    return FileBytes(read, offset);
  }
  for (int i : {0, 1}) {
    input.time[i] = e[i]->time;
    input.value[i] = CallText(i, values[i]);
  }
  input.name = call[0];
  if (call[0] != call[1]) {
    input.text = fmt::format("{} = {} | {} = {}", call[0], input.value[0], call[1], input.value[1]);
    return input;
  }
  const std::string path = PathOf(0, *e[0]);
  std::string subject = call[0];
  if (call[0] == "getrandom") {
    input.kind = InputKind::kRandom;
  } else if (IsClock(call[0])) {
    input.kind = InputKind::kTime;
  } else if (IsProcessNumber(call[0])) {
    input.kind = InputKind::kProcess;
  } else if (call[0] == "getdents64" || call[0] == "getdents") {
    input.kind = InputKind::kDirectory;
    const std::vector<std::string> a = NamesIn(0, *e[0]), b = NamesIn(1, *e[1]);
    const bool order = a != b && std::multiset<std::string>(a.begin(), a.end()) ==
                                     std::multiset<std::string>(b.begin(), b.end());
    input.name = path;
    subject = fmt::format("{} {}", order ? "the order of the names in" : "the names in", path);
  } else if (IsStatus(call[0])) {
    input.kind = InputKind::kStatus;
    input.name = path;
    subject = path;
  } else if (!path.empty()) {
    subject = fmt::format("{}({})", call[0], path);
  }
  input.text = fmt::format("{}: {} | {}", subject, input.value[0], input.value[1]);
  return input;
}

absl::StatusOr<std::vector<Input>> Inputs::Different(std::array<Time, 2> until,
                                                     const std::array<TimeSpan, 2>& during) {
  std::vector<Input> out;
  std::array<const Start*, 2> starts{};
  std::array<const Files*, 2> files{};
  for (int i : {0, 1}) {
    ASSIGN_OR_RETURN(starts[i], StartOf(i));
    ASSIGN_OR_RETURN(files[i], FilesOf(i));
  }
  const size_t arguments = std::max(starts[0]->arguments.size(), starts[1]->arguments.size());
  for (size_t k = 0; k < arguments; ++k) {
    Input input;
    input.kind = InputKind::kArgument;
    input.name = absl::StrCat(k);
    std::array<bool, 2> there{};
    for (int i : {0, 1}) {
      there[i] = k < starts[i]->arguments.size();
      if (there[i]) input.value[i] = starts[i]->arguments[k].text;
    }
    if (there[0] && there[1] && input.value[0] == input.value[1]) continue;
    if (there[0] && there[1]) {
      input.text = fmt::format("{}: \"{}\" | \"{}\"", k, Shortened(input.value[0]),
                               Shortened(input.value[1]));
    } else {
      input.text = fmt::format("{}: \"{}\", only in {}", k,
                               Shortened(input.value[there[0] ? 0 : 1]), there[0] ? "A" : "B");
    }
    out.push_back(std::move(input));
  }
  std::set<std::string> names;
  for (int i : {0, 1}) {
    for (const Text& t : starts[i]->environment) {
      const std::string name = t.text.substr(0, t.text.find('='));
      if (!names.insert(name).second) continue;
      ASSIGN_OR_RETURN(auto input, Variable(name));
      if (input.value[0] != input.value[1]) out.push_back(std::move(input));
    }
  }
  const size_t start_inputs = out.size();
  // Reads of the same part of the same file.
  std::set<std::string> seen;
  size_t from = 0;
  for (const Read& a : files[0]->reads) {
    if (a.time >= until[0]) break;
    // What is installed is taken to be the same.
    const bool installed = absl::StartsWith(a.path, "/usr/") || absl::StartsWith(a.path, "/lib") ||
                           absl::StartsWith(a.path, "/etc/") ||
                           absl::StrContains(a.path, "/lib/python3") ||
                           absl::StrContains(a.path, ".so") || absl::EndsWith(a.path, ".pyc");
    if (installed || seen.contains(a.path)) continue;
    for (size_t k = from; k < files[1]->reads.size() && files[1]->reads[k].time < until[1]; ++k) {
      const Read& b = files[1]->reads[k];
      if (b.path != a.path || b.offset != a.offset) continue;
      if (k == from) ++from;
      std::array<std::string, 2> bytes;
      bytes[0] = sides_[0]->Memory(
          a.buffer, static_cast<uint32_t>(std::min<uint64_t>(a.size, kMaxCompared)), a.time);
      bytes[1] = sides_[1]->Memory(
          b.buffer, static_cast<uint32_t>(std::min<uint64_t>(b.size, kMaxCompared)), b.time);
      if (bytes[0] == bytes[1]) break;
      const size_t both = std::min(bytes[0].size(), bytes[1].size());
      const size_t same =
          std::mismatch(bytes[0].begin(), bytes[0].begin() + both, bytes[1].begin()).first -
          bytes[0].begin();
      out.push_back(FileBytes({&a, &b}, {a.offset + same, b.offset + same}));
      seen.insert(a.path);
      break;
    }
  }
  // The other calls, k-th beside k-th of the same name. The first few of each tell enough, and what
  // each gave takes long to look up.
  const auto add_calls = [&](const std::array<TimeSpan, 2>& span) -> absl::Status {
    constexpr size_t kMaxOfName = 3;
    std::array<absl::flat_hash_map<std::string, std::vector<const Event*>>, 2> of_name;
    for (int i : {0, 1}) {
      for (const Event& e : files[i]->calls) {
        auto& calls = of_name[i][SyscallName(e.number)];
        if (span[i].Contains(e.time) && calls.size() < kMaxOfName) calls.push_back(&e);
      }
    }
    for (const auto& [name, calls] : of_name[0]) {
      const std::vector<const Event*>& others = of_name[1][name];
      for (size_t k = 0; k < std::min(calls.size(), others.size()); ++k) {
        ASSIGN_OR_RETURN(auto input,
                         OfSystemCalls({KernelValue{*calls[k], {}}, KernelValue{*others[k], {}}}));
        if (input.value[0] == input.value[1] || !seen.insert(input.name).second) continue;
        out.push_back(std::move(input));
      }
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(add_calls(during));
  RETURN_IF_ERROR(add_calls({{{Time(0), until[0]}, {Time(0), until[1]}}}));
  std::stable_sort(out.begin() + start_inputs, out.end(),
                   [](const Input& x, const Input& y) { return x.time[0] < y.time[0]; });
  return out;
}

}  // namespace ttq::diff

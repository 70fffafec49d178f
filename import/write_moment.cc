// SPDX-License-Identifier: MIT

#include "import/write_moment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_image.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "recorder/producer.h"

namespace ttq {
namespace {
constexpr uint64_t kReadBytes = 256 << 10;
constexpr uint64_t kMaxVdso = 1 << 20;

// The kernel's library has no file: one in memory that holds its bytes.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : fd_(memfd_create("vdso", MFD_CLOEXEC)) {
    if (fd_ >= 0 && write(fd_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      close(std::exchange(fd_, -1));
    }
  }
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  std::string path() const { return fd_ < 0 ? "" : fmt::format("/proc/self/fd/{}", fd_); }

 private:
  int fd_;
};

class Writer {
 public:
  Writer(const ProcessMoment& moment, const MomentMemory& memory, RingProducer* out)
      : moment_(moment), memory_(memory), out_(*out) {}

  void Run(MemoryContents contents, const std::string& vdso) {
    State();
    uint32_t tid = 0;
    for (const MomentThread& thread : moment_.threads) {
      const TtqThread start{.tid = ++tid, .os_tid = thread.os_tid};
      out_.Put(kTtqThreadStart, start);
      const TtqThreadAt at{tid, thread.syscall};
      out_.Put(kTtqThreadAt, at, thread.name);
    }
    for (const Descriptor& d : moment_.descriptors) {
      const auto fd = static_cast<int32_t>(d.fd);
      out_.Put(kTtqDescriptor, fd, d.what);
    }
    for (const MomentMapping& m : moment_.mappings) {
      Map(m, m.path == "[vdso]" ? vdso : m.bytes_at);
    }
    out_.EndBlock();
    State();
    if (contents == MemoryContents::kStored) {
      for (const MomentMapping& m : moment_.mappings) Contents(m);
    }
    out_.EndBlock();
    State();
    if (moment_.signal) Signal(*moment_.signal);
    out_.Finish();
  }

 private:
  // What every block begins with.
  void State() {
    uint32_t tid = 0;
    for (const MomentThread& thread : moment_.threads) {
      TtqRegisters registers = thread.registers;
      registers.tid = ++tid;
      out_.Put(kTtqRegisters, registers);
      if (!thread.has_vectors) continue;
      TtqVectors vectors = thread.vectors;
      vectors.tid = tid;
      out_.Put(kTtqVectors, vectors);
    }
    const uint32_t first = 1;
    out_.Put(kTtqThread, first);
  }

  void Map(const MomentMapping& m, const std::string& bytes_at) {
    TtqMap map{};
    map.protection = m.protection;
    map.shared = m.shared;
    map.kind = m.kind;
    struct stat st;
    if (!bytes_at.empty() && stat(bytes_at.c_str(), &st) == 0) {
      map.address = m.begin;
      map.bytes = m.end - m.begin;
      map.content = kTtqContentFile;
      map.file_offset = m.file_offset;
      map.dev = st.st_dev;
      map.ino = st.st_ino;
      map.file_bytes = static_cast<uint64_t>(st.st_size);
      map.mtime_ns = st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec;
      std::string path = m.path;
      path += '\0';
      path += bytes_at;
      out_.Put(kTtqMap, map, path);
      return;
    }
    // What was dumped, then what was not.
    const uint64_t cuts[] = {m.begin, m.known_end, m.end};
    for (int i = 0; i < 2; ++i) {
      if (cuts[i] >= cuts[i + 1]) continue;
      map.address = cuts[i];
      map.bytes = cuts[i + 1] - cuts[i];
      map.file_offset = m.path.empty() ? 0 : m.file_offset + (cuts[i] - m.begin);
      map.content = i == 0 ? kTtqContentZero : kTtqContentUnknown;
      // An area of a file that is known is so by its bytes, as if the loader had made it.
      if (i == 0 && m.kind == kTtqMapFile) map.content = kTtqContentUnknown;
      out_.Put(kTtqMap, map, m.path);
    }
  }

  void Contents(const MomentMapping& m) {
    static const char kZeros[kPageBytes] = {};
    const FileImage file = m.bytes_at.empty() ? FileImage() : MappedFile(m.bytes_at);
    const bool zero = m.kind != kTtqMapFile;  // what nothing is said of is
    std::vector<char> piece(kReadBytes);
    for (uint64_t at = m.begin; (at = memory_.NextOwn(m, at)) < m.known_end;) {
      const uint64_t want = std::min<uint64_t>(kReadBytes, m.known_end - at);
      const uint64_t got = memory_.Read(at, want, piece.data()) & ~(kPageBytes - 1);
      // Runs of pages that are not as they were mapped.
      uint64_t begin = 0;
      for (uint64_t offset = 0; offset <= got; offset += kPageBytes) {
        const bool same =
            offset == got ||
            (zero ? memcmp(piece.data() + offset, kZeros, kPageBytes) == 0
                  : IsOfFile(file, m.file_offset + (at + offset - m.begin), piece.data() + offset));
        if (!same) continue;
        if (begin < offset) Bytes(at + begin, {piece.data() + begin, offset - begin});
        begin = offset + kPageBytes;
      }
      // A page that cannot be read is left out.
      at += got == 0 ? kPageBytes : got;
    }
  }

  static bool IsOfFile(const FileImage& file, uint64_t offset, const char* page) {
    const auto bytes = file.bytes();
    return offset <= bytes.size() && bytes.size() - offset >= kPageBytes &&
           memcmp(bytes.data() + offset, page, kPageBytes) == 0;
  }

  FileImage MappedFile(const std::string& path) {
    const auto [it, is_new] = files_.try_emplace(path);
    if (is_new) {
      absl::StatusOr<FileImage> image = FileImage::Map(path);
      if (image.ok()) it->second = *std::move(image);
    }
    return it->second;
  }

  void Bytes(uint64_t address, std::string_view bytes) {
    const TtqKernelWrite write{0, kTtqInitial, -1, address};
    out_.Put(kTtqKernelWrite, write, bytes);
  }

  void Signal(const MomentSignal& signal) {
    TtqSignal s{};
    s.tid = 1;
    s.number = static_cast<uint32_t>(signal.number);
    s.code = signal.code;
    s.address = signal.address;
    s.pc = moment_.threads.front().registers.pc;
    s.wall_ns = moment_.wall_ns;
    out_.Put(kTtqSignal, s);
  }

  const ProcessMoment& moment_;
  const MomentMemory& memory_;
  RingProducer& out_;
  std::map<std::string, FileImage> files_;
};

}  // namespace

absl::Status WriteMoment(const ProcessMoment& moment, const MomentMemory& memory,
                         MemoryContents contents, uint64_t vdso, RecordingWriter* writer) {
  RingHead head;
  head.pid = moment.pid;
  head.beginning = static_cast<uint32_t>(moment.beginning);
  head.wall_ns = moment.wall_ns;
  head.fatal_signal = moment.signal ? static_cast<uint32_t>(moment.signal->number) : 0;
  head.incomplete = moment.incomplete;
  head.arguments = {moment.program, moment.working_directory};
  head.arguments.insert(head.arguments.end(), moment.arguments.begin(), moment.arguments.end());
  ASSIGN_OR_RETURN(std::unique_ptr<RingProducer> producer, RingProducer::Make(head));
  std::string vdso_bytes;
  for (const MomentMapping& m : moment.mappings) {
    if (m.begin != vdso || vdso == 0) continue;
    vdso_bytes.resize(std::min(kMaxVdso, m.known_end - m.begin));
    vdso_bytes.resize(memory.Read(m.begin, vdso_bytes.size(), vdso_bytes.data()));
  }
  const MemoryFile vdso_file(vdso_bytes);
  writer->SetWorkingDirectory(moment.working_directory);
  writer->Start(producer->ring());
  Writer(moment, memory, producer.get()).Run(contents, vdso_bytes.empty() ? "" : vdso_file.path());
  // Reads the files that were mapped, that of the vdso too.
  return writer->Finish();
}

}  // namespace ttq

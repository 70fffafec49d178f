// SPDX-License-Identifier: MIT
//
// Executes a recorded program again, natively, one instruction at a time (ptrace), and compares
// each instruction's address with the recording's: the recording must have the same instructions,
// in the same order, the same number of times.
//
//   lockstep RECORDING [--from HEX] [--count N]
//     --from HEX   begin where the instruction at this address of the program's file (as its symbol
//                  table has it) is first executed; else at its entry point
//     --count N    compare no more than N instructions; else to the end
//
// Valgrind lays memory out in its own way. Addresses are therefore compared as places in files, and
// the native process is given what could lead it another way: the stack that the recorded program
// began with (arguments, environment, random bytes), moved by whole pages, and no vDSO. The caller
// sees to it that both choose the same functions for the processor (GLIBC_TUNABLES), and records
// with /dev/null as standard input and output, which the native process has.
//
// Exit status 0: all equal, and prints how many. 1: not, and prints where. 2: cannot tell.

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "fmt/core.h"
#include "store/read/reader.h"

namespace ttq {
namespace {

[[noreturn]] void Fail(const std::string& why) {
  fmt::print(stderr, "lockstep: {}\n", why);
  std::exit(2);
}

template <class T>
T OrFail(absl::StatusOr<T> value) {
  if (!value.ok()) Fail(value.status().ToString());
  return *std::move(value);
}

// A range of addresses that shows a file.
struct Piece {
  uint64_t begin = 0, end = 0, offset = 0;
  std::string path;
};

// Where an instruction lies, whatever the layout of memory.
struct FileOffset {
  const std::string* path = nullptr;
  uint64_t offset = 0;
  bool operator==(const FileOffset& o) const { return offset == o.offset && *path == *o.path; }
  std::string ToString() const { return fmt::format("{}+{:#x}", *path, offset); }
};

// Finds places; what is mapped is asked for again when an address is in no known piece.
class Layout {
 public:
  template <class Reload>
  FileOffset At(uint64_t address, Reload reload) {
    if (const Piece* p = Find(address)) return InPiece(*p, address);
    pieces_.push_back(reload());
    last_ = nullptr;
    if (const Piece* p = Find(address)) return InPiece(*p, address);
    static const std::string kNone = "no file";
    return {&kNone, address};
  }

 private:
  static FileOffset InPiece(const Piece& p, uint64_t address) {
    return {&p.path, address - p.begin + p.offset};
  }
  const Piece* Find(uint64_t address) {
    if (last_ && address >= last_->begin && address < last_->end) return last_;
    if (pieces_.empty()) return nullptr;
    for (const Piece& p : pieces_.back()) {
      if (address >= p.begin && address < p.end) return last_ = &p;
    }
    return nullptr;
  }

  std::deque<std::vector<Piece>> pieces_;  // places point into all of them
  const Piece* last_ = nullptr;
};

// ---- The recording ------------------------------------------------------------------------------

class Recorded {
 public:
  explicit Recorded(const Process* process) : process_(process) {}

  // Goes to the first execution of an address.
  void Seek(uint64_t address) {
    auto rows = OrFail(process_->Executions({{Address(address), Address(address + 1)}}, {},
                                            Direction::kForward, std::nullopt, nullptr));
    auto row = OrFail(rows->Next());
    if (!row) Fail(fmt::format("{:#x} was never executed", address));
    Load(row->time);
    while (time_ < row->time.v && Next()) {
    }
  }
  // The next instruction's address; nullopt at the end.
  std::optional<uint64_t> Next() {
    while (!runs_ || run_ == runs_->size() || at_ == (*runs_)[run_].instructions) {
      if (runs_ && run_ < runs_->size()) {
        ++run_;
        at_ = 0;
      } else if (time_ >= process_->info().end.v) {
        return std::nullopt;
      } else {
        Load(Time(time_));
      }
      if (run_ < runs_->size()) code_ = &Code((*runs_)[run_].code);
    }
    ++time_;
    return (*code_)[at_++];
  }
  uint64_t time() const { return time_; }
  FileOffset PlaceOf(uint64_t address) {
    return layout_.At(address, [&] {
      std::vector<Piece> pieces;
      for (const Mapping& m : OrFail(process_->MappingsAt(Time(time_)))) {
        pieces.push_back({m.range.begin.v, m.range.end.v, m.file_offset, m.path});
      }
      return pieces;
    });
  }

 private:
  void Load(Time t) {
    runs_ = OrFail(process_->RunsAround(t));
    if (runs_->empty()) Fail(fmt::format("nothing is known of {}", t.v));
    run_ = 0;
    at_ = 0;
    time_ = runs_->front().time.v;
    code_ = &Code(runs_->front().code);
  }
  const std::vector<uint64_t>& Code(SuperblockId id) {
    auto [found, is_new] = code_of_.try_emplace(id.v);
    if (is_new) {
      found->second = std::make_unique<std::vector<uint64_t>>();
      for (const CodeInstruction& i : process_->CodeOf(id)) found->second->push_back(i.address.v);
    }
    return *found->second;
  }

  const Process* process_;
  std::shared_ptr<const std::vector<Run>> runs_;
  size_t run_ = 0;
  uint32_t at_ = 0;
  uint64_t time_ = 0;
  const std::vector<uint64_t>* code_ = nullptr;
  std::map<decltype(SuperblockId::v), std::unique_ptr<std::vector<uint64_t>>> code_of_;
  Layout layout_;
};

// ---- The program, natively ----------------------------------------------------------------------

class Native {
 public:
  explicit Native(const ProcessInfo& info) {
    std::vector<char*> argv;
    for (const std::string& a : info.arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    char* no_environment[] = {nullptr};  // it is in the stack, later
    pid_ = fork();
    if (pid_ == 0) {
      const int nowhere = open("/dev/null", O_RDWR);
      for (int fd = 0; fd < 3; ++fd) dup2(nowhere, fd);
      personality(ADDR_NO_RANDOMIZE);
      ptrace(PTRACE_TRACEME, 0, 0, 0);
      execve(info.program.c_str(), argv.data(), no_environment);
      _exit(126);
    }
    Wait();
    if (!WIFSTOPPED(status_)) Fail("cannot run " + info.program);
    ptrace(PTRACE_SETOPTIONS, pid_, 0, PTRACE_O_EXITKILL);
  }
  ~Native() {
    if (!over()) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
  }

  bool over() const { return WIFEXITED(status_) || WIFSIGNALED(status_); }
  uint64_t Rip() {
    return static_cast<uint64_t>(
        ptrace(PTRACE_PEEKUSER, pid_, offsetof(user_regs_struct, rip), nullptr));
  }
  // Executes an instruction, or tries to: one that faults counts. False when a signal came first.
  bool Step() {
    const int signal = over() || WSTOPSIG(status_) == SIGTRAP ? 0 : WSTOPSIG(status_);
    if (ptrace(PTRACE_SINGLESTEP, pid_, 0, signal) != 0) Fail("cannot step");
    Wait();
    if (signal != 0) return false;  // the stop is at the handler's first instruction
    if (over() || WSTOPSIG(status_) == SIGTRAP) return true;
    siginfo_t about{};
    ptrace(PTRACE_GETSIGINFO, pid_, 0, &about);
    const int number = about.si_signo;
    return about.si_code > 0 &&  // by the kernel
           (number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL);
  }
  void RunTo(uint64_t address) {
    const uint64_t before = Word(address);
    SetWord(address, (before & ~uint64_t{0xff}) | 0xcc);
    ptrace(PTRACE_CONT, pid_, 0, 0);
    Wait();
    user_regs_struct r = Registers();
    if (over() || r.rip != address + 1) Fail(fmt::format("it did not come to {:#x}", address));
    SetWord(address, before);
    r.rip = address;
    ptrace(PTRACE_SETREGS, pid_, 0, &r);
  }
  FileOffset PlaceOf(uint64_t address) {
    return layout_.At(address, [&] { return Pieces(); });
  }
  std::vector<Piece> Pieces() const {
    std::vector<Piece> pieces;
    std::ifstream maps(fmt::format("/proc/{}/maps", pid_));
    for (std::string line; std::getline(maps, line);) {
      std::istringstream words(line);
      std::string range, protection, offset, device, inode, path;
      words >> range >> protection >> offset >> device >> inode;
      std::getline(words >> std::ws, path);
      const size_t dash = range.find('-');
      pieces.push_back({std::stoull(range.substr(0, dash), nullptr, 16),
                        std::stoull(range.substr(dash + 1), nullptr, 16),
                        std::stoull(offset, nullptr, 16), path});
    }
    return pieces;
  }
  // Gives it the recorded program's first stack. REQUIRES: it has executed nothing.
  void TakeStack(const Process& recorded);

  uint64_t Auxiliary(uint64_t type) const {
    for (const auto& [t, value] : auxiliary_) {
      if (t == type) return value;
    }
    return 0;
  }

 private:
  void Wait() {
    if (waitpid(pid_, &status_, 0) != pid_) Fail("waitpid");
  }
  user_regs_struct Registers() {
    user_regs_struct r;
    ptrace(PTRACE_GETREGS, pid_, 0, &r);
    return r;
  }
  uint64_t Word(uint64_t at) {
    return static_cast<uint64_t>(ptrace(PTRACE_PEEKDATA, pid_, at, nullptr));
  }
  void SetWord(uint64_t at, uint64_t value) { ptrace(PTRACE_POKEDATA, pid_, at, value); }

  pid_t pid_ = 0;
  int status_ = 0;
  std::vector<std::pair<uint64_t, uint64_t>> auxiliary_;  // as the kernel gave them
  Layout layout_;
};

void Native::TakeStack(const Process& recorded) {
  user_regs_struct r = Registers();
  uint64_t at = r.rsp + 8 * (Word(r.rsp) + 2);
  while (Word(at) != 0) at += 8;
  for (at += 8; Word(at) != AT_NULL; at += 16) auxiliary_.emplace_back(Word(at), Word(at + 8));

  const uint64_t from = OrFail(recorded.RegistersAt(Time(0), std::nullopt)).gpr[kRsp];
  uint64_t end = 0;
  for (const Mapping& m : OrFail(recorded.MappingsAt(Time(0)))) {
    if (m.range.begin.v <= from && from < m.range.end.v) end = m.range.end.v;
  }
  const MemoryImage image = OrFail(recorded.Memory(Address(from), end - from, Time(0)));
  std::vector<uint64_t> words((end - from) / 8);
  std::memcpy(words.data(), image.bytes.data(), 8 * words.size());
  uint64_t to = r.rsp - (end - from) - 0x1000;
  to = (to & ~uint64_t{0xfff}) | (from & 0xfff);
  const uint64_t moved = to - from;
  size_t i = 1;
  for (int list = 0; list < 2; ++list, ++i) {  // arguments, environment
    for (; words[i] != 0; ++i) words[i] += moved;
  }
  for (; words[i] != AT_NULL; i += 2) {
    switch (words[i]) {
      case AT_PHDR:
      case AT_BASE:
      case AT_ENTRY:
        words[i + 1] = Auxiliary(words[i]);
        break;
      case AT_EXECFN:
      case AT_PLATFORM:
      case AT_RANDOM:
        words[i + 1] += moved;
        break;
      case AT_SYSINFO_EHDR:
        words[i] = AT_IGNORE;
        break;
      default:
        break;
    }
  }
  for (size_t k = 0; k < words.size(); ++k) SetWord(to + 8 * k, words[k]);
  r.rsp = to;
  ptrace(PTRACE_SETREGS, pid_, 0, &r);
}

// ---- Both ---------------------------------------------------------------------------------------

// What is to be added to the addresses of the program's file, by where its entry point came to lie.
uint64_t FileEntry(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  file.read(reinterpret_cast<char*>(&header), sizeof(header));
  if (!file) Fail("cannot read " + path);
  return header.e_entry;
}

int Main(int argc, char** argv) {
  if (argc < 2) Fail("usage: lockstep RECORDING [--from HEX] [--count N]");
  uint64_t from = 0, count = UINT64_MAX;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (std::string_view(argv[i]) == "--from") from = std::stoull(argv[i + 1], nullptr, 16);
    if (std::string_view(argv[i]) == "--count") count = std::stoull(argv[i + 1]);
  }
  auto recording = OrFail(Recording::Open(argv[1]));
  const Process* process = OrFail(recording->Open(recording->processes().front().number));
  const std::string& program = process->info().program;
  const uint64_t entry = FileEntry(program);
  if (from == 0) from = entry;

  Native native(process->info());
  native.TakeStack(*process);
  native.RunTo(from + native.Auxiliary(AT_ENTRY) - entry);

  uint64_t recorded_bias = 0;
  for (const LoadedModule& m : OrFail(process->Modules())) {
    if (m.path == program) recorded_bias = m.load_bias;
  }
  Recorded recorded(process);
  recorded.Seek(from + recorded_bias);

  std::deque<FileOffset> before;
  uint64_t compared = 0;
  while (compared < count && !native.over()) {
    const FileOffset want = native.PlaceOf(native.Rip());
    if (!native.Step()) continue;
    const std::optional<uint64_t> have = recorded.Next();
    if (!have || !(recorded.PlaceOf(*have) == want)) {
      fmt::print("after {} equal instructions, at {}:\n", compared, recorded.time() - 1);
      for (const FileOffset& p : before) fmt::print("  both     {}\n", p.ToString());
      fmt::print("  native   {}\n", want.ToString());
      fmt::print("  recorded {}\n", have ? recorded.PlaceOf(*have).ToString() : "the end");
      return 1;
    }
    before.push_back(want);
    if (before.size() > 6) before.pop_front();
    ++compared;
  }
  if (compared < count && recorded.Next()) {
    fmt::print("native ended after {} equal instructions, the recording goes on\n", compared);
    return 1;
  }
  fmt::print("{} instructions equal\n", compared);
  return 0;
}

}  // namespace
}  // namespace ttq

int main(int argc, char** argv) { return ttq::Main(argc, argv); }

// SPDX-License-Identifier: MIT

#include "diff/summary.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "fmt/core.h"
#include "query/answers/format.h"

namespace ttq::diff {
namespace {

constexpr size_t kMaxEvents = 1 << 20;
constexpr size_t kMaxOutput = 64 << 20;
constexpr size_t kMaxFunctions = 1000;

// "exit status 0", "killed by SIGSEGV"
std::string ExitOf(const ProcessInfo& p) {
  if (p.fatal_signal != 0) return "killed by " + SignalName(p.fatal_signal);
  if (p.exit_status) return fmt::format("exit status {}", *p.exit_status);
  return p.complete ? "no exit recorded" : "cut off";
}

// Addresses, and sizes as large as these, are left out.
bool IsPlainNumber(uint64_t v) {
  return v < 0x100000 || (v >= 0xffff0000u && v <= 0xffffffffu) || v >= ~uint64_t{0xffff};
}

// The arguments of a call: `i` a number, `d` a descriptor, anything else is left out. A call that
// is not here is known by its name and result.
struct Signature {
  const char* name;
  const char* arguments;
};
constexpr Signature kSignatures[] = {
    {"read", "d.i"},        {"write", "d.i"},       {"open", ".ii"},
    {"close", "d"},         {"stat", ".."},         {"fstat", "d."},
    {"lstat", ".."},        {"poll", ".ii"},        {"lseek", "dii"},
    {"mmap", ".iiidi"},     {"mprotect", ".ii"},    {"munmap", ".i"},
    {"brk", "."},           {"rt_sigaction", "i"},  {"rt_sigprocmask", "i"},
    {"ioctl", "di"},        {"pread64", "d.ii"},    {"pwrite64", "d.ii"},
    {"readv", "d.i"},       {"writev", "d.i"},      {"access", ".i"},
    {"pipe2", ".i"},        {"select", "i"},        {"sched_yield", ""},
    {"madvise", ".ii"},     {"dup", "d"},           {"dup2", "dd"},
    {"dup3", "ddi"},        {"nanosleep", ""},      {"socket", "iii"},
    {"connect", "d.i"},     {"accept", "d"},        {"accept4", "d..i"},
    {"sendto", "d.ii"},     {"recvfrom", "d.ii"},   {"sendmsg", "d.i"},
    {"recvmsg", "d.i"},     {"bind", "d.i"},        {"listen", "di"},
    {"exit", "i"},          {"exit_group", "i"},    {"uname", ""},
    {"fcntl", "di"},        {"fsync", "d"},         {"fdatasync", "d"},
    {"ftruncate", "di"},    {"getdents64", "d.i"},  {"getcwd", ".i"},
    {"chdir", "."},         {"rename", ".."},       {"mkdir", ".i"},
    {"rmdir", "."},         {"unlink", "."},        {"readlink", "..i"},
    {"chmod", ".i"},        {"umask", "i"},         {"getuid", ""},
    {"getgid", ""},         {"geteuid", ""},        {"getegid", ""},
    {"epoll_create1", "i"}, {"epoll_ctl", "did"},   {"epoll_wait", "d.ii"},
    {"openat", "d.ii"},     {"mkdirat", "d.i"},     {"newfstatat", "d..i"},
    {"unlinkat", "d.i"},    {"renameat2", "d.d.i"}, {"faccessat", "d.i"},
    {"getrandom", ".ii"},   {"clock_gettime", "i"}, {"clock_nanosleep", "ii"},
    {"arch_prctl", "i"},    {"prlimit64", ".i"},    {"statx", "d.ii"},
    {"eventfd2", "ii"},     {"pselect6", "i"},      {"ppoll", ".i"},
};

// Of its signature; "" of a call without one.
std::string_view ArgumentsOf(const Event& e) {
  const std::string name = SyscallName(e.number);
  for (const Signature& signature : kSignatures) {
    if (name == signature.name) return signature.arguments;
  }
  return "";
}

bool GivesProcessNumber(const std::string& name) {
  for (const char* one : {"getpid", "gettid", "getppid", "getpgrp", "getpgid", "getsid", "fork",
                          "vfork", "clone", "clone3", "wait4", "waitid", "set_tid_address"}) {
    if (name == one) return true;
  }
  return false;
}

bool GivesDescriptor(const std::string& name, const Event& e) {
  if (name == "fcntl") return e.args[1] == F_DUPFD || e.args[1] == F_DUPFD_CLOEXEC;
  for (const char* one : {"open", "openat", "creat", "socket", "accept", "accept4", "dup",
                          "epoll_create", "epoll_create1", "eventfd", "eventfd2", "timerfd_create",
                          "signalfd4", "memfd_create", "inotify_init1", "pidfd_open"}) {
    if (name == one) return true;
  }
  return false;
}

// `descriptors`: with the numbers of descriptors. Which of several threads gets which of them is a
// matter of who comes first.
std::string TextOf(const Event& e, bool descriptors) {
  constexpr uint64_t kStandard = 2;
  const auto counts = [&](uint64_t fd) { return descriptors || fd <= kStandard; };
  const std::string name = SyscallName(e.number);
  const std::string_view arguments = ArgumentsOf(e);
  std::string text = name + "(";
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (i > 0) text += ", ";
    const bool shown = arguments[i] == 'i' || (arguments[i] == 'd' && counts(e.args[i]));
    text += shown && IsPlainNumber(e.args[i])
                ? fmt::format("{}", static_cast<int32_t>(static_cast<uint32_t>(e.args[i])))
                : "…";
  }
  text += ")";
  if (name == "exit" || name == "exit_group") return text;
  if (e.result < 0 && e.result > -4096) {
    const char* error = strerrorname_np(static_cast<int>(-e.result));
    return text + " = -1 " + (error != nullptr ? error : "?");
  }
  if (GivesProcessNumber(name)) return name + "(…) = …";
  const auto result = static_cast<uint64_t>(e.result);
  const bool shown = IsPlainNumber(result) && (!GivesDescriptor(name, e) || counts(result));
  return text + (shown ? fmt::format(" = {}", e.result) : std::string(" = …"));
}

// Calls by the place called: key, and one address it has on this side.
struct Entry {
  uint64_t calls = 0;
  Address address;
};

absl::StatusOr<absl::flat_hash_map<uint64_t, Entry>> CountEntries(Side* side,
                                                                  ScanControl* control) {
  // Per superblock, how often it was executed up to and with each of its beginnings.
  struct Counted {
    std::vector<uint32_t> beginnings;
    std::vector<uint64_t> times;
    bool known = false;
  };
  std::vector<Counted> counted;
  const Process& process = side->process();
  for (Time t{0}; t < side->end();) {
    if (control != nullptr && control->cancelled) return absl::CancelledError("interrupted");
    ASSIGN_OR_RETURN(const auto block, process.RunsAround(t));
    if (block->empty()) break;
    for (const Run& run : *block) {
      if (run.code.v >= counted.size()) counted.resize(run.code.v + 4096);
      Counted& c = counted[run.code.v];
      if (!c.known) {
        c.known = true;
        c.beginnings = side->CodeOf(run.code).beginnings;
        c.times.resize(c.beginnings.size(), 0);
      }
      for (size_t i = 0; i < c.beginnings.size() && c.beginnings[i] < run.instructions; ++i) {
        ++c.times[i];
      }
    }
    const Time next = block->back().time + block->back().instructions;
    if (next <= t) break;
    t = next;
  }
  absl::flat_hash_map<uint64_t, Entry> out;
  for (uint32_t id = 0; id < counted.size(); ++id) {
    const Side::Code* code = counted[id].known ? &side->CodeOf(SuperblockId(id)) : nullptr;
    for (size_t i = 0; i < counted[id].times.size(); ++i) {
      const uint32_t at = counted[id].beginnings[i];
      if (counted[id].times[i] == 0) continue;
      Entry& entry = out[code->keys[at]];
      entry.calls += counted[id].times[i];
      entry.address = code->addresses[at];
    }
  }
  return out;
}

absl::StatusOr<std::vector<CallCount>> CompareCounts(Side* a, Side* b, const RE2* ignore,
                                                     ScanControl* control) {
  WorkerPool pool(2);
  RETURN_IF_ERROR(pool.status());
  auto of_a = pool.Submit([&] { return CountEntries(a, control); });
  auto of_b = pool.Submit([&] { return CountEntries(b, control); });
  ASSIGN_OR_RETURN(const auto x, of_a.get());
  ASSIGN_OR_RETURN(const auto y, of_b.get());
  std::map<std::pair<std::string, std::string>, CallCount> found;
  const auto note = [&](Side* side, Address at, uint64_t calls_a,
                        uint64_t calls_b) -> absl::Status {
    ASSIGN_OR_RETURN(const Symbolizer* symbols, side->context().AllSymbols());
    const std::shared_ptr<const CodeLocation> location = symbols->Symbolize(at);
    if (location->frames.empty() || location->offset_in_function != 0 ||
        location->source == NameSource::kPlt) {
      return absl::OkStatus();
    }
    const std::string& name = location->frames.back().function;
    if (ignore != nullptr && RE2::PartialMatch(name, *ignore)) return absl::OkStatus();
    CallCount& c = found[{location->module, name}];
    c.function = name;
    c.module = location->module;
    c.calls[0] += calls_a;
    c.calls[1] += calls_b;
    return absl::OkStatus();
  };
  for (const auto& [key, entry] : x) {
    const auto other = y.find(key);
    const uint64_t calls = other == y.end() ? 0 : other->second.calls;
    if (calls == entry.calls) continue;
    RETURN_IF_ERROR(note(a, entry.address, entry.calls, calls));
  }
  for (const auto& [key, entry] : y) {
    if (x.contains(key)) continue;
    RETURN_IF_ERROR(note(b, entry.address, 0, entry.calls));
  }
  std::vector<CallCount> out;
  for (auto& [name, count] : found) out.push_back(std::move(count));
  const auto weight = [](const CallCount& c) {
    const double more = std::max(c.calls[0], c.calls[1]), less = std::min(c.calls[0], c.calls[1]);
    return less == 0 ? 1e18 + more : more / less;
  };
  std::stable_sort(out.begin(), out.end(),
                   [&](const CallCount& m, const CallCount& n) { return weight(m) > weight(n); });
  if (out.size() > kMaxFunctions) out.resize(kMaxFunctions);
  return out;
}

absl::StatusOr<std::vector<Event>> EventsOf(const Side& side, EventKind kind, const RE2* ignore,
                                            bool* cut) {
  ASSIGN_OR_RETURN(auto cursor, side.process().Events({.kind = kind}));
  std::vector<Event> out;
  size_t bytes = 0;
  for (;;) {
    ASSIGN_OR_RETURN(std::optional<Event> event, cursor->Next());
    if (!event) return out;
    if (out.size() == kMaxEvents || bytes > kMaxOutput) {
      *cut = true;
      return out;
    }
    const std::string_view text = kind == EventKind::kOutput ? std::string_view(event->bytes)
                                                             : std::string_view(event->detail);
    if (ignore != nullptr && RE2::PartialMatch(text, *ignore)) continue;
    bytes += event->bytes.size();
    out.push_back(*std::move(event));
  }
}

std::string Excerpt(std::string_view text, uint64_t at) {
  const size_t line = text.rfind('\n', at == 0 ? 0 : at - 1);
  size_t begin = line == std::string::npos || at == 0 ? 0 : line + 1;
  if (at - std::min<uint64_t>(begin, at) > 40) begin = at - 40;
  return std::string(text.substr(std::min(begin, text.size()), 80));
}

// The outputs of each descriptor, as one text a side.
void CompareOutputs(const std::array<std::vector<Event>, 2>& events, Summary* summary) {
  std::map<int64_t, std::array<std::string, 2>> texts;
  for (int i : {0, 1}) {
    for (const Event& e : events[i]) {
      texts[e.number][i] += e.bytes;
      summary->output_bytes[i] += e.bytes.size();
    }
  }
  for (const auto& [fd, text] : texts) {
    if (text[0] == text[1]) continue;
    EventDifference d;
    d.fd = fd;
    const size_t both = std::min(text[0].size(), text[1].size());
    d.bytes = std::mismatch(text[0].begin(), text[0].begin() + both, text[1].begin()).first -
              text[0].begin();
    for (int i : {0, 1}) {
      d.text[i] = Excerpt(text[i], d.bytes);
      uint64_t before = 0;
      for (const Event& e : events[i]) {
        if (e.number != fd) continue;
        if (before + e.bytes.size() > d.bytes) {
          d.event[i] = e;
          break;
        }
        before += e.bytes.size();
      }
    }
    summary->outputs.push_back(std::move(d));
  }
}

// Of the calls of one thread, with the numbers of descriptors or without.
std::optional<EventDifference> FirstSyscallDifference(
    const std::array<std::vector<const Event*>, 2>& calls, bool descriptors) {
  for (size_t i = 0; i < std::max(calls[0].size(), calls[1].size()); ++i) {
    EventDifference d;
    d.index = i;
    std::array<std::string, 2> compared;
    for (int s : {0, 1}) {
      if (i >= calls[s].size()) continue;
      d.event[s] = *calls[s][i];
      d.text[s] = NormalSyscall(*calls[s][i]);
      compared[s] = TextOf(*calls[s][i], descriptors);
    }
    if (compared[0] != compared[1]) return d;
  }
  return std::nullopt;
}

void CompareSyscalls(const std::array<std::vector<Event>, 2>& events, Summary* summary) {
  std::map<std::string, std::array<uint64_t, 2>> counts;
  for (int i : {0, 1}) {
    summary->syscalls[i] = events[i].size();
    for (const Event& e : events[i]) ++counts[SyscallName(e.number)][i];
  }
  for (const auto& [name, count] : counts) {
    if (count[0] != count[1]) summary->syscall_counts.emplace_back(name, count);
  }
  // Thread by thread: which of two threads calls first, and whether one has to wait for the other,
  // is no difference by itself.
  std::map<uint32_t, std::array<std::vector<const Event*>, 2>> threads;
  for (int i : {0, 1}) {
    for (const Event& e : events[i]) {
      if (e.number != SYS_futex) threads[e.thread.v][i].push_back(&e);
    }
  }
  Time earliest = kTimeMax;
  for (const auto& [thread, calls] : threads) {
    std::optional<EventDifference> d = FirstSyscallDifference(calls, threads.size() == 1);
    if (!d) continue;
    Time time = kTimeMax;
    for (const std::optional<Event>& e : d->event) {
      if (e) time = std::min(time, e->time);
    }
    if (time >= earliest) continue;
    earliest = time;
    summary->syscall = std::move(d);
  }
}

}  // namespace

std::string NormalSyscall(const Event& e) { return TextOf(e, true); }

std::optional<int> DifferentArgument(const Event& a, const Event& b) {
  const std::string_view arguments = ArgumentsOf(a);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] != 'i' || a.args[i] == b.args[i]) continue;
    if (IsPlainNumber(a.args[i]) || IsPlainNumber(b.args[i])) return static_cast<int>(i);
  }
  return std::nullopt;
}

absl::StatusOr<Summary> Summarize(Side* a, Side* b, const RE2* ignore, ScanControl* control,
                                  std::string* note) {
  Summary summary;
  const std::array<Side*, 2> sides = {a, b};
  std::array<std::vector<Event>, 2> syscalls, outputs;
  bool cut = false;
  for (int i : {0, 1}) {
    const ProcessInfo& info = sides[i]->process().info();
    summary.exits[i] = ExitOf(info);
    summary.instructions[i] = info.end.v;
    summary.threads[i] = sides[i]->process().threads().size();
    auto found = EventsOf(*sides[i], EventKind::kSyscall, ignore, &cut);
    if (!found.ok()) return found.status();
    syscalls[i] = *std::move(found);
    found = EventsOf(*sides[i], EventKind::kOutput, ignore, &cut);
    if (!found.ok()) return found.status();
    outputs[i] = *std::move(found);
  }
  if (cut) absl::StrAppend(note, "system calls and output were compared as far as 1 M events. ");
  CompareSyscalls(syscalls, &summary);
  CompareOutputs(outputs, &summary);
  ASSIGN_OR_RETURN(summary.functions, CompareCounts(a, b, ignore, control));
  return summary;
}

}  // namespace ttq::diff

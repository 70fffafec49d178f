// SPDX-License-Identifier: MIT

#include "query/cpython/ending.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "query/cpython/frame_history.h"

namespace ttq::python {
namespace {

// Instructions between the making of a traceback's entry and what is told of it: that it is set,
// and that its frame is left.
constexpr uint64_t kTogether = 100'000;

// The block that holds t, by its number.
size_t BlockOf(const std::vector<Time>& blocks, Time t) {
  const auto after = std::upper_bound(blocks.begin(), blocks.end(), t);
  return after == blocks.begin() ? 0 : static_cast<size_t>(after - blocks.begin()) - 1;
}

// What is raised at `last` may be set in the block before that of `first`.
TimeSpan SpanOf(const std::vector<Time>& blocks, Time first, Time last) {
  const size_t block = BlockOf(blocks, first);
  return {block < 2 ? Time(0) : blocks[block - 1], last + kTogether};
}

absl::StatusOr<std::optional<Access>> LastWriteOf(const Process& process, uint64_t word, Time t) {
  AccessQuery query;
  query.ranges = {{Address(word), Address(word + 8)}};
  query.span = {Time(0), t};
  query.want_values = false;
  return LastAccess(process, std::move(query));
}

// When Py_Finalize took the interpreter down; nullopt: it did not.
absl::StatusOr<std::optional<Time>> FinalizingFrom(const Process& process, const Runtime& runtime,
                                                   ScanControl* control) {
  const uint64_t word = runtime.address + static_cast<uint64_t>(runtime.layout->runtime_finalizing);
  AccessQuery query;
  query.ranges = {{Address(word), Address(word + 8)}};
  query.span = {Time(0), kTimeMax};
  query.direction = Direction::kBackward;
  ASSIGN_OR_RETURN(const std::unique_ptr<Cursor<Access>> writes,
                   process.Accesses(std::move(query), control));
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<Access> write, writes->Next());
    if (!write) return std::nullopt;
    uint64_t value = 0;
    const bool whole = write->address == Address(word) && write->value.size() == sizeof value;
    if (whole) memcpy(&value, write->value.data(), sizeof value);
    if (value != 0) return write->time;
  }
}

// The entries of a traceback, the outermost first.
std::vector<uint64_t> EntriesOf(PythonState::Instance& instance, uint64_t exception) {
  Memory& memory = instance.objects.memory();
  const Layout& layout = *instance.runtime.layout;
  std::vector<uint64_t> entries;
  absl::flat_hash_set<uint64_t> seen;
  uint64_t at = memory.Pointer(exception + static_cast<uint64_t>(layout.exception_traceback));
  while (at != 0 && seen.insert(at).second) {
    const TypeInfo* type = instance.objects.TypeOf(at);
    if (type == nullptr || type->name != "traceback") break;
    entries.push_back(at);
    at = memory.Pointer(at + static_cast<uint64_t>(layout.traceback_next));
  }
  return entries;
}

// The write that made an entry, before the time of `state`.
absl::StatusOr<std::optional<Access>> MadeAt(const PythonState& state,
                                             const PythonState::Instance& instance,
                                             uint64_t entry) {
  const Layout& layout = *instance.runtime.layout;
  return LastWriteOf(state.process(), entry + static_cast<uint64_t>(layout.traceback_frame),
                     state.time());
}

// Those that the thread which made an entry raised about then.
absl::StatusOr<std::vector<Raise>> RaisesAround(const Recording& recording, const Process& process,
                                                const Access& made, ScanControl* control) {
  return RaisesIn(recording, process, SpanOf(process.BlockStarts(), made.time, made.time),
                  made.thread, control);
}

// The raise whose first entry this is; nullopt: there is none.
absl::StatusOr<std::optional<Raise>> RaiseThatMade(const Recording& recording,
                                                   const PythonState& state,
                                                   PythonState::Instance& instance, uint64_t entry,
                                                   ScanControl* control) {
  ASSIGN_OR_RETURN(const std::optional<Access> made, MadeAt(state, instance, entry));
  if (!made) return std::nullopt;
  ASSIGN_OR_RETURN(std::vector<Raise> raises,
                   RaisesAround(recording, state.process(), *made, control));
  // Set before the entry is made, with nothing else in between.
  const auto after = std::find_if(raises.begin(), raises.end(),
                                  [&](const Raise& raise) { return raise.time > made->time; });
  if (after == raises.begin()) return std::nullopt;
  Raise& raise = *std::prev(after);
  const std::vector<TracebackEntry> places = ReadTraceback(instance.frames, entry, 1);
  if (places.empty() || raise.place != places[0]) return std::nullopt;
  return std::move(raise);
}

// A script's outermost frame, or a module's that `python -m` runs. What C calls without any frame
// of Python's below it, it may also answer for.
bool EndsProgram(const Raise& raise) {
  if (!raise.left_python || raise.traceback.empty()) return false;
  const std::string& outermost = raise.traceback.front().function;
  return outermost == "<module>" || outermost == "_run_module_as_main";
}

// The exception that the interpreter printed last, as one that ended the program; 0: none.
uint64_t LastException(PythonState& state, PythonState::Instance& instance) {
  ObjectReader& objects = instance.objects;
  for (const Interpreter& interpreter : state.Interpreters(instance)) {
    if (interpreter.id != 0) continue;
    const uint64_t sysdict = objects.memory().Pointer(
        interpreter.address + static_cast<uint64_t>(instance.runtime.layout->interp_sysdict));
    for (const char* name : {"last_exc", "last_value"}) {
      const uint64_t object = objects.DictGet(sysdict, name);
      const TypeInfo* type = object == 0 ? nullptr : objects.TypeOf(object);
      if (type != nullptr && type->Is(kExceptionSubclass)) return object;
    }
  }
  return 0;
}

// Whether `exception` left the program's outermost frame: that frame's is the outermost entry of
// its traceback, and it was left right after that was made.
absl::StatusOr<bool> LeftProgram(const Recording& recording, const PythonState& state,
                                 PythonState::Instance& instance, uint64_t exception,
                                 ScanControl* control) {
  const std::vector<uint64_t> entries = EntriesOf(instance, exception);
  if (entries.empty()) return false;
  ASSIGN_OR_RETURN(const std::optional<Access> made, MadeAt(state, instance, entries.front()));
  if (!made) return false;
  ASSIGN_OR_RETURN(const std::vector<Raise> raises,
                   RaisesAround(recording, state.process(), *made, control));
  return std::any_of(raises.begin(), raises.end(), [&](const Raise& raise) {
    return raise.time < made->time + kTogether && EndsProgram(raise);
  });
}

// Whether what was raised is a SystemExit, when it was raised.
bool IsExit(PythonState& state, const Raise& raise) {
  if (!raise.exception) return false;
  for (const auto& instance : state.instances()) {
    const TypeInfo* type = instance->objects.TypeOf(raise.exception->object);
    if (type != nullptr && instance->objects.Inherits(*type, "SystemExit")) return true;
  }
  // Its instance is not made yet.
  return raise.exception->text.type == "SystemExit";
}

}  // namespace

absl::StatusOr<std::vector<Raise>> RaisesIn(const Recording& recording, const Process& process,
                                            TimeSpan span, std::optional<ThreadNo> thread,
                                            ScanControl* control) {
  ASSIGN_OR_RETURN(const std::unique_ptr<RaiseScanner> scanner,
                   RaiseScanner::Open(recording, process, span, thread, control));
  std::vector<Raise> raises;
  while (true) {
    ASSIGN_OR_RETURN(std::optional<Raise> raise, scanner->Next());
    if (!raise) return raises;
    raises.push_back(*std::move(raise));
  }
}

absl::StatusOr<std::optional<Raise>> LastRaise(const Recording& recording, const Process& process,
                                               Time t, size_t most,
                                               const std::function<bool(const Raise&)>& is_wanted,
                                               ScanControl* control) {
  const std::vector<Time> blocks = process.BlockStarts();
  Time end = t + 1;
  size_t next = BlockOf(blocks, t) + 1, walked = 0;
  for (size_t count = 2; next > 0 && walked < most; count *= 3) {
    const size_t first = next - std::min(next, count);
    const TimeSpan span{first == 0 ? Time(0) : blocks[first], end};
    ASSIGN_OR_RETURN(std::vector<Raise> raises,
                     RaisesIn(recording, process, span, std::nullopt, control));
    const auto found = std::find_if(raises.rbegin(), raises.rend(), is_wanted);
    if (found != raises.rend()) return std::move(*found);
    walked += next - first;
    next = first;
    end = span.begin;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<Raise>> RaiseOf(const Recording& recording, const PythonState& state,
                                             PythonState::Instance& instance, uint64_t object,
                                             ScanControl* control) {
  const std::vector<uint64_t> entries = EntriesOf(instance, object);
  std::optional<Raise> found;
  // The innermost entries may be C's own (Cython makes them): then the interpreter's loop had the
  // exception only afterwards.
  for (auto entry = entries.rbegin(); entry != entries.rend() && !found; ++entry) {
    ASSIGN_OR_RETURN(found, RaiseThatMade(recording, state, instance, *entry, control));
  }
  if (!found) return std::nullopt;
  Raise raise = *std::move(found);
  const Layout& layout = *instance.runtime.layout;
  Memory& memory = instance.objects.memory();
  auto exception = std::make_shared<RaisedException>();
  exception->object = object;
  exception->text = ReadException(
      instance.objects, memory.Pointer(object + static_cast<uint64_t>(layout.object_type)), object);
  exception->chain = ChainOf(instance.frames, object);
  exception->members = MembersOf(instance.frames, object);
  raise.exception = std::move(exception);
  raise.traceback = ReadTraceback(instance.frames, entries.front());
  return raise;
}

absl::StatusOr<Time> FinalizedAt(const Recording& recording, const Process& process,
                                 ScanControl* control) {
  ASSIGN_OR_RETURN(const std::vector<Runtime> runtimes, RuntimesEver(recording, process));
  Time end = process.info().end;
  for (const Runtime& runtime : runtimes) {
    ASSIGN_OR_RETURN(const std::optional<Time> time, FinalizingFrom(process, runtime, control));
    if (time) end = std::min(end, *time);
  }
  return end;
}

absl::StatusOr<Ending> FindEnding(const Recording& recording, const Process& process,
                                  ScanControl* control) {
  Ending ending;
  ASSIGN_OR_RETURN(ending.time, FinalizedAt(recording, process, control));
  ASSIGN_OR_RETURN(const std::unique_ptr<PythonState> state,
                   PythonState::At(&recording, &process, ending.time));
  for (const auto& instance : state->instances()) {
    const uint64_t exception = LastException(*state, *instance);
    if (exception == 0) continue;
    ASSIGN_OR_RETURN(const bool left,
                     LeftProgram(recording, *state, *instance, exception, control));
    if (!left) continue;
    ASSIGN_OR_RETURN(ending.raise, RaiseOf(recording, *state, *instance, exception, control));
    if (ending.raise) return ending;
  }
  // The interpreter keeps no SystemExit: it ends at once.
  constexpr size_t kMaxBlocks = 24;
  ASSIGN_OR_RETURN(ending.raise,
                   LastRaise(recording, process, ending.time, kMaxBlocks, EndsProgram, control));
  if (!ending.raise) return ending;
  RETURN_IF_ERROR(state->MoveTo(ending.raise->time + 1));
  ending.exits = IsExit(*state, *ending.raise);
  return ending;
}

}  // namespace ttq::python

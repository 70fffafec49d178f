// SPDX-License-Identifier: MIT

#include "query/sources/native_raise.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "query/cpython/extensions.h"
#include "query/cpython/provenance.h"
#include "query/cpython/state.h"
#include "query/process/origin.h"
#include "query/rows/frame_values.h"
#include "query/sources/builder.h"

namespace ttq {
namespace {

using python::PythonState;

// Instructions in which the words of one exception are written.
constexpr uint64_t kSetTogether = 24;
// Times that one exception is put away and back again.
constexpr size_t kMaxSettings = 64;
// Of exceptions of C++ thrown during one call of C.
constexpr size_t kMaxThrows = 64;

// What sets exceptions, or throws, for others.
bool SetsForOthers(const Frame& frame) {
  static constexpr std::string_view kPrefixes[] = {"PyErr_", "_PyErr_",    "__Pyx_",    "__cxa_",
                                                   "std::",  "pybind11::", "nanobind::"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return frame.function.starts_with(prefix); });
}

class RaiseSearch {
 public:
  RaiseSearch(const Context& context, const python::Extensions& extensions, ThreadNo thread,
              ScanControl* control)
      : context_(context),
        process_(context.process()),
        extensions_(extensions),
        thread_(thread),
        control_(control),
        unwinder_(context),
        provenance_(&context, control) {}

  absl::StatusOr<std::optional<NativeRaise>> Find(const python::Raise& raise) {
    ASSIGN_OR_RETURN(Time set, FirstSet(raise.time));
    switch (WrongResultOf(raise)) {
      case WrongResult::kNone:
        break;
      case WrongResult::kNull:
        return FindNull(set);
      case WrongResult::kWithException: {
        ASSIGN_OR_RETURN(const Held held, SetAt(set));
        std::optional<Setting> before;
        do {  // it was made the cause of the one that was raised, which was set several times
          ASSIGN_OR_RETURN(before, SettingBefore(before ? before->time : set));
        } while (before && before->held[0] == held[0]);
        if (!before) return std::nullopt;
        ASSIGN_OR_RETURN(set, FirstSet(before->time));
      }
    }
    ASSIGN_OR_RETURN(Stack stack, StackInC(set));
    if (stack.frames.empty()) return std::nullopt;
    // The call that the interpreter's loop made.
    ASSIGN_OR_RETURN(const std::optional<Time> called,
                     CalledAt(process_, stack.frames.back(), set));
    if (called) {
      ASSIGN_OR_RETURN(const std::optional<Time> thrown, ThrownAt({*called, set}));
      if (thrown) {
        ASSIGN_OR_RETURN(stack, StackInC(*thrown));
        return From(NativeRaise::How::kThrown, std::move(stack));
      }
    }
    return From(NativeRaise::How::kSet, std::move(stack));
  }

 private:
  // What _Py_CheckFunctionResult in Objects/call.c finds wrong.
  enum class WrongResult : uint8_t { kNone, kNull, kWithException };
  static WrongResult WrongResultOf(const python::Raise& raise) {
    if (!raise.exception || raise.exception->text.type != "SystemError") return WrongResult::kNone;
    const std::string& text = raise.exception->text.message;
    return absl::StrContains(text, "returned NULL without setting an ") ? WrongResult::kNull
           : absl::StrContains(text, "returned a result with an ") ? WrongResult::kWithException
                                                                   : WrongResult::kNone;
  }

  // The NULL that an extension's function returned last before `checked`.
  absl::StatusOr<std::optional<NativeRaise>> FindNull(Time checked) {
    ASSIGN_OR_RETURN(const std::optional<Time> inside, LastInExtension(checked));
    if (!inside) return std::nullopt;
    ASSIGN_OR_RETURN(const Stack stack, StackInC(*inside));
    const auto outermost = std::find_if(stack.frames.rbegin(), stack.frames.rend(),
                                        [&](const Frame& f) { return IsOfExtension(f); });
    if (outermost == stack.frames.rend() || outermost == stack.frames.rbegin()) {
      return std::nullopt;
    }
    const Address back = std::prev(outermost)->pc;
    ASSIGN_OR_RETURN(const auto returns,
                     process_.Executions({{back, back + 1}}, {*inside, checked},
                                         Direction::kForward, thread_, control_));
    ASSIGN_OR_RETURN(const std::optional<Execution> returned, returns->Next());
    if (!returned) return std::nullopt;
    ASSIGN_OR_RETURN(const Registers registers, process_.RegistersAt(returned->time, thread_));
    if (registers.gpr[kRax] != 0) return std::nullopt;
    ValueLocation place;
    place.kind = ValueLocation::Kind::kGeneral;
    place.number = kRax;
    place.thread = thread_;
    place.before = returned->time;
    std::string note;
    constexpr uint32_t kDepth = 60;
    OriginTracer tracer(context_, control_);
    ASSIGN_OR_RETURN(const std::vector<Hop> hops, tracer.Trace(place, kDepth, &note));
    if (hops.empty()) return std::nullopt;
    ASSIGN_OR_RETURN(Stack made, StackInC(hops.back().time));
    return From(NativeRaise::How::kReturnedNull, std::move(made));
  }

  // When the thread last executed code of an extension.
  absl::StatusOr<std::optional<Time>> LastInExtension(Time before) {
    ASSIGN_OR_RETURN(const std::vector<Mapping> maps, process_.MappingsAt(before));
    std::vector<AddressRange> code;
    for (const Mapping& map : maps) {
      const bool is_code = (map.protection & 4) != 0 && map.path.starts_with('/');
      if (is_code && extensions_.Contains(BaseName(map.path))) code.push_back(map.range);
    }
    if (code.empty()) return std::nullopt;
    ASSIGN_OR_RETURN(const auto executions,
                     process_.Executions(std::move(code), {Time(0), before}, Direction::kBackward,
                                         thread_, control_));
    ASSIGN_OR_RETURN(const std::optional<Execution> last, executions->Next());
    if (!last) return std::nullopt;
    return last->time;
  }

  bool IsOfExtension(const Frame& frame) const {
    return extensions_.Contains(frame.module) && !frame.module.starts_with("libstdc++");
  }

  // The thread's frames inside of the interpreter's loop.
  absl::StatusOr<Stack> StackInC(Time t) {
    constexpr size_t kMaxFrames = 200;
    ASSIGN_OR_RETURN(const std::unique_ptr<Moment> moment, process_.At(t));
    ASSIGN_OR_RETURN(Stack stack, unwinder_.StackOf(*moment, thread_, {.max_frames = kMaxFrames}));
    const auto loop = std::find_if(stack.frames.begin(), stack.frames.end(), python::IsEvaluation);
    // Where it is not seen there is no telling what belongs to the call.
    if (loop == stack.frames.end()) stack.frames.clear();
    stack.frames.erase(loop, stack.frames.end());
    return stack;
  }

  // From the extension's function that did it to the outermost of the extension's.
  std::optional<NativeRaise> From(NativeRaise::How how, Stack stack) {
    const auto is_own = [&](const Frame& f) { return IsOfExtension(f) && !SetsForOthers(f); };
    const auto first = std::find_if(stack.frames.begin(), stack.frames.end(), is_own);
    if (first == stack.frames.end()) return std::nullopt;
    const auto last = std::find_if(stack.frames.rbegin(), stack.frames.rend(), is_own).base();
    stack.frames = std::vector<Frame>(first, last);
    return NativeRaise{how, std::move(stack)};
  }

  // An exception, where a thread state keeps the one that is set: itself, or up to 3.11 its type
  // and its value.
  using Held = std::array<uint64_t, 2>;
  struct Setting {
    Time time;
    Held held;
  };

  // When what was set at `set` was set first, before it was put away and back again.
  absl::StatusOr<Time> FirstSet(Time set) {
    ASSIGN_OR_RETURN(const Held held, SetAt(set));
    Time first = set;
    for (size_t i = 0; i < kMaxSettings; ++i) {
      ASSIGN_OR_RETURN(const std::optional<Setting> before, SettingBefore(first));
      if (!before || before->held != held) break;
      ASSIGN_OR_RETURN(const bool cleared, WasCleared({before->time + 1, first}));
      if (cleared) break;
      first = before->time;
    }
    return first;
  }

  // The last one before t.
  absl::StatusOr<std::optional<Setting>> SettingBefore(Time t) {
    ASSIGN_OR_RETURN(const std::optional<Word> word, WordAt(t));
    if (!word) return std::nullopt;
    ASSIGN_OR_RETURN(const auto writes, WritesTo(*word, {Time(0), t}));
    while (true) {
      ASSIGN_OR_RETURN(const std::optional<Access> write, writes->Next());
      if (!write) return std::nullopt;
      const bool takes_away = write->value.find_first_not_of('\0') == std::string::npos;
      if (takes_away) continue;
      ASSIGN_OR_RETURN(const Held held, SetAt(write->time));
      return Setting{write->time, held};
    }
  }

  // Whether the exception was dropped: PyErr_Clear was called, and no PyErr_Fetch.
  absl::StatusOr<bool> WasCleared(TimeSpan span) {
    ASSIGN_OR_RETURN(const std::optional<Word> word, WordAt(span.end));
    if (!word) return true;
    ASSIGN_OR_RETURN(const auto writes, WritesTo(*word, span));
    while (true) {
      ASSIGN_OR_RETURN(const std::optional<Access> write, writes->Next());
      if (!write) return false;
      ASSIGN_OR_RETURN(const Stack stack, StackInC(write->time));
      const bool clears = std::any_of(stack.frames.begin(), stack.frames.end(), [](const Frame& f) {
        return f.function == "PyErr_Clear" || f.function == "_PyErr_Clear";
      });
      if (clears) return true;
    }
  }

  // Of the thread state's words that keep what is set.
  struct Word {
    uint64_t address = 0;
    size_t count = 1;
  };
  absl::StatusOr<std::optional<Word>> WordAt(Time t) {
    ASSIGN_OR_RETURN(PythonState * state, provenance_.StateAt(t));
    if (state == nullptr) return std::nullopt;
    const auto stack = state->StackOf(thread_);
    if (!stack) return std::nullopt;
    const python::Layout& layout = *stack->instance->runtime.layout;
    return Word{stack->state.address + static_cast<uint64_t>(layout.thread_exception),
                layout.traits.exception_words > 1 ? size_t{2} : size_t{1}};
  }

  // To the first of them, the latest first.
  absl::StatusOr<std::unique_ptr<Cursor<Access>>> WritesTo(const Word& word, TimeSpan span) {
    AccessQuery query;
    query.ranges = {{Address(word.address), Address(word.address + 8)}};
    query.span = span;
    query.direction = Direction::kBackward;
    query.thread = thread_;
    return process_.Accesses(std::move(query), control_);
  }

  // What the write at `set` to the first word began to set.
  absl::StatusOr<Held> SetAt(Time set) {
    ASSIGN_OR_RETURN(const std::optional<Word> word, WordAt(set));
    if (!word) return Held{};
    ASSIGN_OR_RETURN(const Held begun, HeldAt(*word, set + 1));
    if (word->count == 1) return begun;
    AccessQuery query;
    query.ranges = {{Address(word->address + 8), Address(word->address + 16)}};
    query.span = {set, set + kSetTogether};
    query.thread = thread_;
    query.want_values = false;
    ASSIGN_OR_RETURN(const auto writes, process_.Accesses(std::move(query), control_));
    ASSIGN_OR_RETURN(const std::optional<Access> second, writes->Next());
    if (!second) return begun;
    ASSIGN_OR_RETURN(const Held held, HeldAt(*word, second->time + 1));
    return held[0] == begun[0] ? held : begun;
  }

  absl::StatusOr<Held> HeldAt(const Word& word, Time t) {
    Held held{};
    const uint64_t size = word.count * sizeof held[0];
    ASSIGN_OR_RETURN(const MemoryImage image, process_.Memory(Address(word.address), size, t));
    if (image.all_present()) memcpy(held.data(), image.bytes.data(), size);
    return held;
  }

  // When that was thrown whose handler runs at the span's end.
  absl::StatusOr<std::optional<Time>> ThrownAt(TimeSpan span) {
    ASSIGN_OR_RETURN(const auto throws, CallsOf("__cxa_throw", span, Direction::kBackward));
    if (!throws) return std::nullopt;
    for (size_t i = 0; i < kMaxThrows; ++i) {
      ASSIGN_OR_RETURN(const std::optional<Call> call, throws->Next());
      if (!call) break;
      ASSIGN_OR_RETURN(const bool is_handled, IsHandled({call->time, span.end}));
      if (is_handled) return call->time;
    }
    return std::nullopt;
  }

  // Whether more handlers were begun during the span than ended.
  absl::StatusOr<bool> IsHandled(TimeSpan span) {
    int64_t open = 0;
    const std::pair<const char*, int> kinds[] = {{"__cxa_begin_catch", 1}, {"__cxa_end_catch", -1}};
    for (const auto& [symbol, change] : kinds) {
      ASSIGN_OR_RETURN(const auto calls, CallsOf(symbol, span, Direction::kForward));
      while (calls) {
        ASSIGN_OR_RETURN(const std::optional<Call> call, calls->Next());
        if (!call) break;
        open += change;
      }
    }
    return open > 0;
  }

  // Null: there is no such function.
  absl::StatusOr<std::unique_ptr<Cursor<Call>>> CallsOf(std::string_view symbol, TimeSpan span,
                                                        Direction direction) {
    ASSIGN_OR_RETURN(const Symbolizer* symbols, context_.SymbolsAt(span.end));
    CallQuery query;
    for (const FunctionInfo& function : symbols->FindSymbol(symbol)) {
      if (function.entry) query.entries.push_back(*function.entry);
    }
    if (query.entries.empty()) return std::unique_ptr<Cursor<Call>>();
    query.span = span;
    query.direction = direction;
    query.thread = thread_;
    query.want_returns = false;
    return process_.Calls(std::move(query), control_);
  }

  const Context& context_;
  const Process& process_;
  const python::Extensions extensions_;
  const ThreadNo thread_;
  ScanControl* control_;
  Unwinder unwinder_;
  python::Provenance provenance_;
};

const char* NameOf(NativeRaise::How how) {
  switch (how) {
    case NativeRaise::How::kSet:
      return "set";
    case NativeRaise::How::kThrown:
      return "thrown";
    case NativeRaise::How::kReturnedNull:
      return "returned NULL";
  }
  return "";
}

}  // namespace

absl::StatusOr<std::optional<NativeRaise>> FindNativeRaise(const Context& context,
                                                           const python::Raise& raise,
                                                           ScanControl* control) {
  if (raise.by != python::RaisedBy::kC) return std::nullopt;
  ASSIGN_OR_RETURN(const std::unique_ptr<PythonState> state,
                   PythonState::At(&context.recording(), &context.process(), raise.time));
  const auto running = state->StackOf(raise.thread);
  if (!running) return std::nullopt;
  const python::Extensions extensions(context.process(), running->instance->runtime);
  RaiseSearch search(context, extensions, raise.thread, control);
  absl::StatusOr<std::optional<NativeRaise>> found = search.Find(raise);
  if (absl::IsNotFound(found.status())) return std::nullopt;
  return found;
}

absl::StatusOr<Value> ValueOf(const NativeRaise& raise, const Context& context) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Moment> moment, context.process().At(raise.stack.time));
  ASSIGN_OR_RETURN(Value frames, FrameList(context, *moment, raise.stack));
  const Frame& frame = raise.stack.frames.front();
  Object object;
  object.fields = {{"how", NameOf(raise.how)},
                   {"time", raise.stack.time},
                   {"function", OfText(frame.function)},
                   {"module", OfText(frame.module)},
                   {"file", OfText(frame.file)},
                   {"line", frame.line > 0 ? Value(int64_t{frame.line}) : Value()},
                   {"frames", std::move(frames)}};
  return Value(std::move(object));
}

}  // namespace ttq

// SPDX-License-Identifier: MIT

#include "diff/python.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/cpython/frame_history.h"
#include "query/cpython/frames.h"
#include "query/cpython/variables.h"

namespace ttq::diff {
namespace {

using python::Code;
using python::FrameHistory;
using python::FrameReader;
using python::MomentMemory;
using python::ObjectReader;
using python::Transition;
using python::TransitionKind;

constexpr size_t kMaxPoints = 8 << 20;      // calls and returns remembered
constexpr size_t kMaxOfFunction = 1 << 20;  // of one function between two calls
constexpr size_t kMaxVariables = 20;
constexpr size_t kMaxHistory = 12;
constexpr size_t kMaxGlobals = 2000;

// Of the standard library or an installed package, or the interpreter's own.
bool IsLibrary(const std::string& file) {
  if (absl::StartsWith(file, "<frozen ")) return true;
  for (const char* part :
       {"/lib/python3", "/lib64/python3", "/site-packages/", "/dist-packages/"}) {
    if (absl::StrContains(file, part)) return true;
  }
  return false;
}

uint64_t Hash(std::string_view text, uint64_t h) {
  for (const char c : text) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return (h ^ 0xff) * 0x100000001b3u;
}

// `repr` without addresses: "<Point at 0x7f…>" is the same in both runs.
std::string WithoutAddresses(std::string text) {
  static const RE2 address("0x[0-9a-f]{4,}");
  RE2::GlobalReplace(&text, address, "0x…");
  return text;
}

// Everything known of one side as Python.
class PythonSide {
 public:
  PythonSide(Side* side, std::shared_ptr<const FrameHistory> history, PythonScope scope,
             const RE2* ignore)
      : side_(*side), history_(std::move(history)), scope_(scope), ignore_(ignore) {}

  const FrameHistory& history() const { return *history_; }
  Side& side() { return side_; }

  struct CodeInfo {
    uint64_t key = 0;
    bool internal = false;  // out of scope
    bool ignored = false;
  };
  const CodeInfo& InfoOf(uint32_t code) {
    if (code >= codes_.size()) codes_.resize(code + 1);
    std::optional<CodeInfo>& info = codes_[code];
    if (!info) {
      const Code& c = history_->code(code);
      info.emplace();
      info->key = Hash(c.qualname, Hash(BaseName(c.filename), 0xcbf29ce484222325u));
      info->internal = scope_ == PythonScope::kOwn ? IsLibrary(c.filename)
                                                   : absl::StartsWith(c.filename, "<frozen ");
      info->ignored = ignore_ != nullptr && (RE2::PartialMatch(c.qualname, *ignore_) ||
                                             RE2::PartialMatch(c.filename, *ignore_));
    }
    return *info;
  }
  // Lines count from the function's own, which a change further up does not move.
  int RelativeLine(uint32_t code, int64_t offset) const {
    const int line = history_->LineOf(code, offset);
    return line == 0 ? 0 : line - history_->code(code).first_line;
  }
  uint64_t KeyOf(const Transition& t) {
    uint64_t key = InfoOf(t.code).key * 8 + static_cast<uint64_t>(t.kind);
    // Where a library calls, its own lines do not count.
    const bool calls = t.caller_code != python::kNoCode && !InfoOf(t.caller_code).internal;
    const int line = !Enters(t.kind) ? RelativeLine(t.code, t.offset)
                     : calls         ? RelativeLine(t.caller_code, t.caller_offset)
                                     : 0;
    return key * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(line);
  }
  // What to call the place of an instruction where there are several in its line: ", column 18".
  std::string InLine(uint32_t code, int64_t offset) const {
    const python::Position p =
        python::PositionAt(history_->layout_of(code), history_->code(code), offset);
    return p.column > 0 ? fmt::format(", column {}", p.column)
                        : fmt::format(", byte {} of its code", offset);
  }
  PythonLocation LocationOf(uint32_t code, int64_t offset) const {
    if (code == python::kNoCode) return {};
    const Code& c = history_->code(code);
    return {c.qualname, c.filename, history_->LineOf(code, offset)};
  }

 private:
  Side& side_;
  std::shared_ptr<const FrameHistory> history_;
  const PythonScope scope_;
  const RE2* ignore_;
  std::vector<std::optional<CodeInfo>> codes_;
};

// The calls and returns of a thread that count, in order.
class TransitionStream {
 public:
  TransitionStream(PythonSide* side, ThreadNo thread) : side_(*side), thread_(thread) {}

  // Null at the end; valid until the next call.
  absl::StatusOr<const Transition*> Next() {
    for (;;) {
      while (chunk_ == nullptr || index_ >= chunk_->size()) {
        if (next_chunk_ >= side_.history().chunks()) return nullptr;
        ASSIGN_OR_RETURN(chunk_, side_.history().Chunk(next_chunk_++));
        index_ = 0;
      }
      const Transition& t = (*chunk_)[index_++];
      if (t.thread != thread_ || t.code == python::kNoCode) continue;
      const PythonSide::CodeInfo& info = side_.InfoOf(t.code);
      if (inside_) {
        if (!Enters(t.kind) && t.depth <= *inside_) inside_.reset();
        continue;
      }
      if (info.ignored) {
        if (Enters(t.kind)) inside_ = t.depth;
        continue;
      }
      if (!info.internal) return &t;
    }
  }

 private:
  PythonSide& side_;
  const ThreadNo thread_;
  std::shared_ptr<const std::vector<Transition>> chunk_;
  size_t index_ = 0, next_chunk_ = 0;
  std::optional<uint32_t> inside_;  // depth of the ignored call under way
};

// The frame that runs before (or after) a transition.
struct RunningFrame {
  uint64_t frame = 0;
  uint32_t code = python::kNoCode;
  Time pushed;
  uint64_t dict = 0;  // not the frame's variables are meant, but this dict's
};
RunningFrame Before(const Transition& t) {
  if (Enters(t.kind)) return {t.caller_frame, t.caller_code, Time(0), 0};
  return {t.frame, t.code, t.pushed, 0};
}
RunningFrame AfterIt(const Transition& t) {
  if (Enters(t.kind)) return {t.frame, t.code, t.pushed, 0};
  return {t.caller_frame, t.caller_code, Time(0), 0};
}

// An instruction of Python begun in a frame.
struct Instruction {
  Time time;
  int64_t offset = 0;
};

// Which instruction a write to a frame's word tells of.
std::optional<int64_t> OffsetIn(const python::Layout& layout, const Code& code,
                                const Access& access) {
  if (access.value.size() != layout.instruction_bytes()) return std::nullopt;
  uint64_t v = 0;
  memcpy(&v, access.value.data(), access.value.size());
  const int64_t offset = layout.traits.frame_is_object
                             ? layout.OffsetOfLasti(static_cast<int32_t>(static_cast<uint32_t>(v)))
                             : static_cast<int64_t>(v - code.instructions);
  if (offset < 0 || offset > 1 << 24) return std::nullopt;
  return offset;
}

class PythonComparison {
 public:
  PythonComparison(PythonSide* a, PythonSide* b, PythonScope scope, ScanControl* control,
                   std::string* note)
      : sides_{a, b}, scope_(scope), control_(control), note_(*note) {}

  absl::StatusOr<std::optional<PythonDifference>> OfThread(ThreadNo thread);

 private:
  struct Point {
    std::array<Time, 2> time;
  };
  using Values = std::vector<std::pair<std::string, std::string>>;

  absl::StatusOr<std::vector<Instruction>> InstructionsOf(int side, const RunningFrame& frame,
                                                          TimeSpan span);
  std::string NextText(int side, const Transition* t) const;
  absl::StatusOr<Values> VariablesAt(int side, const RunningFrame& frame, Time t,
                                     const std::string& only);
  absl::StatusOr<std::vector<PythonVariable>> Differing(const std::array<RunningFrame, 2>& frame,
                                                        std::array<Time, 2> t,
                                                        const std::string& only);
  absl::StatusOr<std::optional<PythonAssignment>> WhenSet(const std::string& name,
                                                          const std::array<RunningFrame, 2>& frame,
                                                          std::array<Time, 2> before);
  absl::StatusOr<std::optional<PythonAssignment>> FromOutside(
      const std::string& name, const std::array<RunningFrame, 2>& frame,
      std::array<Time, 2> before);
  absl::StatusOr<std::optional<PythonAssignment>> FromCaller(
      const std::string& name, const std::array<RunningFrame, 2>& frame);
  absl::StatusOr<std::optional<PythonDifference>> BySteps(ThreadNo thread);
  // Of an instruction: equal where both execute the same. Of functions that were changed, lines.
  int64_t StepOf(int side, const std::array<RunningFrame, 2>& frame, int64_t offset);
  bool SameCode(uint32_t a, uint32_t b);
  absl::Status AddEvidence(const std::string& name, const std::array<RunningFrame, 2>& frame,
                           std::array<Time, 2> from, std::array<Time, 2> to, PythonDifference* d);
  absl::StatusOr<std::optional<PythonAssignment>> FromReturn(const PythonAssignment& set,
                                                             size_t after,
                                                             std::array<RunningFrame, 2>* frame,
                                                             std::array<Time, 2>* t);
  // What is known of the frames they part in, from `from` up to d->time. `lines_differ`: they part
  // before that already, by their lines.
  absl::Status Describe(const std::array<RunningFrame, 2>& frame, std::array<Time, 2> from,
                        PythonDifference* d, bool* lines_differ);
  absl::Status Trace(const std::array<RunningFrame, 2>& frame, std::array<Time, 2> t,
                     PythonDifference* d);
  absl::StatusOr<std::vector<PythonLocation>> StackOf(int side, ThreadNo thread, Time t);
  absl::Status MoveTo(int side, Time t);
  std::string SourceLine(int side, const PythonLocation& place);

  std::array<PythonSide*, 2> sides_;
  const PythonScope scope_;
  ScanControl* control_;
  std::string& note_;
  // The common history: when each side made transition k, and who ran after it.
  std::vector<Point> points_;
  std::vector<std::array<RunningFrame, 2>> running_;
  std::array<std::unique_ptr<Moment>, 2> moments_;
  std::array<std::unique_ptr<MomentMemory>, 2> memories_;
  // Of the last assignment that WhenSet found: its frames, the point before it, when its line
  // began, and when the variable had its new value.
  std::array<RunningFrame, 2> set_in_;
  size_t set_after_ = 0;
  std::array<Time, 2> set_from_, set_to_;
  absl::flat_hash_map<uint64_t, bool> same_code_;
};

absl::Status PythonComparison::MoveTo(int side, Time t) {
  if (!moments_[side]) {
    ASSIGN_OR_RETURN(moments_[side], sides_[side]->side().process().At(t));
    memories_[side] = std::make_unique<MomentMemory>(moments_[side].get());
  }
  return memories_[side]->MoveTo(t);
}

absl::StatusOr<std::vector<Instruction>> PythonComparison::InstructionsOf(int side,
                                                                          const RunningFrame& frame,
                                                                          TimeSpan span) {
  std::vector<Instruction> out;
  if (frame.code == python::kNoCode || frame.frame == 0) return out;
  const FrameHistory& history = sides_[side]->history();
  const python::Layout& layout = history.layout_of(frame.code);
  const Code& code = history.code(frame.code);
  AccessQuery query;
  const Address word(frame.frame + layout.frame_instruction);
  query.ranges = {{word, word + layout.instruction_bytes()}};
  query.span = span;
  ASSIGN_OR_RETURN(auto cursor, sides_[side]->side().process().Accesses(query, control_));
  while (out.size() < kMaxOfFunction) {
    ASSIGN_OR_RETURN(const std::optional<Access> row, cursor->Next());
    if (!row) return out;
    const Access& access = *row;
    const std::optional<int64_t> offset = OffsetIn(layout, code, access);
    if (offset) out.push_back({access.time, *offset});
  }
  absl::StrAppend(&note_,
                  "only the first million instructions of a Python function between two "
                  "calls were compared. ");
  return out;
}

std::string PythonComparison::NextText(int side, const Transition* t) const {
  if (t == nullptr) return "ends";
  const FrameHistory& history = sides_[side]->history();
  const std::string place =
      ToText(PythonLocation{history.code(t->code).qualname, history.code(t->code).filename,
                            history.code(t->code).first_line});
  switch (t->kind) {
    case TransitionKind::kCall:
      return "calls " + place;
    case TransitionKind::kResume:
      return "resumes " + place;
    case TransitionKind::kThrow:
      return "throws into " + place;
    case TransitionKind::kReturn:
      return "returns from " + place;
    case TransitionKind::kYield:
      return "yields from " + place;
    case TransitionKind::kUnwind:
      return "an exception leaves " + place;
    case TransitionKind::kSwitchOut:
      return "suspends the greenlet of " + place;
    case TransitionKind::kSwitchIn:
      return "goes on in the greenlet of " + place;
  }
  return "";
}

// The variables a frame sees: its own, then the globals that are data. `only`: just this name.
absl::StatusOr<PythonComparison::Values> PythonComparison::VariablesAt(int side,
                                                                       const RunningFrame& running,
                                                                       Time t,
                                                                       const std::string& only) {
  Values out;
  if (running.code == python::kNoCode || running.frame == 0) return out;
  RETURN_IF_ERROR(MoveTo(side, t));
  const python::Layout& layout = sides_[side]->history().layout_of(running.code);
  ObjectReader objects(memories_[side].get(), layout);
  FrameReader reader(&objects);
  if (running.dict != 0) {
    const uint64_t value = objects.DictGet(running.dict, only);
    if (value != 0) {
      out.emplace_back(only, WithoutAddresses(objects.Repr(
                                 value, {.characters = 120, .items = 20, .levels = 3})));
    }
    return out;
  }
  python::Frame frame;
  if (reader.ReadFrame(running.frame, &frame) == FrameReader::Kind::kBroken) return out;
  const python::ReprLimits limits{.characters = 120, .items = 20, .levels = 3};
  const auto add = [&](const std::string& name, uint64_t value) {
    out.emplace_back(name, value == 0 ? "" : WithoutAddresses(objects.Repr(value, limits)));
  };
  bool found = false;
  const auto data = [&](uint64_t value) {
    const python::TypeInfo* type = value == 0 ? nullptr : objects.TypeOf(value);
    if (type == nullptr) return false;
    for (const char* code : {"module", "function", "type", "builtin_function_or_method"}) {
      if (type->name == code) return false;
    }
    return true;
  };
  for (const python::LocalVariable& v : reader.Locals(frame, kMaxGlobals)) {
    if (!only.empty() && v.name != only) continue;
    uint64_t value = v.value;
    if (value == 0 || absl::StartsWith(v.name, "__")) continue;
    const python::TypeInfo* type = objects.TypeOf(value);
    if (type != nullptr && type->name == "cell")
      value = memories_[side]->Pointer(value + layout.cell_value);
    if (!data(value)) continue;
    add(v.name, value);
    found = true;
  }
  if (frame.globals == 0 || (found && !only.empty()) || frame.locals == frame.globals) return out;
  if (!only.empty()) {
    if (const uint64_t value = objects.DictGet(frame.globals, only)) add(only, value);
    return out;
  }
  const auto items = objects.DictItems(frame.globals, kMaxGlobals);
  if (!items) return out;
  for (const auto& [key, value] : *items) {
    const std::optional<std::string> name = objects.Str(key, 200);
    if (name && !absl::StartsWith(*name, "__") && data(value)) add(*name, value);
  }
  return out;
}

absl::StatusOr<std::vector<PythonVariable>> PythonComparison::Differing(
    const std::array<RunningFrame, 2>& frame, std::array<Time, 2> t, const std::string& only) {
  std::array<Values, 2> values;
  for (int i : {0, 1}) {
    ASSIGN_OR_RETURN(values[i], VariablesAt(i, frame[i], t[i], only));
  }
  const auto value_of = [&](int side, const std::string& name) -> std::string {
    for (const auto& [n, value] : values[side]) {
      if (n == name) return value;
    }
    return "";
  };
  std::vector<PythonVariable> out;
  for (const auto& [name, value] : values[0]) {
    std::string other = value_of(1, name);
    if (other != value) out.push_back({name, {value, std::move(other)}});
    if (out.size() == kMaxVariables) return out;
  }
  for (const auto& [name, value] : values[1]) {
    if (value_of(0, name).empty()) out.push_back({name, {"", value}});
    if (out.size() == kMaxVariables) return out;
  }
  return out;
}

// When a variable that `frame` sees got the value that differs, by bisection over the common
// history: first over calls and returns, then over the instructions between two of them.
absl::StatusOr<std::optional<PythonAssignment>> PythonComparison::WhenSet(
    const std::string& name, const std::array<RunningFrame, 2>& frame, std::array<Time, 2> before) {
  std::optional<PythonVariable> last;
  const auto differs = [&](std::array<Time, 2> t) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(auto found, Differing(frame, t, name));
    if (found.empty()) return false;
    last = found.front();
    return true;
  };
  // Points between the call of the frame and `before`.
  size_t first = 0, end = points_.size();
  while (end > 0 && points_[end - 1].time[0] >= before[0]) --end;
  if (frame[0].dict != 0) {
    // Anybody may have set it.
  } else if (frame[0].pushed.v > 0) {
    first = std::partition_point(points_.begin(), points_.begin() + end,
                                 [&](const Point& p) { return p.time[0] <= frame[0].pushed; }) -
            points_.begin();
  } else {
    // A frame whose call is not known: it was there when it was called last.
    for (size_t i = end; i-- > 0;) {
      if (running_[i][0].frame == frame[0].frame && running_[i][0].pushed.v != 0) {
        first = i;
        break;
      }
    }
  }
  size_t low = first, high = end;  // the first point at which it differs
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    ASSIGN_OR_RETURN(auto d, differs(points_[middle].time));
    if (d) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (low == 0) return std::optional<PythonAssignment>();
  // Between point low - 1 and point low.
  const std::array<RunningFrame, 2> in = running_[low - 1];
  const std::array<Time, 2> until = low < end ? points_[low].time : before;
  std::array<std::vector<Instruction>, 2> steps;
  for (int i : {0, 1}) {
    ASSIGN_OR_RETURN(steps[i], InstructionsOf(i, in[i], {points_[low - 1].time[i], until[i] + 1}));
  }
  const size_t count = std::min(steps[0].size(), steps[1].size());
  size_t a = 0, b = count;  // the first instruction before which it differs
  while (a < b) {
    const size_t middle = a + (b - a) / 2;
    ASSIGN_OR_RETURN(auto d, differs({steps[0][middle].time, steps[1][middle].time}));
    if (d) {
      b = middle;
    } else {
      a = middle + 1;
    }
  }
  if (count == 0) return std::optional<PythonAssignment>();
  if (a == 0 && low == first && frame[0].dict == 0) return FromOutside(name, frame, before);
  const size_t at = a == 0 ? 0 : a - 1;
  PythonAssignment out;
  out.name = name;
  out.place = sides_[0]->LocationOf(in[0].code, steps[0][at].offset);
  out.time = {steps[0][at].time, steps[1][at].time};
  size_t begin = at;
  while (begin > 0 && sides_[0]->RelativeLine(in[0].code, steps[0][begin - 1].offset) ==
                          sides_[0]->RelativeLine(in[0].code, steps[0][at].offset)) {
    --begin;
  }
  set_from_ = {steps[0][begin].time, steps[1][begin].time};
  set_to_ = a < count ? std::array<Time, 2>{steps[0][a].time, steps[1][a].time} : until;
  set_after_ = low - 1;
  const bool known =
      differs(a < count ? std::array<Time, 2>{steps[0][a].time, steps[1][a].time} : until)
          .value_or(false);
  if (known) out.value = last->value;
  set_in_ = in;
  return std::optional(std::move(out));
}

// A variable that differed when its function began: an argument, which the caller gave, or a
// global.
absl::StatusOr<std::optional<PythonAssignment>> PythonComparison::FromOutside(
    const std::string& name, const std::array<RunningFrame, 2>& frame, std::array<Time, 2> before) {
  std::array<RunningFrame, 2> module = frame;
  for (int i : {0, 1}) {
    RETURN_IF_ERROR(MoveTo(i, before[i]));
    const python::Layout& layout = sides_[i]->history().layout_of(frame[i].code);
    ObjectReader objects(memories_[i].get(), layout);
    FrameReader reader(&objects);
    python::Frame read;
    if (reader.ReadFrame(frame[i].frame, &read) == FrameReader::Kind::kBroken ||
        read.globals == 0) {
      return std::optional<PythonAssignment>();
    }
    for (const python::LocalVariable& v : reader.Locals(read, kMaxGlobals)) {
      if (v.name == name && read.locals != read.globals) return FromCaller(name, frame);
    }
    module[i].dict = read.globals;
  }
  return WhenSet(name, module, before);
}

absl::StatusOr<std::optional<PythonAssignment>> PythonComparison::FromCaller(
    const std::string& name, const std::array<RunningFrame, 2>& frame) {
  // The call of the frame: the last transition that made it run.
  size_t k = std::partition_point(points_.begin(), points_.end(),
                                  [&](const Point& p) { return p.time[0] <= frame[0].pushed; }) -
             points_.begin();
  if (k < 2 || frame[0].pushed.v == 0) return std::optional<PythonAssignment>();
  const std::array<RunningFrame, 2> caller = running_[k - 2];
  std::array<std::vector<Instruction>, 2> steps;
  for (int i : {0, 1}) {
    ASSIGN_OR_RETURN(
        auto s, InstructionsOf(i, caller[i], {points_[k - 2].time[i], points_[k - 1].time[i] + 1}));
    if (s.empty()) return std::optional<PythonAssignment>();
    steps[i] = std::move(s);
  }
  PythonAssignment out;
  out.name = name;
  out.place = sides_[0]->LocationOf(caller[0].code, steps[0].back().offset);
  out.time = {steps[0].back().time, steps[1].back().time};
  auto values = Differing(frame, {points_[k - 1].time[0] + 1, points_[k - 1].time[1] + 1}, name);
  if (values.ok() && !values->empty()) out.value = values->front().value;
  set_in_ = caller;
  set_after_ = k - 2;
  set_from_ = {steps[0].front().time, steps[1].front().time};
  set_to_ = {points_[k - 1].time[0] + 1, points_[k - 1].time[1] + 1};
  return std::optional(std::move(out));
}

std::string PythonComparison::SourceLine(int side, const PythonLocation& place) {
  std::string path = place.file;
  if (path.empty() || path[0] == '<') return "";
  if (path[0] != '/') {
    path = sides_[side]->side().process().info().working_directory + "/" + path;
  }
  std::ifstream in(path);
  std::string line;
  for (int i = 0; i < place.line && in; ++i) {
    if (!std::getline(in, line)) return "";
  }
  return line.substr(0, 4096);
}

// Goes back from variable to variable.
absl::Status PythonComparison::Trace(const std::array<RunningFrame, 2>& start,
                                     std::array<Time, 2> t, PythonDifference* d) {
  std::array<RunningFrame, 2> frame = start;
  PythonLocation place = d->place;
  std::vector<PythonVariable> candidates = d->variables;
  while (d->history.size() < kMaxHistory && !candidates.empty()) {
    // Those that the line names, where its source can be read; else all.
    const std::string source = SourceLine(0, place);
    std::vector<PythonVariable> named;
    for (const PythonVariable& v : candidates) {
      if (RE2::PartialMatch(source, "\\b" + RE2::QuoteMeta(v.name) + "\\b")) named.push_back(v);
    }
    if (!source.empty() && named.empty()) break;
    if (!named.empty()) candidates = named;
    if (candidates.size() > 4) candidates.resize(4);
    std::optional<PythonAssignment> earliest;
    std::array<RunningFrame, 2> in;
    std::array<Time, 2> from, to;
    size_t after = 0;
    for (const PythonVariable& v : candidates) {
      ASSIGN_OR_RETURN(auto set, WhenSet(v.name, frame, t));
      if (!set || (earliest && set->time[0] >= earliest->time[0])) continue;
      earliest = *std::move(set);
      in = set_in_;
      from = set_from_;
      to = set_to_;
      after = set_after_;
    }
    if (!earliest) break;
    if (!d->history.empty() && d->history.back().time[0] <= earliest->time[0]) break;
    d->history.push_back(*earliest);
    RETURN_IF_ERROR(AddEvidence(earliest->name, frame, from, to, d));
    for (int i : {0, 1}) d->origin_span[i] = {from[i], to[i]};
    frame = in;
    place = earliest->place;
    t = earliest->time;
    ASSIGN_OR_RETURN(auto returned, FromReturn(*earliest, after, &frame, &t));
    if (returned) {
      place = returned->place;
      for (int i : {0, 1}) d->origin_span[i] = {points_[after - 1].time[i], points_[after].time[i]};
      d->history.push_back(*std::move(returned));
    }
    ASSIGN_OR_RETURN(candidates, Differing(frame, t, ""));
  }
  d->origin = d->history.empty() ? d->place : d->history.back().place;
  return absl::OkStatus();
}

// Where a value that was assigned at once after a function had returned came from: the line that
// returned it. `frame` and `t` go there.
absl::StatusOr<std::optional<PythonAssignment>> PythonComparison::FromReturn(
    const PythonAssignment& set, size_t after, std::array<RunningFrame, 2>* frame,
    std::array<Time, 2>* t) {
  const std::optional<PythonAssignment> none;
  if (after == 0) return none;
  const std::array<RunningFrame, 2> callee = running_[after - 1];
  const std::array<Time, 2> back = points_[after].time, began = points_[after - 1].time;
  std::array<std::vector<Instruction>, 2> steps;
  for (int i : {0, 1}) {
    const RunningFrame& caller = (*frame)[i];
    if (callee[i].code == python::kNoCode || callee[i].frame == caller.frame ||
        running_[after][i].frame != caller.frame || sides_[i]->InfoOf(callee[i].code).internal) {
      return none;
    }
    // Nothing but the assignment itself: else the value was made from others too.
    ASSIGN_OR_RETURN(auto own, InstructionsOf(i, caller, {back[i], set.time[i] + 1}));
    if (own.size() > 1) return none;
    // What a constructor makes is not what its __init__ returns.
    const std::string& name = sides_[i]->history().code(callee[i].code).name;
    if (name == "__init__" || name == "__new__") return none;
    ASSIGN_OR_RETURN(auto s, InstructionsOf(i, callee[i], {began[i], back[i] + 1}));
    if (s.empty()) return none;
    steps[i] = std::move(s);
  }
  PythonAssignment out;
  out.name = sides_[0]->LocationOf(callee[0].code, 0).function + "()";
  out.place = sides_[0]->LocationOf(callee[0].code, steps[0].back().offset);
  out.time = {steps[0].back().time, steps[1].back().time};
  *frame = callee;
  *t = out.time;
  return std::optional(std::move(out));
}

// Where a variable's value is in memory: in its own words where it is one of the simple types, and
// in the word that names it.
absl::Status PythonComparison::AddEvidence(const std::string& name,
                                           const std::array<RunningFrame, 2>& frame,
                                           std::array<Time, 2> from, std::array<Time, 2> to,
                                           PythonDifference* d) {
  PythonEvidence evidence;
  evidence.from = from;
  evidence.to = to;
  std::array<uint64_t, 2> object{}, slot{}, data{};
  std::array<std::string, 2> type;
  for (int i : {0, 1}) {
    if (frame[i].code == python::kNoCode) return absl::OkStatus();
    RETURN_IF_ERROR(MoveTo(i, to[i]));
    const python::Layout& layout = sides_[i]->history().layout_of(frame[i].code);
    ObjectReader objects(memories_[i].get(), layout);
    FrameReader reader(&objects);
    python::Frame read;
    uint64_t dict = frame[i].dict;
    if (dict == 0 && frame[i].frame != 0 &&
        reader.ReadFrame(frame[i].frame, &read) != FrameReader::Kind::kBroken) {
      for (const python::LocalVariable& v : reader.Locals(read, kMaxGlobals)) {
        if (v.name != name) continue;
        object[i] = v.value;
        slot[i] = v.slot;
      }
      if (slot[i] == 0) dict = object[i] != 0 ? read.locals : read.globals;
    }
    if (dict != 0) slot[i] = python::DictSlot(objects, dict, name);
    if (object[i] == 0 && slot[i] != 0) object[i] = memories_[i]->Pointer(slot[i]);
    if (object[i] == 0) return absl::OkStatus();
    const python::TypeInfo* t = objects.TypeOf(object[i]);
    if (t != nullptr) type[i] = t->name;
    if (type[i] == "int") data[i] = object[i] + layout.long_digits;
    if (type[i] == "float") data[i] = object[i] + layout.float_value;
    evidence.value[i] =
        WithoutAddresses(objects.Repr(object[i], {.characters = 120, .items = 20, .levels = 3}));
  }
  if (type[0] == type[1] && object[0] != object[1] && data[0] != 0) {
    evidence.memory.push_back({{Address(data[0]), Address(data[1])}, type[0] == "int" ? 4u : 8u});
  }
  if (slot[0] != 0 && slot[1] != 0) {
    evidence.memory.push_back({{Address(slot[0]), Address(slot[1])}, 8});
  }
  d->evidence.insert(d->evidence.begin(), std::move(evidence));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PythonLocation>> PythonComparison::StackOf(int side, ThreadNo thread,
                                                                      Time t) {
  std::vector<PythonLocation> out;
  const FrameHistory& history = sides_[side]->history();
  ASSIGN_OR_RETURN(const auto frames, history.StackAt(thread, t));
  RETURN_IF_ERROR(MoveTo(side, t));
  for (size_t i = frames.size(); i-- > 0 && out.size() < 30;) {
    const FrameHistory::ActiveFrame& f = frames[i];
    if (f.code == python::kNoCode) continue;
    out.push_back(sides_[side]->LocationOf(
        f.code, python::FrameOffset(history.layout_of(f.code), *memories_[side], f.frame,
                                    history.code(f.code))));
  }
  return out;
}

absl::StatusOr<std::optional<PythonDifference>> PythonComparison::OfThread(ThreadNo thread) {
  points_.clear();
  running_.clear();
  TransitionStream a(sides_[0], thread), b(sides_[1], thread);
  std::optional<Transition> last_a, last_b;
  std::optional<Transition> x, y;
  uint64_t alike = 0;
  // A forked child goes on in a frame of its parent's: a point of the common history too.
  std::array<RunningFrame, 2> first;
  for (int i : {0, 1}) {
    ASSIGN_OR_RETURN(const auto stack, sides_[i]->history().StackAt(thread, Time(0)));
    if (!stack.empty()) first[i] = {stack.back().frame, stack.back().code, Time(0), 0};
  }
  if (first[0].code != python::kNoCode && first[1].code != python::kNoCode) {
    points_.push_back({{Time(0), Time(0)}});
    running_.push_back(first);
  }
  for (;; ++alike) {
    if (alike % 65536 == 0 && control_ != nullptr && control_->cancelled) {
      return absl::CancelledError("interrupted");
    }
    ASSIGN_OR_RETURN(auto p, a.Next());
    ASSIGN_OR_RETURN(auto q, b.Next());
    if (p == nullptr && q == nullptr) return BySteps(thread);
    x = p == nullptr ? std::nullopt : std::optional(*p);
    y = q == nullptr ? std::nullopt : std::optional(*q);
    if (!x || !y || sides_[0]->KeyOf(*x) != sides_[1]->KeyOf(*y)) break;
    last_a = x;
    last_b = y;
    if (points_.size() < kMaxPoints) {
      points_.push_back({{x->time, y->time}});
      running_.push_back({AfterIt(*x), AfterIt(*y)});
    }
  }
  // In the lines between calls they may have parted before.
  auto earlier = BySteps(thread);
  if (!earlier.ok() || *earlier) return earlier;
  PythonDifference d;
  d.thread = thread;
  d.alike = alike;
  d.next = {NextText(0, x ? &*x : nullptr), NextText(1, y ? &*y : nullptr)};
  // Who ran until they parted: told by what it did next, or else by what was done last.
  std::array<RunningFrame, 2> frame = first;
  const std::array<const std::optional<Transition>*, 2> next = {&x, &y}, last = {&last_a, &last_b};
  for (int i : {0, 1}) {
    if (*last[i]) frame[i] = AfterIt(**last[i]);
    if (*next[i]) {
      const RunningFrame running = Before(**next[i]);
      if (running.code != python::kNoCode) {
        const Time pushed = running.frame == frame[i].frame ? frame[i].pushed : Time(0);
        frame[i] = running;
        if (frame[i].pushed.v == 0) frame[i].pushed = pushed;
      }
    }
    d.time[i] = *next[i] ? (*next[i])->time : sides_[i]->side().end();
  }
  std::array<Time, 2> from;
  for (int i : {0, 1}) from[i] = *last[i] ? (*last[i])->time : Time(0);
  bool lines_differ = false;
  RETURN_IF_ERROR(Describe(frame, from, &d, &lines_differ));
  return std::optional(std::move(d));
}

absl::Status PythonComparison::Describe(const std::array<RunningFrame, 2>& frame,
                                        std::array<Time, 2> from, PythonDifference* d,
                                        bool* lines_differ) {
  std::array<std::vector<Instruction>, 2> steps;
  for (int i : {0, 1}) {
    ASSIGN_OR_RETURN(steps[i], InstructionsOf(i, frame[i], {from[i], d->time[i] + 1}));
  }
  // Line by line, as long as they are in the same function.
  size_t k = 0;
  const bool same_function =
      frame[0].code != python::kNoCode && frame[1].code != python::kNoCode &&
      sides_[0]->InfoOf(frame[0].code).key == sides_[1]->InfoOf(frame[1].code).key;
  while (same_function && k < steps[0].size() && k < steps[1].size() &&
         StepOf(0, frame, steps[0][k].offset) == StepOf(1, frame, steps[1][k].offset)) {
    ++k;
  }
  *lines_differ = same_function && k < steps[0].size() && k < steps[1].size();
  std::array<Time, 2> at = d->time;
  if (k > 0) {
    d->place = sides_[0]->LocationOf(frame[0].code, steps[0][k - 1].offset);
    at = {steps[0][k - 1].time, steps[1][k - 1].time};
  } else if (!steps[0].empty()) {
    d->place = sides_[0]->LocationOf(frame[0].code, steps[0].front().offset);
  } else if (frame[0].code != python::kNoCode) {
    // In the midst of an instruction (a built-in function that calls back).
    RETURN_IF_ERROR(MoveTo(0, d->time[0]));
    const FrameHistory& history = sides_[0]->history();
    d->place = sides_[0]->LocationOf(
        frame[0].code, python::FrameOffset(history.layout_of(frame[0].code), *memories_[0],
                                           frame[0].frame, history.code(frame[0].code)));
  }
  if (*lines_differ) {
    std::array<PythonLocation, 2> next;
    for (int i : {0, 1}) {
      next[i] = sides_[i]->LocationOf(frame[i].code, steps[i][k].offset);
      d->time[i] = steps[i][k].time;
    }
    for (int i : {0, 1}) {
      const bool one_line = next[0].line == next[1].line;
      d->next[i] =
          next[i].line == 0
              ? "goes on"
              : fmt::format("goes on in line {}{}", next[i].line,
                            one_line ? sides_[i]->InLine(frame[i].code, steps[i][k].offset) : "");
    }
  }
  // Why they part, whatever the variables: what the machine did since the line began.
  PythonEvidence parting;
  parting.to = d->time;
  parting.from = from;
  if (k > 0) {
    size_t begin = k - 1;
    while (begin > 0 && sides_[0]->RelativeLine(frame[0].code, steps[0][begin - 1].offset) ==
                            sides_[0]->RelativeLine(frame[0].code, steps[0][k - 1].offset)) {
      --begin;
    }
    parting.from = {steps[0][begin].time, steps[1][begin].time};
  }
  for (int i : {0, 1}) d->origin_span[i] = {parting.from[i], parting.to[i]};
  d->evidence.push_back(std::move(parting));
  for (int i : {0, 1}) {
    ASSIGN_OR_RETURN(d->stacks[i], StackOf(i, d->thread, at[i]));
  }
  d->origin = d->place;
  if (!same_function) return absl::OkStatus();
  ASSIGN_OR_RETURN(d->variables, Differing(frame, at, ""));
  return Trace(frame, at, d);
}

bool PythonComparison::SameCode(uint32_t a, uint32_t b) {
  const auto [it, is_new] = same_code_.try_emplace(uint64_t{a} << 32 | b, false);
  if (is_new) {
    const Code &x = sides_[0]->history().code(a), &y = sides_[1]->history().code(b);
    it->second = x.name == y.name && x.first_line == y.first_line && x.line_table == y.line_table;
  }
  return it->second;
}

int64_t PythonComparison::StepOf(int side, const std::array<RunningFrame, 2>& frame,
                                 int64_t offset) {
  if (scope_ == PythonScope::kOwn && SameCode(frame[0].code, frame[1].code)) return offset;
  return sides_[side]->RelativeLine(frame[side].code, offset);
}

// The instructions of the frames that ran between the points of the common history, as written to
// their frames, in one pass over a recording.
class StepStream {
 public:
  static absl::StatusOr<std::unique_ptr<StepStream>> Open(PythonSide* side, ThreadNo thread,
                                                          const std::vector<uint64_t>& words,
                                                          TimeSpan span, ScanControl* control) {
    AccessQuery query;
    for (const uint64_t word : words) query.ranges.push_back({Address(word), Address(word + 8)});
    query.span = span;
    query.thread = thread;
    ASSIGN_OR_RETURN(auto cursor, side->side().process().Accesses(std::move(query), control));
    auto out = std::unique_ptr<StepStream>(new StepStream(side));
    out->cursor_ = std::move(cursor);
    return out;
  }

  // Those of a frame after `from` up to `to`; to be asked in order of time. At most `most` are
  // kept.
  absl::Status Take(const RunningFrame& frame, Time from, Time to, size_t most,
                    std::vector<Instruction>* out) {
    out->clear();
    const bool counts =
        frame.code != python::kNoCode && frame.frame != 0 && !side_.InfoOf(frame.code).internal;
    const python::Layout* layout = counts ? &side_.history().layout_of(frame.code) : nullptr;
    const Code* code = counts ? &side_.history().code(frame.code) : nullptr;
    for (;;) {
      if (!next_ && !ended_) {
        ASSIGN_OR_RETURN(next_, cursor_->Next());
        ended_ = !next_;
      }
      if (!next_ || next_->time > to) return absl::OkStatus();
      const Access access = *std::move(next_);
      next_.reset();
      if (!counts || access.time < from || out->size() >= most ||
          access.address.v != frame.frame + layout->frame_instruction) {
        continue;
      }
      const std::optional<int64_t> offset = OffsetIn(*layout, *code, access);
      if (offset) out->push_back({access.time, *offset});
    }
  }

 private:
  explicit StepStream(PythonSide* side) : side_(*side) {}

  PythonSide& side_;
  std::unique_ptr<Cursor<Access>> cursor_;
  std::optional<Access> next_;
  bool ended_ = false;
};

// What lies between the calls and returns of the common history.
absl::StatusOr<std::optional<PythonDifference>> PythonComparison::BySteps(ThreadNo thread) {
  if (points_.size() < 2) return std::optional<PythonDifference>();
  std::array<std::unique_ptr<StepStream>, 2> streams;
  for (int i : {0, 1}) {
    absl::flat_hash_set<uint64_t> words;
    for (const auto& running : running_) {
      const RunningFrame& frame = running[i];
      if (frame.code == python::kNoCode || frame.frame == 0 ||
          sides_[i]->InfoOf(frame.code).internal) {
        continue;
      }
      words.insert(frame.frame + sides_[i]->history().layout_of(frame.code).frame_instruction);
    }
    if (words.empty()) return std::optional<PythonDifference>();
    std::vector<uint64_t> sorted(words.begin(), words.end());
    std::sort(sorted.begin(), sorted.end());
    ASSIGN_OR_RETURN(
        streams[i],
        StepStream::Open(sides_[i], thread, sorted,
                         {points_.front().time[i], points_.back().time[i] + 1}, control_));
  }
  std::array<std::vector<Instruction>, 2> steps;
  std::array<std::vector<int64_t>, 2> keys;
  for (size_t k = 0; k + 1 < points_.size(); ++k) {
    if (k % 65536 == 0 && control_ != nullptr && control_->cancelled) {
      return absl::CancelledError("interrupted");
    }
    const std::array<Time, 2> from = points_[k].time, to = points_[k + 1].time;
    const bool known =
        running_[k][0].code != python::kNoCode && running_[k][1].code != python::kNoCode;
    for (int i : {0, 1}) {
      absl::Status s = streams[i]->Take(running_[k][i], from[i], to[i], kMaxOfFunction, &steps[i]);
      if (!s.ok()) return s;
      keys[i].clear();
      for (const Instruction& step : steps[i]) {
        const int64_t key = known ? StepOf(i, running_[k], step.offset) : 0;
        if (keys[i].empty() || keys[i].back() != key) keys[i].push_back(key);
      }
    }
    if (keys[0] == keys[1]) continue;
    PythonDifference d;
    d.thread = thread;
    d.alike = k + (points_[0].time[0].v == 0 ? 0 : 1);
    d.time = to;
    d.next = {"goes on", "goes on"};
    bool lines_differ = false;
    RETURN_IF_ERROR(Describe(running_[k], from, &d, &lines_differ));
    if (lines_differ) return std::optional(std::move(d));
  }
  return std::optional<PythonDifference>();
}

}  // namespace

std::string ToText(const PythonLocation& place) {
  if (place.function.empty()) return "outside Python";
  return fmt::format("{} ({}:{})", place.function, BaseName(place.file), place.line);
}

absl::StatusOr<std::optional<PythonDifference>> ComparePython(Side* a, Side* b, PythonScope scope,
                                                              const RE2* ignore,
                                                              ScanControl* control,
                                                              std::string* note, bool* is_python) {
  std::array<std::unique_ptr<PythonSide>, 2> sides;
  const std::array<Side*, 2> of = {a, b};
  for (int i : {0, 1}) {
    auto history = FrameHistory::Whole(of[i]->recording(), of[i]->process(), control);
    if (absl::IsNotFound(history.status())) return std::optional<PythonDifference>();
    if (!history.ok()) return history.status();
    sides[i] = std::make_unique<PythonSide>(of[i], *std::move(history), scope, ignore);
  }
  *is_python = true;
  PythonComparison comparison(sides[0].get(), sides[1].get(), scope, control, note);
  std::optional<PythonDifference> first;
  for (const Thread& thread : a->process().threads()) {
    const auto& others = b->process().threads();
    if (std::none_of(others.begin(), others.end(),
                     [&](const Thread& t) { return t.number == thread.number; })) {
      continue;
    }
    ASSIGN_OR_RETURN(auto d, comparison.OfThread(thread.number));
    if (d && (!first || d->time[0] < first->time[0])) first = *std::move(d);
  }
  return first;
}

}  // namespace ttq::diff

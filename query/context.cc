// SPDX-License-Identifier: MIT
//
// Names, times and places of one process; see context.h.

#include "query/context.h"

#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "query/diagnostic.h"
#include "query/heap.h"
#include "query/python/frame_history.h"
#include "query/python/memory.h"
#include "query/python/runtime.h"
#include "query/types/expression_at.h"
#include "query/types/render.h"
#include "query/types/type_space.h"
#include "re2/re2.h"

namespace ttq {
namespace {

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

// The first three of a list, and how many more there are.
std::string FirstOf(std::vector<std::string> list, const char* separator) {
  if (list.size() > 3) {
    const size_t more = list.size() - 3;
    list.resize(3);
    list.push_back(absl::StrCat("and ", more, " more"));
  }
  return absl::StrJoin(list, separator);
}

// " (libx.so: its bytes were not recorded)": why a name may be missing.
std::string ProblemsText(const Symbolizer& symbols) {
  const std::vector<std::string> problems = symbols.Problems(), stripped = symbols.Stripped();
  std::string text;
  if (!problems.empty()) absl::StrAppend(&text, " (", FirstOf(problems, "; "), ")");
  if (!stripped.empty()) {
    absl::StrAppend(
        &text, " (stripped, with names only for what they export: ", FirstOf(stripped, ", "), ")");
  }
  return text;
}

// True when two modules ever had an address in common.
bool ShareAddresses(const LoadedModule& a, const LoadedModule& b) {
  return a.range.begin < b.range.end && b.range.begin < a.range.end;
}

}  // namespace

std::string Hex(uint64_t n) { return fmt::format("{:#x}", n); }
std::string Hex(Address a) { return Hex(a.v); }

std::string ToText(const AddressRange& range) {
  if (range.size() == 1) return Hex(range.begin);
  if (range.size() <= 64) return fmt::format("{:#x}+{}", range.begin.v, range.size());
  return fmt::format("{:#x}..{:#x}", range.begin.v, range.end.v);
}

absl::Status ErrorAt(ast::Range range, std::string message, std::string_view advice) {
  if (!advice.empty()) message.append("; ").append(advice);
  // Names come from queries and from modules: a message stays one printable line whatever they are.
  for (char& c : message) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return DiagnosticError({.message = std::move(message), .begin = range.begin, .end = range.end});
}

absl::Status UnknownAt(ast::Range range, std::string message,
                       const std::vector<std::string>& suggestions) {
  if (suggestions.empty()) return ErrorAt(range, std::move(message));
  std::string hint;
  for (size_t i = 0; i < suggestions.size(); ++i) {
    if (i > 0) hint += i + 1 == suggestions.size() ? " or " : ", ";
    hint += suggestions[i];
  }
  for (std::string* text : {&message, &hint}) {
    for (char& c : *text) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    }
  }
  return DiagnosticError({.message = std::move(message),
                          .begin = range.begin,
                          .end = range.end,
                          .hint = std::move(hint)});
}

std::vector<std::string> Nearest(std::string_view name,
                                 const std::vector<std::string>& candidates) {
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(name, candidate);
    if (distance <= std::max<size_t>(1, std::min(name.size(), candidate.size()) / 3)) {
      near.emplace_back(distance, candidate);
    }
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (size_t i = 0; i < near.size() && i < 3; ++i) names.push_back(near[i].second);
  return names;
}

Context::Context(const Recording* recording, const Process* process)
    : recording_(recording),
      process_(process),
      cache_(std::make_shared<SymbolFileCache>()),
      debug_files_(std::make_unique<DebugFiles>()) {}

Context::~Context() = default;

// REQUIRES: mutex_ is held.
absl::Status Context::LoadModules() const {
  if (loaded_) return absl::OkStatus();
  absl::StatusOr<std::vector<LoadedModule>> modules = process_->Modules();
  if (!modules.ok()) return modules.status();
  modules_ = *std::move(modules);
  for (size_t i = 0; i < modules_.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (ShareAddresses(modules_[i], modules_[j])) {
        boundaries_.push_back(modules_[i].loaded);
        break;
      }
    }
  }
  std::sort(boundaries_.begin(), boundaries_.end());
  boundaries_.erase(std::unique(boundaries_.begin(), boundaries_.end()), boundaries_.end());
  loaded_ = true;
  return absl::OkStatus();
}

// REQUIRES: mutex_ is held.
absl::StatusOr<const Symbolizer*> Context::Symbols(size_t epoch) const {
  std::unique_ptr<Symbolizer>& symbolizer = symbolizers_[epoch];
  if (symbolizer) return symbolizer.get();
  const Time end = epoch < boundaries_.size() ? boundaries_[epoch] : kTimeMax;
  std::vector<ModuleSpec> specs;
  for (const LoadedModule& module : modules_) {
    // A module that comes later is left out only where it would hide an earlier one.
    if (module.loaded >= end) {
      bool hides = false;
      for (const LoadedModule& other : modules_) {
        hides = hides || (&other != &module && ShareAddresses(module, other));
      }
      if (hides) continue;
    }
    ModuleSpec spec;
    spec.path = module.path;
    spec.build_id = module.build_id;
    spec.mappings.push_back({.range = module.range, .file_offset = 0});
    if (module.file_id != 0) {
      spec.contents = [recording = recording_, id = module.file_id] {
        return recording->FileContents(id);
      };
    }
    specs.push_back(std::move(spec));
  }
  symbolizer = std::make_unique<Symbolizer>(std::move(specs), cache_);
  return symbolizer.get();
}

absl::StatusOr<const Symbolizer*> Context::SymbolsAt(Time t) const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (absl::Status s = LoadModules(); !s.ok()) return s;
  return Symbols(std::upper_bound(boundaries_.begin(), boundaries_.end(), t) - boundaries_.begin());
}

bool Context::HasPython() const {
  {
    std::lock_guard lock(mutex_);
    if (has_python_) return *has_python_;
  }
  const bool has = [&] {
    absl::StatusOr<std::vector<LoadedModule>> modules = process_->Modules();
    if (!modules.ok()) return false;
    for (const LoadedModule& module : *modules) {
      if (module.path.find("python", module.path.rfind('/') + 1) != std::string::npos) return true;
    }
    // One that is part of a program of another name.
    const Time end = process_->info().end;
    absl::StatusOr<std::unique_ptr<Moment>> moment = process_->At(end);
    if (!moment.ok()) return false;
    python::MomentMemory memory(moment->get());
    absl::StatusOr<std::vector<python::Runtime>> runtimes =
        python::FindRuntimes(recording_, *process_, memory, end);
    return runtimes.ok() && !runtimes->empty();
  }();
  std::lock_guard lock(mutex_);
  has_python_ = has;
  return has;
}

absl::StatusOr<std::shared_ptr<const python::FrameHistory>> Context::PythonFrames(
    ScanControl* control) const {
  absl::StatusOr<std::shared_ptr<const python::FrameHistory>> history = GrowingPythonFrames();
  if (!history.ok()) return history.status();
  if (absl::Status s = (*history)->WaitForAll(control); !s.ok()) return s;
  return history;
}

absl::StatusOr<std::shared_ptr<const python::FrameHistory>> Context::GrowingPythonFrames() const {
  std::lock_guard lock(frames_mutex_);
  if (frames_) return frames_;
  if (!no_frames_.ok()) return no_frames_;
  absl::StatusOr<std::shared_ptr<const python::FrameHistory>> made =
      python::FrameHistory::Of(*recording_, *process_);
  if (!made.ok()) {
    if (absl::IsNotFound(made.status())) no_frames_ = made.status();
    return made.status();
  }
  frames_ = *std::move(made);
  return frames_;
}

bool Context::HasPythonFrames() const {
  std::lock_guard lock(frames_mutex_);
  if (frames_) return frames_->complete();
  return no_frames_.ok() && python::FrameHistory::IsKept(*recording_, *process_);
}

absl::StatusOr<const Symbolizer*> Context::AllSymbols() const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (absl::Status s = LoadModules(); !s.ok()) return s;
  return Symbols(boundaries_.size());
}

// ---- Times -----------------------------------------------------------------------------------

absl::StatusOr<Time> Context::ResolveTime(const ast::Time& time, const TimeOfQuery& ask) const {
  const ProcessInfo& info = process_->info();
  Time t;
  switch (time.kind) {
    case ast::Time::Kind::kNumber:
      t = Time(time.number);
      break;
    case ast::Time::Kind::kStart:
      t = Time(0);
      break;
    case ast::Time::Kind::kEnd:
      t = info.end;
      break;
    case ast::Time::Kind::kCrash:
      if (!info.crash) {
        std::string why = "how it ended was not recorded";
        if (info.exit_status)
          why = absl::StrCat("it exited with status ", *info.exit_status);
        else if (info.fatal_signal != 0)
          why = "it was ended by " + SignalName(info.fatal_signal);
        return ErrorAt(time.range, "the program did not crash: " + why, "use `end`");
      }
      t = *info.crash;
      break;
    case ast::Time::Kind::kQuery: {
      absl::StatusOr<QueryTime> found = ask(*time.query);
      if (!found.ok()) {
        if (absl::IsNotFound(found.status())) {
          return ErrorAt(time.range, std::string(found.status().message()));
        }
        return found.status();
      }
      t = found->time;
      break;
    }
  }
  if (time.offset < 0 && Time(-static_cast<uint64_t>(time.offset)) > t) {
    return ErrorAt(time.range, fmt::format("this time is before the start: {} - {}", t.v,
                                           -static_cast<uint64_t>(time.offset)));
  }
  if (time.offset > 0 && t.v > kTimeMax.v - static_cast<uint64_t>(time.offset)) return kTimeMax;
  return t + static_cast<uint64_t>(time.offset);
}

absl::StatusOr<Time> Context::ResolveAt(const std::optional<ast::Time>& at,
                                        const TimeOfQuery& ask) const {
  const Time end = process_->info().end;
  if (!at) return end;
  absl::StatusOr<Time> t = ResolveTime(*at, ask);
  if (!t.ok()) return t;
  if (*t > end) {
    return ErrorAt(at->range, fmt::format("time {} is past the end, {}", t->v, end.v));
  }
  return t;
}

absl::StatusOr<std::optional<uint32_t>> Context::InlinedAt(const std::optional<ast::Time>& at,
                                                           const TimeOfQuery& ask) {
  if (!at || at->kind != ast::Time::Kind::kQuery || at->offset != 0) return std::nullopt;
  absl::StatusOr<QueryTime> found = ask(*at->query);
  if (!found.ok()) return found.status();
  return found->inlined;
}

absl::StatusOr<TimeSpan> Context::ResolveSpan(const std::optional<ast::Span>& span,
                                              const TimeOfQuery& ask) const {
  TimeSpan result;
  if (!span) return result;
  absl::StatusOr<Time> first = ResolveTime(span->first, ask);
  if (!first.ok()) return first.status();
  switch (span->kind) {
    case ast::Span::Kind::kBefore:
      result.end = *first;
      break;
    case ast::Span::Kind::kAfter:
      result.begin = *first == kTimeMax ? kTimeMax : *first + 1;
      break;
    case ast::Span::Kind::kBetween: {
      absl::StatusOr<Time> second = ResolveTime(*span->second, ask);
      if (!second.ok()) return second.status();
      if (*second < *first) {
        return ErrorAt(span->range, fmt::format("nothing lies between {} and {}: the first time is "
                                                "later than the second",
                                                first->v, second->v));
      }
      result = {*first, *second};
      break;
    }
  }
  return result;
}

absl::StatusOr<std::optional<ThreadNo>> Context::ResolveThread(
    const std::optional<ast::ThreadFilter>& thread) const {
  if (!thread || thread->all) return std::nullopt;
  for (const Thread& t : process_->threads()) {
    if (t.number.v == thread->number) return t.number;
  }
  const size_t count = process_->threads().size();
  return ErrorAt(thread->range,
                 fmt::format("there is no thread {}: this process had {}", thread->number,
                             count == 1 ? "only thread 1" : fmt::format("threads 1 to {}", count)));
}

// ---- Locations -------------------------------------------------------------------------------

absl::StatusOr<const TypeSpace*> Context::TypesAt(Time t) const {
  absl::StatusOr<const Symbolizer*> symbols = SymbolsAt(t);
  if (!symbols.ok()) return symbols.status();
  std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<TypeSpace>& types = types_[*symbols];
  if (!types) {
    types = std::make_unique<TypeSpace>(*symbols, debug_files_.get(), process_->info().program);
  }
  return types.get();
}

absl::Status Context::NoGlobal(ast::Range range, const std::string& name,
                               const std::vector<std::string>& near) const {
  absl::StatusOr<const Symbolizer*> symbols = AllSymbols();
  if (!symbols.ok()) return symbols.status();
  std::string message = absl::StrCat("no module has a global named ", name);
  message += ProblemsText(**symbols);
  return UnknownAt(range, std::move(message), near);
}

std::vector<std::string> Context::GlobalsLike(const std::string& name) const {
  absl::StatusOr<const Symbolizer*> symbols = AllSymbols();
  if (!symbols.ok()) return {};
  return (*symbols)->VariablesLike(name);
}

absl::StatusOr<std::optional<VariableInfo>> Context::FindGlobal(ast::Range range,
                                                                const std::string& name) const {
  absl::StatusOr<const Symbolizer*> symbols = AllSymbols();
  if (!symbols.ok()) return symbols.status();
  absl::StatusOr<std::vector<VariableInfo>> matches =
      (*symbols)->FindVariables({.kind = NamePattern::Kind::kName, .text = name});
  if (!matches.ok()) return ErrorAt(range, std::string(matches.status().message()));
  std::vector<VariableInfo> found = *std::move(matches);
  if (found.empty()) return std::nullopt;
  // The dynamic linker binds a name to the program's own variable before a library's, and a static
  // is seen only where it is defined.
  auto keep = [&found](auto&& wanted) {
    if (std::any_of(found.begin(), found.end(), wanted)) {
      std::erase_if(found, [&](const VariableInfo& v) { return !wanted(v); });
    }
  };
  if (found.size() > 1) keep([&](const VariableInfo& v) { return v.name == name; });
  if (found.size() > 1) keep([](const VariableInfo& v) { return !v.is_static; });
  if (found.size() > 1) {
    const std::string& program = process_->info().program;
    const std::string base = program.substr(program.rfind('/') + 1);
    keep([&](const VariableInfo& v) { return v.module == base; });
  }
  if (found.size() > 1) {
    std::vector<std::string> places;
    for (const VariableInfo& v : found) {
      places.push_back(fmt::format("{}!{} at {:#x} len {}", v.module, v.name, v.address.v,
                                   std::max<uint64_t>(v.size, 1)));
    }
    std::sort(places.begin(), places.end());
    if (places.size() > 5) {
      places.resize(5);
      places.push_back("…");
    }
    return ErrorAt(range,
                   fmt::format("{} names several variables: {}", name, absl::StrJoin(places, ", ")),
                   "write the address of the one you mean");
  }
  return std::optional<VariableInfo>(std::move(found[0]));
}

namespace {

// An expression of nothing but numbers: an address, whatever C would say of their types.
absl::StatusOr<std::optional<uint64_t>> PlainNumber(const ast::Expr& expr, int depth) {
  if (depth > 100) return ErrorAt(expr.range, "this expression is nested too deeply");
  if (const auto* number = std::get_if<ast::Number>(&expr.node)) return number->value;
  if (const auto* unary = std::get_if<ast::Unary>(&expr.node)) {
    absl::StatusOr<std::optional<uint64_t>> v = PlainNumber(*unary->operand, depth + 1);
    if (!v.ok() || !*v) return v;
    switch (unary->op) {
      case ast::UnaryOp::kMinus:
        return 0 - **v;
      case ast::UnaryOp::kBitNot:
        return ~**v;
      case ast::UnaryOp::kNot:
        return **v == 0;
      case ast::UnaryOp::kPlus:
        return v;
      default:
        return std::nullopt;
    }
  }
  const auto* binary = std::get_if<ast::Binary>(&expr.node);
  if (!binary) return std::nullopt;
  absl::StatusOr<std::optional<uint64_t>> left = PlainNumber(*binary->left, depth + 1);
  if (!left.ok() || !*left) return left;
  absl::StatusOr<std::optional<uint64_t>> right = PlainNumber(*binary->right, depth + 1);
  if (!right.ok() || !*right) return right;
  const uint64_t a = **left, b = **right;
  switch (binary->op) {
    case ast::BinaryOp::kAdd:
      return a + b;
    case ast::BinaryOp::kSub:
      return a - b;
    case ast::BinaryOp::kMul:
      return a * b;
    case ast::BinaryOp::kDiv:
    case ast::BinaryOp::kMod:
      if (b == 0) return ErrorAt(expr.range, "division by zero");
      return binary->op == ast::BinaryOp::kDiv ? a / b : a % b;
    case ast::BinaryOp::kShiftLeft:
      return b < 64 ? a << b : 0;
    case ast::BinaryOp::kShiftRight:
      return b < 64 ? a >> b : 0;
    case ast::BinaryOp::kBitAnd:
      return a & b;
    case ast::BinaryOp::kBitOr:
      return a | b;
    case ast::BinaryOp::kBitXor:
      return a ^ b;
    default:
      return ErrorAt(expr.range, "a comparison names no memory");
  }
}

}  // namespace

absl::StatusOr<Context::Place> Context::EvaluatePlace(const ast::Expr& expr,
                                                      const EvaluateAt& where) const {
  absl::StatusOr<std::optional<uint64_t>> plain = PlainNumber(expr, 0);
  if (!plain.ok()) return plain.status();
  if (*plain) return Place{.address = Address(**plain), .text = Hex(**plain)};
  const Time t = where.time.value_or(process_->info().end);
  absl::StatusOr<std::unique_ptr<Moment>> moment = process_->At(t);
  if (!moment.ok()) return moment.status();
  absl::StatusOr<EvaluatedValue> result = EvaluateExpression(
      *this, expr, moment->get(), where.time.has_value(), where.thread, where.frame, where.inlined);
  if (!result.ok()) return result.status();
  const CValue& value = result->value;
  const TypeSpace& types = *result->types;
  const CType* type = value.type->Strip();
  Place place;
  place.text = ast::ToString(expr);
  if (value.has_address() && type->kind != CType::Kind::kFunction) {
    place.address = Address(value.address);
    place.size = types.SizeOf(value.type).value_or(0);
    place.lvalue = true;
    return place;
  }
  if (value.home) {
    place.address = Address(*value.home);
    place.size = types.SizeOf(value.type).value_or(0);
    place.lvalue = true;
    place.note = fmt::format("at the function's entry {} is not there yet", place.text);
    return place;
  }
  if (value.in_memory && value.bit_size > 0) {
    place.address = Address(value.address + value.bit_offset / 8);
    place.size = (value.bit_offset % 8 + value.bit_size + 7) / 8;
    place.lvalue = true;
    place.note = fmt::format("{} is a bit-field: other fields share its bytes", place.text);
    return place;
  }
  if (type->kind == CType::Kind::kFunction) {
    place.address = Address(value.address);
    place.text = Hex(place.address);
    return place;
  }
  const bool name_of_object = std::holds_alternative<ast::Name>(expr.node) ||
                              std::holds_alternative<ast::Member>(expr.node) ||
                              std::holds_alternative<ast::Index>(expr.node);
  if (!value.missing.empty()) {
    return ErrorAt(expr.range, "this has no place in memory: " + value.missing);
  }
  if (name_of_object || !type->IsScalar() || type->kind == CType::Kind::kFloat) {
    return ErrorAt(
        expr.range,
        where.time ? "this is in a register then, not in memory" : "this names no memory",
        where.time ? "" : "say when: `before TIME` or `at TIME`");
  }
  absl::StatusOr<std::optional<uint64_t>> n = ValueReader(types, moment->get()).Number(value);
  if (!n.ok()) return n.status();
  if (!*n) return ErrorAt(expr.range, "this has no value here");
  place.address = Address(**n);
  place.text = Hex(place.address);
  return place;
}

absl::StatusOr<ResolvedLocation> Context::ResolveLocation(const ast::Location& location,
                                                          uint64_t default_length,
                                                          const EvaluateAt& where) const {
  absl::StatusOr<Place> start = EvaluatePlace(*location.start, where);
  if (!start.ok()) return start.status();
  uint64_t length = location.length.value_or(start->lvalue ? start->size : default_length);
  ResolvedLocation result;
  result.note = start->note;
  if (location.end) {
    absl::StatusOr<Place> end = EvaluatePlace(*location.end, where);
    if (!end.ok()) return end.status();
    if (end->address <= start->address) {
      return ErrorAt(location.range, fmt::format("the end, {:#x}, is not after the start, {:#x}",
                                                 end->address.v, start->address.v));
    }
    length = end->address.v - start->address.v;
  } else if (length == 0) {
    length = 8;
    result.note = fmt::format("the size of {} is not known; 8 bytes are assumed", start->text);
  }
  if (start->address.v + length < start->address.v) {
    if (location.length || location.end) {
      return ErrorAt(location.range, "this range goes past the end of the address space");
    }
    length = -start->address.v;
    // The very last byte of the address space has no end that 64 bits can hold.
    if (start->address.v + length == 0) --length;
    if (length == 0) return ErrorAt(location.range, "no program can have memory here");
  }
  result.ranges.push_back({start->address, start->address + length});
  result.text = ToText(result.ranges[0]);
  if (start->lvalue && !location.length && !location.end && start->text != Hex(start->address)) {
    result.text = fmt::format("{} ({})", start->text, result.text);
  }
  return result;
}

// ---- Code ------------------------------------------------------------------------------------

// Replaces functions that only say which one is to be called under their name by those that they
// chose: what their calls returned.
absl::Status Context::UseChosen(const Symbolizer& symbols, std::vector<FunctionInfo>* functions,
                                std::string* note) const {
  CallQuery resolvers;
  std::map<Address, std::string> names;
  for (const FunctionInfo& f : *functions) {
    if (!f.is_resolver || !f.entry || f.entry->v == ~uint64_t{0}) continue;
    resolvers.entries.push_back(*f.entry);
    names.emplace(*f.entry, f.name);
  }
  if (names.empty()) return absl::OkStatus();
  auto calls = process_->Calls(resolvers, nullptr);
  if (!calls.ok()) return calls.status();
  std::map<Address, std::set<Address>> chosen;
  for (;;) {
    absl::StatusOr<std::optional<Call>> call = (*calls)->Next();
    if (!call.ok()) return call.status();
    if (!*call) break;
    if ((*call)->return_time != kTimeMax) chosen[(*call)->entry].insert(Address((*call)->result));
  }
  std::erase_if(*functions, [&](const FunctionInfo& f) {
    return f.is_resolver && f.entry && chosen.contains(*f.entry);
  });
  std::vector<std::string> said;
  for (const auto& [resolver, addresses] : chosen) {
    for (const Address address : addresses) {
      std::optional<FunctionInfo> f = symbols.FunctionAt(address);
      if (!f) continue;
      f->entry = address;
      said.push_back(absl::StrCat(names[resolver], " is ", f->name));
      functions->push_back(*std::move(f));
    }
  }
  if (said.size() > 3) {
    const size_t more = said.size() - 3;
    said.resize(3);
    said.push_back(absl::StrCat("and ", more, " more"));
  }
  if (!said.empty()) {
    *note = absl::StrCat("the dynamic linker chose: ", absl::StrJoin(said, ", "),
                         "; calls under other names of that code are among the rows");
  }
  return absl::OkStatus();
}

absl::StatusOr<ResolvedCode> Context::ResolveFunction(const ast::FunctionPattern& function) const {
  absl::StatusOr<const Symbolizer*> symbols = AllSymbols();
  if (!symbols.ok()) return symbols.status();
  NamePattern pattern;
  pattern.text = function.function.text;
  switch (function.function.kind) {
    case ast::Pattern::Kind::kName:
      pattern.kind = NamePattern::Kind::kName;
      break;
    case ast::Pattern::Kind::kGlob:
      pattern.kind = NamePattern::Kind::kGlob;
      break;
    case ast::Pattern::Kind::kRegex:
      pattern.kind = NamePattern::Kind::kRegex;
      break;
  }
  std::unique_ptr<RE2> module_regex;
  if (function.module) {
    if (function.module->kind == ast::Pattern::Kind::kRegex) {
      module_regex = std::make_unique<RE2>(function.module->text, RE2::Quiet);
      if (!module_regex->ok()) {
        return ErrorAt(function.module->range,
                       "this regex is not understood: " + module_regex->error());
      }
    } else {
      pattern.module = function.module->text;
    }
  }
  absl::StatusOr<NameMatches<FunctionInfo>> matches = (*symbols)->FindFunctions(pattern);
  if (!matches.ok()) return ErrorAt(function.range, std::string(matches.status().message()));
  ResolvedCode code;
  code.text = ast::ToString(function);
  if (module_regex) {
    std::erase_if(matches->found, [&](const FunctionInfo& f) {
      return !RE2::PartialMatch(f.module, *module_regex);
    });
  }
  if (absl::Status s = UseChosen(**symbols, &matches->found, &code.note); !s.ok()) return s;
  for (const FunctionInfo& f : matches->found) {
    if (f.entry) code.functions.push_back(*f.entry);
    for (const CodeRange& piece : f.ranges) {
      if (!piece.range.empty()) code.ranges.push_back(piece.range);
      if (piece.kind == CodeRange::Kind::kInlined) {
        code.entries.push_back(piece.entry);
        code.inlined.push_back({piece.entry, f.name});
      }
    }
  }
  code.entries.insert(code.entries.end(), code.functions.begin(), code.functions.end());
  const auto sort = [](auto& list) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  };
  sort(code.inlined);
  sort(code.functions);
  sort(code.entries);
  if (code.ranges.empty()) {
    std::string message = function.module ? absl::StrCat("no function matches ", code.text)
                          : function.function.kind == ast::Pattern::Kind::kName
                              ? absl::StrCat("no module has a function named ", code.text)
                              : absl::StrCat("no module has a function that matches ", code.text);
    message += ProblemsText(**symbols);
    return UnknownAt(function.range, std::move(message), matches->suggestions);
  }
  return code;
}

absl::StatusOr<ResolvedCode> Context::ResolvePlace(const ast::Place& place) const {
  if (const auto* function = std::get_if<ast::FunctionPattern>(&place.what)) {
    return ResolveFunction(*function);
  }
  ResolvedCode code;
  if (const auto* number = std::get_if<ast::Number>(&place.what)) {
    const Address at(number->value);
    if (at.v == ~uint64_t{0}) return ErrorAt(place.range, "no program can have code here");
    code.ranges.push_back({at, at + 1});
    code.entries.push_back(at);
    code.text = Hex(at);
    return code;
  }
  const auto& line = std::get<ast::FileLine>(place.what);
  absl::StatusOr<const Symbolizer*> symbols = AllSymbols();
  if (!symbols.ok()) return symbols.status();
  if (line.line > static_cast<uint64_t>(std::numeric_limits<int>::max())) {
    return ErrorAt(place.range, "no file has so many lines");
  }
  NameMatches<LineMatch> matches = (*symbols)->FindLine(line.file, static_cast<int>(line.line));
  code.text = absl::StrCat(line.file, ":", line.line);
  if (matches.found.empty()) {
    return UnknownAt(place.range, absl::StrCat("no module has code for ", code.text),
                     matches.suggestions);
  }
  const int actual = matches.found[0].line;
  std::sort(matches.found.begin(), matches.found.end(),
            [](const auto& a, const auto& b) { return a.range.begin < b.range.begin; });
  // Rows of one line that touch are one visit to it.
  for (const LineMatch& match : matches.found) {
    if (match.range.empty()) continue;
    if (!code.ranges.empty() && code.ranges.back().end >= match.range.begin) {
      code.ranges.back().end = std::max(code.ranges.back().end, match.range.end);
    } else {
      code.ranges.push_back(match.range);
      code.entries.push_back(match.range.begin);
    }
  }
  if (static_cast<uint64_t>(actual) != line.line) {
    code.note = fmt::format("{} has no code; line {} is the next that has", code.text, actual);
    code.text = absl::StrCat(line.file, ":", actual);
  }
  return code;
}

}  // namespace ttq

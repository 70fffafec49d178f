// SPDX-License-Identifier: MIT

#include "query/sources/resolve.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/ctypes/expression_at.h"
#include "query/ctypes/render.h"
#include "query/ctypes/type_space.h"
#include "query/language/diagnostic.h"
#include "re2/re2.h"
#include "store/read/moment_info.h"

namespace ttq {

// ---- Times -----------------------------------------------------------------------------------

absl::StatusOr<Time> ResolveTime(const Context& context, const ast::Time& time,
                                 const TimeOfQuery& ask) {
  const ProcessInfo& info = context.process().info();
  Time t;
  switch (time.kind) {
    case ast::Time::Kind::kNumber:
      t = Time(time.number);
      break;
    case ast::Time::Kind::kStart:
      if (const MomentInfo& moment = MomentInfoOf(context.process()); moment.history_unknown()) {
        return ErrorAt(time.range,
                       fmt::format("the start of the process is unknown: of it there is {} alone",
                                   MomentName(moment.beginning)),
                       "leave the time out");
      }
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

absl::StatusOr<Time> ResolveAt(const Context& context, const std::optional<ast::Time>& at,
                               const TimeOfQuery& ask) {
  const Time end = context.process().info().end;
  if (!at) return end;
  ASSIGN_OR_RETURN(Time t, ResolveTime(context, *at, ask));
  if (t > end) {
    return ErrorAt(at->range, fmt::format("time {} is past the end, {}", t.v, end.v));
  }
  return t;
}

absl::StatusOr<std::optional<uint32_t>> InlinedAt(const std::optional<ast::Time>& at,
                                                  const TimeOfQuery& ask) {
  if (!at || at->kind != ast::Time::Kind::kQuery || at->offset != 0) return std::nullopt;
  ASSIGN_OR_RETURN(QueryTime found, ask(*at->query));
  return found.inlined;
}

absl::StatusOr<TimeSpan> ResolveSpan(const Context& context, const std::optional<ast::Span>& span,
                                     const TimeOfQuery& ask) {
  TimeSpan result;
  if (!span) return result;
  ASSIGN_OR_RETURN(Time first, ResolveTime(context, span->first, ask));
  switch (span->kind) {
    case ast::Span::Kind::kBefore:
      result.end = first;
      break;
    case ast::Span::Kind::kAfter:
      result.begin = first == kTimeMax ? kTimeMax : first + 1;
      break;
    case ast::Span::Kind::kBetween: {
      ASSIGN_OR_RETURN(Time second, ResolveTime(context, *span->second, ask));
      if (second < first) {
        return ErrorAt(span->range, fmt::format("nothing lies between {} and {}: the first time is "
                                                "later than the second",
                                                first.v, second.v));
      }
      result = {first, second};
      break;
    }
  }
  return result;
}

absl::StatusOr<std::optional<ThreadNo>> ResolveThread(
    const Context& context, const std::optional<ast::ThreadFilter>& thread) {
  if (!thread || thread->all) return std::nullopt;
  for (const Thread& t : context.process().threads()) {
    if (t.number.v == thread->number) return t.number;
  }
  const size_t count = context.process().threads().size();
  return ErrorAt(thread->range,
                 fmt::format("there is no thread {}: this process had {}", thread->number,
                             count == 1 ? "only thread 1" : fmt::format("threads 1 to {}", count)));
}

// ---- Locations -------------------------------------------------------------------------------

namespace {

struct Evaluated {
  Address address;
  uint64_t size = 0;    // 0: not known
  bool lvalue = false;  // names memory at `address`; otherwise `address` is just a number
  std::string text;
  std::string note;
  NumberFormat number;
};

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

// A type, or that of the one member that a struct is all of (std::atomic<int>).
const CType* ScalarOf(const TypeSpace& types, const CType* type) {
  constexpr int kMaxDepth = 8;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    type = types.Complete(type);
    const CType* only = nullptr;
    size_t members = 0;
    if (type->kind == CType::Kind::kStruct) {
      for (const CMember& member : type->members) {
        if (member.is_static || member.bit_size > 0) continue;
        only = type->At(member.type);
        ++members;
      }
    }
    if (members != 1 || types.SizeOf(only) != types.SizeOf(type)) break;
    type = only;
  }
  return type->Strip();
}

}  // namespace

absl::StatusOr<Evaluated> EvaluateLocation(const Context& context, const ast::Expr& expr,
                                           const EvaluateAt& where) {
  ASSIGN_OR_RETURN(std::optional<uint64_t> plain, PlainNumber(expr, 0));
  if (plain) return Evaluated{.address = Address(*plain), .text = Hex(*plain)};
  const Time t = where.time.value_or(context.process().info().end);
  ASSIGN_OR_RETURN(std::unique_ptr<Moment> moment, context.process().At(t));
  ASSIGN_OR_RETURN(EvaluatedValue result,
                   EvaluateExpression(context, expr, moment.get(), where.time.has_value(),
                                      where.thread, where.frame, where.inlined));
  const CValue& value = result.value;
  const TypeSpace& types = *result.types;
  const CType* type = value.type->Strip();
  Evaluated place;
  place.text = ast::ToString(expr);
  const CType* number = ScalarOf(types, value.type);
  if (number->kind == CType::Kind::kFloat) {
    place.number.kind = NumberFormat::Kind::kReal;
    place.number.real = number;
  } else if (number->is_signed && (number->IsIntegral() || number->kind == CType::Kind::kEnum)) {
    place.number.kind = NumberFormat::Kind::kSigned;
  }
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
    place.number.bit_offset = value.bit_offset % 8;
    place.number.bit_size = value.bit_size;
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
  ASSIGN_OR_RETURN(std::optional<uint64_t> n, ValueReader(types, moment.get()).Number(value));
  if (!n) return ErrorAt(expr.range, "this has no value here");
  place.address = Address(*n);
  place.text = Hex(place.address);
  return place;
}

absl::StatusOr<ResolvedLocation> ResolveLocation(const Context& context,
                                                 const ast::Location& location,
                                                 uint64_t default_length, const EvaluateAt& where) {
  ASSIGN_OR_RETURN(Evaluated start, EvaluateLocation(context, *location.start, where));
  uint64_t length = location.length.value_or(start.lvalue ? start.size : default_length);
  ResolvedLocation result;
  result.note = start.note;
  if (location.end) {
    ASSIGN_OR_RETURN(Evaluated end, EvaluateLocation(context, *location.end, where));
    if (end.address <= start.address) {
      return ErrorAt(location.range, fmt::format("the end, {:#x}, is not after the start, {:#x}",
                                                 end.address.v, start.address.v));
    }
    length = end.address.v - start.address.v;
  } else if (length == 0) {
    length = 8;
    result.note = fmt::format("the size of {} is not known; 8 bytes are assumed", start.text);
  }
  if (start.address.v + length < start.address.v) {
    if (location.length || location.end) {
      return ErrorAt(location.range, "this range goes past the end of the address space");
    }
    length = -start.address.v;
    // The very last byte of the address space has no end that 64 bits can hold.
    if (start.address.v + length == 0) --length;
    if (length == 0) return ErrorAt(location.range, "no program can have memory here");
  }
  const bool sized = location.length || location.end;
  const bool real = !sized && start.number.real != nullptr;
  if ((length <= 8 && (sized || start.lvalue)) || (real && start.lvalue)) {
    result.number = sized ? NumberFormat() : start.number;
  }
  result.ranges.push_back({start.address, start.address + length});
  result.text = ToText(result.ranges[0]);
  if (start.lvalue && !location.length && !location.end && start.text != Hex(start.address)) {
    result.text = fmt::format("{} ({})", start.text, result.text);
  }
  return result;
}

// ---- Code ------------------------------------------------------------------------------------

// Replaces functions that only say which one is to be called under their name by those that they
// chose: what their calls returned.
absl::Status UseChosen(const Context& context, const Symbolizer& symbols,
                       std::vector<FunctionInfo>* functions, std::string* note) {
  CallQuery resolvers;
  std::map<Address, std::string> names;
  for (const FunctionInfo& f : *functions) {
    if (!f.is_resolver || !f.entry || f.entry->v == ~uint64_t{0}) continue;
    resolvers.entries.push_back(*f.entry);
    names.emplace(*f.entry, f.name);
  }
  if (names.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto calls, context.process().Calls(resolvers, nullptr));
  std::map<Address, std::set<Address>> chosen;
  for (;;) {
    ASSIGN_OR_RETURN(std::optional<Call> call, calls->Next());
    if (!call) break;
    if (call->return_time != kTimeMax) chosen[call->entry].insert(Address(call->result));
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
  if (!said.empty()) {
    *note = absl::StrCat("the dynamic linker chose: ", FirstThree(std::move(said), ", "),
                         "; calls under other names of that code are among the rows");
  }
  return absl::OkStatus();
}

absl::StatusOr<ResolvedCode> ResolveFunction(const Context& context,
                                             const ast::FunctionPattern& function) {
  ASSIGN_OR_RETURN(const Symbolizer* symbols, context.AllSymbols());
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
  absl::StatusOr<NameMatches<FunctionInfo>> matches = symbols->FindFunctions(pattern);
  if (!matches.ok()) return ErrorAt(function.range, std::string(matches.status().message()));
  ResolvedCode code;
  code.text = ast::ToString(function);
  if (module_regex) {
    std::erase_if(matches->found, [&](const FunctionInfo& f) {
      return !RE2::PartialMatch(f.module, *module_regex);
    });
  }
  RETURN_IF_ERROR(UseChosen(context, *symbols, &matches->found, &code.note));
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
    message += WhyNamesAreMissing(*symbols);
    return UnknownAt(function.range, std::move(message), matches->suggestions);
  }
  return code;
}

namespace {

// The last line before `line` that any module has code for; 0: the file has no code.
int LastLineWithCode(const Symbolizer& symbols, const ast::FileLine& line) {
  int last = 0, without = static_cast<int>(line.line);
  while (last + 1 < without) {
    const int middle = last + (without - last) / 2;
    const NameMatches<LineMatch> at_or_after = symbols.FindLine(line.file, middle);
    if (at_or_after.found.empty()) {
      without = middle;
    } else {
      last = middle;
      for (const LineMatch& match : at_or_after.found) last = std::max(last, match.line);
    }
  }
  return last;
}

}  // namespace

absl::StatusOr<ResolvedCode> ResolvePlace(const Context& context, const ast::Place& place) {
  if (const auto* function = std::get_if<ast::FunctionPattern>(&place.what)) {
    return ResolveFunction(context, *function);
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
  ASSIGN_OR_RETURN(const Symbolizer* symbols, context.AllSymbols());
  if (line.line > static_cast<uint64_t>(std::numeric_limits<int>::max())) {
    return ErrorAt(place.range, "no file has so many lines");
  }
  NameMatches<LineMatch> matches = symbols->FindLine(line.file, static_cast<int>(line.line));
  code.text = absl::StrCat(line.file, ":", line.line);
  if (matches.found.empty()) {
    if (const int last = LastLineWithCode(*symbols, line); last > 0) {
      return ErrorAt(place.range,
                     fmt::format("{} has no code, nor has any line after it; line {} is "
                                 "the last that has",
                                 code.text, last));
    }
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

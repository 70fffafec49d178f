// SPDX-License-Identifier: MIT

#include "query/cpython/balance.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/code/symbols.h"
#include "query/cpython/holders.h"
#include "query/cpython/lifetime.h"

namespace ttq::python {
namespace {

// Calls that take longer are not gone through word by word.
constexpr uint64_t kLongestCall = 20'000'000;
constexpr size_t kMaxFrames = 200;
constexpr uint64_t kMaxChanges = 20'000;
// Functions whose results are looked at for a borrowed reference that was returned, and their
// calls.
constexpr size_t kMaxFunctions = 4000, kMaxCalls = 100'000;
constexpr uint64_t kEndOfMemory = uint64_t{1} << 47;

bool Holds(const std::string& bytes, uint64_t offset, uint64_t object) {
  if (offset + 8 > bytes.size()) return false;
  uint64_t value = 0;
  memcpy(&value, bytes.data() + offset, 8);
  return value == object;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Balance>> Balance::Make(const Context& context,
                                                       Provenance& provenance, uint64_t object,
                                                       Time t, ScanControl* control) {
  ASSIGN_OR_RETURN(PythonState * state, provenance.StateAt(t));
  if (state == nullptr || state->instances().empty()) {
    return absl::NotFoundError("no CPython that is known");
  }
  const Extensions extensions(context.process(), state->instances()[0]->runtime);
  std::unique_ptr<Balance> balance(new Balance(context, provenance, extensions, object, control));
  ASSIGN_OR_RETURN(balance->symbols_, context.SymbolsAt(t));
  return balance;
}

absl::StatusOr<size_t> Balance::ActivationOf(ThreadNo thread, uint64_t cfa, Time t) {
  std::vector<size_t>& known = by_cfa_[{thread.v, cfa}];
  for (size_t i = known.size(); i-- > 0;) {
    if (activations_[known[i]].Runs(t)) return known[i];
  }
  // The call instruction pushed the return address.
  AccessQuery query;
  query.ranges = {{Address(cfa - 8), Address(cfa)}};
  query.span.end = t;
  query.thread = thread;
  query.want_values = false;
  ASSIGN_OR_RETURN(std::optional<Access> pushed, LastAccess(context_.process(), std::move(query)));
  if (!pushed) return kNone;
  Activation activation;
  activation.thread = thread;
  activation.cfa = cfa;
  activation.entry = pushed->time + 1;
  ASSIGN_OR_RETURN(Registers registers, context_.process().RegistersAt(activation.entry, thread));
  activation.function = registers.pc;
  for (int i = 0; i < 6; ++i) activation.args[i] = registers.gpr[ArgumentRegister(i)];
  CallQuery calls;
  calls.entries = {activation.function};
  calls.span = {activation.entry, activation.entry + 1};
  calls.thread = thread;
  ASSIGN_OR_RETURN(auto cursor, context_.process().Calls(std::move(calls), control_));
  ASSIGN_OR_RETURN(std::optional<ttq::Call> call, cursor->Next());
  if (call) {
    activation.left = call->return_time;
    activation.result = call->result;
  }
  activations_.push_back(activation);
  known.push_back(activations_.size() - 1);
  return known.back();
}

size_t Balance::CallOf(size_t activation) {
  const auto [it, is_new] = call_of_.try_emplace(activation, calls_.size());
  if (is_new) {
    calls_.emplace_back();
    calls_.back().activation = activation;
  }
  return it->second;
}

absl::StatusOr<Balance::Located> Balance::Locate(ThreadNo thread, Time t) {
  ASSIGN_OR_RETURN(Moment * moment, moment_.At(t));
  StackOptions options;
  options.max_frames = kMaxFrames;
  absl::StatusOr<ttq::Stack> stack = moment_.unwinder().StackOf(*moment, thread, options);
  if (absl::IsNotFound(stack.status())) return Located();
  if (!stack.ok()) return stack.status();
  // Frames of functions inlined into one another are one.
  struct Physical {
    const ttq::Frame* innermost;
    const ttq::Frame* outermost;
  };
  std::vector<Physical> frames;
  const ttq::Frame* innermost = nullptr;
  for (const ttq::Frame& frame : stack->frames) {
    if (frame.is_gone) continue;  // LastSiteOf tells of those
    if (!innermost) innermost = &frame;
    if (frame.kind == ttq::Frame::Kind::kInlined) continue;
    frames.push_back({innermost, &frame});
    innermost = nullptr;
  }
  Located located;
  bool nested = false;
  for (size_t i = 0; i < frames.size(); ++i) {
    const ttq::Frame& outermost = *frames[i].outermost;
    if (!outermost.cfa) break;
    const bool in_extension = extensions_.Contains(outermost.module);
    size_t last = i;
    while (in_extension && last + 1 < frames.size() &&
           extensions_.Contains(frames[last + 1].outermost->module)) {
      ++last;
    }
    if (!frames[last].outermost->cfa) break;
    // What an extension ends with may have taken its frame's place. It was called by a pointer.
    bool replaced = false;
    if (!in_extension) {
      nested = nested || IsEvaluation(outermost);
      if (i + 1 == frames.size()) break;
      ASSIGN_OR_RETURN(bool direct, IsDirectCall(*moment, frames[i + 1].innermost->pc));
      if (direct) continue;
    }
    ASSIGN_OR_RETURN(size_t activation, ActivationOf(thread, frames[last].outermost->cfa->v, t));
    if (activation == kNone) continue;
    if (!in_extension) {
      const Address function = activations_[activation].function;
      replaced =
          IsInExtension(function) && symbols_->Symbolize(function)->source != NameSource::kPlt;
      if (!replaced) continue;
    }
    absl::StatusOr<size_t> child = kNone;
    if (i > 0) child = ActivationOf(thread, frames[i - 1].outermost->cfa->v, t);
    if (!child.ok()) return child.status();
    const size_t call = CallOf(activation);
    if (*child != kNone) {
      bool& inside = calls_[call].children[*child];
      inside = inside || nested;
    } else if (nested) {
      calls_[call].opaque = true;
    }
    if (!nested) {
      located.call = call;
      located.child = *child;
      if (!in_extension) {
        ASSIGN_OR_RETURN(located.site, LastSiteOf(activations_[activation], t));
      } else {
        // The line in the extension's own text, the function that really exists there.
        const ttq::Frame* line = frames[i].innermost;
        while (line < frames[i].outermost && line->file.find("/include/") != std::string::npos) {
          ++line;
        }
        located.site = {outermost.function, outermost.module, line->file, line->line};
      }
    }
    nested = true;
    i = last;
  }
  return located;
}

// Whether what returns there was called by its address: `call` with the distance to it.
absl::StatusOr<bool> Balance::IsDirectCall(Moment& moment, Address return_address) {
  uint8_t bytes[5];
  ASSIGN_OR_RETURN(const uint64_t known,
                   moment.Read(Address(return_address.v - sizeof bytes), sizeof bytes, bytes));
  if (known < sizeof bytes || bytes[0] != 0xe8) return false;
  int32_t distance = 0;
  memcpy(&distance, bytes + 1, 4);
  const Address target(return_address.v + static_cast<uint64_t>(int64_t{distance}));
  const Module* module = symbols_->ModuleAt(target);
  return module && module == symbols_->ModuleAt(return_address);
}

bool Balance::IsInExtension(Address pc) {
  const Module* module = symbols_->ModuleAt(pc);
  return module && extensions_.Contains(module->name());
}

// Of a call whose frame another function has taken over by `t`: where it jumped there.
absl::StatusOr<Site> Balance::LastSiteOf(const Activation& activation, Time t) {
  const std::optional<FunctionInfo> function = symbols_->FunctionAt(activation.function);
  std::vector<AddressRange> code = {{activation.function, activation.function + 1}};
  if (function) {
    for (const CodeRange& range : function->ranges) {
      if (range.kind != CodeRange::Kind::kInlined) code.push_back(range.range);
    }
  }
  ASSIGN_OR_RETURN(auto cursor, context_.process().Executions(
                                    std::move(code), {activation.entry, t}, Direction::kBackward,
                                    activation.thread, control_));
  ASSIGN_OR_RETURN(std::optional<Execution> last, cursor->Next());
  return SiteOf(last ? last->pc : activation.function);
}

absl::StatusOr<std::optional<Site>> Balance::Count(const Access& access, int64_t delta) {
  changes_.emplace_back(access.time, delta);
  if (changes_.size() > kMaxChanges) {
    incomplete_ =
        fmt::format("of its references only the first {} changes were told apart", kMaxChanges);
    return std::optional<Site>();
  }
  ASSIGN_OR_RETURN(Located located, Locate(access.thread, access.time));
  if (located.call == kNone) return std::optional<Site>();
  calls_[located.call].changes.push_back({access.time, delta, located.child, located.site});
  return std::optional<Site>(located.site);
}

absl::StatusOr<std::map<uint64_t, Balance::Stored>> Balance::WordsOf(const Call& call) {
  std::map<uint64_t, Stored> words;
  const Activation& of = activations_[call.activation];
  // The thread's stack, as far as it is the call's.
  AddressRange stack{Address(of.cfa), Address(of.cfa)};
  ASSIGN_OR_RETURN(std::vector<Mapping> mappings, context_.process().MappingsAt(of.entry));
  for (const Mapping& mapping : mappings) {
    if (mapping.range.Contains(Address(of.cfa - 8))) stack.begin = mapping.range.begin;
  }
  // Between the calls inside which others keep contracts.
  std::vector<TimeSpan> spans;
  std::vector<std::pair<Time, Time>> nested;
  for (const auto& [child, inside] : call.children) {
    if (inside) nested.emplace_back(activations_[child].entry, activations_[child].left);
  }
  std::sort(nested.begin(), nested.end());
  Time begin = of.entry;
  for (const auto& [entry, left] : nested) {
    if (entry > begin) spans.push_back({begin, entry});
    begin = std::max(begin, left);
  }
  if (begin < of.left) spans.push_back({begin, of.left});
  for (const TimeSpan& span : spans) {
    if (span.end.v - span.begin.v > kLongestCall) {
      incomplete_ = "a call of an extension that took very long was not gone through";
      continue;
    }
    AccessQuery query;
    query.ranges = {{Address(0), Address(kEndOfMemory)}};
    query.span = span;
    query.thread = of.thread;
    ASSIGN_OR_RETURN(auto cursor, context_.process().Accesses(std::move(query), control_));
    while (true) {
      ASSIGN_OR_RETURN(std::optional<Access> next, cursor->Next());
      if (!next) break;
      const Access& access = *next;
      const uint64_t first = (8 - access.address.v % 8) % 8;
      for (uint64_t i = first; i + 8 <= access.size && i + 8 <= access.value.size(); i += 8) {
        const bool before = Holds(access.previous, i, object_);
        const bool after = Holds(access.value, i, object_);
        const uint64_t word = access.address.v + i;
        if ((!before && !after) || stack.Contains(Address(word))) continue;
        const auto [it, is_new] = words.try_emplace(word);
        Stored& stored = it->second;
        if (is_new) stored.held_before = before;
        stored.holds = after;
        stored.time = access.time;
        stored.pc = access.pc;
        stored.child = kNone;
        for (const auto& [child, inside] : call.children) {
          if (activations_[child].Runs(access.time)) stored.child = child;
        }
      }
    }
  }
  return words;
}

absl::StatusOr<bool> Balance::IsGone(uint64_t word, Time t) {
  ASSIGN_OR_RETURN(PythonState * state, provenance_.StateAt(t));
  for (const auto& instance : state->instances()) {
    ASSIGN_OR_RETURN(auto block, BlockAround(context_, *state, instance->objects, word, control_));
    if (block && !block->used) return true;
    const uint64_t container = ObjectAround(instance->objects, word, block);
    if (container == 0) continue;
    const std::optional<Refcount> count = instance->objects.RefcountOf(container);
    return count && !count->immortal && count->count <= 0;
  }
  return false;
}

absl::StatusOr<bool> Balance::IsInUse(uint64_t word, Time t) {
  ASSIGN_OR_RETURN(PythonState * state, provenance_.StateAt(t));
  ASSIGN_OR_RETURN(Holders holders, HoldersOf(context_, *state, object_, control_));
  return std::any_of(holders.words.begin(), holders.words.end(),
                     [&](const Holder& holder) { return holder.word == word && holder.certain(); });
}

// Whether it is called to free its first argument.
absl::StatusOr<bool> Balance::Frees(const Activation& activation) {
  ASSIGN_OR_RETURN(PythonState * state, provenance_.StateAt(activation.entry));
  for (const auto& instance : state->instances()) {
    if (!instance->objects.TypeOf(activation.args[0])) continue;
    const std::optional<Refcount> count = instance->objects.RefcountOf(activation.args[0]);
    return count && !count->immortal && count->count == 0;
  }
  return false;
}

// Whether the object is among the arguments, or where one points at.
absl::StatusOr<bool> Balance::Names(const Activation& child) {
  ASSIGN_OR_RETURN(PythonState * state, provenance_.StateAt(child.entry));
  return std::any_of(child.args.begin(), child.args.end(), [&](uint64_t arg) {
    return arg == object_ || (arg % 8 == 0 && state->memory().Pointer(arg) == object_);
  });
}

Site Balance::SiteOf(Address pc) {
  const std::shared_ptr<const CodeLocation> location = symbols_->Symbolize(pc);
  Site site;
  site.function = location->frames.empty() ? location->function : location->frames.back().function;
  site.module = location->module;
  site.file = location->file;
  site.line = location->line;
  return site;
}

absl::StatusOr<std::optional<Imbalance>> Balance::Judge(const Call& call, bool left_over) {
  const Activation of = activations_[call.activation];
  if (of.left == kTimeMax || call.opaque) return std::optional<Imbalance>();
  ASSIGN_OR_RETURN(bool frees, Frees(of));
  if (!left_over && frees) return std::optional<Imbalance>();
  std::vector<Move> moves;
  std::map<size_t, std::pair<int64_t, Change>> by_child;  // what each changed, the last change
  for (const Change& change : call.changes) {
    if (change.child == kNone) {
      moves.push_back({change.time, change.delta, change.site,
                       change.delta > 0 ? "took a reference" : "gave back a reference"});
    } else {
      auto& [net, last] = by_child[change.child];
      net += change.delta;
      last = change;
    }
  }
  for (const auto& [child, inside] : call.children) {
    const Activation& api = activations_[child];
    const auto it = by_child.find(child);
    int64_t net = it == by_child.end() ? 0 : it->second.first;
    std::optional<Site> site;
    if (it != by_child.end()) site = it->second.second.site;
    if (inside) {
      net = api.left != kTimeMax && api.result == object_ ? 1 : 0;
    } else if (net < 0) {
      ASSIGN_OR_RETURN(bool names, Names(api));
      if (!names) net = 0;
    }
    const Time t = site ? it->second.second.time : api.left;
    for (; net > 0; --net) moves.push_back({t, 1, site, "was given a reference"});
    for (; net < 0; ++net) moves.push_back({t, -1, site, "gave back a reference"});
  }
  ASSIGN_OR_RETURN(auto words, WordsOf(call));
  for (const auto& [word, stored] : words) {
    if (stored.holds) {
      absl::StatusOr<bool> counts = false;
      if (left_over) {
        // In use or not: unless it went with the function of the API that wrote it.
        if (stored.child != kNone) {
          ASSIGN_OR_RETURN(bool gone, IsGone(word, activations_[stored.child].left));
          counts = !gone;
        } else {
          counts = true;
        }
      } else {
        counts = !stored.held_before;
        if (*counts) counts = IsInUse(word, of.left);
      }
      if (!counts.ok()) return counts.status();
      if (*counts) moves.push_back({stored.time, -1, std::nullopt, "stored it"});
    } else if (stored.held_before && !left_over) {
      moves.push_back({stored.time, 1, std::nullopt, "took it out of a word"});
    }
  }
  for (const auto& [time, site] : call.lost) {
    moves.push_back({time, 1, site, "overwrote a word that held it"});
  }
  if (of.result == object_ && !frees) {
    moves.push_back({of.left, -1, std::nullopt, "returned it"});
  }
  std::stable_sort(moves.begin(), moves.end(),
                   [](const Move& a, const Move& b) { return a.time < b.time; });
  // Each taking is paired with the giving that follows it. A store may come before the taking that
  // makes it good.
  std::vector<const Move*> open;
  for (const Move& move : moves) {
    if (!open.empty() && (open.back()->delta > 0) != (move.delta > 0)) {
      open.pop_back();
    } else {
      open.push_back(&move);
    }
  }
  if (open.empty() || (open.back()->delta > 0) != left_over) return std::optional<Imbalance>();
  const Move& culprit = *open.back();
  Imbalance imbalance;
  imbalance.thread = of.thread;
  imbalance.time = std::min(culprit.time, of.left);
  imbalance.excess =
      left_over ? static_cast<int64_t>(open.size()) : -static_cast<int64_t>(open.size());
  if (culprit.site) {
    imbalance.site = *culprit.site;
  } else {
    // What a call ends with was the doing of its last instruction.
    const bool at_end = culprit.what == "returned it" || culprit.what == "was given a reference";
    const Time t(culprit.time.v - (at_end ? 1 : 0));
    imbalance.time = t;
    ASSIGN_OR_RETURN(Located located, Locate(of.thread, t));
    imbalance.site = located.site;
    if (located.site.function.empty()) {
      imbalance.site = SiteOf(of.function);
    }
  }
  if (!left_over) {
    imbalance.detail = fmt::format("{} without a reference of its own", culprit.what);
  } else if (culprit.what.starts_with("overwrote")) {
    imbalance.detail = fmt::format("{} and did not give back that reference", culprit.what);
  } else {
    imbalance.detail =
        fmt::format("{} that it neither gave back, stored nor returned", culprit.what);
  }
  return std::optional<Imbalance>(std::move(imbalance));
}

absl::Status Balance::Follow(size_t call, Time t, std::vector<Imbalance>* found) {
  const Activation of = activations_[calls_[call].activation];
  if (of.left == kTimeMax || of.left > t) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto words, WordsOf(calls_[call]));
  for (const auto& [word, stored] : words) {
    if (!stored.holds || !IsInExtension(stored.pc)) continue;
    AccessQuery query;
    query.ranges = {{Address(word), Address(word + 8)}};
    query.span = {of.left, t};
    ASSIGN_OR_RETURN(auto cursor, context_.process().Accesses(std::move(query), control_));
    ASSIGN_OR_RETURN(std::optional<Access> next, cursor->Next());
    // First of all it may have been freed with the object that it belongs to.
    ASSIGN_OR_RETURN(PythonState * state, provenance_.StateAt(of.left));
    uint64_t container = 0;
    CountWord count_word;
    for (const auto& instance : state->instances()) {
      ASSIGN_OR_RETURN(auto block,
                       BlockAround(context_, *state, instance->objects, word, control_));
      container = ObjectAround(instance->objects, word, block);
      count_word = CountWordOf(*instance->runtime.layout);
    }
    const Time until = next ? next->time : t;
    std::optional<Access> freed;
    if (container != 0) {
      AccessQuery counts;
      counts.ranges = {count_word.Of(container)};
      counts.span = {of.left, until};
      ASSIGN_OR_RETURN(auto changes, context_.process().Accesses(std::move(counts), control_));
      ASSIGN_OR_RETURN(CountReader reader, CountReader::Open(provenance_, container, count_word,
                                                             Direction::kForward, of.left));
      while (true) {
        ASSIGN_OR_RETURN(std::optional<Access> access, changes->Next());
        if (!access) break;
        const std::optional<CountChange> change = reader.Read(*std::move(access));
        if (change && change->before == 1 && change->after == 0 && !change->deferred) {
          freed = change->access;
          break;
        }
      }
    }
    if (freed) {
      ASSIGN_OR_RETURN(PythonState * then, provenance_.StateAt(freed->time));
      uint64_t dealloc = 0;
      for (const auto& instance : then->instances()) {
        const TypeInfo* type = instance->objects.TypeOf(container);
        // tp_dealloc comes after tp_name and two sizes.
        const uint64_t offset = static_cast<uint64_t>(instance->runtime.layout->type_name) + 24;
        if (type) dealloc = instance->objects.memory().Pointer(type->address + offset);
      }
      if (dealloc == 0 || !IsInExtension(Address(dealloc))) continue;
      CallQuery calls;
      calls.entries = {Address(dealloc)};
      calls.span = {freed->time, freed->time + 1000};
      calls.thread = freed->thread;
      ASSIGN_OR_RETURN(auto freeing, context_.process().Calls(std::move(calls), control_));
      ASSIGN_OR_RETURN(std::optional<ttq::Call> one, freeing->Next());
      if (!one || one->return_time == kTimeMax || one->return_time > t) continue;
      const bool given =
          std::any_of(changes_.begin(), changes_.end(), [&](const std::pair<Time, int64_t>& c) {
            return c.second < 0 && c.first >= one->time && c.first < one->return_time;
          });
      if (given) continue;
      found->push_back({SiteOf(Address(dealloc)), freed->thread, one->time, 1,
                        "freed an object and did not give back the reference that it held"});
    } else if (next && IsInExtension(next->pc) &&
               !Holds(next->value, word - next->address.v, object_)) {
      ASSIGN_OR_RETURN(Located located, Locate(next->thread, next->time));
      if (located.call == kNone) continue;
      calls_[located.call].lost.emplace_back(next->time, located.site);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Imbalance>> Balance::LeftOver(Time t) {
  std::vector<Imbalance> found;
  // Following adds calls that need no following: they hold nothing.
  for (size_t i = 0, n = calls_.size(); i < n; ++i) {
    RETURN_IF_ERROR(Follow(i, t, &found));
  }
  for (size_t i = 0; i < calls_.size(); ++i) {
    const Call call = calls_[i];
    if (activations_[call.activation].left > t) continue;
    ASSIGN_OR_RETURN(std::optional<Imbalance> judged, Judge(call, true));
    if (judged) found.push_back(*std::move(judged));
  }
  return found;
}

absl::Status Balance::AddCallsThatReturned(TimeSpan span) {
  CallQuery query;
  for (const auto& module : symbols_->modules()) {
    if (!extensions_.Contains(module->name())) continue;
    auto functions = symbols_->FindFunctions({NamePattern::Kind::kGlob, "*", module->name()});
    if (!functions.ok()) continue;
    for (const FunctionInfo& function : functions->found) {
      if (function.entry) query.entries.push_back(*function.entry);
    }
  }
  if (query.entries.empty()) return absl::OkStatus();
  if (query.entries.size() > kMaxFunctions) {
    incomplete_ = "the extensions have too many functions for the result of each to be looked at";
    return absl::OkStatus();
  }
  query.span = span;
  ASSIGN_OR_RETURN(auto cursor, context_.process().Calls(std::move(query), control_));
  for (size_t n = 0;; ++n) {
    ASSIGN_OR_RETURN(std::optional<ttq::Call> call, cursor->Next());
    if (!call) return absl::OkStatus();
    if (n == kMaxCalls) {
      incomplete_ = fmt::format("of the calls of extensions only {} were looked at", kMaxCalls);
      return absl::OkStatus();
    }
    if (call->return_time == kTimeMax || call->result != object_) continue;
    if (absl::StatusOr<Located> s = Locate(call->thread, call->time); !s.ok()) {
      return s.status();
    }
  }
}

absl::StatusOr<std::vector<Imbalance>> Balance::Missing(Time birth, Time death,
                                                        const std::vector<uint64_t>& words) {
  for (const uint64_t word : words) {
    AccessQuery query;
    query.ranges = {{Address(word), Address(word + 8)}};
    query.span = {birth, death};
    query.want_values = false;
    ASSIGN_OR_RETURN(std::optional<Access> stored,
                     LastAccess(context_.process(), std::move(query)));
    if (!stored) continue;
    ASSIGN_OR_RETURN(Located located, Locate(stored->thread, stored->time));
  }
  std::vector<Imbalance> found;
  size_t judged = 0;
  const auto judge = [&]() -> absl::Status {
    for (; judged < calls_.size(); ++judged) {
      const Call call = calls_[judged];
      ASSIGN_OR_RETURN(std::optional<Imbalance> one, Judge(call, false));
      if (one) found.push_back(*std::move(one));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(judge());
  if (found.empty()) {
    RETURN_IF_ERROR(AddCallsThatReturned({birth, death}));
    RETURN_IF_ERROR(judge());
  }
  return found;
}

}  // namespace ttq::python

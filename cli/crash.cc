// SPDX-License-Identifier: MIT
//
// `ttq crash`: the answer to the query `crash`, laid out to be read from top to bottom on one
// screen.

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "fmt/core.h"
#include "query/answers/format.h"
#include "query/engine/engine.h"
#include "query/language/parser.h"
#include "store/read/moment_info.h"

namespace ttq {
namespace {

// Rows of each part that fit on a screen; JSON has them all.
constexpr size_t kFrames = 12, kFramesOfOthers = 4, kThreads = 6, kHops = 12, kOwners = 6;

std::string Text(const Value* value, Type type = Type::kString) {
  return value == nullptr || value->is_null() ? "" : CellText(*value, type);
}

// One row with its columns by name.
class Answer {
 public:
  Answer(const std::vector<Column>& columns, const Row& row) : columns_(columns), row_(row) {}
  const Value* Get(std::string_view name) const {
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].name == name) return &row_[i];
    }
    return nullptr;
  }
  std::string Of(std::string_view name, Type type = Type::kString) const {
    return Text(Get(name), type);
  }
  const List* ListOf(std::string_view name) const {
    const Value* value = Get(name);
    return value == nullptr ? nullptr : value->list();
  }

 private:
  const std::vector<Column>& columns_;
  const Row& row_;
};

// "    #0   mean at report.py:35    means = sorted(…)"
void AddPythonFrames(const List& frames, size_t most, std::string* out) {
  for (size_t i = 0; i < frames.size(); ++i) {
    if (i == most) {
      *out += fmt::format("    … {} more\n", frames.size() - i);
      return;
    }
    const Object* frame = frames[i].object();
    if (frame == nullptr) continue;
    const std::string file = FieldText(*frame, "file"), source = FieldText(*frame, "source");
    *out += fmt::format("    #{:<3} {} at {}:{}{}\n", i, FieldText(*frame, "function"),
                        BaseName(file), FieldText(*frame, "line", Type::kInteger),
                        source.empty() ? "" : "    " + source);
  }
}

void AddHops(const List& hops, std::string* out) {
  if (hops.empty()) return;
  *out += "\nwhere the value came from\n";
  size_t wide = 0;
  for (const Value& hop : hops) {
    if (hop.object() != nullptr) wide = std::max(wide, FieldText(*hop.object(), "location").size());
  }
  for (size_t i = 0; i < hops.size() && i < kHops; ++i) {
    const Object* hop = hops[i].object();
    if (hop == nullptr) continue;
    const std::string value = FieldText(*hop, "value", Type::kValue), by = FieldText(*hop, "by");
    *out += fmt::format("  {:>12}  {:<{}} = {}  from {}{}\n", FieldText(*hop, "time", Type::kTime),
                        FieldText(*hop, "location"), wide, value.empty() ? "?" : value,
                        FieldText(*hop, "origin"), by.empty() ? "" : "  in " + by);
  }
  if (hops.size() > kHops) *out += fmt::format("  … {} more\n", hops.size() - kHops);
}

// "report.py:35 in mean" of a place in Python.
std::string PythonLocation(const Value* place) {
  if (place == nullptr || place->object() == nullptr) return "";
  const std::string file = FieldText(*place->object(), "file");
  return fmt::format("{}:{} in {}", BaseName(file),
                     FieldText(*place->object(), "line", Type::kInteger),
                     FieldText(*place->object(), "function"));
}

// "+1 release at report.py:35 in mean" of who holds or gave back references.
std::string OwnerText(const Object& owner, const std::string& number) {
  std::string text = number;
  const std::string function = FieldText(owner, "function"),
                    place = PythonLocation(FieldOf(owner, "python"));
  if (!function.empty()) text += " " + function;
  if (!place.empty()) text += " at " + place;
  return text;
}

void AddPythonObject(const Object& object, std::string* out) {
  *out += fmt::format("\nPython object\n  {} at {} ({}), {}: {}\n", FieldText(object, "type"),
                      FieldText(object, "address", Type::kAddress), FieldText(object, "found"),
                      FieldText(object, "state"), FieldText(object, "repr"));
  for (const char* what : {"created", "freed"}) {
    const std::string time = FieldText(object, std::string(what) + "_time", Type::kTime);
    if (time.empty()) continue;
    const std::string place = PythonLocation(FieldOf(object, std::string(what) + "_by"));
    const std::string native = FieldText(object, std::string(what) + "_in");
    *out += fmt::format("  {:<12} at {}{}{}\n", what, time, place.empty() ? "" : " by " + place,
                        native.empty() ? "" : ", in " + native);
  }
  const Value* references = FieldOf(object, "references");
  if (references == nullptr || references->list() == nullptr) return;
  std::string after;
  std::vector<std::pair<int64_t, const Object*>> owners;
  for (const Value& value : *references->list()) {
    const Object* owner = value.object();
    if (owner == nullptr) continue;
    const auto number = [owner](const char* name) {
      const Value* field = FieldOf(*owner, name);
      const int64_t* n = field == nullptr ? nullptr : field->get<int64_t>();
      return n == nullptr ? 0 : *n;
    };
    if (const int64_t n = number("after_free"); n != 0) {
      after +=
          fmt::format("{}{}", after.empty() ? "" : ", ", OwnerText(*owner, fmt::format("{}×", n)));
    }
    if (const int64_t n = number("balance"); n != 0) owners.emplace_back(n, owner);
  }
  // Who is furthest from even, and of equals who gave up more than it took, comes first.
  std::stable_sort(owners.begin(), owners.end(), [](const auto& a, const auto& b) {
    return std::pair(-std::abs(a.first), a.first) < std::pair(-std::abs(b.first), b.first);
  });
  std::string balances;
  for (size_t i = 0; i < owners.size() && i < kOwners; ++i) {
    balances += fmt::format("{}{}", i == 0 ? "" : ", ",
                            OwnerText(*owners[i].second, fmt::format("{:+}", owners[i].first)));
  }
  if (owners.size() > kOwners) balances += fmt::format(", … {} more", owners.size() - kOwners);
  if (!balances.empty()) *out += fmt::format("  {:<12} {}\n", "references", balances);
  if (!after.empty()) *out += fmt::format("  {:<12} {}\n", "after freeing", after);
}

// "dangling pointer", "uninitialised pointer": where it was, and to what.
void AddPointer(const Object& pointer, std::string* out) {
  *out += fmt::format("\n{} pointer {}\n", FieldText(pointer, "state"),
                      FieldText(pointer, "value", Type::kAddress));
  const std::string word = FieldText(pointer, "word", Type::kAddress),
                    by = FieldText(pointer, "stored_by"), block = FieldText(pointer, "block");
  if (!word.empty()) {
    *out += fmt::format("  {:<12} {}, {}\n  {:<12} at {}{}\n", "in", word,
                        FieldText(pointer, "word_memory"), "stored",
                        FieldText(pointer, "stored", Type::kTime), by.empty() ? "" : " by " + by);
  }
  if (!block.empty()) *out += fmt::format("  {:<12} {}\n", "block", block);
}

// `timed`: the time of the crash says something.
std::string Layout(const Answer& answer, bool timed) {
  if (const Value* exception = answer.Get("exception"); exception && exception->object()) {
    return ExceptionLayout(*exception->object());
  }
  std::string where = answer.Of("function");
  const std::string file = answer.Of("file"), line = answer.Of("line", Type::kInteger);
  if (where.empty()) where = answer.Of("pc", Type::kAddress);
  if (!file.empty() && !line.empty()) {
    where += fmt::format(" at {}:{}", BaseName(file), line);
  }
  std::string out = fmt::format("{}{}\n  {}in thread {}, in {}\n", answer.Of("signal"),
                                answer.Of("cause").empty() ? "" : ": " + answer.Of("cause"),
                                timed ? fmt::format("at {} ", answer.Of("time", Type::kTime)) : "",
                                answer.Of("thread", Type::kInteger), where);
  const auto add = [&](std::string_view label, const std::string& text) {
    if (!text.empty()) out += fmt::format("  {:<12} {}\n", label, text);
  };
  add("message", answer.Of("message"));
  std::string instruction = answer.Of("instruction");
  if (const Value* operands = answer.Get("operands"); operands && operands->object() != nullptr) {
    std::string values;
    for (const auto& [name, value] : operands->object()->fields) {
      values +=
          fmt::format("{}{} = {}", values.empty() ? "" : ", ", name, CellText(value, Type::kValue));
    }
    if (!instruction.empty() && !values.empty()) instruction += "    " + values;
  }
  add("instruction", instruction);
  if (const std::string address = answer.Of("address", Type::kAddress); !address.empty()) {
    const std::string access = answer.Of("access");
    add(access.empty() ? "address" : access, fmt::format("{}: {}", address, answer.Of("memory")));
  }
  if (const List* hops = answer.ListOf("origin")) AddHops(*hops, &out);
  if (const List* writes = answer.ListOf("last_writes"); writes && !writes->empty()) {
    out += fmt::format("\nlast writes to {}: {}\n", answer.Of("word", Type::kAddress),
                       answer.Of("word_memory"));
    for (const Value& write : *writes) {
      const Object* w = write.object();
      if (w == nullptr) continue;
      const std::string by = FieldText(*w, "by"), thread = FieldText(*w, "thread", Type::kInteger);
      std::string actor = FieldText(*w, "actor");
      if (actor == "instruction") actor.clear();
      out +=
          fmt::format("  {:>12}{}  {} → {}{}{}\n", FieldText(*w, "time", Type::kTime),
                      thread.empty() ? "" : "  thread " + thread,
                      FieldText(*w, "previous", Type::kValue), FieldText(*w, "value", Type::kValue),
                      actor.empty() ? "" : "  by " + actor, by.empty() ? "" : "  in " + by);
    }
  }
  if (const Value* pointer = answer.Get("stale_pointer"); pointer && pointer->object() != nullptr) {
    AddPointer(*pointer->object(), &out);
  }
  if (const Value* object = answer.Get("python_object"); object && object->object() != nullptr) {
    AddPythonObject(*object->object(), &out);
  }
  if (const List* threads = answer.ListOf("backtraces")) {
    out += "\nstacks\n";
    for (size_t i = 0; i < threads->size(); ++i) {
      if (i == kThreads) {
        out += fmt::format("  … {} more threads\n", threads->size() - i);
        break;
      }
      const Object* thread = (*threads)[i].object();
      if (thread == nullptr) continue;
      out += fmt::format("  thread {}{}\n", FieldText(*thread, "thread", Type::kInteger),
                         i == 0 ? ", which crashed" : "");
      const Value* frames = FieldOf(*thread, "frames");
      if (frames != nullptr && frames->list() != nullptr) {
        AddNativeFrames(*frames->list(), i == 0 ? kFrames : kFramesOfOthers, &out);
      }
      const Value* python = FieldOf(*thread, "py_frames");
      if (python != nullptr && python->list() != nullptr && !python->list()->empty()) {
        out += "    in Python\n";
        AddPythonFrames(*python->list(), i == 0 ? kFrames : kFramesOfOthers, &out);
      }
    }
  }
  return out;
}

// Who waits for whom, of a program that did not end: where it hangs there is no crash to explain.
absl::Status AddWaits(const Asked& asked, const RunOptions& run, std::string* out) {
  ASSIGN_OR_RETURN(const ast::Query query, ParseQuery("waits at end"));
  ASSIGN_OR_RETURN(const std::unique_ptr<ResultStream> stream, asked.engine->Run(query, run));
  std::string lines;
  std::set<std::string> cycles;  // each thread of a circle tells it
  for (Row row;;) {
    ASSIGN_OR_RETURN(const bool more, stream->Next(&row));
    if (!more) break;
    const Answer answer(stream->columns(), row);
    const std::string holder = answer.Of("held_by", Type::kInteger), cycle = answer.Of("cycle");
    lines += fmt::format("  thread {:<4} {}: {}{}\n", answer.Of("thread", Type::kInteger),
                         answer.Of("kind"), answer.Of("what"),
                         holder.empty() ? "" : ", which thread " + holder + " has");
    if (!cycle.empty()) cycles.insert(cycle);
  }
  if (!lines.empty()) *out += "\nwho waits\n" + lines;
  for (const std::string& cycle : cycles) *out += "  " + cycle + "\n";
  return absl::OkStatus();
}

int AnswerCrash(const Asked& asked, bool as_json, bool no_pager) {
  constexpr char kQuery[] = "crash";
  absl::StatusOr<ast::Query> query = ParseQuery(kQuery);
  if (!query.ok()) return Complain(query.status(), kUsage);
  ScanControl control;
  const RunOptions run{.control = &control};
  InterruptGuard guard(&control);
  Progress progress(&control);
  absl::StatusOr<std::unique_ptr<ResultStream>> stream = asked.engine->Run(*query, run);
  if (!stream.ok()) return Complain(stream.status(), kUnreadable);
  if (as_json) {
    AnswerContext context;
    context.trace = asked.recording->info().path;
    context.process = asked.engine->process().info().number.v;
    context.query = kQuery;
    FormatOptions options;
    options.format = Format::kJson;
    AnswerSummary summary;
    const absl::Status status =
        WriteAnswer(**stream, context, options, StdoutAfter(&progress), &summary);
    progress.Stop();
    if (!status.ok()) return Complain(status, kUnreadable);
    return summary.interrupted ? kInterrupted : kAnswered;
  }
  Row row;
  absl::StatusOr<bool> more = (*stream)->Next(&row);
  progress.Stop();
  if (!more.ok()) return Complain(more.status(), kUnreadable);
  std::string text;
  if (*more) {
    text = Layout(Answer((*stream)->columns(), row), !HistoryUnknown(asked.engine->process()));
    Row nothing;
    (void)(*stream)->Next(&nothing);  // the note is final at the end
  }
  if ((*stream)->interrupted()) return Complain("interrupted", kInterrupted);
  const std::string& note = (*stream)->note();
  if (!note.empty()) text += (*more ? "\nnote: " : "") + Printable(note) + "\n";
  const ProcessInfo& process_info = asked.engine->process().info();
  if (!*more && !process_info.exit_status && process_info.fatal_signal == 0) {
    if (const absl::Status waits = AddWaits(asked, run, &text); !waits.ok()) {
      return Complain(waits, kUnreadable);
    }
  }
  progress.Stop();
  WritePaged(WrappedForScreen(text), no_pager);
  return kAnswered;
}

}  // namespace

int RunCrash(int argc, char** argv) {
  CommandLine line("ttq crash");
  TraceOption trace;
  std::string process, format = "text";
  AddTraceOption(line, &trace);
  line.Add("-p,--process", &process, "The process (default: the one that died by a signal)")
      .Called("N");
  line.Add("-f,--format", &format, "text or json").OneOf({"text", "json"}).Called("FORMAT");
  bool no_pager = false;
  AddPagerOption(line, &no_pager);
  if (const std::optional<int> done = ParseArguments(line, Arguments(argc, argv))) return *done;
  return AnswerFromLeast(HistoryNeed::kCrash, [&](HistoryNeed need) {
    Asked asked;
    if (const std::optional<int> failed = OpenAsked(trace.name(), process, &asked, need)) {
      return *failed;
    }
    HeldOutput held(asked.recording.get());
    return held.End(AnswerCrash(asked, format == "json", no_pager));
  });
}

}  // namespace ttq

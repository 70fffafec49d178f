// SPDX-License-Identifier: MIT

#include "report/autopsy.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "base/number_text.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/version.h"
#include "fmt/core.h"
#include "nlohmann/json.hpp"
#include "query/answers/format.h"
#include "query/cpython/context.h"
#include "query/cpython/source_text.h"
#include "query/cpython/state.h"
#include "query/ctypes/expression_at.h"
#include "query/ctypes/frame.h"
#include "query/language/parser.h"
#include "store/read/moment_info.h"

namespace ttq {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxRows = 400, kEvents = 40, kMaxValue = 4000;
constexpr size_t kFramesWithLocals = 60, kFramesOfThread = 12, kPythonFrames = 20;
constexpr size_t kHopsWithPython = 12;
constexpr int kLinesAround = 4;

// A text that is not longer than a reader will read.
void Shorten(Json* value) {
  if (value->is_object() || value->is_array()) {
    for (Json& inner : *value) Shorten(&inner);
  } else if (value->is_string()) {
    const std::string& text = value->get_ref<const std::string&>();
    if (text.size() <= kMaxValue) return;
    size_t end = kMaxValue;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    *value = text.substr(0, end) + "…";
  }
}

std::string Text(const Json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

class Collector {
 public:
  Collector(const Recording& recording, const Engine& engine, const AutopsyOptions& options)
      : recording_(recording),
        engine_(engine),
        process_(engine.process()),
        options_(options),
        context_(engine.context()),
        source_(&process_) {}

  absl::StatusOr<std::string> Run() {
    document_ = {{"schema", "ttq report 1"}, {"kind", "moment"}};
    document_["cause"] = "";
    RETURN_IF_ERROR(FindMoment());
    document_["time"] = time_.v;
    document_["thread"] = thread_.v == 0 ? Json() : Json(thread_.v);
    document_["recording"] = Facts();
    document_["incomplete"] = Json::array();
    document_["panels"] = Json::array();
    if (crash_) {
      RETURN_IF_ERROR(Cause());
    }
    RETURN_IF_ERROR(Stacks());
    if (crash_) {
      RETURN_IF_ERROR(Faulty());
    }
    if (!HistoryUnknown(process_)) RETURN_IF_ERROR(Around());
    const ProcessInfo& info = process_.info();
    if (!info.complete) {
      document_["incomplete"].push_back(info.incomplete_reason.empty()
                                            ? std::string("the recording is incomplete")
                                            : info.incomplete_reason);
    }
    if (const absl::Status damage = recording_.Damage(); !damage.ok()) {
      document_["incomplete"].push_back(std::string(damage.message()));
    }
    std::string json = document_.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (options_.redact_strings || options_.redact_paths) {
      json = Redact(json, options_.redact_strings, options_.redact_paths);
    }
    return json;
  }

 private:
  // ---- Questions ----

  // The answer as a panel. Errors become its note: one part that fails leaves the others.
  absl::StatusOr<Json> Ask(const char* id, const char* title, const std::string& question) {
    Json panel = {{"id", id},
                  {"title", title},
                  {"question", question},
                  {"columns", Json::array()},
                  {"rows", Json::array()},
                  {"truncated", false},
                  {"complete", true},
                  {"note", nullptr}};
    const auto fail = [&](const absl::Status& status) -> absl::StatusOr<Json> {
      if (absl::IsCancelled(status)) return status;
      panel["complete"] = false;
      panel["note"] = Utf8(std::string(status.message()));
      return panel;
    };
    absl::StatusOr<ast::Query> query = ParseQuery(question);
    if (!query.ok()) return fail(query.status());
    RunOptions run;
    run.control = options_.control;
    absl::StatusOr<std::unique_ptr<ResultStream>> stream = engine_.Run(*query, run);
    if (!stream.ok()) return fail(stream.status());
    const std::vector<Column>& columns = (*stream)->columns();
    for (const Column& column : columns) {
      panel["columns"].push_back(
          {{"name", column.name}, {"type", std::string(TypeName(column.type))}});
    }
    Row row;
    while (true) {
      absl::StatusOr<bool> more = (*stream)->Next(&row);
      if (!more.ok()) return fail(more.status());
      if (!*more) break;
      if (panel["rows"].size() == kMaxRows) {
        panel["truncated"] = true;
        break;
      }
      Json object = Json::object();
      for (size_t i = 0; i < columns.size(); ++i) {
        std::string text;
        AppendJson(row[i], columns[i].type, &text);
        object[columns[i].name] = Json::parse(text);
      }
      Shorten(&object);
      panel["rows"].push_back(std::move(object));
    }
    if ((*stream)->interrupted()) return absl::CancelledError("interrupted");
    if (panel["truncated"] == false) {
      panel["complete"] = (*stream)->complete();
      if (!(*stream)->note().empty()) panel["note"] = Utf8((*stream)->note());
    }
    return panel;
  }

  Json* Add(Json panel) {
    document_["panels"].push_back(std::move(panel));
    return &document_["panels"].back();
  }

  // A panel of rows that the answer of `crash` holds in one of its columns.
  Json PanelOf(const char* id, const char* title, std::string question, Json rows) {
    return {{"id", id},
            {"title", title},
            {"question", std::move(question)},
            {"columns", Json::array()},
            {"rows", std::move(rows)},
            {"truncated", false},
            {"complete", true},
            {"note", nullptr}};
  }

  std::string At() const { return fmt::format("{}", time_.v); }

  // ---- Parts ----

  absl::Status FindMoment() {
    const ProcessInfo& info = process_.info();
    if (!options_.at.empty()) {
      ASSIGN_OR_RETURN(const ast::Query query,
                       ParseQuery(fmt::format("registers at {}", options_.at)));
      RunOptions run;
      run.control = options_.control;
      ASSIGN_OR_RETURN(auto stream, engine_.Run(query, run));
      Row row;
      ASSIGN_OR_RETURN(bool more, stream->Next(&row));
      if (!more) return absl::InvalidArgumentError("nothing is known at " + options_.at);
      for (size_t i = 0; i < stream->columns().size(); ++i) {
        if (stream->columns()[i].name == "time" && row[i].get<Time>()) {
          time_ = *row[i].get<Time>();
        }
      }
      if (absl::StatusOr<ThreadNo> thread = process_.ThreadAt(time_); thread.ok()) {
        thread_ = *thread;
      }
      document_["cause"] = fmt::format("the process at time {}", time_.v);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(Json crash, Ask("crash", "Cause", "crash"));
    if (!crash["rows"].empty()) {
      const Json& row = crash["rows"][0];
      time_ = Time(row["time"].get<uint64_t>());
      if (row["thread"].is_number()) thread_ = ThreadNo(row["thread"].get<uint32_t>());
      document_["kind"] = row["exception"].is_object() ? "exception" : "crash";
      crash_ = std::move(crash);
      return absl::OkStatus();
    }
    time_ = info.end;
    if (absl::StatusOr<ThreadNo> thread = process_.ThreadAt(time_); thread.ok()) thread_ = *thread;
    document_["cause"] = crash["note"].is_string() ? crash["note"].get<std::string>()
                                                   : std::string("the program did not crash");
    return absl::OkStatus();
  }

  Json Facts() {
    const ProcessInfo& info = process_.info();
    Json facts = {
        {"name", recording_.info().name},
        {"program", info.program},
        {"command", info.arguments},
        {"process", info.number.v},
        {"pid", info.pid},
        {"instructions", HistoryUnknown(process_) ? Json() : Json(info.end.v)},
        {"threads", process_.threads().size()},
        {"started_ns", info.start_wall_ns},
        {"ended_ns", info.end_wall_ns},
        {"ended", info.fatal_signal != 0 ? "killed by " + SignalName(info.fatal_signal)
                  : info.exit_status     ? fmt::format("exited with status {}", *info.exit_status)
                  : HistoryUnknown(process_) ? std::string("it was running")
                                             : std::string("how it ended was not recorded")},
        {"history_unknown_before",
         HistoryUnknown(process_) ? Json(MomentName(MomentInfoOf(process_).beginning)) : Json()},
        {"ttq", std::string(kVersion)},
        {"recorder", recording_.info().recorder_version}};
    if (context_.HasPython()) {
      auto state = python::PythonState::At(&recording_, &process_, time_);
      std::string versions;
      if (state.ok()) {
        for (const auto& instance : (*state)->instances()) {
          versions += (versions.empty() ? "" : ", ") + python::VersionText(instance->runtime);
        }
      }
      if (!versions.empty()) facts["python"] = versions;
    }
    return facts;
  }

  // Lines around one of a file; null where it is not there.
  Json Excerpt(const std::string& file, int line) {
    if (file.empty() || line <= 0) return nullptr;
    const std::vector<std::string>* lines = source_.Lines(file);
    if (!lines || line > static_cast<int>(lines->size())) return nullptr;
    const int first = std::max(1, line - kLinesAround);
    const int last = std::min<int>(line + kLinesAround, static_cast<int>(lines->size()));
    Json excerpt = {{"file", file}, {"line", line}, {"first", first}, {"lines", Json::array()}};
    for (int n = first; n <= last; ++n) {
      std::string text = (*lines)[static_cast<size_t>(n) - 1];
      excerpt["lines"].push_back(Utf8(text.substr(0, std::min<size_t>(text.size(), 300))));
    }
    return excerpt;
  }

  // To frames, where they are any.
  void AddExcerpts(Json* frames) {
    if (!frames->is_array()) return;
    for (Json& frame : *frames) {
      if (!frame["line"].is_number()) continue;
      frame["excerpt"] = Excerpt(Text(frame, "file"), frame["line"].get<int>());
    }
  }

  absl::Status Cause() {
    Json& row = (*crash_)["rows"][0];
    std::string where = Text(row, "function");
    const std::string file = Text(row, "file");
    int line = row["line"].is_number() ? row["line"].get<int>() : 0;
    if (row["exception"].is_object()) {
      const Json& exception = row["exception"];
      document_["cause"] = Text(row, "cause");
      Json panel = PanelOf("exception", "Exception", "crash", Json::array({exception}));
      Json& shown = panel["rows"][0];
      AddExcerpts(&shown["frames"]);
      if (shown["native"].is_object()) AddExcerpts(&shown["native"]["frames"]);
      Add(std::move(panel));
      return absl::OkStatus();
    }
    if (where.empty()) where = Text(row, "pc");
    document_["cause"] = fmt::format(
        "{} in {}{}: {}", Text(row, "signal"), where,
        file.empty() ? "" : fmt::format(" ({}:{})", BaseName(file), line), Text(row, "cause"));
    Json fault = row;
    for (const char* part : {"origin", "last_writes", "backtraces", "python_object", "exception"}) {
      fault.erase(part);
    }
    fault["excerpt"] = Excerpt(file, line);
    Json panel = PanelOf("crash", "Cause", "crash", Json::array({std::move(fault)}));
    panel["note"] = (*crash_)["note"];
    panel["complete"] = (*crash_)["complete"];
    Add(std::move(panel));
    return Origin(row["origin"]);
  }

  absl::Status Origin(const Json& hops) {
    if (!hops.is_array() || hops.empty()) return absl::OkStatus();
    const std::string place = Text(hops[0], "location");
    std::string question = "crash | select origin";
    if (place.starts_with("%")) {
      question = fmt::format("origin of ${} at {}", place.substr(1), At());
    } else if (place.starts_with("0x")) {
      const size_t plus = place.find('+');
      const std::string length =
          plus == place.npos
              ? "8"
              : place.substr(plus + 1, place.find_first_not_of("0123456789", plus + 1) - plus - 1);
      question = fmt::format("origin of {} len {} at {}", place.substr(0, plus), length, At());
    }
    Json panel = PanelOf("origin", "How the bad value came there", question, hops);
    size_t asked = 0;
    for (Json& hop : panel["rows"]) {
      if (!hop["time"].is_number()) continue;
      const Time t(hop["time"].get<uint64_t>());
      if (hop["pc"].is_string()) {
        ASSIGN_OR_RETURN(const Symbolizer* symbols, context_.SymbolsAt(t));
        const uint64_t pc = std::stoull(Text(hop, "pc"), nullptr, 16);
        const auto location = symbols->Symbolize(Address(pc));
        hop["excerpt"] = Excerpt(location->file, location->line);
      }
      if (!context_.HasPython() || !hop["thread"].is_number() || asked++ >= kHopsWithPython) {
        continue;
      }
      ASSIGN_OR_RETURN(Json python, Ask("", "",
                                        fmt::format("py backtrace at {} in thread {} | first 1",
                                                    t.v, hop["thread"].get<uint32_t>())));
      if (!python["rows"].empty()) {
        const Json& frame = python["rows"][0];
        hop["python"] = {{"function", frame["function"]},
                         {"file", frame["file"]},
                         {"line", frame["line"]},
                         {"source", frame["source"]}};
      }
    }
    Add(std::move(panel));
    return absl::OkStatus();
  }

  absl::Status Stacks() {
    const bool python = context_.HasPython();
    ASSIGN_OR_RETURN(Json panel, Ask("stacks", "Stacks",
                                     fmt::format("backtrace at {} all threads{}", At(),
                                                 python ? " mixed" : "")));
    // The thread of interest first.
    std::stable_sort(panel["rows"].begin(), panel["rows"].end(), [&](const Json& a, const Json& b) {
      return (a["thread"] == thread_.v) > (b["thread"] == thread_.v);
    });
    RETURN_IF_ERROR(Locals(&panel["rows"]));
    Add(std::move(panel));
    const std::string question = fmt::format("waits at {}", At());
    if (ParseQuery(question).ok()) {
      ASSIGN_OR_RETURN(Json waits, Ask("waits", "What each thread waits for", question));
      if (!waits["rows"].empty()) Add(std::move(waits));
    }
    return absl::OkStatus();
  }

  // The variables of the frames, as far as somebody will look.
  absl::Status Locals(Json* rows) {
    ASSIGN_OR_RETURN(std::unique_ptr<Moment> moment, process_.At(time_));
    std::unique_ptr<python::PythonState> state;
    if (context_.HasPython()) {
      ASSIGN_OR_RETURN(state, python::PythonState::At(&recording_, &process_, time_));
    }
    size_t native = 0, python = 0;
    std::optional<uint32_t> thread;
    size_t of_thread = 0;
    for (Json& row : *rows) {
      if (!row["thread"].is_number()) continue;
      const uint32_t number = row["thread"].get<uint32_t>();
      if (thread != number) of_thread = 0;
      thread = number;
      ++of_thread;
      const bool is_python = Text(row, "language") == "python";
      Json variables = Json::array();
      if (is_python && state && python < kPythonFrames && row["frame_address"].is_string()) {
        ++python;
        AddPythonLocals(*state, std::stoull(Text(row, "frame_address"), nullptr, 16), &variables);
      } else if (!is_python && row["file"].is_string() && of_thread <= kFramesOfThread &&
                 native < kFramesWithLocals) {
        ++native;
        absl::StatusOr<FrameView> view =
            FrameAt(context_, moment.get(), ThreadNo(number), row["frame"].get<uint64_t>());
        if (!view.ok()) continue;
        view->present_only = true;
        ASSIGN_OR_RETURN(const std::vector<Argument> found,
                         VariablesOf(context_, *view, moment.get()));
        for (const Argument& a : found) {
          variables.push_back({{"name", a.name}, {"type", a.type}, {"value", Utf8(a.text)}});
        }
      }
      if (row["file"].is_string() && row["line"].is_number() && of_thread <= kFramesOfThread) {
        row["excerpt"] = Excerpt(Text(row, "file"), row["line"].get<int>());
      }
      Shorten(&variables);
      if (!variables.empty()) row["locals"] = std::move(variables);
    }
    return absl::OkStatus();
  }

  static void AddPythonLocals(python::PythonState& state, uint64_t address, Json* variables) {
    constexpr size_t kMaxVariables = 50;
    for (const auto& instance : state.instances()) {
      python::Frame frame;
      if (instance->frames.ReadFrame(address, &frame, /*current=*/true) !=
          python::FrameReader::Kind::kPython) {
        continue;
      }
      for (const python::LocalVariable& v : instance->frames.Locals(frame, kMaxVariables)) {
        const bool dunder = v.name.starts_with("__");
        if (v.value == 0 || dunder || variables->size() >= kMaxVariables) continue;
        python::ReprLimits limits;
        limits.characters = 300;
        variables->push_back(
            {{"name", v.name},
             {"type", instance->objects.TypeOf(v.value)
                          ? instance->objects.FullTypeName(*instance->objects.TypeOf(v.value))
                          : ""},
             {"value", Utf8(instance->objects.Repr(v.value, limits))}});
      }
      return;
    }
  }

  // The object, the word and the heap block.
  absl::Status Faulty() {
    const Json& row = (*crash_)["rows"][0];
    const Json& object = row["python_object"];
    if (object.is_object()) {
      const std::string address = Text(object, "address");
      Add(PanelOf("object", "The Python object at fault",
                  fmt::format("why was {} freed too early at {}", address, At()),
                  Json::array({object})));
      ASSIGN_OR_RETURN(Json life, Ask("life", "Its reference count",
                                      fmt::format("refcounts of {} before {} | last {}", address,
                                                  time_.v + 1, kMaxRows)));
      if (!life["rows"].empty()) Add(std::move(life));
    }
    if (row["last_writes"].is_array() && !row["last_writes"].empty()) {
      Json panel = PanelOf(
          "writes", "Last writes of the word",
          fmt::format("writes to {} len 8 before {} | last 4", Text(row, "word"), time_.v + 1),
          row["last_writes"]);
      Add(std::move(panel));
    }
    const std::string kind = Text(row, "memory_kind");
    const std::string address =
        kind.find("heap") != kind.npos ? Text(row, "address") : Text(row, "word");
    if (!address.empty()) {
      ASSIGN_OR_RETURN(Json heap, Ask("heap", "The heap block and its neighbours",
                                      fmt::format("heap {} at {}", address, At())));
      if (!heap["rows"].empty() && heap["rows"][0]["begin"].is_string()) {
        heap["address"] = address;
        Add(std::move(heap));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Around() {
    ASSIGN_OR_RETURN(
        Json events,
        Ask("around", "Around it",
            fmt::format("events before {} where kind in (\"output\", \"syscall\", \"signal\", "
                        "\"mark\", \"thread\", \"fork\", \"exec\", \"exit\") | last {}",
                        time_.v + 3, kEvents)));
    // What a program wrote to a file is the file's content; its terminal's is what it printed.
    for (Json& event : events["rows"]) event.erase("bytes");
    for (Json& event : events["rows"]) {
      const std::string kind = Text(event, "kind");
      const bool at_file =
          kind == "output" && event["number"].is_number() && event["number"].get<int64_t>() > 2;
      if (at_file) event["detail"] = "(to a file)";
    }
    Add(std::move(events));
    ASSIGN_OR_RETURN(
        Json modules,
        Ask("modules", "Modules",
            fmt::format("modules at {} | select module, address, build_id, path", At())));
    Add(std::move(modules));
    return absl::OkStatus();
  }

  const Recording& recording_;
  const Engine& engine_;
  const Process& process_;
  const AutopsyOptions& options_;
  const Context& context_;
  python::SourceText source_;
  Json document_;
  std::optional<Json> crash_;
  Time time_;
  ThreadNo thread_;
};

}  // namespace

absl::StatusOr<std::string> AutopsyJson(const Recording& recording, const Engine& engine,
                                        const AutopsyOptions& options) {
  return Collector(recording, engine, options).Run();
}

}  // namespace ttq

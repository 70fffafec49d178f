// SPDX-License-Identifier: MIT

#include "mcp/tools.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/number_text.h"
#include "base/text.h"
#include "fmt/core.h"
#include "mcp/ask.h"
#include "mcp/autopsy.h"
#include "mcp/definitions.h"
#include "mcp/record.h"
#include "mcp/source.h"
#include "mcp/subjects.h"
#include "mcp/text.h"
#include "nlohmann/json.hpp"
#include "query/answers/format.h"
#include "query/answers/moment.h"
#include "query/answers/recordings.h"
#include "query/find_trace.h"
#include "query/language/diagnostic.h"
#include "report/autopsy.h"

namespace ttq::mcp {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxQuestion = 64 << 10;

// ---- Arguments --------------------------------------------------------------------------------

bool IsOfType(const Json& value, const std::string& type) {
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "array") return value.is_array();
  if (type == "number") return value.is_number() && std::isfinite(value.get<double>());
  if (type != "integer" || !value.is_number()) return false;
  // JSON's 2.0 is the integer 2.
  return value.is_number_integer() || (std::abs(value.get<double>()) < 1e15 &&
                                       std::floor(value.get<double>()) == value.get<double>());
}

std::string TypesText(const Json& types) {
  if (types.is_string()) return types.get<std::string>();
  std::string text;
  for (const Json& type : types) text += (text.empty() ? "" : " or ") + type.get<std::string>();
  return text;
}

// What is wrong with an argument; "": nothing.
std::string Problem(const std::string& name, const Json& value, const Json& schema) {
  const Json& types = schema["type"];
  const bool fits = types.is_string()
                        ? IsOfType(value, types.get<std::string>())
                        : std::any_of(types.begin(), types.end(), [&](const Json& type) {
                            return IsOfType(value, type.get<std::string>());
                          });
  if (!fits) return fmt::format("{} must be of type {}", name, TypesText(types));
  if (value.is_number()) {
    const double number = value.get<double>();
    for (const char* bound : {"minimum", "maximum"}) {
      const auto it = schema.find(bound);
      if (it == schema.end()) continue;
      const double limit = it->get<double>();
      if (bound[1] == 'i' ? number < limit : number > limit) {
        return fmt::format("{} must be at {} {}", name, bound[1] == 'i' ? "least" : "most",
                           RealText(limit, false));
      }
    }
  }
  if (value.is_array()) {
    if (value.size() < schema["minItems"].get<size_t>() ||
        value.size() > schema["maxItems"].get<size_t>()) {
      return fmt::format("{} must have {} to {} elements", name, schema["minItems"].get<size_t>(),
                         schema["maxItems"].get<size_t>());
    }
    for (const Json& item : value) {
      if (!IsOfType(item, schema["items"]["type"].get<std::string>())) {
        return fmt::format("the elements of {} must be of type {}", name,
                           schema["items"]["type"].get<std::string>());
      }
    }
  }
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    if (text.find('\0') != std::string::npos) return name + " must not have a NUL";
    if (text.size() > kMaxQuestion) return name + " is longer than 64 KiB";
  }
  return "";
}

std::string CheckArguments(const Json& arguments, const Json& schema) {
  const Json& properties = schema["properties"];
  for (const auto& [name, value] : arguments.items()) {
    if (!properties.contains(name)) {
      std::vector<std::string> known;
      for (const auto& [other, unused] : properties.items()) known.push_back(other);
      const std::vector<std::string> near = Nearest(name.substr(0, 100), known);
      std::string all;
      for (const std::string& one : known) all += (all.empty() ? "" : ", ") + one;
      return near.empty()
                 ? fmt::format("there is no argument {}; there are {}", Quoted(name, 60), all)
                 : fmt::format("there is no argument {}; did you mean {}?", Quoted(name, 60),
                               near.front());
    }
    if (value.is_null()) continue;  // as if it were not there
    if (std::string problem = Problem(name, value, properties[name]); !problem.empty()) {
      return problem;
    }
  }
  if (const auto required = schema.find("required"); required != schema.end()) {
    for (const Json& name : *required) {
      const auto it = arguments.find(name.get_ref<const std::string&>());
      if (it == arguments.end() || it->is_null()) {
        return fmt::format("the argument {} is missing", name.get_ref<const std::string&>());
      }
    }
  }
  return "";
}

// Arguments that were checked.
class Given {
 public:
  explicit Given(const Json& arguments) : arguments_(arguments) {}

  bool Has(const char* name) const {
    const auto it = arguments_.find(name);
    return it != arguments_.end() && !it->is_null();
  }
  std::string Text(const char* name) const {
    return Has(name) ? arguments_[name].get<std::string>() : "";
  }
  double Number(const char* name, double otherwise) const {
    return Has(name) ? arguments_[name].get<double>() : otherwise;
  }
  uint64_t Count(const char* name, uint64_t otherwise) const {
    if (!Has(name)) return otherwise;
    const Json& value = arguments_[name];
    return value.is_number_integer() ? value.get<uint64_t>()
                                     : static_cast<uint64_t>(value.get<double>());
  }
  bool Is(const char* name, bool otherwise) const {
    return Has(name) ? arguments_[name].get<bool>() : otherwise;
  }
  // A number or a text.
  std::string Time(const char* name) const {
    if (!Has(name)) return "";
    if (arguments_[name].is_string()) return Text(name);
    if (arguments_[name].is_number_integer() && !arguments_[name].is_number_unsigned()) {
      return fmt::format("{}", arguments_[name].get<int64_t>());
    }
    return fmt::format("{}", Count(name, 0));
  }
  std::vector<std::string> Texts(const char* name) const {
    return arguments_[name].get<std::vector<std::string>>();
  }

 private:
  const Json& arguments_;
};

std::string HumanSize(uint64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace

class Tools::Impl {
 public:
  explicit Impl(Options options) : options_(std::move(options)) {
    definitions_ = Json::parse(kDefinitions);
    for (Json& tool : definitions_) {
      tool["annotations"] = {{"readOnlyHint", true}, {"openWorldHint", false}};
    }
    if (options_.allow_record) {
      definitions_.push_back(Json::parse(kRecordDefinition));
      definitions_.back()["annotations"] = {{"readOnlyHint", false}, {"destructiveHint", true}};
    }
  }

  const Json& definitions() const { return definitions_; }

  const Json* Find(const std::string& name) const {
    for (const Json& tool : definitions_) {
      if (tool["name"] == name) return &tool;
    }
    return nullptr;
  }

  ToolResult Run(const std::string& name, const Json& arguments, Call* call) {
    const std::string problem = CheckArguments(arguments, (*Find(name))["inputSchema"]);
    if (!problem.empty()) return Fault(fmt::format("{}: {}\n", name, problem));
    const Given given(arguments);
    if (name == "recordings") return Recordings(given);
    if (name == "language") return Language(given);
    if (name == "record") return Record(given, call);
    std::optional<uint32_t> process;
    if (given.Has("process")) {
      process = static_cast<uint32_t>(std::min<uint64_t>(given.Count("process", 0), UINT32_MAX));
    }
    const auto subject = subjects_.Open(given.Text("recording"), process);
    if (!subject.ok()) return NoSubject(given.Text("recording"), subject.status());
    if (name == "autopsy") return Autopsy(**subject, given, call);
    if (name == "query") return Query(**subject, given, call);
    if (name == "trace_call") return TraceCall(**subject, given, call);
    return Source(**subject, given, call);
  }

 private:
  ToolResult NoSubject(const std::string& name, const absl::Status& status) {
    std::string text = "ttq: " + Fit(Printable(std::string(status.message())), 1000) + "\n";
    // Where it is there, something else is not: a process.
    if (!absl::IsNotFound(status) || FindTrace(name).ok()) return Fault(text);
    std::vector<std::string> names;
    for (const Listed& listed : ListRecordings(HomeDirectory())) {
      names.push_back(CallName(listed.path));
    }
    std::vector<std::string> shown = Nearest(name, names);
    const bool near = !shown.empty();
    if (!near)
      shown.assign(names.begin(), names.begin() + std::min<ptrdiff_t>(5, std::ssize(names)));
    std::string list;
    for (const std::string& one : shown) list += (list.empty() ? "" : ", ") + Quoted(one);
    if (!list.empty()) text += fmt::format("{}: {}\n", near ? "did you mean" : "there are", list);
    return Fault(text);
  }

  ToolResult Recordings(const Given& given) {
    const std::string folder = given.Has("folder") ? given.Text("folder") : HomeDirectory();
    const std::vector<Listed> all = ListRecordings(folder);
    constexpr size_t kShown = 100;
    std::string text = fmt::format("{} recording{} in {}\n", all.size(), all.size() == 1 ? "" : "s",
                                   Quoted(folder));
    if (!all.empty()) {
      text += "name | ended | started (UTC) | instructions | size | complete | command\n";
    }
    for (size_t i = 0; i < all.size() && i < kShown; ++i) {
      const Listed& one = all[i];
      const std::string ended = !one.problem.empty() ? "cannot be read"
                                : one.running        ? "still running"
                                : !one.finished      ? "cut off"
                                : one.ending.empty() ? "-"
                                                     : one.ending;
      const bool complete = one.problem.empty() && one.finished && one.complete;
      text += fmt::format("{} | {} | {} | {} | {} | {} | {}\n", Quoted(CallName(one.path)), ended,
                          Started(one.start_wall_ns),
                          one.instructions ? fmt::format("{}", *one.instructions) : "unknown",
                          HumanSize(one.bytes), complete ? "yes" : "no",
                          Quoted(one.problem.empty() ? one.command : one.problem));
    }
    if (all.size() > kShown) text += fmt::format("… {} older ones\n", all.size() - kShown);
    return {Fit(text)};
  }

  static std::string Started(int64_t wall_ns) {
    const time_t seconds = static_cast<time_t>(wall_ns / 1'000'000'000);
    struct tm utc;
    if (wall_ns == 0 || gmtime_r(&seconds, &utc) == nullptr) return "-";
    char text[64];
    return std::string(text, strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc));
  }

  ToolResult Autopsy(const Subject& subject, const Given& given, Call* call) {
    const double budget = given.Number("budget_s", 60);
    const Deadline deadline(call, std::chrono::duration_cast<Deadline::Clock::duration>(
                                      std::chrono::duration<double>(budget)));
    AutopsyOptions options;
    options.at = given.Text("at");
    options.control = call->control();
    const absl::StatusOr<std::string> json =
        AutopsyJson(*subject.recording, *subject.engine, options);
    if (absl::IsCancelled(json.status())) {
      return Fault(
          fmt::format("nothing yet after {} s; give a larger budget_s, or ask `query` for "
                      "`backtrace at crash`\n",
                      RealText(budget, false)));
    }
    if (!json.ok()) return Fault(QuestionError(kMomentQuestion + options.at, json.status()));
    return {CutAutopsy(*json)};
  }

  ToolResult Query(const Subject& subject, const Given& given, Call* call) {
    AskOptions options;
    options.limit = given.Count("limit", options.limit);
    options.budget_s = given.Number("budget_s", options.budget_s);
    options.after = given.Text("after");
    options.last = std::min<uint64_t>(options.last, options.limit / 5);
    return Ask(subject, given.Text("text"), options, call);
  }

  ToolResult TraceCall(const Subject& subject, const Given& given, Call* call) {
    if (given.Has("function") == given.Has("time")) {
      return Fault("trace_call: give either function or time\n");
    }
    std::string what = given.Text("function");
    if (given.Has("time")) {
      // A TIME that is no number stands in a question of its own.
      const std::string time = given.Time("time");
      const bool number = !time.empty() && std::all_of(time.begin(), time.end(), IsDigit);
      what = number ? "(" + time + ")" : "(" + (kMomentQuestion + time) + ")";
    }
    std::string question =
        fmt::format("{}trace of {}", given.Is("python", false) ? "py " : "", what);
    if (given.Has("depth")) question += fmt::format(" depth {}", given.Count("depth", 1));
    AskOptions options;
    options.limit = given.Count("limit", 100);
    options.last = options.limit / 3;
    options.budget_s = given.Number("budget_s", options.budget_s);
    options.after = given.Text("after");
    return Ask(subject, question, options, call);
  }

  ToolResult Source(const Subject& subject, const Given& given, Call* call) {
    if (given.Has("place") == given.Has("time")) {
      return Fault("source: give either place or time\n");
    }
    SourceOptions options;
    options.place = given.Text("place");
    options.time = given.Time("time");
    options.frame = given.Count("frame", 0);
    const bool is_py = options.place.substr(0, options.place.rfind(':')).ends_with(".py");
    options.python = given.Is("python", is_py);
    options.budget_s = given.Number("budget_s", options.budget_s);
    if (!options.place.empty() && options.frame > 0) {
      return Fault("source: frame goes with time, not with place\n");
    }
    return ShowSource(subject, options, call);
  }

  ToolResult Language(const Given& given) {
    std::string names;
    for (const ManualTopic& topic : options_.topics) {
      if (!names.empty()) names += ", ";
      names += topic.name;
      if (given.Has("topic") && given.Text("topic") == topic.name &&
          &topic != &options_.topics.front()) {
        return {Fit(std::string(topic.text))};
      }
    }
    if (given.Has("topic") &&
        (options_.topics.empty() || given.Text("topic") != options_.topics.front().name)) {
      return Fault(fmt::format("there is no topic {}; there are {}\n",
                               Quoted(given.Text("topic"), 60), names));
    }
    std::string text = "Examples:\n\n";
    for (const Example& example : Examples()) {
      text += fmt::format("  {}    {}\n", example.question, example.answers);
    }
    text += "\n";
    if (!options_.topics.empty()) text += options_.topics.front().text;
    return {Fit(text + "\nTopics: " + names + "\n")};
  }

  ToolResult Record(const Given& given, Call* call) {
    RecordOptions options;
    options.program = options_.program;
    options.argv = given.Texts("argv");
    options.directory = given.Text("folder");
    options.max_size = given.Text("max_size");
    options.timeout_s = given.Number("timeout_s", options.timeout_s);
    for (const std::string& word : options.argv) {
      if (word.find('\0') != std::string::npos) return Fault("record: argv must not have a NUL\n");
    }
    return RecordProgram(options, call);
  }

  const Options options_;
  Json definitions_;
  Subjects subjects_;
};

Tools::Tools(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Tools::~Tools() = default;

const Json& Tools::Definitions() const { return impl_->definitions(); }

bool Tools::Has(const std::string& name, std::string* known) const {
  if (impl_->Find(name) != nullptr) return true;
  for (const Json& tool : impl_->definitions()) {
    Append(known, known->empty() ? "" : ", ", tool["name"].get<std::string>());
  }
  return false;
}

ToolResult Tools::Run(const std::string& name, const Json& arguments, Call* call) {
  ToolResult result = impl_->Run(name, arguments, call);
  result.text = Fit(Utf8(result.text));
  return result;
}

}  // namespace ttq::mcp

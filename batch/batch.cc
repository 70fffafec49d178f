// SPDX-License-Identifier: MIT

#include "batch/batch.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/threads.h"
#include "fmt/core.h"
#include "nlohmann/json.hpp"
#include "query/answers/format.h"
#include "query/engine/engine.h"
#include "query/find_trace.h"

namespace ttq {
namespace {

constexpr size_t kFirstRows = 3;
// Of rows that are compared, as text.
constexpr size_t kMaxAnswer = 512 << 20;

// A recording with engines for the processes that are asked about.
class OpenTrace {
 public:
  static absl::StatusOr<std::unique_ptr<OpenTrace>> Open(const std::string& path) {
    auto out = std::make_unique<OpenTrace>();
    ASSIGN_OR_RETURN(out->recording_, OpenWithHistory(path));
    return out;
  }
  absl::StatusOr<const Engine*> EngineFor(std::optional<uint32_t> process) {
    std::lock_guard lock(mutex_);
    std::unique_ptr<Engine>& engine = engines_[process.value_or(0)];
    if (!engine) {
      std::optional<ProcessNo> number;
      if (process) number = ProcessNo(*process);
      ASSIGN_OR_RETURN(engine, Engine::Open(recording_.get(), number));
    }
    return engine.get();
  }

 private:
  std::unique_ptr<Recording> recording_;
  std::mutex mutex_;
  std::map<uint32_t, std::unique_ptr<Engine>> engines_;
};

// Recordings while somebody needs them.
class Traces {
 public:
  absl::StatusOr<std::shared_ptr<OpenTrace>> Take(const std::string& path) {
    std::shared_ptr<Slot> slot;
    {
      std::lock_guard lock(mutex_);
      std::shared_ptr<Slot>& known = slots_[path];
      if (!known) known = std::make_shared<Slot>();
      slot = known;
    }
    std::lock_guard lock(slot->mutex);
    if (!slot->tried) {
      slot->tried = true;
      absl::StatusOr<std::unique_ptr<OpenTrace>> opened = OpenTrace::Open(path);
      if (opened.ok()) {
        slot->trace = *std::move(opened);
      } else {
        slot->error = opened.status();
      }
    }
    if (!slot->trace) return slot->error;
    return slot->trace;
  }
  void Forget(const std::string& path) {
    std::lock_guard lock(mutex_);
    slots_.erase(path);
  }

 private:
  struct Slot {
    std::mutex mutex;
    bool tried = false;
    std::shared_ptr<OpenTrace> trace;
    absl::Status error;
  };
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Slot>> slots_;
};

std::string RowText(const Row& row, const std::vector<Column>& columns) {
  std::string out = "{";
  for (size_t i = 0; i < columns.size(); ++i) {
    if (i > 0) out += ',';
    AppendJsonString(columns[i].name, &out);
    out += ':';
    AppendJson(row[i], columns[i].type, &out);
  }
  return out + "}";
}

absl::Status TooLong() {
  return absl::InvalidArgumentError("the answer is too long to compare; count or select less");
}

absl::StatusOr<std::vector<std::string>> AllRows(const Engine& engine, const Question& question,
                                                 ScanControl* control) {
  ASSIGN_OR_RETURN(std::unique_ptr<ResultStream> stream,
                   engine.Run(*question.query, RunOptions{.control = control}));
  std::vector<std::string> rows;
  size_t bytes = 0;
  for (Row row;;) {
    ASSIGN_OR_RETURN(bool more, stream->Next(&row));
    if (!more) break;
    rows.push_back(RowText(row, stream->columns()));
    bytes += rows.back().size();
    if (bytes > kMaxAnswer) return TooLong();
  }
  if (stream->interrupted()) return absl::CancelledError("interrupted");
  return rows;
}

// The rows of a file that `ttq query` wrote, each as JSON (of csv: as a line).
absl::StatusOr<std::vector<nlohmann::json>> FileRows(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError("cannot open " + path);
  std::vector<nlohmann::json> rows;
  const auto bad = [&path] { return absl::DataLossError(path + " does not hold rows in JSON"); };
  if (path.ends_with(".json")) {
    const nlohmann::json whole = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    const nlohmann::json list = whole.is_object() ? whole.value("rows", nlohmann::json()) : whole;
    if (!list.is_array()) return bad();
    return std::vector<nlohmann::json>(list.begin(), list.end());
  }
  const bool csv = path.ends_with(".csv");
  for (std::string line, more; std::getline(file, line);) {
    // A text in quotes may go over several lines.
    while (csv && std::count(line.begin(), line.end(), '"') % 2 != 0 && std::getline(file, more)) {
      line += "\n" + more;
    }
    if (line.empty()) continue;
    rows.push_back(csv ? nlohmann::json(line) : nlohmann::json::parse(line, nullptr, false));
    if (rows.back().is_discarded()) return bad();
  }
  return rows;
}

bool Holds(const Expectation& expect, uint64_t rows) {
  if (expect.comparison == "<") return rows < expect.count;
  if (expect.comparison == "<=") return rows <= expect.count;
  if (expect.comparison == "=") return rows == expect.count;
  if (expect.comparison == "!=") return rows != expect.count;
  if (expect.comparison == ">=") return rows >= expect.count;
  return rows > expect.count;
}

// Rows after which no further one changes the verdict.
uint64_t Enough(const Expectation& expect) {
  using Kind = Expectation::Kind;
  if (expect.kind == Kind::kNone || expect.kind == Kind::kSome) return kFirstRows;
  if (expect.kind != Kind::kCount) return UINT64_MAX;
  return std::max<uint64_t>(expect.count + 1, kFirstRows);
}

class Worker {
 public:
  Worker(Traces* traces, ScanControl* control) : traces_(*traces), control_(control) {}

  BatchResult Answer(const std::string& trace, const Question& question) {
    BatchResult result;
    result.trace = trace;
    result.question = question.name;
    result.query = question.text;
    result.expect = question.expect.text;
    const auto started = std::chrono::steady_clock::now();
    const absl::Status status = Ask(trace, question, &result);
    if (!status.ok()) {
      result.verdict =
          absl::IsInvalidArgument(status) || absl::IsNotFound(status) || absl::IsOutOfRange(status)
              ? Verdict::kFailed
              : Verdict::kUnreadable;
      result.detail = std::string(status.message());
    }
    result.elapsed_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - started)
            .count();
    return result;
  }

 private:
  absl::StatusOr<const Engine*> Open(const std::string& path, std::optional<uint32_t> process,
                                     std::shared_ptr<OpenTrace>* keep) {
    absl::StatusOr<std::shared_ptr<OpenTrace>> open = traces_.Take(path);
    if (!open.ok()) {
      // Whatever is wrong with it, it cannot be read.
      return absl::DataLossError(open.status().message());
    }
    *keep = *open;
    return (*open)->EngineFor(process);
  }

  absl::Status Ask(const std::string& trace, const Question& question, BatchResult* result) {
    using Kind = Expectation::Kind;
    const Expectation& expect = question.expect;
    std::shared_ptr<OpenTrace> open;
    ASSIGN_OR_RETURN(const Engine* engine, Open(trace, question.process, &open));
    const bool compares = expect.kind == Kind::kSameAs || expect.kind == Kind::kRowsEqual;
    ASSIGN_OR_RETURN(std::unique_ptr<ResultStream> stream,
                     engine->Run(*question.query, RunOptions{.control = control_}));
    std::vector<std::string> rows;
    size_t bytes = 0;
    const uint64_t enough = Enough(expect);
    for (Row row;;) {
      ASSIGN_OR_RETURN(bool more, stream->Next(&row));
      if (!more) break;
      if (result->rows == enough) {
        result->more = true;
        break;
      }
      ++result->rows;
      if (!compares && rows.size() >= kFirstRows) continue;
      rows.push_back(RowText(row, stream->columns()));
      bytes += rows.back().size();
      if (bytes > kMaxAnswer) return TooLong();
    }
    if (stream->interrupted()) return absl::CancelledError("interrupted");
    result->complete = stream->complete();
    result->detail = stream->note();
    result->first_rows.assign(rows.begin(), rows.begin() + std::min(rows.size(), kFirstRows));
    const auto met = [result](bool is) { result->verdict = is ? Verdict::kMet : Verdict::kNotMet; };
    switch (expect.kind) {
      case Kind::kAnswer:
        break;
      case Kind::kNone:
        met(result->rows == 0);
        break;
      case Kind::kSome:
        met(result->rows > 0);
        break;
      case Kind::kCount:
        met(Holds(expect, result->rows + result->more));
        break;
      case Kind::kSameAs:
        return CompareWithTrace(question, rows, result);
      case Kind::kRowsEqual:
        return CompareWithFile(expect, stream->columns(), rows, result);
    }
    return absl::OkStatus();
  }

  static void Differ(size_t row, std::string_view is, std::string_view wanted,
                     BatchResult* result) {
    result->verdict = Verdict::kNotMet;
    result->detail = fmt::format("row {} is {}, expected {}", row + 1, is.empty() ? "missing" : is,
                                 wanted.empty() ? "none" : wanted);
  }

  absl::Status CompareWithTrace(const Question& question, const std::vector<std::string>& rows,
                                BatchResult* result) {
    std::shared_ptr<OpenTrace> keep;
    ASSIGN_OR_RETURN(const Engine* engine, Open(question.expect.path, question.process, &keep));
    ASSIGN_OR_RETURN(std::vector<std::string> wanted, AllRows(*engine, question, control_));
    for (size_t i = 0; i < std::max(rows.size(), wanted.size()); ++i) {
      const std::string_view is = i < rows.size() ? std::string_view(rows[i]) : "";
      const std::string_view want = i < wanted.size() ? std::string_view(wanted[i]) : "";
      if (is != want) {
        Differ(i, is, want, result);
        break;
      }
    }
    return absl::OkStatus();
  }

  absl::Status CompareWithFile(const Expectation& expect, const std::vector<Column>& columns,
                               const std::vector<std::string>& rows, BatchResult* result) {
    ASSIGN_OR_RETURN(std::vector<nlohmann::json> wanted, FileRows(expect.path));
    const bool csv = expect.path.ends_with(".csv");
    if (csv && !wanted.empty()) wanted.erase(wanted.begin());  // the names
    for (size_t i = 0; i < std::max(rows.size(), wanted.size()); ++i) {
      nlohmann::json is;
      if (i < rows.size()) is = nlohmann::json::parse(rows[i], nullptr, false);
      if (csv && i < rows.size()) is = CsvLine(is, columns);
      const nlohmann::json want = i < wanted.size() ? wanted[i] : nlohmann::json();
      if (is != want) {
        Differ(i, i < rows.size() ? is.dump() : "", i < wanted.size() ? want.dump() : "", result);
        break;
      }
    }
    return absl::OkStatus();
  }

  // As `ttq query -f csv` writes a row.
  static std::string CsvLine(const nlohmann::json& row, const std::vector<Column>& columns) {
    std::string line;
    for (size_t i = 0; i < columns.size(); ++i) {
      if (i > 0) line += ',';
      const nlohmann::json& value = row[columns[i].name];
      const std::string text = value.is_null()     ? ""
                               : value.is_string() ? value.get<std::string>()
                                                   : value.dump();
      AppendCsvCell(text, &line);
    }
    return line.empty() ? "\"\"" : line;
  }

  Traces& traces_;
  ScanControl* control_;
};

}  // namespace

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMet:
      return "met";
    case Verdict::kNotMet:
      return "not met";
    case Verdict::kFailed:
      return "failed";
    case Verdict::kUnreadable:
      return "unreadable";
  }
  return "";
}

absl::Status RunBatch(const std::vector<Question>& questions,
                      const std::vector<std::string>& traces, const BatchOptions& options,
                      const std::function<void(const BatchResult&)>& report) {
  struct Task {
    const std::string* trace;
    const Question* question;
  };
  std::vector<Task> tasks;
  std::map<std::string, size_t> left;  // questions by trace
  for (const std::string& trace : traces) {
    for (const Question& question : questions) {
      if (options.skip && options.skip(trace, question)) continue;
      tasks.push_back({&trace, &question});
      ++left[trace];
    }
  }
  Traces open;
  std::mutex mutex;  // guards next, left and report
  size_t next = 0;
  const auto cancelled = [&] { return options.control && options.control->cancelled.load(); };
  const auto work = [&] {
    Worker worker(&open, options.control);
    for (;;) {
      Task task;
      {
        std::lock_guard lock(mutex);
        if (next == tasks.size() || cancelled()) return;
        task = tasks[next++];
      }
      const BatchResult result = worker.Answer(*task.trace, *task.question);
      std::lock_guard lock(mutex);
      if (cancelled()) return;
      report(result);
      if (--left[*task.trace] == 0) open.Forget(*task.trace);
    }
  };
  const unsigned jobs = options.jobs != 0 ? options.jobs : std::thread::hardware_concurrency();
  std::vector<std::future<void>> others;
  for (unsigned i = 1; i < std::min<size_t>(std::max(1u, jobs), tasks.size()); ++i) {
    others.push_back(InThreadIfPossible(work));
  }
  work();
  // For those that had no thread there is nothing left to do.
  for (auto& other : others) other.get();
  return cancelled() ? absl::CancelledError("interrupted") : absl::OkStatus();
}

}  // namespace ttq

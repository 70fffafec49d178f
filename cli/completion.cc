// SPDX-License-Identifier: MIT

#include "cli/completion.h"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "base/natural_order.h"
#include "base/text.h"
#include "cli/common.h"
#include "query/answers/recordings.h"
#include "query/find_trace.h"
#include "query/language/parser.h"

namespace ttq {
namespace {

// A key that takes longer than this is a nuisance.
constexpr std::chrono::milliseconds kCompletionPatience(300);

// Whether a character may be part of a name that stands without quotes.
bool IsNameByte(char c) { return IsWordByte(c) || c == ':' || c == '.' || c == '~'; }

// Where the word that ends the text begins.
size_t WordStart(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && IsNameByte(text[begin - 1])) --begin;
  return begin;
}

std::vector<std::string> WordsOf(std::string_view text) {
  std::vector<std::string> words;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && IsWordByte(text[end])) ++end;
    if (end == i) {
      if (text[i] != ' ') words.emplace_back(1, text[i]);
      end = i + 1;
    } else {
      words.push_back(Lower(text.substr(i, end - i)));
    }
    i = end;
  }
  return words;
}

bool EndsWith(const std::vector<std::string>& words, std::vector<std::string_view> end) {
  return words.size() >= end.size() && std::equal(end.rbegin(), end.rend(), words.rbegin());
}

// The last stage that stands outside of quotes and brackets begins here; npos: there is none.
size_t LastPipe(std::string_view text) {
  size_t at = std::string_view::npos;
  int depth = 0;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'' || c == '`') {
      quote = c;
    } else if (c == '(' || c == '[') {
      ++depth;
    } else if (c == ')' || c == ']') {
      --depth;
    } else if (c == '|' && depth == 0) {
      at = i;
    }
  }
  return at;
}

// Cancels a control unless it goes away soon.
class Timeout {
 public:
  explicit Timeout(ScanControl* control)
      : thread_([this, control] {
          std::unique_lock<std::mutex> lock(mutex_);
          if (!wake_.wait_for(lock, kCompletionPatience, [this] { return done_; }))
            control->cancelled = true;
        }) {}
  ~Timeout() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      done_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace

void Completer::SetEngine(const Recording* recording, const Engine* engine) {
  engine_ = engine;
  context_ = std::make_unique<Context>(recording, &engine->process());
  names_.clear();
}

const std::vector<std::string>& Completer::Names(NameClass which) {
  // Those of Python's functions become more while the recording is read.
  if (!names_.contains(which) || which == NameClass::kPythonFunctions) {
    names_[which] = context_ ? ListNames(*context_, which) : std::vector<std::string>();
  }
  return names_[which];
}

std::vector<std::string> Completer::Columns(std::string_view query) const {
  std::vector<std::string> names;
  const absl::StatusOr<ast::Query> parsed = ParseQuery(query);
  if (!parsed.ok() || !engine_) return names;
  ScanControl control;
  const Timeout timeout(&control);
  const auto stream = engine_->Run(*parsed, {.control = &control});
  if (!stream.ok()) return names;
  for (const Column& column : (*stream)->columns()) names.push_back(column.name);
  return names;
}

Completion Completer::Complete(std::string_view before) {
  Completion completion{.begin = WordStart(before)};
  const std::string_view begun = before.substr(completion.begin);
  std::set<std::string> found;
  const auto add = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (!name.starts_with(begun)) continue;
      // Others would need quotes, or do something to the terminal.
      if (!std::all_of(name.begin(), name.end(), IsNameByte) || Printable(name) != name) continue;
      found.insert(name);
    }
  };
  const std::vector<std::string> words = WordsOf(before.substr(0, completion.begin));
  const std::string first = words.empty() ? "" : words.front();
  if (words.empty()) add(commands_);
  if (words.size() == 1 && (first == "open" || first == "process" || first == "help")) {
    completion.begin = before.find_last_of(' ') + 1;
    const std::string_view wanted = before.substr(completion.begin);
    if (first == "process") add(processes_);
    if (first == "open") {
      for (const Listed& listed : ListRecordings(HomeDirectory())) {
        if (listed.name.starts_with(wanted) && Printable(listed.name) == listed.name) {
          found.insert(listed.name);
        }
      }
    }
  } else {
    // A moment is typed as it is in a question.
    const std::string as_query =
        first == "at" ? "threads " + std::string(before) : std::string(before);
    add(NextWords(as_query));
    const size_t pipe = LastPipe(before);
    const bool condition = std::find(words.begin(), words.end(), "where") != words.end();
    const bool python = std::find(words.begin(), words.end(), "py") != words.end();
    const bool function = EndsWith(words, {"calls", "to"}) ||
                          EndsWith(words, {"executions", "of"}) || EndsWith(words, {"by"}) ||
                          EndsWith(words, {"disassemble"});
    if (EndsWith(words, {"by", "python"}) || (python && function) || EndsWith(words, {"in"})) {
      add(Names(NameClass::kPythonFunctions));
    } else if (function && pipe == std::string_view::npos) {
      add(Names(NameClass::kFunctions));
    } else if (pipe != std::string_view::npos || condition) {
      const size_t end = pipe != std::string_view::npos ? pipe : before.rfind("where");
      if (words.back() != "|") add(Columns(before.substr(0, end)));
    } else if (words.size() > 1 || EndsWith(words, {"print"}) || EndsWith(words, {"memory"})) {
      if (!begun.empty() || EndsWith(words, {"to"}) || EndsWith(words, {"of"}) ||
          EndsWith(words, {"print"}) || EndsWith(words, {"memory"})) {
        add(Names(NameClass::kGlobals));
      }
    }
  }
  completion.candidates.assign(found.begin(), found.end());
  std::sort(completion.candidates.begin(), completion.candidates.end(), NaturalLess);
  return completion;
}

}  // namespace ttq

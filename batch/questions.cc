// SPDX-License-Identifier: MIT

#include "batch/questions.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>

#include "absl/strings/numbers.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/language/diagnostic.h"
#include "query/language/parser.h"

namespace ttq {
namespace {

constexpr size_t kMaxText = 16 << 20;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  FILE* file = fopen(path.c_str(), "re");
  if (!file) {
    return absl::InvalidArgumentError(fmt::format("cannot open {}: {}", path, strerror(errno)));
  }
  std::string text;
  char buffer[1 << 16];
  while (const size_t n = fread(buffer, 1, sizeof buffer, file)) {
    text.append(buffer, n);
    if (text.size() > kMaxText) break;
  }
  const bool failed = ferror(file) != 0;
  const int error = errno;
  fclose(file);
  if (failed) {
    return absl::InvalidArgumentError(fmt::format("cannot read {}: {}", path, strerror(error)));
  }
  if (text.size() > kMaxText) return absl::InvalidArgumentError(path + " is longer than 16 MiB");
  return text;
}

// The words of `text`.
std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> words;
  for (;;) {
    const size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos) return words;
    const size_t end = std::min(text.find_first_of(" \t\r\n", begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
}

absl::Status At(const std::string& path, int line, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("{}:{}: {}", path, line, what));
}

// Reads one query; an error carries the file and line.
absl::Status SetQuery(const std::string& path, int line, std::string text, Question* question) {
  absl::StatusOr<ast::Query> query = ParseQuery(text);
  if (!query.ok()) return At(path, line, std::string(query.status().message()));
  question->query = std::make_shared<const ast::Query>(*std::move(query));
  question->text = std::move(text);
  return absl::OkStatus();
}

// ---- YAML ---------------------------------------------------------------------------------------

class YamlReader {
 public:
  YamlReader(const std::string& path, std::string directory)
      : path_(path), directory_(std::move(directory)) {}

  absl::StatusOr<std::vector<Question>> Read(const std::string& text) {
    try {
      return Questions(YAML::Load(text));
    } catch (const YAML::Exception& e) {
      return At(path_, e.mark.line + 1, e.msg);
    }
  }

 private:
  absl::Status Wrong(const YAML::Node& node, const std::string& what) const {
    return At(path_, node.Mark().line + 1, what);
  }

  // Refuses keys that are not among `known`.
  absl::Status CheckKeys(const YAML::Node& map, std::string_view known) const {
    for (const auto& entry : map) {
      const std::string key = entry.first.as<std::string>();
      const std::vector<std::string> words = Words(known);
      if (std::find(words.begin(), words.end(), key) != words.end()) continue;
      const std::string meant = NearestWord(key, known);
      return Wrong(entry.first,
                   fmt::format("there is no key '{}'{}", key,
                               meant.empty() ? fmt::format("; the keys are {}", known)
                                             : fmt::format(", did you mean '{}'?", meant)));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Question>> Questions(const YAML::Node& root) {
    YAML::Node list = root;
    if (root.IsMap()) {
      RETURN_IF_ERROR(CheckKeys(root, "questions"));
      list = root["questions"];
    }
    if (!list || !list.IsSequence()) {
      return Wrong(root, "expected a list of questions, or `questions:` and such a list");
    }
    std::vector<Question> questions;
    for (const YAML::Node& node : list) {
      ASSIGN_OR_RETURN(Question question, One(node));
      questions.push_back(std::move(question));
    }
    return questions;
  }

  absl::StatusOr<Question> One(const YAML::Node& node) {
    if (!node.IsMap()) return Wrong(node, "a question has the keys name, query, expect, process");
    RETURN_IF_ERROR(CheckKeys(node, "name query expect process"));
    for (const auto& entry : node) {
      if (!entry.second.IsScalar()) return Wrong(entry.second, "expected one value here");
    }
    Question question;
    if (!node["query"]) return Wrong(node, "this question has no query");
    const YAML::Node query = node["query"];
    RETURN_IF_ERROR(SetQuery(path_, query.Mark().line + 1, query.Scalar(), &question));
    if (node["name"]) question.name = node["name"].Scalar();
    if (const YAML::Node process = node["process"]) {
      uint32_t number;
      if (!absl::SimpleAtoi(process.Scalar(), &number) || number == 0) {
        return Wrong(process, "a process is named by its number in `ttq info`");
      }
      question.process = number;
    }
    if (const YAML::Node expect = node["expect"]) {
      absl::StatusOr<Expectation> parsed = ParseExpectation(expect.Scalar(), directory_);
      if (!parsed.ok()) return Wrong(expect, std::string(parsed.status().message()));
      question.expect = *std::move(parsed);
    }
    return question;
  }

  const std::string& path_;
  const std::string directory_;
};

// ---- Files of queries ---------------------------------------------------------------------------

// The comment lines right above byte `at`, without their `#`, first to last.
std::vector<std::string> CommentsAbove(std::string_view text, size_t at) {
  std::vector<std::string> comments;
  size_t end = text.rfind('\n', at);  // of the line above
  if (at == 0) return comments;
  while (end != std::string_view::npos) {
    const size_t start = end == 0 ? 0 : text.rfind('\n', end - 1) + 1;  // npos + 1 is 0
    const std::string_view line = text.substr(start, end - start);
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos || line[begin] != '#') break;
    comments.emplace_back(line.substr(begin + 1));
    end = start == 0 ? std::string_view::npos : start - 1;
  }
  std::reverse(comments.begin(), comments.end());
  return comments;
}

absl::StatusOr<std::vector<Question>> ReadScript(const std::string& path, const std::string& text,
                                                 const std::string& directory) {
  absl::StatusOr<std::vector<ast::Query>> queries = ParseScript(text);
  if (!queries.ok()) {
    int line = 1;
    if (const std::optional<Diagnostic> d = GetDiagnostic(queries.status())) {
      line += static_cast<int>(
          std::count(text.begin(), text.begin() + std::min<size_t>(d->begin, text.size()), '\n'));
    }
    return At(path, line, std::string(queries.status().message()));
  }
  std::vector<Question> questions;
  for (ast::Query& query : *queries) {
    const int line =
        1 + static_cast<int>(std::count(text.begin(), text.begin() + query.range.begin, '\n'));
    Question question;
    const std::string own = text.substr(query.range.begin, query.range.end - query.range.begin);
    RETURN_IF_ERROR(SetQuery(path, line, own, &question));
    for (const std::string& comment : CommentsAbove(text, query.range.begin)) {
      const std::string trimmed =
          comment.substr(std::min(comment.find_first_not_of(' '), comment.size()));
      if (trimmed.starts_with("name:")) {
        const size_t begin = trimmed.find_first_not_of(' ', 5);
        if (begin != std::string::npos) question.name = trimmed.substr(begin);
      } else if (trimmed.starts_with("expect:")) {
        absl::StatusOr<Expectation> expect = ParseExpectation(trimmed.substr(7), directory);
        if (!expect.ok()) return At(path, line, std::string(expect.status().message()));
        question.expect = *std::move(expect);
      }
    }
    questions.push_back(std::move(question));
  }
  return questions;
}

}  // namespace

absl::StatusOr<Expectation> ParseExpectation(std::string_view text, const std::string& directory) {
  const std::vector<std::string> words = Words(text);
  Expectation expect;
  for (const std::string& word : words) expect.text += (expect.text.empty() ? "" : " ") + word;
  const auto path = [&](size_t first) {
    std::string name;
    for (size_t i = first; i < words.size(); ++i) name += (i > first ? " " : "") + words[i];
    const std::filesystem::path relative = std::filesystem::path(directory) / name;
    std::error_code ec;
    return std::filesystem::exists(relative, ec) ? relative.string() : name;
  };
  if (words.empty()) return expect;
  if (words.size() == 1 && words[0] == "none") {
    expect.kind = Expectation::Kind::kNone;
    return expect;
  }
  if (words.size() == 1 && words[0] == "some") {
    expect.kind = Expectation::Kind::kSome;
    return expect;
  }
  static constexpr std::array<std::string_view, 7> kComparisons = {
      "<", "<=", "=", "==", "!=", ">=", ">"};
  if (words.size() == 3 && words[0] == "count" &&
      std::find(kComparisons.begin(), kComparisons.end(), words[1]) != kComparisons.end() &&
      absl::SimpleAtoi(words[2], &expect.count)) {
    expect.kind = Expectation::Kind::kCount;
    expect.comparison = words[1] == "==" ? "=" : words[1];
    return expect;
  }
  if (words.size() >= 3 && words[0] == "same" && words[1] == "as") {
    expect.kind = Expectation::Kind::kSameAs;
    expect.path = path(2);
    return expect;
  }
  if (words.size() >= 3 && words[0] == "rows" && words[1] == "equal") {
    expect.kind = Expectation::Kind::kRowsEqual;
    expect.path = path(2);
    return expect;
  }
  return absl::InvalidArgumentError(fmt::format(
      "cannot expect '{}': say none, some, count <= N, same as TRACE or rows equal FILE",
      expect.text));
}

bool IsQuestionFile(std::string_view path) {
  return path.ends_with(".yaml") || path.ends_with(".yml") || path.ends_with(".ttql");
}

absl::StatusOr<std::vector<Question>> LoadQuestions(const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  const std::string directory = std::filesystem::path(path).parent_path().string();
  ASSIGN_OR_RETURN(std::vector<Question> questions, path.ends_with(".ttql")
                                                        ? ReadScript(path, text, directory)
                                                        : YamlReader(path, directory).Read(text));
  if (questions.empty()) return absl::InvalidArgumentError(path + " has no questions");
  std::set<std::string> names;
  for (Question& question : questions) {
    const std::string base = question.name.empty() ? question.text : question.name;
    question.name = base;
    for (int n = 2; !names.insert(question.name).second; ++n) {
      question.name = fmt::format("{} ({})", base, n);
    }
  }
  return questions;
}

}  // namespace ttq

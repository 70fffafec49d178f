// SPDX-License-Identifier: MIT
//
// The questions of a batch: queries with names and with what is expected of their answers, from a
// YAML file or from a file of queries. Both are untrusted.
//
//     questions:                          # *.yaml, *.yml
//       - name: nobody writes to the table
//         query: writes to table
//         expect: none
//         process: 2                      # as `ttq query -p`
//
//     # name: nobody writes to the table  # *.ttql: comments right above a query
//     # expect: none
//     writes to table

#ifndef TTQ_BATCH_QUESTIONS_H_
#define TTQ_BATCH_QUESTIONS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "query/language/ast.h"

namespace ttq {

struct Expectation {
  enum class Kind {
    kAnswer,    // nothing but that it can be answered
    kNone,      // no rows
    kSome,      // at least one
    kCount,     // count OP N
    kSameAs,    // the rows that another recording gives
    kRowsEqual  // the rows of a file, as `ttq query -f json|jsonl|csv` wrote it
  };
  Kind kind = Kind::kAnswer;
  std::string comparison;  // kCount: "<", "<=", "=", "!=", ">=", ">"
  uint64_t count = 0;
  std::string path;  // kSameAs: a recording; kRowsEqual: a file
  std::string text;  // as it was written; "" for kAnswer
};

// `none`, `some`, `count <= 3`, `same as TRACE`, `rows equal FILE`; empty: kAnswer. A relative path
// is taken from `directory`. InvalidArgument names what was not understood.
absl::StatusOr<Expectation> ParseExpectation(std::string_view text, const std::string& directory);

struct Question {
  std::string name;
  std::string text;  // the query
  std::shared_ptr<const ast::Query> query;
  std::optional<uint32_t> process;
  Expectation expect;
};

// By the file's name: .yaml and .yml, or .ttql. InvalidArgument, with file and line, for what is
// wrong in it; a question without a name is called by its query. Names are made unique.
absl::StatusOr<std::vector<Question>> LoadQuestions(const std::string& path);
bool IsQuestionFile(std::string_view path);

}  // namespace ttq

#endif  // TTQ_BATCH_QUESTIONS_H_

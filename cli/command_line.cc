// SPDX-License-Identifier: MIT

#include "cli/command_line.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "fmt/core.h"

namespace ttq {
namespace {

template <class T>
struct ValueOf {
  using type = T;
};
template <class T>
struct ValueOf<std::optional<T>> {
  using type = T;
};

}  // namespace

CommandLine::CommandLine(std::string name)
    : name_(std::move(name)), app_(std::make_unique<CLI::App>("", name_)) {
  Declare(app_->get_help_ptr(), "-h,--help", app_->get_help_ptr()->get_description());
}

CommandLine::~CommandLine() = default;

CommandLine::Option& CommandLine::Declare(CLI::Option* option, const std::string& names,
                                          const std::string& description) {
  Option& declared = options_.emplace_back();
  declared.option_ = option;
  declared.description_ = description;
  if (names.starts_with('-')) {
    declared.names_ = absl::StrSplit(names, ',');
  } else {
    declared.value_ = names;
  }
  return declared;
}

template <class Target>
CommandLine::Option& CommandLine::Add(const std::string& names, Target* target,
                                      const std::string& description) {
  Option& declared = Declare(app_->add_option(names, *target), names, description);
  const bool is_number = std::is_arithmetic_v<typename ValueOf<Target>::type>;
  return declared.is_argument() ? declared : declared.Called(is_number ? "N" : "VALUE");
}

template CommandLine::Option& CommandLine::Add(const std::string&, std::string*,
                                               const std::string&);
template CommandLine::Option& CommandLine::Add(const std::string&, std::optional<std::string>*,
                                               const std::string&);
template CommandLine::Option& CommandLine::Add(const std::string&, std::vector<std::string>*,
                                               const std::string&);
template CommandLine::Option& CommandLine::Add(const std::string&, int*, const std::string&);
template CommandLine::Option& CommandLine::Add(const std::string&, std::optional<uint16_t>*,
                                               const std::string&);
template CommandLine::Option& CommandLine::Add(const std::string&, unsigned*, const std::string&);
template CommandLine::Option& CommandLine::Add(const std::string&, uint64_t*, const std::string&);
template CommandLine::Option& CommandLine::Add(const std::string&, std::optional<uint64_t>*,
                                               const std::string&);

CommandLine::Option& CommandLine::AddFlag(const std::string& names, bool* target,
                                          const std::string& description) {
  return Declare(app_->add_flag(names, *target), names, description);
}

absl::StatusOr<bool> CommandLine::Parse(std::vector<std::string> words) {
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    app_->parse(std::move(words));
    return true;
  } catch (const CLI::CallForHelp&) {
    return false;
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

bool CommandLine::TakesValue(const std::string& word) const {
  const CLI::Option* option = app_->get_option_no_throw(word);
  return option && option->get_expected_max() > 0;
}

CommandLine::Option& CommandLine::Option::Called(std::string value) {
  value_ = std::move(value);
  option_->type_name(value_);
  return *this;
}

CommandLine::Option& CommandLine::Option::OneOf(std::vector<std::string> choices) {
  choices_ = std::move(choices);
  return Checked([this](const std::string& value) -> std::string {
    if (std::find(choices_.begin(), choices_.end(), value) != choices_.end()) return "";
    return fmt::format("{} not in {{{}}}", value, absl::StrJoin(choices_, ","));
  });
}

CommandLine::Option& CommandLine::Option::Checked(Check check) {
  option_->check(std::move(check));
  return *this;
}

CommandLine::Option& CommandLine::Option::Required() {
  option_->required();
  return *this;
}

CommandLine::Option& CommandLine::Option::Hidden() {
  hidden_ = true;
  return *this;
}

CommandLine::Option& CommandLine::Option::OneWordEach() {
  option_->allow_extra_args(false);
  return *this;
}

CommandLine::Check WholeNumber(uint64_t least, uint64_t most) {
  return [least, most](const std::string& value) -> std::string {
    uint64_t n = 0;
    if (absl::SimpleAtoi(value, &n) && n >= least && n <= most) return "";
    return most == UINT64_MAX ? fmt::format("{} is no number from {} on", value, least)
                              : fmt::format("{} is no number from {} to {}", value, least, most);
  };
}

}  // namespace ttq

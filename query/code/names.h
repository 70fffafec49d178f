// SPDX-License-Identifier: MIT
//
// Names of functions and variables as people write them: demangling, matching a user's pattern, and
// suggesting what was perhaps meant. Symbol names come from untrusted files and patterns from
// untrusted queries: each call's time and memory are bounded by a low polynomial of its input.
// Thread-safe: nothing here changes after construction.

#ifndef TTQ_QUERY_CODE_NAMES_H_
#define TTQ_QUERY_CODE_NAMES_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ttq {

// What a user writes for FUNCTION: name, "glob*" or /regex/, optionally module!name.
struct NamePattern {
  enum class Kind : uint8_t { kName, kGlob, kRegex };
  Kind kind = Kind::kName;
  // kName matches the linker's name, the demangled name with or without parameters, and any tail of
  // the qualified name that starts at a component, template arguments given or not: `push`,
  // `Stack::push`, `ns::Stack<int>::push`. kGlob (`*`, `?`, `[a-z]`) must match one of these whole
  // names; kRegex (RE2) is searched for in the demangled name with parameters.
  std::string text;
  // A glob over the module's base name, which also matches without ".so" and version: "libc" and
  // "libc.so.6" both name libc.so.6. Empty: any module.
  std::string module;
};

struct DemangledName {
  std::string symbol;  // "_ZN2ns3maxIiEET_S1_S1_.cold"
  std::string name;    // "ns::max<int>.cold": no return type, no parameters
  std::string full;    // "int ns::max<int>(int, int).cold"
};

// A symbol of C++ or Rust, by how it begins. Others may begin so too.
bool IsMangled(std::string_view symbol);

// A symbol that is not mangled, or too intricate to be demangled within bounds, stays as it is.
DemangledName Demangle(std::string_view symbol);

// `symbol` without what GCC and Clang append to the parts and clones they make of a function
// (".cold", ".part.0", ".constprop.0.isra.0", …).
std::string_view WithoutCloneSuffix(std::string_view symbol);
// A copy of a function that the compiler made with other parameters: `f.constprop.0`.
bool HasOtherParameters(std::string_view symbol);
// It is the part of another function that is rarely executed.
bool IsColdPart(std::string_view symbol);

// ASCII letters and digits, `_` and `$`.
bool IsIdentifierChar(char c);

// `*`, `?`, `[a-z]`, `[!a-z]`; all of `text` must match. A "[" without "]" stands for itself.
bool GlobMatches(std::string_view glob, std::string_view text);

// A NamePattern made ready to be compared with many names.
class NameMatcher {
 public:
  // kInvalidArgument, with the reason, for an empty pattern or a regex that cannot be understood.
  static absl::StatusOr<NameMatcher> Create(const NamePattern& pattern);
  NameMatcher(NameMatcher&&) noexcept;
  NameMatcher& operator=(NameMatcher&&) noexcept;
  ~NameMatcher();

  // See NamePattern. ABI tags (`str[abi:cxx11]`) need not be given.
  bool MatchesModule(std::string_view base_name) const;
  // Cheap: false is certain, true is not. `symbol` may be mangled.
  bool MayMatch(std::string_view symbol) const;
  bool Matches(const DemangledName& name) const;
  // A plain identifier, of IsIdentifierChar, that every match's symbol contains; empty when there
  // is no such.
  std::string_view required() const;

 private:
  bool MatchesExactly(const DemangledName& name) const;
  struct Impl;
  explicit NameMatcher(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Collects the names nearest to a wanted one, by edit distance over their last components.
class Suggestions {
 public:
  explicit Suggestions(std::string_view wanted);
  // `symbol` may be mangled.
  void Add(std::string_view symbol);
  // Whether a name is one letter away: to look on where that takes long is not worth it.
  bool HasNear() const { return !best_.empty() && best_.front().distance <= 1; }
  // Nearest first, at most `count`; empty when nothing comes near.
  std::vector<std::string> Take(size_t count = 5);

 private:
  struct Candidate {
    size_t distance;
    std::string name;
    auto operator<=>(const Candidate&) const = default;
  };
  std::string wanted_;
  size_t limit_;
  std::vector<Candidate> best_;
};

}  // namespace ttq

#endif  // TTQ_QUERY_CODE_NAMES_H_

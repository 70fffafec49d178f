// SPDX-License-Identifier: MIT

#include "query/code/names.h"

#include "base/edit_distance.h"
// Else it declares basename once more, otherwise than the C library.
#define HAVE_DECL_BASENAME 1
#include <libiberty/demangle.h>

#include <algorithm>
#include <cctype>
#include <csetjmp>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "re2/re2.h"

namespace ttq {

bool IsMangled(std::string_view symbol) {
  return symbol.starts_with("_Z") || symbol.starts_with("_R");
}

bool IsIdentifierChar(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '$'; }
namespace {

// A mangled name may refer to its own earlier parts, so that its demangled form can be
// exponentially longer. Of Rust's, with n references the growth is at most 3^(n/3); this keeps it
// within some megabytes.
constexpr int kMaxRustReferences = 36;
constexpr size_t kMaxMangled = 4096;
// A C++ name that is longer is given up.
constexpr size_t kMaxDemangled = 64 << 10;
// References to template parameters, each of which the demangler keeps a scope for on the stack,
// for each template: a megabyte and a half at most.
constexpr int kMaxParameters = 100;

// They are one of `letters`, a number, `_`.
template <class IsDigit>
int CountReferences(std::string_view mangled, std::string_view letters, IsDigit is_digit) {
  int count = 0;
  for (size_t i = 0; i < mangled.size(); ++i) {
    if (letters.find(mangled[i]) == std::string_view::npos) continue;
    size_t end = i + 1;
    while (end < mangled.size() && is_digit(mangled[end])) ++end;
    if (end < mangled.size() && mangled[end] == '_') ++count;
  }
  return count;
}
int CountParameters(std::string_view mangled) {
  return CountReferences(mangled, "T", [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
           absl::ascii_isupper(static_cast<unsigned char>(c));
  });
}
int CountRustReferences(std::string_view mangled) {
  return CountReferences(mangled, "B",
                         [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); });
}

// By its look: v0, or C++'s mangling with a hash at the end.
bool IsRust(std::string_view mangled) {
  constexpr size_t kHashBytes = 20;  // "17h", sixteen digits, "E"
  return mangled.starts_with("_R") ||
         (mangled.starts_with("_ZN") && mangled.size() > kHashBytes && mangled.ends_with('E') &&
          mangled.substr(mangled.size() - kHashBytes, 3) == "17h");
}

struct Demangled {
  std::string text;
  std::jmp_buf too_long;
};

void AppendDemangled(const char* piece, size_t size, void* opaque) {
  auto* out = static_cast<Demangled*>(opaque);
  // The demangler keeps all it has on the stack, and has no other way to be stopped.
  if (out->text.size() + size > kMaxDemangled) std::longjmp(out->too_long, 1);
  out->text.append(piece, size);
}

// False when it is no name, or one that is too long.
bool DemangleInto(const char* mangled, Demangled* out) {
  if (setjmp(out->too_long) != 0) return false;
  // Its limit of recursion would refuse what is longer than 1,024; kMaxMangled takes its place.
  constexpr int kOptions = DMGL_PARAMS | DMGL_NO_RECURSE_LIMIT;
  return cplus_demangle_v3_callback(mangled, kOptions, AppendDemangled, out) != 0;
}

// Of a C++ symbol. Empty when it cannot be done.
std::string DemangleWhole(const std::string& mangled) {
  if (mangled.size() > kMaxMangled || CountParameters(mangled) > kMaxParameters) return "";
  Demangled out;
  return DemangleInto(mangled.c_str(), &out) ? std::move(out.text) : "";
}

// The place of the operator's symbol when `s` at `i` begins the word "operator".
bool IsOperatorWord(std::string_view s, size_t i) {
  constexpr std::string_view kWord = "operator";
  return s.substr(i, kWord.size()) == kWord && (i == 0 || !IsIdentifierChar(s[i - 1])) &&
         (i + kWord.size() == s.size() || !IsIdentifierChar(s[i + kWord.size()]));
}

// How deep in brackets a name is after `s[i]`, when it was `depth` before.
int DepthAfter(int depth, std::string_view s, size_t i) {
  const char c = s[i];
  if (c == '<' || c == '(' || c == '{' || c == '[') return depth + 1;
  if (c == '>' && i > 0 && s[i - 1] == '-') return depth;  // an arrow
  if (c == '>' || c == ')' || c == '}' || c == ']') return std::max(0, depth - 1);
  return depth;
}

// Removes the parameter list and what follows it, and (`return_type`) what precedes the name.
std::string_view NameOnly(std::string_view s, bool return_type) {
  std::string_view name = s;
  for (bool again = true; again;) {
    again = false;
    for (std::string_view tail : {" const", " volatile", " &&", " &", " noexcept"}) {
      if (name.size() > tail.size() && name.substr(name.size() - tail.size()) == tail) {
        name.remove_suffix(tail.size());
        again = true;
      }
    }
  }
  if (name.empty() || name.back() != ')') return s;
  int depth = 0;
  size_t open = name.size();
  while (open > 0) {
    --open;
    if (name[open] == ')') ++depth;
    if (name[open] == '(' && --depth == 0) break;
  }
  if (depth != 0 || open == 0) return s;
  name = name.substr(0, open);
  if (!return_type) return name;
  size_t begin = 0;
  depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (depth == 0 && IsOperatorWord(name, i)) break;
    depth = DepthAfter(depth, name, i);
    if (depth == 0 && name[i] == ' ') begin = i + 1;
  }
  return name.substr(begin);
}

// Of a Rust symbol, without the hashes of crates and instances, and otherwise as in C++:
// "core::ops::f<u8>", "alloc::Vec<u8>::push" ("<u8 as core::Display>::fmt" stays). Empty for any
// other, and when it cannot be done.
std::string DemangleRust(const std::string& mangled) {
  if (mangled.size() > kMaxMangled || CountRustReferences(mangled) > kMaxRustReferences) return "";
  char* text = rust_demangle(mangled.c_str(), DMGL_PARAMS);
  std::string name = text == nullptr ? "" : absl::StrReplaceAll(text, {{"::<", "<"}});
  std::free(text);
  if (name.empty() || name[0] != '<') return name;
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    depth = DepthAfter(depth, name, i);
    // Neither a trait's nor that of a type without a name, as "&str" and "[T]".
    if (depth == 1 && i > 0 && name[i] == ' ') break;
    if (depth > 0) continue;
    if (IsIdentifierChar(name[1])) return absl::StrCat(name.substr(1, i - 1), name.substr(i + 1));
    break;
  }
  return name;
}

// Where the components of a qualified name start, the first included.
std::vector<size_t> ComponentStarts(std::string_view name) {
  std::vector<size_t> starts = {0};
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (depth == 0 && IsOperatorWord(name, i)) break;
    depth = DepthAfter(depth, name, i);
    if (depth == 0 && name[i] == ':' && i + 2 < name.size() && name[i + 1] == ':') {
      starts.push_back(i + 2);
      ++i;
    }
  }
  return starts;
}

// "Stack<int>::push<char>" -> "Stack::push".
std::string WithoutTemplateArguments(std::string_view name) {
  std::string out;
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (depth == 0 && IsOperatorWord(name, i)) {
      // The operator's own sign is no bracket. Template arguments after it stay: rare.
      out.append(name.substr(i));
      break;
    }
    if (name[i] == '<') {
      ++depth;
    } else if (name[i] == '>' && depth > 0) {
      --depth;
    } else if (depth == 0) {
      out.push_back(name[i]);
    }
  }
  return out;
}

constexpr std::string_view kAbiTag = "[abi:";

// "to_string[abi:cxx11]" -> "to_string": nobody writes the tag.
std::string WithoutAbiTags(std::string_view name) {
  std::string out(name);
  for (size_t at = out.find(kAbiTag); at != std::string::npos; at = out.find(kAbiTag, at)) {
    const size_t end = out.find(']', at);
    out.erase(at, end == std::string::npos ? end : end + 1 - at);
  }
  return out;
}

std::string WithoutSpaces(std::string_view s) {
  std::string out;
  for (char c : s) {
    if (c != ' ') out.push_back(c);
  }
  return out;
}

std::string_view LastComponent(std::string_view name) {
  return name.substr(ComponentStarts(name).back());
}

constexpr size_t kMaxPattern = 1000;

}  // namespace

std::string_view WithoutCloneSuffix(std::string_view symbol) {
  size_t best = symbol.size();
  for (std::string_view tag :
       {".cold", ".part.", ".constprop.", ".isra.", ".lto_priv.", ".llvm.", ".localalias"}) {
    size_t at = symbol.find(tag);
    if (at != std::string_view::npos && at > 0) best = std::min(best, at);
  }
  return symbol.substr(0, best);
}

bool IsColdPart(std::string_view symbol) {
  std::string_view suffix = symbol.substr(WithoutCloneSuffix(symbol).size());
  return suffix.find(".cold") != std::string_view::npos;
}

bool HasOtherParameters(std::string_view symbol) {
  const std::string_view suffix = symbol.substr(WithoutCloneSuffix(symbol).size());
  for (const std::string_view tag : {".constprop.", ".isra.", ".part."}) {
    if (suffix.find(tag) != std::string_view::npos) return true;
  }
  return false;
}

DemangledName Demangle(std::string_view symbol) {
  DemangledName out;
  out.symbol = std::string(symbol);
  std::string_view base = WithoutCloneSuffix(symbol);
  std::string_view suffix = symbol.substr(base.size());
  if (IsRust(base)) {
    out.name = out.full = DemangleRust(std::string(base));
    if (!out.name.empty()) return out;
  }
  std::string whole = base.starts_with("_Z") ? DemangleWhole(std::string(base)) : "";
  if (whole.empty()) {
    out.name = out.full = out.symbol;
    return out;
  }
  // "vtable for X", "non-virtual thunk to f()": words in front that are no return type.
  bool special = base.size() > 2 && (base[2] == 'T' || base[2] == 'G');
  out.name = absl::StrCat(std::string(NameOnly(whole, !special)), std::string(suffix));
  out.full = absl::StrCat(whole, std::string(suffix));
  return out;
}

bool GlobMatches(std::string_view glob, std::string_view text) {
  // One place to go back to is enough: a later star makes an earlier one's choice final.
  size_t g = 0, t = 0, star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    size_t next = g + 1;
    bool match = false;
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      star_text = t;
      continue;
    }
    if (g < glob.size()) {
      size_t close = glob[g] == '[' ? glob.find(']', g + 2) : std::string_view::npos;
      if (glob[g] == '?') {
        match = true;
      } else if (close != std::string_view::npos) {
        size_t i = g + 1;
        bool negate = glob[i] == '!' || glob[i] == '^';
        if (negate) ++i;
        bool in = false;
        while (i < close) {
          if (i + 2 < close && glob[i + 1] == '-') {
            in |= glob[i] <= text[t] && text[t] <= glob[i + 2];
            i += 3;
          } else {
            in |= glob[i++] == text[t];
          }
        }
        match = in != negate;
        next = close + 1;
      } else {
        match = glob[g] == text[t];
      }
    }
    if (match) {
      g = next;
      ++t;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

struct NameMatcher::Impl {
  NamePattern pattern;
  std::unique_ptr<RE2> regex;
  std::string required;
};

NameMatcher::NameMatcher(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NameMatcher::NameMatcher(NameMatcher&&) noexcept = default;
NameMatcher& NameMatcher::operator=(NameMatcher&&) noexcept = default;
NameMatcher::~NameMatcher() = default;

absl::StatusOr<NameMatcher> NameMatcher::Create(const NamePattern& pattern) {
  if (pattern.text.empty()) return absl::InvalidArgumentError("an empty name");
  if (pattern.text.size() > kMaxPattern) return absl::InvalidArgumentError("the name is too long");
  auto impl = std::make_unique<Impl>();
  impl->pattern = pattern;
  std::string& text = impl->pattern.text;
  switch (pattern.kind) {
    case NamePattern::Kind::kRegex:
      impl->regex = std::make_unique<RE2>(text, RE2::Quiet);
      if (!impl->regex->ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("the regular expression: ", impl->regex->error()));
      }
      break;
    case NamePattern::Kind::kGlob:
      break;
    case NamePattern::Kind::kName: {
      if (text.substr(0, 2) == "::" && text.size() > 2) text.erase(0, 2);
      std::string_view last = LastComponent(WithoutCloneSuffix(text));
      size_t n = 0;
      while (n < last.size() && IsIdentifierChar(last[n])) ++n;
      if (n > 0 && !IsOperatorWord(last, 0) && !absl::ascii_isdigit(last[0])) {
        impl->required = std::string(last.substr(0, n));
      }
      break;
    }
  }
  return NameMatcher(std::move(impl));
}

bool NameMatcher::MatchesModule(std::string_view base_name) const {
  const std::string& glob = impl_->pattern.module;
  if (glob.empty() || GlobMatches(glob, base_name)) return true;
  size_t so = base_name.find(".so");
  return so != std::string_view::npos && GlobMatches(glob, base_name.substr(0, so));
}

std::string_view NameMatcher::required() const { return impl_->required; }

bool NameMatcher::MayMatch(std::string_view symbol) const {
  return impl_->required.empty() || symbol.find(impl_->required) != std::string_view::npos;
}

bool NameMatcher::Matches(const DemangledName& n) const {
  if (MatchesExactly(n)) return true;
  if (n.full.find(kAbiTag) == std::string::npos) return false;
  return MatchesExactly({n.symbol, WithoutAbiTags(n.name), WithoutAbiTags(n.full)});
}

bool NameMatcher::MatchesExactly(const DemangledName& n) const {
  const std::string& text = impl_->pattern.text;
  std::string name_base(WithoutCloneSuffix(n.name));
  switch (impl_->pattern.kind) {
    case NamePattern::Kind::kRegex:
      return RE2::PartialMatch(n.full, *impl_->regex);
    case NamePattern::Kind::kGlob: {
      // With parameters, but not with what it returns.
      const size_t begin = n.full.find(n.name);
      const std::string_view full = n.full;
      if (GlobMatches(text, n.symbol) ||
          GlobMatches(text, begin == full.npos ? full : full.substr(begin))) {
        return true;
      }
      for (size_t start : ComponentStarts(n.name)) {
        std::string_view tail = std::string_view(n.name).substr(start);
        if (GlobMatches(text, tail) || GlobMatches(text, WithoutTemplateArguments(tail))) {
          return true;
        }
      }
      return false;
    }
    case NamePattern::Kind::kName: {
      if (text == n.symbol || text == n.name || text == WithoutCloneSuffix(n.symbol)) return true;
      bool templates = text.find('<') != std::string::npos;
      bool spaced = text.find(' ') != std::string::npos || n.full.find(' ') != std::string::npos;
      std::string wanted = spaced ? WithoutSpaces(text) : text;
      size_t at = n.full.find(name_base);
      if (text.find('(') != std::string::npos && at != std::string::npos) {
        std::string signature = n.full.substr(at);
        for (size_t start : ComponentStarts(signature)) {
          std::string tail = signature.substr(start);
          if (WithoutSpaces(tail) == wanted ||
              (!templates && WithoutSpaces(WithoutTemplateArguments(tail)) == wanted)) {
            return true;
          }
        }
      }
      for (const std::string& candidate : {n.name, name_base}) {
        for (size_t start : ComponentStarts(candidate)) {
          std::string_view tail = std::string_view(candidate).substr(start);
          if (tail == text || (spaced && WithoutSpaces(tail) == wanted)) return true;
          if (!templates && tail.find('<') != std::string_view::npos &&
              WithoutTemplateArguments(tail) == text) {
            return true;
          }
        }
      }
      return false;
    }
  }
  return false;
}

Suggestions::Suggestions(std::string_view wanted)
    : wanted_(absl::AsciiStrToLower(std::string(LastComponent(wanted)))),
      limit_(std::clamp<size_t>(wanted_.size() / 3, 1, 4)) {
  if (wanted_.size() > kMaxPattern) wanted_.resize(kMaxPattern);
}

void Suggestions::Add(std::string_view symbol) {
  symbol = WithoutCloneSuffix(symbol);
  if (symbol.size() > kMaxMangled) return;
  // A mangled name is demangled only when an identifier in it has about the right characters: the
  // first two or the last two.
  if (IsMangled(symbol) && wanted_.size() >= 4) {
    std::string lower = absl::AsciiStrToLower(std::string(symbol));
    if (lower.find(wanted_.substr(0, 2)) == std::string::npos &&
        lower.find(wanted_.substr(wanted_.size() - 2)) == std::string::npos) {
      return;
    }
  }
  std::string name = Demangle(symbol).name;
  std::string last = absl::AsciiStrToLower(WithoutTemplateArguments(LastComponent(name)));
  size_t distance = EditDistance(wanted_, last, limit_);
  if (distance > limit_) {
    // "accumulate" for "accum", but not everything for "a".
    if (wanted_.size() < 4 || last.find(wanted_) == std::string::npos) return;
    distance = limit_ + 1 + (last.size() - wanted_.size());
  }
  Candidate candidate{distance, std::move(name)};
  auto at = std::lower_bound(best_.begin(), best_.end(), candidate);
  if (at != best_.end() && *at == candidate) return;
  best_.insert(at, std::move(candidate));
  if (best_.size() > 32) best_.pop_back();
}

std::vector<std::string> Suggestions::Take(size_t count) {
  std::vector<std::string> names;
  for (Candidate& c : best_) {
    if (names.size() == count) break;
    names.push_back(std::move(c.name));
  }
  best_.clear();
  return names;
}

}  // namespace ttq

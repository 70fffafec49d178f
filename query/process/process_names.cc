// SPDX-License-Identifier: MIT

#include "query/process/process_names.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/language/diagnostic.h"

namespace ttq {
namespace {

// True when two modules ever had an address in common.
bool ShareAddresses(const LoadedModule& a, const LoadedModule& b) {
  return a.range.begin < b.range.end && b.range.begin < a.range.end;
}

}  // namespace

std::string FirstThree(std::vector<std::string> list, const char* separator) {
  if (list.size() > 3) {
    const size_t more = list.size() - 3;
    list.resize(3);
    list.push_back(absl::StrCat("and ", more, " more"));
  }
  return absl::StrJoin(list, separator);
}

std::string WhyNamesAreMissing(const Symbolizer& symbols) {
  const std::vector<std::string> problems = symbols.Problems(), stripped = symbols.Stripped();
  std::string text;
  if (!problems.empty()) absl::StrAppend(&text, " (", FirstThree(problems, "; "), ")");
  if (!stripped.empty()) {
    absl::StrAppend(&text, " (stripped, with names only for what they export: ",
                    FirstThree(stripped, ", "), ")");
  }
  return text;
}

ProcessNames::ProcessNames(const Recording* recording, const Process* process)
    : recording_(recording), process_(process), cache_(std::make_shared<SymbolFileCache>()) {}

// REQUIRES: mutex_ is held.
absl::Status ProcessNames::LoadModules() const {
  if (loaded_) return absl::OkStatus();
  ASSIGN_OR_RETURN(modules_, process_->Modules());
  for (size_t i = 0; i < modules_.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (ShareAddresses(modules_[i], modules_[j])) {
        boundaries_.push_back(modules_[i].loaded);
        break;
      }
    }
  }
  std::sort(boundaries_.begin(), boundaries_.end());
  boundaries_.erase(std::unique(boundaries_.begin(), boundaries_.end()), boundaries_.end());
  loaded_ = true;
  return absl::OkStatus();
}

// REQUIRES: mutex_ is held.
absl::StatusOr<const Symbolizer*> ProcessNames::Symbols(size_t epoch) const {
  std::unique_ptr<Symbolizer>& symbolizer = symbolizers_[epoch];
  if (symbolizer) return symbolizer.get();
  const Time end = epoch < boundaries_.size() ? boundaries_[epoch] : kTimeMax;
  std::vector<ModuleSpec> specs;
  for (const LoadedModule& module : modules_) {
    // A module that comes later is left out only where it would hide an earlier one.
    if (module.loaded >= end) {
      bool hides = false;
      for (const LoadedModule& other : modules_) {
        hides = hides || (&other != &module && ShareAddresses(module, other));
      }
      if (hides) continue;
    }
    ModuleSpec spec;
    spec.path = module.path;
    spec.build_id = module.build_id;
    spec.mappings.push_back({.range = module.range, .file_offset = 0});
    if (module.file_id != 0) {
      spec.contents = [recording = recording_, id = module.file_id] {
        return recording->FileContents(id);
      };
    }
    specs.push_back(std::move(spec));
  }
  symbolizer = std::make_unique<Symbolizer>(std::move(specs), cache_);
  return symbolizer.get();
}

absl::StatusOr<const Symbolizer*> ProcessNames::SymbolsAt(Time t) const {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(LoadModules());
  return Symbols(std::upper_bound(boundaries_.begin(), boundaries_.end(), t) - boundaries_.begin());
}

absl::StatusOr<const Symbolizer*> ProcessNames::AllSymbols() const {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(LoadModules());
  return Symbols(boundaries_.size());
}

absl::Status ProcessNames::NoGlobal(ast::Range range, const std::string& name,
                                    const std::vector<std::string>& near) const {
  ASSIGN_OR_RETURN(const Symbolizer* symbols, AllSymbols());
  std::string message = absl::StrCat("no module has a global named ", name);
  message += WhyNamesAreMissing(*symbols);
  return UnknownAt(range, std::move(message), near);
}

std::vector<std::string> ProcessNames::GlobalsLike(const std::string& name) const {
  absl::StatusOr<const Symbolizer*> symbols = AllSymbols();
  if (!symbols.ok()) return {};
  return (*symbols)->VariablesLike(name);
}

absl::StatusOr<std::optional<VariableInfo>> ProcessNames::FindGlobal(
    ast::Range range, const std::string& name) const {
  ASSIGN_OR_RETURN(const Symbolizer* symbols, AllSymbols());
  absl::StatusOr<std::vector<VariableInfo>> matches =
      symbols->FindVariables({.kind = NamePattern::Kind::kName, .text = name});
  if (!matches.ok()) return ErrorAt(range, std::string(matches.status().message()));
  std::vector<VariableInfo> found = *std::move(matches);
  if (found.empty()) return std::nullopt;
  // The dynamic linker binds a name to the program's own variable before a library's, and a static
  // is seen only where it is defined.
  auto keep = [&found](auto&& wanted) {
    if (std::any_of(found.begin(), found.end(), wanted)) {
      std::erase_if(found, [&](const VariableInfo& v) { return !wanted(v); });
    }
  };
  if (found.size() > 1) keep([&](const VariableInfo& v) { return v.name == name; });
  if (found.size() > 1) keep([](const VariableInfo& v) { return !v.is_static; });
  if (found.size() > 1) {
    const std::string& program = process_->info().program;
    const std::string base(BaseName(program));
    keep([&](const VariableInfo& v) { return v.module == base; });
  }
  if (found.size() > 1) {
    std::vector<std::string> places;
    for (const VariableInfo& v : found) {
      places.push_back(fmt::format("{}!{} at {:#x} len {}", v.module, v.name, v.address.v,
                                   std::max<uint64_t>(v.size, 1)));
    }
    std::sort(places.begin(), places.end());
    if (places.size() > 5) {
      places.resize(5);
      places.push_back("…");
    }
    return ErrorAt(range,
                   fmt::format("{} names several variables: {}", name, absl::StrJoin(places, ", ")),
                   "write the address of the one you mean");
  }
  return std::optional<VariableInfo>(std::move(found[0]));
}

}  // namespace ttq

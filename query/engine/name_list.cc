// SPDX-License-Identifier: MIT

#include "query/engine/name_list.h"

#include <elf.h>

#include <algorithm>
#include <memory>

#include "absl/container/flat_hash_set.h"
#include "query/code/elf_file.h"
#include "query/code/names.h"
#include "query/code/symbols.h"
#include "query/cpython/frame_history.h"

namespace ttq {
namespace {

void AddSymbols(const ElfFile& elf, NameClass which, absl::flat_hash_set<std::string>* names) {
  for (const bool dynamic : {false, true}) {
    for (const ElfFile::Symbol& symbol : elf.Symbols(dynamic)) {
      const bool function = symbol.type == STT_FUNC || symbol.type == STT_GNU_IFUNC;
      const bool wanted = which == NameClass::kFunctions ? function : symbol.type == STT_OBJECT;
      // Those of size 0 and those that are elsewhere have nothing to ask about here.
      if (!wanted || symbol.section == SHN_UNDEF || symbol.name.empty()) continue;
      const std::string_view name = WithoutCloneSuffix(symbol.name);
      names->insert(IsMangled(name) ? Demangle(name).name : std::string(name));
    }
  }
}

}  // namespace

std::vector<std::string> ListNames(const Context& context, NameClass which) {
  absl::flat_hash_set<std::string> names;
  if (which == NameClass::kPythonFunctions) {
    if (context.HasPythonFrames()) {
      if (const auto frames = context.GrowingPythonFrames(); frames.ok()) {
        const size_t count = (*frames)->codes();
        for (uint32_t id = 0; id < count; ++id) names.insert((*frames)->code(id).qualname);
      }
    }
  } else if (const auto symbols = context.AllSymbols(); symbols.ok()) {
    for (const std::unique_ptr<Module>& module : (*symbols)->modules()) {
      const SymbolFile* file = module->file();
      if (!file) continue;
      AddSymbols(file->elf(), which, &names);
      if (file->debug_elf()) AddSymbols(*file->debug_elf(), which, &names);
    }
  }
  names.erase("");
  std::vector<std::string> sorted(names.begin(), names.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace ttq

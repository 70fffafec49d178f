// SPDX-License-Identifier: MIT

#include "query/cpython/references.h"

#include <map>
#include <tuple>
#include <utility>

#include "base/status_macros.h"
#include "query/code/symbols.h"
#include "query/cpython/balance.h"

namespace ttq::python {

absl::StatusOr<std::unique_ptr<Cursor<Access>>> CountsOf(const Process& process, uint64_t object,
                                                         const CountWord& word, TimeSpan span,
                                                         Direction direction,
                                                         ScanControl* control) {
  AccessQuery counts;
  counts.ranges = {word.Of(object)};
  counts.span = span;
  counts.direction = direction;
  return process.Accesses(std::move(counts), control);
}

absl::StatusOr<std::vector<Owner>> OwnersOf(const Context& context, Provenance& provenance,
                                            uint64_t object, const CountWord& word,
                                            const Epoch& epoch, TimeSpan span, ScanControl* control,
                                            uint64_t most, Balance* balance) {
  ASSIGN_OR_RETURN(auto cursor,
                   CountsOf(context.process(), object, word, span, Direction::kForward, control));
  ASSIGN_OR_RETURN(CountReader counts,
                   CountReader::Open(provenance, object, word, Direction::kForward, span.begin));
  std::map<std::tuple<std::string, std::string, std::string, std::string, int>, Owner> owners;
  for (uint64_t n = 0;; ++n) {
    ASSIGN_OR_RETURN(std::optional<Access> access, cursor->Next());
    if (!access) break;
    if (n == most) return absl::ResourceExhaustedError("its count changed too often");
    std::optional<CountChange> change = counts.Read(*std::move(access));
    if (!change) continue;
    const Time t = change->access.time;
    const bool freed = epoch.death && t > epoch.death->access.time;
    // What its memory holds after it was freed counts for nothing, unless somebody goes on
    // counting.
    const int64_t delta = change->after - change->before;
    const bool born = epoch.birth && t == epoch.birth->access.time;
    const bool is_count = IsCount(change->before) && IsCount(change->after);
    if (freed ? delta != -1 : !is_count && !born) continue;
    ASSIGN_OR_RETURN(std::optional<SourceLocation> place, provenance.Of(change->access.thread, t));
    ASSIGN_OR_RETURN(const Symbolizer* symbols, context.SymbolsAt(t));
    const std::shared_ptr<const CodeLocation> location = symbols->Symbolize(change->access.pc);
    Site site;
    site.function =
        location->frames.empty() ? location->function : location->frames.back().function;
    site.module = location->module;
    if (balance && !freed) {
      ASSIGN_OR_RETURN(std::optional<Site> extension,
                       balance->Count(change->access, born ? change->after : delta));
      if (extension) site = *std::move(extension);
    }
    const SourceLocation where = place.value_or(SourceLocation());
    Owner& owner = owners[{site.function, site.module, where.function, where.file, where.line}];
    if (owner.increments + owner.decrements + owner.after_free == 0) {
      owner.function = site.function;
      owner.module = site.module;
      owner.file = site.file;
      owner.line = site.line;
      owner.place = place;
      owner.first = t;
    }
    owner.last = t;
    if (freed) {
      ++owner.after_free;
    } else if (born) {
      ++owner.increments;  // over whatever was there before
    } else if (delta > 0) {
      owner.increments += delta;
    } else {
      owner.decrements -= delta;
    }
  }
  std::vector<Owner> list;
  for (auto& [key, owner] : owners) list.push_back(std::move(owner));
  return list;
}

}  // namespace ttq::python

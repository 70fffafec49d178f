// SPDX-License-Identifier: MIT

#include "query/sources/trace_fold.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace ttq {
namespace {

// Times that a line comes before it is taken for a loop's.
constexpr size_t kLeast = 3;
constexpr int kMaxDepth = 1000;

class Folder {
 public:
  explicit Folder(const FoldInput& input) : input_(input) {}

  void Sequence(const std::vector<uint32_t>& steps, int depth) {
    if (depth > kMaxDepth) return;
    absl::flat_hash_map<uint64_t, std::vector<size_t>> places;
    for (size_t i = 0; i < steps.size(); ++i) places[input_.keys[steps[i]]].push_back(i);
    for (size_t i = 0; i < steps.size();) {
      const std::vector<size_t>& all = places[input_.keys[steps[i]]];
      const auto from = std::lower_bound(all.begin(), all.end(), i);
      if (static_cast<size_t>(all.end() - from) < kLeast) {
        rows_.push_back({steps[i], steps[i], 1, {steps[i]}});
        for (const uint32_t called : input_.called[steps[i]]) {
          Sequence(input_.of_activation[called], depth + 1);
        }
        ++i;
        continue;
      }
      size_t end = all.back() + 1;
      absl::flat_hash_set<uint64_t> body;
      for (size_t k = i; k < end; ++k) body.insert(input_.keys[steps[k]]);
      while (end < steps.size() && body.contains(input_.keys[steps[end]])) ++end;
      Merge({steps.begin() + static_cast<std::ptrdiff_t>(i),
             steps.begin() + static_cast<std::ptrdiff_t>(end)},
            depth);
      i = end;
    }
  }

  std::vector<FoldedStep> Take() { return std::move(rows_); }

 private:
  // A row for each line of them.
  void Merge(const std::vector<uint32_t>& steps, int depth) {
    if (depth > kMaxDepth) return;
    // In the order in which they first come, a branch behind what comes before it.
    std::vector<FoldedStep> merged;
    absl::flat_hash_map<uint64_t, size_t> place;
    size_t at = 0;
    for (const uint32_t step : steps) {
      const auto known = place.find(input_.keys[step]);
      if (known != place.end()) {
        at = known->second;
        FoldedStep& row = merged[at];
        row.last = step;
        ++row.times;
        row.steps.push_back(step);
        continue;
      }
      at = merged.empty() ? 0 : at + 1;
      for (auto& [key, index] : place) index += index >= at;
      merged.insert(merged.begin() + static_cast<std::ptrdiff_t>(at), {step, step, 1, {step}});
      place[input_.keys[step]] = at;
    }
    for (FoldedStep& row : merged) {
      std::vector<uint32_t> called;
      for (const uint32_t step : row.steps) {
        for (const uint32_t activation : input_.called[step]) {
          const std::vector<uint32_t>& of = input_.of_activation[activation];
          called.insert(called.end(), of.begin(), of.end());
        }
      }
      const bool once = row.times == 1;
      const uint32_t step = row.first;
      rows_.push_back(std::move(row));
      if (!once) {
        Merge(called, depth + 1);
        continue;
      }
      for (const uint32_t activation : input_.called[step]) {
        Sequence(input_.of_activation[activation], depth + 1);
      }
    }
  }

  const FoldInput& input_;
  std::vector<FoldedStep> rows_;
};

}  // namespace

std::vector<FoldedStep> FoldLoops(const FoldInput& input, uint32_t root) {
  Folder folder(input);
  folder.Sequence(input.of_activation[root], 0);
  return folder.Take();
}

}  // namespace ttq

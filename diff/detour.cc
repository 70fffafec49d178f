// SPDX-License-Identifier: MIT

#include "diff/detour.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "base/status_macros.h"

namespace ttq::diff {

absl::StatusOr<std::optional<Time>> CallOf(Side* side, const Frame& frame, Time t) {
  // The call wrote the return address.
  const Address top = *frame.cfa;
  ASSIGN_OR_RETURN(const auto call, LastAccess(side->process(), {.ranges = {{top - 8, top}},
                                                                 .span = {Time(0), t},
                                                                 .direction = Direction::kBackward,
                                                                 .want_values = false}));
  if (!call) return std::optional<Time>();
  return std::optional<Time>(call->time + 1);
}

namespace {

constexpr uint64_t kMaxInstructions = 1 << 20;
// Callers that are tried, from the innermost function on.
constexpr int kMaxCallers = 8;
// How often a place may be come by before its further visits are no place to meet.
constexpr size_t kMaxVisits = 64;

// What a thread executed, in order.
struct Path {
  struct Instruction {
    Time time;
    Address pc;
    uint64_t key = 0;
    int32_t depth = 0;  // calls less returns before it
  };
  std::vector<Instruction> steps;  // the last one is not executed yet
};

absl::StatusOr<std::optional<Path>> PathOf(Side* side, ThreadNo thread, Time from, Time to) {
  Path path;
  int32_t depth = 0;
  for (Time t = from; t <= to;) {
    ASSIGN_OR_RETURN(const auto runs, side->process().RunsAround(t));
    if (runs->empty()) break;
    const auto first = std::partition_point(
        runs->begin(), runs->end(), [&](const Run& r) { return r.time + r.instructions <= t; });
    for (auto run = first; run != runs->end() && run->time <= to; ++run) {
      if (run->thread != thread) continue;
      const Side::Code& code = side->CodeOf(run->code);
      const uint64_t known = std::min<uint64_t>(run->instructions, code.addresses.size());
      for (uint64_t i = t > run->time ? t.v - run->time.v : 0; i < known; ++i) {
        if (run->time + i > to) break;
        path.steps.push_back({run->time + i, code.addresses[i], code.keys[i], depth});
        depth += code.calls[i];
      }
      if (path.steps.size() > kMaxInstructions) return std::optional<Path>();
    }
    const Time next = runs->back().time + runs->back().instructions;
    if (next <= t) break;
    t = next;
  }
  if (path.steps.empty() || path.steps.back().time != to) return std::optional<Path>();
  return std::optional(std::move(path));
}

using Meeting = std::array<size_t, 2>;

// Where two paths meet again that part at `at`: the place nearest to there. The last instructions
// meet each other only.
std::optional<Meeting> Meet(const std::array<Path, 2>& paths, const Meeting& at) {
  std::array<absl::flat_hash_map<uint64_t, absl::InlinedVector<size_t, 2>>, 2> seen;
  std::array<int32_t, 2> base{}, lowest{};
  for (int i : {0, 1}) lowest[i] = base[i] = paths[i].steps[at[i] - 1].depth;
  const Meeting last = {paths[0].steps.size() - 1, paths[1].steps.size() - 1};
  for (size_t k = 0; at[0] + k <= last[0] || at[1] + k <= last[1]; ++k) {
    for (int i : {0, 1}) {
      const size_t here = at[i] + k;
      if (here > last[i]) continue;
      const Path::Instruction& step = paths[i].steps[here];
      // In what was called on the way, also by a caller, there are many places that both come by.
      if (step.depth > lowest[i]) continue;
      lowest[i] = step.depth;
      if (const auto found = seen[1 - i].find(step.key); found != seen[1 - i].end()) {
        for (const size_t there : found->second) {
          if (paths[1 - i].steps[there].depth - base[1 - i] != step.depth - base[i]) continue;
          if ((here == last[i]) != (there == last[1 - i])) continue;
          return i == 0 ? Meeting{here, there} : Meeting{there, here};
        }
      }
      auto& visits = seen[i][step.key];
      if (visits.size() < kMaxVisits || here == last[i]) visits.push_back(here);
    }
  }
  return std::nullopt;
}

// The last parting of two paths on whose ways one of them executes what it does at `written`.
std::optional<Divergence> PartingOf(const std::array<Path, 2>& paths, ThreadNo thread,
                                    const std::array<Time, 2>& written) {
  const auto &a = paths[0].steps, &b = paths[1].steps;
  std::optional<Divergence> out;
  Meeting at = {0, 0};
  while (a[at[0]].key == b[at[1]].key) {
    if (at[0] + 1 == a.size() && at[1] + 1 == b.size()) return out;
    if (at[0] + 1 == a.size() || at[1] + 1 == b.size()) return std::nullopt;
    ++at[0];
    ++at[1];
    if (a[at[0]].key == b[at[1]].key) continue;
    const std::optional<Meeting> met = Meet(paths, at);
    if (!met) return std::nullopt;
    bool holds = false;
    for (int i : {0, 1}) {
      const auto& steps = paths[i].steps;
      holds |= written[i].v != 0 && written[i] >= steps[at[i]].time &&
               written[i] < steps[(*met)[i]].time;
    }
    if (holds) {
      out.emplace();
      out->thread = thread;
      for (int i : {0, 1}) {
        const auto &last = paths[i].steps[at[i] - 1], &next = paths[i].steps[at[i]];
        out->last[i] = {last.time, last.pc, true};
        out->next[i] = {next.time, next.pc, true};
      }
    }
    at = *met;
  }
  return std::nullopt;
}

std::vector<Frame> FramesAt(Side* side, Time t, ThreadNo thread) {
  std::vector<Frame> out;
  auto stack = side->StackAt(t, thread);
  if (!stack.ok()) return out;  // of a thread that ended
  for (Frame& frame : stack->frames) {
    if (frame.kind == Frame::Kind::kNormal && frame.cfa) out.push_back(std::move(frame));
  }
  return out;
}

absl::StatusOr<std::optional<Divergence>> FindFrom(const std::array<Side*, 2>& sides,
                                                   ThreadNo thread, const std::array<Time, 2>& from,
                                                   const std::array<Time, 2>& written,
                                                   const std::array<Time, 2>& read) {
  std::array<Path, 2> paths;
  for (int i : {0, 1}) {
    if (read[i].v - from[i].v > kMaxInstructions) return std::optional<Divergence>();
    ASSIGN_OR_RETURN(auto path, PathOf(sides[i], thread, from[i], read[i]));
    if (!path) return std::optional<Divergence>();
    paths[i] = *std::move(path);
  }
  return PartingOf(paths, thread, written);
}

// The beginning of the call that `caller` had made at `written`, where both had made the same one.
absl::StatusOr<std::optional<std::array<Time, 2>>> CommonCall(
    const std::array<Side*, 2>& sides, ThreadNo thread, const std::array<const Frame*, 2>& caller,
    const std::array<Time, 2>& written) {
  std::array<Time, 2> out;
  std::array<uint64_t, 2> key{};
  for (int i : {0, 1}) {
    const std::vector<Frame> frames = FramesAt(sides[i], written[i], thread);
    const auto found = std::find_if(frames.begin(), frames.end(),
                                    [&](const Frame& f) { return f.cfa == caller[i]->cfa; });
    if (found == frames.end() || found == frames.begin()) {
      return std::optional<std::array<Time, 2>>();
    }
    key[i] = sides[i]->KeyOf(found->pc);
    ASSIGN_OR_RETURN(auto called, CallOf(sides[i], *(found - 1), written[i]));
    if (!called) return std::optional<std::array<Time, 2>>();
    out[i] = *called;
  }
  return key[0] == key[1] ? std::optional(out) : std::nullopt;
}

}  // namespace

absl::StatusOr<std::optional<Divergence>> FindDetour(const std::array<Side*, 2>& sides,
                                                     ThreadNo thread,
                                                     const std::array<Time, 2>& written,
                                                     const std::array<Time, 2>& read) {
  std::array<std::vector<Frame>, 2> frames;
  for (int i : {0, 1}) {
    if (written[i] >= read[i]) return std::optional<Divergence>();
    frames[i] = FramesAt(sides[i], read[i], thread);
  }
  const size_t both = std::min<size_t>({frames[0].size(), frames[1].size(), kMaxCallers});
  for (size_t k = 0; k < both; ++k) {
    const std::array<const Frame*, 2> frame = {&frames[0][k], &frames[1][k]};
    if (frame[0]->symbol != frame[1]->symbol) break;
    if (written[0].v != 0 && written[1].v != 0) {
      ASSIGN_OR_RETURN(auto inner, CommonCall(sides, thread, frame, written));
      if (inner) {
        auto found = FindFrom(sides, thread, *inner, written, read);
        if (!found.ok() || *found) return found;
      }
    }
    std::array<Time, 2> from;
    bool holds = false;
    for (int i : {0, 1}) {
      ASSIGN_OR_RETURN(auto called, CallOf(sides[i], *frame[i], read[i]));
      if (!called) return std::optional<Divergence>();
      from[i] = *called;
      holds |= written[i] >= from[i];
    }
    if (holds) return FindFrom(sides, thread, from, written, read);
  }
  return std::optional<Divergence>();
}

}  // namespace ttq::diff

// SPDX-License-Identifier: MIT
//
// Prints every entry into and exit from a Python function that a recording holds, one a line, in
// order: time, thread, depth, kind, the function's first line, the line, its file, its name. With a
// second argument only functions of that file. With --steps it is made anew, a little at a time.
// Usage: dump_transitions [--steps] RECORDING [FILE]

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "query/cpython/frame_history.h"
#include "store/read/reader.h"

namespace {

// Goes on from where the last time ended, until it is whole.
int MakeInSteps(const ttq::Recording& recording, const ttq::Process& process) {
  using ttq::python::FrameHistory;
  int steps = 0;
  auto longest = std::chrono::milliseconds(40);
  for (; !FrameHistory::IsKept(recording, process); ++steps, longest *= 2) {
    const absl::Status s = FrameHistory::MakeFor(recording, process, longest);
    if (!s.ok()) {
      fprintf(stderr, "%s\n", s.ToString().c_str());
      return -1;
    }
  }
  return steps;
}

}  // namespace

int main(int argc, char** argv) {
  const bool in_steps = argc > 1 && strcmp(argv[1], "--steps") == 0;
  argc -= in_steps;
  argv += in_steps;
  if (argc < 2) return 2;
  auto recording = ttq::Recording::Open(argv[1]);
  if (!recording.ok()) {
    fprintf(stderr, "%s\n", recording.status().ToString().c_str());
    return 1;
  }
  auto process = (*recording)->Open((*recording)->default_process());
  if (!process.ok()) return 1;
  if (in_steps) {
    const int steps = MakeInSteps(**recording, **process);
    if (steps < 0) return 1;
    fprintf(stderr, "made in %d steps\n", steps);
  }
  const auto start = std::chrono::steady_clock::now();
  auto history = ttq::python::FrameHistory::Whole(**recording, **process, nullptr);
  if (!history.ok()) {
    fprintf(stderr, "%s\n", history.status().ToString().c_str());
    return 1;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  fprintf(stderr, "%s in %.3f s: %" PRIu64 " transitions, %zu code objects, %zu chunks\n",
          (*history)->from_file() ? "loaded" : "made", took.count(), (*history)->transitions(),
          (*history)->codes(), (*history)->chunks());
  for (size_t i = 0; i < (*history)->chunks(); ++i) {
    auto chunk = (*history)->Chunk(i);
    if (!chunk.ok()) {
      fprintf(stderr, "chunk %zu: %s\n", i, chunk.status().ToString().c_str());
      return 1;
    }
    for (const ttq::python::Transition& t : **chunk) {
      const ttq::python::Code& code = (*history)->code(t.code);
      if (argc > 2 && strcmp(argv[2], code.filename.c_str()) != 0) continue;
      printf("%" PRIu64 " %u %u %s %d %d %s %s\n", t.time.v, t.thread.v, t.depth,
             ttq::python::TransitionKindName(t.kind), code.first_line, (*history)->LineOf(t),
             code.filename.c_str(), code.name.c_str());
    }
  }
  return 0;
}

// SPDX-License-Identifier: MIT

#include "query/cpython/context.h"

#include <string>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "query/cpython/frame_history.h"
#include "query/cpython/memory.h"
#include "query/cpython/runtime.h"
#include "query/process/heap.h"

namespace ttq {

Context::Context(const Recording* recording, const Process* process)
    : ProcessTypes(recording, process) {}

Context::~Context() = default;

absl::StatusOr<const HeapIndex*> Context::Heap(ScanControl* control) const {
  std::lock_guard<std::mutex> lock(heap_mutex_);
  if (!heap_) {
    ASSIGN_OR_RETURN(heap_, HeapIndex::Make(*this, control));
  }
  return heap_.get();
}

bool Context::HasPython() const {
  {
    std::lock_guard lock(python_mutex_);
    if (has_python_) return *has_python_;
  }
  const bool has = [&] {
    absl::StatusOr<std::vector<LoadedModule>> modules = process().Modules();
    if (!modules.ok()) return false;
    for (const LoadedModule& module : *modules) {
      if (BaseName(module.path).find("python") != std::string_view::npos) return true;
    }
    // One that is part of a program of another name.
    const Time end = process().info().end;
    absl::StatusOr<std::unique_ptr<Moment>> moment = process().At(end);
    if (!moment.ok()) return false;
    python::MomentMemory memory(moment->get());
    absl::StatusOr<std::vector<python::Runtime>> runtimes =
        python::FindRuntimes(&recording(), process(), memory, end);
    return runtimes.ok() && !runtimes->empty();
  }();
  std::lock_guard lock(python_mutex_);
  has_python_ = has;
  return has;
}

absl::StatusOr<std::shared_ptr<const python::FrameHistory>> Context::PythonFrames(
    ScanControl* control) const {
  ASSIGN_OR_RETURN(std::shared_ptr<const python::FrameHistory> history, GrowingPythonFrames());
  RETURN_IF_ERROR(history->WaitForAll(control));
  return history;
}

absl::StatusOr<std::shared_ptr<const python::FrameHistory>> Context::GrowingPythonFrames() const {
  std::lock_guard lock(frames_mutex_);
  if (frames_) return frames_;
  if (!no_frames_.ok()) return no_frames_;
  absl::StatusOr<std::shared_ptr<const python::FrameHistory>> made =
      python::FrameHistory::Of(recording(), process());
  if (!made.ok()) {
    if (absl::IsNotFound(made.status())) no_frames_ = made.status();
    return made.status();
  }
  frames_ = *std::move(made);
  return frames_;
}

bool Context::HasPythonFrames() const {
  std::lock_guard lock(frames_mutex_);
  if (frames_) return frames_->complete();
  return no_frames_.ok() && python::FrameHistory::IsKept(recording(), process());
}

}  // namespace ttq

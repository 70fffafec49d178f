// SPDX-License-Identifier: MIT
//
// What questions need of the process they are about: its store, names and types, and what is found
// once in the whole recording and kept, the blocks of the heap and Python's frames. Thread-safe.

#ifndef TTQ_QUERY_CPYTHON_CONTEXT_H_
#define TTQ_QUERY_CPYTHON_CONTEXT_H_

#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "query/ctypes/process_types.h"
#include "store/read/reader.h"

namespace ttq {

class HeapIndex;
namespace python {
class FrameHistory;
}

class Context : public ProcessTypes {
 public:
  Context(const Recording* recording, const Process* process);
  ~Context();

  // The blocks of the heap; found when first asked for. Owned by this object.
  absl::StatusOr<const HeapIndex*> Heap(ScanControl* control) const;
  // Whether any module of the process is CPython. What cannot be found out counts as none.
  bool HasPython() const;
  // All its frames (query/cpython/frame_history.h), made or read when first asked for; that may
  // take a scan of the recording. NotFound without a CPython that is known.
  absl::StatusOr<std::shared_ptr<const python::FrameHistory>> PythonFrames(
      ScanControl* control) const;
  // The same without waiting for them: see FrameHistory::Wait.
  absl::StatusOr<std::shared_ptr<const python::FrameHistory>> GrowingPythonFrames() const;
  // Whether PythonFrames has them, or can read them.
  bool HasPythonFrames() const;

 private:
  mutable std::mutex heap_mutex_;  // guards heap_
  mutable std::unique_ptr<const HeapIndex> heap_;

  mutable std::mutex python_mutex_;  // guards has_python_
  mutable std::optional<bool> has_python_;

  mutable std::mutex frames_mutex_;  // guards what follows
  mutable std::shared_ptr<const python::FrameHistory> frames_;
  mutable absl::Status no_frames_;  // NotFound, once that is known
};

}  // namespace ttq

#endif  // TTQ_QUERY_CPYTHON_CONTEXT_H_

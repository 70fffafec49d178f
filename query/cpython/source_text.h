// SPDX-License-Identifier: MIT
//
// The lines of Python source files as the recorded process had them. A file that was not touched
// since the recording began is read from disk; one that was, or is gone, is taken from what the
// process itself read of it, and from disk with a remark where it read nothing (a module that came
// out of its .pyc).
//
// Belongs to one thread; must not outlive the process.

#ifndef TTQ_QUERY_CPYTHON_SOURCE_TEXT_H_
#define TTQ_QUERY_CPYTHON_SOURCE_TEXT_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/read/reader.h"

namespace ttq::python {

class SourceText {
 public:
  explicit SourceText(const Process* process) : process_(*process) {}

  // The lines of `filename`, as a code object names it; null when they are nowhere. Owned by this.
  const std::vector<std::string>* Lines(const std::string& filename);
  // Line `number`, from 1, without blanks around it; "" when it is not there.
  std::string Line(const std::string& filename, int number);

  // What to know about the lines given so far: one sentence per file that may not be what ran.
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  struct OpenedFile {
    Time time;  // of the system call
    int64_t descriptor;
    std::string path;
  };
  std::optional<std::string> PathAt(uint64_t address, Time time) const;
  const std::vector<OpenedFile>& OpenedFiles();
  std::optional<std::string> FromRecording(const std::string& path);
  std::optional<std::string> ReadAfter(const OpenedFile& file) const;

  const Process& process_;
  std::optional<std::vector<OpenedFile>> opened_;
  std::map<std::string, std::optional<std::vector<std::string>>> files_;
  std::vector<std::string> remarks_;
};

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_SOURCE_TEXT_H_

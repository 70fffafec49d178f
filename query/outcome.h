// SPDX-License-Identifier: MIT

#ifndef TTQ_QUERY_OUTCOME_H_
#define TTQ_QUERY_OUTCOME_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace ttq {

// What a running query finds out beside its rows. Written by the thread that pulls.
struct Outcome {
  bool complete = true;
  bool interrupted = false;
  uint64_t source_rows = 0;   // rows the source gave
  bool source_ended = false;  // it was asked for more than it had
  std::string note;

  void AddNote(std::string_view sentence);
  void MarkIncomplete(std::string_view reason);
  void MarkInterrupted();
};

}  // namespace ttq

#endif  // TTQ_QUERY_OUTCOME_H_

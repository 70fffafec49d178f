// SPDX-License-Identifier: MIT

#include "query/outcome.h"

namespace ttq {

void Outcome::AddNote(std::string_view sentence) {
  if (sentence.empty() || note.find(sentence) != std::string::npos) return;
  if (!note.empty()) note += "; ";
  note += sentence;
}

void Outcome::MarkIncomplete(std::string_view reason) {
  complete = false;
  AddNote(reason);
}

void Outcome::MarkInterrupted() {
  interrupted = true;
  MarkIncomplete("interrupted before the end");
}

}  // namespace ttq

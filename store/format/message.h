// SPDX-License-Identifier: MIT
//
// Cap'n Proto values in and out of strings. Included by .cc files of the store only.

#ifndef TTQ_STORE_FORMAT_MESSAGE_H_
#define TTQ_STORE_FORMAT_MESSAGE_H_

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace ttq {

inline std::string BytesOf(capnp::MessageBuilder& message) {
  kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  auto chars = words.asChars();
  return std::string(chars.begin(), chars.size());
}

// A message being made. Where there is no memory for it, std::bad_alloc as from everything else.
class MessageBuilder : public capnp::MallocMessageBuilder {
 public:
  kj::ArrayPtr<capnp::word> allocateSegment(unsigned words) override {
    try {
      return MallocMessageBuilder::allocateSegment(words);
    } catch (const kj::Exception&) {
      throw std::bad_alloc();
    }
  }
};

// Calls f(reader) on a stored message. DataLoss naming `what` when it is not one: Cap'n Proto says
// so by an exception, also while fields are read.
template <class Root, class F>
absl::Status ReadMessage(std::string_view bytes, const char* what, F f) {
  auto words =
      kj::heapArray<capnp::word>((bytes.size() + sizeof(capnp::word) - 1) / sizeof(capnp::word));
  memset(words.begin(), 0, words.size() * sizeof(capnp::word));
  if (!bytes.empty()) memcpy(words.begin(), bytes.data(), bytes.size());
  try {
    capnp::ReaderOptions options;
    // Enough to read each word a few times; what points at the same words again and again is a
    // trap.
    options.traversalLimitInWords = 8 * words.size() + 1024;
    capnp::FlatArrayMessageReader reader(words, options);
    f(reader.getRoot<Root>());
  } catch (const kj::Exception&) {
    return absl::DataLossError(std::string("a damaged record: ") + what);
  }
  return absl::OkStatus();
}

}  // namespace ttq

#endif  // TTQ_STORE_FORMAT_MESSAGE_H_

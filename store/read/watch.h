// SPDX-License-Identifier: MIT
//
// Watching words while blocks are walked: WordSet, and the walks behind Process::WatchBlocks
// (store/read/reader.h). A walk keeps a moment up to date as it goes, so that a visitor can read
// all of memory as it was just before each write.

#ifndef TTQ_STORE_READ_WATCH_H_
#define TTQ_STORE_READ_WATCH_H_

#include <cstddef>
#include <functional>

#include "absl/status/status.h"

namespace ttq {

// Calls work(i) for i in [0, count) on several threads, and done(i) for each in order on the
// calling one. No more than a few are worked on ahead of what is done. Ends with the first error of
// either, by order; done is not called from there on.
absl::Status RunInOrder(size_t count, const std::function<absl::Status(size_t)>& work,
                        const std::function<absl::Status(size_t)>& done);

}  // namespace ttq

#endif  // TTQ_STORE_READ_WATCH_H_

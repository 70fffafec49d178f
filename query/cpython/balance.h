// SPDX-License-Identifier: MIT
//
// Whose references to an object do not come out even.
//
// Every function of C keeps a contract about references, and the calls between an extension and the
// interpreter are where it is known to the letter: arguments are lent, the result is given. So
// of each *call of an extension* by the interpreter (the extension's functions that call each other
// meanwhile are one call) this must hold for every object:
//
//     taken − given back  =  stored − taken out of words  +  returned
//
// `taken` and `given back` are the changes of the count that the thread makes during the call,
// whether by the extension's own instructions or in a function of the API that it calls. `stored`
// are the words that hold the object when the call returns and were written during it: an item, a
// field, a global of C. The C stack below the call counts for nothing: what it holds is gone with
// it. `returned` is 1 where the result is the object.
//
// A surplus of taken references is a leak; a shortage means that the call gave back a reference of
// another owner. Which line it was follows from the order: a reference goes to the next
// that takes it, the one taken last first.
//
// Not all of it can be seen, so a sum is a range, and only what no choice in it explains is an
// imbalance:
//
//   - Python code that runs inside the call (a callback), and the calls of extensions inside it,
//     keep contracts of their own. The function of the API that led there is taken for what its
//     result says: a reference given, where it is the object.
//   - The API may give back references while it frees something else: they belonged to words of
//   what
//     was freed. So they count for nothing unless the object was among the arguments.
//   - A word in memory that may have been freed is or is not in use.
//
// Two mistakes leave no trace in that sum. A word that an extension filled is overwritten or freed
// without its reference being given back: its words are followed to their end. A borrowed reference
// is stored or returned: nothing was counted at all, and the call is found by the words that hold
// the object when it dies, then by its result.
//
// Belongs to one thread.

#ifndef TTQ_QUERY_CPYTHON_BALANCE_H_
#define TTQ_QUERY_CPYTHON_BALANCE_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/cpython/extensions.h"
#include "query/cpython/provenance.h"
#include "query/process/row_moment.h"
#include "query/process/stack.h"
#include "store/read/reader.h"

namespace ttq::python {

// A place in an extension.
struct Site {
  std::string function, module, file;
  int line = 0;  // 0: not known
};

struct Imbalance {
  Site site;
  ThreadNo thread;
  Time time;           // of what was not made good
  int64_t excess = 0;  // above 0: references left over; below 0: missing
  std::string detail;  // one clause
};

class Balance {
 public:
  // REQUIRES: the process has a CPython that is known at `t`. All must outlive it.
  static absl::StatusOr<std::unique_ptr<Balance>> Make(const Context& context,
                                                       Provenance& provenance, uint64_t object,
                                                       Time t, ScanControl* control);

  // Takes note of a change of the object's count; in order of time. Gives the place in the
  // extension on whose behalf it was made; nullopt: the interpreter's own.
  absl::StatusOr<std::optional<Site>> Count(const Access& access, int64_t delta);

  // Calls that have returned by `t` with references left over.
  absl::StatusOr<std::vector<Imbalance>> LeftOver(Time t);
  // Calls that began from `birth` on and gave away what was not theirs before `death`. `words`:
  // those that held the object when it died.
  absl::StatusOr<std::vector<Imbalance>> Missing(Time birth, Time death,
                                                 const std::vector<uint64_t>& words);
  // Why something may have been missed; "".
  const std::string& incomplete() const { return incomplete_; }

 private:
  static constexpr size_t kNone = ~size_t{0};
  struct Activation {
    ThreadNo thread;
    uint64_t cfa = 0;
    Time entry, left = kTimeMax;
    Address function;
    std::array<uint64_t, 6> args{};
    uint64_t result = 0;
    bool Runs(Time t) const { return entry <= t && t < left; }
  };
  struct Change {
    Time time;
    int64_t delta = 0;
    size_t child = kNone;  // the activation of the API that it was made in
    Site site;
  };
  // A call of an extension by the interpreter.
  struct Call {
    size_t activation = 0;
    std::vector<Change> changes;
    std::map<size_t, bool> children;  // by activation: whether other contracts are kept inside
    bool opaque = false;              // Python took its frame's place: nothing can be said
    std::vector<std::pair<Time, Site>> lost;  // words whose reference nobody gave back
  };
  struct Located {
    size_t call = kNone, child = kNone;
    Site site;
  };
  // Of a call: words that were written, by address.
  struct Stored {
    Time time;
    Address pc;
    size_t child = kNone;
    bool held_before = false, holds = false;
  };
  // What moves a reference during a call, in order of time.
  struct Move {
    Time time;
    int64_t delta = 0;
    std::optional<Site> site;
    std::string_view what;
  };

  Balance(const Context& context, Provenance& provenance, const Extensions& extensions,
          uint64_t object, ScanControl* control)
      : context_(context),
        provenance_(provenance),
        extensions_(extensions),
        object_(object),
        control_(control),
        moment_(context) {}

  absl::StatusOr<Located> Locate(ThreadNo thread, Time t);
  absl::StatusOr<size_t> ActivationOf(ThreadNo thread, uint64_t cfa, Time t);
  size_t CallOf(size_t activation);
  absl::StatusOr<std::map<uint64_t, Stored>> WordsOf(const Call& call);
  absl::StatusOr<std::optional<Imbalance>> Judge(const Call& call, bool left_over);
  absl::StatusOr<bool> IsInUse(uint64_t word, Time t);
  absl::StatusOr<bool> IsGone(uint64_t word, Time t);
  absl::StatusOr<bool> Frees(const Activation& activation);
  absl::StatusOr<bool> Names(const Activation& child);
  Site SiteOf(Address pc);
  bool IsInExtension(Address pc);
  absl::StatusOr<bool> IsDirectCall(Moment& moment, Address return_address);
  absl::StatusOr<Site> LastSiteOf(const Activation& activation, Time t);
  // Follows the words that a call filled by itself.
  absl::Status Follow(size_t call, Time t, std::vector<Imbalance>* found);
  absl::Status AddCallsThatReturned(TimeSpan span);

  const Context& context_;
  Provenance& provenance_;
  const Extensions extensions_;
  const uint64_t object_;
  ScanControl* control_;
  RowMoment moment_;
  const Symbolizer* symbols_ = nullptr;  // all that are asked about an object share one
  std::vector<Activation> activations_;
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, std::vector<size_t>> by_cfa_;
  std::vector<Call> calls_;
  absl::flat_hash_map<size_t, size_t> call_of_;
  std::vector<std::pair<Time, int64_t>> changes_;  // all
  std::string incomplete_;
};

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_BALANCE_H_

// SPDX-License-Identifier: MIT
//
// What every operator of a query needs of the process it is about: its store, its names at a time,
// and a way to ask a nested query. Also the step from what a query says (a time word, a variable, a
// function pattern) to what the store understands (times, address ranges).
//
// Thread-safe. Names are loaded when first asked for: a query that prints no function reads no ELF
// file.

#ifndef TTQ_QUERY_CONTEXT_H_
#define TTQ_QUERY_CONTEXT_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "query/ast.h"
#include "query/engine.h"
#include "query/symbols.h"
#include "store/reader.h"

namespace ttq {

class HeapIndex;
namespace python {
class FrameHistory;
}

// An error of the user's, at a place in the query text. `advice`, if any, says what to do instead.
absl::Status ErrorAt(ast::Range range, std::string message, std::string_view advice = "");
// The same for a name that does not exist, with those that were perhaps meant.
absl::Status UnknownAt(ast::Range range, std::string message,
                       const std::vector<std::string>& suggestions);
// Those of `candidates` that a typing slip turns into `name`, nearest first, at most three.
std::vector<std::string> Nearest(std::string_view name, const std::vector<std::string>& candidates);

// The memory a LOCATION names.
struct ResolvedLocation {
  std::vector<AddressRange> ranges;  // not empty, none empty
  std::string text;                  // "0x1000+8", "counter (0x4010+4)"
  std::string note;                  // a reservation to pass on, or ""
};

// Where a copy of a function that was inlined begins.
struct InlinedCopy {
  Address entry;
  std::string function;  // demangled
  auto operator<=>(const InlinedCopy&) const = default;
};

// The code a FUNCTION or PLACE names.
struct ResolvedCode {
  std::vector<AddressRange> ranges;  // every piece, inlined copies included
  std::vector<Address> entries;      // the first instruction of each copy; sorted
  std::vector<Address> functions;    // those of them that begin a function of its own
  std::vector<InlinedCopy> inlined;  // and an inlined copy, or several in one another; sorted
  std::string text;                  // "accumulate", "main.c:12"
  std::string note;
};

// The state that an expression of a LOCATION is evaluated on.
struct EvaluateAt {
  std::optional<Time> time;  // absent: no time was named; globals as they are at the end
  std::optional<ThreadNo> thread;
  uint64_t frame = 0;
  std::optional<uint32_t> inlined;  // as in StackOptions
};

class DebugFiles;
class TypeSpace;

class Context {
 public:
  Context(const Recording* recording, const Process* process);
  ~Context();

  const Process& process() const { return *process_; }
  const Recording& recording() const { return *recording_; }

  // The names of the code mapped at `t`. Owned by the context.
  absl::StatusOr<const Symbolizer*> SymbolsAt(Time t) const;
  // The names of everything ever mapped; where a later module took an earlier one's place, the
  // later one's.
  absl::StatusOr<const Symbolizer*> AllSymbols() const;

  // The blocks of the heap; found when first asked for. Owned by the context.
  absl::StatusOr<const HeapIndex*> Heap(ScanControl* control) const;
  // Whether any module of the process is CPython. What cannot be found out counts as none.
  bool HasPython() const;
  // All its frames (query/python/frame_history.h), made or read when first asked for; that may take
  // a scan of the recording. NotFound without a CPython that is known.
  absl::StatusOr<std::shared_ptr<const python::FrameHistory>> PythonFrames(
      ScanControl* control) const;
  // The same without waiting for them: see FrameHistory::Wait.
  absl::StatusOr<std::shared_ptr<const python::FrameHistory>> GrowingPythonFrames() const;
  // Whether PythonFrames has them, or can read them.
  bool HasPythonFrames() const;

  // The time of the first row of a query, for `(QUERY)` as a time. A row of `calls to` also says
  // which of the functions inlined there it is of, as StackOptions::inlined does.
  struct QueryTime {
    Time time;
    std::optional<uint32_t> inlined;
  };
  using TimeOfQuery = std::function<absl::StatusOr<QueryTime>(const ast::Query&)>;

  absl::StatusOr<Time> ResolveTime(const ast::Time& time, const TimeOfQuery& ask) const;
  // The time of an `at` clause (the end without one): OutOfRange becomes an error at its place.
  absl::StatusOr<Time> ResolveAt(const std::optional<ast::Time>& at, const TimeOfQuery& ask) const;
  // Of the first row of `at (QUERY)`: QueryTime::inlined.
  static absl::StatusOr<std::optional<uint32_t>> InlinedAt(const std::optional<ast::Time>& at,
                                                           const TimeOfQuery& ask);
  absl::StatusOr<TimeSpan> ResolveSpan(const std::optional<ast::Span>& span,
                                       const TimeOfQuery& ask) const;
  // `default_length`: of an address given without a length.
  absl::StatusOr<ResolvedLocation> ResolveLocation(const ast::Location& location,
                                                   uint64_t default_length,
                                                   const EvaluateAt& where = {}) const;
  // The types of what is mapped at `t`. Owned by the context.
  absl::StatusOr<const TypeSpace*> TypesAt(Time t) const;
  // The one global that `name` means in any module; nullopt: none; an error when it means several.
  absl::StatusOr<std::optional<VariableInfo>> FindGlobal(ast::Range range,
                                                         const std::string& name) const;
  std::vector<std::string> GlobalsLike(const std::string& name) const;
  // The error that there is none; `near` are those that were perhaps meant.
  absl::Status NoGlobal(ast::Range range, const std::string& name,
                        const std::vector<std::string>& near) const;
  absl::StatusOr<ResolvedCode> ResolveFunction(const ast::FunctionPattern& function) const;
  absl::StatusOr<ResolvedCode> ResolvePlace(const ast::Place& place) const;
  absl::StatusOr<std::optional<ThreadNo>> ResolveThread(
      const std::optional<ast::ThreadFilter>& thread) const;

 private:
  struct Place {
    Address address;
    uint64_t size = 0;    // 0: not known
    bool lvalue = false;  // names memory at `address`; otherwise `address` is just a number
    std::string text;
    std::string note;
  };
  absl::StatusOr<Place> EvaluatePlace(const ast::Expr& expr, const EvaluateAt& where) const;
  absl::Status UseChosen(const Symbolizer& symbols, std::vector<FunctionInfo>* functions,
                         std::string* note) const;
  absl::StatusOr<const Symbolizer*> Symbols(size_t epoch) const;
  absl::Status LoadModules() const;

  const Recording* recording_;
  const Process* process_;

  mutable std::mutex mutex_;  // guards what follows
  mutable bool loaded_ = false;
  mutable std::vector<LoadedModule> modules_;
  // The times at which the set of modules changes in a way that matters: none unless two modules
  // had the same addresses at different times. Epoch i ends before boundaries_[i].
  mutable std::vector<Time> boundaries_;
  mutable std::map<size_t, std::unique_ptr<Symbolizer>> symbolizers_;
  mutable std::shared_ptr<SymbolFileCache> cache_;

  mutable std::mutex heap_mutex_;  // guards heap_
  mutable std::unique_ptr<const HeapIndex> heap_;
  std::unique_ptr<DebugFiles> debug_files_;
  mutable std::map<const Symbolizer*, std::unique_ptr<TypeSpace>> types_;
  mutable std::optional<bool> has_python_;
  mutable std::mutex frames_mutex_;  // guards what follows
  mutable std::shared_ptr<const python::FrameHistory> frames_;
  mutable absl::Status no_frames_;  // NotFound, once that is known
};

// "0x401136"
std::string Hex(uint64_t n);
std::string Hex(Address a);
// "0x1000..0x2000", or "0x1000+8" for up to 64 bytes.
std::string ToText(const AddressRange& range);

}  // namespace ttq

#endif  // TTQ_QUERY_CONTEXT_H_

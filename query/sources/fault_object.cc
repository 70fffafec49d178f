// SPDX-License-Identifier: MIT

#include "query/sources/fault_object.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/cpython/lifetime.h"
#include "query/cpython/provenance.h"
#include "query/cpython/references.h"
#include "query/outcome.h"
#include "query/process/heap.h"
#include "query/sources/address_kind.h"
#include "query/sources/builder.h"

namespace ttq {
namespace {

using python::Epoch;
using python::PythonState;

constexpr uint64_t kAlignment = 16;  // of objects
constexpr uint64_t kHeader = 16;     // of the cycle collector, before an object
// Of the objects that an address is looked for inside.
constexpr uint64_t kLargest = 512;
// Of one object's count, to be put on account.
constexpr uint64_t kMaxCounts = 20000;
// Of the writes to where an object's type would be, looked through for one that stores a type.
constexpr size_t kMaxStores = 3;
// Of the words that a pointer was copied through, looked at for the object that it was to.
constexpr size_t kMaxHolders = 8;
// Of the changes to what may be an object's count, looked through for when it was made.
constexpr uint64_t kMaxChanges = 20000;

class Search {
 public:
  Search(const Context& context, const ttq::Stack& stack, Time t, ScanControl* control,
         Outcome* outcome)
      : context_(context),
        stack_(stack),
        time_(t),
        control_(control),
        outcome_(*outcome),
        tracer_(context, control),
        unwinder_(context),
        provenance_(&context, control) {}

  absl::StatusOr<Value> Examine(const Suspect& suspect) {
    if (suspect.address < 4096 || suspect.address >> 47 != 0) return Value();
    if (suspect.interest == Suspect::Interest::kDangling) return TryDangling(suspect);
    if (!suspect.inside) return Try(suspect.address, suspect);
    const uint64_t first = suspect.address & ~(kAlignment - 1);
    if (!IsOfTheLiving(suspect)) return LastTenant(first, suspect);
    for (uint64_t back = 0; back <= kLargest && back < first; back += kAlignment) {
      absl::StatusOr<Value> found = Try(first - back, suspect);
      if (!found.ok() || !found->is_null()) return found;
    }
    return Try(first + kHeader, suspect);
  }

 private:
  struct Life {
    const char* state = "";
    Epoch epoch;
    Time whole;                    // when it could be read
    Time end;                      // of what is looked at: its memory is another's from there on
    std::optional<int64_t> count;  // of references, at the end
  };

  static bool IsOfTheLiving(const Suspect& suspect) {
    return suspect.interest == Suspect::Interest::kLiving ||
           suspect.interest == Suspect::Interest::kHolding;
  }

  // Who was made last of those that reach to the address. Whoever gets memory that was another's
  // stores a type where that one had something else: the newest such store goes first. Those whose
  // type was written over too often for it to be seen come last, the nearest first.
  absl::StatusOr<Value> LastTenant(uint64_t first, const Suspect& suspect) {
    std::vector<std::pair<Time, uint64_t>> tenants;
    std::vector<uint64_t> others;
    const auto add = [&](uint64_t object) -> absl::Status {
      if (tried_.contains(object)) return absl::OkStatus();
      ASSIGN_OR_RETURN(std::optional<Time> stored, TypeStored(object));
      if (stored) {
        tenants.emplace_back(*stored, object);
      } else {
        others.push_back(object);
      }
      return absl::OkStatus();
    };
    for (uint64_t back = 0; back <= kLargest && back < first; back += kAlignment) {
      RETURN_IF_ERROR(add(first - back));
    }
    RETURN_IF_ERROR(add(first + kHeader));
    std::stable_sort(tenants.begin(), tenants.end(),
                     [](const auto& x, const auto& y) { return x.first > y.first; });
    for (const auto& [time, object] : tenants) {
      absl::StatusOr<Value> found = Try(object, suspect);
      if (!found.ok() || !found->is_null()) return found;
    }
    for (const uint64_t object : others) {
      absl::StatusOr<Value> found = Try(object, suspect);
      if (!found.ok() || !found->is_null()) return found;
    }
    return Value();
  }

  // When a type was stored where the object has its own, if one of the last writes there, or what
  // they wrote over, was one.
  absl::StatusOr<std::optional<Time>> TypeStored(uint64_t object) {
    ASSIGN_OR_RETURN(PythonState * state, provenance_.StateAt(time_));
    if (state == nullptr || state->instances().empty()) return std::optional<Time>();
    const auto& instances = state->instances();
    const uint64_t at = object + static_cast<uint64_t>(instances[0]->runtime.layout->object_type);
    AccessQuery query;
    query.ranges = {{Address(at), Address(at + 8)}};
    query.span = {Time(0), time_ + 1};
    query.direction = Direction::kBackward;
    for (size_t i = 0; i < kMaxStores; ++i) {
      ASSIGN_OR_RETURN(std::optional<Access> access, LastAccess(context_.process(), query));
      if (!access) break;
      const uint64_t begin = access->address.v;
      const std::string& value = access->value;
      uint64_t type = 0;
      if (begin <= at && at + 8 <= begin + value.size()) {
        memcpy(&type, value.data() + (at - begin), sizeof type);
      }
      const bool is_type = std::any_of(instances.begin(), instances.end(), [&](const auto& one) {
        return one->objects.Type(type) != nullptr;
      });
      if (is_type) return std::optional<Time>(access->time);
      query.span.end = access->time;
    }
    return std::optional<Time>();
  }

  // Its type, in the state's memory; null when there is no object.
  static const python::TypeInfo* TypeIn(PythonState& state, uint64_t object,
                                        PythonState::Instance** instance) {
    for (const auto& i : state.instances()) {
      if (const python::TypeInfo* type = i->objects.TypeOf(object)) {
        *instance = i.get();
        return type;
      }
    }
    return nullptr;
  }

  // Whether the object, as it is in the state, reaches to `address`; its collector's header counts.
  static bool Covers(PythonState::Instance& instance, const python::TypeInfo& type, uint64_t object,
                     uint64_t address) {
    const uint64_t before = type.Is(python::kHaveGc) ? kHeader : 0;
    const uint64_t size = std::max<uint64_t>(instance.objects.SizeOf(object, type), 16);
    // Where its items begin is its own, even if it has none.
    const uint64_t end = size + (type.itemsize > 0 ? 1 : 0);
    return object - before <= address && address < object + end;
  }

  // Whether `address` is in the variables or on the value stack of a frame that the object is (up
  // to 3.10) or has in it (a generator's, from 3.11 on). Who keeps the pointer there is not at
  // fault.
  static bool IsVariable(const python::TypeInfo& type, const python::Layout& layout,
                         uint64_t object, uint64_t address) {
    if (type.name == "frame") return true;
    const bool has_frame =
        type.name == "generator" || type.name == "coroutine" || type.name == "async_generator";
    if (!has_frame || layout.generator_iframe == python::kAbsent) return false;
    const auto variables = static_cast<uint64_t>(layout.generator_iframe) +
                           static_cast<uint64_t>(layout.frame_localsplus);
    return address >= object + variables;
  }

  absl::StatusOr<Value> Try(uint64_t object, const Suspect& suspect) {
    const uint64_t address = suspect.address;
    const bool living = IsOfTheLiving(suspect);
    if (suspect.interest == Suspect::Interest::kHolding && address < object) return Value();
    if (tried_.contains(object)) return Value();
    if (!living) tried_.insert(object);
    ASSIGN_OR_RETURN(PythonState * state, provenance_.StateAt(time_));
    if (state == nullptr || state->instances().empty()) return Value();
    const python::Layout layout = *state->instances()[0]->runtime.layout;
    PythonState::Instance* instance = nullptr;
    const python::TypeInfo* type = TypeIn(*state, object, &instance);
    const std::optional<python::Refcount> refcount =
        type ? instance->objects.RefcountOf(object) : std::nullopt;
    bool alive = type && refcount &&
                 (refcount->immortal || (refcount->count > 0 && python::IsCount(refcount->count)));
    if (alive ? !Covers(*instance, *type, object, address) : living) return Value();
    if (living && !instance->objects.MayBeObject(object, suspect.broken)) return Value();
    if (living && IsVariable(*type, layout, object, address)) return Value();
    // What looks like one on a C stack is left over from a call, or a copy.
    ASSIGN_OR_RETURN(AddressKind kind, DescribeAddress(context_, Address(object), time_, control_));
    if (kind.kind == "stack") return Value();
    Life life;
    life.whole = time_;
    life.end = time_ + 1;
    if (alive && !refcount->immortal) life.count = refcount->count;
    Epoch& epoch = life.epoch;
    if (!alive || !refcount->immortal) {
      auto scanner = python::EpochScanner::Open(context_.process(), &provenance_, object,
                                                {Time(0), time_ + 1}, control_,
                                                /*births_only=*/false, kMaxChanges);
      if (absl::IsNotFound(scanner.status())) return Value();
      if (!scanner.ok()) return scanner.status();
      absl::StatusOr<std::optional<Epoch>> last = (*scanner)->Next();
      if (absl::IsResourceExhausted(last.status())) {
        // Memory that is not an object's is written so often; an object that is in use, too.
        if (!alive || living) {
          outcome_.MarkIncomplete(fmt::format(
              "whether an object was at {:#x} was looked for among the last {} changes there only",
              object, kMaxChanges));
        }
        if (!alive) return Value();
        last = std::optional<Epoch>();
      }
      if (!last.ok()) return last.status();
      if (!alive && (!*last || !(*last)->birth)) return Value();
      if (*last) epoch = **last;
    }
    // What was freed can look alive: nobody has used its memory, and somebody counts on.
    if (epoch.death) alive = false;
    if (living ? !alive : suspect.interest != Suspect::Interest::kAny && !epoch.death) {
      return Value();
    }
    life.state = alive ? "alive" : "freed";
    if (!alive) {
      std::vector<Time> whole = {epoch.alive};
      if (!epoch.death || epoch.whole != epoch.alive) {
        // When it was freed, if it was, it was none any more: somebody wrote over it.
        life.state = "overwritten";
        whole = {epoch.whole};
      }
      if (!epoch.death) {
        ASSIGN_OR_RETURN(whole, LastWrites(object, layout));
      }
      bool was = false;
      for (const Time t : whole) {
        if (was || t < epoch.birth->access.time) continue;
        ASSIGN_OR_RETURN(was, WasThere(object, address, t));
        life.whole = t;
      }
      if (!was) return Value();
      if (epoch.death && suspect.inside) {
        ASSIGN_OR_RETURN(const bool reused, WasReused(address, *epoch.death));
        if (reused) return Value();
      }
    }
    return Describe(object, suspect, life);
  }

  // An object that had died when a pointer to it, older than that, was used.
  absl::StatusOr<Value> TryDangling(const Suspect& suspect) {
    const uint64_t object = suspect.address;
    if (object % sizeof(uint64_t) != 0) return Value();
    ASSIGN_OR_RETURN(const AddressKind kind,
                     DescribeAddress(context_, Address(object), time_, control_));
    if (kind.kind != "heap" && kind.kind != "freed heap" && kind.kind != "anonymous") {
      return Value();
    }
    auto scanner = python::EpochScanner::Open(context_.process(), &provenance_, object,
                                              {Time(0), time_ + 1}, control_,
                                              /*births_only=*/false, kMaxChanges);
    if (absl::IsNotFound(scanner.status())) return Value();
    if (!scanner.ok()) return scanner.status();
    std::vector<Epoch> epochs;
    absl::StatusOr<const Epoch*> dangling = EpochMeant(**scanner, *suspect.holder, &epochs);
    if (absl::IsResourceExhausted(dangling.status())) return Value();
    if (!dangling.ok()) return dangling.status();
    if (*dangling == nullptr || !(*dangling)->birth || !(*dangling)->death) return Value();
    ASSIGN_OR_RETURN(const bool dying, IsBeingFreed(*(*dangling)->death, stack_));
    if (dying) return Value();
    Life life;
    life.state = "freed";
    life.epoch = **dangling;
    life.whole = life.epoch.alive;
    life.end = *dangling == &epochs[0] ? time_ + 1 : (*dangling - 1)->birth->access.time;
    return Describe(object, suspect, life);
  }

  // The object that the holder's pointer was to; null: that is not known. A word that was stored
  // while an object lived held a pointer to that one. A word that was stored while none did may
  // be a free list's, of which the next object was made; what the pointer was to before does not
  // matter then. `epochs` gets the objects looked at, the newest first.
  absl::StatusOr<const Epoch*> EpochMeant(python::EpochScanner& scanner, Holder holder,
                                          std::vector<Epoch>* epochs) {
    const auto born = [](const Epoch& e) { return e.birth ? e.birth->access.time : Time(0); };
    const auto died = [](const Epoch& e) { return e.death ? e.death->access.time : kTimeMax; };
    const Epoch* const unknown = nullptr;
    bool all = false;
    for (size_t i = 0; i < kMaxHolders; ++i) {
      while (!all && (epochs->empty() || born(epochs->back()) > holder.stored)) {
        ASSIGN_OR_RETURN(std::optional<Epoch> next, scanner.Next());
        if (next) {
          epochs->push_back(*std::move(next));
        } else {
          all = true;
        }
      }
      const bool last = i == 0;
      const auto at_store = std::find_if(epochs->begin(), epochs->end(), [&](const Epoch& e) {
        return born(e) <= holder.stored && holder.stored < died(e);
      });
      if (at_store != epochs->end()) {
        // Read before it died, and kept by other words since: perhaps as memory to be used again.
        const bool may_be_memory = died(*at_store) >= holder.read && !last;
        return may_be_memory || at_store->replaced ? unknown : &*at_store;
      }
      const auto made_of_it = std::find_if(epochs->rbegin(), epochs->rend(),
                                           [&](const Epoch& e) { return born(e) >= holder.read; });
      if (made_of_it != epochs->rend()) {
        return last && !made_of_it->replaced ? &*made_of_it : unknown;
      }
      if (!holder.source) return unknown;
      ASSIGN_OR_RETURN(const std::optional<Holder> before,
                       HolderOf(context_, tracer_, *holder.source, control_));
      if (!before) return unknown;
      holder = *before;
    }
    return unknown;
  }

  // Whether somebody else than its deallocator wrote to the dead object's word last.
  absl::StatusOr<bool> WasReused(uint64_t address, const python::CountChange& death) {
    AccessQuery query;
    query.ranges = {{Address(address), Address(address + sizeof(uint64_t))}};
    query.span = {death.access.time + 1, time_ + 1};
    query.direction = Direction::kBackward;
    ASSIGN_OR_RETURN(const std::optional<Access> write, LastAccess(context_.process(), query));
    if (!write) return false;
    ASSIGN_OR_RETURN(std::unique_ptr<Moment> moment, context_.process().At(write->time));
    ASSIGN_OR_RETURN(const ttq::Stack writer, unwinder_.StackOf(*moment, write->thread));
    ASSIGN_OR_RETURN(const bool by_deallocator, IsBeingFreed(death, writer));
    return !by_deallocator;
  }

  // Whether at the stack's time the deallocator still runs that the change led to.
  absl::StatusOr<bool> IsBeingFreed(const python::CountChange& death, const ttq::Stack& stack) {
    constexpr uint64_t kBeforeCall = 16;  // instructions from where the count became 0
    const Access& change = death.access;
    if (change.thread != stack.thread) return false;
    ASSIGN_OR_RETURN(std::unique_ptr<Moment> moment, context_.process().At(change.time));
    ASSIGN_OR_RETURN(const ttq::Stack then,
                     unwinder_.StackOf(*moment, change.thread, {.max_frames = 16}));
    const auto counted = std::find_if(then.frames.begin(), then.frames.end(), IsCallFrame);
    if (counted == then.frames.end() || !counted->cfa) return false;
    const ttq::Frame* inner = nullptr;
    for (const ttq::Frame& frame : stack.frames) {
      if (!IsCallFrame(frame)) continue;
      if (frame.cfa != counted->cfa) {
        inner = &frame;
        continue;
      }
      const auto called_at = [&](const ttq::Frame& f) {
        return CalledAt(context_.process(), f, stack.time);
      };
      ASSIGN_OR_RETURN(const std::optional<Time> called, called_at(frame));
      if (!called || *called > change.time) return false;
      // What jumped to a deallocator is another function now.
      if (frame.function != counted->function) return true;
      if (inner == nullptr) return false;
      ASSIGN_OR_RETURN(const std::optional<Time> next, called_at(*inner));
      return next && *next > change.time && next->v - change.time.v <= kBeforeCall;
    }
    return false;
  }

  // When the words that make it an object were written last, the newest first.
  absl::StatusOr<std::vector<Time>> LastWrites(uint64_t object, const python::Layout& layout) {
    constexpr size_t kMaxCount = 32;
    const uint64_t count = object + python::CountWordOf(layout).offset;
    const uint64_t type = object + static_cast<uint64_t>(layout.object_type);
    AccessQuery query;
    query.ranges = {{Address(count), Address(count + 8)}, {Address(type), Address(type + 8)}};
    query.span = {Time(0), time_ + 1};
    query.direction = Direction::kBackward;
    query.want_values = false;
    ASSIGN_OR_RETURN(auto cursor, context_.process().Accesses(std::move(query), control_));
    std::vector<Time> times;
    while (times.size() < kMaxCount) {
      ASSIGN_OR_RETURN(std::optional<Access> access, cursor->Next());
      if (!access) break;
      times.push_back(access->time);
    }
    return times;
  }

  // Whether the object that was whole at `t` reached to the address, and its memory was not given
  // to somebody else since.
  absl::StatusOr<bool> WasThere(uint64_t object, uint64_t address, Time t) {
    ASSIGN_OR_RETURN(PythonState * state, provenance_.StateAt(t));
    PythonState::Instance* instance = nullptr;
    const python::TypeInfo* type = TypeIn(*state, object, &instance);
    if (type == nullptr || !Covers(*instance, *type, object, address)) return false;
    ASSIGN_OR_RETURN(const HeapIndex* heap, context_.Heap(control_));
    const HeapLife* block = heap->Find(Address(object), time_).inside;
    return block == nullptr || block->allocated <= t;
  }

  absl::Status AddEvent(const std::string& what, const std::optional<python::CountChange>& change,
                        Object* object) {
    Value time, python, native;
    if (change) {
      const Access& access = change->access;
      time = access.time;
      ASSIGN_OR_RETURN(std::optional<python::SourceLocation> place,
                       provenance_.Of(access.thread, access.time));
      python = python::ValueOf(place);
      ASSIGN_OR_RETURN(std::string function,
                       python::NativeFunction(context_, access.pc, access.time));
      native = OfText(function);
    }
    object->fields.emplace_back(what + "_time", std::move(time));
    object->fields.emplace_back(what + "_by", std::move(python));
    object->fields.emplace_back(what + "_in", std::move(native));
    return absl::OkStatus();
  }

  absl::StatusOr<Value> Describe(uint64_t object, const Suspect& suspect, const Life& life) {
    ASSIGN_OR_RETURN(PythonState * state, provenance_.StateAt(life.whole));
    PythonState::Instance* instance = nullptr;
    const python::TypeInfo* type = TypeIn(*state, object, &instance);
    if (type == nullptr) return Value();
    const python::CountWord word = python::CountWordOf(instance->objects.layout());
    python::ReprLimits limits;
    limits.characters = 300;
    Object found;
    found.fields = {{"address", Address(object)},
                    {"found", suspect.how},
                    {"type", instance->objects.FullTypeName(*type)},
                    {"repr", instance->objects.Repr(object, limits)},
                    {"state", life.state},
                    {"refcount", life.count ? Value(*life.count) : Value()}};
    RETURN_IF_ERROR(AddEvent("created", life.epoch.birth, &found));
    RETURN_IF_ERROR(AddEvent("freed", life.epoch.death, &found));
    ASSIGN_OR_RETURN(Value references, References(object, word, life));
    if (suspect.interest == Suspect::Interest::kCountedAfter && !CountedAfter(references)) {
      return Value();
    }
    found.fields.emplace_back("references", std::move(references));
    return Value(std::move(found));
  }

  // Whether somebody gave back a reference when the object was gone.
  static bool CountedAfter(const Value& references) {
    if (references.list() == nullptr) return false;
    for (const Value& owner : *references.list()) {
      for (const auto& [name, value] : owner.object()->fields) {
        const int64_t* n = value.get<int64_t>();
        if (name == "after_free" && n != nullptr && *n != 0) return true;
      }
    }
    return false;
  }

  // Who does not come out even.
  absl::StatusOr<Value> References(uint64_t object, const python::CountWord& word,
                                   const Life& life) {
    const Epoch& epoch = life.epoch;
    if (!epoch.birth) return Value();
    absl::StatusOr<std::vector<python::Owner>> owners =
        python::OwnersOf(context_, provenance_, object, word, epoch,
                         {epoch.birth->access.time, life.end}, control_, kMaxCounts);
    if (absl::IsResourceExhausted(owners.status())) {
      outcome_.MarkIncomplete(fmt::format(
          "the references to {:#x} were not counted, for there are too many; `why was {:#x} freed "
          "too early` does",
          object, object));
      return Value();
    }
    if (!owners.ok()) return owners.status();
    std::erase_if(*owners, [](const python::Owner& owner) {
      return owner.balance() == 0 && owner.after_free == 0;
    });
    std::stable_sort(
        owners->begin(), owners->end(),
        [](const python::Owner& a, const python::Owner& b) { return a.first < b.first; });
    List list;
    for (const python::Owner& owner : *owners) {
      Object one;
      one.fields = {{"balance", owner.balance()},
                    {"after_free", owner.after_free},
                    {"function", OfText(owner.function)},
                    {"module", OfText(owner.module)},
                    {"python", python::ValueOf(owner.place)}};
      list.emplace_back(std::move(one));
    }
    return Value(std::move(list));
  }

  const Context& context_;
  const ttq::Stack& stack_;
  const Time time_;
  ScanControl* control_;
  Outcome& outcome_;
  OriginTracer tracer_;
  Unwinder unwinder_;
  python::Provenance provenance_;
  absl::flat_hash_set<uint64_t> tried_;
};

}  // namespace

absl::StatusOr<FaultObject> ObjectAtFault(const Context& context, const ttq::Stack& stack,
                                          const std::vector<Suspect>& suspects, Time t,
                                          ScanControl* control, Outcome* outcome) {
  if (!context.HasPython()) return FaultObject{};
  Search search(context, stack, t, control, outcome);
  for (const Suspect& suspect : suspects) {
    ASSIGN_OR_RETURN(Value found, search.Examine(suspect));
    if (found.is_null()) continue;
    return FaultObject{std::move(found), suspect.interest == Suspect::Interest::kDangling};
  }
  return FaultObject{};
}

}  // namespace ttq

// SPDX-License-Identifier: MIT

#include "query/rows/py_stack.h"

#include <cstdlib>

#include "base/status_macros.h"
#include "query/cpython/provenance.h"
#include "query/outcome.h"

namespace ttq {
namespace {

// Characters of a str that a condition sees: each row keeps them.
constexpr size_t kMaxText = 1000;

// The double nearest to an integer that is too large for 64 bits, by its digits.
std::optional<double> RealOf(const std::string& digits) {
  const size_t begin = digits.starts_with('-') ? 1 : 0;
  if (digits.find_first_not_of("0123456789", begin) != std::string::npos) return std::nullopt;
  return std::strtod(digits.c_str(), nullptr);
}

}  // namespace

Value PyBacktraceValue(python::PythonState& state, python::SourceText& source, ThreadNo thread,
                       Outcome& outcome) {
  const std::optional<python::PythonState::ThreadStack> stack = state.StackOf(thread);
  if (!stack) return Value();
  if (!stack->stack.incomplete.empty()) outcome.MarkIncomplete(stack->stack.incomplete);
  return python::ValueOf(stack->stack, source);
}

Value ObjectValue(python::ObjectReader& objects, uint64_t object) {
  const python::TypeInfo* type = object == 0 ? nullptr : objects.TypeOf(object);
  if (!type) return Value();
  if (type->name == "int") {
    if (const std::optional<int64_t> n = objects.Int(object)) return Value(*n);
  }
  if (const std::optional<double> real = objects.Float(object)) return Value(*real);
  python::ReprLimits limits;
  limits.characters = 300;
  limits.items = 20;
  limits.levels = 4;
  return ReprValue(objects, object, limits);
}

Value ReprValue(python::ObjectReader& objects, uint64_t object, const python::ReprLimits& limits) {
  const python::TypeInfo* type = objects.TypeOf(object);
  if (!type) return Value(objects.Repr(object, limits));
  const bool is_int = type->name == "int";
  std::optional<int64_t> n;
  if (is_int || type->name == "bool") n = objects.Int(object);
  if (n && is_int) return Value(Represented{Value(std::to_string(*n)), Value(*n)});
  std::string repr = objects.Repr(object, limits);
  const auto shown_as_repr = [&](Value operand) {
    return Value(Represented{Value(std::move(repr)), std::move(operand)});
  };
  if (n) return shown_as_repr(*n);
  const std::optional<double> real = is_int ? RealOf(repr) : objects.Float(object);
  if (real) return shown_as_repr(*real);
  if (type->name == "str") {
    if (std::optional<std::string> text = objects.Str(object, kMaxText)) {
      return shown_as_repr(*std::move(text));
    }
  }
  return Value(std::move(repr));
}

Extend MakePyBacktrace(const Context* context, size_t time_slot, std::optional<size_t> thread_slot,
                       const std::shared_ptr<Outcome>& outcome) {
  struct Kept {
    explicit Kept(const Process* process) : source(process) {}
    std::unique_ptr<python::PythonState> state;
    python::SourceText source;
    size_t remarks = 0;
  };
  auto kept = std::make_shared<Kept>(&context->process());
  return [context, time_slot, thread_slot, outcome, kept](Row* row) -> absl::Status {
    const Time* time = (*row)[time_slot].get<Time>();
    if (!time) {
      row->push_back(Null{});
      return absl::OkStatus();
    }
    if (!kept->state) {
      ASSIGN_OR_RETURN(kept->state,
                       python::PythonState::At(&context->recording(), &context->process(), *time));
    } else if (absl::Status s = kept->state->MoveTo(*time); !s.ok()) {
      return s;
    }
    ThreadNo thread;
    if (thread_slot) {
      const int64_t* number = (*row)[*thread_slot].get<int64_t>();
      if (number) thread = ThreadNo(static_cast<uint32_t>(*number));
    } else {
      ASSIGN_OR_RETURN(thread, kept->state->moment().RunningThread());
    }
    if (!kept->state->problem().empty()) outcome->AddNote(kept->state->problem());
    row->push_back(PyBacktraceValue(*kept->state, kept->source, thread, *outcome));
    for (; kept->remarks < kept->source.remarks().size(); ++kept->remarks) {
      outcome->AddNote(kept->source.remarks()[kept->remarks]);
    }
    return kept->state->memory().status();
  };
}

}  // namespace ttq

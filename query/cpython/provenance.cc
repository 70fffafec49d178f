// SPDX-License-Identifier: MIT

#include "query/cpython/provenance.h"

#include "base/status_macros.h"

namespace ttq::python {

Value ValueOf(const SourceLocation& place) {
  Object object;
  object.fields.emplace_back("function", place.function);
  object.fields.emplace_back("file", place.file);
  object.fields.emplace_back("line", place.line > 0 ? Value(int64_t{place.line}) : Value());
  return Value(std::move(object));
}

Value ValueOf(const std::optional<SourceLocation>& place) {
  return place ? ValueOf(*place) : Value();
}

Value ValueOf(const Stack& stack, SourceText& source) {
  List list;
  for (const Frame& frame : stack.frames) {
    const int line = frame.position.line;
    const std::string text = source.Line(frame.code->filename, line);
    Object object;
    object.fields = {{"frame", static_cast<int64_t>(list.size())},
                     {"function", frame.code->qualname},
                     {"file", frame.code->filename},
                     {"line", line > 0 ? Value(int64_t{line}) : Value()},
                     {"source", text.empty() ? Value() : Value(text)},
                     {"frame_address", Address(frame.address)}};
    list.emplace_back(std::move(object));
  }
  return Value(std::move(list));
}

absl::StatusOr<PythonState*> Provenance::StateAt(Time t) {
  if (!context_.HasPython()) {
    // It may only look so; whoever knows of frames from their file counts on there being a state.
    RETURN_IF_ERROR(context_.recording().Damage());
    return nullptr;
  }
  if (!state_) {
    ASSIGN_OR_RETURN(state_, PythonState::At(&context_.recording(), &context_.process(), t));
  } else if (state_->time() != t) {
    RETURN_IF_ERROR(state_->MoveTo(t));
  }
  return state_.get();
}

absl::StatusOr<std::optional<SourceLocation>> Provenance::ByHistory(const FrameHistory& history,
                                                                    ThreadNo thread, Time t) {
  ASSIGN_OR_RETURN(std::optional<FrameHistory::ActiveFrame> innermost,
                   history.InnermostAt(thread, t));
  if (!innermost) return std::optional<SourceLocation>();
  const FrameHistory::ActiveFrame& frame = *innermost;
  ASSIGN_OR_RETURN(PythonState * state, StateAt(t));
  const Code& code = history.code(frame.code);
  const int64_t offset =
      FrameOffset(history.layout_of(frame.code), state->memory(), frame.frame, code);
  return std::optional<SourceLocation>(
      {code.qualname, code.filename, history.LineOf(frame.code, offset), frame.code});
}

absl::StatusOr<std::optional<SourceLocation>> Provenance::Of(ThreadNo thread, Time t) {
  if (!context_.HasPython()) return std::optional<SourceLocation>();
  constexpr size_t kFromMemory = 500;
  if (++asked_ > kFromMemory || context_.HasPythonFrames()) {
    auto history = context_.GrowingPythonFrames();
    if (history.ok()) {
      RETURN_IF_ERROR((*history)->WaitUntil(t, control_));
      return ByHistory(**history, thread, t);
    }
    if (!absl::IsNotFound(history.status())) return history.status();
  }
  ASSIGN_OR_RETURN(PythonState * state, StateAt(t));
  for (const auto& instance : state->instances()) {
    for (const Interpreter& interpreter : state->Interpreters(*instance)) {
      for (const ThreadState& thread_state : interpreter.threads) {
        if (thread_state.thread != thread) continue;
        uint64_t address = instance->frames.CurrentFrame(thread_state.address).frame;
        constexpr int kMaxShims = 1000;
        for (int i = 0; i < kMaxShims && address != 0; ++i) {
          Frame frame;
          const FrameReader::Kind kind =
              instance->frames.ReadFrame(address, &frame, /*current=*/true);
          if (kind == FrameReader::Kind::kPython) {
            return std::optional<SourceLocation>(
                {frame.code->qualname, frame.code->filename, frame.position.line, kNoCode});
          }
          if (kind == FrameReader::Kind::kBroken) break;
          address = instance->frames.Previous(address).value_or(0);
        }
      }
    }
  }
  return std::optional<SourceLocation>();
}

absl::StatusOr<Value> Provenance::StackOf(ThreadNo thread, Time t) {
  ASSIGN_OR_RETURN(PythonState * state, StateAt(t));
  if (state == nullptr) return Value();
  const std::optional<PythonState::ThreadStack> stack = state->StackOf(thread);
  if (!stack) return Value();
  if (!source_) source_ = std::make_unique<SourceText>(&state->process());
  return stack->stack.frames.empty() ? Value() : ValueOf(stack->stack, *source_);
}

std::unique_ptr<Provenance> ProvenancePool::Take() {
  std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<Provenance>(context_, control_);
  std::unique_ptr<Provenance> provenance = std::move(idle_.back());
  idle_.pop_back();
  return provenance;
}

void ProvenancePool::Give(std::unique_ptr<Provenance> provenance) {
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(provenance));
}

}  // namespace ttq::python

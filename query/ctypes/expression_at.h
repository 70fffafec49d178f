// SPDX-License-Identifier: MIT
//
// A C expression on the state that a moment stands at: in a frame of a thread, or of no frame.

#ifndef TTQ_QUERY_CTYPES_EXPRESSION_AT_H_
#define TTQ_QUERY_CTYPES_EXPRESSION_AT_H_

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "query/ctypes/c_value.h"
#include "query/ctypes/frame_state.h"
#include "query/ctypes/process_types.h"
#include "query/ctypes/type_space.h"
#include "query/language/ast.h"
#include "store/read/reader.h"

namespace ttq {

// The frame of a thread as evaluation needs it. `number`: as `backtrace` counts; `inlined`: as in
// StackOptions. NotFound when the thread does not live then; OutOfRange, with how many there are,
// when the stack is not so deep.
absl::StatusOr<FrameView> FrameAt(const ProcessTypes& context, Moment* moment,
                                  std::optional<ThreadNo> thread, uint64_t number,
                                  std::optional<uint32_t> inlined = std::nullopt);

struct EvaluatedValue {
  CValue value;
  const TypeSpace* types = nullptr;
  std::optional<FrameView> frame;
  std::string note;  // Evaluator::NoteOnTypes
};

// `in_frame`: names mean the variables of frame `frame` of `thread` (default: the running one);
// else only globals. Errors are at the part of the expression that cannot be evaluated.
absl::StatusOr<EvaluatedValue> EvaluateExpression(const ProcessTypes& context,
                                                  const ast::Expr& expr, Moment* moment,
                                                  bool in_frame, std::optional<ThreadNo> thread,
                                                  uint64_t frame,
                                                  std::optional<uint32_t> inlined = std::nullopt);

}  // namespace ttq

#endif  // TTQ_QUERY_CTYPES_EXPRESSION_AT_H_

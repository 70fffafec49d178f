// SPDX-License-Identifier: MIT
//
// Rows of the C API, one at a time.

#include <algorithm>
#include <limits>
#include <utility>

#include "capi/error.h"
#include "capi/handles.h"
#include "capi/ttq.h"
#include "fmt/core.h"
#include "query/answers/format.h"

namespace ttq::capi {

Ending ResultState::Next() {
  has_row = false;
  if (std::exchange(any_text, false)) std::fill(texts.begin(), texts.end(), std::nullopt);
  if (ended) return *ended;
  if (limit != 0 && rows >= limit) {
    truncated = true;
    monitor.reset();
    return *(ended = Ending());
  }
  absl::StatusOr<bool> next = stream->Next(&row);
  if (next.ok() && *next) {
    ++rows;
    has_row = true;
    return Ending::Row();
  }
  if (!next.ok()) {
    ended = Ending(next.status());
  } else if (stream->interrupted()) {
    ended = Ending(absl::CancelledError("interrupted"));
  } else {
    ended = Ending();
  }
  monitor.reset();
  return *ended;
}

namespace {

// Text as JSON shows the value, strings as they are.
std::string TextOf(const Value& value, Type type) {
  if (const auto* s = value.get<std::string>()) return Utf8(*s);
  std::string json;
  AppendJson(value, type, &json);
  if (json.size() >= 2 && json.front() == '"') json = json.substr(1, json.size() - 2);
  return json;
}

// Runs `body(value, type, state)` on a value of the current row that is not null.
template <class Body>
ttq_status OnValue(ttq_result* result, size_t column, bool null_too, const void* out, Body body) {
  return Guard([&]() -> Ending {
    if (!result || !out) return InvalidArgument("an argument is NULL");
    ResultState& state = *result->state;
    ResultUse use(&state);
    if (!use.held()) return ResultUse::Busy();
    const std::vector<Column>& columns = state.stream->columns();
    if (column >= columns.size()) {
      return InvalidArgument(fmt::format(
          "the result has {} columns, and {} is not the index of one", columns.size(), column));
    }
    if (!state.has_row) return InvalidArgument("there is no current row; call ttq_result_next");
    const Value& value = state.row[column];
    if (value.is_null() && !null_too) {
      return Ending(TTQ_ERROR_NULL, fmt::format("{} is missing", columns[column].name));
    }
    return body(value, columns[column], state);
  });
}

Ending WrongType(const Column& column, const char* wanted) {
  return Ending(TTQ_ERROR_WRONG_TYPE, fmt::format("{} is of type {} and does not fit {}",
                                                  column.name, TypeName(column.type), wanted));
}

}  // namespace
}  // namespace ttq::capi

using ttq::Column;
using ttq::Value;
using ttq::capi::BadSize;
using ttq::capi::CopyOut;
using ttq::capi::Ending;
using ttq::capi::Guard;
using ttq::capi::InvalidArgument;
using ttq::capi::OnValue;
using ttq::capi::ResultState;
using ttq::capi::ResultUse;
using ttq::capi::WrongType;

extern "C" {

void ttq_result_free(ttq_result* result) { delete result; }

void ttq_result_interrupt(ttq_result* result) {
  if (result) result->state->control->cancelled.store(true);
}

const char* ttq_type_name(ttq_type type) {
  if (type < TTQ_TYPE_TIME || type > TTQ_TYPE_REAL) return "unknown";
  // Static text, so it ends in NUL.
  return ttq::TypeName(static_cast<ttq::Type>(type)).data();
}

size_t ttq_result_column_count(const ttq_result* result) {
  return result ? result->state->stream->columns().size() : 0;
}

ttq_status ttq_result_column(const ttq_result* result, size_t index, ttq_column* column) {
  return Guard([&]() -> Ending {
    if (!result || !column) return InvalidArgument("ttq_result_column: an argument is NULL");
    const std::vector<Column>& columns = result->state->stream->columns();
    if (index >= columns.size()) {
      return InvalidArgument(fmt::format(
          "the result has {} columns, and {} is not the index of one", columns.size(), index));
    }
    const auto& shown = result->state->stream->presentation().table_columns;
    ttq_column out = {};
    out.name = columns[index].name.c_str();
    out.type = static_cast<ttq_type>(columns[index].type);
    out.shown =
        shown.empty() || std::find(shown.begin(), shown.end(), columns[index].name) != shown.end();
    return CopyOut(out, column) ? Ending() : BadSize();
  });
}

ttq_status ttq_result_next(ttq_result* result) {
  return Guard(result ? std::string_view(result->state->text) : std::string_view(),
               [&]() -> Ending {
                 if (!result) return InvalidArgument("ttq_result_next: the result is NULL");
                 ResultUse use(result->state.get());
                 if (!use.held()) return ResultUse::Busy();
                 return result->state->Next();
               });
}

ttq_status ttq_result_is_null(ttq_result* result, size_t column, int* is_null) {
  return OnValue(result, column, true, is_null,
                 [&](const Value& value, const Column&, ResultState&) -> Ending {
                   *is_null = value.is_null();
                   return {};
                 });
}

ttq_status ttq_result_uint64(ttq_result* result, size_t column, uint64_t* number) {
  return OnValue(result, column, false, number,
                 [&](const Value& value, const Column& of, ResultState&) -> Ending {
                   uint64_t magnitude;
                   bool negative;
                   if (!value.AsNumber(&magnitude, &negative) || negative) {
                     return WrongType(of, "uint64");
                   }
                   *number = magnitude;
                   return {};
                 });
}

ttq_status ttq_result_int64(ttq_result* result, size_t column, int64_t* number) {
  return OnValue(
      result, column, false, number,
      [&](const Value& value, const Column& of, ResultState&) -> Ending {
        constexpr uint64_t kMaxCount = std::numeric_limits<int64_t>::max();
        uint64_t magnitude;
        bool negative;
        if (!value.AsNumber(&magnitude, &negative) || (!negative && magnitude > kMaxCount)) {
          return WrongType(of, "int64");
        }
        *number = static_cast<int64_t>(magnitude);
        return {};
      });
}

ttq_status ttq_result_double(ttq_result* result, size_t column, double* number) {
  return OnValue(result, column, false, number,
                 [&](const Value& value, const Column& of, ResultState&) -> Ending {
                   const std::optional<double> real = value.ToReal();
                   if (!real) return WrongType(of, "double");
                   *number = *real;
                   return {};
                 });
}

ttq_status ttq_result_text(ttq_result* result, size_t column, const char** text, size_t* length) {
  return OnValue(result, column, false, text,
                 [&](const Value& value, const Column& of, ResultState& state) -> Ending {
                   std::optional<std::string>& made = state.texts[column];
                   if (!made) made = ttq::capi::TextOf(value, of.type);
                   state.any_text = true;
                   *text = made->c_str();
                   if (length) *length = made->size();
                   return {};
                 });
}

ttq_status ttq_result_bytes(ttq_result* result, size_t column, const void** bytes, size_t* size) {
  return OnValue(result, column, false, bytes && size ? bytes : nullptr,
                 [&](const Value& value, const Column& of, ResultState&) -> Ending {
                   if (const auto* b = value.get<ttq::Bytes>()) {
                     *bytes = b->data.data();
                     *size = b->data.size();
                   } else if (const auto* s = value.get<std::string>()) {
                     *bytes = s->data();
                     *size = s->size();
                   } else if (const auto* w = value.get<ttq::Word>()) {
                     *bytes = &w->v;
                     *size = sizeof w->v;
                   } else {
                     return WrongType(of, "bytes");
                   }
                   return {};
                 });
}

ttq_status ttq_result_summary(ttq_result* result, ttq_summary* summary) {
  return Guard([&]() -> Ending {
    if (!result || !summary) return InvalidArgument("ttq_result_summary: an argument is NULL");
    ResultState& state = *result->state;
    ResultUse use(&state);
    if (!use.held()) return ResultUse::Busy();
    ttq_summary out = {};
    out.rows = state.rows;
    out.complete = state.stream->complete();
    out.interrupted = state.stream->interrupted();
    out.note = state.stream->note().c_str();
    out.no_rows = state.stream->presentation().no_rows.c_str();
    out.truncated = state.truncated;
    out.layout = static_cast<ttq_layout>(state.stream->presentation().layout);
    return CopyOut(out, summary) ? Ending() : BadSize();
  });
}

}  // extern "C"

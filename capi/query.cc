// SPDX-License-Identifier: MIT
//
// Queries of the C API: preparing, binding, running, interrupting.

#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "capi/error.h"
#include "capi/handles.h"
#include "capi/ttq.h"
#include "fmt/core.h"
#include "query/answers/format.h"

namespace ttq::capi {
namespace {

std::string_view TextArgument(const char* text, size_t length) {
  return length == TTQ_NOWHERE ? std::string_view(text) : std::string_view(text, length);
}

// Puts a value where a parameter is.
Ending Bind(ttq_query* query, size_t parameter, ParameterValue value) {
  if (!query) return InvalidArgument("ttq_bind: the query is NULL");
  if (parameter >= query->values.size()) {
    return InvalidArgument(
        fmt::format("ttq_bind: the query has {} parameters, and {} is not the "
                    "index of one",
                    query->values.size(), parameter));
  }
  query->values[parameter] = std::move(value);
  return {};
}

// What no name in a program has, and no quoting could express.
bool IsName(std::string_view name) {
  if (name.empty()) return false;
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '`' || c == '"') return false;
  }
  return true;
}

// A new control, which ttq_query_interrupt reaches.
std::shared_ptr<ScanControl> StartRun(ttq_query* query) {
  auto control = std::make_shared<ScanControl>();
  std::lock_guard<std::mutex> lock(query->mutex);
  query->running = control;
  return control;
}

}  // namespace

Monitor::Monitor(const ttq_run_options& options, std::shared_ptr<ScanControl> control)
    : control_(std::move(control)) {
  const std::chrono::milliseconds interval(
      options.progress_interval_ms ? options.progress_interval_ms : 100);
  thread_ =
      std::thread([this, interval, call = options.progress, context = options.progress_context] {
        std::unique_lock<std::mutex> lock(mutex_);
        while (!wake_.wait_for(lock, interval, [this] { return done_; })) {
          lock.unlock();
          if (call(context, control_->blocks_done.load(), control_->blocks_total.load())) {
            control_->cancelled.store(true);
          }
          lock.lock();
        }
      });
}

Monitor::~Monitor() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

}  // namespace ttq::capi

using ttq::capi::BadSize;
using ttq::capi::Bind;
using ttq::capi::CopyIn;
using ttq::capi::Ending;
using ttq::capi::Guard;
using ttq::capi::InvalidArgument;
using ttq::capi::TextArgument;

extern "C" {

ttq_status ttq_prepare(ttq_process* process, const char* text, size_t length, ttq_query** query) {
  const std::string_view words = text ? TextArgument(text, length) : std::string_view();
  return Guard(words, [&]() -> Ending {
    if (!query) return InvalidArgument("ttq_prepare: nowhere to put the query");
    *query = nullptr;
    if (!process || !text) return InvalidArgument("ttq_prepare: an argument is NULL");
    ASSIGN_OR_RETURN(std::vector<ttq::Parameter> parameters, ttq::ParseParameters(words));
    auto made = std::make_unique<ttq_query>();
    made->process = process->state;
    made->text = words;
    made->parameters = std::move(parameters);
    made->values.resize(made->parameters.size());
    *query = made.release();
    return {};
  });
}

void ttq_query_free(ttq_query* query) { delete query; }

size_t ttq_query_parameter_count(const ttq_query* query) {
  return query ? query->parameters.size() : 0;
}

const char* ttq_query_parameter_name(const ttq_query* query, size_t parameter) {
  if (!query || parameter >= query->parameters.size()) return nullptr;
  return query->parameters[parameter].name.c_str();
}

ttq_status ttq_query_parameter_index(const ttq_query* query, const char* name, size_t* parameter) {
  return Guard([&]() -> Ending {
    if (!query || !name || !parameter) {
      return InvalidArgument("ttq_query_parameter_index: an argument is NULL");
    }
    for (size_t i = 0; i < query->parameters.size() && *name; ++i) {
      if (query->parameters[i].name != name) continue;
      *parameter = i;
      return {};
    }
    return Ending(TTQ_ERROR_NOT_FOUND, fmt::format("the query has no parameter :{}", name));
  });
}

ttq_status ttq_bind_uint64(ttq_query* query, size_t parameter, uint64_t value) {
  return Guard([&] { return Bind(query, parameter, value); });
}

ttq_status ttq_bind_int64(ttq_query* query, size_t parameter, int64_t value) {
  return Guard([&] { return Bind(query, parameter, value); });
}

ttq_status ttq_bind_double(ttq_query* query, size_t parameter, double value) {
  return Guard([&] { return Bind(query, parameter, value); });
}

ttq_status ttq_bind_text(ttq_query* query, size_t parameter, const char* text, size_t length) {
  return Guard([&]() -> Ending {
    if (!text) return InvalidArgument("ttq_bind_text: the text is NULL");
    std::string value(TextArgument(text, length));
    if (ttq::Utf8(value) != value) return InvalidArgument("ttq_bind_text: the text is not UTF-8");
    return Bind(query, parameter, std::move(value));
  });
}

ttq_status ttq_bind_name(ttq_query* query, size_t parameter, const char* name, size_t length) {
  return Guard([&]() -> Ending {
    if (!name) return InvalidArgument("ttq_bind_name: the name is NULL");
    std::string value(TextArgument(name, length));
    if (!ttq::capi::IsName(value) || ttq::Utf8(value) != value) {
      return InvalidArgument(fmt::format("ttq_bind_name: {} cannot be a name",
                                         value.empty() ? "an empty text" : ttq::Printable(value)));
    }
    return Bind(query, parameter, ttq::ast::Name{std::move(value)});
  });
}

ttq_status ttq_query_clear(ttq_query* query) {
  return Guard([&]() -> Ending {
    if (!query) return InvalidArgument("ttq_query_clear: the query is NULL");
    query->values.assign(query->parameters.size(), std::monostate());
    return {};
  });
}

ttq_status ttq_run(ttq_query* query, const ttq_run_options* options, ttq_result** result) {
  return Guard(query ? std::string_view(query->text) : std::string_view(), [&]() -> Ending {
    if (!result) return InvalidArgument("ttq_run: nowhere to put the result");
    *result = nullptr;
    if (!query) return InvalidArgument("ttq_run: the query is NULL");
    const std::optional<ttq_run_options> known = CopyIn(options);
    if (!known) return BadSize();
    auto state = std::make_shared<ttq::capi::ResultState>();
    state->process = query->process;
    state->text = query->text;
    state->limit = known->limit;
    state->control = ttq::capi::StartRun(query);
    ASSIGN_OR_RETURN(ttq::ast::Query parsed, ttq::ParseQuery(query->text, query->values));
    if (known->progress) {
      state->monitor = std::make_unique<ttq::capi::Monitor>(*known, state->control);
    }
    const ttq::RunOptions run{.control = state->control.get(), .full_scan = known->full_scan != 0};
    auto stream = query->process->engine->Run(parsed, run);
    if (!stream.ok()) {
      // What an interrupted nested query leads to is not what the caller wants to know.
      if (state->control->cancelled.load()) return absl::CancelledError("interrupted");
      return stream.status();
    }
    state->stream = *std::move(stream);
    state->texts.resize(state->stream->columns().size());
    *result = new ttq_result{std::move(state)};
    return {};
  });
}

void ttq_query_interrupt(ttq_query* query) {
  if (!query) return;
  std::lock_guard<std::mutex> lock(query->mutex);
  if (query->running) query->running->cancelled.store(true);
}

ttq_status ttq_explain(ttq_query* query, const char** text) {
  return Guard(query ? std::string_view(query->text) : std::string_view(), [&]() -> Ending {
    if (!query || !text) return InvalidArgument("ttq_explain: an argument is NULL");
    ASSIGN_OR_RETURN(ttq::ast::Query parsed, ttq::ParseQuery(query->text, query->values));
    const std::shared_ptr<ttq::ScanControl> control = ttq::capi::StartRun(query);
    ASSIGN_OR_RETURN(query->explanation,
                     query->process->engine->Explain(parsed, {.control = control.get()}));
    *text = query->explanation.c_str();
    return {};
  });
}

ttq_status ttq_complete(const char* text, size_t length, ttq_word found, void* context) {
  return Guard([&]() -> Ending {
    if (!text || !found) return InvalidArgument("ttq_complete: an argument is NULL");
    for (const std::string& word : ttq::NextWords(TextArgument(text, length))) {
      found(context, word.c_str());
    }
    return {};
  });
}

}  // extern "C"

// SPDX-License-Identifier: MIT
//
// histogram RECORDING QUERY: in which parts of the program's time the rows of a query lie. Shows
// the C API from C++: handles that close themselves, whole columns as Arrow arrays, progress, and
// Ctrl-C.
//
//     c++ -std=c++17 histogram.cc $(pkg-config --cflags --libs ttq) -o histogram

#include <ttq.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

// A handle that is closed when it goes out of scope.
template <class T, void (*close)(T*)>
struct Closer {
  void operator()(T* handle) const { close(handle); }
};
template <class T, void (*close)(T*)>
using Handle = std::unique_ptr<T, Closer<T, close>>;

void Check(ttq_status status) {
  if (status < 0) throw std::runtime_error(ttq_last_error()->rendered);
}

volatile std::sig_atomic_t interrupted = 0;

int Progress(void*, uint64_t done, uint64_t total) {
  std::fprintf(stderr, "\rblock %llu of %llu", static_cast<unsigned long long>(done),
               static_cast<unsigned long long>(total));
  return interrupted;
}

void Run(const char* name, const std::string& text) {
  ttq_recording* opened;
  Check(ttq_open(name, &opened));
  const Handle<ttq_recording, ttq_close> recording(opened);
  ttq_process* chosen;
  Check(ttq_process_open(recording.get(), 0, &chosen));
  const Handle<ttq_process, ttq_process_close> process(chosen);

  ttq_process_info info = {};
  info.size = sizeof info;
  Check(ttq_describe_process(recording.get(), ttq_process_number(chosen) - 1, &info));

  ttq_query* prepared;
  Check(ttq_prepare(process.get(), text.data(), text.size(), &prepared));
  const Handle<ttq_query, ttq_query_free> query(prepared);
  ttq_run_options options = TTQ_RUN_OPTIONS_INIT;
  options.progress = Progress;
  ttq_result* running;
  Check(ttq_run(query.get(), &options, &running));
  const Handle<ttq_result, ttq_result_free> result(running);

  ArrowArrayStream stream;
  Check(ttq_result_arrow(result.get(), nullptr, &stream));
  ArrowSchema schema;
  if (stream.get_schema(&stream, &schema) != 0) {
    throw std::runtime_error(stream.get_last_error(&stream));
  }
  int64_t time = 0;
  while (time < schema.n_children && std::string(schema.children[time]->name) != "time") ++time;
  const bool found = time < schema.n_children;
  schema.release(&schema);
  if (!found) throw std::runtime_error("the rows of this query have no time");

  std::array<uint64_t, 20> counts{};
  std::string failure;
  for (ArrowArray batch; failure.empty();) {
    if (stream.get_next(&stream, &batch) != 0) {
      failure = stream.get_last_error(&stream);
    } else if (batch.release == nullptr) {
      break;  // the end
    } else {
      const auto* times = static_cast<const uint64_t*>(batch.children[time]->buffers[1]);
      for (int64_t i = 0; i < batch.length; ++i)
        ++counts[times[i] * counts.size() / (info.end + 1)];
      batch.release(&batch);
    }
  }
  stream.release(&stream);
  if (!failure.empty()) throw std::runtime_error(failure);

  for (size_t i = 0; i < counts.size(); ++i) {
    std::printf("%3zu%%  %llu\n", 100 * i / counts.size(),
                static_cast<unsigned long long>(counts[i]));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: histogram RECORDING QUERY\n", stderr);
    return 2;
  }
  std::signal(SIGINT, [](int) { interrupted = 1; });
  try {
    Run(argv[1], argv[2]);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

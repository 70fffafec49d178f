// SPDX-License-Identifier: MIT

#include "mcp/server.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "mcp/protocol.h"

namespace ttq::mcp {
namespace {

constexpr size_t kMaxLine = 1 << 20;
constexpr size_t kMaxWaiting = 64;
constexpr int kPollMs = 200;

class Server {
 public:
  Server(int in, int out, Options options) : in_(in), out_(out), tools_(std::move(options)) {}

  void Run() {
    std::thread worker([this] { Work(); });
    ReadLines();
    {
      std::unique_lock<std::mutex> lock(mutex_);
      no_more_ = true;
      wake_.notify_all();
      // What was asked is answered, as long as somebody is there.
      while (!work_done_ && !gone_) {
        wake_.wait_for(lock, std::chrono::milliseconds(kPollMs));
        if (NobodyReads()) gone_ = true;
      }
      for (const Waiting& waiting : calls_) waiting.call->Cancel();
    }
    worker.join();
  }

 private:
  struct Waiting {
    Message message;
    std::shared_ptr<Call> call;
  };

  bool NobodyReads() const {
    struct pollfd fd = {out_, 0, 0};
    return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
  }

  void ReadLines() {
    std::string line;
    bool too_long = false;
    char buffer[1 << 16];
    while (true) {
      struct pollfd fds[2] = {{in_, POLLIN, 0}, {out_, 0, 0}};
      if (poll(fds, 2, -1) < 0 && errno != EINTR) return;
      if ((fds[1].revents & (POLLERR | POLLNVAL)) != 0) {
        std::lock_guard<std::mutex> lock(mutex_);
        gone_ = true;
      }
      if (IsGone()) return;
      if (fds[0].revents == 0) continue;
      const ssize_t n = read(in_, buffer, sizeof buffer);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n <= 0) break;
      std::string_view piece(buffer, static_cast<size_t>(n));
      while (!piece.empty()) {
        const size_t end = piece.find('\n');
        const std::string_view part = piece.substr(0, end);
        if (line.size() + part.size() > kMaxLine) too_long = true;
        if (!too_long) line += part;
        if (end == std::string_view::npos) break;
        piece.remove_prefix(end + 1);
        if (too_long) {
          Send(TooLongError(kMaxLine));
        } else {
          Take(line);
        }
        line.clear();
        too_long = false;
      }
    }
    // The last line may lack its end.
    if (too_long) {
      Send(TooLongError(kMaxLine));
    } else {
      Take(line);
    }
  }

  void Take(std::string_view line) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    Message message = ReadMessage(line, tools_);
    switch (message.kind) {
      case Message::Kind::kNothing:
        return;
      case Message::Kind::kReply:
        return Send(message.reply);
      case Message::Kind::kCancel: {
        std::lock_guard<std::mutex> lock(mutex_);
        for (const Waiting& waiting : calls_) {
          if (waiting.message.id == message.id) waiting.call->Cancel();
        }
        return;
      }
      case Message::Kind::kCall: {
        std::unique_lock<std::mutex> lock(mutex_);
        // Whoever asks faster than he is answered waits.
        wake_.wait(lock, [this] { return calls_.size() < kMaxWaiting || gone_; });
        calls_.push_back({std::move(message), std::make_shared<Call>()});
        wake_.notify_all();
        return;
      }
    }
  }

  // Calls tools, one after another.
  void Work() {
    while (true) {
      Waiting* next = nullptr;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [this] { return !calls_.empty() || no_more_ || gone_; });
        if (calls_.empty() || gone_) {
          work_done_ = true;
          wake_.notify_all();
          return;
        }
        next = &calls_.front();  // a deque's elements stay where they are
      }
      if (!next->call->cancelled()) {
        const std::string reply = Answer(*next);
        // Nobody waits for an answer that was cancelled.
        if (!next->call->cancelled()) Send(reply);
      }
      std::lock_guard<std::mutex> lock(mutex_);
      calls_.pop_front();
      wake_.notify_all();
    }
  }

  std::string Answer(const Waiting& waiting) {
    const Message& message = waiting.message;
    try {
      return ResultReply(message, tools_.Run(message.tool, message.arguments, waiting.call.get()));
    } catch (const std::bad_alloc&) {
      return InternalError(message, "out of memory");
    } catch (const std::exception& e) {
      return InternalError(message, e.what());
    }
  }

  void Send(const std::string& reply) {
    const std::string line = reply + "\n";
    std::lock_guard<std::mutex> lock(writing_);
    std::string_view rest = line;
    while (!rest.empty()) {
      const ssize_t n = write(out_, rest.data(), rest.size());
      if (n >= 0) {
        rest.remove_prefix(static_cast<size_t>(n));
      } else if (errno == EAGAIN) {
        struct pollfd fd = {out_, POLLOUT, 0};
        poll(&fd, 1, kPollMs);
      } else if (errno != EINTR) {
        std::lock_guard<std::mutex> gone(mutex_);
        gone_ = true;
        for (const Waiting& waiting : calls_) waiting.call->Cancel();
        wake_.notify_all();
        return;
      }
    }
  }

  bool IsGone() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (gone_) {
      for (const Waiting& waiting : calls_) waiting.call->Cancel();
      wake_.notify_all();
    }
    return gone_;
  }

  const int in_, out_;
  Tools tools_;
  std::mutex writing_;  // before mutex_
  std::mutex mutex_;    // what follows
  std::condition_variable wake_;
  std::deque<Waiting> calls_;  // the first is at work
  bool no_more_ = false, gone_ = false, work_done_ = false;
};

}  // namespace

void Serve(int in, int out, Options options) { Server(in, out, std::move(options)).Run(); }

}  // namespace ttq::mcp

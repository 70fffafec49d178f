// SPDX-License-Identifier: MIT
//
// See server.h. A thread reads what the client sends while another works on an answer, so that an
// interrupt, or the end of the connection, ends what takes long.

#include "gdb/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "fmt/core.h"
#include "gdb/packet.h"
#include "gdb/stub.h"

namespace ttq::gdb {
namespace {

// Packets that wait. A client sends one and waits for its answer.
constexpr size_t kMaxQueue = 64;

bool SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// Reads from a client, in a thread of its own, what the one that answers takes.
class Inbox {
 public:
  Inbox(int fd, int stop_fd) : fd_(fd), stop_fd_(stop_fd), thread_([this] { ReadAll(); }) {}
  ~Inbox() {
    {
      std::lock_guard lock(mutex_);
      leaving_ = true;
    }
    changed_.notify_all();
    const uint64_t one = 1;
    (void)!write(leave_fd_, &one, sizeof(one));
    thread_.join();
    close(leave_fd_);
  }

  // The next packet or damage; nullopt: no more come.
  std::optional<PacketParser::Item> Take() {
    std::unique_lock lock(mutex_);
    busy_ = false;
    while (true) {
      changed_.wait(lock, [this] { return !items_.empty() || ended_; });
      if (items_.empty()) return std::nullopt;
      PacketParser::Item item = std::move(items_.front());
      items_.pop_front();
      changed_.notify_all();
      // Nothing is going on that it could end.
      if (item.kind == PacketParser::Item::kInterrupt) continue;
      busy_ = true;
      // It may have come before this packet was looked at.
      control_.cancelled = ended_ && items_.empty();
      while (!items_.empty() && items_.front().kind == PacketParser::Item::kInterrupt) {
        control_.cancelled = true;
        items_.pop_front();
      }
      return item;
    }
  }

  // Cancelled by an interrupt while the last item taken is worked on.
  ScanControl* control() { return &control_; }

 private:
  void ReadAll() {
    PacketParser parser;
    char bytes[65536];
    while (true) {
      pollfd fds[] = {{fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}, {leave_fd_, POLLIN, 0}};
      if (poll(fds, 3, -1) < 0 && errno != EINTR) break;
      if (fds[1].revents != 0 || fds[2].revents != 0) break;
      if (fds[0].revents == 0) continue;
      const ssize_t n = recv(fd_, bytes, sizeof(bytes), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      parser.Feed({bytes, static_cast<size_t>(n)});
      bool lost = false;
      while (std::optional<PacketParser::Item> item = parser.Next()) {
        lost = item->kind == PacketParser::Item::kTooLong;
        if (lost || !Put(*std::move(item))) break;
      }
      if (lost) break;
    }
    std::lock_guard lock(mutex_);
    ended_ = true;
    control_.cancelled = true;
    changed_.notify_all();
  }

  // False when nobody will take it.
  bool Put(PacketParser::Item item) {
    std::unique_lock lock(mutex_);
    if (item.kind == PacketParser::Item::kInterrupt && busy_) {
      control_.cancelled = true;
      return true;
    }
    changed_.wait(lock, [this] { return items_.size() < kMaxQueue || leaving_; });
    if (leaving_) return false;
    items_.push_back(std::move(item));
    changed_.notify_all();
    return true;
  }

  const int fd_, stop_fd_;
  const int leave_fd_ = eventfd(0, EFD_CLOEXEC);
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<PacketParser::Item> items_;
  bool ended_ = false, leaving_ = false, busy_ = false;
  ScanControl control_;
  std::thread thread_;
};

void Talk(int fd, int stop_fd, Stub* stub, const std::function<void()>& spoke) {
  Inbox inbox(fd, stop_fd);
  bool connected = true;
  const auto send_packet = [&](std::string_view payload) {
    connected = connected && SendAll(fd, Framed(payload));
  };
  while (const std::optional<PacketParser::Item> item = inbox.Take()) {
    const bool acknowledges = !stub->no_acknowledgements();
    if (item->kind == PacketParser::Item::kDamaged) {
      if (acknowledges && !SendAll(fd, "-")) return;
      continue;
    }
    spoke();
    if (acknowledges && !SendAll(fd, "+")) return;
    const std::string answer = stub->Answer(item->payload, inbox.control(), send_packet);
    // A killed process answers nothing.
    if (!(stub->done() && answer.empty())) send_packet(answer);
    if (!connected || stub->done()) return;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::OnPort(uint16_t port) {
  std::unique_ptr<Listener> listener(new Listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  const int one = 1;
  setsockopt(listener->fd_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (listener->fd_ < 0 || bind(listener->fd_, generic, size) != 0 ||
      listen(listener->fd_, 8) != 0 || getsockname(listener->fd_, generic, &size) != 0) {
    return absl::FailedPreconditionError(
        errno == EADDRINUSE
            ? fmt::format("port {} is in use; --port 0 takes one that is free", port)
            : fmt::format("cannot listen on port {}: {}", port, strerror(errno)));
  }
  listener->port_ = ntohs(address.sin_port);
  return listener;
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::OnPath(const std::string& path) {
  std::unique_ptr<Listener> listener(new Listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::FailedPreconditionError(fmt::format("{} is too long for a socket", path));
  }
  memcpy(address.sun_path, path.data(), path.size());
  if (listener->fd_ < 0 ||
      bind(listener->fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return absl::FailedPreconditionError(fmt::format("cannot make {}: {}", path, strerror(errno)));
  }
  listener->path_ = path;
  if (listen(listener->fd_, 8) != 0) {
    return absl::FailedPreconditionError(fmt::format("cannot listen: {}", strerror(errno)));
  }
  return listener;
}

Listener::~Listener() {
  if (fd_ >= 0) close(fd_);
  if (!path_.empty()) unlink(path_.c_str());
}

void ServeClient(int fd, int stop_fd, const Recording* recording, const Engine* engine,
                 const std::function<void()>& spoke) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  const absl::StatusOr<std::unique_ptr<Stub>> stub = Stub::Create(recording, engine);
  if (stub.ok()) Talk(fd, stop_fd, stub->get(), spoke);
  close(fd);
}

absl::Status Serve(const Listener& listener, int stop_fd, const Recording* recording,
                   const Engine* engine, const std::function<void(std::string_view)>& log) {
  // Of the client that is served.
  struct Client {
    std::atomic<bool> spoke{false}, done{false};
    int fd = -1;
    std::thread thread;
  };
  std::unique_ptr<Client> client;
  const auto end = [&] {
    if (client == nullptr) return;
    client->thread.join();
    close(client->fd);
    client.reset();
  };
  while (true) {
    pollfd fds[] = {{listener.fd(), POLLIN, 0}, {stop_fd, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) break;
    if (fds[1].revents != 0) break;
    if (fds[0].revents == 0) continue;
    const int fd = accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    if (client != nullptr && !client->done && client->spoke) {
      log("a second debugger was turned away: one at a time");
      close(fd);
      continue;
    }
    if (client != nullptr && !client->done) {
      log("a client that said nothing made room for another");
      shutdown(client->fd, SHUT_RDWR);
    }
    end();
    client = std::make_unique<Client>();
    // Kept to shut it down; its thread closes what it was given.
    client->fd = dup(fd);
    client->thread = std::thread([c = client.get(), fd, stop_fd, recording, engine] {
      ServeClient(fd, stop_fd, recording, engine, [c] { c->spoke = true; });
      shutdown(c->fd, SHUT_RDWR);
      c->done = true;
    });
  }
  end();
  return absl::OkStatus();
}

}  // namespace ttq::gdb

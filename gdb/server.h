// SPDX-License-Identifier: MIT
//
// Serves a recording to debuggers over a stream socket, one client at a time. A client is
// untrusted: what it sends ends its own connection at worst.

#ifndef TTQ_GDB_SERVER_H_
#define TTQ_GDB_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "query/engine/engine.h"
#include "store/read/reader.h"

namespace ttq::gdb {

// A socket that listens.
class Listener {
 public:
  // On the loopback interface; port 0: any that is free. FailedPrecondition when the port is taken.
  static absl::StatusOr<std::unique_ptr<Listener>> OnPort(uint16_t port);
  // In the file system. `path` is made, and removed with this object.
  static absl::StatusOr<std::unique_ptr<Listener>> OnPath(const std::string& path);
  ~Listener();
  Listener(const Listener&) = delete;

  int fd() const { return fd_; }
  uint16_t port() const { return port_; }

 private:
  explicit Listener(int fd) : fd_(fd) {}

  const int fd_;
  uint16_t port_ = 0;
  std::string path_;
};

// Talks to one client until it leaves, sends what cannot be understood, or `stop_fd` can be read.
// Every client begins at the crash, or at the beginning. Closes `fd`. `spoke` is called with the
// first packet that is whole.
void ServeClient(int fd, int stop_fd, const Recording* recording, const Engine* engine,
                 const std::function<void()>& spoke);

// Serves clients until `stop_fd` can be read. A second one at a time is turned away, unless the
// first has not said anything yet; `log` gets a line for each that comes or is turned away.
absl::Status Serve(const Listener& listener, int stop_fd, const Recording* recording,
                   const Engine* engine, const std::function<void(std::string_view)>& log);

}  // namespace ttq::gdb

#endif  // TTQ_GDB_SERVER_H_

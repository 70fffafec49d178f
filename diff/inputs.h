// SPDX-License-Identifier: MIT
//
// What two runs were given from outside: arguments, environment, bytes of files, random numbers,
// clocks, what the kernel says of files and processes. An input is known by its name (a variable's,
// a file's path) and not by where it lies in memory, so the same one is found on both sides.
//
// Belongs to one thread.

#ifndef TTQ_DIFF_INPUTS_H_
#define TTQ_DIFF_INPUTS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "diff/side.h"
#include "store/read/reader.h"

namespace ttq::diff {

enum class InputKind : uint8_t {
  kEnvironment,
  kArgument,
  kFile,           // bytes of a file, a pipe, a socket
  kDirectory,      // the names in a directory, or their order
  kStatus,         // what stat says
  kRandom,         // getrandom, /dev/urandom, the kernel's bytes on the stack
  kTime,           // a clock
  kProcess,        // process and thread numbers
  kKernel,         // any other system call
  kMachine,        // rdtsc, cpuid …
  kUninitialized,  // memory that nobody wrote since it was given out
  kThreads,        // the order of threads
};
// "environment variable", "file", …
const char* InputKindName(InputKind kind);

// One input, and how the two runs differ in it.
struct Input {
  InputKind kind = InputKind::kKernel;
  std::string name;  // "LEVEL", "2" of argument 2, "data.json", "clock_gettime"
  std::string text;  // one line: "LEVEL=3 | LEVEL=8", "data.json, byte 19: \"7}\" | \"9}\""
  std::array<std::string, 2> value;  // for people; "": that run has none
  std::array<Time, 2> time;          // when it came in, 0: with the program
};

// A system call that gave a value, as one side knows it.
struct KernelValue {
  Event event;
  std::optional<Address> at;  // the byte that is meant; nullopt: the result
};

class Inputs {
 public:
  Inputs(Side* a, Side* b) : sides_{a, b} {}

  // The argument, the environment variable or the mapped file whose byte lies at an address of each
  // side before `t`, and that nothing has written since. Nullopt: none of those.
  absl::StatusOr<std::optional<Input>> OfFirstContents(std::array<Address, 2> at,
                                                       std::array<Time, 2> t);
  // What two system calls, of the same name or not, gave.
  absl::StatusOr<Input> OfSystemCalls(const std::array<KernelValue, 2>& values);
  // A variable, by its name. Its values are the same where both runs have it alike.
  absl::StatusOr<Input> Variable(const std::string& name);

  // All that differ, in the order in which they came in. Of each variable, argument, file and kind
  // of system call one. `until`: what came in before that. `during`: of a kind of system call
  // rather one that was made then.
  absl::StatusOr<std::vector<Input>> Different(std::array<Time, 2> until,
                                               const std::array<TimeSpan, 2>& during);

 private:
  struct Text {
    Address at;
    std::string text;  // up to its NUL
  };
  struct Start {
    std::vector<Text> arguments, environment;
    Address random;  // of 16 bytes
  };
  // Bytes that one system call read from a file.
  struct Read {
    Time time;
    Address buffer;
    std::string path;
    uint64_t offset = 0, size = 0;
  };
  struct Open {
    std::string path;
    std::shared_ptr<uint64_t> offset;  // shared by copies of the descriptor
  };
  struct Files {
    std::vector<Read> reads;                                 // in order of time
    absl::flat_hash_map<uint64_t, std::string> descriptors;  // of a call: by its time and sequence
    std::vector<Event> calls;                                // that give something that may differ
  };

  absl::StatusOr<const Start*> StartOf(int side);
  absl::StatusOr<const Files*> FilesOf(int side);
  static absl::Status Follow(const Recording& recording, const Process& process, Time until,
                             absl::flat_hash_map<int64_t, Open>* open, Files* files, int depth);
  std::string PathOf(int side, const Event& event);
  Input FileBytes(const std::array<const Read*, 2>& read, std::array<uint64_t, 2> offset);
  std::string ReadText(int side, const Read& read, uint64_t offset);
  std::string CallText(int side, const KernelValue& value);
  std::vector<std::string> NamesIn(int side, const Event& event);

  std::array<Side*, 2> sides_;
  std::array<std::optional<Start>, 2> starts_;
  std::array<std::optional<Files>, 2> files_;
};

}  // namespace ttq::diff

#endif  // TTQ_DIFF_INPUTS_H_

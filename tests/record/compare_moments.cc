// SPDX-License-Identifier: MIT
//
// compare_moments RECORDING [COUNT]: moves a moment about, forwards by small steps and anywhere,
// and compares what it says of registers and memory with what Process says of that time. Prints the
// first difference; exit status 1.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "base/status_macros.h"
#include "fmt/core.h"
#include "store/read/reader.h"

namespace ttq {
namespace {

absl::Status Compare(const Process& process, Moment* moment, Time t, std::mt19937_64* random) {
  RETURN_IF_ERROR(moment->MoveTo(t));
  auto thread = process.ThreadAt(t);
  auto running = moment->RunningThread();
  if (!thread.ok()) return thread.status();
  if (!running.ok()) return running.status();
  if (*thread != *running) return absl::InternalError(fmt::format("thread at {}", t.v));
  for (const Thread& x : process.threads()) {
    auto want = process.RegistersAt(t, x.number);
    auto have = moment->RegistersOf(x.number);
    if (want.ok() != have.ok() || (want.ok() && *want != *have)) {
      return absl::InternalError(fmt::format("registers of thread {} at {}", x.number.v, t.v));
    }
  }
  auto registers = moment->RegistersOf(std::nullopt);
  auto maps = process.MappingsAt(t);
  if (!registers.ok()) return registers.status();
  if (!maps.ok()) return maps.status();
  std::vector<Address> places = {Address(registers->gpr[kRsp] - 256)};
  for (int i = 0; i < 6 && !maps->empty(); ++i) {
    const AddressRange& range = (*maps)[(*random)() % maps->size()].range;
    places.push_back(range.begin + (*random)() % range.size());
  }
  for (const Address at : places) {
    constexpr uint64_t kSize = 6000;
    ASSIGN_OR_RETURN(auto image, process.Memory(at, kSize, t));
    char bytes[kSize];
    ASSIGN_OR_RETURN(auto known, moment->Read(at, kSize, bytes));
    const auto present = static_cast<uint64_t>(
        std::find(image.present.begin(), image.present.end(), false) - image.present.begin());
    if (present != known || memcmp(bytes, image.bytes.data(), present) != 0) {
      return absl::InternalError(fmt::format("memory from {:#x} on at {}: {} and {} bytes known",
                                             at.v, t.v, known, present));
    }
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: compare_moments RECORDING [COUNT]\n");
    return 2;
  }
  auto recording = Recording::Open(argv[1]);
  if (!recording.ok()) {
    fmt::print(stderr, "{}\n", recording.status().ToString());
    return 2;
  }
  std::mt19937_64 random(1);
  const int count = argc > 2 ? std::atoi(argv[2]) : 60;
  for (const ProcessInfo& info : (*recording)->processes()) {
    auto process = (*recording)->Open(info.number);
    if (!process.ok()) continue;
    const uint64_t end = (*process)->info().end.v;
    auto moment = (*process)->At(Time(0));
    uint64_t t = 0;
    for (int i = 0; i < count && moment.ok(); ++i) {
      t = i % 4 == 0 ? random() % (end + 1)
                     : std::min(end, t + random() % (i % 4 == 1 ? 7 : 20000));
      if (absl::Status s = Compare(**process, moment->get(), Time(t), &random); !s.ok()) {
        fmt::print("process {}: {}\n", info.number.v, s.ToString());
        return 1;
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace ttq

int main(int argc, char** argv) { return ttq::Main(argc, argv); }

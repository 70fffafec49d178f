// SPDX-License-Identifier: MIT
//
// run_again [--damage=SEED] COMMAND…: records a program of one process by the native engine, takes
// the inputs out of its stream (recorder/inputs.h), runs them again with nothing else, and compares
// the second stream with the first: every record of every superblock with the values that it
// logged, and so the sequence of instructions. Then runs them again as they are recorded without a
// log, and compares the inputs that come of that with those it began with; and once more where all
// instructions are only counted, which has to be as much as can be told of the first stream without
// registers. Prints what was compared; exit status 1 at the first difference.
//
// With --damage the inputs are changed at random before, with an odd seed so that their hash is
// right. The second run is to end by itself, and with a line that says why where the hash is wrong.

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "recorder/launcher.h"
#include "store/walk/digest.h"
#include "store/walk/recipe.h"
#include "store/walk/walk.h"
#include "tests/support/extract_inputs.h"
#include "tests/support/skimmed.h"

namespace ttq {
namespace {

struct KeptBlock {  // of a block in the file that keeps the first stream
  uint64_t offset, log_bytes, recipe_bytes;
};

// The first process's stream, while another thread launches it.
class Reader {
 public:
  virtual ~Reader() {
    if (thread_.joinable()) thread_.join();
  }
  absl::StatusOr<LaunchResult> Run(const LaunchOptions& options) {
    auto result = Launch(
        options, [this](auto ring) { TakeRing(std::move(ring)); },
        [this] { return !running_.load(); });
    if (thread_.joinable()) thread_.join();
    RETURN_IF_ERROR(result.status());
    if (!status_.ok() || !result->tool_log.empty()) {
      return absl::InternalError(fmt::format("{}{} (status {})", result->tool_log,
                                             std::string(status_.message()), result->status));
    }
    return result;
  }

 private:
  virtual absl::Status TakeBlock(const BlockView& block) = 0;
  virtual void Begin(const Ring&) {}
  virtual void End(const Ring&) {}

  void TakeRing(absl::StatusOr<std::shared_ptr<Ring>> ring) {
    if (!ring.ok() || thread_.joinable()) {  // another process's
      if (ring.ok()) (*ring)->Detach();
      return;
    }
    running_ = true;
    Begin(**ring);
    thread_ = std::thread([this, ring = *ring] {
      while (const TtqBlock* head = ring->Next()) {
        BlockView block;
        if (status_.ok()) status_ = ring->Take(head, &block);
        if (status_.ok()) status_ = TakeBlock(block);
        ring->Release();
      }
      End(*ring);
      running_ = false;
    });
  }

  std::thread thread_;
  std::atomic<bool> running_{false};
  absl::Status status_;
};

class Recording : public Reader {
 public:
  explicit Recording(FILE* file) : file_(file) {}
  std::string Inputs(uint32_t block_bytes) {
    extractor_.file().head.block_bytes = block_bytes;
    return extractor_.file().Encode();
  }
  const std::vector<KeptBlock>& blocks() const { return blocks_; }

 private:
  absl::Status TakeBlock(const BlockView& block) override {
    blocks_.push_back({bytes_, block.log.size(), block.recipes.size()});
    for (const std::string_view part : {block.log, block.recipes}) {
      if (fwrite(part.data(), 1, part.size(), file_) != part.size()) {
        return absl::ErrnoToStatus(errno, "the file for the stream");
      }
      bytes_ += part.size();
    }
    return extractor_.Take(block);
  }
  void Begin(const Ring& ring) override { extractor_.file().Begin(ring); }
  void End(const Ring& ring) override { extractor_.file().End(ring); }

  FILE* file_;
  uint64_t bytes_ = 0;
  std::vector<KeptBlock> blocks_;
  InputsExtractor extractor_;
};

// A run that is recorded by its inputs.
class InputsAlone : public Reader {
 public:
  std::string Inputs(uint32_t block_bytes) {
    file_.head.block_bytes = block_bytes;
    return file_.blocks.empty() ? "" : file_.Encode();
  }

 private:
  absl::Status TakeBlock(const BlockView& block) override { return file_.AddBlock(block.log); }
  void Begin(const Ring& ring) override { file_.Begin(ring); }
  void End(const Ring& ring) override { file_.End(ring); }

  InputsFile file_;
};

class Comparison : public Reader {
 public:
  // Both outlive it.
  Comparison(FILE* file, const std::vector<KeptBlock>& blocks) : file_(file), blocks_(blocks) {}
  size_t compared() const { return compared_; }

 private:
  absl::Status TakeBlock(const BlockView& block) override {
    if (compared_ >= blocks_.size()) return absl::InternalError("it goes on behind the end");
    const KeptBlock& place = blocks_[compared_++];
    std::string was(place.log_bytes + place.recipe_bytes, '\0');
    if (pread(fileno(file_), was.data(), was.size(), static_cast<off_t>(place.offset)) !=
        static_cast<ssize_t>(was.size())) {
      return absl::ErrnoToStatus(errno, "the file for the stream");
    }
    RETURN_IF_ERROR(
        Compare("recipes", std::string_view(was).substr(place.log_bytes), block.recipes));
    return CompareLogs({was.data(), place.log_bytes}, block);
  }
  virtual absl::Status CompareLogs(std::string_view was, const BlockView& block) {
    return Compare("log", was, block.log);
  }

  absl::Status Compare(const char* what, std::string_view was, std::string_view is) const {
    if (was == is) return absl::OkStatus();
    const auto [a, b] = std::mismatch(was.begin(), was.end(), is.begin(), is.end());
    return absl::InternalError(
        fmt::format("block {}: its {} of {} bytes had {} and differs from byte {} on",
                    compared_ - 1, what, is.size(), was.size(), a - was.begin()));
  }

  FILE* file_;
  const std::vector<KeptBlock>& blocks_;
  size_t compared_ = 0;
};

// A run of which no values are asked for.
class Counted : public Comparison {
 public:
  using Comparison::Comparison;

 private:
  absl::Status CompareLogs(std::string_view was, const BlockView& block) override {
    for (std::string_view rest = block.recipes; !rest.empty();) {
      const auto size = LoadPod<uint32_t>(rest);
      RETURN_IF_ERROR(recipes_.Add(rest.substr(0, size)));
      rest.remove_prefix(size);
    }
    ASSIGN_OR_RETURN(const BlockDigest a, SkimBlock(recipes_, was, &pool_));
    ASSIGN_OR_RETURN(const BlockDigest b, SkimBlock(recipes_, block.log, &pool_));
    const std::string difference = SkimmedDifference(a, b);
    if (difference.empty() && LoadPod<uint32_t>(block.log) == kTtqCounted) return absl::OkStatus();
    return absl::InternalError(
        fmt::format("counted, block {} differs: {}", block.head.number, difference));
  }

  RecipeTable recipes_;
  ScratchPool pool_;
};

// So that no block is asked for.
void HoldNowhere(std::string* inputs) {
  TtqInputs head;
  memcpy(&head, inputs->data(), sizeof(head));
  head.hold_before = ~uint32_t{0};
  memcpy(inputs->data(), &head, sizeof(head));
}

void Damage(uint64_t seed, std::string* inputs) {
  std::mt19937_64 random(seed);
  const size_t at = random() % inputs->size();
  switch (random() % 3) {
    case 0:
      (*inputs)[at] = static_cast<char>((*inputs)[at] ^ (1 << random() % 8));
      break;
    case 1:
      (*inputs)[at] = static_cast<char>(random());
      break;
    default:
      inputs->resize(at);
  }
}

// As if they had been recorded so.
void Sign(std::string* inputs) {
  TtqInputs head;
  if (inputs->size() < sizeof(head)) return;
  memcpy(&head, inputs->data(), sizeof(head));
  head.hash = HashBytes(inputs->data() + sizeof(head), inputs->size() - sizeof(head));
  memcpy(inputs->data(), &head, sizeof(head));
}

absl::Status Run(LaunchOptions options, std::optional<uint64_t> damage) {
  ASSIGN_OR_RETURN(options.tool_directory, FindToolDirectory());
  FILE* file = tmpfile();
  if (file == nullptr) return absl::ErrnoToStatus(errno, "the file for the stream");
  Recording recording(file);
  ASSIGN_OR_RETURN(const LaunchResult first, recording.Run(options));
  fflush(file);
  if (recording.blocks().empty()) {
    fmt::print("the same: 0 blocks, from no inputs\n");
    return absl::OkStatus();
  }
  std::string inputs = recording.Inputs(static_cast<uint32_t>(options.block_bytes));
  if (damage.has_value()) {
    Damage(*damage, &inputs);
    if (*damage % 2 == 1) Sign(&inputs);
  }
  options.inputs = std::filesystem::temp_directory_path() / fmt::format("inputs-{}", getpid());
  std::ofstream(options.inputs, std::ios::binary) << inputs;
  Comparison comparison(file, recording.blocks());
  const auto second = comparison.Run(options);
  InputsAlone inputs_alone;
  Counted counted(file, recording.blocks());
  if (second.ok() && !damage.has_value()) {
    options.records_inputs = true;
    RETURN_IF_ERROR(inputs_alone.Run(options).status());
    options.records_inputs = false;
    std::string all_counted = inputs;
    HoldNowhere(&all_counted);
    std::ofstream(options.inputs, std::ios::binary) << all_counted;
    RETURN_IF_ERROR(counted.Run(options).status());
  }
  std::filesystem::remove(options.inputs);
  const bool said = absl::StrContains(second.status().message(), "ttq: ");
  if (damage.has_value() && (said || *damage % 2 == 1)) {
    fmt::print("noticed: {}\n", std::string(second.status().message()));
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(second.status());
  for (const size_t compared : {comparison.compared(), counted.compared()}) {
    if (compared == recording.blocks().size() || damage.has_value()) continue;
    return absl::InternalError(fmt::format("{} blocks of {}", compared, recording.blocks().size()));
  }
  const std::string again = inputs_alone.Inputs(static_cast<uint32_t>(options.block_bytes));
  if (!damage.has_value() && again != inputs) {
    // Behind the head, whose hash is that of the rest.
    const auto head = static_cast<ptrdiff_t>(std::min(again.size(), sizeof(TtqInputs)));
    const auto [a, b] =
        std::mismatch(inputs.begin() + head, inputs.end(), again.begin() + head, again.end());
    return absl::InternalError(
        fmt::format("its inputs of {} bytes were {} and differ from byte {} on", again.size(),
                    inputs.size(), a - inputs.begin()));
  }
  uint64_t bytes = 0;
  for (const KeptBlock& place : recording.blocks()) bytes += place.log_bytes;
  fmt::print("the same: {} blocks, {} bytes of log, from {} bytes of inputs\n",
             recording.blocks().size(), bytes, inputs.size());
  fclose(file);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  LaunchOptions options;
  std::optional<uint64_t> damage;
  int k = 1;
  if (k < argc && absl::StartsWith(argv[k], "--damage=")) {
    damage = strtoull(strchr(argv[k++], '=') + 1, nullptr, 10);
  }
  options.command.assign(argv + k, argv + argc);
  if (options.command.empty()) {
    fmt::print(stderr, "usage: run_again [--damage=SEED] COMMAND…\n");
    return 2;
  }
  const absl::Status s = Run(options, damage);
  if (s.ok()) return 0;
  fmt::print(stderr, "run_again: {}\n", std::string(s.message()));
  return 1;
}

}  // namespace
}  // namespace ttq

int main(int argc, char** argv) { return ttq::Main(argc, argv); }

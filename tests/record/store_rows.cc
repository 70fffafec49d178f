// SPDX-License-Identifier: MIT
//
// store_rows RECORDING: for each family of its store the number of rows and a hash of all of them,
// but for how blocks were put into groups, which depends on how long these took to make.

#include <xxhash.h>

#include <string>
#include <string_view>

#include "base/status_macros.h"
#include "fmt/core.h"
#include "store/database.h"

namespace ttq {
namespace {

class Rows {
 public:
  void Add(std::string_view key, std::string_view value) {
    ++count_;
    sum_ += XXH3_64bits_withSeed(value.data(), value.size(), XXH3_64bits(key.data(), key.size()));
  }
  std::string Told() const { return fmt::format("{} {:016x}", count_, sum_); }

 private:
  uint64_t count_ = 0, sum_ = 0;
};

constexpr size_t kNumberBytes = 4;  // of a process, which keys begin with, and of a group

// Which blocks executed a superblock, and how often.
void AddExecutions(std::string key, std::string_view value, Rows* rows) {
  const uint32_t group = ReadBig32(key.substr(kNumberBytes));
  key.erase(kNumberBytes, kNumberBytes);
  uint64_t block, times;
  while (ReadVarint(&value, &block) && ReadVarint(&value, &times)) {
    rows->Add(fmt::format("{} {}", key, group + block), fmt::format("{}", times));
  }
}

absl::Status Tell(const std::string& directory) {
  ASSIGN_OR_RETURN(const auto database, Database::OpenForReading(directory + "/db"));
  for (int f = 0; f < static_cast<int>(Family::kCount); ++f) {
    const auto family = static_cast<Family>(f);
    Rows rows;
    const auto it = database->NewIterator(family);
    for (it->Seek(""); it->Valid(); it->Next()) {
      std::string key(it->key());
      const auto is = [&key](std::string_view prefix) { return key.starts_with(prefix); };
      if (family == Family::kMeta && (is("group/") || is("span/") || is("recording"))) continue;
      if (family == Family::kExec) {
        AddExecutions(key, it->value(), &rows);
        continue;
      }
      if (family == Family::kPage || family == Family::kExtent)
        key.erase(kNumberBytes, kNumberBytes);
      rows.Add(key, it->value());
    }
    RETURN_IF_ERROR(it->status());
    fmt::print("{} {}\n", FamilyName(family), rows.Told());
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace ttq

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const absl::Status s = ttq::Tell(argv[1]);
  if (!s.ok()) fmt::print(stderr, "{}\n", std::string(s.message()));
  return s.ok() ? 0 : 1;
}

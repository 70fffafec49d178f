// SPDX-License-Identifier: MIT
//
// `ttq check`: digests every block again and compares what comes out with every index entry.

#include <map>

#include "fmt/core.h"
#include "store/read/process_reader.h"
#include "store/read/watch.h"
#include "store/walk/digest.h"

namespace ttq {
namespace {

// What a block's log says about one page.
struct Expected {
  WordMap written, read;
  std::map<uint32_t, uint64_t> words;  // those whose final value the log alone determines
};

void AddChanges(const PageChanges::Page& page, Expected* out) {
  for (uint32_t w = 0; w < kWordsPerPage; ++w) {
    if (page.read()[w >> 6] >> (w & 63) & 1) out->read.set(w);
  }
  page.ForEachWord([&](uint32_t w, uint8_t written, const uint8_t* bytes) {
    out->written.set(w);
    uint64_t v;
    memcpy(&v, bytes, 8);
    if (written == 0xff) {
      out->words[w] = v;
    } else if (auto it = out->words.find(w); it != out->words.end()) {
      uint64_t bits = 0;
      for (int b = 0; b < 8; ++b) {
        if (written >> b & 1) bits |= uint64_t{0xff} << (8 * b);
      }
      it->second = (it->second & ~bits) | v;
    }
  });
}

}  // namespace

absl::Status ProcessReader::CheckBlock(uint32_t b, ScratchPool* pool,
                                       std::vector<std::string>* problems) const {
  const auto say = [&](const std::string& what) {
    problems->push_back(fmt::format("process {} block {}: {}", info_.number.v, b, what));
  };
  auto block = LoadBlock(b);
  if (!block.ok()) {
    say(std::string(block.status().message()));
    return absl::OkStatus();
  }
  const LoadedBlock& loaded = **block;
  // Not by the machine code that made the index: the two check each other.
  auto digest = DigestBlock(recipes(), loaded.log, pool, Packing::kNone, /*native=*/false);
  if (absl::IsUnavailable(digest.status())) return digest.status();  // memory is no damage
  if (!digest.ok()) {
    say(std::string(digest.status().message()));
    return absl::OkStatus();
  }
  if (loaded.start + digest->instructions != blocks_[b].end) {
    say(fmt::format("{} instructions, its record says {}", digest->instructions,
                    blocks_[b].end.v - blocks_[b].start.v));
  }
  std::map<uint64_t, Expected> pages;
  std::map<uint64_t, uint32_t> cleared;  // words the kernel cleared at a thread's exit, by page
  for (const BlockDigest::Step& step : digest->steps) {
    step.pages.ForEach(
        [&](const PageChanges::Page& page) { AddChanges(page, &pages[page.number()]); });
    if (!step.has_control) continue;
    if (step.control.kind == kTtqThreadExit) {
      auto t = LoadPod<TtqThread>(step.control.payload);
      if (t.clear_address != 0) {
        cleared[t.clear_address / kPageBytes] =
            static_cast<uint32_t>(t.clear_address % kPageBytes / 8);
      }
    }
    // After mappings change, or first contents arrive, the log alone does not say what is there.
    if (!TtqControlKindOf(step.control.kind).keeps_memory) {
      for (auto& [page, e] : pages) e.words.clear();
    }
  }
  const Group& group = groups_[blocks_[b].group];
  for (const auto& row : pages) {
    // By name, not bound: clang before 16 lets no lambda use what is bound.
    const uint64_t page = row.first;
    const Expected& expected = row.second;
    auto value = database_.Get(Family::kPage, PageKey(info_.number, group.first, page, b));
    auto entry = value.ok() ? PageEntryView::Parse(*value) : value.status();
    if (!entry.ok()) {
      say(fmt::format("page {:#x} is missing from the index", page * kPageBytes));
      continue;
    }
    WordMap written = expected.written;
    if (auto it = cleared.find(page); it != cleared.end() && entry->written()[it->second]) {
      written.set(it->second);
    }
    if (entry->written() != written || entry->read() != expected.read) {
      say(fmt::format("page {:#x}: its index entry names other words than the log",
                      page * kPageBytes));
    }
    if (entry->content().any() && !SpansTell(blocks_[b].group, page)) {
      say(fmt::format("page {:#x} is missing from the index of spans", page * kPageBytes));
    }
    entry->ForEachWord([&](uint32_t w, uint64_t v) {
      auto it = expected.words.find(w);
      if (it != expected.words.end() && it->second != v) {
        say(fmt::format("word {:#x} ends as {:#x}, its index entry says {:#x}",
                        page * kPageBytes + 8 * w, it->second, v));
      }
    });
  }
  for (const auto& [superblock, times] : digest->executions) {
    auto row = database_.Get(Family::kExec, ExecKey(info_.number, group.first, superblock));
    bool found = false;
    if (row.ok()) {
      std::string_view rest = *row;
      uint64_t at, count;
      while (ReadVarint(&rest, &at) && ReadVarint(&rest, &count)) {
        found = found || (group.first + at == b && count == times);
      }
    }
    if (!found) say(fmt::format("superblock {}: its execution count is not indexed", superblock));
  }
  return absl::OkStatus();
}

absl::Status ProcessReader::Check(const std::function<void(const std::string&)>& problem,
                                  ScanControl* control) const {
  ScratchPool pool;
  if (control != nullptr) control->blocks_total += blocks_.size();
  std::vector<std::vector<std::string>> problems(blocks_.size());
  absl::Status s = RunInOrder(
      blocks_.size(),
      [&](size_t b) {
        if (control != nullptr && control->cancelled) return absl::CancelledError("interrupted");
        return CheckBlock(static_cast<uint32_t>(b), &pool, &problems[b]);
      },
      [&](size_t b) {
        for (const std::string& what : problems[b]) problem(what);
        if (control != nullptr) ++control->blocks_done;
        return absl::OkStatus();
      });
  if (!s.ok()) return s;
  if (auto changes = MapChanges(); !changes.ok()) problem(std::string(changes.status().message()));
  auto events = Events({});
  if (!events.ok()) {
    problem(std::string(events.status().message()));
    return absl::OkStatus();
  }
  for (;;) {
    auto e = (*events)->Next();
    if (!e.ok()) {
      problem(std::string(e.status().message()));
      break;
    }
    if (!*e) break;
  }
  return absl::OkStatus();
}

}  // namespace ttq

// SPDX-License-Identifier: MIT

#include "recorder/engine/memory.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include "recorder/engine/context.h"
#include "recorder/engine/ring.h"

namespace ttq::engine::memory {
namespace {

constexpr size_t kChunk = 256 << 10;  // bytes of memory in one record

Mapping* g_mappings;  // in order of addresses, none overlapping
size_t g_count, g_capacity;
int64_t g_syscall = -1;
uint32_t g_thread;
void (*g_flush)();

// Pages of files that have been read once, by the low bits of their number.
constexpr size_t kReadablePages = 4096;
uint64_t g_readable[kReadablePages];

// The first mapping that ends beyond `address`.
size_t Lower(uint64_t address) {
  size_t low = 0, high = g_count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (g_mappings[middle].end <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Room for one more than `count` in a list.
void MakeRoom(Mapping** list, size_t count, size_t* capacity) {
  if (count < *capacity) return;
  const size_t more = *capacity == 0 ? 256 : 2 * *capacity;
  auto* larger = AllocateArray<Mapping>(more);
  memcpy(larger, *list, count * sizeof(Mapping));
  *list = larger;
  *capacity = more;
}

void Insert(const Mapping& m) {
  MakeRoom(&g_mappings, g_count, &g_capacity);
  const size_t at = Lower(m.begin);
  memmove(g_mappings + at + 1, g_mappings + at, (g_count - at) * sizeof(Mapping));
  g_mappings[at] = m;
  ++g_count;
}

void Remove(size_t at) {
  --g_count;
  memmove(g_mappings + at, g_mappings + at + 1, (g_count - at) * sizeof(Mapping));
}

// Pages of a file may lie beyond its end.
bool IsReadable(uint64_t page) {
  uint64_t& known = g_readable[page / kPage % kReadablePages];
  if (known == page) return true;
  uint8_t byte;
  if (ReadGuest(page, &byte, 1) != 1) return false;
  known = page;
  return true;
}

// The file of which this is known, kept.
FileInfo* Keep(const FileInfo& file) {
  struct Kept {
    FileInfo info;
    Kept* next;
  };
  constexpr size_t kBuckets = 256;
  static Kept* kept[kBuckets];
  Kept*& bucket = kept[(file.ino ^ file.dev) % kBuckets];
  for (Kept* k = bucket; k != nullptr; k = k->next) {
    FileInfo& have = k->info;
    if (have.dev == file.dev && have.ino == file.ino && have.bytes == file.bytes &&
        have.mtime_ns == file.mtime_ns && Equal(have.path, file.path)) {
      return &have;
    }
  }
  const size_t path_bytes = Length(file.path) + 1;
  auto* more = static_cast<Kept*>(Allocate(sizeof(Kept) + path_bytes));
  auto* path = reinterpret_cast<char*>(more + 1);
  memcpy(path, file.path, path_bytes);
  more->info = file;
  more->info.path = path;
  more->next = bucket;
  bucket = more;
  return &more->info;
}

// Makes `address` a border between mappings.
void Split(uint64_t address) {
  const size_t at = Lower(address);
  if (at == g_count || g_mappings[at].begin >= address) return;
  Mapping tail = g_mappings[at];
  g_mappings[at].end = address;
  tail.offset += address - tail.begin;
  tail.begin = address;
  Insert(tail);
}

// Whether `b` goes on where `a` ends, as one mapping of the kernel's does.
bool GoesOn(const Mapping& a, const Mapping& b) {
  return a.end == b.begin && a.protection == b.protection && a.shared == b.shared &&
         a.is_file == b.is_file && a.is_elf == b.is_elf && a.translated == b.translated &&
         a.is_system_v == b.is_system_v && a.not_forked == b.not_forked &&
         a.wiped_on_fork == b.wiped_on_fork && a.file == b.file && !a.is_system_v &&
         (!a.is_file || a.offset + (a.end - a.begin) == b.offset);
}

// Makes one of the mappings on both sides of `address`, where they are one.
void Join(uint64_t address) {
  const size_t at = Lower(address);
  if (at == 0 || at == g_count || !GoesOn(g_mappings[at - 1], g_mappings[at])) return;
  g_mappings[at - 1].end = g_mappings[at].end;
  Remove(at);
}

// Calls f for the mappings in a range, cut at its ends.
template <class F>
void ForEach(uint64_t begin, uint64_t end, F f) {
  Split(begin);
  Split(end);
  for (size_t i = Lower(begin); i < g_count && g_mappings[i].begin < end; ++i) f(&g_mappings[i]);
}

void NoteChange(const Mapping& m) {
  if (m.protection & PROT_EXEC) ++g_context.executable_changes;
}

void Cut(uint64_t begin, uint64_t end) {
  bool translated = false, files = false;
  ForEach(begin, end, [&](Mapping* m) {
    translated = translated || m->translated;
    files = files || m->is_file;
    NoteChange(*m);
  });
  for (size_t i = Lower(begin); i < g_count && g_mappings[i].begin < end;) Remove(i);
  if (translated) g_flush();
  if (!files) return;
  for (uint64_t& page : g_readable) {
    if (page >= begin && page < end) page = 0;
  }
}

bool IsZero(const uint8_t* at, size_t bytes) {
  const auto* w = reinterpret_cast<const uint64_t*>(at);
  for (size_t i = 0; i < bytes / 8; ++i) {
    if (w[i] != 0) return false;
  }
  return true;
}

void SendBytes(uint32_t actor, uint64_t address, const uint8_t* bytes, size_t size) {
  TtqKernelWrite w = {};
  w.tid = actor == kTtqInitial ? 0 : g_thread;
  w.actor = static_cast<uint8_t>(actor);
  w.syscall = g_syscall;
  w.address = address;
  ring::Append(kTtqKernelWrite, &w, sizeof(w), bytes, size);
}

}  // namespace

void SetSyscall(int64_t number) { g_syscall = number; }
void SetThread(uint32_t number) { g_thread = number; }
void SetFlush(void (*flush)()) { g_flush = flush; }

void TurnToLog(const char* why) {
  if (ring::TurnToLog(why)) g_flush();
}

const Mapping* Find(uint64_t address) {
  static size_t found;  // last time: mostly it is the same again
  if (found < g_count && g_mappings[found].begin <= address && address < g_mappings[found].end) {
    return &g_mappings[found];
  }
  found = Lower(address);
  return found < g_count && g_mappings[found].begin <= address ? &g_mappings[found] : nullptr;
}

const Mapping* FirstBeyond(uint64_t address) {
  const size_t at = Lower(address);
  return at < g_count ? &g_mappings[at] : nullptr;
}

size_t ExecutableBytes(uint64_t address, size_t most) {
  size_t have = 0;
  while (have < most) {
    const Mapping* m = Find(address + have);
    if (m == nullptr || !(m->protection & PROT_EXEC)) break;
    const uint64_t left = m->end - (address + have);
    const uint64_t page = PageDown(address + have);
    if (m->is_file && !IsReadable(page)) break;
    const uint64_t page_left = page + kPage - (address + have);
    const uint64_t n = left < page_left ? left : page_left;
    have += n < most - have ? n : most - have;
  }
  return have;
}

bool IsWritable(uint64_t address) {
  const Mapping* m = Find(address);
  return m != nullptr && (m->protection & PROT_WRITE) != 0 && !IsBeyondFile(address);
}

bool IsBeyondFile(uint64_t address) {
  const Mapping* m = Find(address);
  return m != nullptr && m->is_file && (m->protection & PROT_READ) != 0 &&
         !IsReadable(PageDown(address));
}

bool OverlapsEngine(uint64_t address, uint64_t bytes) {
  const auto overlaps = [=](uint64_t begin, uint64_t end) {
    return address < end && address + bytes > begin;
  };
  return overlaps(kCodeBegin, kEngineEnd) || overlaps(kOwnBegin, kOwnEnd);
}

uint64_t TakeModuleSpace(uint64_t bytes) {
  static uint64_t next = kModulesBegin;
  constexpr uint64_t kApart = uint64_t{1} << 20;
  if (bytes > kModulesEnd - next) return 0;
  const uint64_t taken = next;
  next = (next + bytes + kApart) & ~(kApart - 1);
  return taken;
}

bool MayChange(uint64_t address) {
  const Mapping* m = Find(address);
  // What is no file's has been written by the program, which will make it writable again for more.
  return m != nullptr && (m->protection & PROT_WRITE || m->shared || !m->is_file);
}

void NoteTranslated(uint64_t address) {
  auto* m = const_cast<Mapping*>(Find(address));
  if (m != nullptr) m->translated = true;
}

// Others may write what this process reads.
static void NoteShared(const Mapping& m) {
  if (m.shared && (m.is_file || m.is_system_v) && m.protection & PROT_WRITE) {
    TurnToLog("it can write memory that other processes may share");
  }
}

bool SharesWithChild() {
  bool shares = false;
  ForEach(0, ~uint64_t{0}, [&shares](Mapping* m) {
    shares = shares || (m->shared && !m->not_forked && (!m->is_file || m->protection & PROT_WRITE));
  });
  return shares;
}

void Map(const Mapping& mapping, uint32_t kind, uint32_t content, const FileInfo& file) {
  Cut(mapping.begin, mapping.end);
  Mapping m = mapping;
  m.translated = false;
  m.file = file.ino != 0 ? Keep(file) : nullptr;
  Insert(m);
  TtqMap record = {};
  record.address = m.begin;
  record.bytes = m.end - m.begin;
  record.protection = static_cast<uint8_t>(m.protection & 7);
  record.shared = m.shared;
  record.kind = static_cast<uint8_t>(kind);
  record.content = static_cast<uint8_t>(content);
  record.file_offset = m.is_file ? m.offset : 0;
  record.dev = file.dev;
  record.ino = file.ino;
  record.file_bytes = file.bytes;
  record.mtime_ns = file.mtime_ns;
  if (content == kTtqContentUnknown) {
    TurnToLog("what a file or device held that it mapped is not known");
  }
  NoteShared(m);
  ring::Append(kTtqMap, &record, sizeof(record), file.path, Length(file.path));
  Join(m.end);
  Join(m.begin);
}

void Unmap(uint64_t begin, uint64_t end) {
  Cut(begin, end);
  TtqRange r = {};
  r.address = begin;
  r.bytes = end - begin;
  ring::AppendStruct(kTtqUnmap, r);
}

void Protect(uint64_t begin, uint64_t end, uint32_t protection) {
  bool flush = false;
  ForEach(begin, end, [&](Mapping* m) {
    flush = flush || (m->translated && m->protection != protection);
    NoteChange(*m);
    m->protection = protection;
    NoteChange(*m);
    NoteShared(*m);
    if (flush) m->translated = false;
  });
  if (flush) g_flush();
  TtqRange r = {};
  r.address = begin;
  r.bytes = end - begin;
  r.protection = static_cast<uint8_t>(protection & 7);
  ring::AppendStruct(kTtqProtect, r);
}

void Move(uint64_t from, uint64_t to, uint64_t bytes) {
  static Mapping* moved;
  static size_t capacity;
  size_t count = 0;
  ForEach(from, from + bytes, [&](Mapping* m) {
    MakeRoom(&moved, count, &capacity);
    Mapping* there = moved + count++;
    *there = *m;
    there->begin += to - from;
    there->end += to - from;
    there->translated = false;
  });
  Cut(to, to + bytes);
  Cut(from, from + bytes);
  for (const Mapping* m = moved; m != moved + count; ++m) Insert(*m);
  Join(to + bytes);
  Join(to);
  TtqRemap r = {};
  r.from = from;
  r.to = to;
  r.bytes = bytes;
  ring::AppendStruct(kTtqRemap, r);
}

void Advise(uint64_t begin, uint64_t end, int advice) {
  ForEach(begin, end, [advice](Mapping* m) {
    if (advice == MADV_DONTFORK) m->not_forked = true;
    if (advice == MADV_DOFORK) m->not_forked = false;
    if (advice == MADV_WIPEONFORK) m->wiped_on_fork = true;
    if (advice == MADV_KEEPONFORK) m->wiped_on_fork = false;
  });
}

void Reset(uint64_t begin, uint64_t end) {
  ForEach(begin, end, [](Mapping* m) {
    if (m->shared) return;
    if (m->is_file) {
      Send(kTtqBySyscall, m->begin, m->end - m->begin);
      return;
    }
    TtqMap record = {};
    record.address = m->begin;
    record.bytes = m->end - m->begin;
    record.protection = static_cast<uint8_t>(m->protection & 7);
    record.kind = kTtqMapAnonymous;
    ring::AppendStruct(kTtqMap, record);
  });
}

bool ShowsFiles() {
  for (size_t i = 0; i < g_count; ++i) {
    if (g_mappings[i].is_file && !g_mappings[i].is_elf) return true;
  }
  return false;
}

void FileChanged(uint64_t dev, uint64_t ino, uint64_t bytes) {
  static const uint8_t kZeros[kPage] = {};
  bool told = false;
  for (size_t i = 0; i < g_count; ++i) {
    const Mapping& m = g_mappings[i];
    if (!m.is_file || m.is_elf || m.file == nullptr) continue;
    if (m.file->dev != dev || m.file->ino != ino) continue;
    if (m.file->bytes != bytes && !told) {
      ring::AppendStruct(kTtqFileSize, TtqFileSize{dev, ino, bytes});
      told = true;
    }
    m.file->bytes = bytes;
    Send(kTtqBySyscall, m.begin, m.end - m.begin);
    // What lies behind its end cannot be read, and is zero when the file grows again.
    const uint64_t kept = bytes > m.offset ? PageUp(bytes - m.offset) : 0;
    for (uint64_t a = m.begin + kept; a < m.end; a += kPage) {
      SendBytes(kTtqBySyscall, a, kZeros, kPage);
    }
  }
}

void ForgetNotForked() {
  for (size_t i = 0; i < g_count;) {
    const Mapping m = g_mappings[i];
    if (m.not_forked) {
      Unmap(m.begin, m.end);
      continue;
    }
    if (m.wiped_on_fork) Reset(m.begin, m.end);
    ++i;
  }
}

void Send(uint32_t actor, uint64_t address, uint64_t bytes, bool only_nonzero) {
  static uint8_t* buffer = nullptr;
  if (buffer == nullptr) buffer = static_cast<uint8_t*>(Allocate(kChunk));
  for (const uint64_t end = address + bytes; address < end;) {
    const uint64_t want = end - address < kChunk ? end - address : kChunk;
    const size_t got = ReadGuest(address, buffer, want);
    if (only_nonzero) {
      for (size_t at = 0; at < got;) {
        const size_t page_left = kPage - ((address + at) & (kPage - 1));
        const size_t n = got - at < page_left ? got - at : page_left;
        if (n < kPage || !IsZero(buffer + at, n)) SendBytes(actor, address + at, buffer + at, n);
        at += n;
      }
    } else if (got != 0) {
      SendBytes(actor, address, buffer, got);
    }
    address += got;
    if (got < want) address = PageDown(address) + kPage;
  }
}

}  // namespace ttq::engine::memory

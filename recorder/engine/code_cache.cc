// SPDX-License-Identifier: MIT

#include "recorder/engine/code_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "recorder/engine/dispatch.h"
#include "recorder/engine/memory.h"
#include "recorder/engine/ring.h"
#include "recorder/inputs.h"

namespace ttq::engine::code_cache {
namespace {

// What differs between two files of one name.
struct Identity {
  uint64_t dev, ino, bytes;
  int64_t mtime_s, mtime_ns, ctime_s, ctime_ns;
};

enum Section { kCode, kStubs, kLiterals, kExits, kRecords, kSlots, kData, kSections };

// The file's first page. Each section begins with a page of its own.
struct Header {
  char magic[8];
  Identity engine, executable;
  uint64_t bytes[kSections];
  uint32_t record_count, exit_count;
  uint64_t hash;  // of all before it
};
constexpr char kMagic[8] = {'T', 'T', 'Q', 'C', 'O', 'D', 'E', '1'};

// A translation in the file. Places are offsets in their sections.
struct Record {
  uint64_t pc;
  uint64_t hash;  // of what Hash names
  uint64_t recipe_hash;
  uint32_t recipe_bytes;  // 0: it cannot be taken
  uint32_t checked, body, end;
  uint32_t first_stub, stub_end, first_literal, literal_end, first_exit, exit_end;
  uint32_t data, data_end;  // its marks, the addresses of its instructions, its runs, their bytes
  uint16_t mark_count, record_bytes;
  uint8_t log_register, instruction_count, run_count;
  uint8_t padding;
  uint32_t number;  // once it is taken; 0 in the file
};

// Bytes of memory that the translator looked at.
struct Run {
  uint64_t pc;
  uint32_t bytes, content;  // an offset in the data
};

// Fewer new translations than this, and a quarter of those that the file has, are not worth it.
constexpr uint32_t kLeastNew = 2000;
constexpr uint64_t kMostCode = 48 << 20;
constexpr uint32_t kMostRecords = 120'000;
constexpr uint64_t kMostData = 64 << 20;

bool g_is_on;
int64_t g_owner;  // the process that may write the file
char g_path[4096];
Identity g_engine, g_executable;
Record* g_records;
uint32_t g_record_count;
const uint32_t* g_slots;  // number of a record + 1, by address
unsigned g_slot_bits;
const uint8_t* g_data;
uint64_t g_data_bytes;

uint64_t Number(const void* p) { return reinterpret_cast<uint64_t>(p); }
uint64_t AlignedTo8(uint64_t n) { return (n + 7) & ~uint64_t{7}; }

bool Identify(const char* path, Identity* out) {
  struct stat s;
  if (Failed(Syscall(SYS_stat, Number(path), Number(&s)))) return false;
  *out = {s.st_dev,         s.st_ino,          static_cast<uint64_t>(s.st_size),
          s.st_mtim.tv_sec, s.st_mtim.tv_nsec, s.st_ctim.tv_sec,
          s.st_ctim.tv_nsec};
  return true;
}

bool Same(const void* a, const void* b, uint64_t bytes) {
  const auto *x = static_cast<const uint8_t*>(a), *y = static_cast<const uint8_t*>(b);
  for (; bytes >= 8; bytes -= 8, x += 8, y += 8) {
    if (__builtin_memcmp(x, y, 8) != 0) return false;
  }
  for (; bytes > 0; --bytes) {
    if (*x++ != *y++) return false;
  }
  return true;
}

// As HashBytes, of four words at a time.
class Hasher {
 public:
  void Add(const void* from, uint64_t bytes) {
    const auto* at = static_cast<const uint8_t*>(from);
    for (; bytes >= 32; at += 32, bytes -= 32) {
      for (unsigned k = 0; k < 4; ++k) Mix(k, at + 8 * k, 8);
    }
    for (unsigned k = 0; bytes > 0; ++k) {
      const uint64_t n = Least(bytes, 8);
      Mix(k, at, n);
      at += n, bytes -= n;
    }
  }
  uint64_t value() const { return HashBytes(state_, sizeof(state_)); }

 private:
  void Mix(unsigned k, const uint8_t* at, uint64_t bytes) {
    uint64_t word = 0;
    if (bytes == 8) {
      __builtin_memcpy(&word, at, 8);
    } else {
      for (uint64_t i = 0; i < bytes; ++i) word |= uint64_t{at[i]} << 8 * i;
    }
    state_[k] = (state_[k] ^ word) * 0xff51afd7ed558ccd;
    state_[k] ^= state_[k] >> 32;
  }
  uint64_t state_[4] = {1, 2, 3, 4};
};

uint64_t Hash(const Record& r, const uint8_t* data) {
  Hasher hasher;
  const auto add = [&hasher](const void* at, uint64_t bytes) { hasher.Add(at, bytes); };
  Record plain = r;
  plain.hash = 0;
  add(&plain, sizeof(plain));
  add(reinterpret_cast<const void*>(kCodeBegin + r.checked), r.end - r.checked);
  add(reinterpret_cast<const void*>(kStubsBegin + r.first_stub), r.stub_end - r.first_stub);
  add(reinterpret_cast<const void*>(kLiteralsBegin + uint64_t{8} * r.first_literal),
      uint64_t{8} * (r.literal_end - r.first_literal));
  add(g_translations.exits + r.first_exit, (r.exit_end - r.first_exit) * sizeof(Exit));
  add(data + r.data, r.data_end - r.data);
  return hasher.value();
}

// Where a record's lists are in the data.
uint64_t PcsOf(const Record& r) { return AlignedTo8(r.data + r.mark_count * sizeof(Mark)); }
uint64_t RunsOf(const Record& r) { return PcsOf(r) + r.instruction_count * sizeof(uint64_t); }

// All of a run can be executed, in one mapping whose code does not change without a system call.
bool CanBeKept(uint64_t pc, uint64_t bytes) {
  const memory::Mapping* m = memory::Find(pc);
  return m != nullptr && bytes <= m->end - pc && !memory::MayChange(pc) &&
         memory::ExecutableBytes(pc, bytes) == bytes;
}

bool HoldsTheSame(const Record& r) {
  const auto* runs = reinterpret_cast<const Run*>(g_data + RunsOf(r));
  for (unsigned k = 0; k < r.run_count; ++k) {
    const Run& run = runs[k];
    if (!CanBeKept(run.pc, run.bytes) ||
        !Same(reinterpret_cast<const void*>(run.pc), g_data + run.content, run.bytes)) {
      return false;
    }
  }
  return true;
}

bool IsWithin(const Record& r, const Header& h) {
  return r.checked <= r.body && r.body <= r.end && r.end <= h.bytes[kCode] &&
         r.first_stub <= r.stub_end && r.stub_end <= h.bytes[kStubs] &&
         r.first_literal <= r.literal_end && r.literal_end * uint64_t{8} <= h.bytes[kLiterals] &&
         r.first_exit <= r.exit_end && r.exit_end <= h.exit_count && r.data <= r.data_end &&
         r.data_end <= h.bytes[kData];
}

Header g_header;  // of the file that was opened

// Reads into memory that has huge pages, where all of it is needed or written to.
bool ReadSection(uint64_t fd, uint64_t offset, uint64_t bytes, uint64_t at) {
  for (uint64_t done = 0; done < bytes;) {
    const int64_t n = Syscall(SYS_pread64, fd, at + done, bytes - done, offset + done);
    if (n <= 0) return false;
    done += static_cast<uint64_t>(n);
  }
  return true;
}

bool MapSection(uint64_t fd, uint64_t offset, uint64_t bytes, uint64_t at) {
  return bytes == 0 || !Failed(Syscall(SYS_mmap, at, PageUp(bytes), PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_FIXED, fd, offset));
}

// Whether the header is one of this program's, and the file is as long as it says.
bool IsOurs(const Header& h, uint64_t file_bytes) {
  if (!Same(h.magic, kMagic, sizeof(kMagic)) || h.hash != HashBytes(&h, offsetof(Header, hash)) ||
      !Same(&h.engine, &g_engine, sizeof(Identity)) ||
      !Same(&h.executable, &g_executable, sizeof(Identity))) {
    return false;
  }
  uint64_t total = kPage;
  for (uint64_t bytes : h.bytes) total += PageUp(bytes);
  return total == file_bytes;
}

// Maps the sections where they were when they were written.
bool MapFile(uint64_t fd, uint64_t file_bytes) {
  Header& h = g_header;
  if (Syscall(SYS_pread64, fd, Number(&h), sizeof(h), 0) != sizeof(h) || !IsOurs(h, file_bytes)) {
    return false;
  }
  const int64_t own =
      MapOwn(PageUp(h.bytes[kRecords]) + PageUp(h.bytes[kSlots]) + PageUp(h.bytes[kData]),
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  if (Failed(own)) return false;
  const auto records = static_cast<uint64_t>(own);
  const uint64_t slots = records + PageUp(h.bytes[kRecords]);
  const uint64_t data = slots + PageUp(h.bytes[kSlots]);
  const uint64_t places[kSections] = {
      kCodeBegin, kStubsBegin, kLiteralsBegin, Number(g_translations.exits), records, slots, data};
  uint64_t offset = kPage;
  for (unsigned k = 0; k < kSections; ++k) {
    const bool is_all_used = k < kSlots;
    if (!(is_all_used ? ReadSection : MapSection)(fd, offset, h.bytes[k], places[k])) return false;
    offset += PageUp(h.bytes[k]);
  }
  Translations& t = g_translations;
  t.code = reinterpret_cast<uint8_t*>(kCodeBegin + h.bytes[kCode]);
  t.stubs = reinterpret_cast<uint8_t*>(kStubsBegin + h.bytes[kStubs]);
  t.literals = reinterpret_cast<uint64_t*>(kLiteralsBegin + h.bytes[kLiterals]);
  t.exit_count = h.exit_count;
  g_records = reinterpret_cast<Record*>(records);
  g_slots = reinterpret_cast<const uint32_t*>(slots);
  g_data = reinterpret_cast<const uint8_t*>(data);
  g_data_bytes = h.bytes[kData];
  g_slot_bits = static_cast<unsigned>(__builtin_ctzll(h.bytes[kSlots] / sizeof(uint32_t)));
  g_record_count = h.record_count;
  return true;
}

// The record of an address in a table of 2^bits slots, or the empty slot where it belongs.
uint32_t SlotOf(uint64_t pc, const uint32_t* slots, unsigned bits, const Record* records) {
  const uint32_t mask = (uint32_t{1} << bits) - 1;
  auto i = static_cast<uint32_t>(HashOfPc(pc, bits));
  while (slots[i] != 0 && records[slots[i] - 1].pc != pc) i = (i + 1) & mask;
  return i;
}

// What the file will hold besides code, while it is being put together.
struct Draft {
  Record* records;
  uint32_t record_count;
  uint32_t* slots;
  unsigned slot_bits;
  uint8_t* data;
  uint64_t data_bytes;
};

uint64_t Append(Draft* d, const void* from, uint64_t bytes) {
  const uint64_t at = d->data_bytes;
  memcpy(d->data + at, from, bytes);
  d->data_bytes = AlignedTo8(at + bytes);
  return at;
}

// The bytes that the translator looked at, up to two instructions behind the last: enough that the
// same bytes give the same superblock. False where more than bytes may have decided.
bool AppendRuns(const Superblock& s, Draft* d, Record* r) {
  constexpr unsigned kMostRuns = 64;
  Run runs[kMostRuns];
  unsigned count = 0;
  for (unsigned k = 0; k < s.instruction_count; ++k) {
    const uint64_t pc = s.pcs[k];
    if (count > 0) {
      Run& last = runs[count - 1];
      const uint64_t end = last.pc + last.bytes;
      if (pc > last.pc && pc < end) {
        if (pc + kLongestInstruction > end) {
          last.bytes = static_cast<uint32_t>(pc + kLongestInstruction - last.pc);
        }
        continue;
      }
    }
    if (count == kMostRuns) return false;
    runs[count++] = {pc, kLongestInstruction, 0};
  }
  runs[count - 1].bytes += kLongestInstruction;
  for (unsigned k = 0; k < count; ++k) {
    if (!CanBeKept(runs[k].pc, runs[k].bytes)) return false;
    // A mark (recorder/mark.h) depends on what is before it.
    const auto* bytes = reinterpret_cast<const uint8_t*>(runs[k].pc);
    for (unsigned i = 0; i + 1 < runs[k].bytes; ++i) {
      if (bytes[i] == 0x87 && bytes[i + 1] == 0xdb) return false;
    }
  }
  // A direct jump is the last instruction where it leads to one before it, or to what could not be
  // executed then.
  Instruction last;
  const uint64_t at_last = s.pcs[s.instruction_count - 1];
  if (!Decode(reinterpret_cast<const uint8_t*>(at_last), kLongestInstruction, at_last, &last) ||
      last.Is(kOneByte, 0xe9) || last.Is(kOneByte, 0xeb)) {
    return false;
  }
  const uint64_t at = Append(d, runs, count * sizeof(Run));
  for (unsigned k = 0; k < count; ++k) {
    const uint64_t content = Append(d, reinterpret_cast<const void*>(runs[k].pc), runs[k].bytes);
    reinterpret_cast<Run*>(d->data + at)[k].content = static_cast<uint32_t>(content);
  }
  r->run_count = static_cast<uint8_t>(count);
  return true;
}

// The record of number `k` of those made here.
Record Describe(uint32_t k, Draft* d) {
  const Translations& t = g_translations;
  const Superblock& s = t.superblocks[k];
  Record r = {};
  r.pc = s.pc;
  r.recipe_hash = s.recipe_hash;
  r.log_register = s.log_register;
  r.mark_count = s.mark_count;
  r.record_bytes = s.record_bytes;
  r.instruction_count = s.instruction_count;
  const auto code = [](const uint8_t* at) {
    return static_cast<uint32_t>(Number(at) - kCodeBegin);
  };
  r.checked = code(s.checked), r.body = code(s.body), r.end = code(s.end);
  r.first_exit = s.first_exit, r.first_stub = s.first_stub, r.first_literal = s.first_literal;
  if (k + 1 < t.made) {
    const Superblock& next = t.superblocks[k + 1];
    r.exit_end = next.first_exit, r.stub_end = next.first_stub, r.literal_end = next.first_literal;
  } else {
    r.exit_end = t.exit_count;
    r.stub_end = static_cast<uint32_t>(Number(t.stubs) - kStubsBegin);
    r.literal_end = static_cast<uint32_t>((Number(t.literals) - kLiteralsBegin) / 8);
  }
  const uint64_t begin = d->data_bytes;
  r.data = static_cast<uint32_t>(begin);
  if (s.may_change || s.recipe_bytes == 0 || s.instruction_count == 0) return r;
  Append(d, s.marks, s.mark_count * sizeof(Mark));
  Append(d, s.pcs, s.instruction_count * sizeof(uint64_t));
  if (AppendRuns(s, d, &r)) {
    r.recipe_bytes = s.recipe_bytes;
  } else {
    d->data_bytes = begin;
  }
  r.data_end = static_cast<uint32_t>(d->data_bytes);
  return r;
}

void Unlink() {
  const Translations& t = g_translations;
  for (uint32_t k = 0; k < t.exit_count; ++k) {
    const Exit& e = t.exits[k];
    if (e.distance != 0) {
      Code::Patch(e.distance_at(), reinterpret_cast<const uint8_t*>(kStubsBegin + e.stub));
    }
  }
}

bool WriteAt(uint64_t fd, const void* from, uint64_t bytes, uint64_t offset) {
  for (uint64_t done = 0; done < bytes;) {
    const int64_t n = Syscall(SYS_pwrite64, fd, Number(from) + done, bytes - done, offset + done);
    if (n <= 0) return false;
    done += static_cast<uint64_t>(n);
  }
  return true;
}

bool WriteFile(uint64_t fd, const Draft& d) {
  const Translations& t = g_translations;
  Header h = {};
  memcpy(h.magic, kMagic, sizeof(kMagic));
  h.engine = g_engine;
  h.executable = g_executable;
  h.record_count = d.record_count;
  h.exit_count = t.exit_count;
  const void* from[kSections] = {reinterpret_cast<const void*>(kCodeBegin),
                                 reinterpret_cast<const void*>(kStubsBegin),
                                 reinterpret_cast<const void*>(kLiteralsBegin),
                                 t.exits,
                                 d.records,
                                 d.slots,
                                 d.data};
  const uint64_t bytes[kSections] = {Number(t.code) - kCodeBegin,
                                     Number(t.stubs) - kStubsBegin,
                                     Number(t.literals) - kLiteralsBegin,
                                     t.exit_count * sizeof(Exit),
                                     d.record_count * sizeof(Record),
                                     sizeof(uint32_t) << d.slot_bits,
                                     d.data_bytes};
  uint64_t offset = kPage;
  for (unsigned k = 0; k < kSections; ++k) {
    h.bytes[k] = bytes[k];
    if (!WriteAt(fd, from[k], bytes[k], offset)) return false;
    offset += PageUp(bytes[k]);
  }
  h.hash = HashBytes(&h, offsetof(Header, hash));
  return WriteAt(fd, &h, sizeof(h), 0) && !Failed(Syscall(SYS_ftruncate, fd, offset));
}

// A limit on files' sizes would end the process by a signal.
bool MayWriteFiles() {
  uint64_t limit[2] = {};
  return !Failed(Syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, Number(limit))) &&
         limit[0] == ~uint64_t{0};
}

}  // namespace

void Open(const char* prefix, const char* executable) {
  const bool known = Identify("/proc/self/exe", &g_engine) && Identify(executable, &g_executable);
  if (!known) return;
  const Identity both[2] = {g_engine, g_executable};
  Text path;
  (path << prefix).Hex(HashBytes(both, sizeof(both)));
  memcpy(g_path, path.c_str(), path.size() + 1);
  g_is_on = true;
  g_owner = Syscall(SYS_getpid);
  const int64_t fd = Syscall(SYS_open, Number(g_path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (Failed(fd)) return;
  struct stat s;
  constexpr unsigned kOthersWrite = 022;
  if (!Failed(Syscall(SYS_fstat, static_cast<uint64_t>(fd), Number(&s))) && S_ISREG(s.st_mode) &&
      s.st_uid == static_cast<uint64_t>(Syscall(SYS_geteuid)) && (s.st_mode & kOthersWrite) == 0) {
    MapFile(static_cast<uint64_t>(fd), static_cast<uint64_t>(s.st_size));
  }
  Syscall(SYS_close, static_cast<uint64_t>(fd));
}

bool IsOn() { return g_is_on; }

bool Take(uint64_t pc, uint32_t number, Superblock* out) {
  if (g_record_count == 0) return false;
  const uint32_t slot = g_slots[SlotOf(pc, g_slots, g_slot_bits, g_records)];
  if (slot == 0) return false;
  Record& r = g_records[slot - 1];
  if (r.number != 0 || !IsWithin(r, g_header) || r.hash != Hash(r, g_data) || !HoldsTheSame(r)) {
    return false;
  }
  *out = {};
  out->pc = pc;
  const auto code = [](uint32_t at) { return reinterpret_cast<const uint8_t*>(kCodeBegin + at); };
  out->checked = code(r.checked), out->body = code(r.body), out->end = code(r.end);
  out->marks = reinterpret_cast<const Mark*>(g_data + r.data);
  out->mark_count = r.mark_count;
  out->record_bytes = r.record_bytes;
  out->log_register = r.log_register;
  out->instruction_count = r.instruction_count;
  out->pcs = reinterpret_cast<const uint64_t*>(g_data + PcsOf(r));
  out->id = ring::AddRecipe(r.recipe_hash, r.recipe_bytes).id;
  const auto* runs = reinterpret_cast<const Run*>(g_data + RunsOf(r));
  for (unsigned k = 0; k < r.run_count; ++k) memory::NoteTranslated(runs[k].pc);
  r.number = number;
  return true;
}

bool Find(uint64_t code, uint32_t* number) {
  uint32_t low = 0, high = g_record_count;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (kCodeBegin + g_records[middle].end <= code) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == g_record_count || g_records[low].number == 0) return false;
  *number = g_records[low].number;
  return true;
}

void Close() {
  g_is_on = false;
  g_record_count = 0;
}

void Save() {
  const Translations& t = g_translations;
  const uint64_t code_bytes = Number(t.code) - kCodeBegin;
  if (!g_is_on || Syscall(SYS_getpid) != g_owner || t.made < kLeastNew + g_record_count / 4 ||
      code_bytes > kMostCode || g_record_count + t.made > kMostRecords || !MayWriteFiles()) {
    return;
  }
  Text name;
  (name << g_path << ".") << static_cast<uint64_t>(g_owner);
  const int64_t fd = Syscall(SYS_open, Number(name.c_str()),
                             O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (Failed(fd)) return;
  Draft d = {};
  d.record_count = g_record_count + t.made;
  d.slot_bits = 1;
  while (uint32_t{1} << d.slot_bits < 2 * d.record_count) ++d.slot_bits;
  d.records = AllocateArray<Record>(d.record_count);
  d.slots = AllocateArray<uint32_t>(size_t{1} << d.slot_bits);
  d.data = AllocateArray<uint8_t>(kMostData);
  Unlink();
  memcpy(d.records, g_records, g_record_count * sizeof(Record));
  memcpy(d.data, g_data, g_data_bytes);
  d.data_bytes = g_data_bytes;
  // The most data that one translation has.
  constexpr uint64_t kLargest = 16 << 10;
  bool written = true;
  for (uint32_t k = 0; k < t.made && written; ++k) {
    Record& r = d.records[g_record_count + k];
    r = Describe(k, &d);
    r.hash = Hash(r, d.data);
    written = d.data_bytes + kLargest < kMostData;
  }
  for (uint32_t k = 0; k < d.record_count; ++k) {
    d.records[k].number = 0;
    if (d.records[k].recipe_bytes == 0) continue;
    d.slots[SlotOf(d.records[k].pc, d.slots, d.slot_bits, d.records)] = k + 1;
  }
  written = written && WriteFile(static_cast<uint64_t>(fd), d);
  Syscall(SYS_close, static_cast<uint64_t>(fd));
  if (!written || Failed(Syscall(SYS_rename, Number(name.c_str()), Number(g_path)))) {
    Syscall(SYS_unlink, Number(name.c_str()));
  }
}

}  // namespace ttq::engine::code_cache

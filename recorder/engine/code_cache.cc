// SPDX-License-Identifier: MIT

#include "recorder/engine/code_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "recorder/engine/cpuid.h"
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

// What one process added to the file: from where the segment before it ends up to here.
struct Segment {
  uint32_t code, stubs, literals, exits, records;  // literals, exits and records are counted
};
enum { kMaxSegments = 16 };

// The file's first page. Each section begins with a page of its own.
struct Header {
  char magic[8];
  Identity engine, executable;
  uint64_t bytes[kSections];
  uint64_t segment_count;
  Segment segments[kMaxSegments];
  uint64_t hash;  // of all before it
};
static_assert(sizeof(Header) <= kPage);
// 2: a record says where its code begins, which is before the check; a mark, what was added.
constexpr char kMagic[8] = {'T', 'T', 'Q', 'C', 'O', 'D', 'E', '2'};

// A translation in the file. Places are offsets in their sections.
struct Record {
  uint64_t pc;
  uint64_t hash;  // of what Hash names
  uint64_t recipe_hash;
  uint32_t recipe_bytes;  // 0: it cannot be taken
  uint32_t begin, checked, body, end;
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

// Fewer new translations than this, and a sixteenth of those that the file has, are not worth it.
constexpr uint32_t kMinNew = 500;
// Larger files did not pay: of 235,000 translations (import torch) taking costs what making does.
constexpr uint64_t kMaxCode = 32 << 20;
constexpr uint32_t kMaxRecords = 120'000;
constexpr uint64_t kMaxData = 64 << 20;

bool g_is_on;
int64_t g_owner;  // the process that may write the file
char g_path[4096];
Identity g_engine, g_executable;
// The file, mapped; null: there is none, or all was given up. Its code, stubs, literals and exits
// are copied to their places, a segment at a time.
uint8_t* g_file;
const Header* g_header;
Record* g_records;
uint32_t g_record_count;
const uint32_t* g_slots;  // number of a record + 1, by address
unsigned g_slot_bits;
const uint8_t* g_data;
enum : uint8_t { kNotLoaded, kLoaded, kDamaged } g_segment_state[kMaxSegments];

uint64_t AlignedTo8(uint64_t n) { return (n + 7) & ~uint64_t{7}; }

bool Identify(const char* path, Identity* out) {
  struct stat s;
  if (Failed(Syscall(SYS_stat, Number(path), Number(&s)))) return false;
  *out = {s.st_dev,         s.st_ino,          static_cast<uint64_t>(s.st_size),
          s.st_mtim.tv_sec, s.st_mtim.tv_nsec, s.st_ctim.tv_sec,
          s.st_ctim.tv_nsec};
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
  add(reinterpret_cast<const void*>(kCodeBegin + r.begin), r.end - r.begin);
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
        memcmp(reinterpret_cast<const void*>(run.pc), g_data + run.content, run.bytes) != 0) {
      return false;
    }
  }
  return true;
}

constexpr Segment kFirstBegins = {};
const Segment& BeginOf(unsigned segment) {
  return segment == 0 ? kFirstBegins : g_header->segments[segment - 1];
}
const Segment& EndOf(unsigned segment) { return g_header->segments[segment]; }

bool IsWithin(const Record& r, unsigned segment) {
  const Segment &begin = BeginOf(segment), &end = EndOf(segment);
  const auto within = [](uint32_t least, uint32_t a, uint32_t b, uint32_t most) {
    return least <= a && a <= b && b <= most;
  };
  return within(begin.code, r.begin, r.checked, r.body) &&
         within(r.body, r.body, r.end, end.code) &&
         within(begin.stubs, r.first_stub, r.stub_end, end.stubs) &&
         within(begin.literals, r.first_literal, r.literal_end, end.literals) &&
         within(begin.exits, r.first_exit, r.exit_end, end.exits) &&
         within(0, r.data, r.data_end, static_cast<uint32_t>(g_header->bytes[kData]));
}

// Whether the header is one of this program's, and the file is as long as it says.
bool IsOurs(const Header& h, uint64_t file_bytes) {
  if (memcmp(h.magic, kMagic, sizeof(kMagic)) != 0 ||
      h.hash != HashBytes(&h, offsetof(Header, hash)) ||
      memcmp(&h.engine, &g_engine, sizeof(Identity)) != 0 ||
      memcmp(&h.executable, &g_executable, sizeof(Identity)) != 0) {
    return false;
  }
  uint64_t total = kPage;
  for (uint64_t bytes : h.bytes) total += PageUp(bytes);
  return total == file_bytes;
}

const uint8_t* SectionOf(Section section) {
  const uint8_t* at = g_file + kPage;
  for (unsigned k = 0; k < section; ++k) at += PageUp(g_header->bytes[k]);
  return at;
}

// Copies a segment to its places, which have huge pages: code in pages of 4 KiB would cost more
// misses than it saves. False: its records are damaged.
bool Load(unsigned segment) {
  auto& state = g_segment_state[segment];
  if (state != kNotLoaded) return state == kLoaded;
  const Segment &begin = BeginOf(segment), &end = EndOf(segment);
  state = kDamaged;
  for (uint32_t k = begin.records; k < end.records; ++k) {  // Find goes by their order
    const uint32_t before = k == begin.records ? begin.code : g_records[k - 1].end;
    if (g_records[k].end < before || g_records[k].end > end.code) return false;
  }
  const auto copy = [](Section section, uint64_t to, uint64_t from, uint64_t until) {
    memcpy(reinterpret_cast<void*>(to + from), SectionOf(section) + from, until - from);
  };
  copy(kCode, kCodeBegin, begin.code, end.code);
  copy(kStubs, kStubsBegin, begin.stubs, end.stubs);
  copy(kLiterals, kLiteralsBegin, uint64_t{8} * begin.literals, uint64_t{8} * end.literals);
  copy(kExits, Number(g_translations.exits), begin.exits * sizeof(Exit), end.exits * sizeof(Exit));
  state = kLoaded;
  return true;
}

void MapFile(uint64_t fd, uint64_t bytes) {
  if (bytes < kPage) return;
  const int64_t at = MapOwn(bytes, MAP_PRIVATE | MAP_NORESERVE, static_cast<int64_t>(fd));
  if (Failed(at)) return;
  g_header = reinterpret_cast<const Header*>(at);
  if (!IsOurs(*g_header, bytes)) return;
  g_file = reinterpret_cast<uint8_t*>(at);
  const Segment& all = EndOf(static_cast<unsigned>(g_header->segment_count - 1));
  Translations& t = g_translations;
  t.code += all.code;
  t.stubs += all.stubs;
  t.literals += all.literals;
  t.exit_count = all.exits;
  g_record_count = all.records;
  g_records = reinterpret_cast<Record*>(const_cast<uint8_t*>(SectionOf(kRecords)));
  g_slots = reinterpret_cast<const uint32_t*>(SectionOf(kSlots));
  g_slot_bits = static_cast<unsigned>(__builtin_ctzll(g_header->bytes[kSlots] / sizeof(uint32_t)));
  g_data = SectionOf(kData);
}

// The slot of an address in a table of 2^bits, or the empty one where it belongs; or one with a
// number that is none of a record.
uint32_t SlotOf(uint64_t pc, const uint32_t* slots, unsigned bits, const Record* records,
                uint32_t count) {
  const uint32_t mask = (uint32_t{1} << bits) - 1;
  auto i = static_cast<uint32_t>(HashOfPc(pc, bits));
  while (slots[i] != 0 && slots[i] <= count && records[slots[i] - 1].pc != pc) i = (i + 1) & mask;
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
  constexpr unsigned kMaxRuns = 64;
  Run runs[kMaxRuns];
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
    if (count == kMaxRuns) return false;
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

bool MayBeKept(const Superblock& s) {
  return !s.may_change && s.recipe_bytes != 0 && s.instruction_count != 0;
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
  r.begin = code(s.begin), r.checked = code(s.checked), r.body = code(s.body), r.end = code(s.end);
  r.first_exit = s.first_exit, r.first_stub = s.first_stub, r.first_literal = s.first_literal;
  if (k + 1 < t.made) {
    const Superblock& next = t.superblocks[k + 1];
    r.exit_end = next.first_exit, r.stub_end = next.first_stub, r.literal_end = next.first_literal;
  } else {
    r.exit_end = t.exit_count;
    r.stub_end = t.stub_bytes();
    r.literal_end = t.literal_count();
  }
  const uint64_t begin = d->data_bytes;
  r.data = r.data_end = static_cast<uint32_t>(begin);
  if (!MayBeKept(s)) return r;
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

// Leads an exit to its target, where that is translated.
void Link(const Exit& e) {
  if (e.distance == 0) return;
  if (const uint8_t* body = FindBody(e.target); body != nullptr) Code::Patch(e.distance_at(), body);
}

void Unlink() {
  const Translations& t = g_translations;
  const auto unlink_check = [](const Superblock& s) {
    Code::Patch(s.next_check(), reinterpret_cast<const void*>(&EngineMiss));
  };
  for (uint32_t k = 0; k < t.made; ++k) unlink_check(t.superblocks[k]);
  for (uint32_t k = 1; k <= t.taken; ++k) unlink_check(t.superblocks[kMaxSuperblocks - k]);
  for (uint32_t k = 0; k < t.exit_count; ++k) {
    const Exit& e = t.exits[k];
    if (e.distance != 0) {
      Code::Patch(e.distance_at(), reinterpret_cast<const uint8_t*>(kStubsBegin + e.stub));
    }
  }
}

// Describes what the file has and what was made here. False: it is too much.
bool FillIn(Draft* d) {
  Unlink();
  if (g_file != nullptr) {
    memcpy(d->records, g_records, g_record_count * sizeof(Record));
    d->data_bytes = g_header->bytes[kData];
    memcpy(d->data, g_data, d->data_bytes);
  }
  constexpr uint64_t kMaxDataOfOne = 16 << 10;
  for (uint32_t k = 0; k < g_translations.made; ++k) {
    if (d->data_bytes + kMaxDataOfOne > kMaxData) return false;
    Record& r = d->records[g_record_count + k];
    r = Describe(k, d);
    r.hash = Hash(r, d->data);
  }
  for (uint32_t k = 0; k < d->record_count; ++k) {
    Record& r = d->records[k];
    r.number = 0;
    if (r.recipe_bytes == 0) continue;
    d->slots[SlotOf(r.pc, d->slots, d->slot_bits, d->records, d->record_count)] = k + 1;
  }
  return true;
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
  if (g_file != nullptr) h = *g_header;
  memcpy(h.magic, kMagic, sizeof(kMagic));
  h.engine = g_engine;
  h.executable = g_executable;
  h.segments[h.segment_count++] = {t.code_bytes(), t.stub_bytes(), t.literal_count(), t.exit_count,
                                   d.record_count};
  const void* from[kSections] = {reinterpret_cast<const void*>(kCodeBegin),
                                 reinterpret_cast<const void*>(kStubsBegin),
                                 reinterpret_cast<const void*>(kLiteralsBegin),
                                 t.exits,
                                 d.records,
                                 d.slots,
                                 d.data};
  const uint64_t bytes[kSections] = {t.code_bytes(),
                                     t.stub_bytes(),
                                     t.literal_count() * sizeof(uint64_t),
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

// So that the next process begins a new file.
void Remove() { Syscall(SYS_unlink, Number(g_path)); }

// A limit on files' sizes would end the process by a signal.
bool MayWriteFiles() {
  uint64_t limit[2] = {};
  return !Failed(Syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, Number(limit))) &&
         limit[0] == ~uint64_t{0};
}

}  // namespace

void Open(const char* prefix, const char* executable) {
  constexpr size_t kLongestPrefix = 400;  // of those that fit into a Text
  if (Length(prefix) > kLongestPrefix || !Identify("/proc/self/exe", &g_engine) ||
      !Identify(executable, &g_executable)) {
    return;
  }
  const struct {
    Identity engine, executable;
    uint64_t processor;  // what translations depend on
  } all = {g_engine, g_executable, uint64_t{LoopIsFast()} | uint64_t{LogicSetsAuxiliary()} << 1};
  Text path;
  (path << prefix).Hex(HashBytes(&all, sizeof(all)));
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
  if (g_file == nullptr) return false;
  const uint32_t slot = g_slots[SlotOf(pc, g_slots, g_slot_bits, g_records, g_record_count)];
  if (slot == 0 || slot > g_record_count) return false;
  Record& r = g_records[slot - 1];
  unsigned segment = 0;
  while (EndOf(segment).records < slot) ++segment;
  if (!Load(segment) || r.number != 0 || !IsWithin(r, segment) || r.hash != Hash(r, g_data) ||
      !HoldsTheSame(r)) {
    return false;
  }
  *out = {};
  out->pc = pc;
  const auto code = [](uint32_t at) { return reinterpret_cast<uint8_t*>(kCodeBegin + at); };
  out->begin = code(r.begin), out->checked = code(r.checked);
  out->body = code(r.body), out->end = code(r.end);
  out->marks = reinterpret_cast<const Mark*>(g_data + r.data);
  out->mark_count = r.mark_count;
  out->record_bytes = r.record_bytes;
  out->log_register = r.log_register;
  out->instruction_count = r.instruction_count;
  out->pcs = reinterpret_cast<const uint64_t*>(g_data + PcsOf(r));
  out->id = ring::AddRecipe(r.recipe_hash, r.recipe_bytes).id;
  const auto* runs = reinterpret_cast<const Run*>(g_data + RunsOf(r));
  for (unsigned k = 0; k < r.run_count; ++k) memory::NoteTranslated(runs[k].pc);
  for (uint32_t k = r.first_exit; k < r.exit_end; ++k) Link(g_translations.exits[k]);
  r.number = number;
  return true;
}

const Superblock* Find(uint64_t code) {
  if (g_file == nullptr) return nullptr;
  unsigned segment = 0;
  while (segment < g_header->segment_count && kCodeBegin + EndOf(segment).code <= code) ++segment;
  if (segment == g_header->segment_count || g_segment_state[segment] != kLoaded) return nullptr;
  uint32_t low = BeginOf(segment).records, high = EndOf(segment).records;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (kCodeBegin + g_records[middle].end <= code) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == EndOf(segment).records || g_records[low].number == 0) return nullptr;
  return &g_translations.superblocks[g_records[low].number];
}

void Close() {
  g_is_on = false;
  g_file = nullptr;
}

void Save() {
  const Translations& t = g_translations;
  if (!g_is_on || Syscall(SYS_getpid) != g_owner || !MayWriteFiles()) return;
  uint32_t fit = 0;
  for (uint32_t k = 0; k < t.made; ++k) fit += MayBeKept(t.superblocks[k]);
  if (fit < kMinNew + g_record_count / 16 || t.made > kMaxRecords) return;
  // What is full may be full of what no longer fits: the next process begins anew.
  const uint64_t segments = g_file != nullptr ? g_header->segment_count : 0;
  if (segments == kMaxSegments || t.code_bytes() > kMaxCode ||
      g_record_count + t.made > kMaxRecords) {
    return Remove();
  }
  for (unsigned k = 0; k < segments; ++k) {
    if (!Load(k)) return Remove();
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
  // Not by Allocate, which ends the process where there is no memory.
  const uint64_t record_bytes = PageUp(d.record_count * sizeof(Record));
  const uint64_t slot_bytes = PageUp(sizeof(uint32_t) << d.slot_bits);
  const int64_t own =
      MapOwn(record_bytes + slot_bytes + kMaxData, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  bool written = !Failed(own);
  if (written) {
    d.records = reinterpret_cast<Record*>(own);
    d.slots = reinterpret_cast<uint32_t*>(static_cast<uint64_t>(own) + record_bytes);
    d.data = reinterpret_cast<uint8_t*>(static_cast<uint64_t>(own) + record_bytes + slot_bytes);
    written = FillIn(&d) && WriteFile(static_cast<uint64_t>(fd), d);
  }
  Syscall(SYS_close, static_cast<uint64_t>(fd));
  if (!written || Failed(Syscall(SYS_rename, Number(name.c_str()), Number(g_path)))) {
    Syscall(SYS_unlink, Number(name.c_str()));
  }
}

}  // namespace ttq::engine::code_cache

// SPDX-License-Identifier: MIT
//
// The program's memory: what is mapped where, and the records that tell the reader.

#ifndef TTQ_RECORDER_ENGINE_MEMORY_H_
#define TTQ_RECORDER_ENGINE_MEMORY_H_

#include "recorder/engine/base.h"
#include "recorder/stream.h"

namespace ttq::engine::memory {

// A mapped file, or System V shared memory (`dev` is then ~0).
struct FileInfo {
  const char* path = "";
  uint64_t dev = 0, ino = 0, bytes = 0;
  int64_t mtime_ns = 0;
  bool is_elf = false;
};

struct Mapping {
  uint64_t begin = 0, end = 0;
  uint32_t protection = 0;  // PROT_…
  bool shared = false;
  bool is_file = false;
  bool is_elf = false;      // of a file whose contents do not change, one takes it
  bool translated = false;  // code of it has been translated
  bool is_system_v = false;
  bool not_forked = false, wiped_on_fork = false;
  FileInfo* file = nullptr;  // lives as long as the process; null: no file
  uint64_t offset = 0;
};

// The mapping that holds an address; null when there is none.
const Mapping* Find(uint64_t address);
// The first that ends beyond an address, in order of addresses; null when there is none.
const Mapping* FirstBeyond(uint64_t address);
// How many bytes from an address on can be executed, up to `most`.
size_t ExecutableBytes(uint64_t address, size_t most);
bool IsWritable(uint64_t address);
// The page lies behind the end of a mapped file: an access raises SIGBUS.
bool IsBeyondFile(uint64_t address);
// Whether a process forked now would see what this one writes, or the other way round.
bool SharesWithChild();
// Whether some of it is the engine's own, or set aside for it.
bool OverlapsEngine(uint64_t address, uint64_t bytes);
// A place for a module, within the reach of translated code; 0 when none is left.
uint64_t TakeModuleSpace(uint64_t bytes);
// Whether the code at an address may change without a system call.
bool MayChange(uint64_t address);
// The code at an address, which may not, is being translated.
void NoteTranslated(uint64_t address);

// What a system call, or the start of the program, has done. Each tells the reader. Code that was
// translated and is no longer what it was is given up.
// `mapping.file` is made from `file`.
void Map(const Mapping& mapping, uint32_t kind, uint32_t content, const FileInfo& file);
void Unmap(uint64_t begin, uint64_t end);
void Protect(uint64_t begin, uint64_t end, uint32_t protection);
void Move(uint64_t from, uint64_t to, uint64_t bytes);
// What fork is to do with a range, by madvise.
void Advise(uint64_t begin, uint64_t end, int advice);
// Whether memory shows files that may change.
bool ShowsFiles();
// A file of `bytes` has other contents, or another length: so has the memory that shows it.
void FileChanged(uint64_t dev, uint64_t ino, uint64_t bytes);
// Private memory of no file is zero again; of files, as in the file.
void Reset(uint64_t begin, uint64_t end);
// In a forked child.
void ForgetNotForked();

// Memory as it is now: `actor` changed it, or (kTtqInitial) it begins so. What cannot be read is
// left out; with `only_nonzero`, pages of zeros too.
void Send(uint32_t actor, uint64_t address, uint64_t bytes, bool only_nonzero = false);
// The system call in progress, and the thread that runs, which Send names.
void SetSyscall(int64_t number);
void SetThread(uint32_t number);
// `flush` gives up all translations.
void SetFlush(void (*flush)());
// The process cannot be run again from here on, because `why`, one clause: all that it does from
// now on is logged, where only its inputs were.
void TurnToLog(const char* why);

}  // namespace ttq::engine::memory

#endif  // TTQ_RECORDER_ENGINE_MEMORY_H_

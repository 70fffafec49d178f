/* SPDX-License-Identifier: MIT
 *
 * See write_core.h. What is left out is what `ttq import` finds in files by their build-ids: pages
 * of private files that are as they were mapped. The page with a file's ELF header, which has the
 * build-id, is always there.
 */
#define _GNU_SOURCE
#include "import/arm/write_core.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "import/arm/arm.h"

enum { kPage = 4096 };

static void WriteText(const char* text) { (void)!write(STDERR_FILENO, text, strlen(text)); }

__attribute__((noreturn)) static void Fail(const struct ArmedProcess* process, const char* what,
                                           int error) {
  char number[32] = "";
  AppendNumber(number, (uint64_t)error);
  WriteText("ttq: no snapshot: ");
  WriteText(what);
  WriteText(" ");
  WriteText(process->core[0] != 0 ? process->core : process->folder);
  WriteText(": error ");
  WriteText(number);
  WriteText("\n");
  if (process->core[0] != 0) unlink(process->core);
  _exit(1);
}

void AppendNumber(char* text, uint64_t number) {
  char digits[24];
  int n = 0;
  do {
    digits[n++] = (char)('0' + number % 10);
    number /= 10;
  } while (number != 0);
  text += strlen(text);
  while (n > 0) *text++ = digits[--n];
  *text = 0;
}

uint64_t ReadNumber(const char** text, unsigned base) {
  uint64_t value = 0;
  for (;; ++*text) {
    const char c = **text;
    const unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                           : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                  : base;
    if (digit >= base) return value;
    value = value * base + digit;
  }
}

/* ---- The file -------------------------------------------------------------------------------- */

struct Out {
  struct ArmedProcess* process;
  int fd;
  uint64_t at; /* where the buffer begins */
  uint32_t used;
};

/* Gives how many bytes could be read from memory and written. */
static uint64_t WriteAt(const struct Out* out, uint64_t at, const void* bytes, uint64_t size) {
  uint64_t done = 0;
  while (done < size) {
    const ssize_t n = pwrite(out->fd, (const char*)bytes + done, size - done, (off_t)(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EFAULT) break;
    if (n <= 0) Fail(out->process, "cannot write", n == 0 ? ENOSPC : errno);
    done += (uint64_t)n;
  }
  return done;
}

static void Flush(struct Out* out) {
  WriteAt(out, out->at, out->process->buffer, out->used);
  out->at += out->used;
  out->used = 0;
}

static void Put(struct Out* out, const void* bytes, uint64_t size) {
  const char* from = bytes;
  while (size > 0) {
    if (out->used == sizeof(out->process->buffer)) Flush(out);
    uint64_t n = sizeof(out->process->buffer) - out->used;
    if (n > size) n = size;
    memcpy(out->process->buffer + out->used, from, n);
    out->used += (uint32_t)n;
    from += n;
    size -= n;
  }
}

static void PutZeros(struct Out* out, uint64_t size) {
  static const char kZeros[kPage];
  Put(out, kZeros, size);
}

static void PutNoteHead(struct Out* out, const char* name, uint32_t type, uint64_t size) {
  const Elf64_Nhdr head = {(Elf64_Word)strlen(name) + 1, (Elf64_Word)size, type};
  Put(out, &head, sizeof(head));
  Put(out, name, head.n_namesz);
  PutZeros(out, -head.n_namesz & 3);
}

static void PutNote(struct Out* out, const char* name, uint32_t type, const void* data,
                    uint64_t size) {
  PutNoteHead(out, name, type, size);
  Put(out, data, size);
  PutZeros(out, -size & 3);
}

/* A file of /proc; gives its bytes, which a 0 follows. */
static uint64_t ReadFile(const char* path, char* out, uint64_t most) {
  uint64_t size = 0;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  while (size < most - 1) {
    const ssize_t n = read(fd, out + size, most - 1 - size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    size += (uint64_t)n;
  }
  close(fd);
  out[size] = 0;
  return size;
}

/* "/proc/PID/NAME" */
static const char* OfProcess(const struct ArmedProcess* process, const char* name, char* path) {
  strcpy(path, "/proc/");
  AppendNumber(path, (uint64_t)process->pid);
  strcat(path, "/");
  return strcat(path, name);
}

/* ---- What is mapped -------------------------------------------------------------------------- */

struct Mapped {
  uint64_t begin, end, offset;
  uint32_t protection; /* PF_R, PF_W, PF_X */
  int shared, is_file;
  const char* path; /* up to the line's end */
  uint64_t path_bytes;
};

/* The next line of /proc/self/maps (proc(5)); 0 at the end. */
static int NextMapped(const char** at, struct Mapped* out) {
  if (**at == 0) return 0;
  const char* text = *at;
  out->begin = ReadNumber(&text, 16);
  ++text;
  out->end = ReadNumber(&text, 16);
  ++text;
  out->protection =
      (text[0] == 'r' ? PF_R : 0) | (text[1] == 'w' ? PF_W : 0) | (text[2] == 'x' ? PF_X : 0);
  out->shared = text[3] == 's';
  text += 5;
  out->offset = ReadNumber(&text, 16);
  for (int words = 0; words < 2; ++words) { /* device, inode */
    while (*text == ' ') ++text;
    while (*text != ' ' && *text != '\n' && *text != 0) ++text;
  }
  while (*text == ' ') ++text;
  out->path = text;
  while (*text != '\n' && *text != 0) ++text;
  out->path_bytes = (uint64_t)(text - out->path);
  out->is_file = out->path_bytes > 0 && out->path[0] == '/';
  *at = *text == '\n' ? text + 1 : text;
  return 1;
}

static int IsNamed(const struct Mapped* m, const char* name) {
  return m->path_bytes == strlen(name) && memcmp(m->path, name, m->path_bytes) == 0;
}

/* proc(5), pagemap: the process's own pages are in memory or swapped out, and no file's. */
static int IsOwn(uint64_t page) { return (page >> 62 & 3) != 0 && (page >> 61 & 1) == 0; }

/* The first run of the process's own pages in [begin, end); 0: there is none. */
static int NextOwn(struct ArmedProcess* process, int pagemap, uint64_t begin, uint64_t end,
                   uint64_t* run_begin, uint64_t* run_end) {
  enum { kPages = sizeof(process->scratch) / sizeof(process->scratch[0]) };
  uint64_t* pages = process->scratch;
  *run_begin = *run_end = 0;
  while (begin < end) {
    uint64_t want = (end - begin) / kPage;
    if (want > kPages) want = kPages;
    const ssize_t got = pread(pagemap, pages, want * 8, (off_t)(begin / kPage * 8));
    if (got < 8) {  // where it cannot be known, all are
      if (*run_end == 0) *run_begin = begin;
      *run_end = end;
      return 1;
    }
    for (uint64_t i = 0; i < (uint64_t)got / 8; ++i) {
      const uint64_t page = begin + i * kPage;
      if (IsOwn(pages[i])) {
        if (*run_end == 0) *run_begin = page;
        *run_end = page + kPage;
      } else if (*run_end != 0) {
        return 1;
      }
    }
    begin += (uint64_t)got / 8 * kPage;
  }
  return *run_end != 0;
}

enum Dump { kNothing, kAll, kOwn };
/* In p_paddr, which means nothing here, until the headers are written: pages that are not the
 * process's own are zero, holes in the file. */
enum { kSparse = 1 };

static uint32_t AddSegment(struct ArmedProcess* process, uint32_t count, const struct Mapped* m,
                           uint64_t begin, uint64_t end, enum Dump dump) {
  if (begin >= end || count == kMaxSegments) return count;
  process->segments[count] = (Elf64_Phdr){.p_type = PT_LOAD,
                                          .p_flags = m->protection,
                                          .p_vaddr = begin,
                                          .p_paddr = dump == kOwn ? kSparse : 0,
                                          .p_memsz = end - begin,
                                          .p_filesz = dump == kNothing ? 0 : end - begin,
                                          .p_align = kPage};
  return count + 1;
}

/* Of a private file: what is its own, from the first such page to the last, and its ELF header. */
static uint32_t AddFile(struct ArmedProcess* process, uint32_t count, const struct Mapped* m,
                        int pagemap) {
  uint64_t first = m->end, last = m->end, run_begin, run_end;
  for (uint64_t at = m->begin; NextOwn(process, pagemap, at, m->end, &run_begin, &run_end);
       at = run_end) {
    if (first == m->end) first = run_begin;
    last = run_end;
  }
  uint64_t at = m->begin;
  const int has_header = m->offset == 0 && (m->protection & PF_R) != 0 && first != m->begin;
  if (has_header) {
    count = AddSegment(process, count, m, at, at + kPage, kAll);
    at += kPage;
  }
  count = AddSegment(process, count, m, at, first, kNothing);
  count = AddSegment(process, count, m, first, last, kAll);
  return AddSegment(process, count, m, last, m->end, kNothing);
}

static uint32_t AddSegments(struct ArmedProcess* process, int pagemap) {
  uint32_t count = 0;
  const char* at = process->maps;
  const uint64_t scratch = (uint64_t)process;
  for (struct Mapped m; NextMapped(&at, &m);) {
    if (IsNamed(&m, "[vsyscall]") || (m.path_bytes > 5 && memcmp(m.path, "[vvar", 5) == 0)) {
      continue;
    }
    const int is_scratch = m.begin <= scratch && scratch < m.end;
    const int in_memory = m.is_file && m.path_bytes > 7 && memcmp(m.path, "/memfd:", 7) == 0;
    const int of_nobody = m.is_file && m.path_bytes > 9 && memcmp(m.path, "/dev/zero", 9) == 0;
    if (m.protection == 0 || is_scratch || (m.shared && m.is_file && !in_memory && !of_nobody)) {
      count = AddSegment(process, count, &m, m.begin, m.end, kNothing);
    } else if (m.is_file && !m.shared) {
      count = AddFile(process, count, &m, pagemap);
    } else {
      const int is_own = !m.shared && (m.protection & PF_W) != 0;
      count = AddSegment(process, count, &m, m.begin, m.end, is_own ? kOwn : kAll);
    }
  }
  return count;
}

/* ---- Notes ----------------------------------------------------------------------------------- */

static void PutThread(struct Out* out, const struct ArmedThread* thread, int signal) {
  struct elf_prstatus status;
  memset(&status, 0, sizeof(status));
  status.pr_pid = thread->tid;
  status.pr_cursig = (short)signal;
  status.pr_info.si_signo = signal;
  memcpy(&status.pr_reg, &thread->registers, sizeof(status.pr_reg));
  PutNote(out, "CORE", NT_PRSTATUS, &status, sizeof(status));
  if (thread->vector_bytes >= kFxsaveBytes) {
    PutNote(out, "CORE", NT_FPREGSET, thread->vectors, kFxsaveBytes);
  }
  if (thread->vector_bytes > kFxsaveBytes) {
    PutNote(out, "LINUX", NT_X86_XSTATE, thread->vectors, thread->vector_bytes);
  }
}

static void PutProcess(struct Out* out) {
  struct ArmedProcess* process = out->process;
  char path[64];
  char* text = (char*)process->scratch;
  struct elf_prpsinfo info;
  memset(&info, 0, sizeof(info));
  info.pr_pid = process->pid;
  info.pr_uid = getuid();
  info.pr_gid = getgid();
  uint64_t n = ReadFile(OfProcess(process, "comm", path), text, sizeof(info.pr_fname));
  if (n > 0 && text[n - 1] == '\n') --n;
  memcpy(info.pr_fname, text, n);
  n = ReadFile(OfProcess(process, "cmdline", path), text, sizeof(info.pr_psargs));
  for (uint64_t i = 0; i + 1 < n; ++i) info.pr_psargs[i] = text[i];
  for (uint64_t i = 0; i + 1 < n; ++i) {
    if (info.pr_psargs[i] == 0) info.pr_psargs[i] = ' ';
  }
  PutNote(out, "CORE", NT_PRPSINFO, &info, sizeof(info));
  if (process->signal != 0) {
    PutNote(out, "CORE", NT_SIGINFO, &process->information, sizeof(process->information));
  }
  n = ReadFile("/proc/self/auxv", text, sizeof(process->scratch));
  PutNote(out, "CORE", NT_AUXV, text, n);
}

/* fs/binfmt_elf.c, fill_files_note: a count, the page's size, then of each begin, end and offset in
 * pages, then the paths. */
static void PutFiles(struct Out* out) {
  uint64_t count = 0, bytes = 2 * sizeof(uint64_t);
  const char* at = out->process->maps;
  for (struct Mapped m; NextMapped(&at, &m);) {
    if (!m.is_file) continue;
    ++count;
    bytes += 3 * sizeof(uint64_t) + m.path_bytes + 1;
  }
  PutNoteHead(out, "CORE", NT_FILE, bytes);
  const uint64_t head[] = {count, kPage};
  Put(out, head, sizeof(head));
  at = out->process->maps;
  for (struct Mapped m; NextMapped(&at, &m);) {
    const uint64_t entry[] = {m.begin, m.end, m.offset / kPage};
    if (m.is_file) Put(out, entry, sizeof(entry));
  }
  at = out->process->maps;
  for (struct Mapped m; NextMapped(&at, &m);) {
    if (!m.is_file) continue;
    Put(out, m.path, m.path_bytes);
    PutZeros(out, 1);
  }
  PutZeros(out, -bytes & 3);
}

/* Threads that did not answer; `ttq import` says it. */
static void PutRemark(struct Out* out) {
  const struct ArmedProcess* process = out->process;
  char text[512] = "";
  uint32_t silent = 0;
  for (uint32_t i = 0; i < atomic_load(&process->thread_count); ++i) {
    const struct ArmedThread* thread = &process->threads[i];
    if (atomic_load(&thread->state) != kThreadAsked || ++silent > 8) continue;
    strcat(text, silent == 1 ? "" : ", ");
    AppendNumber(text, (uint64_t)thread->tid);
  }
  if (silent == 0) return;
  if (silent > 8) strcat(text, ", …");
  strcat(text, " did not answer, as threads that block SIGUSR2: nothing is known of them");
  char remark[600] = "";
  strcat(remark, silent == 1 ? "thread " : "threads ");
  strcat(remark, text);
  PutNote(out, "TTQ", kTtqRemark, remark, strlen(remark));
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void WriteMemory(const struct Out* out, int pagemap, const Elf64_Phdr* segment) {
  uint64_t begin, end;
  const uint64_t last = segment->p_vaddr + segment->p_filesz;
  for (uint64_t at = segment->p_vaddr; at < last;) {
    begin = at;
    end = last;
    if (segment->p_paddr == kSparse && !NextOwn(out->process, pagemap, at, last, &begin, &end))
      return;
    const uint64_t offset = segment->p_offset + (begin - segment->p_vaddr);
    const uint64_t done = WriteAt(out, offset, (const void*)begin, end - begin);
    at = begin + done;
    if (at < end) at = (at & ~(uint64_t)(kPage - 1)) + kPage; /* a page that cannot be read */
  }
}

static void WriteCore(struct Out* out) {
  struct ArmedProcess* process = out->process;
  ReadFile("/proc/self/maps", process->maps, sizeof(process->maps));
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  const uint32_t count = AddSegments(process, pagemap);

  Elf64_Phdr notes = {.p_type = PT_NOTE, .p_align = 4};
  notes.p_offset = out->at = sizeof(Elf64_Ehdr) + (count + 1) * sizeof(Elf64_Phdr);
  for (uint32_t i = 0; i < atomic_load(&process->thread_count); ++i) {
    if (atomic_load(&process->threads[i].state) != kThreadKnown) continue;
    PutThread(out, &process->threads[i], process->signal);
    if (i == 0) PutProcess(out);
    if (i == 0) PutFiles(out);
  }
  PutRemark(out);
  Flush(out);
  notes.p_filesz = out->at - notes.p_offset;

  uint64_t at = (out->at + kPage - 1) & ~(uint64_t)(kPage - 1);
  for (uint32_t i = 0; i < count; ++i) {
    process->segments[i].p_offset = at;
    at += process->segments[i].p_filesz;
  }
  /* Holes at the end count. */
  if (ftruncate(out->fd, (off_t)at) != 0) Fail(process, "cannot write", errno);
  for (uint32_t i = 0; i < count; ++i) {
    WriteMemory(out, pagemap, &process->segments[i]);
    process->segments[i].p_paddr = 0;
  }
  WriteAt(out, sizeof(Elf64_Ehdr), &notes, sizeof(notes));
  WriteAt(out, sizeof(Elf64_Ehdr) + sizeof(notes), process->segments, count * sizeof(Elf64_Phdr));
  Elf64_Ehdr head = {.e_type = ET_CORE,
                     .e_machine = EM_X86_64,
                     .e_version = EV_CURRENT,
                     .e_phoff = sizeof(Elf64_Ehdr),
                     .e_ehsize = sizeof(Elf64_Ehdr),
                     .e_phentsize = sizeof(Elf64_Phdr),
                     .e_phnum = (Elf64_Half)(count + 1)};
  memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_ident[EI_DATA] = ELFDATA2LSB;
  head.e_ident[EI_VERSION] = EV_CURRENT;
  WriteAt(out, 0, &head, sizeof(head));
}

/* Without what would arm ttq itself. */
static void TakeEnvironment(struct ArmedProcess* process) {
  size_t n = 0;
  for (char** at = environ; at != NULL && *at != NULL; ++at) {
    if (strncmp(*at, "LD_PRELOAD=", 11) == 0 || strncmp(*at, "TTQ_ARM=", 8) == 0) continue;
    if (n + 1 == sizeof(process->environment) / sizeof(process->environment[0])) break;
    process->environment[n++] = *at;
  }
  process->environment[n] = NULL;
}

void WriteCoreAndImport(struct ArmedProcess* process) {
  process->core[0] = 0;
  struct Out out = {.process = process, .fd = -1};
  for (uint64_t number = 0; out.fd < 0; ++number) {
    char* name = process->core;
    strcpy(name, process->folder);
    strcat(name, "/ttq-");
    AppendNumber(name, (uint64_t)process->pid);
    strcat(name, "-");
    AppendNumber(name, number);
    strcat(name, ".core");
    out.fd = open(name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (out.fd < 0 && errno != EEXIST) {
      const int error = errno;
      name[0] = 0;
      Fail(process, "cannot make a file in", error);
    }
  }
  WriteCore(&out);
  TakeEnvironment(process);
  /* ttq needs none of the program's descriptors, and others may wait for their ends. */
  syscall(SYS_close_range, 3, ~0u, 0);
  char* arguments[] = {process->command, "import", "--remove", process->core, NULL};
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  execve(process->command, arguments, process->environment);
  WriteText("ttq: cannot run ");
  WriteText(process->command);
  WriteText("; to make a recording of the snapshot: ttq import ");
  WriteText(process->core);
  WriteText("\n");
  _exit(1);
}

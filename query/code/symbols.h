// SPDX-License-Identifier: MIT
//
// Names and places of machine code: which function and line an address is in, and the way back from
// a name or a line to addresses. Answers come from DWARF when there is any (in the module or in its
// separate debug file), else from .symtab, else from .dynsym, and say which.
//
// A SymbolFile answers in the addresses of its ELF file and knows nothing of a process. A Module is
// a SymbolFile placed in a process by a load bias. A Symbolizer is the set of modules of a process
// and answers in the process's own addresses. Everything is parsed on demand, one compile unit at a
// time.
//
// Modules are untrusted: damaged bytes give fewer names, never an error of the whole and never a
// crash. Separate debug files are taken only when their build-id or CRC matches.
//
// Thread-safe: all const members of all classes here may be called concurrently (a lock per file).

#ifndef TTQ_QUERY_CODE_SYMBOLS_H_
#define TTQ_QUERY_CODE_SYMBOLS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_image.h"
#include "base/types.h"
#include "query/code/names.h"
#include "query/code/separate_debug_file.h"

namespace ttq {

class DwarfData;
class ElfFile;

// Where a name comes from, best first. kStart: `_start`, where a stripped program begins, and
// `main`, which that hands on. kPlt: an entry of the procedure linkage table, named after the
// function it jumps to.
enum class NameSource : uint8_t { kNone, kDwarf, kSymtab, kDynsym, kStart, kPlt };

// One function active at a pc.
struct InlineFrame {
  // Demangled and qualified, without return type and parameters: "ns::Stack<int>::push".
  std::string function;
  // As the linker knows it: "_ZN2ns5StackIiE4pushEi"; equals `function` in C.
  std::string symbol;
  // As recorded by the compiler, made absolute with the compilation directory; empty: unknown.
  std::string file;
  // From 1; 0: unknown. For an outer frame the line of the call that was inlined.
  int line = 0;
  // The address is the function's, or the copy's, entry.
  bool at_entry = false;
};

struct CodeLocation {
  // The innermost function, inlined or not; the same as frames[0].function. Empty: no name.
  std::string function;
  // The pc is in code inlined into the last of `frames`.
  bool inlined = false;
  // The last of `frames` is a copy that the compiler made with other parameters than were written
  // (`f.constprop.0`, `f.isra.0`, `f.part.0`): where its arguments are only DWARF can say.
  bool own_convention = false;
  // Innermost to outermost; the last is the function that really exists. Empty when no name.
  std::vector<InlineFrame> frames;
  // Base name of the module's path; empty when no module holds the pc.
  std::string module;
  // Of the innermost function.
  std::string file;
  int line = 0;
  // From the entry of the outermost function (frames.back()); for its cold part, from the start of
  // that part. Without a name: from the module's load address, or 0 without a module.
  uint64_t offset_in_function = 0;
  NameSource source = NameSource::kNone;
  // The code around the pc that a debugger steps over as one, and the line that it shows for it;
  // 0: none is known. `step_file`: its file, which need not be `file`.
  AddressRange step;
  int step_line = 0;
  std::string step_file;
  bool step_is_stmt = false;
  // Of the innermost `frames`, how many inlined copies begin at this very instruction.
  uint32_t begun = 0;

  // "main+0x12", by the outermost function, for labels in code; "" when there is no name.
  std::string NameAndOffset() const;
};

// One contiguous piece of a function's code.
struct CodeRange {
  enum class Kind : uint8_t {
    kBody,
    kCold,     // split off by the compiler: `f.cold`
    kInlined,  // a copy of it inside another function
  };
  AddressRange range;
  Kind kind = Kind::kBody;
  // kInlined: where a call of this copy starts executing; the pieces of one copy share it. Else the
  // function's entry.
  Address entry;
  // kInlined: the function that holds the copy, demangled.
  std::string inlined_into;
};

struct FunctionInfo {
  std::string name;    // demangled, without parameters
  std::string symbol;  // as the linker knows it
  std::string module;  // base name
  // Where the out-of-line function starts. Absent when every copy was inlined.
  std::optional<Address> entry;
  // Body pieces first, then cold ones, then inlined copies; ascending in each kind.
  std::vector<CodeRange> ranges;
  NameSource source = NameSource::kNone;
  // STT_GNU_IFUNC: entry and ranges are those of the function that the dynamic linker asks for the
  // address of the one to be called under this name.
  bool is_resolver = false;
};

// `found` is empty when nothing matches; then `suggestions` has up to 5 near names, nearest first.
template <class T>
struct NameMatches {
  std::vector<T> found;
  std::vector<std::string> suggestions;
};

struct LineMatch {
  // Begins where a debugger stops for the line (a row with is_stmt) and goes on to the next code of
  // another line. With optimization another statement may begin at the same instruction, and then
  // Symbolize names that one there.
  AddressRange range;
  std::string file;  // in full
  int line = 0;      // the line asked for, or the next one that has code
  std::string module;
};

struct VariableInfo {
  std::string name;  // demangled, qualified
  std::string symbol;
  std::string module;
  Address address;
  uint64_t size = 0;  // bytes; 0: unknown
  bool is_static = false;
  NameSource source = NameSource::kNone;
};

// The names of one ELF file, with its separate debug file if there is one. Addresses here are the
// file's own (st_value, DW_AT_low_pc), without a load bias.
class SymbolFile {
 public:
  ~SymbolFile();
  SymbolFile(const SymbolFile&) = delete;
  SymbolFile& operator=(const SymbolFile&) = delete;

  // `path` is where the module was; it is only used to name it and to look for debug files beside
  // it. kInvalidArgument, with the path in the message, when the bytes are not a readable x86-64
  // ELF.
  static absl::StatusOr<std::shared_ptr<const SymbolFile>> FromImage(FileImage image,
                                                                     std::string path,
                                                                     const SymbolOptions& options);
  // Maps the file at `path`. kNotFound, or as FromImage.
  static absl::StatusOr<std::shared_ptr<const SymbolFile>> Open(const std::string& path,
                                                                const SymbolOptions& options = {});

  const std::string& path() const;
  // Lower-case hexadecimal; empty when the file has none.
  const std::string& build_id() const;
  // The module's own DWARF or its debug file's; null: none.
  std::shared_ptr<const DwarfData> dwarf() const;
  // The module's own file, and its separate debug file or null.
  const ElfFile& elf() const;
  const ElfFile* debug_elf() const;

  // As CodeLocation, `module` left empty; `step` in the file's own addresses.
  CodeLocation Symbolize(uint64_t vaddr) const;

 private:
  friend class Module;
  friend class Symbolizer;
  struct Impl;
  explicit SymbolFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Shares SymbolFiles between the processes (and the times) of a recording: one per build-id, or per
// path and size where there is none. Thread-safe.
class SymbolFileCache {
 public:
  explicit SymbolFileCache(SymbolOptions options = {});
  ~SymbolFileCache();

 private:
  friend class Module;
  friend class Symbolizer;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What the reader of a recording knows about a module.
struct ModuleSpec {
  struct Mapping {
    AddressRange range;
    uint64_t file_offset = 0;
  };
  std::string path;
  // Every range mapped from the file; ascending. The load bias follows from them and the file's
  // program headers.
  std::vector<Mapping> mappings;
  // The file's bytes; called at most once, from any thread, when the first question needs them.
  // When it is null, fails, or gives bytes that hold no section headers (only what was mapped was
  // recorded), the file at `path` is used if its build-id proves it to be the same.
  std::function<absl::StatusOr<FileImage>()> contents;
  // Lower-case hexadecimal, empty: not known. Proves that the file at `path` is the one recorded.
  std::string build_id;
};

// A file at its place in a process.
class Module {
 public:
  ~Module();
  const std::string& path() const;
  const std::string& name() const;  // base name of the path
  const std::vector<ModuleSpec::Mapping>& mappings() const;
  // These load the file; the bias is what to add to one of its addresses.
  const std::string& build_id() const;
  uint64_t load_bias() const;
  // Null when the file cannot be read; status() says why.
  const SymbolFile* file() const;
  absl::Status status() const;

 private:
  friend class Symbolizer;
  struct Impl;
  explicit Module(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class Symbolizer {
 public:
  // `cache` may be shared; null makes one of its own. Where modules overlap, the later one wins.
  explicit Symbolizer(std::vector<ModuleSpec> modules,
                      std::shared_ptr<SymbolFileCache> cache = nullptr);
  ~Symbolizer();

  // Ascending by first address.
  const std::vector<std::unique_ptr<Module>>& modules() const;
  // Null when none holds it.
  const Module* ModuleAt(Address address) const;
  // Why names could be missing, one line per module that could not be read; for a note.
  std::vector<std::string> Problems() const;
  // The modules of which only what they export has a name: stripped, and without a debug file.
  std::vector<std::string> Stripped() const;

  // Never null. `pc` is the exact address of an instruction: for a return address pass the call's.
  // Cached: asking again costs a hash look-up.
  std::shared_ptr<const CodeLocation> Symbolize(Address pc) const;
  // "main+0x12", or "libfoo.so+0x1234" without a name, or "" outside modules.
  std::string NameOf(Address address) const;

  // kInvalidArgument, with the reason, for a regex or glob that cannot be understood; its message
  // does not repeat the pattern.
  absl::StatusOr<NameMatches<FunctionInfo>> FindFunctions(const NamePattern& pattern) const;
  // Those with exactly this linker's name, its version left out, in the modules' symbol tables
  // alone: quick, however large their debug information.
  std::vector<FunctionInfo> FindSymbol(std::string_view symbol) const;
  // The out-of-line function that holds `address`; its inlined copies elsewhere are left out.
  std::optional<FunctionInfo> FunctionAt(Address address) const;
  // `file` is matched as a tail of whole path components: "b.c" and "a/b.c" match "/src/a/b.c".
  // A line without code gives the next line of the file that has some, as a debugger does;
  // suggestions are file names.
  NameMatches<LineMatch> FindLine(std::string_view file, int line) const;
  // Globals and file- or function-level statics; matched as NamePattern::kName, or `module!name`
  // given as a pattern. Thread-local variables have no one address and are left out.
  absl::StatusOr<std::vector<VariableInfo>> FindVariables(const NamePattern& pattern) const;
  // Names of variables that are much like this one, which names none.
  std::vector<std::string> VariablesLike(std::string_view name) const;
  // The data symbol or variable that `address` is in.
  std::optional<VariableInfo> VariableAt(Address address) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ttq

#endif  // TTQ_QUERY_CODE_SYMBOLS_H_

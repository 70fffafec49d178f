// SPDX-License-Identifier: MIT
//
// Symbols of small programs (tests/support/programs), compared with what binutils' addr2line says
// of every instruction, and of damaged copies of them.

#include "query/code/symbols.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "query/code/disassembler.h"
#include "query/code/dwarf_info.h"
#include "query/code/elf_file.h"
#include "query/code/line_table.h"
#include "query/code/names.h"
#include "query/code/separate_debug_file.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;

const std::string kPrograms = TTQ_TEST_PROGRAMS;
constexpr uint64_t kBias = 0x7f1234560000;

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

// The program as a process would have it, at kBias.
ModuleSpec SpecOf(const std::string& path, const std::string& bytes) {
  ModuleSpec spec;
  spec.path = path;
  FileImage image = FileImage::FromString(bytes);
  auto elf = ElfFile::Parse(image);
  if (elf.ok()) {
    for (const ElfFile::Segment& s : elf->segments()) {
      if (s.type != 1) continue;  // PT_LOAD
      uint64_t page = ~uint64_t{0xfff};
      spec.mappings.push_back(
          {{Address(kBias + (s.address & page)), Address(kBias + s.address + s.memory_size)},
           s.offset & page});
    }
  }
  spec.contents = [image] { return image; };
  return spec;
}

Symbolizer Load(const std::string& program) {
  std::string path = kPrograms + "/" + program;
  return Symbolizer({SpecOf(path, ReadAll(path))});
}

NamePattern Name(std::string text, std::string module = "") {
  return {NamePattern::Kind::kName, std::move(text), std::move(module)};
}

// The one function of that name.
FunctionInfo Function(const Symbolizer& symbolizer, const std::string& name) {
  auto matches = symbolizer.FindFunctions(Name(name));
  if (!matches.ok() || matches->found.size() != 1) {
    ADD_FAILURE() << name << ": " << (matches.ok() ? matches->found.size() : 0) << " functions";
    return {};
  }
  return matches->found[0];
}

// addr2line's frames, innermost first: last component of the name, file, line.
struct OracleFrame {
  std::string function, file;
  int line;
  bool operator==(const OracleFrame&) const = default;
};
void PrintTo(const OracleFrame& f, std::ostream* out) {
  *out << f.function << " " << f.file << ":" << f.line;
}

// What the compiler, the linker and two demanglers agree on: the last component without arguments.
std::string Simple(const std::string& name) {
  std::string base(WithoutCloneSuffix(name));
  std::string shown = base.substr(0, 2) == "_Z" ? Demangle(base).name : base;
  std::string out;
  int depth = 0;
  for (char c : shown) {
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (depth == 0) out.push_back(c);
    if (c == '>' || c == ')' || c == '}') --depth;
  }
  size_t colons = out.rfind("::");
  return colons == std::string::npos ? out : out.substr(colons + 2);
}

std::map<uint64_t, std::vector<OracleFrame>> Addr2line(const std::string& path,
                                                       const std::vector<uint64_t>& addresses) {
  std::string list = testing::TempDir() + "/addresses." + std::to_string(getpid());
  {
    std::ofstream out(list);
    for (uint64_t a : addresses) out << "0x" << std::hex << a << "\n";
  }
  FILE* pipe = popen(("addr2line -a -f -i -e " + path + " < " + list).c_str(), "r");
  std::map<uint64_t, std::vector<OracleFrame>> all;
  char line[65536];
  uint64_t at = 0;
  std::string function;
  while (pipe != nullptr && fgets(line, sizeof line, pipe) != nullptr) {
    std::string s(line);
    s.erase(s.find_last_not_of('\n') + 1);
    if (s.substr(0, 4) == "0x00") {
      at = std::stoull(s, nullptr, 16);
      function.clear();
    } else if (function.empty()) {
      function = s;
    } else {
      s = s.substr(0, s.find(" (discriminator"));
      size_t colon = s.rfind(':');
      std::string file = s.substr(0, colon), number = s.substr(colon + 1);
      all[at].push_back({Simple(function), file == "??" ? "" : NormalizePath(file),
                         number == "?" ? 0 : std::stoi(number)});
      function.clear();
    }
  }
  if (pipe != nullptr) pclose(pipe);
  std::remove(list.c_str());
  return all;
}

using Line = std::pair<std::string, int>;

// The file and line of each address as gdb gives them.
std::map<uint64_t, Line> GdbLines(const std::string& path, const std::vector<uint64_t>& addresses) {
  const std::string script = testing::TempDir() + "/gdb." + std::to_string(getpid());
  {
    std::ofstream out(script);
    for (uint64_t a : addresses) out << "info line *0x" << std::hex << a << "\n";
  }
  FILE* pipe = popen(("gdb -nx -batch -x " + script + " " + path + " 2>/dev/null").c_str(), "r");
  std::map<uint64_t, Line> lines;
  char line[65536], file[4096];
  size_t answers = 0;
  while (pipe != nullptr && fgets(line, sizeof line, pipe) != nullptr) {
    int number = 0;
    if (sscanf(line, "Line %d of \"%4095[^\"]", &number, file) != 2) continue;
    if (answers < addresses.size()) lines[addresses[answers++]] = {NormalizePath(file), number};
  }
  if (pipe != nullptr) pclose(pipe);
  std::remove(script.c_str());
  return lines;
}

class AgainstAddr2line : public testing::TestWithParam<const char*> {};

TEST_P(AgainstAddr2line, EveryInstruction) {
  std::string path = kPrograms + "/" + GetParam();
  auto elf = ElfFile::Parse(*FileImage::Map(path));
  ASSERT_TRUE(elf.ok());
  Symbolizer symbolizer = Load(GetParam());
  // All of .text that compilers wrote: from each function's pieces.
  std::vector<uint64_t> addresses;
  auto all = symbolizer.FindFunctions({NamePattern::Kind::kGlob, "*", ""});
  ASSERT_TRUE(all.ok());
  for (const FunctionInfo& f : all->found) {
    if (f.source != NameSource::kDwarf) continue;
    for (const CodeRange& r : f.ranges) {
      if (r.kind == CodeRange::Kind::kInlined) continue;
      uint64_t begin = r.range.begin.v - kBias;
      for (const DisassembledInstruction& i :
           Disassembler().Disassemble(elf->BytesAt(begin, r.range.size()), Address(begin))) {
        addresses.push_back(i.address.v);
      }
    }
  }
  ASSERT_GT(addresses.size(), 60u);
  int inlined = 0, wrong = 0;
  // Where several lines begin at one address, addr2line names the last, gdb (and we) the one that a
  // statement begins with.
  std::vector<uint64_t> other_lines;
  std::map<uint64_t, Line> own_lines;
  for (const auto& [address, expected] : Addr2line(path, addresses)) {
    auto location = symbolizer.Symbolize(Address(kBias + address));
    std::vector<OracleFrame> got;
    for (const InlineFrame& f : location->frames) {
      got.push_back({Simple(f.function), NormalizePath(f.file), f.line});
    }
    inlined += location->inlined;
    if (got.size() == expected.size() &&
        (got[0].line != expected[0].line || got[0].file != expected[0].file)) {
      other_lines.push_back(address);
      own_lines[address] = {std::exchange(got[0].file, expected[0].file),
                            std::exchange(got[0].line, expected[0].line)};
    }
    EXPECT_EQ(got, expected) << std::hex << "0x" << address;
    if (got != expected && ++wrong > 10) break;
    EXPECT_EQ(location->source, NameSource::kDwarf);
    EXPECT_EQ(location->function, location->frames.front().function);
    EXPECT_EQ(location->module, GetParam());
  }
  EXPECT_GT(inlined, 5);
  EXPECT_LT(other_lines.size(), addresses.size() / 2);
  EXPECT_EQ(GdbLines(path, other_lines), own_lines);
}

INSTANTIATE_TEST_SUITE_P(Programs, AgainstAddr2line,
                         testing::Values("symbols_c", "symbols_c_dwarf4", "symbols_c_gz",
                                         "symbols_cc", "symbols_linked"));

TEST(Symbols, AFunctionHasItsColdPartAndItsInlinedCopies) {
  Symbolizer symbolizer = Load("symbols_c");
  FunctionInfo risky = Function(symbolizer, "Risky");
  ASSERT_TRUE(risky.entry.has_value());
  ASSERT_EQ(risky.ranges.size(), 2u);
  EXPECT_EQ(risky.ranges[0].kind, CodeRange::Kind::kBody);
  EXPECT_EQ(risky.ranges[0].range.begin, *risky.entry);
  EXPECT_EQ(risky.ranges[1].kind, CodeRange::Kind::kCold);
  EXPECT_EQ(symbolizer.Symbolize(risky.ranges[1].range.begin)->function, "Risky");
  EXPECT_EQ(symbolizer.Symbolize(risky.ranges[1].range.begin)->offset_in_function, 0u);

  FunctionInfo square = Function(symbolizer, "Square");
  EXPECT_FALSE(square.entry.has_value());
  ASSERT_GE(square.ranges.size(), 2u);
  for (const CodeRange& r : square.ranges) {
    EXPECT_EQ(r.kind, CodeRange::Kind::kInlined);
    EXPECT_EQ(r.inlined_into, "Work");
    auto location = symbolizer.Symbolize(r.range.begin);
    ASSERT_GE(location->frames.size(), 3u);
    EXPECT_EQ(location->frames[location->frames.size() - 2].function, "SumOfSquares");
    EXPECT_EQ(location->frames.back().function, "Work");
    EXPECT_EQ(location->NameAndOffset().substr(0, 7), "Work+0x");
  }

  auto at = symbolizer.FunctionAt(risky.ranges[1].range.begin);
  ASSERT_TRUE(at.has_value());
  EXPECT_EQ(at->entry, risky.entry);
}

TEST(Symbols, WithoutDebugInformationTheSymbolTableAnswersAndSaysSo) {
  Symbolizer symbolizer = Load("symbols_c_plain");
  FunctionInfo work = Function(symbolizer, "Work");
  EXPECT_EQ(work.source, NameSource::kSymtab);
  auto location = symbolizer.Symbolize(*work.entry + 3);
  EXPECT_EQ(location->function, "Work");
  EXPECT_EQ(location->offset_in_function, 3u);
  EXPECT_EQ(location->file, "");
  EXPECT_EQ(location->line, 0);
  EXPECT_EQ(location->source, NameSource::kSymtab);

  FunctionInfo risky = Function(symbolizer, "Risky");
  ASSERT_EQ(risky.ranges.size(), 2u);
  EXPECT_EQ(risky.ranges[1].kind, CodeRange::Kind::kCold);
}

TEST(Symbols, PltEntriesAreNamedAfterTheirTarget) {
  Symbolizer symbolizer = Load("symbols_c");
  FunctionInfo entry = Function(symbolizer, "strlen@plt");
  EXPECT_EQ(entry.source, NameSource::kPlt);
  EXPECT_EQ(symbolizer.Symbolize(*entry.entry)->function, "strlen@plt");
  EXPECT_TRUE(symbolizer.FindFunctions(Name("strlen"))->found.empty());
  EXPECT_TRUE(symbolizer.FindFunctions({NamePattern::Kind::kGlob, "strle*", ""})->found.empty());
  // What the entries share lies behind _init, which has no size, in another section.
  auto elf = ElfFile::Parse(FileImage::FromString(ReadAll(kPrograms + "/symbols_c")));
  ASSERT_TRUE(elf.ok());
  const auto at = [&](const char* section) {
    return symbolizer.Symbolize(Address(kBias + elf->FindSection(section)->address))->function;
  };
  EXPECT_EQ(at(".init"), "_init");
  EXPECT_EQ(at(".plt"), "");
}

TEST(Symbols, NamesOfCPlusPlus) {
  for (const char* program : {"symbols_cc", "symbols_linked"}) {
    Symbolizer symbolizer = Load(program);
    EXPECT_EQ(symbolizer.FindFunctions(Name("Stack::Push"))->found.size(), 2u);
    EXPECT_EQ(Function(symbolizer, "app::Stack<int>::Push").name, "app::Stack<int>::Push");
    EXPECT_EQ(Function(symbolizer, "Largest").name, "app::Largest<int>");
    EXPECT_EQ(Function(symbolizer, "Helper").name, "app::(anonymous namespace)::Helper");
    EXPECT_EQ(Function(symbolizer, "main").name, "main");
    EXPECT_EQ(Function(symbolizer, "app::Internal").name, "app::Internal");
    EXPECT_EQ(Function(symbolizer, "Point::operator+").name, "app::Point::operator+");
    EXPECT_EQ(
        symbolizer.FindFunctions({NamePattern::Kind::kRegex, "^app::Largest", ""})->found.size() +
            symbolizer.FindFunctions({NamePattern::Kind::kRegex, "^int app::Largest", ""})
                ->found.size(),
        1u);
    EXPECT_TRUE(symbolizer.FindFunctions(Name("Largest", "libc*"))->found.empty());
  }
}

TEST(Symbols, NothingFoundSuggestsWhatIsNear) {
  Symbolizer symbolizer = Load("symbols_c");
  auto functions = symbolizer.FindFunctions(Name("Sqare"));
  ASSERT_FALSE(functions->suggestions.empty());
  EXPECT_EQ(functions->suggestions[0], "Square");
  const std::vector<std::string> variables = symbolizer.VariablesLike("global_cuont");
  ASSERT_FALSE(variables.empty());
  EXPECT_EQ(variables[0], "global_count");
  auto lines = symbolizer.FindLine("symbol_c.c", 1);
  ASSERT_FALSE(lines.suggestions.empty());
  EXPECT_EQ(lines.suggestions[0], "symbols_c.c");
}

int LineWith(const std::string& text) {
  std::ifstream in(fs::path(__FILE__).parent_path() / "../support/programs/symbols_c.c");
  std::string line;
  for (int n = 1; std::getline(in, line); ++n) {
    if (line.find("// line: " + text) != std::string::npos) return n;
  }
  return 0;
}

TEST(Symbols, LinesGiveTheirCode) {
  Symbolizer symbolizer = Load("symbols_c");
  int line = LineWith("square");
  ASSERT_GT(line, 0);
  for (const char* file : {"symbols_c.c", "programs/symbols_c.c"}) {
    auto matches = symbolizer.FindLine(file, line);
    ASSERT_GE(matches.found.size(), 2u);  // two inlined copies
    for (const LineMatch& m : matches.found) {
      EXPECT_EQ(m.line, line);
      // Its own code is in the range, perhaps after another statement's.
      bool named = false;
      for (Address a = m.range.begin; a < m.range.end; ++a) {
        auto location = symbolizer.Symbolize(a);
        named |= location->line == line && location->function == "Square";
      }
      EXPECT_TRUE(named);
      EXPECT_TRUE(PathEndsWith(m.file, "support/programs/symbols_c.c"));
    }
  }
  EXPECT_TRUE(symbolizer.FindLine("bols_c.c", line).found.empty());
  // A comment has no code: the next line that has some answers.
  auto next = symbolizer.FindLine("symbols_c.c", 2);
  ASSERT_FALSE(next.found.empty());
  EXPECT_GT(next.found[0].line, 2);
  EXPECT_TRUE(symbolizer.FindLine("symbols_c.c", 100000).found.empty());
}

TEST(Symbols, Variables) {
  Symbolizer symbolizer = Load("symbols_c");
  auto count = symbolizer.FindVariables(Name("global_count"));
  ASSERT_EQ(count->size(), 1u);
  EXPECT_EQ(count->front().size, 4u);
  EXPECT_FALSE(count->front().is_static);
  auto table = symbolizer.FindVariables(Name("table"));
  ASSERT_EQ(table->size(), 1u);
  EXPECT_EQ(table->front().size, 64u);
  EXPECT_TRUE(table->front().is_static);
  EXPECT_EQ(symbolizer.VariableAt(table->front().address + 63)->name, "table");
  auto calls = symbolizer.FindVariables(Name("calls"));  // a static inside a function
  ASSERT_EQ(calls->size(), 1u);
  EXPECT_EQ(calls->front().name, "calls");

  auto depth = Load("symbols_cc").FindVariables(Name("app::Stack<int>::depth"));
  ASSERT_EQ(depth->size(), 1u);
  EXPECT_EQ(depth->front().size, 4u);
}

// A copy of symbols_linked and its debug file in a folder of its own.
class DebugFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("debug_files." + std::to_string(getpid()));
    fs::create_directories(folder_ / "bin/.debug");
    program_ = folder_ / "bin/symbols_linked";
    fs::copy_file(kPrograms + "/symbols_linked", program_);
    debug_ = ReadAll(kPrograms + "/symbols_linked.debug");
    build_id_ = ElfFile::Parse(*FileImage::Map(program_))->build_id();
    ASSERT_EQ(build_id_.size(), 40u);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Write(const fs::path& path, const std::string& bytes) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  std::string Found(const std::string& program) {
    SymbolOptions options;
    options.debug_directories = {folder_ / "debug"};
    auto found =
        FindSeparateDebugFile(*ElfFile::Parse(FileImage::FromString(program)), program_, options);
    return found ? fs::relative(found->path, folder_).string() : "";
  }

  fs::path folder_, program_;
  std::string debug_, build_id_;
};

TEST_F(DebugFiles, AreFoundInEveryPlace) {
  std::string program = ReadAll(program_);
  EXPECT_EQ(Found(program), "");
  Write(folder_ / ("debug" + (folder_ / "bin/symbols_linked.debug").string()), debug_);
  EXPECT_EQ(Found(program), "debug" + (folder_ / "bin/symbols_linked.debug").string());
  Write(folder_ / "bin/.debug/symbols_linked.debug", debug_);
  EXPECT_EQ(Found(program), "bin/.debug/symbols_linked.debug");
  Write(folder_ / "bin/symbols_linked.debug", debug_);
  EXPECT_EQ(Found(program), "bin/symbols_linked.debug");
  std::string by_id =
      "debug/.build-id/" + build_id_.substr(0, 2) + "/" + build_id_.substr(2) + ".debug";
  Write(folder_ / by_id, debug_);
  EXPECT_EQ(Found(program), by_id);
}

TEST_F(DebugFiles, APathAloneProvesNothing) {
  std::string program = ReadAll(program_);
  std::string other = ReadAll(kPrograms + "/symbols_c");
  Write(folder_ / "bin/symbols_linked.debug", other);
  Write(folder_ /
            ("debug/.build-id/" + build_id_.substr(0, 2) + "/" + build_id_.substr(2) + ".debug"),
        other);
  EXPECT_EQ(Found(program), "");
}

TEST_F(DebugFiles, WithoutABuildIdTheCrcDecides) {
  // The note's type is no longer NT_GNU_BUILD_ID.
  auto without_id = [](std::string bytes) {
    for (size_t at = bytes.find(std::string("\3\0\0\0GNU\0", 8)); at != std::string::npos;
         at = bytes.find(std::string("\3\0\0\0GNU\0", 8))) {
      bytes[at] = 0x7f;
    }
    return bytes;
  };
  std::string program = without_id(ReadAll(program_));
  Write(folder_ / "bin/symbols_linked.debug", debug_);
  EXPECT_EQ(Found(program), "bin/symbols_linked.debug");
  std::string changed = debug_;
  changed[changed.size() / 2] ^= 1;
  Write(folder_ / "bin/symbols_linked.debug", changed);
  EXPECT_EQ(Found(program), "");
}

TEST(Module, BytesWithoutSectionsAreCompletedFromDiskOnlyWhenTheBuildIdAgrees) {
  std::string path = kPrograms + "/symbols_c";
  std::string bytes = ReadAll(path);
  // What a recording of mappings holds: no section headers.
  std::string mapped = bytes;
  for (int i = 0x28; i < 0x30; ++i) mapped[i] = 0;  // e_shoff
  ModuleSpec spec = SpecOf(path, mapped);
  EXPECT_EQ(Function(Symbolizer({spec}), "Risky").source, NameSource::kDwarf);

  spec.path = kPrograms + "/symbols_cc";
  Symbolizer other({spec});
  EXPECT_TRUE(other.FindFunctions(Name("Largest"))->found.empty());
  EXPECT_TRUE(other.FindFunctions(Name("Risky"))->found.empty());

  spec.contents = nullptr;
  Symbolizer unproven({spec});
  EXPECT_EQ(unproven.Symbolize(spec.mappings[1].range.begin)->module, "symbols_cc");
  ASSERT_EQ(unproven.Problems().size(), 1u);
  EXPECT_NE(unproven.Problems()[0].find("not recorded"), std::string::npos);
}

TEST(Module, WhereTwoOverlapTheLaterWins) {
  ModuleSpec a = SpecOf(kPrograms + "/symbols_c", ReadAll(kPrograms + "/symbols_c"));
  ModuleSpec b = a;
  a.path = "/old";
  a.mappings = {{{Address(0x1000), Address(0x5000)}, 0}};
  b.path = "/new";
  b.mappings = {{{Address(0x2000), Address(0x3000)}, 0}};
  Symbolizer symbolizer({a, b});
  EXPECT_EQ(symbolizer.ModuleAt(Address(0x1fff))->name(), "old");
  EXPECT_EQ(symbolizer.ModuleAt(Address(0x2000))->name(), "new");
  EXPECT_EQ(symbolizer.ModuleAt(Address(0x3000))->name(), "old");
  EXPECT_EQ(symbolizer.ModuleAt(Address(0x5000)), nullptr);
  EXPECT_EQ(symbolizer.Symbolize(Address(0x9000))->module, "");
  EXPECT_EQ(symbolizer.NameOf(Address(0x9000)), "");
}

// Every question, on whatever the bytes are. Only that it returns matters.
void AskEverything(const std::string& path, const std::string& bytes, std::mt19937& random) {
  SymbolOptions options;
  options.debug_directories = {};
  options.search_beside_module = false;
  Symbolizer symbolizer({SpecOf(path, bytes)}, std::make_shared<SymbolFileCache>(options));
  for (const auto& module : symbolizer.modules()) {
    for (const ModuleSpec::Mapping& m : module->mappings()) {
      for (int i = 0; i < 8; ++i) {
        uint64_t size = std::min<uint64_t>(m.range.size(), 1 << 20);
        if (size > 0) symbolizer.Symbolize(m.range.begin + random() % size);
      }
      symbolizer.FunctionAt(m.range.begin + 0x50);
      symbolizer.VariableAt(m.range.begin);
    }
  }
  (void)symbolizer.FindFunctions(Name("Push"));
  (void)symbolizer.FindFunctions({NamePattern::Kind::kGlob, "*", ""});
  (void)symbolizer.FindFunctions(Name("nothing_like_it"));
  (void)symbolizer.FindVariables({NamePattern::Kind::kGlob, "*", ""});
  symbolizer.FindLine("symbols_cc.cc", 20);
  symbolizer.FindLine("symbols_c.c", 20);
}

class Damage : public testing::TestWithParam<const char*> {};

TEST_P(Damage, NeverCrashes) {
  const std::string whole = ReadAll(kPrograms + "/" + GetParam());
  ASSERT_FALSE(whole.empty());
  auto elf = ElfFile::Parse(FileImage::FromString(whole));
  ASSERT_TRUE(elf.ok());
  std::vector<ElfFile::Section> debug;
  for (const ElfFile::Section& s : elf->sections()) {
    if (s.name.substr(0, 6) == ".debug" && s.size > 0) debug.push_back(s);
  }
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::string bytes = whole;
    int changes = 1 + static_cast<int>(random() % 20);
    for (int i = 0; i < changes; ++i) {
      size_t at = random() % bytes.size();
      // Half of them where most of the parsing is, some in the headers.
      if (!debug.empty() && random() % 2 == 0) {
        const ElfFile::Section& s = debug[random() % debug.size()];
        at = s.offset + random() % s.size;
      } else if (random() % 4 == 0) {
        at = random() % std::min<size_t>(bytes.size(), 1024);
      } else if (random() % 4 == 0) {
        at = bytes.size() - 1 - random() % std::min<size_t>(bytes.size(), 3000);
      }
      const uint8_t kValues[] = {0, 0xff, 0x7f, 0x80, 1, static_cast<uint8_t>(random())};
      bytes[at] = static_cast<char>(kValues[random() % 6]);
    }
    if (random() % 10 == 0) bytes.resize(random() % bytes.size());
    AskEverything(GetParam(), bytes, random);
  }
}

// A DW_AT_sibling that points back must not be followed for ever.
TEST(DamagedLinks, SiblingLinksThatPointBackEnd) {
  const std::string whole = ReadAll(kPrograms + "/symbols_c");
  auto elf = ElfFile::Parse(FileImage::FromString(whole));
  ASSERT_TRUE(elf.ok());
  const ElfFile::Section* info = elf->FindSection(".debug_info");
  ASSERT_NE(info, nullptr);
  std::mt19937 random(1);
  int links = 0;
  for (uint32_t at = 12; at + 4 <= info->size; ++at) {
    // Four bytes that lead a little forward are mostly such a link.
    uint32_t value;
    std::memcpy(&value, whole.data() + info->offset + at, 4);
    if (value <= at + 4 || value > at + 300) continue;
    ++links;
    for (uint32_t back = 1; back < 60 && back < at; ++back) {
      std::string bytes = whole;
      value = at - back;
      std::memcpy(bytes.data() + info->offset + at, &value, 4);
      AskEverything("symbols_c", bytes, random);
    }
  }
  EXPECT_GT(links, 10);
}

INSTANTIATE_TEST_SUITE_P(Programs, Damage,
                         testing::Values("symbols_c", "symbols_c_dwarf4", "symbols_c_gz",
                                         "symbols_cc"));

}  // namespace
}  // namespace ttq

// SPDX-License-Identifier: MIT
//
// See trace_text.h.

#include "tests/support/trace_text.h"

#include <cstdlib>
#include <optional>
#include <vector>

#include "fmt/core.h"
#include "store/read/reader.h"
#include "tests/support/stream_builder.h"

namespace ttq {
namespace {

struct Word {
  std::string text;
  bool quoted = false;
};

// A line that cannot be read ends the parse from any depth; caught in RecordText.
struct BadLine {
  std::string why;
};

std::vector<Word> WordsOf(std::string_view line) {
  std::vector<Word> words;
  size_t at = 0;
  const auto hex = [&](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    throw BadLine{"\\x wants two hexadecimal digits"};
  };
  while (at < line.size()) {
    if (line[at] == ' ' || line[at] == '\t') {
      ++at;
    } else if (line[at] == '#') {
      break;
    } else if (line[at] == '"') {
      Word word{"", true};
      for (++at;; ++at) {
        if (at >= line.size()) throw BadLine{"a string without an end"};
        if (line[at] == '"') break;
        if (line[at] != '\\') {
          word.text += line[at];
          continue;
        }
        if (++at >= line.size()) throw BadLine{"a string without an end"};
        switch (line[at]) {
          case 'n':
            word.text += '\n';
            break;
          case 't':
            word.text += '\t';
            break;
          case '0':
            word.text += '\0';
            break;
          case 'x':
            if (at + 2 >= line.size()) throw BadLine{"a string without an end"};
            word.text += static_cast<char>(hex(line[at + 1]) * 16 + hex(line[at + 2]));
            at += 2;
            break;
          default:
            word.text += line[at];
        }
      }
      ++at;
      words.push_back(std::move(word));
    } else {
      const size_t end = std::min(line.find_first_of(" \t", at), line.size());
      words.push_back({std::string(line.substr(at, end - at))});
      at = end;
    }
  }
  return words;
}

class Reader {
 public:
  explicit Reader(StreamBuilder* builder) : builder_(*builder) {}

  void Line(std::string_view line) {
    words_ = WordsOf(line);
    at_ = 0;
    if (words_.empty()) return;
    Statement();
    if (at_ != words_.size()) throw BadLine{"unexpected '" + words_[at_].text + "'"};
  }

 private:
  const Word& Next(const char* what) {
    if (at_ == words_.size()) throw BadLine{std::string(what) + " is missing"};
    return words_[at_++];
  }
  bool More() const { return at_ < words_.size(); }
  bool Accept(std::string_view word) {
    if (!More() || words_[at_].text != word) return false;
    ++at_;
    return true;
  }
  void Demand(std::string_view word) {
    if (!Accept(word)) throw BadLine{fmt::format("'{}' is missing", word)};
  }
  static uint64_t NumberOf(const std::string& text) {
    char* end;
    const bool negative = text.starts_with("-");
    const uint64_t value = strtoull(text.c_str() + negative, &end, 0);
    if (*end != '\0' || end == text.c_str()) throw BadLine{"'" + text + "' is not a number"};
    return negative ? -value : value;
  }
  uint64_t Number(const char* what) { return NumberOf(Next(what).text); }
  std::string Bytes() {
    const Word& word = Next("a string");
    if (!word.quoted) throw BadLine{"a string in quotes is missing"};
    return word.text;
  }
  uint8_t Protection() {
    uint8_t protection = 0;
    for (const char c : Next("a protection").text) {
      if (c == 'r')
        protection |= 1;
      else if (c == 'w')
        protection |= 2;
      else if (c == 'x')
        protection |= 4;
      else if (c != '-')
        throw BadLine{"a protection has r, w, x, -"};
    }
    return protection;
  }

  void Statement() {
    const std::string verb = Next("a word").text;
    if (verb == "program") {
      const std::string path = Next("a path").text;
      std::vector<std::string> arguments{path};
      while (More()) arguments.push_back(Next("an argument").text);
      builder_.SetProgram(path, arguments);
    } else if (verb == "map") {
      const uint64_t begin = Number("begin"), end = Number("end");
      const uint8_t protection = Protection();
      const bool shared = Accept("shared");
      builder_.Map(begin, end, protection, shared, More() ? Next("a path").text : "");
    } else if (verb == "unmap") {
      const uint64_t begin = Number("begin");
      builder_.Unmap(begin, Number("end"));
    } else if (verb == "protect") {
      const uint64_t begin = Number("begin"), end = Number("end");
      builder_.Protect(begin, end, Protection());
    } else if (verb == "remap") {
      const uint64_t from = Number("from"), to = Number("to");
      builder_.Remap(from, to, Number("bytes"));
    } else if (verb == "initial" || verb == "kernel") {
      const uint64_t address = Number("an address");
      builder_.KernelWrite(verb == "initial" ? kTtqInitial : kTtqBySyscall, address, Bytes());
    } else if (verb == "thread") {
      builder_.Thread(static_cast<uint32_t>(Number("a thread")));
      has_thread_ = true;
    } else if (verb == "thread-exit") {
      const uint64_t thread = Number("a thread");
      builder_.ThreadExit(static_cast<uint32_t>(thread), Number("an address"));
    } else if (verb == "enter") {
      const std::string name = Next("a system call").text;
      std::vector<uint64_t> arguments;
      while (More()) arguments.push_back(Number("an argument"));
      builder_.SyscallEnter(SyscallNumber(name), arguments);
    } else if (verb == "return") {
      builder_.SyscallExit(static_cast<int64_t>(Number("a result")));
    } else if (verb == "output") {
      const uint64_t fd = Number("a descriptor");
      builder_.Output(static_cast<uint32_t>(fd), Bytes());
    } else if (verb == "fault") {
      const uint64_t signal = Number("a signal");
      std::string address = Next("an address").text;
      if (!address.ends_with(":")) throw BadLine{"':' is missing after the address"};
      address.pop_back();
      const uint64_t pc = Number("a pc");
      builder_.Fault(Instruction(pc), static_cast<uint32_t>(signal), NumberOf(address));
    } else if (verb == "fatal") {
      builder_.SetFatalSignal(static_cast<uint32_t>(Number("a signal")));
    } else if (verb == "exit") {
      builder_.Exit(static_cast<uint32_t>(Number("a status")));
    } else if (verb == "block") {
      builder_.NextBlock();
    } else if (verb == "blocks") {
      for (uint64_t n = Number("a count"); n > 0; --n) {
        builder_.NextBlock();
        builder_.Execute({.pc = kFillerPc});
      }
    } else if (verb == "killed") {
      builder_.Killed();
    } else if (verb[0] >= '0' && verb[0] <= '9') {
      if (!has_thread_) throw BadLine{"no thread runs yet"};
      builder_.Execute(Instruction(NumberOf(verb)));
    } else {
      throw BadLine{"'" + verb + "' is none of the words of tests/support/trace_text.h"};
    }
  }

  StreamBuilder::Instruction Instruction(uint64_t pc) {
    StreamBuilder::Instruction out{.pc = pc};
    const std::string verb = Next("what it does").text;
    if (verb == "nop") return out;
    if (verb == "set") {
      out.kind = StreamBuilder::Instruction::kSetReg;
      out.reg = Register(Next("a register").text);
      Demand("=");
      out.result = Number("a value");
      return out;
    }
    if (verb != "load" && verb != "store") throw BadLine{"load, store, set or nop is missing"};
    out.address = Number("an address");
    out.size = static_cast<uint32_t>(Number("a size"));
    if (out.size == 0 || out.size > 32) throw BadLine{"a size is from 1 to 32"};
    out.kind = StreamBuilder::Instruction::kLoad;
    if (verb == "load") return out;
    out.kind = StreamBuilder::Instruction::kStore;
    Demand("=");
    const Word& value = Next("a value");
    if (value.quoted) {
      out.value = value.text;
    } else {
      const uint64_t number = NumberOf(value.text);
      out.value.assign(reinterpret_cast<const char*>(&number), sizeof(number));
    }
    out.value.resize(out.size);
    return out;
  }

  static uint32_t Register(const std::string& name) {
    for (uint32_t r = 0; r < kGprCount; ++r) {
      if (name == GprName(static_cast<Gpr>(r))) return r;
    }
    throw BadLine{"no register is called " + name};
  }
  static int64_t SyscallNumber(const std::string& name) {
    for (int64_t n = 0; n < 512; ++n) {
      if (SyscallName(n) == name) return n;
    }
    throw BadLine{"no system call is called " + name};
  }

  static constexpr uint64_t kFillerPc = 0xf11100;

  StreamBuilder& builder_;
  std::vector<Word> words_;
  size_t at_ = 0;
  bool has_thread_ = false;
};

}  // namespace

absl::Status RecordText(std::string_view text, const std::string& directory) {
  StreamBuilder builder;
  Reader reader(&builder);
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    try {
      reader.Line(text.substr(0, end));
    } catch (const BadLine& bad) {
      return absl::InvalidArgumentError(fmt::format("line {}: {}", number, bad.why));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return builder.Record(directory);
}

}  // namespace ttq

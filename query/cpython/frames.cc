// SPDX-License-Identifier: MIT

#include "query/cpython/frames.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "fmt/core.h"

namespace ttq::python {
namespace {

constexpr size_t kMaxLineTable = 16 << 20;
constexpr size_t kMaxVariables = 1 << 16;

// Reads a location table (Objects/locations.md of 3.11 and later).
class LocationTable {
 public:
  LocationTable(std::string_view table, int first_line) : table_(table), line_(first_line) {}

  // The next entry; false at the end. `units` of two bytes it covers.
  bool Next(int64_t* units, Position* position) {
    if (at_ >= table_.size()) return false;
    const uint8_t head = Byte();
    *units = (head & 7) + 1;
    *position = {};
    const int code = head >> 3 & 15;
    constexpr int kNone = 15, kLong = 14, kNoColumns = 13, kOneLine = 10;
    if (code == kNone) return true;
    if (code == kLong) {
      line_ += Signed();
      const uint64_t lines = Unsigned(), column = Unsigned(), end_column = Unsigned();
      *position = {Line(0), Line(lines), Column(column), Column(end_column)};
    } else if (code == kNoColumns) {
      line_ += Signed();
      *position = {Line(0), Line(0), 0, 0};
    } else if (code >= kOneLine) {
      line_ += code - kOneLine;
      const uint8_t column = Byte(), end_column = Byte();
      *position = {Line(0), Line(0), column + 1, end_column + 1};
    } else {
      const uint8_t rest = Byte();
      const int column = code << 3 | rest >> 4;
      *position = {Line(0), Line(0), column + 1, column + (rest & 15) + 1};
    }
    return true;
  }

 private:
  uint8_t Byte() { return at_ < table_.size() ? static_cast<uint8_t>(table_[at_++]) : 0; }
  uint64_t Unsigned() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 6) {
      const uint8_t byte = Byte();
      value |= uint64_t{byte & 63u} << shift;
      if ((byte & 64) == 0) break;
    }
    return value;
  }
  int64_t Signed() {
    const uint64_t value = Unsigned();
    const int64_t magnitude = static_cast<int64_t>(value >> 1);
    return value & 1 ? -magnitude : magnitude;
  }
  int Line(uint64_t more) const {
    const int64_t line = line_ + static_cast<int64_t>(std::min<uint64_t>(more, 1 << 30));
    return line > 0 && line < INT32_MAX ? static_cast<int>(line) : 0;
  }
  // Kept with 1 added; 0: none.
  static int Column(uint64_t kept) { return kept < 1 << 30 ? static_cast<int>(kept) : 0; }

  std::string_view table_;
  size_t at_ = 0;
  int64_t line_;
};

// co_lnotab of 3.9 (Objects/lnotab_notes.txt).
int LineByLnotab(std::string_view table, int first_line, int64_t offset) {
  int64_t line = first_line, address = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    address += static_cast<uint8_t>(table[i]);
    if (address > offset) break;
    line += static_cast<int8_t>(table[i + 1]);
  }
  return static_cast<int>(line);
}

// co_linetable of 3.10 (PEP 626).
int LineByPep626(std::string_view table, int first_line, int64_t offset) {
  int64_t line = first_line, end = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    const int8_t delta = static_cast<int8_t>(table[i + 1]);
    constexpr int8_t kNoLine = -128;
    if (delta != kNoLine) line += delta;
    const int64_t start = end;
    end += static_cast<uint8_t>(table[i]);
    if (start <= offset && offset < end) return delta == kNoLine ? 0 : static_cast<int>(line);
  }
  return 0;
}

}  // namespace

Position PositionAt(const Layout& layout, const Code& code, int64_t offset) {
  if (offset < 0) return {code.first_line, code.first_line, 0, 0};
  if (layout.traits.line_table != LineTable::kLocations) {
    const int line = layout.traits.line_table == LineTable::kLnotab
                         ? LineByLnotab(code.line_table, code.first_line, offset)
                         : LineByPep626(code.line_table, code.first_line, offset);
    return {line, line, 0, 0};
  }
  LocationTable table(code.line_table, code.first_line);
  int64_t at = 0, units = 0;
  Position position;
  while (table.Next(&units, &position)) {
    at += 2 * units;
    if (offset < at) return position;
  }
  return {};
}

int LineAt(const Layout& layout, const Code& code, int64_t offset) {
  return PositionAt(layout, code, offset).line;
}

std::vector<LineRange> LineRanges(const Layout& layout, const Code& code) {
  std::vector<LineRange> ranges;
  const std::string_view table = code.line_table;
  if (layout.traits.line_table == LineTable::kLnotab) {
    ranges.push_back({0, INT64_MAX, code.first_line});
    int64_t at = 0;
    for (size_t i = 0; i + 1 < table.size(); i += 2) {
      at += static_cast<uint8_t>(table[i]);
      const auto delta = static_cast<int8_t>(table[i + 1]);
      if (delta == 0) continue;
      const int line = ranges.back().line + delta;
      ranges.back().end = at;
      if (ranges.back().begin == at) ranges.pop_back();
      ranges.push_back({at, INT64_MAX, line});
    }
  } else if (layout.traits.line_table == LineTable::kRanges) {
    int64_t at = 0;
    int line = code.first_line;
    for (size_t i = 0; i + 1 < table.size(); i += 2) {
      const auto delta = static_cast<int8_t>(table[i + 1]);
      constexpr int8_t kNoLine = -128;
      if (delta != kNoLine) line += delta;
      const int64_t begin = at;
      at += static_cast<uint8_t>(table[i]);
      if (at != begin) ranges.push_back({begin, at, delta == kNoLine ? 0 : line});
    }
  } else {
    LocationTable locations(table, code.first_line);
    int64_t at = 0, units = 0;
    Position position;
    while (locations.Next(&units, &position)) {
      const int64_t begin = at;
      at += 2 * units;
      if (!ranges.empty() && ranges.back().line == position.line) {
        ranges.back().end = at;
      } else {
        ranges.push_back({begin, at, position.line});
      }
    }
  }
  return ranges;
}

uint64_t FrameOfObject(const Layout& layout, Memory& memory, uint64_t object) {
  if (layout.frame_object_frame == kAbsent) return object;
  return memory.Pointer(object + static_cast<uint64_t>(layout.frame_object_frame));
}

uint64_t InstructionsOf(const Layout& layout, Memory& memory, const Code& code) {
  if (layout.code_adaptive != kAbsent) return code.instructions;
  return memory.Pointer(code.address + static_cast<uint64_t>(layout.code_bytes)) +
         static_cast<uint64_t>(layout.bytes_data);
}

std::shared_ptr<const Code> FrameReader::ReadCode(uint64_t address) {
  const auto [it, is_new] = codes_.try_emplace(address);
  if (!is_new) return it->second;
  const TypeInfo* type = objects_.TypeOf(address);
  if (!type || type->name != "code" || type->heap()) return nullptr;
  Memory& memory = this->memory();
  auto code = std::make_shared<Code>();
  code->address = address;
  const auto text = [&](Offset field) {
    return objects_.Str(memory.Pointer(address + field)).value_or("");
  };
  code->name = text(layout_.code_name);
  code->qualname = layout_.code_qualname == kAbsent ? code->name : text(layout_.code_qualname);
  code->filename = text(layout_.code_filename);
  code->first_line = memory.Get<int32_t>(address + layout_.code_firstlineno).value_or(0);
  code->flags = memory.Get<uint32_t>(address + layout_.code_flags).value_or(0);
  code->argcount = memory.Get<int32_t>(address + layout_.code_argcount).value_or(0);
  code->posonlyargcount = memory.Get<int32_t>(address + layout_.code_posonlyargcount).value_or(0);
  code->kwonlyargcount = memory.Get<int32_t>(address + layout_.code_kwonlyargcount).value_or(0);
  code->line_table =
      objects_.BytesOf(memory.Pointer(address + layout_.code_linetable), kMaxLineTable)
          .value_or("");
  if (layout_.code_adaptive != kAbsent) {
    code->instructions = address + layout_.code_adaptive;
    code->first_traceable =
        2 * int64_t{memory.Get<int32_t>(address + layout_.code_firsttraceable).value_or(0)};
  }
  const auto add = [&](Offset field, uint8_t kind) {
    const auto names = objects_.Items(memory.Pointer(address + field), kMaxVariables);
    if (!names) return;
    for (const uint64_t name : *names) {
      code->variables.push_back({objects_.Str(name).value_or("?"), kind});
    }
  };
  if (layout_.code_varnames != kAbsent) {
    add(layout_.code_varnames, kLocalFast);
    add(layout_.code_cellvars, kLocalCell);
    add(layout_.code_freevars, kLocalFree);
  } else {
    add(layout_.code_localsplusnames, 0);
    const std::string kinds =
        objects_.BytesOf(memory.Pointer(address + layout_.code_localspluskinds)).value_or("");
    for (size_t i = 0; i < code->variables.size() && i < kinds.size(); ++i) {
      code->variables[i].kind = static_cast<uint8_t>(kinds[i]) & 0xf0;
    }
  }
  it->second = code;
  return it->second;
}

// Where the instructions that a frame's pointer goes into begin.
uint64_t FrameReader::InstructionBase(uint64_t frame, const Code& code) {
  if (layout_.code_tlbc == kAbsent) return code.instructions;
  // Each thread of a free-threaded build may run a copy of its own.
  const auto index = memory().Get<int32_t>(frame + layout_.frame_tlbc_index);
  const uint64_t copies = memory().Pointer(code.address + layout_.code_tlbc);
  if (!index || copies == 0 || *index < 0) return code.instructions;
  const auto count = memory().Get<int64_t>(copies);
  if (!count || *index >= *count) return code.instructions;
  const uint64_t copy = memory().Pointer(copies + 8 + 8 * uint64_t(*index));
  return copy == 0 ? code.instructions : copy;
}

FrameReader::Kind FrameReader::ReadFrame(uint64_t address, Frame* frame, bool current) {
  Memory& memory = this->memory();
  *frame = {};
  frame->address = address;
  const auto code_word = memory.Get<uint64_t>(address + layout_.frame_code);
  if (!code_word) return Kind::kBroken;
  if (!layout_.traits.frame_is_object) {
    uint8_t owner = memory.Get<uint8_t>(address + layout_.frame_owner).value_or(0xff);
    if (owner > 4) return Kind::kBroken;
    // 3.14 tells C's stack (4) from the interpreter (3); neither is Python.
    if (layout_.traits.shims && owner >= 3) return Kind::kShim;
    frame->owner = static_cast<FrameOwner>(owner);
  }
  frame->code = ReadCode(layout_.Untag(*code_word));
  if (!frame->code) {
    // None, or what a program that replaces the evaluation of frames puts there (PEP 523).
    return objects_.TypeOf(layout_.Untag(*code_word)) ? Kind::kShim : Kind::kBroken;
  }
  frame->globals = memory.Pointer(address + layout_.frame_globals);
  frame->builtins = memory.Pointer(address + layout_.frame_builtins);
  frame->locals = memory.Pointer(address + layout_.frame_locals);
  if (layout_.traits.frame_is_object) {
    const int32_t lasti = memory.Get<int32_t>(address + layout_.frame_instruction).value_or(-1);
    frame->offset = layout_.OffsetOfLasti(lasti);
    frame->is_entry = true;
    frame->generator = memory.Pointer(address + layout_.frame_generator);
    if (frame->generator != 0) frame->owner = FrameOwner::kGenerator;
  } else {
    const uint64_t instruction = memory.Pointer(address + layout_.frame_instruction);
    frame->offset = static_cast<int64_t>(instruction - InstructionBase(address, *frame->code));
    frame->function = layout_.Untag(memory.Pointer(address + layout_.frame_function));
    if (layout_.frame_is_entry != kAbsent) {
      frame->is_entry = memory.Get<uint8_t>(address + layout_.frame_is_entry).value_or(0) != 0;
    }
    if (frame->owner == FrameOwner::kGenerator) {
      frame->generator = address - layout_.generator_iframe;
    } else if (frame->offset < frame->code->first_traceable) {
      if (!current || frame->code->flags & kCodeGeneratorLike) return Kind::kIncomplete;
    }
  }
  frame->position = PositionAt(layout_, *frame->code, frame->offset);
  return Kind::kPython;
}

std::optional<uint64_t> FrameReader::Previous(uint64_t address) {
  return memory().Get<uint64_t>(address + layout_.frame_previous);
}

namespace {

// Whether the frames below `frame` lead to `target`, another frame or 0, the end.
bool LeadsTo(const Layout& layout, Memory& memory, uint64_t frame, uint64_t target) {
  if (frame == target) return false;
  for (size_t i = 0; i < FrameReader::kMaxFrames; ++i) {
    if (frame == target) return true;
    if (frame == 0 || frame % 8 != 0) return false;
    const std::optional<uint64_t> next = memory.Get<uint64_t>(frame + layout.frame_previous);
    if (!next) return false;
    frame = *next;
  }
  return false;
}

}  // namespace

bool CFrameLooksSet(const Layout& layout, Memory& memory, uint64_t cframe) {
  const uint64_t previous = memory.Pointer(cframe + layout.cframe_previous);
  return previous == 0 || LeadsTo(layout, memory, memory.Pointer(cframe + layout.cframe_current),
                                  memory.Pointer(previous + layout.cframe_current));
}

// Whether a function's frame has not executed anything yet.
bool FrameReader::IsFresh(uint64_t address) {
  Frame frame;
  return ReadFrame(address, &frame, /*current=*/true) == Kind::kPython &&
         frame.owner == FrameOwner::kThread && frame.offset < frame.code->first_traceable;
}

FrameReader::Current FrameReader::CurrentFrame(uint64_t thread_state) {
  Memory& memory = this->memory();
  Current current;
  const auto take = [&](uint64_t at) {
    const auto frame = memory.Get<uint64_t>(at);
    current.known = frame.has_value();
    current.frame = frame.value_or(0);
  };
  if (layout_.thread_frame != kAbsent) {
    take(thread_state + layout_.thread_frame);
    return current;
  }
  if (layout_.thread_current_frame != kAbsent) {
    take(thread_state + layout_.thread_current_frame);
    return current;
  }
  uint64_t cframe = memory.Pointer(thread_state + layout_.thread_cframe);
  if (cframe != 0) {
    // A frame that is being entered: compilers make it current before they link it to the one
    // below; C's evaluation loop, entered, installs its cframe before it fills it in.
    const auto last_write = [this](uint64_t at) {
      return last_write_ ? last_write_(at) : std::nullopt;
    };
    const bool looks_set = CFrameLooksSet(layout_, memory, cframe);
    const uint64_t frame = memory.Pointer(cframe + layout_.cframe_current);
    if (looks_set && (!IsFresh(frame) || last_write(frame + layout_.frame_previous))) {
      current.frame = frame;
      current.cframe = cframe;
      return current;
    }
    uint64_t outer = memory.Pointer(cframe + layout_.cframe_previous);
    if (const auto write = last_write(cframe + layout_.cframe_current)) {
      const uint64_t bottom = memory.Pointer(outer + layout_.cframe_current);
      current.frame = write->value;
      current.cframe = cframe;
      current.is_entry = !LeadsTo(layout_, memory, write->previous, bottom);
      current.below = current.is_entry ? bottom : write->previous;
      return current;
    }
    if (!looks_set) {
      if (!last_write(cframe + layout_.cframe_previous)) {
        const auto install = last_write(thread_state + layout_.thread_cframe);
        if (install) outer = install->previous;
      }
      cframe = outer;
    }
  }
  current.cframe = cframe;
  if (cframe == 0) {
    current.known = false;
  } else {
    take(cframe + layout_.cframe_current);
  }
  return current;
}

Stack FrameReader::Walk(uint64_t thread_state) {
  const Current current = CurrentFrame(thread_state);
  if (!current.known) {
    Stack stack;
    stack.incomplete =
        fmt::format("the thread state at {:#x} does not say which frame it runs", thread_state);
    return stack;
  }
  return WalkFrom(current);
}

Stack FrameReader::WalkFrom(const Current& current) {
  Stack stack;
  uint64_t address = current.frame, cframe = current.cframe;
  absl::flat_hash_set<uint64_t> seen;
  size_t run = 0;  // the innermost frame of those that one C function runs
  const auto end_run = [&stack, &run](uint64_t on_c_stack) {
    for (; run < stack.frames.size(); ++run) stack.frames[run].on_c_stack = on_c_stack;
  };
  // Steps include the shims and the incomplete frames.
  for (size_t steps = 0; address != 0; ++steps) {
    if (steps >= kMaxFrames) {
      stack.incomplete = fmt::format("the stack is deeper than {} frames", kMaxFrames);
      break;
    }
    if (!seen.insert(address).second) {
      stack.incomplete = fmt::format("the frame at {:#x} is its own caller", address);
      break;
    }
    Frame frame;
    const Kind kind = ReadFrame(address, &frame, /*current=*/stack.frames.empty());
    if (kind == Kind::kBroken) {
      stack.incomplete =
          fmt::format("there is no frame at {:#x}, where the stack goes on", address);
      break;
    }
    if (kind == Kind::kShim && !stack.frames.empty()) stack.frames.back().is_entry = true;
    const bool ends_run = layout_.frame_is_entry != kAbsent &&
                          (steps == 0 && current.below ? current.is_entry : frame.is_entry);
    if (kind == Kind::kPython) stack.frames.push_back(std::move(frame));
    if (ends_run) {
      end_run(cframe);
      if (cframe != 0) cframe = memory().Pointer(cframe + layout_.cframe_previous);
    } else if (kind == Kind::kShim) {
      // C's own frame is a variable of the function that runs those above it.
      end_run(address);
    }
    const std::optional<uint64_t> previous =
        steps == 0 && current.below ? current.below : Previous(address);
    if (!previous) {
      stack.incomplete = fmt::format("the frame at {:#x} does not tell its caller", address);
      break;
    }
    address = *previous;
  }
  return stack;
}

std::optional<Frame> FrameReader::SuspendedFrame(uint64_t generator) {
  const TypeInfo* type = objects_.TypeOf(generator);
  if (!type ||
      (type->name != "generator" && type->name != "coroutine" && type->name != "async_generator")) {
    return std::nullopt;
  }
  uint64_t address;
  if (layout_.generator_iframe != kAbsent) {
    const auto state = memory().Get<int8_t>(generator + layout_.generator_state);
    if (!state || *state >= layout_.traits.generator_executing) return std::nullopt;
    address = generator + layout_.generator_iframe;
  } else {
    address = memory().Pointer(generator + layout_.generator_frame);
    if (address == 0) return std::nullopt;
  }
  Frame frame;
  if (ReadFrame(address, &frame) != Kind::kPython) return std::nullopt;
  frame.generator = generator;
  return frame;
}

void FrameReader::AddDict(uint64_t mapping, size_t most, std::vector<LocalVariable>* variables) {
  const auto items = objects_.DictItems(mapping, most);
  if (!items) return;
  absl::flat_hash_set<std::string> known;
  for (const LocalVariable& variable : *variables) known.insert(variable.name);
  for (const auto& [key, value] : *items) {
    std::optional<std::string> name = objects_.Str(key);
    if (!name || !known.insert(*name).second) continue;
    variables->push_back({*std::move(name), value, 0, LocalVariable::Kind::kName});
  }
}

std::vector<LocalVariable> FrameReader::Locals(const Frame& frame, size_t most) {
  std::vector<LocalVariable> variables;
  const Code& code = *frame.code;
  for (size_t i = 0; i < code.variables.size(); ++i) {
    const auto& [name, kind] = code.variables[i];
    LocalVariable variable;
    variable.name = name;
    variable.slot = frame.address + layout_.frame_localsplus + 8 * i;
    variable.value = layout_.Untag(memory().Pointer(variable.slot));
    variable.kind = kind & kLocalFree     ? LocalVariable::Kind::kFree
                    : kind & kLocalCell   ? LocalVariable::Kind::kCell
                    : kind & kLocalHidden ? LocalVariable::Kind::kHidden
                                          : LocalVariable::Kind::kLocal;
    if (variable.value == 0) continue;
    if (kind & (kLocalCell | kLocalFree)) {
      // Holds the bare value until the function has made its cells.
      const TypeInfo* type = objects_.TypeOf(variable.value);
      if (type && type->name == "cell" && !type->heap()) {
        variable.slot = variable.value + layout_.cell_value;
        variable.value = memory().Pointer(variable.slot);
        if (variable.value == 0) continue;
      }
    }
    // Up to 3.10 an argument that is also a cell has two places, one of them empty.
    variables.push_back(std::move(variable));
  }
  if (frame.locals != 0 && (code.flags & kCodeOptimized) == 0) {
    AddDict(frame.locals, most, &variables);
  }
  return variables;
}

uint64_t FrameReader::Lookup(const Frame& frame, std::string_view name, std::string* scope) {
  for (const LocalVariable& variable : Locals(frame)) {
    if (variable.name == name) {
      *scope = "local";
      return variable.value;
    }
  }
  if (const uint64_t value = objects_.DictGet(frame.globals, name)) {
    *scope = "global";
    return value;
  }
  if (const uint64_t value = objects_.DictGet(frame.builtins, name)) {
    *scope = "builtin";
    return value;
  }
  return 0;
}

}  // namespace ttq::python

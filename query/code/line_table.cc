// SPDX-License-Identifier: MIT

#include "query/code/line_table.h"

#include <libdwarf/dwarf.h>

#include <algorithm>

#include "base/text.h"

namespace ttq {
namespace {

// Honest tables have far fewer; a damaged count must not cost more than the bytes it is of.
constexpr size_t kMaxFiles = 1u << 20;

std::string Under(std::string_view directory, std::string_view name) {
  return name.empty() || name[0] == '/' || directory.empty() ? std::string(name)
                                                             : Cat(directory, "/", name);
}

struct Entry {
  std::string_view name;
  uint64_t directory = 0;
};

// A list of directories or files of DWARF 5 (section 6.2.4.1): which fields an entry has, then the
// entries.
std::vector<Entry> ReadEntries(const DwarfData& data, const DwarfUnit& unit, ByteCursor* cursor) {
  std::vector<std::pair<uint64_t, uint16_t>> fields(cursor->Fixed<uint8_t>());
  for (auto& [content, form] : fields) {
    content = cursor->Uleb();
    form = static_cast<uint16_t>(cursor->Uleb());
  }
  std::vector<Entry> entries;
  const uint64_t count = std::min<uint64_t>(cursor->Uleb(), kMaxFiles);
  for (uint64_t i = 0; i < count && cursor->ok(); ++i) {
    const uint64_t before = cursor->at();
    Entry entry;
    for (const auto& [content, form] : fields) {
      DieAttribute value;
      if (!DwarfData::ReadValue(cursor, unit, form, 0, &value)) return entries;
      if (content == DW_LNCT_path) entry.name = data.Text(unit, value);
      if (content == DW_LNCT_directory_index) entry.directory = value.value;
    }
    if (cursor->at() == before) break;  // entries of nothing
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace

std::string NormalizePath(std::string_view path) {
  std::vector<std::string_view> parts;
  bool absolute = !path.empty() && path[0] == '/';
  while (!path.empty()) {
    size_t slash = path.find('/');
    std::string_view part = path.substr(0, slash);
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
    if (part.empty() || part == ".") continue;
    if (part == ".." && !parts.empty() && parts.back() != "..") {
      parts.pop_back();
    } else if (part != ".." || !absolute) {
      parts.push_back(part);
    }
  }
  std::string out = absolute ? "/" : "";
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out.push_back('/');
    out.append(parts[i]);
  }
  return out;
}

LineHeader ReadLineHeader(const DwarfData& data, const DwarfUnit& unit) {
  LineHeader header;
  const Die root = data.RootDie(unit);
  const auto at = root.Find(DW_AT_stmt_list);
  if (!at) return header;
  const std::string_view directory = root.Text(DW_AT_comp_dir);
  ByteCursor cursor(data.Lines(), at->value);
  uint64_t length = cursor.Fixed<uint32_t>();
  DwarfUnit table = unit;  // with the table's own size of offsets
  table.offset_size = length == 0xffffffff ? 8 : 4;
  if (table.offset_size == 8) length = cursor.Fixed<uint64_t>();
  const uint64_t begin = cursor.at();
  const uint16_t version = cursor.Fixed<uint16_t>();
  if (!cursor.ok() || length > data.Lines().size() - begin || version < 2 || version > 5) {
    return header;
  }
  if (version == 5 && (cursor.Fixed<uint8_t>() != 8 || cursor.Fixed<uint8_t>() != 0)) return header;
  const uint64_t header_length = cursor.Number(table.offset_size);
  const uint64_t program = cursor.at() + header_length;
  if (!cursor.ok() || program < header_length || program > begin + length) return header;
  header.min_instruction = cursor.Fixed<uint8_t>();
  if (version >= 4) cursor.Fixed<uint8_t>();  // operations per instruction: of VLIW machines
  header.default_is_stmt = cursor.Fixed<uint8_t>() != 0;
  header.line_base = cursor.Fixed<int8_t>();
  header.line_range = cursor.Fixed<uint8_t>();
  header.opcode_base = cursor.Fixed<uint8_t>();
  for (int i = 1; i < header.opcode_base; ++i) header.operands.push_back(cursor.Fixed<uint8_t>());
  std::vector<std::string> directories;
  const auto add_file = [&](std::string_view name, uint64_t in) {
    header.files.push_back(NormalizePath(
        Under(in < directories.size() ? std::string_view(directories[in]) : "", name)));
  };
  if (version == 5) {
    // Directory 0 is the compilation directory itself.
    for (const Entry& entry : ReadEntries(data, table, &cursor)) {
      directories.push_back(Under(directories.empty() ? "" : directory, entry.name));
    }
    for (const Entry& entry : ReadEntries(data, table, &cursor)) {
      add_file(entry.name, entry.directory);
    }
  } else {
    directories.emplace_back(directory);
    for (std::string_view name = cursor.Text(); !name.empty(); name = cursor.Text()) {
      directories.push_back(Under(directory, name));
    }
    header.files.emplace_back();
    for (std::string_view name = cursor.Text(); !name.empty(); name = cursor.Text()) {
      const uint64_t in = cursor.Uleb();
      cursor.Uleb();  // when it was modified
      cursor.Uleb();  // its size
      add_file(name, in);
    }
  }
  if (!cursor.ok() || header.line_range == 0 || header.opcode_base == 0) return LineHeader();
  header.program = data.Lines().subspan(program, begin + length - program);
  return header;
}

LineTable ReadLines(const LineHeader& header, const std::function<bool(uint64_t)>& is_code) {
  LineTable table;
  ByteCursor cursor(header.program, 0);
  LineRow row = {};
  size_t first = 0;  // of this sequence
  bool ascending = true;
  // As gdb keeps them: the line and file of the last row that counted; whether a discriminator was
  // set since the line became this one.
  uint32_t last_line = 0, last_file = 0;
  bool has_discriminator = false, discriminator = false;
  const auto advance_line = [&](int64_t by) {
    row.line += static_cast<uint32_t>(by);
    if (by != 0) has_discriminator = discriminator;
  };
  const auto begin_sequence = [&] {
    row = {0, 1, 1, header.default_is_stmt, false};
    last_line = last_file = 0;
    has_discriminator = discriminator = false;
    first = table.rows.size();
    ascending = true;
  };
  const auto add_row = [&] {
    if (table.rows.size() > first && row.address < table.rows.back().address) ascending = false;
    row.joined =
        row.line == 0 || (row.line == last_line && row.file == last_file && has_discriminator);
    if (row.line != 0) last_line = row.line;
    if (!row.joined) last_file = row.file;
    discriminator = false;
    table.rows.push_back(row);
    table.rows.back().line = std::min<uint32_t>(row.line, INT32_MAX);
  };
  const auto end_sequence = [&] {
    if (ascending && table.rows.size() > first && table.rows[first].address < row.address &&
        is_code(table.rows[first].address)) {
      table.sequences.push_back({table.rows[first].address, row.address,
                                 static_cast<uint32_t>(first),
                                 static_cast<uint32_t>(table.rows.size())});
    } else {
      table.rows.resize(first);
    }
    begin_sequence();
  };
  begin_sequence();
  while (!cursor.AtEnd()) {
    const uint8_t op = cursor.Fixed<uint8_t>();
    if (op >= header.opcode_base) {
      const int special = op - header.opcode_base;
      row.address += uint64_t{header.min_instruction} * (special / header.line_range);
      advance_line(header.line_base + special % header.line_range);
      add_row();
      continue;
    }
    switch (op) {
      case 0: {  // extended
        const uint64_t size = cursor.Uleb();
        ByteCursor inner(cursor.Block(size), 0);
        switch (inner.Fixed<uint8_t>()) {
          case DW_LNE_end_sequence:
            if (cursor.ok()) end_sequence();
            break;
          case DW_LNE_set_address:
            row.address = inner.Fixed<uint64_t>();
            break;
          case DW_LNE_set_discriminator:
            discriminator = inner.Uleb() != 0;
            has_discriminator = has_discriminator || discriminator;
            break;
          default:  // what nobody uses
            break;
        }
        break;
      }
      case DW_LNS_copy:
        add_row();
        break;
      case DW_LNS_advance_pc:
        row.address += header.min_instruction * cursor.Uleb();
        break;
      case DW_LNS_advance_line:
        advance_line(cursor.Sleb());
        break;
      case DW_LNS_set_file:
        row.file = static_cast<uint32_t>(cursor.Uleb());
        break;
      case DW_LNS_negate_stmt:
        row.is_stmt = !row.is_stmt;
        break;
      case DW_LNS_const_add_pc:
        row.address +=
            uint64_t{header.min_instruction} * ((255 - header.opcode_base) / header.line_range);
        break;
      case DW_LNS_fixed_advance_pc:
        row.address += cursor.Fixed<uint16_t>();
        break;
      default:  // columns, blocks, prologues; and opcodes of later versions
        for (int i = 0; i < header.operands[op - 1]; ++i) cursor.Uleb();
        break;
    }
  }
  table.rows.resize(first);  // of a sequence without an end
  table.rows.shrink_to_fit();
  std::sort(table.sequences.begin(), table.sequences.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return table;
}

const LineSequence* LineTable::SequenceAt(uint64_t address) const {
  auto it = std::upper_bound(sequences.begin(), sequences.end(), address,
                             [](uint64_t a, const LineSequence& s) { return a < s.begin; });
  if (it == sequences.begin()) return nullptr;
  --it;
  return address < it->end ? &*it : nullptr;
}

const LineRow* LineTable::RowAt(uint64_t address) const {
  const LineSequence* sequence = SequenceAt(address);
  if (sequence == nullptr) return nullptr;
  const auto begin = rows.begin() + sequence->first_row, end = rows.begin() + sequence->end_row;
  auto row = std::upper_bound(begin, end, address,
                              [](uint64_t a, const LineRow& r) { return a < r.address; });
  if (row == begin) return nullptr;
  auto statement = --row;
  while (!statement->is_stmt && statement != begin &&
         std::prev(statement)->address == row->address && std::prev(statement)->line != 0) {
    --statement;
  }
  return statement->is_stmt ? &*statement : &*row;
}

LineStep LineTable::StepAt(uint64_t address) const {
  LineStep step;
  const LineSequence* sequence = SequenceAt(address);
  if (sequence == nullptr) return step;
  const auto begin = rows.begin() + sequence->first_row, end = rows.begin() + sequence->end_row;
  const auto after = std::upper_bound(begin, end, address,
                                      [](uint64_t a, const LineRow& r) { return a < r.address; });
  auto best = after;
  do {
    if (best == begin) return step;
    --best;
  } while (best->joined);
  auto statement = best;
  for (auto row = best; !statement->is_stmt && row != begin;) {
    --row;
    if (row->address != best->address || row->file != best->file) break;
    if (!row->joined && row->is_stmt) statement = row;
  }
  if (statement->is_stmt) best = statement;
  const auto next = std::find_if(after, end, [](const LineRow& r) { return !r.joined; });
  step.begin = best->address;
  step.end = next == end ? sequence->end : next->address;
  step.line = best->line;
  step.file = best->file;
  step.is_stmt = best->is_stmt;
  return step;
}

}  // namespace ttq

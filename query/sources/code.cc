// SPDX-License-Identifier: MIT

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/code/disassembler.h"
#include "query/language/diagnostic.h"
#include "query/process/origin.h"
#include "query/rows/run_options.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/sources/resolve.h"

namespace ttq {
namespace {

// Of code that no function is known for.
constexpr uint64_t kDisassembleBytes = 64;
constexpr uint64_t kDisassembleMost = 16 << 20;

// What the operands of the instruction that is about to run hold: "%rax = 0x1, [0x2000] = 0x7".
Value ValuesOf(const Process& process, const Disassembler& disassembler,
               const DisassembledInstruction& instruction, const Registers& registers, Time t) {
  const std::optional<DecodedInstruction> decoded =
      disassembler.Decode(instruction.bytes, instruction.address);
  if (!decoded) return Null{};
  std::string text;
  for (const Operand& operand : decoded->operands) {
    if (operand.kind == Operand::Kind::kImmediate) continue;
    if (!text.empty()) text += ", ";
    text += OperandText(operand, *decoded, registers);
    const std::optional<Address> at = EffectiveAddress(operand, *decoded, registers);
    if (!at || decoded->operation == Operation::kLoadAddress) continue;
    const uint64_t size = std::clamp<uint64_t>(operand.size, 1, 32);
    absl::StatusOr<MemoryImage> image = process.Memory(*at, size, t);
    if (image.ok()) {
      text += image->all_present() ? " = " + ValueText(image->bytes) : " is not mapped";
    }
  }
  return OfText(text);
}

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::Executions& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const TimeOfQuery& ask) {
  const Process& process = context.process();
  absl::StatusOr<ResolvedCode> code = ResolvePlace(context, source.place);
  if (!code.ok()) {
    // A line of no native file may be one of Python's.
    const auto* line = std::get_if<ast::FileLine>(&source.place.what);
    if (line == nullptr || !context.HasPython()) return code.status();
    absl::StatusOr<SourcePlan> python =
        Plan(ast::PyExecutions{*line}, query, context, options, ask);
    return python.ok() || line->file.ends_with(".py") ? python : code.status();
  }
  ASSIGN_OR_RETURN(TimeSpan span, ResolveSpan(context, query.clauses.span, ask));
  absl::StatusOr<std::optional<ThreadNo>> thread = ResolveThread(context, query.clauses.thread);
  if (!thread.ok()) return thread.status();
  std::vector<AddressRange> entries;
  for (const Address entry : code->entries) {
    if (entry.v != ~uint64_t{0}) entries.push_back({entry, entry + 1});
  }
  SourcePlan plan;
  AddMoment(&plan);
  plan.columns.push_back({{"instruction", Type::kString}, 0, Derived::kInstruction});
  plan.presentation.table_columns = {"time", "thread", "pc", "instruction", "function"};
  plan.presentation.no_rows =
      fmt::format("{} was not executed{}{} ({})", code->text, SpanText(span),
                  *thread ? absl::StrCat(" in thread ", (*thread)->v) : "",
                  process.info().complete ? "proved from the index" : "in what was recorded");
  plan.reversible = true;
  if (!code->note.empty()) plan.notes.push_back(code->note);
  NotePastEnd(span, process.info(), &plan);
  plan.open = [&process, entries, base = span,
               base_thread = *thread](const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    const TimeSpan refined = Intersect(base, request.span);
    if (refined.empty() || entries.empty()) return NoRows(request);
    ScanControl* control = request.options->control;
    auto open = [&process, entries, refined, direction = request.direction,
                 thread = base_thread ? base_thread : request.thread, control] {
      return process.Executions(entries, refined, direction, thread, control);
    };
    auto fill = [](Execution&& execution, Row* row) {
      row->push_back(execution.time);
      row->push_back(OfThread(execution.thread));
      row->push_back(execution.pc);
    };
    return OperatorPtr(
        std::make_unique<CursorSource<Execution>>(open, fill, control, request.outcome));
  };
  plan.explain = [&process, entries, base = span,
                  text = code->text](const SourceRequest& request) -> absl::StatusOr<std::string> {
    const TimeSpan refined = Intersect(base, request.span);
    if (refined.empty()) return std::string("no time to look at: no rows");
    ASSIGN_OR_RETURN(ScanPlan scan, process.ExplainExecutions(entries, refined));
    return ScanText(
        fmt::format("executions of {}{}, {}", text, SpanText(refined),
                    request.direction == Direction::kForward ? "first to last" : "last to first"),
        scan);
  };
  return plan;
}

absl::StatusOr<SourcePlan> Plan(const ast::Disassemble& source, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  const Process& process = context.process();
  ASSIGN_OR_RETURN(Time at, ResolveAt(context, query.clauses.at, ask));
  absl::StatusOr<const Symbolizer*> symbols = context.SymbolsAt(at);
  if (!symbols.ok()) return symbols.status();
  std::vector<AddressRange> ranges;
  SourcePlan plan;
  const auto own_code = [&ranges](const FunctionInfo& function) {
    for (const CodeRange& piece : function.ranges) {
      if (piece.kind != CodeRange::Kind::kInlined) ranges.push_back(piece.range);
    }
  };
  if (const auto* number = std::get_if<ast::Number>(&source.place.what)) {
    const Address address(number->value);
    if (const std::optional<FunctionInfo> function = (*symbols)->FunctionAt(address)) {
      own_code(*function);
    }
    if (ranges.empty()) {
      ranges.push_back(
          {address,
           Address(std::max(address.v + kDisassembleBytes,
                            address.v + kDisassembleBytes < address.v ? ~uint64_t{0} : 0))});
      plan.notes.push_back(fmt::format("no function is known at {:#x}; {} bytes are shown",
                                       address.v, kDisassembleBytes));
    }
  } else {
    ASSIGN_OR_RETURN(ResolvedCode code, ResolvePlace(context, source.place));
    ranges = code.ranges;
    if (std::holds_alternative<ast::FunctionPattern>(source.place.what)) {
      // Copies of it inside other functions are those functions' code, unless there is no other.
      std::vector<AddressRange> copies = std::exchange(ranges, {});
      for (const Address entry : code.entries) {
        const std::optional<FunctionInfo> function = (*symbols)->FunctionAt(entry);
        if (function && function->entry == entry) own_code(*function);
      }
      if (ranges.empty()) ranges = std::move(copies);
    }
    if (!code.note.empty()) plan.notes.push_back(code.note);
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.begin < b.begin; });
  uint64_t total = 0;
  for (const AddressRange& range : ranges) total += range.size();
  if (total > kDisassembleMost) {
    return ErrorAt(source.place.range, "this is more than 16 MiB of code",
                   "name a single function");
  }
  // Columns are derived as of `time`, which is no column of these rows.
  plan.time_slot = plan.width++;
  plan.pc_slot = plan.width;
  Add(&plan, "address", Type::kAddress);
  Add(&plan, "bytes", Type::kBytes);
  Add(&plan, "instruction", Type::kString);
  Add(&plan, "current", Type::kString);
  Add(&plan, "values", Type::kString);
  AddPlace(&plan);
  plan.presentation.table_columns = {"address", "bytes", "instruction", "function"};
  if (query.clauses.at) {
    plan.presentation.table_columns = {"current", "address", "instruction", "values", "function"};
  }
  SetCompute(
      &plan,
      [&process, ranges, t = at, symbols = *symbols,
       then = query.clauses.at.has_value()]() -> absl::StatusOr<std::vector<Row>> {
        const Disassembler disassembler([symbols](Address a) { return symbols->NameOf(a); });
        std::optional<Registers> registers;
        if (then) {
          absl::StatusOr<Registers> running = process.RegistersAt(t, std::nullopt);
          if (running.ok()) registers = *running;
        }
        std::vector<Row> rows;
        for (const AddressRange& range : ranges) {
          ASSIGN_OR_RETURN(MemoryImage image, process.Memory(range.begin, range.size(), t));
          for (size_t i = 0; i < image.bytes.size();) {
            if (!image.present[i]) {
              ++i;
              continue;
            }
            size_t end = i;
            while (end < image.bytes.size() && image.present[end]) ++end;
            const auto bytes = absl::MakeConstSpan(
                reinterpret_cast<const uint8_t*>(image.bytes.data()) + i, end - i);
            for (DisassembledInstruction& instruction :
                 disassembler.Disassemble(bytes, range.begin + i)) {
              Value mark, values;
              if (registers && instruction.address == registers->pc) {
                mark = "=>";
                values = ValuesOf(process, disassembler, instruction, *registers, t);
              }
              rows.push_back(
                  {t, instruction.address,
                   Bytes{std::string(instruction.bytes.begin(), instruction.bytes.end())},
                   std::move(instruction.text), std::move(mark), std::move(values)});
            }
            i = end;
          }
        }
        return rows;
      },
      fmt::format("{} bytes of code as memory at time {}", total, at.v));
  plan.presentation.no_rows =
      ranges.empty() ? "no code" : process.DescribeUnmapped(ranges[0].begin, at);
  return plan;
}

}  // namespace ttq

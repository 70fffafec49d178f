// SPDX-License-Identifier: MIT

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/rows/run_options.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/sources/resolve.h"
#include "store/read/moment_info.h"

namespace ttq {

absl::StatusOr<SourcePlan> Plan(const ast::Threads&, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  const Process& process = context.process();
  ASSIGN_OR_RETURN(Time at, ResolveAt(context, query.clauses.at, ask));
  SourcePlan plan;
  AddMoment(&plan);
  Add(&plan, "os_tid", Type::kInteger);
  Add(&plan, "start", Type::kTime);
  Add(&plan, "end", Type::kTime);
  Add(&plan, "instructions", Type::kInteger);
  // Recordings do not know them.
  const bool unknown = HistoryUnknown(process);
  if (unknown) Add(&plan, "name", Type::kString);
  plan.presentation.table_columns = {"thread", "os_tid", "start", "end", "instructions"};
  // Of one moment there is no other time to ask about.
  if (unknown) plan.presentation.table_columns = {"thread", "os_tid", "name"};
  if (query.clauses.at || unknown) {
    plan.presentation.table_columns.insert(plan.presentation.table_columns.end(),
                                           {"pc", "function"});
  }
  SetCompute(
      &plan,
      [&process, t = at,
       then = query.clauses.at.has_value() || unknown]() -> absl::StatusOr<std::vector<Row>> {
        std::vector<Row> rows;
        for (const Thread& thread : process.threads()) {
          Row row = {Null{}, OfThread(thread.number), Null{}};
          if (then) {
            if (thread.start > t || thread.end < t) continue;
            row[0] = t;
            absl::StatusOr<Registers> registers = process.RegistersAt(t, thread.number);
            if (registers.ok()) {
              row[2] = registers->pc;
            } else if (!absl::IsNotFound(registers.status())) {
              return registers.status();
            }
          }
          row.push_back(int64_t{thread.os_tid});
          const bool unknown = HistoryUnknown(process);
          row.push_back(unknown ? Value(Null{}) : Value(thread.start));
          row.push_back(OfTime(thread.end));
          row.push_back(unknown ? Value(Null{}) : OfCount(thread.instructions));
          if (unknown) {
            const std::vector<ThreadMoment>& known = MomentInfoOf(process).threads;
            const size_t index = thread.number.v - 1;
            row.push_back(OfText(index < known.size() ? known[index].name : ""));
          }
          rows.push_back(std::move(row));
        }
        return rows;
      },
      "the list of threads");
  return plan;
}

absl::StatusOr<SourcePlan> Plan(const ast::Modules&, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  const Process& process = context.process();
  ASSIGN_OR_RETURN(Time at, ResolveAt(context, query.clauses.at, ask));
  SourcePlan plan;
  Add(&plan, "module", Type::kString);
  Add(&plan, "address", Type::kAddress);
  Add(&plan, "end", Type::kAddress);
  Add(&plan, "load_bias", Type::kAddress);
  Add(&plan, "loaded", Type::kTime);
  Add(&plan, "unloaded", Type::kTime);
  Add(&plan, "build_id", Type::kString);
  Add(&plan, "path", Type::kString);
  plan.presentation.table_columns = {"address", "end", "loaded", "unloaded", "path"};
  SetCompute(
      &plan,
      [&process, t = at,
       then = query.clauses.at.has_value()]() -> absl::StatusOr<std::vector<Row>> {
        ASSIGN_OR_RETURN(std::vector<LoadedModule> modules, process.Modules());
        std::vector<Row> rows;
        for (const LoadedModule& module : modules) {
          if (then && (module.loaded > t || module.unloaded <= t)) continue;
          rows.push_back({std::string(BaseName(module.path)), module.range.begin, module.range.end,
                          Address(module.load_bias),
                          HistoryUnknown(process) ? Value(Null{}) : Value(module.loaded),
                          OfTime(module.unloaded), OfText(module.build_id), module.path});
        }
        return rows;
      },
      "the list of modules");
  return plan;
}

absl::StatusOr<SourcePlan> Plan(const ast::Maps&, const ast::Query& query, const Context& context,
                                const RunOptions&, const TimeOfQuery& ask) {
  const Process& process = context.process();
  ASSIGN_OR_RETURN(Time at, ResolveAt(context, query.clauses.at, ask));
  SourcePlan plan;
  Add(&plan, "address", Type::kAddress);
  Add(&plan, "end", Type::kAddress);
  Add(&plan, "size", Type::kInteger);
  Add(&plan, "protection", Type::kString);
  Add(&plan, "since", Type::kTime);
  Add(&plan, "offset", Type::kAddress);
  Add(&plan, "path", Type::kString);
  SetCompute(
      &plan,
      [&process, t = at]() -> absl::StatusOr<std::vector<Row>> {
        ASSIGN_OR_RETURN(std::vector<Mapping> maps, process.MappingsAt(t));
        std::vector<Row> rows;
        for (const Mapping& map : maps) {
          const char protection[] = {map.protection & 1 ? 'r' : '-', map.protection & 2 ? 'w' : '-',
                                     map.protection & 4 ? 'x' : '-', map.shared ? 's' : 'p'};
          rows.push_back({map.range.begin, map.range.end, OfCount(map.range.size()),
                          std::string(protection, sizeof protection),
                          HistoryUnknown(process) ? Value(Null{}) : Value(map.since),
                          map.path.empty() || map.path[0] == '[' ? Value(Null{})
                                                                 : Value(Address(map.file_offset)),
                          OfText(map.path)});
        }
        return rows;
      },
      fmt::format("the mappings at time {}", at.v));
  return plan;
}

}  // namespace ttq

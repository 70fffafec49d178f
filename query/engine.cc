// SPDX-License-Identifier: MIT
//
// The engine: a context that lives as long as it does, and streams that run plans; see engine.h.

#include "query/engine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "query/context.h"
#include "query/planner.h"

namespace ttq {
namespace {

class PlanStream : public ResultStream {
 public:
  explicit PlanStream(Plan plan) : plan_(std::move(plan)) {}

  const std::vector<Column>& columns() const override { return plan_.columns; }
  const Presentation& presentation() const override { return plan_.presentation; }
  bool complete() const override { return plan_.outcome->complete; }
  bool interrupted() const override { return plan_.outcome->interrupted; }
  const std::string& note() const override { return plan_.outcome->note; }

  absl::StatusOr<bool> Next(Row* row) override {
    if (!plan_.root) return ending_;
    ending_ = plan_.root->Next(row);
    if (ending_.ok() && *ending_) {
      any_ = true;
      return ending_;
    }
    plan_.root.reset();
    if (ending_.ok() && !plan_.outcome->interrupted) Conclude();
    return ending_;
  }

 private:
  void Conclude() {
    if (plan_.outcome->source_rows == 0) {
      // `first 0` never asked, so nothing is known.
      if (!plan_.outcome->source_ended) {
        plan_.presentation.no_rows.clear();
      } else if (plan_.explain_nothing) {
        plan_.outcome->AddNote(plan_.explain_nothing());
      }
    } else if (!any_) {
      plan_.presentation.no_rows = kNoRowPasses;
    }
  }

  Plan plan_;
  bool any_ = false;
  absl::StatusOr<bool> ending_ = false;
};

class ProcessEngine : public Engine {
 public:
  ProcessEngine(const Recording* recording, const Process* process)
      : context_(recording, process) {}

  absl::StatusOr<std::unique_ptr<ResultStream>> Run(const ast::Query& query,
                                                    const RunOptions& options) const override {
    absl::StatusOr<Plan> plan = MakePlan(query, context_, options, /*explain=*/false);
    if (!plan.ok()) return plan.status();
    return std::make_unique<PlanStream>(*std::move(plan));
  }

  absl::StatusOr<std::string> Explain(const ast::Query& query,
                                      const RunOptions& options) const override {
    absl::StatusOr<Plan> plan = MakePlan(query, context_, options, /*explain=*/true);
    if (!plan.ok()) return plan.status();
    return absl::StrCat(absl::StrJoin(plan->steps, "\n"), "\n");
  }

  const Process& process() const override { return context_.process(); }

 private:
  Context context_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Open(const Recording* recording,
                                                     std::optional<ProcessNo> number) {
  absl::StatusOr<const Process*> process =
      recording->Open(number.value_or(recording->default_process()));
  if (!process.ok()) return process.status();
  return std::make_unique<ProcessEngine>(recording, *process);
}

}  // namespace ttq

// SPDX-License-Identifier: MIT
//
// The engine: a context that lives as long as it does, and streams that run plans; see engine.h.

#include "query/engine/engine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "query/cpython/context.h"
#include "query/engine/planner.h"

namespace ttq {
namespace {

// An answer that says that there is no such name, or no such thing, is not to be believed when part
// of the recording did not read: then that is the error.
absl::Status OrDamage(const absl::Status& s, const Recording& recording) {
  if (s.ok() || absl::IsCancelled(s) || absl::IsDataLoss(s)) return s;
  absl::Status damage = recording.Damage();
  return damage.ok() ? s : damage;
}

class PlanStream : public ResultStream {
 public:
  PlanStream(Plan plan, const Recording& recording)
      : plan_(std::move(plan)), recording_(recording) {}

  const std::vector<Column>& columns() const override { return plan_.columns; }
  const Presentation& presentation() const override { return plan_.presentation; }
  bool complete() const override { return plan_.outcome->complete; }
  bool interrupted() const override { return plan_.outcome->interrupted; }
  const std::string& note() const override { return plan_.outcome->note; }

  absl::StatusOr<bool> Next(Row* row) override {
    if (!plan_.root) return ending_;
    ending_ = plan_.root->Next(row);
    const bool more = ending_.ok() && *ending_;
    any_ = any_ || more;
    if (!more) {
      plan_.root.reset();
      if (!ending_.ok()) {
        ending_ = OrDamage(ending_.status(), recording_);
      } else if (!plan_.outcome->interrupted) {
        Conclude();
      }
    }
    NoteDamage();
    return ending_;
  }

 private:
  // Sources go on without a name or a file that does not read.
  void NoteDamage() {
    if (damage_noted_) return;
    const absl::Status damage = recording_.Damage();
    if (damage.ok()) return;
    damage_noted_ = true;
    const std::string what(damage.message());
    plan_.outcome->MarkIncomplete(
        absl::IsOutOfRange(damage) ? what
                                   : absl::StrCat("part of the recording does not read: ", what));
  }

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
  const Recording& recording_;
  bool any_ = false, damage_noted_ = false;
  absl::StatusOr<bool> ending_ = false;
};

class ProcessEngine : public Engine {
 public:
  ProcessEngine(const Recording* recording, const Process* process)
      : context_(recording, process) {}

  absl::StatusOr<std::unique_ptr<ResultStream>> Run(const ast::Query& query,
                                                    const RunOptions& options) const override {
    RETURN_IF_ERROR(CheckRecorded());
    absl::StatusOr<Plan> plan = MakePlan(query, context_, options, /*explain=*/false);
    if (!plan.ok()) return OrDamage(plan.status(), context_.recording());
    return std::make_unique<PlanStream>(*std::move(plan), context_.recording());
  }

  absl::StatusOr<std::string> Explain(const ast::Query& query,
                                      const RunOptions& options) const override {
    RETURN_IF_ERROR(CheckRecorded());
    absl::StatusOr<Plan> plan = MakePlan(query, context_, options, /*explain=*/true);
    if (!plan.ok()) return OrDamage(plan.status(), context_.recording());
    return absl::StrCat(absl::StrJoin(plan->steps, "\n"), "\n");
  }

  const Process& process() const override { return context_.process(); }
  const Context& context() const override { return context_; }

 private:
  // Of a process that was cut off before its first block was stored nothing can be said: that there
  // is no such function, say, would be wrong.
  absl::Status CheckRecorded() const {
    const ProcessInfo& info = context_.process().info();
    if (info.complete || info.blocks != 0) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("nothing of process ", info.number.v,
                                                      " was recorded: ", info.incomplete_reason));
  }

  Context context_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Open(const Recording* recording,
                                                     std::optional<ProcessNo> number) {
  ASSIGN_OR_RETURN(const Process* process,
                   recording->Open(number.value_or(recording->default_process())));
  return std::make_unique<ProcessEngine>(recording, process);
}

}  // namespace ttq

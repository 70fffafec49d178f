// SPDX-License-Identifier: MIT
//
// What one may want to ask after an answer; see answer.h.

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "base/text.h"
#include "cli/answer.h"
#include "fmt/core.h"
#include "query/language/parser.h"
#include "query/sources/sources.h"

namespace ttq {
namespace {

using Questions = std::vector<std::string>;

class Asker {
 public:
  Asker(const ast::Query& query, const Answered& answered) : query_(query), answered_(answered) {}

  Questions Ask() const {
    // Of counted or chosen columns: about the moment, where that is among them.
    for (const ast::Stage& stage : query_.stages) {
      const bool narrows = std::holds_alternative<ast::Count>(stage.what) ||
                           std::holds_alternative<ast::Distinct>(stage.what) ||
                           std::holds_alternative<ast::Select>(stage.what);
      if (narrows && !First("time")) return {};
    }
    return std::visit([this](const auto& s) { return After(s); }, query_.source);
  }

 private:
  // A column of the first row; null when it has none of that name.
  const Value* First(std::string_view name) const {
    if (answered_.rows.empty()) return nullptr;
    for (size_t i = 0; i < answered_.columns.size(); ++i) {
      if (answered_.columns[i].name != name) continue;
      return answered_.rows[0][i].is_null() ? nullptr : &answered_.rows[0][i];
    }
    return nullptr;
  }
  // " at 123": the first row's time, or the one that was asked about; "".
  std::string At(std::string_view column = "time") const {
    const Value* value = First(column);
    if (const Time* time = value ? value->get<Time>() : nullptr) {
      return fmt::format(" at {}", time->v);
    }
    return query_.clauses.at ? " at " + ast::ToString(*query_.clauses.at) : "";
  }
  std::string Before() const {
    const std::string at = At();
    return at.empty() ? "" : " before" + at.substr(3);
  }
  bool InPython() const {
    const Value* python = First("python");
    return python && python->object();
  }
  // The stacks at the first row's time.
  std::string Stack() const { return (InPython() ? "backtrace mixed" : "backtrace") + At(); }
  static std::string TextOf(const Value* value) {
    const auto* text = value ? value->get<std::string>() : nullptr;
    return text ? *text : "";
  }
  std::string AddressIn(std::string_view column) const {
    const Value* value = First(column);
    const Address* address = value ? value->get<Address>() : nullptr;
    return address ? fmt::format("{:#x}", address->v) : "";
  }
  bool Any() const { return answered_.row_count > 0; }

  template <class Source>
  Questions After(const Source&) const {
    return {};  // nothing in particular
  }
  Questions After(const ast::Accesses& s) const {
    if (!Any()) return {};
    // What a location means without the clauses that it was asked with is not known.
    const bool bare = !query_.clauses.at && !query_.clauses.span && !query_.clauses.frame;
    const std::string location = bare ? ast::ToString(s.location) : AddressIn("address");
    if (location.empty()) return {Stack()};
    if (s.kind == ast::Accesses::Kind::kWrites && s.mode == ast::Accesses::Mode::kAll) {
      return {"writes to " + location + " | count by function", Stack()};
    }
    return {Stack(), "last write to " + location + Before()};
  }
  Questions After(const ast::Memory& s) const {
    const std::string location = ast::ToString(s.location);
    if (query_.clauses.frame || query_.clauses.thread) return {"backtrace" + At()};
    if (query_.clauses.at) return {"last write to " + location + Before(), "backtrace" + At()};
    return {"last write to " + location, "writes to " + location + " | count by function"};
  }
  Questions After(const ast::Print& s) const {
    if (!std::holds_alternative<ast::Name>(s.expr->node) || AddressIn("address").empty() ||
        query_.clauses.frame || query_.clauses.thread) {
      return {"source" + At(), "backtrace" + At()};
    }
    return {"last write to " + ast::ToString(*s.expr) + Before(), "backtrace" + At()};
  }
  Questions After(const ast::ShowRegisters&) const { return {"backtrace" + At(), "source" + At()}; }
  Questions After(const ast::Backtrace&) const {
    Questions next = {"source" + At(), "registers" + At()};
    if (answered_.row_count > 1 && !query_.clauses.thread)
      next[1] = "source" + At() + " in frame 1";
    return next;
  }
  Questions After(const ast::ShowSource&) const { return {"backtrace" + At(), "registers" + At()}; }
  Questions After(const ast::Disassemble& s) const {
    const std::string place = ast::ToString(s.place);
    return {"executions of " + place + " | last 5", "executions of " + place + " | count"};
  }
  Questions After(const ast::Threads&) const { return {"backtrace all threads", "events thread"}; }
  Questions After(const ast::Waits&) const {
    return {"backtrace" + At() + " all threads", "threads"};
  }
  Questions After(const ast::Modules&) const { return {"maps", "events module"}; }
  Questions After(const ast::Maps&) const { return {"modules", "events map"}; }
  Questions After(const ast::Events&) const {
    if (!Any()) return {"events | count by kind"};
    return {"events | count by kind", Stack()};
  }
  Questions After(const ast::Executions& s) const {
    if (!Any()) return {};
    return {Stack(), "executions of " + ast::ToString(s.place) + " | count"};
  }
  Questions After(const ast::Calls& s) const {
    if (!Any()) return {};
    return {Stack(), "calls to " + ast::ToString(s.function) + " | count by caller"};
  }
  Questions After(const ast::Crash&) const {
    if (!Any()) return {"events exit"};
    if (First("exception")) return {"py exceptions | last 5", "py backtrace" + At()};
    return {"backtrace at crash all threads", "source at crash"};
  }
  Questions After(const ast::PyBacktrace&) const {
    return {"py locals" + At(), "py source" + At()};
  }
  Questions After(const ast::PyLocals&) const {
    return {"py backtrace" + At(), "py source" + At()};
  }
  Questions After(const ast::PySource&) const {
    return {"py locals" + At(), "py backtrace" + At()};
  }
  Questions After(const ast::PyPrint&) const { return {"py locals" + At(), "py backtrace" + At()}; }
  Questions After(const ast::PyCalls& s) const {
    if (!Any()) return {};
    return {"py backtrace" + At(), "py executions of " + ast::ToString(s.what) + " | first 20"};
  }
  Questions After(const ast::PyExecutions&) const {
    if (!Any()) return {};
    return {"py locals" + At(), "py backtrace" + At()};
  }
  Questions After(const ast::PyChanges&) const {
    if (!Any()) return {};
    return {"py backtrace" + At(), "backtrace" + At()};
  }
  Questions After(const ast::PyExceptions&) const {
    if (!Any()) return {};
    if (!First("time")) return {};
    return {"py locals" + At() + " + 1", "py backtrace" + At()};
  }
  Questions After(const ast::Creation&) const { return OfObject("object"); }
  Questions After(const ast::Deallocation&) const { return OfObject("object"); }
  Questions After(const ast::Lifetime&) const { return OfObject("object"); }
  Questions After(const ast::Refcounts&) const {
    const std::string address = AddressIn("object");
    if (address.empty()) return {};
    return {"why is " + address + " still alive", "lifetime of " + address};
  }
  Questions After(const ast::Object&) const { return OfObject("address"); }
  Questions After(const ast::ObjectsOfType&) const { return OfObject("address"); }
  Questions After(const ast::Heap&) const {
    Questions next;
    for (const char* column : {"freed_at", "allocated_at"}) {
      if (First(column)) next.push_back("backtrace" + At(column));
    }
    return next;
  }
  Questions After(const ast::HeapLeaks&) const { return {"calls to malloc | count by caller"}; }
  Questions After(const ast::Why& s) const {
    const std::string address = ast::ToString(*s.object.address);
    return {"refcounts of " + address, "lifetime of " + address};
  }
  Questions After(const ast::Trace&) const {
    if (!Any()) return {};
    return {Stack(), "source" + At()};
  }
  Questions After(const ast::PyTrace&) const {
    if (!Any()) return {};
    return {"py backtrace" + At(), "py locals" + At()};
  }
  Questions After(const ast::Origin&) const {
    if (!Any()) return {};
    return {Stack(), "source" + At()};
  }

  Questions OfObject(std::string_view column) const {
    const std::string address = AddressIn(column);
    if (address.empty()) return {};
    return {"refcounts of " + address, "lifetime of " + address};
  }

  const ast::Query& query_;
  const Answered& answered_;
};

}  // namespace

std::vector<std::string> NextQuestions(const ast::Query& query, const Answered& answered) {
  if (answered.exit_status != 0) return {};
  Questions questions = Asker(query, answered).Ask();
  if (answered.history_unknown) {
    std::erase_if(questions, [](const std::string& text) {
      const absl::StatusOr<ast::Query> next = ParseQuery(text);
      return !next.ok() || !IsAboutState(next->source);
    });
  }
  return questions;
}

}  // namespace ttq

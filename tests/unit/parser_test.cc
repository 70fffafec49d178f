// SPDX-License-Identifier: MIT

#include "query/language/parser.h"

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "query/language/diagnostic.h"
#include "query/language/tokens.h"

namespace ttq {
namespace {

// The canonical text, or the error as a user sees it.
std::string Canonical(std::string_view text) {
  const auto query = ParseQuery(text);
  if (query.ok()) return ToString(*query);
  const auto diagnostic = GetDiagnostic(query.status());
  return diagnostic ? RenderDiagnostic(text, *diagnostic) : query.status().ToString();
}

std::string Error(std::string_view text) {
  const auto query = ParseQuery(text);
  EXPECT_FALSE(query.ok()) << text;
  return query.ok() ? "" : Canonical(text);
}

struct Form {
  const char* text;
  const char* canonical;  // null: the text itself
};

// Every form of the language, and what it is the same as.
constexpr Form kForms[] = {
    // The examples that the language's contract lists.
    {"last write to 0x20003302710"},
    {"when was PyFunction 0x20003302710 created", "creation of PyFunction 0x20003302710"},
    {"py backtrace at (creation of 0x20003302710)"},
    {"calls to mkdir where string(arg0) matches /instances/ | py backtrace",
     "calls to mkdir | where string(arg0) matches /instances/ | py backtrace"},
    {"calls to PyUFunc_GenericFunctionInternal where full_args.in == 0 | first 1 | backtrace",
     "calls to PyUFunc_GenericFunctionInternal | where full_args.in == 0 | first 1 | backtrace"},
    {"backtrace at crash all threads"},
    {"py changes of total in accumulate | last 5"},
    {"writes to counter | count by function, thread"},
    {"writes to `last`"},
    {"print x at (last write to x) + 1"},
    // Accesses.
    {"first write to x"},
    {"next write to x after 10"},
    {"all writes to x", "writes to x"},
    {"LAST Write TO X", "last write to X"},
    {"write to x", "writes to x"},
    {"who last wrote x", "last write to x"},
    {"who wrote x", "writes to x"},
    {"who first read x", "first read of x"},
    {"last read of x"},
    {"first read of x"},
    {"next read of x"},
    {"reads of x"},
    {"all reads of x", "reads of x"},
    {"accesses to x"},
    {"last access to x"},
    {"writes to x before 10 in thread 2 by push"},
    {"writes to x by push in thread 2 before 10", "writes to x before 10 in thread 2 by push"},
    {"writes to x by \"pu*\""},
    {"writes to x by /^pu/"},
    {"writes to x by \"libc.so.6\"!memcpy", "writes to x by `libc.so.6`!memcpy"},
    {"writes to x by libc-2.36.so!memcpy", "writes to x by `libc-2.36.so`!memcpy"},
    {"writes to x by demo!/^p/"},
    {"writes to x by std::vector<int>::push_back", "writes to x by `std::vector<int>::push_back`"},
    {"writes to x by push.constprop.0", "writes to x by `push.constprop.0`"},
    {"writes to x by python accumulate"},
    {"writes to x by python loop.py:12"},
    // Locations.
    {"writes to 4096"},
    {"writes to 0x10..0x20"},
    {"writes to 16..32"},
    {"writes to 0x10 len 8"},
    {"writes to items[2]"},
    {"writes to head->next->value"},
    {"writes to ((PyObject*)0x2000)->ob_type"},
    {"writes to (PyObject *) 0x2000", "writes to (PyObject*)0x2000"},
    {"writes to (a ? b : c)"},
    {"writes to buffer..buffer + 16"},
    // Times.
    {"writes to x between start and end"},
    {"writes to x between (first write to x) + 1 and (calls to push | first 1)"},
    {"memory x at end - 100"},
    {"memory x at 5 + 10 - 3", "memory x at 5 + 7"},
    {"memory x at ((end))", "memory x at end"},
    {"memory x at (crash)", "memory x at crash"},
    // State.
    {"memory items len 64 at (last write to counter)"},
    {"print counter in frame 1"},
    {"registers"},
    {"registers at crash in thread 2"},
    {"backtrace --mixed", "backtrace mixed"},
    {"backtrace at 5 in thread 1 mixed"},
    {"source at 5"},
    {"disassemble push"},
    {"disassemble 0x401136 at end"},
    {"threads"},
    {"modules at 100"},
    {"maps at start"},
    {"events"},
    {"events signal before crash"},
    {"events thread"},
    {"executions of push"},
    {"executions of demo.c:12 after 5"},
    {"executions of src/demo.c:12", "executions of \"src/demo.c\":12"},
    {"executions of ./a-b.c:1", "executions of \"./a-b.c\":1"},
    {"executions of \"my file.c\":3"},
    {"executions of /usr/src/demo.c:12", "executions of \"/usr/src/demo.c\":12"},
    {"executions of 0x401136"},
    {"calls to push by main"},
    {"calls to write", "calls to `write`"},
    {"crash"},
    // Python.
    {"py backtrace at 5 all threads"},
    {"py locals in frame 2"},
    {"py source"},
    {"py calls to Model.forward", "py calls to `Model.forward`"},
    {"py calls to <module>", "py calls to `<module>`"},
    {"py calls to outer.<locals>.inner", "py calls to `outer.<locals>.inner`"},
    {"py calls to model.py:7"},
    {"py exceptions after 5 in thread 2"},
    {"py executions of model.py:7"},
    {"py executions of model!/./ after 5"},
    {"calls to f by python accumulate"},
    {"executions of f by python loop.py:12"},
    {"events syscall by python accumulate"},
    {"py print self.total in frame 1"},
    {"py print d['key'][-1]", "py print d[\"key\"][-1]"},
    {"py changes of self.total"},
    {"py changes of d[\"k\"] between 1 and 2"},
    // Objects and the heap.
    {"who created 0x10", "creation of 0x10"},
    {"creation of 0x10 before 5"},
    {"when was 0x10 freed", "deallocation of 0x10"},
    {"who freed torch.Tensor 0x10", "deallocation of torch.Tensor 0x10"},
    {"lifetime of 0x10"},
    {"refcounts of 0x10 after start"},
    {"object 0x10 at 5"},
    {"object \"my type\" 0x10"},
    {"objects of type dict at end"},
    {"heap 0x10 at 5"},
    {"heap p->next"},
    {"heap leaks at end"},
    {"origin of rax at crash depth 3"},
    {"origin of $rax at 5"},
    {"why is 0x10 still alive"},
    {"why was 0x10 freed too early", "why is 0x10 freed too early"},
    // Stages.
    {"writes to x | select time, value + 1, args.n | sort by value desc, time | last 3"},
    {"writes to x | count"},
    {"writes to x | distinct"},
    {"writes to x | distinct function, thread"},
    {"writes to x | sort by time asc", "writes to x | sort by time"},
    {"writes to x | count by function | sort by count desc"},
    {"writes to x | backtrace mixed"},
    // Conditions and expressions.
    {"writes to x where value = 1 and not size != 4 or thread <= 2",
     "writes to x | where value == 1 and not size != 4 or thread <= 2"},
    {"writes to x | where value in (1, 2, 0x10) and function not in (\"a\", \"b\")"},
    {"writes to x | where value between 1 and 2 and size == 4"},
    {"writes to x | where function matches /^p.*\\/x/ and module not matches \"lib*\""},
    {"writes to x | where file is null or line is not null or value = null",
     "writes to x | where file is null or line is not null or value == null"},
    {"writes to x | where p != NULL", "writes to x | where p != null"},
    {"writes to x | where a && b || !c", "writes to x | where a and b or !c"},
    {"print a + b * c - (d - e) / f % g << 2 >> 1"},
    {"print (a | b) & ~c ^ d", "print (a | b) & ~c ^ d"},
    {"print a < b == c >= d"},
    {"print (unsigned char)x + (const struct Point **)y",
     "print (unsigned char)x + (struct Point**)y"},
    {"print (size_t)-1", "print (size_t)(-1)"},
    {"print (name) - 1", "print name - 1"},
    {"print (name)(other)", "print (name)other"},
    {"print sizeof(struct Point) + sizeof x", "print sizeof(struct Point) + sizeof(x)"},
    {"print *&**p[i].q->r", "print *(&(**p[i].q->r))"},
    {"print ns::Type<int, 3>::member", "print `ns::Type<int,3>::member`"},
    {"print 'a' + '\\n' + 1.5", "print 'a' + '\\n' + 1.5"},
    {"print \"tab\\t\\x01quote\\\"\""},
    {"print a ? b : c ? d : e"},
    {"print 10UL", "print 10ul"},
    {"print 1.5F", "print 1.5f"},
    {"print 18446744073709551615"},
    {"print thread + count + object + type"},
    {"print p->last->`first`", "print p->last->first"},
    {"print größe"},
};

TEST(ParserTest, EveryFormHasACanonicalTextThatParsesToItself) {
  for (const Form& form : kForms) {
    const std::string canonical = Canonical(form.text);
    EXPECT_EQ(canonical, form.canonical != nullptr ? form.canonical : form.text);
    EXPECT_EQ(Canonical(canonical), canonical);
  }
}

TEST(ParserTest, EveryExampleOfTheManualParses) {
  std::ifstream manual(TTQ_SOURCE_DIR "/docs/query-language.md");
  ASSERT_TRUE(manual);
  std::string example;
  bool inside = false;
  int examples = 0;
  for (std::string line; std::getline(manual, line);) {
    if (line.starts_with("```")) {
      if (inside) {
        EXPECT_TRUE(ParseQuery(example).ok()) << Canonical(example);
        ++examples;
      }
      inside = line.starts_with("```ttq");
      example.clear();
    } else if (inside) {
      example += line + "\n";
    }
  }
  EXPECT_GT(examples, 50);
}

TEST(ParserTest, RangesAreBytesOfTheText) {
  const std::string text = "writes to grö  before 10 | where value == 1 | first 2";
  const auto query = ParseQuery(text);
  ASSERT_TRUE(query.ok()) << query.status();
  const auto at = [&](ast::Range r) { return text.substr(r.begin, r.end - r.begin); };
  EXPECT_EQ(at(query->range), text);
  EXPECT_EQ(at(query->source_range), "writes to grö  before 10");
  EXPECT_EQ(at(std::get<ast::Accesses>(query->source).location.range), "grö");
  EXPECT_EQ(at(query->clauses.span->range), "before 10");
  EXPECT_EQ(at(query->stages[0].range), "where value == 1");
  EXPECT_EQ(at(query->stages[1].range), "first 2");
}

TEST(ParserTest, ExpressionsAreTrees) {
  const auto query = ParseQuery("print a - b - c * d.e");
  ASSERT_TRUE(query.ok());
  const auto& minus = std::get<ast::Binary>(std::get<ast::Print>(query->source).expr->node);
  EXPECT_EQ(minus.op, ast::BinaryOp::kSub);
  EXPECT_EQ(std::get<ast::Binary>(minus.left->node).op, ast::BinaryOp::kSub);
  const auto& product = std::get<ast::Binary>(minus.right->node);
  EXPECT_EQ(product.op, ast::BinaryOp::kMul);
  EXPECT_EQ(std::get<ast::Member>(product.right->node).member, "e");
}

TEST(ParserTest, PatternsKnowTheirKind) {
  const auto kind = [](std::string_view text) {
    const auto query = ParseQuery(text);
    return std::get<ast::Calls>(query->source).function.function.kind;
  };
  EXPECT_EQ(kind("calls to push"), ast::Pattern::Kind::kName);
  EXPECT_EQ(kind("calls to \"operator new\""), ast::Pattern::Kind::kName);
  EXPECT_EQ(kind("calls to `operator*`"), ast::Pattern::Kind::kName);
  EXPECT_EQ(kind("calls to \"p*\""), ast::Pattern::Kind::kGlob);
  EXPECT_EQ(kind("calls to /p/"), ast::Pattern::Kind::kRegex);
}

TEST(ParserTest, AScriptHasOneQueryPerLineOrSemicolon) {
  const std::string text =
      "# what happened\n"
      "writes to x   # all of them\n"
      "\n"
      "last write to x; registers at\n"  // `at` needs a time: see below
      "end";
  const auto broken = ParseScript(text);
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(RenderDiagnostic(text, *GetDiagnostic(broken.status())),
            "ttq: expected a time (a number, start, end, crash or a query in brackets) after "
            "'registers at'\n"
            "  last write to x; registers at\n"
            "                               ^\n");

  const auto script = ParseScript(
      "writes to x\n  | where value == 1 |\n  first 1\r\nmemory (a\n + b)\n\n;;threads;");
  ASSERT_TRUE(script.ok()) << script.status();
  std::vector<std::string> texts;
  for (const auto& query : *script) texts.push_back(ToString(query));
  EXPECT_THAT(texts, testing::ElementsAre("writes to x | where value == 1 | first 1",
                                          "memory a + b", "threads"));
}

TEST(ParserTest, ReservedWordsAreNamesInBackticksOnly) {
  // The printer's list of reserved words and the grammar's agree.
  for (size_t type = 1; type <= internal::MaxTokenType(); ++type) {
    if (!internal::IsKeyword(type)) continue;
    const std::string word(internal::FixedText(type));
    const std::string quoted = "print `" + word + "` + 1";
    const std::string bare = "print " + word + " + 1";
    const auto query = ParseQuery(bare);
    // `not + 1` and `null + 1` are expressions too.
    const bool soft = query.ok() && word != "not" && word != "null";
    EXPECT_EQ(Canonical(quoted), soft ? bare : quoted);
    // A member needs none.
    EXPECT_EQ(Canonical("print p->" + word), "print p->" + word);
  }
}

// ---- Parameters ---------------------------------------------------------------------------

// The canonical text of a query with values, or the error as a user sees it.
std::string Bound(std::string_view text, const std::vector<ParameterValue>& values) {
  const auto query = ParseQuery(text, values);
  if (query.ok()) return ToString(*query);
  return RenderDiagnostic(text, *GetDiagnostic(query.status()));
}

std::string ParameterNames(std::string_view text) {
  const auto parameters = ParseParameters(text);
  if (!parameters.ok()) return RenderDiagnostic(text, *GetDiagnostic(parameters.status()));
  std::string names;
  for (const Parameter& p : *parameters) names += (p.name.empty() ? "?" : p.name) + " ";
  return names;
}

TEST(ParameterTest, StandWhereValuesStand) {
  const uint64_t n = 7;
  const ast::Name counter{"counter"};
  EXPECT_EQ(Bound("memory ? len ? at ?", {n, n, n}), "memory 7 len 7 at 7");
  EXPECT_EQ(Bound("memory ?..? ", {n, uint64_t{9}}), "memory 7..9");
  EXPECT_EQ(Bound("last write to :x before :t + :d", {counter, n, n}),
            "last write to counter before 7 + 7");
  EXPECT_EQ(Bound("registers at (last write to ?) in thread ?", {counter, n}),
            "registers at (last write to counter) in thread 7");
  EXPECT_EQ(Bound("print ? in frame ?", {counter, n}), "print counter in frame 7");
  EXPECT_EQ(Bound("calls to ?!?", {ast::Name{"libc.so.6"}, std::string("mk*")}),
            "calls to `libc.so.6`!\"mk*\"");
  EXPECT_EQ(Bound("calls to ?", {ast::Name{"operator*"}}), "calls to `operator*`");
  EXPECT_EQ(Bound("executions of ?", {n}), "executions of 7");
  EXPECT_EQ(Bound("executions of ?:?", {std::string("a b.c"), n}), "executions of \"a b.c\":7");
  EXPECT_EQ(Bound("executions of main.c:?", {n}), "executions of main.c:7");
  EXPECT_EQ(Bound("when was ? ? created", {ast::Name{"Point"}, n}), "creation of Point 7");
  EXPECT_EQ(Bound("objects of type ?", {std::string("dict")}), "objects of type dict");
  EXPECT_EQ(Bound("events ?", {ast::Name{"signal"}}), "events signal");
  EXPECT_EQ(Bound("py changes of ? in ?", {counter, ast::Name{"f"}}), "py changes of counter in f");
  EXPECT_EQ(Bound("writes to x where string(arg0) matches ? | first ?", {std::string("a*"), n}),
            "writes to x | where string(arg0) matches \"a*\" | first 7");
  EXPECT_EQ(Bound("writes to x where value in (?, :y, :y)", {n, uint64_t{8}}),
            "writes to x | where value in (7, 8, 8)");
  EXPECT_EQ(Bound("print ? * 2", {int64_t{-3}}), "print -3 * 2");
  EXPECT_EQ(Bound("print x == ?", {-0.5}), "print x == -0.5");
}

TEST(ParameterTest, AQuestionMarkIsStillTheTernaryOperator) {
  EXPECT_EQ(ParameterNames("print a ? b : c"), "");
  EXPECT_EQ(ParameterNames("print memory ? 1 : 2"), "");
  EXPECT_EQ(ParameterNames("memory ? len 8"), "? ");
  EXPECT_EQ(ParameterNames("print ? ? ? : ?"), "? ? ? ");
  EXPECT_EQ(ParameterNames("print a ? :b : :c"), "b c ");
  EXPECT_EQ(Bound("print :a ? :b : :a", {uint64_t{1}, uint64_t{2}}), "print 1 ? 2 : 1");
}

TEST(ParameterTest, ValuesAreNotText) {
  // Whatever a value holds, it cannot become another part of the query.
  const std::string nasty = "x\" | first 1 ; `'\n";
  const auto query = ParseQuery("writes to x where string(arg0) == ?", {nasty});
  ASSERT_TRUE(query.ok());
  ASSERT_EQ(query->stages.size(), 1u);
  const auto& condition = std::get<ast::Where>(query->stages[0].what).condition;
  const auto& right = std::get<ast::Binary>(condition->node).right;
  EXPECT_EQ(std::get<ast::String>(right->node).value, nasty);
}

TEST(ParameterTest, AreNumberedInTheOrderOfTheText) {
  EXPECT_EQ(ParameterNames("memory :b len ? at :a + :b - ?"), "b ? a ? ");
  EXPECT_EQ(ParameterNames("who created :type :address"), "type address ");
}

TEST(ParameterTest, Errors) {
  const std::vector<ParameterValue> none;
  EXPECT_EQ(Bound("memory ?", none),
            "ttq: no value is bound to '?'\n"
            "  memory ?\n"
            "         ^\n");
  EXPECT_EQ(Error("memory :a"),
            "ttq: ':a' stands for a value, which only a program can give\n"
            "  memory :a\n"
            "         ^~\n");
  EXPECT_EQ(Bound("threads at :t", {std::string("noon")}),
            "ttq: ':t' must be a number here, and text is bound to it\n"
            "  threads at :t\n"
            "             ^~\n");
  EXPECT_EQ(Bound("threads at :t", {int64_t{-1}}),
            "ttq: ':t' cannot be negative here, but -1 is bound to it\n"
            "  threads at :t\n"
            "             ^~\n");
  EXPECT_EQ(Bound("calls to ?", {uint64_t{1}}),
            "ttq: '?' must be text or a name here, and a number is bound to it\n"
            "  calls to ?\n"
            "           ^\n");
  EXPECT_EQ(Bound("writes to ?..?", {uint64_t{9}, uint64_t{8}}),
            "ttq: the range is empty: its end is excluded and must be above its start\n"
            "  writes to ?..?\n"
            "            ^~~~\n");
  EXPECT_EQ(ParameterNames("threads at : t"),
            "ttq: a parameter is written without a space after the colon\n"
            "  threads at : t\n"
            "             ^~~\n");
  // Values that come later prove nothing wrong.
  EXPECT_EQ(ParameterNames("writes to 9..? between 5 and ?"), "? ? ");
}

TEST(NextWordsTest, AreWhatTheGrammarAllows) {
  EXPECT_THAT(NextWords("last wr"), testing::ElementsAre("write", "writes"));
  EXPECT_THAT(NextWords("last write "), testing::ElementsAre("of", "to"));
  EXPECT_THAT(NextWords("threads |"),
              testing::ElementsAre("backtrace", "count", "distinct", "first", "last", "py",
                                   "select", "sort", "where"));
  EXPECT_THAT(NextWords("threads; registers a"), testing::ElementsAre("after", "all", "at"));
  EXPECT_THAT(NextWords("writes to \"unclosed"), testing::IsEmpty());
  EXPECT_THAT(NextWords("no such thing "), testing::IsEmpty());
}

// ---- Errors -------------------------------------------------------------------------------

TEST(ParserErrorTest, MisspeltWords) {
  EXPECT_EQ(Error("lsat write to x"),
            "ttq: a query cannot begin with 'lsat'\n"
            "  lsat write to x\n"
            "  ^~~~\n"
            "did you mean 'last'?\n");
  EXPECT_EQ(Error("wirtes to x"),
            "ttq: a query cannot begin with 'wirtes'\n"
            "  wirtes to x\n"
            "  ^~~~~~\n"
            "did you mean 'writes'?\n");
  EXPECT_EQ(Error("backtrase"),
            "ttq: a query cannot begin with 'backtrase'\n"
            "  backtrase\n"
            "  ^~~~~~~~~\n"
            "did you mean 'backtrace'?\n");
  EXPECT_EQ(Error("writes to x bfore 10"),
            "ttq: unexpected 'bfore' after 'x'\n"
            "  writes to x bfore 10\n"
            "              ^~~~~\n"
            "did you mean 'before'?\n");
  EXPECT_EQ(Error("writes to x | limit 5"),
            "ttq: expected a stage after '|', not 'limit': where, select, sort by, first, last, "
            "count, distinct, backtrace or py backtrace\n"
            "  writes to x | limit 5\n"
            "                ^~~~~\n"
            "did you mean 'first'?\n");
  EXPECT_EQ(Error("zebra crossing"),
            "ttq: a query cannot begin with 'zebra' ('ttq help language' lists the forms)\n"
            "  zebra crossing\n"
            "  ^~~~~\n");
}

TEST(ParserErrorTest, PatternsWithoutQuotes) {
  EXPECT_EQ(Error("calls to mem* where arg2 > 5"),
            "ttq: a pattern is written in quotes\n"
            "  calls to mem* where arg2 > 5\n"
            "           ^~~~\n"
            "did you mean \"mem*\"?\n");
  EXPECT_EQ(Error("py calls to Tests.*_slow | first 1"),
            "ttq: a pattern is written in quotes\n"
            "  py calls to Tests.*_slow | first 1\n"
            "              ^~~~~~~~~~~~\n"
            "did you mean \"Tests.*_slow\"?\n");
  EXPECT_EQ(Error("writes to x by *"),
            "ttq: a pattern is written in quotes\n"
            "  writes to x by *\n"
            "                 ^\n"
            "did you mean \"*\"?\n");
}

TEST(ParserErrorTest, WhatWasExpected) {
  EXPECT_EQ(Error("last write to"),
            "ttq: expected an address, a name or an expression after 'write to'\n"
            "  last write to\n"
            "               ^\n");
  EXPECT_EQ(Error("last write x"),
            "ttq: expected 'of' or 'to' after 'last write', not 'x'\n"
            "  last write x\n"
            "             ^\n");
  EXPECT_EQ(Error("registers at rax"),
            "ttq: expected a time (a number, start, end, crash or a query in brackets) after "
            "'registers at', not 'rax'\n"
            "  registers at rax\n"
            "               ^~~\n");
  EXPECT_EQ(Error("calls to | first 1"),
            "ttq: expected a function (a name, \"glob*\" or /regex/) after 'calls to', not '|'\n"
            "  calls to | first 1\n"
            "           ^\n");
  EXPECT_EQ(Error("executions of"),
            "ttq: expected a function, FILE:LINE or an address after 'executions of'\n"
            "  executions of\n"
            "               ^\n");
  EXPECT_EQ(Error("writes to x | first"),
            "ttq: expected a number after 'first'\n"
            "  writes to x | first\n"
            "                     ^\n");
  EXPECT_EQ(Error("writes to x where"),
            "ttq: expected a condition after 'where'\n"
            "  writes to x where\n"
            "                   ^\n");
  EXPECT_EQ(Error("writes to x where function matches push"),
            "ttq: expected /regex/ or \"glob\" after 'matches', not 'push'\n"
            "  writes to x where function matches push\n"
            "                                     ^~~~\n");
  EXPECT_EQ(Error("writes to last"),
            "ttq: 'last' is a word of the language; as a name it is written in backticks\n"
            "  writes to last\n"
            "            ^~~~\n"
            "did you mean `last`?\n");
  EXPECT_EQ(Error("writes to x where value == 1 before 5"),
            "ttq: 'before' belongs before 'where'\n"
            "  writes to x where value == 1 before 5\n"
            "                               ^~~~~~\n");
}

TEST(ParserErrorTest, BracketsStringsAndRegexes) {
  EXPECT_EQ(Error("print (a + b"),
            "ttq: this bracket is not closed: a ')' is missing\n"
            "  print (a + b\n"
            "        ^\n");
  EXPECT_EQ(Error("print a + b)"),
            "ttq: there is no bracket that this ')' closes\n"
            "  print a + b)\n"
            "             ^\n");
  EXPECT_EQ(Error("calls to f where arg0 == \"abc"),
            "ttq: the string is not closed: a \" is missing\n"
            "  calls to f where arg0 == \"abc\n"
            "                           ^~~~\n");
  EXPECT_EQ(Error("writes to `abc"),
            "ttq: the name is not closed: a ` is missing\n"
            "  writes to `abc\n"
            "            ^~~~\n");
  EXPECT_EQ(Error("calls to f where function matches /abc"),
            "ttq: the regular expression is not closed: a / is missing\n"
            "  calls to f where function matches /abc\n"
            "                                    ^~~~\n");
  EXPECT_EQ(Error("calls to /a(b/"),
            "ttq: bad regular expression: missing ): a(b\n"
            "  calls to /a(b/\n"
            "           ^~~~~\n");
}

TEST(ParserErrorTest, Numbers) {
  EXPECT_EQ(Error("last write to 0x10000000000000000"),
            "ttq: the number is too large: it does not fit 64 bits\n"
            "  last write to 0x10000000000000000\n"
            "                ^~~~~~~~~~~~~~~~~~~\n");
  EXPECT_EQ(Error("last write to 0xzz"),
            "ttq: bad number '0xzz'\n"
            "  last write to 0xzz\n"
            "                ^~~~\n");
  EXPECT_EQ(Error("memory 0x20..0x10"),
            "ttq: the range is empty: its end is excluded and must be above its start\n"
            "  memory 0x20..0x10\n"
            "         ^~~~~~~~~~\n");
  EXPECT_EQ(Error("memory 0x20..0x20"),
            "ttq: the range is empty: its end is excluded and must be above its start\n"
            "  memory 0x20..0x20\n"
            "         ^~~~~~~~~~\n");
  EXPECT_EQ(Error("memory x len 0"),
            "ttq: a length of 0 names no memory\n"
            "  memory x len 0\n"
            "               ^\n");
  EXPECT_EQ(Error("memory 0xffffffffffffffff len 2"),
            "ttq: the range goes beyond the end of the address space\n"
            "  memory 0xffffffffffffffff len 2\n"
            "         ^~~~~~~~~~~~~~~~~~~~~~~~\n");
  EXPECT_EQ(Error("writes to x in thread 0"),
            "ttq: threads are numbered from 1\n"
            "  writes to x in thread 0\n"
            "                        ^\n");
  EXPECT_EQ(Error("writes to x between 20 and 10"),
            "ttq: the span is empty: the earlier time comes first\n"
            "  writes to x between 20 and 10\n"
            "              ^~~~~~~~~~~~~~~~~\n");
  EXPECT_EQ(Error("memory x at 5 + 9223372036854775808"),
            "ttq: the time is out of range\n"
            "  memory x at 5 + 9223372036854775808\n"
            "                  ^~~~~~~~~~~~~~~~~~~\n");
  EXPECT_EQ(Error("writes to 010"),
            "ttq: a decimal number does not begin with 0, and octal ones are not read\n"
            "  writes to 010\n"
            "            ^~~\n");
}

TEST(ParserErrorTest, ClausesThatDoNotBelong) {
  EXPECT_EQ(Error("events at 5"),
            "ttq: 'at' does not go with 'events'; it takes before, after or between\n"
            "  events at 5\n"
            "         ^~~~\n");
  EXPECT_EQ(Error("memory x before 5"),
            "ttq: 'before' does not go with 'memory'; it takes 'at TIME'\n"
            "  memory x before 5\n"
            "           ^~~~~~~~\n");
  EXPECT_EQ(Error("writes to x before 5 after 3"),
            "ttq: a query has one span: between TIME and TIME has two ends\n"
            "  writes to x before 5 after 3\n"
            "                       ^~~~~~~\n");
  EXPECT_EQ(Error("registers at 1 at 2"),
            "ttq: 'at' is given twice\n"
            "  registers at 1 at 2\n"
            "                 ^~~~\n");
  EXPECT_EQ(Error("writes to x in push"),
            "ttq: expected 'thread N' after 'in'\n"
            "  writes to x in push\n"
            "              ^~~~~~~\n");
}

TEST(ParserErrorTest, TextsThatAreNoText) {
  EXPECT_EQ(Error(""), "ttq: the query is empty\n");
  EXPECT_EQ(Error("  # nothing\n"), "ttq: the query is empty\n    # nothing\n  ^\n");
  EXPECT_EQ(Error(std::string_view("print \0", 7)),
            "ttq: the query contains a NUL byte\n  print ?\n        ^\n");
  EXPECT_EQ(Error("print \x1b[31m"),
            "ttq: the query contains the control character 0x1b\n  print ?[31m\n        ^\n");
  EXPECT_EQ(Error("print \xff"), "ttq: the query is not UTF-8: byte 0xff\n  print ?\n        ^\n");
  EXPECT_EQ(Error("print \xc3"), "ttq: the query is not UTF-8: byte 0xc3\n  print ?\n        ^\n");
  EXPECT_EQ(Error("calls to “f”"),
            "ttq: typographic quotation marks: write strings in \" or '\n"
            "  calls to “f”\n"
            "           ^~~\n");
  EXPECT_EQ(Error("threads\nmodules"),
            "ttq: a second query begins here; several are read from a file\n"
            "  modules\n"
            "  ^~~~~~~\n");
}

TEST(ParserErrorTest, DeepAndLongTextsAreRefused) {
  const auto message = [](const std::string& text) {
    const auto query = ParseQuery(text);
    return query.ok() ? "" : std::string(query.status().message());
  };
  const auto repeat = [](std::string_view unit, int n) {
    std::string result;
    for (int i = 0; i < n; ++i) result += unit;
    return result;
  };
  EXPECT_EQ(message("print " + repeat("(", 199) + "x" + repeat(")", 199)), "");
  EXPECT_THAT(message("print " + repeat("(", 30000)), testing::HasSubstr("nested too deeply"));
  EXPECT_THAT(message("memory x at " + repeat("(last write to x before ", 300) + "1"),
              testing::HasSubstr("too long"));
  EXPECT_EQ(message("print x" + repeat("+1", 490)), "");
  for (const char* unit : {"-", "*", "not ", "(int)", "sizeof ", "x?", "a<", "a.", "(a)"}) {
    EXPECT_THAT(message("print " + repeat(unit, 5000) + "x"), testing::HasSubstr("too long"))
        << unit;
    // Within the limit, right or wrong, an answer comes.
    message("print " + repeat(unit, 450) + "x");
  }
  EXPECT_THAT(message("print x" + repeat(" ", 70000) + "+ 1"), testing::HasSubstr("64 KiB"));
  // What is wide is not deep.
  EXPECT_EQ(message("writes to x where value in (1" + repeat(", 1", 5000) + ")"), "");
  EXPECT_EQ(message("writes to x" + repeat(" | where value == 1", 1000)), "");
}

TEST(DiagnosticTest, LongLinesAreCutAroundThePlace) {
  const std::string text = "print " + std::string(300, 'a') + " ? zz";
  const std::string shown = Error(text);
  EXPECT_THAT(shown, testing::HasSubstr("…"));
  size_t longest = 0, length = 0;
  for (const char c : shown) {
    length = c == '\n' ? 0 : length + 1;
    longest = std::max(longest, length);
  }
  EXPECT_LT(longest, 120u);
}

TEST(DiagnosticTest, TravelsInAStatus) {
  const absl::Status status =
      DiagnosticError({.message = "no", .begin = 3, .end = 5, .hint = "'yes'"});
  EXPECT_EQ(status.message(), "no; did you mean 'yes'?");
  const auto diagnostic = GetDiagnostic(status);
  ASSERT_TRUE(diagnostic.has_value());
  EXPECT_EQ(diagnostic->message, "no");
  EXPECT_EQ(diagnostic->begin, 3u);
  EXPECT_EQ(diagnostic->end, 5u);
  EXPECT_EQ(diagnostic->hint, "'yes'");
  EXPECT_FALSE(GetDiagnostic(absl::InvalidArgumentError("no")).has_value());
}

TEST(DiagnosticTest, CaretsStandUnderTheirCharacters) {
  EXPECT_EQ(RenderDiagnostic("a\n\tgrö xx yy", {"m", 8, 10, ""}),
            "ttq: m\n  \tgrö xx yy\n  \t    ^~\n");
  // A place outside the text is moved into it.
  EXPECT_EQ(RenderDiagnostic("ab", {"m", 7, 9, ""}), "ttq: m\n  ab\n    ^\n");
}

TEST(DiagnosticTest, NearestWord) {
  EXPECT_EQ(NearestWord("lsat", "first last next"), "last");
  EXPECT_EQ(NearestWord("FRIST", "first last next"), "first");
  EXPECT_EQ(NearestWord("zebra", "first last next"), "");
  EXPECT_EQ(NearestWord("last", "first last next"), "");
  EXPECT_EQ(NearestWord("", "of"), "");
}

}  // namespace
}  // namespace ttq

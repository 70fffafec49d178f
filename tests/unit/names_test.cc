// SPDX-License-Identifier: MIT

#include "query/code/names.h"

#include <gtest/gtest.h>

namespace ttq {
namespace {

std::string NameOf(const char* symbol) { return Demangle(symbol).name; }

TEST(Demangle, KeepsWhatNamesAFunctionAndDropsTheRest) {
  EXPECT_EQ(NameOf("main"), "main");
  EXPECT_EQ(NameOf("_ZN2ns5StackIiE4pushEi"), "ns::Stack<int>::push");
  EXPECT_EQ(NameOf("_ZNK3app5PointplERKS0_"), "app::Point::operator+");
  EXPECT_EQ(NameOf("_ZN3app7LargestIiEET_RKSt6vectorIS1_SaIS1_EE"), "app::Largest<int>");
  EXPECT_EQ(NameOf("_ZZ4mainENKUliE_clEi"), "main::{lambda(int)#1}::operator()");
  EXPECT_EQ(NameOf("_ZNK1AcvPiEv"), "A::operator int*");
  EXPECT_EQ(NameOf("_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc"),
            "std::operator<< <std::char_traits<char> >");
  EXPECT_EQ(NameOf("_ZN12_GLOBAL__N_11fEv"), "(anonymous namespace)::f");
  EXPECT_EQ(NameOf("_ZN1A1fEv.cold"), "A::f.cold");
  EXPECT_EQ(NameOf("_ZTV1A"), "vtable for A");
  EXPECT_EQ(NameOf("_Znonsense"), "_Znonsense");
}

TEST(Demangle, RustWithoutHashes) {
  EXPECT_EQ(NameOf("_ZN1r1f17hc794d6190c0cb5b0E"), "r::f");
  EXPECT_EQ(NameOf("_ZN4core3ops8function6FnOnce9call_once17h0123456789abcdefE.llvm.123"),
            "core::ops::function::FnOnce::call_once");
  EXPECT_EQ(NameOf("_RNvMs4_NtCslNYArtu3iFV_5alloc7raw_vecNtB5_11RawVecInner11finish_growCsduwmD7c"
                   "SIQq_5gimli"),
            "alloc::raw_vec::RawVecInner::finish_grow");
  EXPECT_EQ(NameOf("_RINvMNtCsgEmfK2I1SDS_4core3stre18trim_start_matchesReECsgY6Mt91CT9J_14rustc_de"
                   "mangle"),
            "str::trim_start_matches<&str>");
  EXPECT_EQ(
      NameOf(
          "_ZN54_$LT$$LP$$RP$$u20$as$u20$std..process..Termination$GT$6report17h6b6f6a6c6d6e6f60E"),
      "<() as std::process::Termination>::report");
  EXPECT_EQ(NameOf("_Rnonsense"), "_Rnonsense");
}

TEST(Demangle, ANameThatDoublesItselfStaysSmall) {
  // Each S..I..E holds its predecessor twice.
  std::string symbol = "_Z1f1AIiiE";
  for (int i = 0; i < 36; ++i) {
    std::string last =
        i == 0 ? "S0_" : std::string("S") + "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i] + "_";
    symbol += "S_I" + last + last + "E";
  }
  EXPECT_LT(Demangle(symbol).full.size(), 10000u);
}

TEST(GlobMatches, Cases) {
  EXPECT_TRUE(GlobMatches("Py*_New", "PyList_New"));
  EXPECT_FALSE(GlobMatches("Py*_New", "PyList_NewX"));
  EXPECT_TRUE(GlobMatches("*", ""));
  EXPECT_TRUE(GlobMatches("a?c", "abc"));
  EXPECT_TRUE(GlobMatches("[a-c]x[!0-9]", "bxy"));
  EXPECT_FALSE(GlobMatches("[a-c]x[!0-9]", "bx1"));
  EXPECT_TRUE(GlobMatches("a[b", "a[b"));
  EXPECT_FALSE(GlobMatches("*a*a*a*a*a*a*a*a*a*b", std::string(2000, 'a')));
}

bool Matches(NamePattern::Kind kind, const char* pattern, const char* symbol) {
  auto matcher = NameMatcher::Create({kind, pattern, ""});
  return matcher.ok() && matcher->MayMatch(symbol) && matcher->Matches(Demangle(symbol));
}

TEST(NameMatcher, PlainNames) {
  const char* push = "_ZN2ns5StackIiE4pushEi";
  for (const char* pattern :
       {"push", "Stack::push", "ns::Stack::push", "Stack<int>::push", "ns::Stack<int>::push",
        "::ns::Stack::push", "Stack::push(int)", "ns::Stack<int>::push(int)", "push(int)", push}) {
    EXPECT_TRUE(Matches(NamePattern::Kind::kName, pattern, push)) << pattern;
  }
  for (const char* pattern :
       {"pus", "push2", "tack::push", "Stack", "ns::push", "push(char)", "Stack<char>::push"}) {
    EXPECT_FALSE(Matches(NamePattern::Kind::kName, pattern, push)) << pattern;
  }
  EXPECT_TRUE(Matches(NamePattern::Kind::kName, "f", "f.constprop.0"));
  EXPECT_TRUE(Matches(NamePattern::Kind::kName, "f.constprop.0", "f.constprop.0"));
  EXPECT_TRUE(Matches(NamePattern::Kind::kName, "operator+", "_ZNK3app5PointplERKS0_"));
  for (const char* pattern : {"S::name", "name", "S::name[abi:cxx11]", "name(int)"}) {
    EXPECT_TRUE(Matches(NamePattern::Kind::kName, pattern, "_ZN1S4nameB5cxx11Ei")) << pattern;
  }
  EXPECT_TRUE(Matches(NamePattern::Kind::kName, "Largest(std::vector<int> const&)",
                      "_ZN3app7LargestIiEET_RKSt6vectorIS1_SaIS1_EE") ||
              Matches(NamePattern::Kind::kName,
                      "Largest<int>(std::vector<int, std::allocator<int> > const&)",
                      "_ZN3app7LargestIiEET_RKSt6vectorIS1_SaIS1_EE"));
}

TEST(NameMatcher, GlobsAndRegexes) {
  EXPECT_TRUE(Matches(NamePattern::Kind::kGlob, "pu*", "_ZN2ns5StackIiE4pushEi"));
  EXPECT_TRUE(Matches(NamePattern::Kind::kGlob, "ns::*", "_ZN2ns5StackIiE4pushEi"));
  EXPECT_FALSE(Matches(NamePattern::Kind::kGlob, "u*", "_ZN2ns5StackIiE4pushEi"));
  EXPECT_TRUE(Matches(NamePattern::Kind::kRegex, "^mk(dir|fifo)$", "mkdir"));
  EXPECT_FALSE(Matches(NamePattern::Kind::kRegex, "^mk(dir|fifo)$", "mkdirat"));
  // Exponential for a matcher that backtracks.
  EXPECT_FALSE(Matches(NamePattern::Kind::kRegex, "^(a+)+$",
                       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"));
}

TEST(NameMatcher, BadPatternsSayWhy) {
  auto bad = NameMatcher::Create({NamePattern::Kind::kRegex, "(", ""});
  EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(bad.status().message().find("regular expression"), std::string::npos);
  EXPECT_EQ(NameMatcher::Create({NamePattern::Kind::kName, "", ""}).status().message(),
            "an empty name");
}

TEST(NameMatcher, Modules) {
  auto matcher = NameMatcher::Create({NamePattern::Kind::kName, "f", "libc"});
  ASSERT_TRUE(matcher.ok());
  EXPECT_TRUE(matcher->MatchesModule("libc.so.6"));
  EXPECT_FALSE(matcher->MatchesModule("libcrypt.so.1"));
}

TEST(Suggestions, NearestFirst) {
  Suggestions s("accumulte");
  for (const char* name : {"accumulate", "main", "_ZN2ns10accumulateEv", "accumulator", "acc"}) {
    s.Add(name);
  }
  std::vector<std::string> names = s.Take();
  ASSERT_GE(names.size(), 2u);
  EXPECT_EQ(names[0], "accumulate");
  EXPECT_EQ(names[1], "ns::accumulate");
  EXPECT_EQ(std::count(names.begin(), names.end(), "main"), 0);
}

}  // namespace
}  // namespace ttq

// SPDX-License-Identifier: MIT
//
// The readers of Python's memory on memory that is no Python's: garbage, loops, dangling pointers.
// What they say of it does not matter; that they end, within bounds, does.

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/number_text.h"
#include "gtest/gtest.h"
#include "query/answers/format.h"
#include "query/cpython/frames.h"
#include "query/cpython/layout.h"
#include "query/cpython/objects.h"
#include "query/cpython/versions.h"

namespace ttq::python {
namespace {

constexpr uint64_t kBase = 0x10000;

class FakeMemory : public Memory {
 public:
  explicit FakeMemory(size_t size) : bytes(size, 0) {}
  bool Read(uint64_t at, size_t size, void* out) override {
    ++reads;
    if (at < kBase || at - kBase > bytes.size() || size > bytes.size() - (at - kBase)) return false;
    memcpy(out, bytes.data() + (at - kBase), size);
    return true;
  }
  void Put(uint64_t at, uint64_t value, size_t size = 8) {
    memcpy(bytes.data() + (at - kBase), &value, size);
  }
  void Put(uint64_t at, const std::string& text) {
    memcpy(bytes.data() + (at - kBase), text.c_str(), text.size() + 1);
  }
  std::string bytes;
  uint64_t reads = 0;
};

// Types that claim to be builtin, over memory where words are random: numbers small and large,
// pointers to other places, fillers of allocators.
void Scramble(FakeMemory* memory, const Layout& layout, uint32_t seed) {
  std::mt19937 random(seed);
  const size_t words = memory->bytes.size() / 8;
  const auto pointer = [&] { return kBase + 8 * (random() % words); };
  struct Kind {
    const char* name;
    uint64_t flags;
  };
  static constexpr Kind kKinds[] = {
      {"type", kTypeSubclass},
      {"int", kLongSubclass},
      {"str", kUnicodeSubclass},
      {"list", kListSubclass},
      {"tuple", kTupleSubclass},
      {"dict", kDictSubclass},
      {"bytes", kBytesSubclass},
      {"ValueError", kExceptionSubclass},
      {"set", 0},
      {"function", 0},
      {"method", 0},
      {"code", 0},
      {"module", 0},
      {"generator", 0},
      {"frame", 0},
      {"numpy.ndarray", 0},
      {"collections.deque", 0},
      {"cell", 0},
      {"traceback", 0},
      {"Heap", kHeapType | kManagedDict | kInlineValues},
      {"collections.OrderedDict", kDictSubclass},
      {"HeapTuple", kHeapType | kTupleSubclass},
  };
  constexpr uint64_t kTypeBytes = 1024;
  for (size_t i = 0; i < words; ++i) {
    uint64_t value;
    switch (random() % 8) {
      case 0:
        value = random() % 16;
        break;
      case 1:
        value = 0xdddddddddddddddd;
        break;
      case 2:
        value = uint64_t{random()} << 32 | random();
        break;
      case 3:
        value = 0;
        break;
      case 4:
        value = kBase + kTypeBytes * (random() % std::size(kKinds));
        break;
      default:
        value = pointer();
    }
    memory->Put(kBase + 8 * i, value);
  }
  for (size_t i = 0; i < std::size(kKinds); ++i) {
    const uint64_t type = kBase + kTypeBytes * i;
    const uint64_t name = type + kTypeBytes - 64;
    memory->Put(type + layout.object_type, kBase);  // `type`
    memory->Put(type + layout.type_flags, kKinds[i].flags);
    memory->Put(type + layout.type_basicsize, 64);
    memory->Put(type + layout.type_name, name);
    memory->Put(name, std::string(kKinds[i].name));
  }
}

struct Build {
  int minor;
  bool free_threaded;
};

class EveryLayout : public testing::TestWithParam<Build> {};

TEST_P(EveryLayout, GarbageEndsWithinBounds) {
  const Layout layout = *LayoutOf(GetParam().minor, GetParam().free_threaded);
  ReprLimits limits;
  limits.characters = 1000;
  size_t objects_seen = 0;
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    FakeMemory memory(64 << 10);
    Scramble(&memory, layout, seed);
    ObjectReader objects(&memory, layout);
    FrameReader frames(&objects);
    for (uint64_t at = kBase; at < kBase + memory.bytes.size(); at += 48) {
      const std::string repr = objects.Repr(at, limits);
      EXPECT_LE(repr.size(), limits.characters + sizeof "...(truncated)");
      objects_seen += repr.find("no object at") == repr.npos;
      objects.Attributes(at);
      objects.GetAttribute(at, "x");
      objects.RefcountOf(at);
      objects.MayBeObject(at);
      const Stack stack = frames.WalkFrom({.frame = at});
      EXPECT_LE(stack.frames.size(), FrameReader::kMaxFrames);
      for (const Frame& frame : stack.frames) frames.Locals(frame, 100);
      frames.SuspendedFrame(at);
    }
  }
  // The garbage does look like objects here and there.
  EXPECT_GT(objects_seen, 50u);
}

// Those whose count takes the whole word: no flags in it, and not one part for the own thread.
class WholeWordCount : public testing::TestWithParam<Build> {};

// What a block's last owner left where a count would be: a pointer whose low half looks like that
// of an object that lives for ever.
TEST_P(WholeWordCount, APointerIsNoCount) {
  const Layout layout = *LayoutOf(GetParam().minor, GetParam().free_threaded);
  FakeMemory memory(4096);
  ObjectReader objects(&memory, layout);
  memory.Put(kBase + layout.object_refcount, 0x7ff38ba718a0);
  const std::optional<Refcount> pointer = objects.RefcountOf(kBase);
  ASSERT_TRUE(pointer);
  EXPECT_FALSE(pointer->immortal);
  EXPECT_EQ(pointer->count, 0x7ff38ba718a0);
  memory.Put(kBase + layout.object_refcount, 0xffffffff);
  EXPECT_EQ(objects.RefcountOf(kBase)->immortal, layout.traits.immortal_counts);
}

TEST_P(EveryLayout, FrameThatIsItsOwnCallerEnds) {
  const Layout layout = *LayoutOf(GetParam().minor, GetParam().free_threaded);
  FakeMemory memory(64 << 10);
  ObjectReader objects(&memory, layout);
  FrameReader frames(&objects);
  const uint64_t frame = kBase + 0x8000;
  memory.Put(frame + layout.frame_previous, frame);
  if (layout.traits.shims) memory.Put(frame + layout.frame_owner, 3, 1);  // a shim
  const Stack stack = frames.WalkFrom({.frame = frame});
  EXPECT_TRUE(stack.frames.empty());
  EXPECT_NE(stack.incomplete, "");
}

std::vector<Build> EveryBuild() {
  std::vector<Build> builds;
  for (const Version* version : kVersions) {
    builds.push_back({version->minor, false});
    if (!version->free_threaded.empty()) builds.push_back({version->minor, true});
  }
  return builds;
}

std::string BuildName(const testing::TestParamInfo<Build>& info) {
  return "v3_" + std::to_string(info.param.minor) + (info.param.free_threaded ? "t" : "");
}
std::vector<Build> BuildsOfWholeWordCounts() {
  std::vector<Build> builds = EveryBuild();
  std::erase_if(builds, [](const Build& build) {
    return build.free_threaded || LayoutOf(build.minor, false)->traits.count_has_flags;
  });
  return builds;
}
INSTANTIATE_TEST_SUITE_P(All, EveryLayout, testing::ValuesIn(EveryBuild()), BuildName);
INSTANTIATE_TEST_SUITE_P(All, WholeWordCount, testing::ValuesIn(BuildsOfWholeWordCounts()),
                         BuildName);

TEST(PythonLayout, UnknownVersionsHaveNone) {
  EXPECT_FALSE(LayoutOf(8, false).has_value());
  EXPECT_FALSE(LayoutOf(kLastMinor + 1, false).has_value());
  EXPECT_FALSE(LayoutOf(12, true).has_value());
}

// From here on as CPython 3.13 prints them.
TEST(PythonRepr, Floats) {
  EXPECT_EQ(RealText(1.0), "1.0");
  EXPECT_EQ(RealText(-0.0), "-0.0");
  EXPECT_EQ(RealText(0.1), "0.1");
  EXPECT_EQ(RealText(1e16), "1e+16");
  EXPECT_EQ(RealText(123456789012345680.0), "1.2345678901234568e+17");
  EXPECT_EQ(RealText(9999999999999998.0), "9999999999999998.0");
  EXPECT_EQ(RealText(0.0001), "0.0001");
  EXPECT_EQ(RealText(0.00001), "1e-05");
  EXPECT_EQ(RealText(5e-324), "5e-324");
  EXPECT_EQ(RealText(1.7976931348623157e308), "1.7976931348623157e+308");
}

TEST(PythonRepr, Texts) {
  EXPECT_EQ(ReprOfText(U""), "''");
  EXPECT_EQ(ReprOfText(U"it's"), "\"it's\"");
  EXPECT_EQ(ReprOfText(U"'\""), "'\\'\"'");
  EXPECT_EQ(ReprOfText(U"\n\t\\\x01\x7f\xa0\xad"), "'\\n\\t\\\\\\x01\\x7f\\xa0\\xad'");
  EXPECT_EQ(ReprOfText(U"\u2028\u4e2d"), "'\\u2028\xe4\xb8\xad'");
  EXPECT_EQ(ReprOfText(std::u32string(1, 0xdc80)), "'\\udc80'");
  EXPECT_EQ(ReprOfText(U"\U000e0001"), "'\\U000e0001'");
  EXPECT_EQ(ReprOfBytes(std::string("a\0'\xff", 4)), "b\"a\\x00'\\xff\"");
}

}  // namespace
}  // namespace ttq::python

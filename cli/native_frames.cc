// SPDX-License-Identifier: MIT
//
// A native stack, laid out to be read: `ttq crash`, `ttq info`.

#include "base/text.h"
#include "cli/common.h"
#include "fmt/core.h"

namespace ttq {
namespace {

// "deep at stack.c:7 (app)"
std::string FrameText(const Object& frame) {
  std::string text = FieldText(frame, "function");
  if (text.empty()) text = FieldText(frame, "pc", Type::kAddress);
  const std::string file = FieldText(frame, "file"),
                    line = FieldText(frame, "line", Type::kInteger);
  if (!file.empty() && !line.empty()) text += fmt::format(" at {}:{}", BaseName(file), line);
  const std::string module = FieldText(frame, "module");
  return module.empty() ? text : fmt::format("{} ({})", text, module);
}

}  // namespace

void AddNativeFrames(const List& frames, size_t most, std::string* out) {
  constexpr size_t kFolded = 3;
  size_t lines = 0;
  const auto text_of = [&frames](size_t i) {
    const Object* frame = frames[i].object();
    return frame == nullptr ? "" : FrameText(*frame);
  };
  for (size_t i = 0; i < frames.size(); ++lines) {
    if (lines == most) {
      *out += fmt::format("    … {} more\n", frames.size() - i);
      return;
    }
    const std::string text = text_of(i);
    size_t end = i + 1;
    while (end < frames.size() && text_of(end) == text) ++end;
    const Object* frame = frames[i].object();
    *out += fmt::format("    #{:<3} {}\n",
                        frame == nullptr ? "" : FieldText(*frame, "frame", Type::kInteger), text);
    const bool folds = end - i >= kFolded;
    if (folds) *out += fmt::format("    … {} more of the same\n", end - i - 1);
    i = folds ? end : i + 1;
  }
}

}  // namespace ttq

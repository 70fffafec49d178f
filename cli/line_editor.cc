// SPDX-License-Identifier: MIT

#include "cli/line_editor.h"

#include <fcntl.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/display_width.h"
#include "base/text.h"
#include "cli/terminal.h"

namespace ttq {
namespace {

constexpr int kMaxHistory = 2000;
constexpr size_t kMaxListed = 200;
constexpr size_t kMaxLine = 1 << 20;

// A SIGINT between two looks at a flag, just before read(2) begins, would not end it. So there is
// something to read as well: an eventfd.
volatile sig_atomic_t interrupted = 0;
int interruption = -1;
void OnLineInterrupt(int) {
  interrupted = 1;
  const int error = errno;
  const uint64_t one = 1;
  if (write(interruption, &one, sizeof one) < 0) {
    // It is readable already.
  }
  errno = error;
}

// As read(2), of one byte; -1 and EINTR when SIGINT came since the line began.
ssize_t ReadByte(char* c) {
  for (;;) {
    pollfd files[2] = {{STDIN_FILENO, POLLIN, 0}, {interruption, POLLIN, 0}};
    if (!interrupted && poll(files, 2, -1) < 0 && errno != EINTR) return -1;
    if (interrupted) {
      errno = EINTR;
      return -1;
    }
    if (files[0].revents == 0) continue;
    const ssize_t n = read(STDIN_FILENO, c, 1);  // what comes next may be another program's
    if (n >= 0 || errno != EINTR) return n;
  }
}

// For libedit: 1 and a character, 0 at the end, -1 for an error.
int ReadCharacter(EditLine*, wchar_t* character) {
  mbstate_t state = {};
  for (;;) {
    char c;
    const ssize_t n = ReadByte(&c);
    if (n <= 0) return static_cast<int>(n);
    switch (mbrtowc(character, &c, 1, &state)) {
      case static_cast<size_t>(-2):
        continue;
      case static_cast<size_t>(-1):
        *character = L'?';
        return 1;
      default:
        return 1;
    }
  }
}

std::string CommonBeginning(const std::vector<std::string>& words) {
  std::string common = words.front();
  for (const std::string& word : words) {
    size_t n = 0;
    while (n < common.size() && n < word.size() && common[n] == word[n]) ++n;
    common.resize(n);
  }
  // Not a part of a character.
  while (!common.empty() && common.size() < words.front().size() &&
         (static_cast<unsigned char>(words.front()[common.size()]) & 0xc0) == 0x80) {
    common.pop_back();
  }
  return common;
}

// In columns, as a shell lists files.
void ListWords(const std::vector<std::string>& words) {
  const size_t shown = std::min(words.size(), kMaxListed);
  size_t width = 0;
  for (size_t i = 0; i < shown; ++i) width = std::max(width, DisplayWidth(words[i]) + 2);
  const size_t columns =
      std::max<size_t>(1, (SizeOfScreen(STDOUT_FILENO).columns - 1) / std::max<size_t>(width, 1));
  const size_t rows = (shown + columns - 1) / columns;
  std::string text = "\n";
  for (size_t row = 0; row < rows; ++row) {
    std::string line;
    for (size_t i = row; i < shown; i += rows) {
      line += words[i];
      if (i + rows < shown) line.append(width - DisplayWidth(words[i]), ' ');
    }
    text += line + "\n";
  }
  if (shown < words.size()) text += fmt::format("… {} more\n", words.size() - shown);
  fputs(text.c_str(), stdout);
  fflush(stdout);
}

}  // namespace

struct LineEditor::Impl {
  Complete complete;
  std::string history_file, prompt, last;
  bool terminal = false;  // on both sides
  EditLine* line = nullptr;
  History* history = nullptr;
  struct sigaction before = {};

  static char* Prompt(EditLine* line) {
    Impl* self;
    el_get(line, EL_CLIENTDATA, &self);
    return self->prompt.data();
  }

  static unsigned char OnTab(EditLine* line, int) {
    Impl* self;
    el_get(line, EL_CLIENTDATA, &self);
    const LineInfo* info = el_line(line);
    const std::string_view before(info->buffer, info->cursor - info->buffer);
    const Completion found = self->complete(before);
    if (found.candidates.empty() || found.begin > before.size()) return CC_ERROR;
    const std::string common = CommonBeginning(found.candidates);
    const std::string_view begun = before.substr(found.begin);
    const bool one = found.candidates.size() == 1;
    if (common.size() >= begun.size() && (one || common.size() > begun.size())) {
      // What is there may be written in other letters: keywords are.
      el_deletestr(line, static_cast<int>(DecodedLength(begun)));
      el_insertstr(line, (common + (one ? " " : "")).c_str());
      return CC_REFRESH;
    }
    ListWords(found.candidates);
    return CC_REDISPLAY;
  }

  // Characters, which libedit counts in.
  static size_t DecodedLength(std::string_view text) {
    return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
  }

  void Load() {
    std::ifstream file(history_file);
    std::deque<std::string> lines;
    for (std::string text; std::getline(file, text);) {
      // Others may have written to it.
      if (text.empty() || text.size() > kMaxLine || Printable(text) != text) continue;
      lines.push_back(std::move(text));
      if (lines.size() > size_t{kMaxHistory}) lines.pop_front();
    }
    HistEvent event;
    for (const std::string& text : lines) history_w(text, &event);
    if (!lines.empty()) last = lines.back();
  }

  void history_w(const std::string& text, HistEvent* event) {
    ::history(history, event, H_ENTER, text.c_str());
  }
};

LineEditor::LineEditor(std::string history_file, Complete complete)
    : impl_(std::make_unique<Impl>()) {
  impl_->complete = std::move(complete);
  impl_->history_file = std::move(history_file);
  impl_->terminal = IsTerminal(STDIN_FILENO) && IsTerminal(STDOUT_FILENO);
  struct sigaction action = {};
  action.sa_handler = OnLineInterrupt;  // no SA_RESTART: reading ends
  interruption = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (impl_->terminal) sigaction(SIGINT, &action, &impl_->before);
  if (!impl_->terminal || !MovesCursor()) return;
  // libedit takes apart what is typed by the locale.
  setlocale(LC_CTYPE, "");
  impl_->line = el_init("ttq", stdin, stdout, stderr);
  impl_->history = history_init();
  if (!impl_->line || !impl_->history) return;
  HistEvent event;
  history(impl_->history, &event, H_SETSIZE, kMaxHistory);
  history(impl_->history, &event, H_SETUNIQUE, 0);
  el_set(impl_->line, EL_CLIENTDATA, impl_.get());
  el_set(impl_->line, EL_PROMPT, &Impl::Prompt);
  el_set(impl_->line, EL_EDITOR, "emacs");
  el_set(impl_->line, EL_HIST, history, impl_->history);
  el_set(impl_->line, EL_SIGNAL, 1);
  el_set(impl_->line, EL_GETCFN, &ReadCharacter);
  el_set(impl_->line, EL_ADDFN, "ttq-complete", "complete the word", &Impl::OnTab);
  el_set(impl_->line, EL_BIND, "^I", "ttq-complete", nullptr);
  el_set(impl_->line, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  el_source(impl_->line, nullptr);  // ~/.editrc
  if (!impl_->history_file.empty()) impl_->Load();
}

LineEditor::~LineEditor() {
  if (impl_->line) el_end(impl_->line);
  if (impl_->history) history_end(impl_->history);
  if (impl_->terminal) sigaction(SIGINT, &impl_->before, nullptr);
  if (interruption >= 0) close(interruption);
  interruption = -1;
}

bool LineEditor::interactive() const { return impl_->terminal; }

LineEditor::Line LineEditor::Read(const std::string& prompt) {
  Line read;
  interrupted = 0;
  uint64_t count_of_signals;
  if (::read(interruption, &count_of_signals, sizeof count_of_signals) < 0) {
    // There was none.
  }
  if (impl_->line) {
    impl_->prompt = prompt;
    el_resize(impl_->line);
    // Before the prompt is shown: el_gets does so after it, and a Ctrl-D in between would be the
    // end of a line in the terminal's own mode, which libedit reads as a zero.
    el_set(impl_->line, EL_PREP_TERM, 1);
    int count = 0;
    const char* text = el_gets(impl_->line, &count);
    if (text && count > 0) {
      read = {Line::Kind::kText, std::string(text, count)};
    } else if (interrupted) {
      read.kind = Line::Kind::kInterrupted;
      fputs("\n", stdout);
    } else {
      fputs("\n", stdout);
    }
    fflush(stdout);
  } else {
    if (impl_->terminal) {
      fputs(prompt.c_str(), stdout);
      fflush(stdout);
    }
    char c;
    bool any = false;
    while (read.text.size() < kMaxLine) {
      const ssize_t n = ReadByte(&c);
      if (n < 0 && errno == EINTR) {
        fputs("\n", stdout);
        return {Line::Kind::kInterrupted, ""};
      }
      if (n <= 0) break;
      any = true;
      if (c == '\n') break;
      read.text += c;
    }
    if (any) read.kind = Line::Kind::kText;
  }
  while (!read.text.empty() && (read.text.back() == '\n' || read.text.back() == '\r')) {
    read.text.pop_back();
  }
  return read;
}

void LineEditor::Remember(const std::string& line) {
  if (!impl_->history || line.empty() || line == impl_->last) return;
  impl_->last = line;
  HistEvent event;
  impl_->history_w(line, &event);
  if (impl_->history_file.empty()) return;
  std::error_code ec;
  std::filesystem::create_directories(std::filesystem::path(impl_->history_file).parent_path(), ec);
  // Several shells may do so: a line is one write.
  const int fd = open(impl_->history_file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  const std::string text = line + "\n";
  if (write(fd, text.data(), text.size()) < 0) impl_->history_file.clear();  // it stays as it is
  close(fd);
}

}  // namespace ttq

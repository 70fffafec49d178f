// SPDX-License-Identifier: MIT
//
// The page. Everything that comes from the recording goes through Escape, which leaves nothing that
// a browser would take for markup, nor characters that turn text round or hide it.

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/text.h"
#include "fmt/core.h"
#include "nlohmann/json.hpp"
#include "report/autopsy.h"
#include "report/page_style.h"

namespace ttq {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxBytes = 2'000'000;

std::string Escape(std::string_view text) {
  std::string out;
  for (const char c : Printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// A value as text; "" for null.
std::string Plain(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const Json& Field(const Json& object, const char* name) {
  static const Json kNull;
  const auto it = object.find(name);
  return it == object.end() ? kNull : *it;
}

std::string TextOf(const Json& object, const char* name) { return Plain(Field(object, name)); }

// "mean at report.py:35", escaped.
std::string Place(const Json& place) {
  std::string text = Escape(TextOf(place, "function"));
  const std::string file(BaseName(TextOf(place, "file"))), line = TextOf(place, "line");
  if (text.empty()) text = Escape(TextOf(place, "pc"));
  if (!file.empty() && !line.empty()) {
    text += fmt::format(" <span class=\"dim\">at {}:{}</span>", Escape(file), line);
  } else if (const std::string module = TextOf(place, "module"); !module.empty()) {
    text += fmt::format(" <span class=\"dim\">in {}</span>", Escape(module));
  }
  return text;
}

uint64_t NumberOf(const Json& value) {
  if (value.is_number()) return value.get<uint64_t>();
  if (value.is_string()) return strtoull(value.get_ref<const std::string&>().c_str(), nullptr, 0);
  return 0;
}

class Page {
 public:
  explicit Page(const Json& document) : document_(document) {}

  std::string Write() {
    const Json& facts = Field(document_, "recording");
    const std::string title =
        TextOf(facts, "program").empty()
            ? std::string("ttq report")
            : Cat(BaseName(TextOf(facts, "program")), ": ", TextOf(document_, "cause"));
    Add("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    Add(
        fmt::format("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                    "style-src '{}'; base-uri 'none'; form-action 'none'\">\n",
                    kPageStyleHash));
    Add("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    Add("<meta name=\"referrer\" content=\"no-referrer\">\n");
    Add(fmt::format("<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n", Escape(title),
                    kPageStyle));
    Head(facts);
    Add("<main>\n");
    for (const Json& panel : Field(document_, "panels")) Panel(panel);
    Facts(facts);
    Add("</main>\n");
    Data();
    Add("</body>\n</html>\n");
    return std::move(out_);
  }

 private:
  void Add(std::string_view text) { out_ += text; }

  void Head(const Json& facts) {
    Add(fmt::format("<header>\n<h1>{}</h1>\n", Escape(TextOf(document_, "cause"))));
    const std::string program = Escape(BaseName(TextOf(facts, "program"))),
                      ended = Escape(TextOf(facts, "ended")),
                      thread = Field(document_, "thread").is_null()
                                   ? ""
                                   : fmt::format(" in thread {}", TextOf(document_, "thread"));
    if (const std::string moment = TextOf(facts, "history_unknown_before"); !moment.empty()) {
      Add(fmt::format("<p>{}{}; {}. What happened before {} is unknown.</p>\n", program, thread,
                      ended, Escape(moment)));
    } else {
      Add(fmt::format("<p>{}, at time {}{}. {} instructions; {}.</p>\n", program,
                      TextOf(document_, "time"), thread, TextOf(facts, "instructions"), ended));
    }
    for (const Json& why : Field(document_, "incomplete")) {
      Add(fmt::format("<p class=\"warn\">Incomplete: {}</p>\n", Escape(Plain(why))));
    }
    Add("<nav aria-label=\"Parts of this page\"><ul>\n");
    for (const Json& panel : Field(document_, "panels")) {
      Add(fmt::format("<li><a href=\"#{0}\">{1}</a></li>\n", TextOf(panel, "id"),
                      Escape(TextOf(panel, "title"))));
    }
    Add("<li><a href=\"#recording\">Recording</a></li>\n</ul></nav>\n</header>\n");
  }

  void Panel(const Json& panel) {
    const std::string id = TextOf(panel, "id");
    Add(fmt::format("<section aria-labelledby=\"{0}\">\n<h2 id=\"{0}\">{1}</h2>\n", id,
                    Escape(TextOf(panel, "title"))));
    const Json& rows = Field(panel, "rows");
    if (id == "crash") {
      Crash(rows[0]);
    } else if (id == "exception") {
      Exception(rows[0]);
    } else if (id == "origin") {
      Origin(rows);
    } else if (id == "stacks") {
      Stacks(rows);
    } else if (id == "object") {
      Object(rows[0]);
    } else if (id == "life") {
      Life(rows);
    } else if (id == "writes") {
      Table(rows, {"time", "thread", "previous", "value", "actor", "by"});
    } else if (id == "heap") {
      Heap(rows, TextOf(panel, "address"));
    } else if (id == "around") {
      Around(rows);
    } else if (id == "modules") {
      Add("<details>\n<summary>");
      Add(fmt::format("{} modules</summary>\n", rows.size()));
      Table(rows, {"module", "address", "build_id", "path"});
      Add("</details>\n");
    } else {
      std::vector<std::string> columns;
      for (const Json& column : Field(panel, "columns")) columns.push_back(TextOf(column, "name"));
      Table(rows, columns);
    }
    if (rows.empty()) Add("<p class=\"dim\">None.</p>\n");
    if (Field(panel, "truncated") == true) Add("<p class=\"dim\">… and more.</p>\n");
    if (Field(panel, "complete") == false) {
      Add(fmt::format("<p class=\"warn\">This may miss something{}</p>\n",
                      Field(panel, "note").is_null() ? "." : ": " + Escape(TextOf(panel, "note"))));
    } else if (!Field(panel, "note").is_null()) {
      Add(fmt::format("<p class=\"dim\">{}</p>\n", Escape(TextOf(panel, "note"))));
    }
    const std::string question = TextOf(panel, "question");
    if (!question.empty()) {
      Add(fmt::format("<p class=\"ask\">Ask it again: <code>ttq {}</code></p>\n",
                      Escape(ShellWord(question))));
    }
    Add("</section>\n");
  }

  // In single quotes, as a shell reads it.
  static std::string ShellWord(const std::string& text) {
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
    return out + "'";
  }

  void Excerpt(const Json& excerpt) {
    if (!excerpt.is_object()) return;
    const int64_t first = Field(excerpt, "first").get<int64_t>();
    const int64_t here = Field(excerpt, "line").get<int64_t>();
    const std::string file(BaseName(TextOf(excerpt, "file")));
    Add(fmt::format("<pre tabindex=\"0\" role=\"region\" aria-label=\"{}, line {}, {}\">",
                    Escape(file), here, ++excerpts_));
    int64_t n = first;
    for (const Json& line : Field(excerpt, "lines")) {
      std::string text;
      for (const char c : Plain(line)) text += c == '\t' ? std::string("    ") : std::string(1, c);
      Add(fmt::format("<span{}><span class=\"n\">{:>5}{}</span> {}</span>",
                      n == here ? " class=\"here\"" : "", n, n == here ? " →" : "  ",
                      Escape(text)));
      ++n;
    }
    Add("</pre>\n");
  }

  void Pair(std::string_view label, const std::string& text) {
    if (!text.empty()) {
      Add(fmt::format("<dt>{}</dt><dd class=\"v\">{}</dd>\n", label, Escape(text)));
    }
  }

  void Crash(const Json& row) {
    Add("<dl>\n");
    Pair("Signal", TextOf(row, "signal"));
    Pair("Cause", TextOf(row, "cause"));
    Pair("Message", TextOf(row, "message"));
    std::string instruction = TextOf(row, "instruction");
    Pair("Instruction", instruction);
    if (const Json& operands = Field(row, "operands"); operands.is_object()) {
      std::string text;
      for (const auto& [name, value] : operands.items()) {
        text += (text.empty() ? "" : ", ") + name + " = " + Plain(value);
      }
      Pair("Operands", text);
    }
    const std::string access = TextOf(row, "access");
    Pair(access == "read"    ? "It read"
         : access == "write" ? "It wrote"
         : access == "free"  ? "It freed"
                             : "Address",
         TextOf(row, "address"));
    Pair("That memory", TextOf(row, "memory"));
    Pair("From the word at", TextOf(row, "word"));
    Pair("That word", TextOf(row, "word_memory"));
    if (const Json& pointer = Field(row, "stale_pointer"); pointer.is_object()) {
      Pair("Pointer at fault",
           fmt::format("{}, {}", TextOf(pointer, "value"), TextOf(pointer, "state")));
      Pair("In the word at", TextOf(pointer, "word"));
      Pair("Stored there", TextOf(pointer, "stored"));
      Pair("Its block", TextOf(pointer, "block"));
    }
    Add("</dl>\n");
    Excerpt(Field(row, "excerpt"));
  }

  void Exception(const Json& exception) {
    Add("<dl>\n");
    Pair("Type", TextOf(exception, "type"));
    Pair("Message", TextOf(exception, "message"));
    Pair("Raised at", TextOf(exception, "time"));
    Pair("Raised by", TextOf(exception, "raised_by"));
    Pair("Test", TextOf(exception, "test"));
    Add("</dl>\n");
    if (const Json& native = Field(exception, "native"); native.is_object()) {
      const std::string how = TextOf(native, "how");
      Add(fmt::format("<p>{} in {} at <span class=\"v\">{}</span></p>\n", Escape(how),
                      how == "thrown" ? "C++" : "C", Escape(TextOf(native, "time"))));
      Frames(Field(native, "frames"));
      Add("<p>Under Python's frames</p>\n");
    }
    Frames(Field(exception, "frames"));
  }

  // The innermost one open.
  void Frames(const Json& frames) {
    if (!frames.is_array()) return;
    bool first = true;
    for (const Json& frame : frames) {
      Frame(frame, first);
      first = false;
    }
  }

  void Origin(const Json& hops) {
    size_t n = 0;
    for (const Json& hop : hops) {
      const bool last = ++n == hops.size();
      Add(fmt::format("<div class=\"card{}\">\n<h3>{}. {} = {}</h3>\n", last ? " last" : "", n,
                      Escape(TextOf(hop, "location")),
                      Escape(TextOf(hop, "value").empty() ? "?" : TextOf(hop, "value"))));
      Add("<dl>\n");
      Pair("Taken from", TextOf(hop, "origin"));
      Pair("By", TextOf(hop, "instruction"));
      Pair("In", TextOf(hop, "by"));
      Pair("Time", TextOf(hop, "time"));
      if (const Json& python = Field(hop, "python"); python.is_object()) {
        Pair("In Python", fmt::format("{} at {}:{}  {}", TextOf(python, "function"),
                                      BaseName(TextOf(python, "file")), TextOf(python, "line"),
                                      TextOf(python, "source")));
      }
      Add("</dl>\n");
      Excerpt(Field(hop, "excerpt"));
      Add("</div>\n");
    }
  }

  // Names and values.
  void Variables(const Json& variables, const char* caption) {
    if (variables.empty()) return;
    Add(
        fmt::format("<table>\n<caption class=\"dim\">{}</caption>\n<thead><tr><th "
                    "scope=\"col\">Name</th><th scope=\"col\">Type</th><th "
                    "scope=\"col\">Value</th></tr></thead>\n<tbody>\n",
                    caption));
    for (const Json& v : variables) {
      Add(fmt::format(
          "<tr><th scope=\"row\" class=\"v\">{}</th><td class=\"v\">{}</td><td "
          "class=\"v\">{}</td></tr>\n",
          Escape(TextOf(v, "name")), Escape(TextOf(v, "type")), Escape(TextOf(v, "value"))));
    }
    Add("</tbody>\n</table>\n");
  }

  void Frame(const Json& frame, bool open) {
    const bool python = TextOf(frame, "language") == "python" || frame.contains("locals_of_python");
    Add(fmt::format("<details{}>\n<summary><span class=\"v\">#{}</span> {}{}</summary>\n",
                    open ? " open" : "", TextOf(frame, "frame"), Place(frame),
                    python ? " <span class=\"dim\">Python</span>" : ""));
    if (const Json& args = Field(frame, "args"); args.is_object() && !args.empty()) {
      Json list = Json::array();
      for (const auto& [name, value] : args.items()) {
        list.push_back({{"name", name}, {"type", ""}, {"value", Plain(value)}});
      }
      Variables(list, "Arguments");
    }
    if (const Json& locals = Field(frame, "locals"); locals.is_array()) {
      Variables(locals, "Variables");
    } else if (locals.is_object()) {
      Json list = Json::array();
      for (const auto& [name, value] : locals.items()) {
        list.push_back({{"name", name}, {"type", ""}, {"value", Plain(value)}});
      }
      Variables(list, "Variables");
    }
    if (frame.contains("excerpt") && Field(frame, "excerpt").is_object()) {
      Excerpt(Field(frame, "excerpt"));
    } else if (const std::string source = TextOf(frame, "source"); !source.empty()) {
      Add(fmt::format("<p><code>{}</code></p>\n", Escape(source)));
    }
    Add("</details>\n");
  }

  void Stacks(const Json& rows) {
    std::string thread;
    bool first = true;
    for (const Json& row : rows) {
      const std::string of = TextOf(row, "thread");
      if (first || of != thread) {
        if (!first) Add("</details>\n");
        Add(fmt::format("<details{}>\n<summary>Thread {}{}</summary>\n", first ? " open" : "",
                        Escape(of), of == TextOf(document_, "thread") ? ", the one at fault" : ""));
      }
      Frame(row, first);
      thread = of;
      first = false;
    }
    if (!first) Add("</details>\n");
  }

  void Object(const Json& object) {
    Add("<dl>\n");
    Pair("Object", TextOf(object, "type") + " at " + TextOf(object, "address"));
    Pair("Found", TextOf(object, "found"));
    Pair("Value", TextOf(object, "repr"));
    Pair("State", TextOf(object, "state"));
    Pair("References", TextOf(object, "refcount"));
    for (const char* what : {"created", "freed"}) {
      const std::string time = TextOf(object, (std::string(what) + "_time").c_str());
      if (time.empty()) continue;
      std::string text = "at time " + time;
      if (const Json& by = Field(object, (std::string(what) + "_by").c_str()); by.is_object()) {
        text += fmt::format(", by {} at {}:{}", TextOf(by, "function"),
                            BaseName(TextOf(by, "file")), TextOf(by, "line"));
      }
      const std::string in = TextOf(object, (std::string(what) + "_in").c_str());
      if (!in.empty()) text += ", in " + in;
      Pair(what[0] == 'c' ? "Made" : "Freed", text);
    }
    Add("</dl>\n");
    const Json& owners = Field(object, "references");
    if (!owners.is_array() || owners.empty()) return;
    int64_t worst = 0;
    const auto balance = [](const Json& owner, const char* name) {
      const Json& n = Field(owner, name);
      return n.is_number() ? n.get<int64_t>() : 0;
    };
    for (const Json& owner : owners) {
      worst = std::max(worst, std::abs(balance(owner, "balance")));
    }
    Add("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Owners of references\">"
        "<table>\n<caption class=\"dim\">Owners of references that do not come out even"
        "</caption>\n<thead><tr><th scope=\"col\">Taken − given back</th><th scope=\"col\">After "
        "it "
        "was freed</th><th scope=\"col\">Owner</th><th scope=\"col\">In Python</th></tr></thead>\n"
        "<tbody>\n");
    for (const Json& owner : owners) {
      const int64_t n = balance(owner, "balance");
      const bool bad = n != 0 && std::abs(n) == worst;
      const Json& python = Field(owner, "python");
      Add(fmt::format(
          "<tr{}><td class=\"v\">{:+}{}</td><td class=\"v\">{}</td><td class=\"v\">{}</td><td "
          "class=\"v\">{}</td></tr>\n",
          bad ? " class=\"bad\"" : "", n, bad ? " (furthest from even)" : "",
          balance(owner, "after_free"), Escape(TextOf(owner, "function")),
          python.is_object() ? Place(python) : ""));
    }
    Add("</tbody>\n</table></div>\n");
  }

  // Its count over time, as steps.
  void Life(const Json& rows) {
    if (rows.size() > 1) {
      const uint64_t begin = NumberOf(Field(rows.front(), "time"));
      const uint64_t end = std::max(begin + 1, NumberOf(Field(rows.back(), "time")));
      int64_t most = 1;
      for (const Json& row : rows) {
        const Json& after = Field(row, "after");
        if (after.is_number()) most = std::max(most, after.get<int64_t>());
      }
      const auto x = [&](const Json& row) {
        return 20 + 560.0 * static_cast<double>(NumberOf(Field(row, "time")) - begin) /
                        static_cast<double>(end - begin);
      };
      const auto y = [&](int64_t count) {
        return 110 - 90.0 * static_cast<double>(std::clamp<int64_t>(count, 0, most)) /
                         static_cast<double>(most);
      };
      std::string path, dots;
      for (const Json& row : rows) {
        const Json& after = Field(row, "after");
        const int64_t count = after.is_number() ? after.get<int64_t>() : 0;
        path += path.empty() ? fmt::format("M{:.1f} {:.1f}", x(row), y(count))
                             : fmt::format("H{:.1f}V{:.1f}", x(row), y(count));
        dots += fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>",
                            count <= 0 ? "bad" : "dot", x(row), y(count));
      }
      Add(fmt::format(
          "<svg viewBox=\"0 0 600 140\" role=\"img\" aria-label=\"The reference count over time: "
          "{} changes, at most {}\"><line class=\"rule\" x1=\"20\" y1=\"110\" x2=\"580\" "
          "y2=\"110\"/><path class=\"line\" d=\"{}\"/>{}<text x=\"20\" y=\"130\">{}</text><text "
          "x=\"580\" y=\"130\" text-anchor=\"end\">{}</text><text x=\"2\" y=\"24\">{}</text><text "
          "x=\"2\" y=\"114\">0</text></svg>\n",
          rows.size(), most, path, dots, begin, end, most));
    }
    Add("<details>\n<summary>");
    Add(fmt::format("{} changes of the count</summary>\n", rows.size()));
    Table(rows, {"time", "thread", "event", "delta", "before", "after", "function", "python"});
    Add("</details>\n");
  }

  // Blocks side by side, as long as they are.
  void Heap(const Json& rows, const std::string& address) {
    uint64_t begin = ~uint64_t{0}, end = 0;
    for (const Json& row : rows) {
      const uint64_t at = NumberOf(Field(row, "begin")), size = NumberOf(Field(row, "size"));
      if (at == 0) continue;
      begin = std::min(begin, at);
      end = std::max(end, at + size);
    }
    if (begin < end && end - begin < (uint64_t{1} << 24)) {
      const auto x = [&](uint64_t a) {
        return 10 + 580.0 * static_cast<double>(a - begin) / static_cast<double>(end - begin);
      };
      std::string blocks;
      for (const Json& row : rows) {
        const uint64_t at = NumberOf(Field(row, "begin")), size = NumberOf(Field(row, "size"));
        if (at == 0) continue;
        blocks += fmt::format(
            "<rect class=\"block\" x=\"{:.1f}\" y=\"30\" width=\"{:.1f}\" height=\"40\"{}/>", x(at),
            std::max(1.0, x(at + size) - x(at)),
            TextOf(row, "state") == "freed" ? " stroke-dasharray=\"4 3\"" : "");
        blocks += fmt::format("<text x=\"{:.1f}\" y=\"86\">{} bytes, {}</text>", x(at), size,
                              Escape(TextOf(row, "state")));
      }
      const uint64_t here = strtoull(address.c_str(), nullptr, 16);
      std::string mark;
      if (here >= begin && here <= end) {
        mark = fmt::format(
            "<line class=\"bad\" x1=\"{0:.1f}\" y1=\"22\" x2=\"{0:.1f}\" y2=\"74\" "
            "stroke-width=\"2\"/><text x=\"{0:.1f}\" y=\"16\">{1}</text>",
            x(here), Escape(address));
      }
      Add(
          fmt::format("<svg viewBox=\"0 0 600 95\" role=\"img\" aria-label=\"{} heap blocks, to "
                      "scale\">{}{}</svg>\n",
                      rows.size(), blocks, mark));
    }
    Table(rows, {"position", "state", "begin", "size", "offset", "allocated_at", "allocated_by",
                 "freed_at", "freed_by"});
  }

  // A strip of wall clock, then the events.
  void Around(const Json& rows) {
    int64_t begin = INT64_MAX, end = 0;
    for (const Json& row : rows) {
      const Json& ns = Field(row, "wall_ns");
      if (!ns.is_number() || ns.get<int64_t>() == 0) continue;
      begin = std::min(begin, ns.get<int64_t>());
      end = std::max(end, ns.get<int64_t>());
    }
    if (begin < end) {
      const auto lane = [](const std::string& kind) {
        return kind == "output" ? 0 : kind == "syscall" ? 1 : kind == "signal" ? 2 : 3;
      };
      std::string marks;
      for (const Json& row : rows) {
        const Json& ns = Field(row, "wall_ns");
        if (!ns.is_number() || ns.get<int64_t>() == 0) continue;
        const std::string kind = TextOf(row, "kind");
        marks += fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{}\" r=\"4\"/>",
                             kind == "signal" ? "bad" : "dot",
                             80 + 500.0 * static_cast<double>(ns.get<int64_t>() - begin) /
                                      static_cast<double>(end - begin),
                             16 + 20 * lane(kind));
      }
      std::string lanes;
      constexpr const char* kLanes[] = {"output", "system calls", "signals", "others"};
      for (int i = 0; i < 4; ++i) {
        lanes += fmt::format(
            "<text x=\"0\" y=\"{0}\">{1}</text><line class=\"rule\" x1=\"80\" "
            "y1=\"{2}\" x2=\"580\" y2=\"{2}\" stroke-dasharray=\"1 4\"/>",
            20 + 20 * i, kLanes[i], 16 + 20 * i);
      }
      Add(
          fmt::format("<svg viewBox=\"0 0 600 110\" role=\"img\" aria-label=\"{} events in {:.3f} "
                      "milliseconds of wall clock\">{}{}<text x=\"80\" y=\"105\">0 ms</text><text "
                      "x=\"580\" y=\"105\" text-anchor=\"end\">{:.3f} ms</text></svg>\n",
                      rows.size(), static_cast<double>(end - begin) / 1e6, lanes, marks,
                      static_cast<double>(end - begin) / 1e6));
    }
    Table(rows, {"time", "thread", "kind", "detail", "result"});
  }

  void Table(const Json& rows, std::vector<std::string> columns) {
    if (rows.empty()) return;
    // What no row has is left out.
    std::erase_if(columns, [&](const std::string& column) {
      return std::all_of(rows.begin(), rows.end(),
                         [&](const Json& row) { return Field(row, column.c_str()).is_null(); });
    });
    Add(
        fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table {}\">"
                    "<table>\n<thead><tr>",
                    ++tables_));
    for (const std::string& column : columns) {
      std::string label = column;
      std::replace(label.begin(), label.end(), '_', ' ');
      Add(fmt::format("<th scope=\"col\">{}</th>", Escape(label)));
    }
    Add("</tr></thead>\n<tbody>\n");
    for (const Json& row : rows) {
      Add("<tr>");
      for (const std::string& column : columns) {
        const Json& value = Field(row, column.c_str());
        const bool is_place = value.is_object() && value.contains("function");
        Add(fmt::format("<td class=\"v\">{}</td>", is_place ? Place(value) : Escape(Plain(value))));
      }
      Add("</tr>\n");
    }
    Add("</tbody>\n</table></div>\n");
  }

  void Facts(const Json& facts) {
    Add("<section aria-labelledby=\"recording\">\n<h2 id=\"recording\">Recording</h2>\n<dl>\n");
    std::string command;
    if (const Json& words = Field(facts, "command"); words.is_array()) {
      for (const Json& word : words) command += (command.empty() ? "" : " ") + Plain(word);
    } else {
      command = Plain(words);
    }
    Pair("Command", command);
    Pair("Recording", TextOf(facts, "name"));
    Pair("Process", TextOf(facts, "process"));
    Pair("Python", TextOf(facts, "python"));
    Pair("Threads", TextOf(facts, "threads"));
    Pair("Recorded by", "ttq " + TextOf(facts, "recorder"));
    Pair("Page made by", "ttq " + TextOf(facts, "ttq"));
    Add("</dl>\n</section>\n");
  }

  // The document, for programs. `<` cannot end the element, and what is not ASCII is escaped: some
  // characters turn the text of whoever shows the source.
  void Data() {
    const std::string json = document_.dump(-1, ' ', true, Json::error_handler_t::replace);
    std::string safe;
    for (const char c : json) {
      if (c == '<') {
        safe += "\\u003c";
      } else if (c == '>') {
        safe += "\\u003e";
      } else if (c == '&') {
        safe += "\\u0026";
      } else {
        safe += c;
      }
    }
    Add("<script type=\"application/json\" id=\"ttq-report\">");
    Add(safe);
    Add("</script>\n");
  }

  const Json& document_;
  std::string out_;
  size_t excerpts_ = 0, tables_ = 0;
};

// Cuts texts to `most` characters and lists to `items`.
void Cut(size_t most, size_t items, bool top, Json* value) {
  if (value->is_object()) {
    for (auto& [key, inner] : value->items()) Cut(most, items, top && key == "panels", &inner);
  } else if (value->is_array()) {
    if (!top && value->size() > items) {
      value->erase(value->begin() + static_cast<std::ptrdiff_t>(items), value->end());
    }
    for (Json& inner : *value) Cut(most, items, false, &inner);
  } else if (value->is_string()) {
    const std::string& text = value->get_ref<const std::string&>();
    if (text.size() <= most) return;
    size_t end = most;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    *value = text.substr(0, end) + "…";
  }
}

}  // namespace

std::string AutopsyHtml(std::string_view json) {
  Json document = Json::parse(json);
  std::string page = Page(document).Write();
  for (size_t most = 1000, items = 200; page.size() > kMaxBytes && most > 10;
       most /= 2, items = std::max<size_t>(items / 2, 5)) {
    Cut(most, items, /*top=*/true, &document);
    document["incomplete"].push_back(
        "long texts and lists were cut, for the page to be below 2 MB");
    page = Page(document).Write();
    document["incomplete"].erase(document["incomplete"].size() - 1);
  }
  return page;
}

}  // namespace ttq

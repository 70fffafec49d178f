# SPDX-License-Identifier: MIT
"""`ttq report`: the page of programs that die, fail or are well. What it says is what the questions below its
parts answer; it is well-formed, the same twice, without anything that loads or runs; hostile text stays text.
Tidy finds no fault with it, nor does axe-core (contrast, names, order) in Chromium, light or dark, narrow or wide.

    report_test.py TTQ MODULES

What looks at pages in Chromium is installed in the directory MODULES, once; where it cannot be, that part is skipped.
"""

import base64
import hashlib
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
import npm

TTQ, MODULES = (os.path.abspath(p) for p in sys.argv[1:3])
EVIL = "</script><script>alert(1)</script>&\"'<img src=x onerror=alert(2)>\u202e"
VOID = {"meta"}
VOID_SVG = {"circle", "line", "rect", "path"}

CRASH = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct node { struct node* next; char name[80]; };
static struct node* make(const char* name, struct node* next) {
  struct node* n = malloc(sizeof *n);
  strncpy(n->name, name, sizeof n->name);
  n->next = next;
  return n;
}
static int walk(struct node* n) {
  int count = 0;
  for (; n; n = n->next) count += n->name[0] != 0;
  return count;
}
int main(int argc, char** argv) {
  struct node* list = make(argv[1], make("last", NULL));
  fprintf(stderr, "%s\n", argv[1]);
  list->next->next = (struct node*)(long)argc;
  return walk(list);
}
"""

PYTHON = """
class Odd:
    def __repr__(self):
        return "</script><b>odd</b>"
def mean(values, text):
    total = sum(values)
    return total / len(values)
mean([], "</script><b>odd</b>")
"""

problems = []


def expect(condition, what):
    if not condition:
        problems.append(str(what))


class Reader(html.parser.HTMLParser):
    """Checks the nesting; collects elements, identifiers and texts."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.ids, self.links, self.text = [], [], [], [], []
        self.wrong, self.scripts, self.style = [], [], ""

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if len(dict(attributes)) != len(attributes):
            self.wrong.append(f"an attribute twice in {tag}")
        for name, value in attributes:
            if name.startswith("on") or name in ("src", "style"):
                self.wrong.append(f"{tag} has {name}")
            if name == "href":
                self.links.append(value)
            if name == "id":
                self.ids.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()
        if tag not in VOID_SVG:
            self.wrong.append(f"<{tag}/>")

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> closes nothing")

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif self.open and self.open[-1] == "style":
            self.style += data
        else:
            self.text.append(data)


def ttq(*arguments, status=0):
    run = subprocess.run([TTQ, *arguments], capture_output=True, text=True, timeout=300)
    expect(run.returncode == status, f"{arguments}: status {run.returncode}, {run.stderr}")
    return run


def read(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    expect(not reader.open and not reader.wrong, f"not well-formed: {reader.open} {reader.wrong}")
    expect(len(reader.ids) == len(set(reader.ids)), "an id twice")
    for link in reader.links:
        expect(link.startswith("#") and link[1:] in reader.ids, f"a link that leads nowhere: {link}")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    digest = base64.b64encode(hashlib.sha256(reader.style.encode()).digest()).decode()
    expect(f"style-src 'sha256-{digest}'" in policy, f"the style's hash is {digest}, another than the policy's")
    expect(policy.startswith("default-src 'none';"), policy)
    expect("http://" not in page and "https://" not in page and "url(" not in page, "it loads something")
    expect(reader.tags.count("script") == 1 and len(reader.scripts) == 1, "it has scripts of its own")
    expect("<b>" not in page and "<img" not in page, "markup of the program's")
    expect("\u202e" not in page, "a character that turns text round")
    expect(len(page.encode()) <= 2_000_000, "above 2 MB")
    return json.loads(reader.scripts[0]), " ".join(reader.text)


def panels(document):
    return {panel["id"]: panel for panel in document["panels"]}


def crash(scratch):
    source = os.path.join(scratch, "dies.c")
    with open(source, "w") as file:
        file.write(CRASH)
    program = os.path.join(scratch, "dies")
    subprocess.run(["gcc", "-g", "-O0", "-o", program, source], check=True)
    recording = os.path.join(scratch, "dies.ttq")
    run = subprocess.run([TTQ, "record", "--report", "-o", recording, "--", program, EVIL],
                         capture_output=True, text=True)
    expect(run.returncode == 128 + 11, f"record: {run.returncode} {run.stderr}")
    made = os.path.join(scratch, "dies.html")
    if not os.path.exists(made):
        problems.append(f"no page: {run.stderr}")
        return
    with open(made, encoding="utf-8") as file:
        page = file.read()
    again = ttq("report", "-o", "-", recording).stdout
    expect(again == page, "another page the second time")
    document, text = read(page)
    parts = panels(document)
    line = CRASH.splitlines().index("  for (; n; n = n->next) count += n->name[0] != 0;") + 1
    want = f"SIGSEGV in walk (dies.c:{line})"
    expect(document["cause"].startswith(want) and document["kind"] == "crash", document["cause"])
    expect(want in text, "the heading lacks the cause")
    expect(EVIL[:40] in text, "hostile text is not there as text")
    expect([f["function"] for f in parts["stacks"]["rows"]] == ["walk", "main"],
           [f["function"] for f in parts["stacks"]["rows"]])
    values = {v["name"]: v["value"] for v in parts["stacks"]["rows"][0].get("locals", [])}
    expect(values.get("n", "").endswith("0x2"), f"locals: {values}")
    at_line = [h["excerpt"]["lines"][h["excerpt"]["line"] - h["excerpt"]["first"]]
               for h in parts["origin"]["rows"] if h.get("excerpt")]
    expect(any("->next->next" in line for line in at_line), f"no hop is where the value was stored: {at_line}")
    expect(any(m["module"] == "dies" for m in parts["modules"]["rows"]), "no module dies")
    # The questions are answered, the stacks with the same frames.
    for panel in document["panels"]:
        answer = ttq("query", "-t", recording, "-f", "json", panel["question"])
        rows = json.loads(answer.stdout)["rows"] if answer.returncode == 0 else []
        expect(len(rows) >= 1, f"{panel['question']} has no rows")
        if panel["id"] == "stacks":
            expect([r["pc"] for r in rows] == [r["pc"] for r in panel["rows"]], "other stacks")
    expect(json.loads(ttq("report", "-f", "json", recording).stdout) == document,
           "the JSON is another than the page's")
    redacted = ttq("report", "--redact", "strings,paths,env", "-o", "-", recording).stdout
    expect("alert" not in redacted, "--redact strings leaves a text")
    expect(scratch not in redacted, "--redact paths leaves a directory")
    # Another moment, and what cannot be done.
    at = json.loads(ttq("report", "-f", "json", "--at", "(calls to make)", recording).stdout)
    expect(at["kind"] == "moment" and panels(at)["stacks"]["rows"][0]["function"] == "make", at["cause"])
    for arguments, status, words in (
            (["--at", "99999999999"], 2, "99999999999"), (["--at", "nonsense("], 2, "nonsense"),
            (["--redact", "all"], 2, "--redact takes"), (["-o", scratch + "/no/such/file"], 3, "cannot write"),
            (["-f", "pdf"], 2, "pdf")):
        run = ttq("report", *arguments, recording, status=status)
        expect(words in run.stderr, f"{arguments}: {run.stderr}")
    ttq("report", os.path.join(scratch, "none.ttq"), status=3)
    # `batch` makes one of what fails.
    questions = os.path.join(scratch, "q.ttql")
    with open(questions, "w") as file:
        file.write("# name: no calls\n# expect: none\ncalls to walk\n")
    ttq("batch", "--report", os.path.join(scratch, "pages"), questions, recording, status=1)
    of_batch = os.path.join(scratch, "pages", "dies.html")
    expect(os.path.exists(of_batch), "batch made no page")


def python(scratch):
    script = os.path.join(scratch, "report me.py")
    with open(script, "w") as file:
        file.write(PYTHON)
    recording = os.path.join(scratch, "py.ttq")
    subprocess.run([TTQ, "record", "-q", "-o", recording, "--", "/usr/bin/python3", "-S", "-E", script],
                   capture_output=True)
    document, text = read(ttq("report", "-o", "-", recording).stdout)
    expect(document["kind"] == "exception" and "ZeroDivisionError" in document["cause"], document["cause"])
    frames = panels(document).get("exception", {"rows": [{"frames": []}]})["rows"][0]["frames"]
    expect([f["function"] for f in frames] == ["mean", "<module>"], [f["function"] for f in frames])
    expect("</script><b>odd</b>" in text, "a text of the program's is not there as text")
    well = os.path.join(scratch, "well.ttq")
    subprocess.run([TTQ, "record", "-q", "--report", "-o", well, "--", "/bin/true"], check=True)
    expect(not os.path.exists(os.path.join(scratch, "well.html")), "a page of a run that did not fail")
    document, text = read(ttq("report", "-o", "-", well).stdout)
    expect(document["kind"] == "moment" and "did not crash" in document["cause"], document["cause"])


def look(scratch):
    """At all pages that were made."""
    pages = [os.path.join(scratch, name) for name in sorted(os.listdir(scratch)) if name.endswith(".html")]
    expect(pages, "no page was made")
    if shutil.which("tidy"):
        for page in pages:
            run = subprocess.run(["tidy", "-q", "-e", page], capture_output=True, text=True)
            expect(run.returncode == 0, f"tidy of {os.path.basename(page)}: {run.stderr[:1000]}")
    reason = npm.install(os.path.join(HERE, "package.json"), MODULES)
    chromium = shutil.which("chromium")
    if reason or not chromium:
        print("not looked at in Chromium: " + (reason or "it is not installed"))
        return
    run = subprocess.run(["node", os.path.join(HERE, "look.mjs"), chromium, *pages], cwd=MODULES, timeout=300,
                         capture_output=True, text=True)
    expect(run.returncode == 0 and not run.stdout, f"in Chromium: {run.stdout}{run.stderr[-1000:]}")


def main():
    with tempfile.TemporaryDirectory() as scratch:
        crash(scratch)
        python(scratch)
        look(scratch)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


sys.exit(main())

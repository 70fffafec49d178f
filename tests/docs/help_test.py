# SPDX-License-Identifier: MIT
"""help_test.py TTQ MANUAL SOURCE TOUR: help, manual pages and completions say what there is.

MANUAL is what cli/make_manual made. They are compared with the grammar, with the commands' own options, with
what documents say; every example is run; the shells themselves are asked what they complete.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TTQ, MANUAL, SOURCE, TOUR = (os.path.abspath(p) for p in sys.argv[1:5])

def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def unroff(page):
    """Words of a page as they are read."""
    page = re.sub(r"^\.(SH|TP|PP|BR|B|br) ?", "", page, flags=re.M)
    for escape, letter in (("\\fB", ""), ("\\fI", ""), ("\\fR", ""), ("\\-", "-"), ("\\(aq", "'"), ("\\(ha", "^"),
                           ("\\(ti", "~"), ("\\&", ""), ("\\(ga", "`"), ("\\e", "\\")):
        page = page.replace(escape, letter)
    return page


def keywords():
    """The language's words, from the grammar."""
    lexer = read(SOURCE, "grammar", "TtqLexer.g4")
    lexer = lexer[lexer.index("// Sources"):lexer.index("// C's types")]
    return [word for word in re.findall(r"'([a-z]+)'", lexer)]


DESCRIPTION = json.loads(run(TTQ, "help", "--describe").stdout)
COMMANDS = {c["name"]: c for c in DESCRIPTION["commands"]}


def page_of(command):
    return unroff(read(MANUAL, "man", "man1", f"ttq-{command}.1"))


class Texts(unittest.TestCase):
    def test_help_is_what_dash_dash_help_shows(self):
        for name in COMMANDS:
            shown = run(TTQ, name, "--help")
            self.assertEqual((shown.returncode, shown.stderr), (0, ""))
            self.assertEqual(run(TTQ, "help", name).stdout, shown.stdout)
            self.assertTrue(shown.stdout.startswith("ttq " + name), shown.stdout)

    def test_fits_a_terminal(self):
        for name in [*COMMANDS, *(t["name"] for t in DESCRIPTION["topics"]), ""]:
            for line in run(TTQ, "help", *([name] if name else [])).stdout.splitlines():
                self.assertLessEqual(len(line), 80, line)

    def test_every_word_of_the_language(self):
        topic = next(t["text"] for t in DESCRIPTION["topics"] if t["name"] == "language")
        kinds = re.search(r"kEventKindNames = \{(.*?)\}", read(SOURCE, "store", "format", "recorded.h"), re.S)[1]
        for kind in re.findall(r'"(\w+)"', kinds):
            self.assertTrue(re.search(rf"\b{kind}\b", topic), f"`ttq help language` has no events {kind}")
        everything = " ".join(t["text"] for t in DESCRIPTION["topics"])
        page = unroff(read(MANUAL, "man", "man7", "ttq-language.7"))
        document = read(SOURCE, "docs", "query-language.md")
        words = keywords()
        self.assertGreater(len(words), 60)
        # Spelled in more than one way; the help says one.
        same = {"access", "read", "write", "too", "early", "is"}
        for word in words:
            if word not in same:
                self.assertTrue(re.search(rf"\b{word}\b", everything), f"`ttq help` does not say {word}")
                self.assertTrue(re.search(rf"\b{word}\b", page), f"ttq-language.7 does not say {word}")
            self.assertTrue(re.search(rf"\b{word}\b", document), f"query-language.md does not say {word}")
        for source in re.findall(r"^  \| (\w+)[^#\n]*# (\w+)Source", read(SOURCE, "grammar", "TtqParser.g4"), re.M):
            if source[0].isupper():
                self.assertTrue(re.search(rf"(?i)\b{source[0]}\b", topic), f"`ttq help language` has no {source[0]}")

    def test_pages_have_every_option(self):
        for name, command in COMMANDS.items():
            page = page_of(name)
            completions = {shell: read(MANUAL, "completions", *path) for shell, path in
                           (("bash", ("bash", "ttq")), ("zsh", ("zsh", "_ttq")), ("fish", ("fish", "ttq.fish")))}
            self.assertTrue(command["options"], name)
            for option in command["options"]:
                for text in option["names"]:
                    self.assertIn(text, page, f"ttq-{name}.1")
                    self.assertIn(text, completions["bash"])
                    self.assertIn(f"'{text}[", completions["zsh"])
                    self.assertRegex(completions["fish"], rf"-[ls] {text.lstrip('-')}\b")
                self.assertIn(option["description"].replace("`", ""), " ".join(page.split()))

    # CLI11 is asked: what a page lists is taken, and nothing else.
    def test_options_are_real(self):
        for name, command in COMMANDS.items():
            for option in command["options"]:
                if option["names"][-1] == "--help":
                    continue
                wrong = run(TTQ, name, option["names"][-1] + "x")
                self.assertIn(wrong.returncode, (2, 125), option)

    # Options that documents give to a command exist.
    def test_documents_name_what_there_is(self):
        seen = 0
        for folder, _, names in os.walk(SOURCE):
            if os.path.relpath(folder, SOURCE).split(os.sep)[0] not in (".", "docs", "examples"):
                continue
            for name in names:
                if not name.endswith((".md", ".yml")) or name == "CHANGELOG.md":
                    continue
                for command, rest in re.findall(r"(?:^|[`\s$/])ttq ([a-z]+)((?: [^\n|`#\"]*)?)", read(folder, name)):
                    if command not in COMMANDS or command == "record" and " -- " in rest:
                        continue
                    known = {n for o in COMMANDS[command]["options"] for n in o["names"]} | {"--version"}
                    if command == "record":
                        rest = re.split(r" (?=[./A-Za-z][\w./]*)(?<!=)", rest)[0]
                    rest = rest.split(" -- ")[0]  # what follows is another program's
                    for word in re.findall(r"(?<=\s)--?[a-z][a-z-]*", rest):
                        seen += 1
                        self.assertIn(word, known, f"{name}: ttq {command}{rest}")
        self.assertGreater(seen, 5)

    def test_pages_are_right_roff(self):
        linters = [["mandoc", "-Tlint", "-Wwarning"], ["groff", "-K", "utf8", "-man", "-ww", "-Tutf8", "-z"]]
        for linter in linters:
            if not shutil.which(linter[0]):
                print(f"{linter[0]} is not installed")
                continue
            for folder in ("man1", "man7"):
                for name in sorted(os.listdir(os.path.join(MANUAL, "man", folder))):
                    said = run(*linter, os.path.join(MANUAL, "man", folder, name))
                    self.assertEqual((said.returncode, said.stdout + said.stderr), (0, ""), name)

    def test_unknown_words(self):
        for arguments, status, said in [
                (["recrod", "x"], 2, "did you mean record?"), (["help", "recrod"], 2, "did you mean record?"),
                (["help", "zzz"], 2, "there is no help on zzz; there is on record"), (["help", "--zzz"], 2, "--zzz")]:
            wrong = run(TTQ, *arguments)
            self.assertEqual((wrong.returncode, wrong.stdout), (status, ""))
            self.assertIn(said, wrong.stderr)
            self.assertEqual(wrong.stderr.count("\n"), 1, wrong.stderr)
        with open("/dev/full", "w", encoding="utf-8") as full:
            failed = subprocess.run([TTQ, "help", "record"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(failed.returncode, 3)
        self.assertEqual(failed.stderr, "ttq: cannot write the answer: No space left on device\n")
        self.assertRegex(run(TTQ, "--version").stdout, r"^ttq \d+\.\d+\.\d+\n$")


class Examples(unittest.TestCase):
    def test_each_runs(self):
        with tempfile.TemporaryDirectory(prefix="ttq-help-") as place:
            os.symlink(TTQ, os.path.join(place, "ttq"))
            home = os.path.join(place, "home")
            os.mkdir(home)
            first, second = (os.path.join(home, name) for name in ("program-1.ttq", "program-2.ttq"))
            self.assertEqual(run(TTQ, "record", "-q", "-o", first, TOUR).returncode, 128 + 11)
            shutil.copytree(first, second)
            for number in (1, 2):
                os.symlink(os.path.join(home, f"program-{number}.ttq"), os.path.join(place, f"run-{number}"))
            os.symlink("/bin/true", os.path.join(place, "program"))
            with open(os.path.join(place, "questions.ttql"), "w", encoding="utf-8") as file:
                file.write("# expect: some\nwrites to counter\n")
            env = {**os.environ, "TTQ_HOME": home, "TTQ_TRACE": "program-1", "PATH": place + ":" + os.environ["PATH"]}
            for command in DESCRIPTION["commands"]:
                self.assertTrue(command["examples"], command["name"])
                for line in command["examples"]:
                    example = line.partition("  # ")[0]
                    done = run("sh", "-c", example, cwd=place, env=env)
                    expected = (0, 1) if "--exit-code" in example else (0,)
                    self.assertIn(done.returncode, expected, f"{example}: {done.stdout}{done.stderr}")


class Shells(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp(prefix="ttq-complete-")
        self.addCleanup(shutil.rmtree, self.place)
        os.symlink(TTQ, os.path.join(self.place, "ttq"))
        for name in ("alpha-1.ttq", "beta-1.ttq"):
            os.mkdir(os.path.join(self.place, name))
        self.env = {**os.environ, "TTQ_HOME": self.place, "PATH": self.place + ":" + os.environ["PATH"]}

    def complete_bash(self, *words):
        script = """source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ttq; printf '%s\\n' "${COMPREPLY[@]}" """
        done = run("bash", "--norc", "-c", script, "bash", os.path.join(MANUAL, "completions/bash/ttq"), *words,
                   env=self.env)
        self.assertEqual(done.stderr, "")
        return set(done.stdout.split())

    def test_bash(self):
        self.assertEqual(self.complete_bash("ttq", "rec"), {"record"})
        self.assertLessEqual(set(COMMANDS), self.complete_bash("ttq", ""))
        self.assertEqual(self.complete_bash("ttq", "record", "--on-"), {"--on-full"})
        self.assertEqual(self.complete_bash("ttq", "record", "--on-full", ""), {"stop", "detach"})
        self.assertEqual(self.complete_bash("ttq", "info", ""), {"alpha-1", "beta-1"})
        self.assertEqual(self.complete_bash("ttq", "diff", "alpha-1", "b"), {"beta-1"})
        self.assertEqual(self.complete_bash("ttq", "last", "wr"), {"write", "writes"})
        self.assertEqual(self.complete_bash("ttq", "-t", "alpha-1", "py", "exc"), {"exceptions"})
        self.assertIn("environment", self.complete_bash("ttq", "help", "env"))

    def test_zsh(self):
        if not shutil.which("zsh"):
            self.skipTest("zsh is not installed")
        done = run("zsh", "-n", os.path.join(MANUAL, "completions/zsh/_ttq"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_fish(self):
        if not shutil.which("fish"):
            self.skipTest("fish is not installed")

        def complete(line):
            done = run("fish", "--no-config", "-c",
                       f"source {MANUAL}/completions/fish/ttq.fish; complete -C '{line}'",
                       env={**self.env, "HOME": self.place})
            self.assertEqual(done.stderr, "")
            return {found.split("\t")[0] for found in done.stdout.splitlines()}

        self.assertIn("record", complete("ttq rec"))
        self.assertEqual(complete("ttq record --on-full "), {"stop", "detach"})
        self.assertLessEqual({"alpha-1", "beta-1"}, complete("ttq info "))
        self.assertIn("write", complete("ttq last wr"))


unittest.main(argv=sys.argv[:1], verbosity=2)

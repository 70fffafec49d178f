# SPDX-License-Identifier: MIT
"""plugin_test.py TTQ PACKAGES: pytest's plugin over a suite of 200 tests with a planted flake and a planted
segmentation fault. PACKAGES has the package and pytest_ttq.py, as BUILD/python."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

TTQ, PACKAGES = (os.path.abspath(p) for p in sys.argv[1:3])
PYTHON = "/usr/bin/python3"

SUITE = """
import ctypes
import os

import pytest


@pytest.mark.parametrize("n", range(%(passing)d))
def test_fine(n):
    assert n >= 0


def visits():
    # Counts runs, also those that are recorded.
    with open(os.environ["VISITS"], "a+") as file:
        file.write("x")
        file.flush()
        file.seek(0)
        return len(file.read())


def test_flake():
    total = visits()
    assert total %% %(every)d != 0


def test_pointer():
    if os.environ.get("CRASH"):
        ctypes.string_at(0)


def test_after():
    pass
"""


def pytest(place, *arguments, **env):
    return subprocess.run([PYTHON, "-m", "pytest", "-p", "no:cacheprovider", *arguments], cwd=place,
                          capture_output=True, text=True, timeout=500,
                          env={**os.environ, "PYTHONPATH": PACKAGES, "PATH": os.path.dirname(TTQ) + ":" + os.environ["PATH"],
                               "VISITS": os.path.join(place, "visits"), **env})


def cases(path):
    return {case.get("name"): case for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase")}


def properties(case):
    return {p.get("name"): p.get("value") for p in case.iter("property")}


class Plugin(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp(prefix="ttq-pytest-")
        self.addCleanup(shutil.rmtree, self.place)

    def suite(self, passing=197, every=1000):
        with open(os.path.join(self.place, "test_suite.py"), "w", encoding="utf-8") as file:
            file.write(SUITE % {"passing": passing, "every": every})

    def test_crash(self):
        self.suite()
        done = pytest(self.place, "--ttq=failed", "--junitxml=r.xml", CRASH="1")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("1 failed, 199 passed", done.stdout)
        found = cases(os.path.join(self.place, "r.xml"))
        self.assertEqual(len(found), 200)
        self.assertIn("crashed with SIGSEGV", found["test_pointer"].find("failure").get("message"))
        self.assertIsNone(found["test_after"].find("failure"))  # which ran, though it came later
        told = properties(found["test_pointer"])
        self.assertIn("SIGSEGV", told["ttq_cause"])
        with open(told["ttq_autopsy"], encoding="utf-8") as file:
            autopsy = file.read()
        self.assertIn("test_pointer", autopsy)
        self.assertIn("SIGSEGV", autopsy)
        asked = subprocess.run([TTQ, "-t", told["ttq_recording"], "-f", "csv", "py backtrace at crash | select function"],
                               capture_output=True, text=True, timeout=120)
        self.assertIn("test_pointer", asked.stdout, asked.stderr)
        self.assertIn("recorded by ttq", done.stdout)

    def test_flake(self):
        self.suite(passing=199, every=2)
        done = pytest(self.place, "--ttq=flaky", "--ttq-runs", "3", "--junitxml=r.xml")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        with open(os.path.join(self.place, "visits"), encoding="utf-8") as file:
            # Natively runs 1 and 2, which fails; recorded runs 3 and 4, which fails.
            self.assertEqual(len(file.read()), 4)
        told = properties(cases(os.path.join(self.place, "r.xml"))["test_flake"])
        self.assertIn("AssertionError", told["ttq_cause"])
        self.assertIn("run 2 of 3", done.stdout)
        with open(told["ttq_autopsy"], encoding="utf-8") as file:
            self.assertIn("total", file.read())  # the variable's name

    # As it comes without the plugin: the same outcomes, and nothing is left behind.
    def test_passing(self):
        self.suite()
        done = pytest(self.place, "--ttq=failed")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("200 passed", done.stdout)
        self.assertNotIn("ttq:", done.stdout)
        self.assertFalse(os.path.exists(os.path.join(self.place, "ttq-failures")))

    def test_without_the_option_nothing_is_imported(self):
        with open(os.path.join(self.place, "test_one.py"), "w", encoding="utf-8") as file:
            file.write("import sys\ndef test():\n    assert 'ttq' not in sys.modules and 'cffi' not in sys.modules\n"
                       "    assert 'pytest_ttq' in sys.modules\n")
        self.assertEqual(pytest(self.place, "-q").returncode, 0)

    def test_bad_input(self):
        self.suite(passing=1, every=1)
        for arguments, status, said in (
                (["--ttq=sometimes"], 4, "invalid choice"), (["--ttq=failed", "--ttq-runs", "0"], 4, "--ttq-runs"),
                (["--ttq=failed", "nowhere.py"], 4, "nowhere.py")):
            done = pytest(self.place, *arguments)
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
            self.assertIn(said, done.stdout + done.stderr)
        nothing = pytest(self.place, "--ttq=failed", PATH="/usr/bin:/bin")
        self.assertEqual(nothing.returncode, 4)
        self.assertIn("there is no command ttq", nothing.stderr)
        # Where recordings cannot be made the tests' outcome stands, with a word.
        blocked = os.path.join(self.place, "blocked")
        with open(blocked, "w", encoding="utf-8"):
            pass
        done = pytest(self.place, "--ttq=failed", "--ttq-dir", blocked, "--junitxml=r.xml")
        self.assertEqual(done.returncode, 1)
        self.assertIn("not recorded: ", done.stdout)
        self.assertIn("blocked", properties(cases(os.path.join(self.place, "r.xml"))["test_flake"])["ttq_problem"])


if subprocess.run([PYTHON, "-c", "import pytest"], capture_output=True).returncode != 0:
    print("python3-pytest is not installed")
    sys.exit(0)
unittest.main(argv=sys.argv[:1], verbosity=2)

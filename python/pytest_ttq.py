# SPDX-License-Identifier: MIT
"""A pytest plugin: what fails or crashes is recorded by ttq, with a text that says why.

    pytest --ttq=failed                    run as always, then record each test that failed or crashed
    pytest --ttq=flaky --ttq-runs 20       run until something fails, at most 20 times, then record that test
                                           until it fails again, at most 20 times

Tests run natively, in a child process that is forked after collection, so that a crash ends one test and
not the run. Only what failed is run again under the recorder. This module imports nothing of ttq and does
nothing without --ttq.
"""

from __future__ import annotations

import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import Any, Iterator, Optional

import pytest

# Set for the runs that are recorded: the plugin is silent in them.
_INSIDE = "TTQ_PYTEST_RECORDING"
# Options that choose tests or write files: a recorded run is of one test and writes none.
_DROPPED = {"-k": 1, "-m": 1, "-n": 1, "--numprocesses": 1, "--dist": 1, "--maxfail": 1, "-x": 0, "--exitfirst": 0,
            "--lf": 0, "--last-failed": 0, "--ff": 0, "--failed-first": 0, "--junitxml": 1, "--junit-xml": 1,
            "--ttq": 1, "--ttq-runs": 1, "--ttq-dir": 1, "--ttq-max": 1, "--deselect": 1, "--durations": 1}


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("ttq", "recording failures with ttq")
    group.addoption("--ttq", choices=("failed", "flaky"), default=None,
                    help="record again what failed or crashed; flaky: repeat until it fails")
    group.addoption("--ttq-runs", type=_positive, default=None, metavar="N",
                    help="at most N runs, native and recorded (default: 1; with flaky 20)")
    group.addoption("--ttq-dir", default="ttq-failures", metavar="DIR",
                    help="where recordings and autopsies go (default: ttq-failures)")
    group.addoption("--ttq-max", type=_positive, default=10, metavar="N",
                    help="record at most N tests (default: 10)")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def pytest_configure(config: Any) -> None:
    if config.getoption("--ttq") is None or os.environ.get(_INSIDE) or hasattr(config, "workerinput"):
        return
    if config.getoption("collectonly", False):
        return
    command = _find_ttq()
    if command is None:
        raise pytest.UsageError("--ttq: there is no command ttq in PATH or beside this Python")
    config.pluginmanager.register(_Plugin(config, command), "ttq-recorder")


def _find_ttq() -> Optional[str]:
    beside = os.path.join(os.path.dirname(sys.executable), "ttq")
    return beside if os.access(beside, os.X_OK) else shutil.which("ttq")


class _Recorded:
    """What became of recording one test."""

    def __init__(self, path: str):
        self.path = path            # of the recording
        self.autopsy = ""           # the text
        self.autopsy_path = ""
        self.failed = False         # the test did fail while it was recorded
        self.runs = 0
        self.problem = ""           # why there is no recording


class _Plugin:
    def __init__(self, config: Any, command: str):
        self.config, self.command = config, command
        self.flaky = config.getoption("--ttq") == "flaky"
        self.runs = config.getoption("--ttq-runs") or (20 if self.flaky else 1)
        self.directory = os.path.abspath(config.getoption("--ttq-dir"))
        self.recorded: dict[str, _Recorded] = {}
        self.left_out: list[str] = []
        self.native_runs = 0

    # ---- Running ----

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> Optional[bool]:
        option = self.config.option
        # xdist has processes of its own, and survives crashes; a debugger wants the terminal.
        if getattr(option, "dist", "no") != "no" or getattr(option, "tx", None) or option.usepdb:
            return None
        if session.testsfailed and not option.continue_on_collection_errors:
            raise session.Interrupted(f"{session.testsfailed} error(s) during collection")
        items = list(session.items)
        by_id = {item.nodeid: item for item in items}
        held: list[Any] = []
        for run in range(self.runs if self.flaky else 1):
            self.native_runs = run + 1
            reports = [] if self.flaky and run + 1 < self.runs else None
            failed = self._run(session, items, held, reports)
            if reports is None or failed:
                # Only the run that counts is told to others: of the earlier ones all was well.
                for report in reports or []:
                    self._tell(report, held)
                break
            del held[:]
        for report in held:
            self._add_recording(report, by_id)
            self.config.hook.pytest_runtest_logreport(report=report)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _tell(self, event: tuple[str, Any], held: list[Any]) -> None:
        """Passes on what the child said. The last report of a test that failed waits for its recording."""
        kind, what = event
        hook = self.config.hook
        if kind == "start":
            hook.pytest_runtest_logstart(nodeid=what[0], location=tuple(what[1]))
        elif kind == "finish":
            hook.pytest_runtest_logfinish(nodeid=what[0], location=tuple(what[1]))
        elif what.when == "teardown" and (what.nodeid in self._failing or what.failed):
            held.append(what)
        else:
            hook.pytest_runtest_logreport(report=what)

    def _run(self, session: Any, items: list[Any], held: list[Any], reports: Optional[list[Any]]) -> bool:
        """One native run of the tests, in as many children as there are crashes and one more. True when one
        failed. `reports`: what the child says is put there and not told yet."""
        self._failing: set[str] = set()
        at = 0
        while at < len(items):
            done, crashed = self._run_child(session, items[at:], held, reports)
            at += done
            if not crashed and done == 0 or session.shouldfail or session.shouldstop:
                break
        return bool(self._failing)

    def _run_child(self, session: Any, items: list[Any], held: list[Any],
                   reports: Optional[list[Any]]) -> tuple[int, bool]:
        """How many of the tests are done, and whether the last of them ended the child."""
        reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(reading)
                _child(session, items, os.fdopen(writing, "wb"))
                status = 0
            finally:
                os._exit(status)
        os.close(writing)

        def tell(event: tuple[str, Any]) -> None:
            if reports is None:
                self._tell(event, held)
            else:
                reports.append(event)

        done, running, said = 0, None, set()
        started = time.time()
        with os.fdopen(reading, "rb") as pipe:
            try:
                for kind, what in _received(pipe):
                    if kind == "start":
                        running, said, started = what, set(), time.time()
                    elif kind == "report":
                        what = self.config.hook.pytest_report_from_serializable(config=self.config, data=what)
                        said.add(what.when)
                        if what.failed:
                            self._failing.add(what.nodeid)
                    elif kind == "finish":
                        running = None
                        done += 1
                    elif kind == "stop":
                        session.shouldstop = what
                        continue
                    tell((kind, what))
            except KeyboardInterrupt:
                os.kill(child, signal.SIGTERM)
                os.waitpid(child, 0)
                raise
        _, status = os.waitpid(child, 0)
        if running is None:
            return done, False
        if os.WIFSIGNALED(status):
            why = f"crashed with {signal.Signals(os.WTERMSIG(status)).name}"
        else:
            why = f"ended the process with status {os.WEXITSTATUS(status)}"
        self._failing.add(running[0])
        item = items[done]
        for when, outcome in (("setup", "passed"), ("call", "failed"), ("teardown", "passed")):
            if when in said:
                continue
            if when == "call" and outcome == "failed" and "call" not in said:
                report = self._report(item, when, outcome, f"{item.nodeid} {why}", time.time() - started)
            else:
                report = self._report(item, when, outcome, None, 0)
            tell(("report", report))
        tell(("finish", running))
        return done + 1, True

    @staticmethod
    def _report(item: Any, when: str, outcome: str, text: Optional[str], duration: float) -> Any:
        return pytest.TestReport(nodeid=item.nodeid, location=item.location,
                                 keywords={name: 1 for name in item.keywords}, outcome=outcome, longrepr=text,
                                 when=when, sections=[], duration=duration, user_properties=[])

    # ---- Recording ----

    # With xdist or a debugger the reports come as always.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        if not hasattr(self, "_failing") and report.failed:
            self._late = getattr(self, "_late", [])
            self._late.append(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: Any) -> None:
        for report in getattr(self, "_late", []):
            self._add_recording(report, {item.nodeid: item for item in getattr(session, "items", [])})

    def _add_recording(self, report: Any, by_id: dict[str, Any]) -> None:
        if report.nodeid in self.recorded:
            return
        if len(self.recorded) >= self.config.getoption("--ttq-max"):
            self.left_out.append(report.nodeid)
            return
        item = by_id.get(report.nodeid)
        recorded = self._record(report.nodeid, str(item.path) if item is not None else None)
        self.recorded[report.nodeid] = recorded
        if recorded.problem:
            report.user_properties.append(("ttq_problem", recorded.problem))
            return
        report.user_properties += [("ttq_recording", recorded.path), ("ttq_autopsy", recorded.autopsy_path),
                                   ("ttq_cause", recorded.autopsy.partition("\n\n")[0])]

    def _arguments(self, nodeid: str, path: Optional[str]) -> list[str]:
        """pytest's for one test: those of this run, less what chooses tests."""
        kept, skip = [], 0
        chosen = {str(a) for a in self.config.args}
        for word in self.config.invocation_params.args:
            word = str(word)
            name, equals, _ = word.partition("=")
            if skip:
                skip -= 1
            elif name in _DROPPED:
                skip = 0 if equals else _DROPPED[name]
            elif word not in chosen:
                kept.append(word)
        if path is not None:
            nodeid = path + nodeid[len(nodeid.partition("::")[0]):]
        return [*kept, "-p", "no:cacheprovider", nodeid]

    def _record(self, nodeid: str, path: Optional[str]) -> _Recorded:
        name = re.sub(r"[^\w.\[\]-]+", "-", nodeid.replace("::", "--"))[-120:].strip("-.")
        recorded = _Recorded(os.path.join(self.directory, name + ".ttq"))
        try:
            os.makedirs(self.directory, exist_ok=True)
            # What an earlier run left there, and nothing that is no recording.
            if os.path.isdir(os.path.join(recorded.path, "db")):
                shutil.rmtree(recorded.path)
        except OSError as e:
            recorded.problem = str(e)
            return recorded
        most = self.runs
        command = [self.command, "record", "-q", "-o", recorded.path, "--", sys.executable, "-m", "pytest",
                   *self._arguments(nodeid, path)]
        for run in range(1, most + 1):
            self._say(f"ttq: recording {nodeid}" + (f" (run {run} of {most})" if most > 1 else ""))
            if run > 1:
                shutil.rmtree(recorded.path, ignore_errors=True)
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, errors="replace",
                                  env={**os.environ, _INSIDE: "1"}, cwd=str(self.config.invocation_params.dir))
            recorded.runs = run
            if done.returncode in (125, 126, 127) or not os.path.isdir(recorded.path):
                lines = done.stderr.strip().splitlines()
                recorded.problem = lines[-1] if lines else f"ttq record ended with status {done.returncode}"
                return recorded
            # 1: tests failed; above 128: a signal. Others: pytest could not run this test alone.
            recorded.failed = done.returncode == 1 or not 0 <= done.returncode <= 128
            if done.returncode > 1 and not recorded.failed:
                lines = (done.stdout + done.stderr).strip().splitlines()
                recorded.problem = f"pytest ended with status {done.returncode}: {lines[-1] if lines else ''}"
                shutil.rmtree(recorded.path, ignore_errors=True)
                return recorded
            if recorded.failed:
                break
        self._autopsy(recorded)
        return recorded

    def _autopsy(self, recorded: _Recorded) -> None:
        if recorded.failed:
            done = subprocess.run([self.command, "crash", "-t", recorded.path], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
            recorded.autopsy = done.stdout
        else:
            recorded.autopsy = (f"it did not fail in {recorded.runs} recorded run{'s' * (recorded.runs != 1)}; the "
                                "recording is of the last one\n")
        recorded.autopsy_path = recorded.path[:-len(".ttq")] + ".txt"
        try:
            with open(recorded.autopsy_path, "w", encoding="utf-8") as file:
                file.write(recorded.autopsy)
        except OSError as e:
            recorded.problem = str(e)

    # ---- Telling ----

    def _say(self, text: str) -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and reporter.verbosity >= 0:
            reporter.ensure_newline()
            reporter.write_line(text)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.flaky and not self.recorded:
            terminalreporter.write_line(f"ttq: nothing failed in {self.native_runs} runs")
        if not self.recorded and not self.left_out:
            return
        terminalreporter.section("recorded by ttq")
        for nodeid, recorded in self.recorded.items():
            if recorded.problem:
                terminalreporter.write_line(f"{nodeid}: not recorded: {recorded.problem}")
                continue
            terminalreporter.write_line(nodeid)
            lines = recorded.autopsy.splitlines()
            for line in lines[:8]:
                terminalreporter.write_line("    " + line)
            shown = os.path.relpath(recorded.path)
            terminalreporter.write_line(f"    autopsy: {os.path.relpath(recorded.autopsy_path)}")
            terminalreporter.write_line(f"    ask: ttq -t {shown} QUERY" if recorded.failed else f"    recording: {shown}")
        if self.left_out:
            terminalreporter.write_line(f"and {len(self.left_out)} more that are not recorded (--ttq-max)")


def _received(pipe: Any) -> Iterator[tuple[str, Any]]:
    """What the child sent, until it ends; a message that it could not finish is none."""
    while True:
        try:
            yield pickle.load(pipe)
        except (EOFError, pickle.UnpicklingError):
            return


def _child(session: Any, items: list[Any], pipe: Any) -> None:
    """Runs the tests and says through the pipe what happens. It has no terminal: the parent tells."""
    config = session.config

    def send(kind: str, what: Any) -> None:
        pipe.write(pickle.dumps((kind, what)))
        pipe.flush()

    class Sender:
        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logreport(self, report: Any) -> None:
            data = config.hook.pytest_report_to_serializable(config=config, report=report)
            try:
                send("report", data)
            except Exception:  # pylint: disable=broad-except  # a property that cannot be sent
                data["user_properties"] = [(str(k), repr(v)) for k, v in data.get("user_properties", [])]
                send("report", data)

    for name in ("terminalreporter", "logging-plugin-terminal"):
        if config.pluginmanager.has_plugin(name):
            config.pluginmanager.unregister(name=name)
    config.pluginmanager.register(Sender(), "ttq-sender")
    for item, following in zip(items, [*items[1:], None]):
        send("start", (item.nodeid, item.location))
        config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        send("finish", (item.nodeid, item.location))
        if session.shouldfail:
            break
        if session.shouldstop:
            send("stop", str(session.shouldstop))
            break

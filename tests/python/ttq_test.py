#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""ttq_test RECORD_TEXT TTQ PYTHONPATH [unittest's arguments]: the Python package, on histories in text.

What needs pandas, matplotlib, IPython or pyarrow is skipped, with a message, where they are not installed.
"""

import _thread
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

RECORD_TEXT, TTQ, PACKAGE = sys.argv[1:4]
sys.path.insert(0, PACKAGE)
os.environ.setdefault("MPLBACKEND", "Agg")

import ttq  # noqa: E402

HISTORY = r"""
program /bin/demo one two
map 0x10000 0x12000 rw
thread 1
0x401000 store 0x10000 4 = 7
0x401004 store 0x10100 5 = "caf\xe9!"
0x401008 store 0x10008 8 = 0x8000000000000001
block
0x40100c store 0x10020 16 = "sixteen bytes in"
thread 2
0x402000 set rax = 5
0x402004 store 0x10000 1 = 9
0x402008 load 0x10000 8
0x40200c store 0x10200 8 = 0xdeadbeef1
0x402010 load 0x10200 8
0x402014 store 0x10208 8 = 0xdeadbeef1
output 1 "a<b>&\n"
blocks 40
fault 11 0xdead0000: 0x401008 store 0xdead0000 4 = 1
fatal 11
"""
# Blocks enough that a scan can be stopped between two.
LONG = "map 0x10000 0x11000 rw\nthread 1\n0x401000 store 0x10000 4 = 7\nblocks 300\nexit 0\n"

scratch = tempfile.TemporaryDirectory(prefix="ttq-python-")


def record(text, name):
    path = os.path.join(scratch.name, name)
    subprocess.run([RECORD_TEXT, path], input=text, text=True, check=True)
    return path


def needs(*modules):
    missing = []
    for module in modules:
        try:
            __import__(module)
        except ImportError:
            missing.append(module)
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


PATH = record(HISTORY, "demo.ttq")


class Base(unittest.TestCase):
    def setUp(self):
        self.trace = ttq.open(PATH)


class OpenTest(Base):
    def test_what_it_is(self):
        self.assertEqual(self.trace.program, "/bin/demo")
        self.assertEqual(self.trace.info.command, ["/bin/demo", "one", "two"])
        self.assertEqual(self.trace.crash, self.trace.end - 1)
        self.assertEqual([p.number for p in self.trace.processes], [1])
        self.assertEqual(self.trace.processes[0].fatal_signal, 11)
        self.assertIn("demo.ttq", repr(self.trace))

    def test_by_path_object_and_environment(self):
        import pathlib

        self.assertEqual(ttq.open(pathlib.Path(PATH)).path, PATH)
        os.environ["TTQ_TRACE"] = PATH
        try:
            self.assertEqual(ttq.open().path, PATH)
        finally:
            del os.environ["TTQ_TRACE"]

    def test_errors(self):
        with self.assertRaisesRegex(ttq.NotFoundError, "there is no recording /nonexistent"):
            ttq.open("/nonexistent")
        with self.assertRaises(ttq.NotARecordingError):
            ttq.open("/")
        with self.assertRaisesRegex(TypeError, "not by int"):
            ttq.open(3)
        for process in (9, 0, -1, 1 << 40):
            with self.assertRaisesRegex(ttq.NotFoundError, f"there is no process {process} in this recording"):
                ttq.open(PATH, process=process)
        with self.assertRaisesRegex(ValueError, "a path has no NUL in it"):
            ttq.open(PATH + "\0.old")

    def test_use_after_close(self):
        answer = self.trace.query("writes to 0x10000")
        moment = self.trace.at(1)
        self.trace.close()
        self.trace.close()
        for use in (lambda: self.trace.query("threads"), lambda: self.trace.process(1),
                    lambda: moment.memory[0x10000], lambda: moment.registers, lambda: self.trace.at(1),
                    lambda: self.trace.wall_clock(0)):
            with self.assertRaisesRegex(ttq.ClosedError, "the trace is closed"):
                use()
        self.assertEqual(len(answer), 2)  # what was asked before is answered
        with ttq.open(PATH) as trace:
            pass
        self.assertTrue(trace.closed)

    def test_a_recording_that_is_taken_away(self):
        import shutil

        # Of so many files not all are opened at once. (What is in memory already is answered.)
        path = record("map 0x10000 0x11000 rw\nthread 1\n0x401000 store 0x10000 4 = 7\nblocks 400\n"
                      "0x401000 store 0x10000 4 = 8\n", "doomed.ttq")
        trace = ttq.open(path)
        shutil.rmtree(path)
        with self.assertRaisesRegex(ttq.UnavailableError, "doomed.ttq was removed while it was open$"):
            trace.query("writes to 0x10000").fetch()
        with self.assertRaises(ttq.NotFoundError):
            ttq.open(path)

    def test_several_processes_at_once(self):
        code = "import sys, ttq; print(len(ttq.open(sys.argv[1]).query('writes to ?', 0x10000)))"
        env = {**os.environ, "PYTHONPATH": PACKAGE}
        runs = [subprocess.Popen([sys.executable, "-c", code, PATH], stdout=subprocess.PIPE, text=True, env=env)
                for _ in range(3)]
        self.assertEqual([run.communicate()[0] for run in runs], ["2\n"] * 3)

    def test_while_it_is_being_made(self):
        path = os.path.join(scratch.name, "live.ttq")
        code = ("import time\nfor i in range(300000): pass\nprint('ready', flush=True)\n"
                "while True:\n for i in range(100000): pass\n")
        run = subprocess.Popen([TTQ, "record", "-o", path, "/usr/bin/python3", "-c", code], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        try:
            self.assertEqual(run.stdout.readline(), "ready\n")
            end, deadline = 0, time.monotonic() + 120
            while time.monotonic() < deadline:
                try:
                    trace = ttq.open(path)
                    if trace.processes and trace.end > end > 0:
                        break
                    end = trace.end
                except ttq.Error:
                    pass  # before its first block is there
                time.sleep(0.2)
            self.assertGreater(trace.end, end)
            self.assertFalse(trace.info.finished)
            self.assertEqual(len(trace.query("threads")), 1)
            self.assertFalse(trace.query("writes to 0x10000").complete)
        finally:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
            run.stdout.close()


class QueryTest(Base):
    def test_rows(self):
        answer = self.trace.query("writes to 0x10000..0x10100")
        self.assertEqual(len(answer), 4)
        row = answer[0]
        self.assertEqual((row.time, row.address, row["value"], row.actor), (0, 0x10000, 7, "instruction"))
        self.assertIsNone(row.function)
        self.assertEqual((repr(row.address), repr(row.value), str(row.address)), ("0x10000", "0x7", "0x10000"))
        self.assertEqual([r.time for r in answer], [0, 2, 3, 5])
        self.assertEqual([r.time for r in answer[1:3]], [2, 3])
        self.assertEqual(answer[2].value, b"sixteen bytes in")
        self.assertEqual(answer[-1], answer.rows()[3])
        self.assertEqual(answer["time"], [0, 2, 3, 5])
        self.assertEqual([(c.name, c.type) for c in answer.columns][:3],
                         [("time", "time"), ("thread", "integer"), ("pc", "address")])
        self.assertIn("address", dir(row))
        with self.assertRaisesRegex(AttributeError, "no column 'nonsense'; it has time, "):
            row.nonsense
        with self.assertRaisesRegex(IndexError, "there are 4 rows"):
            answer[4]
        with self.assertRaisesRegex(KeyError, "nonsense"):
            answer["nonsense"]

    def test_no_rows(self):
        answer = self.trace.query("writes to 0x50000")
        self.assertFalse(answer)
        self.assertIsNone(answer.first())
        self.assertTrue(answer.complete)
        self.assertIn("nothing wrote 0x50000", answer.note)
        with self.assertRaisesRegex(LookupError, "nothing wrote 0x50000"):
            answer.one()
        with self.assertRaisesRegex(LookupError, "more than one row"):
            self.trace.query("threads").one()

    def test_values(self):
        ask = self.trace.query
        self.assertEqual(len(ask("writes to ? len :n where value == ?", 0x10000, 9, n=1)), 1)
        self.assertEqual(len(ask("writes to :a where actor == :who", a=0x10000, who="instruction")), 2)
        self.assertEqual([c.name for c in ask("threads | select :c", c=ttq.Name("os_tid")).columns], ["os_tid"])
        write = ask("last write to ?", 0x10000).one()
        self.assertEqual(ask("writes to ? before ?", write.address, write.time).one().value, 7)
        self.assertEqual(len(ask("writes to 0x10000 before ?", self.trace.at(5))), 1)

    def test_wrong_values(self):
        ask = self.trace.query
        with self.assertRaisesRegex(TypeError, r"needs a value for \?, :t"):
            ask("memory ? at :t")
        with self.assertRaisesRegex(TypeError, "no parameter :u"):
            ask("threads at :t", t=1, u=2)
        with self.assertRaisesRegex(TypeError, r"fewer \? than there are values"):
            ask("threads at ?", 1, 2)
        with self.assertRaisesRegex(TypeError, ":t cannot be NoneType"):
            ask("threads at :t", t=None)
        with self.assertRaisesRegex(OverflowError, "does not fit 64 bits"):
            ask("memory ?", 1 << 64)
        with self.assertRaisesRegex(ttq.QueryError, "':t' must be a number here, and text is bound to it"):
            ask("threads at :t", t="noon")
        with self.assertRaisesRegex(TypeError, "a query is a text, not int"):
            ask(3)
        with self.assertRaisesRegex(ValueError, "limit must be positive"):
            ask("threads", limit=0)
        with self.assertRaisesRegex(TypeError, "progress is a function of two numbers, not int"):
            ask("threads", progress=5)
        with self.assertRaisesRegex(TypeError, "an expression is a text, not int"):
            self.trace.at(1).print(5)

    def test_bad_queries_show_the_place(self):
        with self.assertRaises(ttq.QueryError) as caught:
            self.trace.query("last write too 0x10000")
        e = caught.exception
        self.assertEqual((e.begin, e.end, e.hint, e.status), (11, 14, "'to'", "TTQ_ERROR_QUERY"))
        self.assertIn("\n             ^~~\n", str(e))
        with self.assertRaisesRegex(ttq.QueryError, "UTF-8"):
            self.trace.query("writes to \udc80")

    def test_limit(self):
        answer = self.trace.query("writes to 0x10000..0x10300", limit=2)
        self.assertEqual(len(answer), 2)
        self.assertTrue(answer.truncated)
        self.assertIn("cut after 2 rows", answer._repr_html_())
        self.assertFalse(self.trace.query("writes to 0x10000", limit=9).truncated)

    def test_full_scan_and_explain(self):
        by_index = self.trace.query("writes to 0x10000..0x10100").rows()
        self.assertEqual(self.trace.query("writes to 0x10000..0x10100", full_scan=True).rows(), by_index)
        self.assertIn("0x10000", self.trace.explain("writes to ?", 0x10000))

    def test_objects_are_dictionaries(self):
        answer = self.trace.query("registers at 5 | select rax, python")
        self.assertEqual(answer.one().rax, 5)
        self.assertIsNone(answer.one().python)

    def test_reals(self):
        answer = self.trace.query("writes to 0x10000 | select time, size / 16.0, ? * size", 0.25)
        self.assertEqual([c.type for c in answer.columns], ["time", "real", "real"])
        self.assertEqual([tuple(row) for row in answer.rows(1)], [(0, 0.25, 1.0)])
        self.assertIsInstance(answer[0][1], float)
        self.assertEqual(len(self.trace.query("writes to 0x10000 where size > ?", 0.5)), len(answer))
        self.assertEqual(len(self.trace.query("writes to 0x10000 where size > ?", 4.5)), 0)

    def test_completion(self):
        self.assertEqual(ttq.complete("last wr"), ["write", "writes"])
        self.assertEqual(ttq.complete("last write "), ["of", "to"])

    def test_threads_take_turns(self):
        answer = self.trace.query("writes to 0x10000..0x10300", full_scan=True)
        seen = []
        threads = [threading.Thread(target=lambda: seen.append([r.time for r in answer])) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(seen, [[0, 1, 2, 3, 5, 7, 9][:len(seen[0])]] * 4)
        self.assertEqual(len(seen[0]), 7)


class InterruptTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.trace = ttq.open(record(LONG, "long.ttq"))

    def test_from_another_thread(self):
        answer = self.trace.query("writes to 0x10000", full_scan=True)
        answer.interrupt()
        with self.assertRaises(ttq.InterruptedQuery):
            answer.fetch()
        self.assertEqual(len(self.trace.query("writes to 0x10000")), 1)

    def test_by_the_progress_function(self):
        calls = []

        def progress(done, total):
            calls.append((done, total))
            return True

        answer = self.trace.query("writes to 0x10000", full_scan=True, progress=progress)
        deadline = time.monotonic() + 10
        while not calls and time.monotonic() < deadline:
            time.sleep(0.01)
        with self.assertRaises(ttq.InterruptedQuery):
            answer.fetch()

    def test_ctrl_c(self):
        from ttq import _library

        # A call that only ends when it is interrupted, as a long scan would.
        for interrupt in (lambda: os.kill(os.getpid(), signal.SIGINT), _thread.interrupt_main):
            interrupted = threading.Event()
            ended = []
            threading.Timer(0.2, interrupt).start()
            with self.assertRaises(KeyboardInterrupt):
                _library.interruptibly(lambda: ended.append(interrupted.wait(60)), interrupted.set)
            self.assertEqual(ended, [True])


class MomentTest(Base):
    def test_memory(self):
        memory = self.trace.at(6).memory
        self.assertEqual(memory[0x10000], 9)
        self.assertEqual(memory[0x10020:0x10030], b"sixteen bytes in")
        self.assertEqual((memory.u8(0x10000), memory.u32(0x10000), memory.u64(0x10008)), (9, 9, 0x8000000000000001))
        self.assertEqual(memory.i64(0x10008), -0x7fffffffffffffff)
        self.assertEqual(memory.cstring(0x10020), b"sixteen bytes in")
        self.assertEqual(memory.cstring(0x10020, limit=7), b"sixteen")
        self.assertEqual(self.trace.at(0).memory[0x10000], 0)
        with self.assertRaisesRegex(ttq.OutOfRangeError, "0x12000 was not mapped"):
            memory.read(0x11ffe, 4)
        self.assertEqual(memory.read(0x11ffe, 4, fill=0xff), b"\0\0\xff\xff")
        with self.assertRaises(ValueError):
            memory[0x10000:]
        with self.assertRaises(ValueError):
            memory.read(-1, 4)

    def test_registers(self):
        registers = self.trace.at(5).registers
        self.assertEqual((registers.rax, registers["pc"], registers.thread), (5, 0x402004, 2))
        self.assertEqual(len(dict(registers)), 17)
        self.assertEqual(self.trace.at(5, thread=1).registers.rax, 0)
        with self.assertRaises(ttq.NotFoundError):
            self.trace.at(5, thread=7).registers
        with self.assertRaisesRegex(AttributeError, "no register 'eax'"):
            registers.eax

    def test_times(self):
        end = self.trace.end
        for when, time_ in ((5, 5), ("5", 5), ("start", 0), ("end", end), ("crash", end - 1),
                            ("(last write to 0x10000) + 1", 6), (self.trace.query("last write to 0x10000"), 5),
                            (self.trace.query("last write to 0x10000").one(), 5), (self.trace.at(7), 7)):
            self.assertEqual(self.trace.at(when).time, time_, when)
        for when in (end + 1, -1):
            with self.assertRaises(ttq.OutOfRangeError):
                self.trace.at(when)
        with self.assertRaisesRegex(ttq.NotFoundError, "there is no thread -1"):
            self.trace.at(1, thread=-1)
        with self.assertRaises(TypeError):
            self.trace.at(1.5)
        with self.assertRaisesRegex(ttq.NotFoundError, "no row with a time") as raised:
            self.trace.at(self.trace.query("writes to 0x50000"))
        self.assertEqual(raised.exception.status, "TTQ_ERROR_NOT_FOUND")
        with self.assertRaises(ttq.QueryError):
            self.trace.at("yesterday")

    def test_queries_at_a_time(self):
        moment = self.trace.at(5)
        self.assertEqual([row.thread for row in moment.threads()], [1, 2])
        self.assertEqual(len(moment.maps()), 1)
        # Each of them is the query of that name; what it gives is the engine's.
        for method, source in ((moment.backtrace, "backtrace"), (moment.py.backtrace, "py backtrace"),
                               (moment.py.locals, "py locals"), (moment.source, "source")):
            try:
                self.assertTrue(method().query.startswith(source + " at ?"))
            except ttq.Error as e:
                self.assertIn(source, str(e))

    def test_follow(self):
        trail = self.trace.follow(0x10208)
        self.assertEqual([(row.address, row.time) for row in trail], [(0x10208, 9), (0x10200, 8), (0x10200, 7)])
        self.assertIn("0xdeadbeef1 read at 0x10200, time 8", repr(trail))
        self.assertEqual(len(self.trace.follow(0x50000)), 0)
        self.assertEqual(len(self.trace.follow(trail[0], before=9)), 0)


class HtmlTest(Base):
    def test_a_table(self):
        page = self.trace.query("writes to 0x10000")._repr_html_()
        self.assertEqual(page.count("<tr>"), 3)
        self.assertIn('data-ttq="last write to 0x10000 before 5"', page)
        self.assertIn("backtrace at 5", page)

    def test_what_the_program_wrote_is_escaped(self):
        page = self.trace.query("events output")._repr_html_()
        self.assertIn("a&lt;b&gt;&amp;", page)
        self.assertNotIn("a<b>", page)

    def test_other_layouts(self):
        page = self.trace.query("memory 0x10020 len 16 at 6")._repr_html_()
        self.assertIn("73 69 78 74 65 65 6e 20 62 79 74 65 73 20 69 6e", page)
        self.assertIn("sixteen bytes in", page)
        self.assertIn("<th>rax</th>", self.trace.query("registers at 5")._repr_html_())
        self.assertIn("nothing wrote 0x50000", self.trace.query("writes to 0x50000")._repr_html_())

    def test_stacks_and_source(self):
        from ttq import html
        from ttq.result import Column, Row

        def answer(names, rows, layout="rows"):
            class Fake:
                columns = [Column(n, "integer" if n in ("frame", "line") else "string", True) for n in names]
                note, complete, truncated = "", True, False

            Fake.layout = layout
            Fake.rows = staticmethod(lambda first=None: [Row(Fake.columns, r) for r in rows])
            return html.result(Fake)

        here = os.path.abspath(__file__)
        stack = answer(["frame", "function", "module", "file", "line"], [(0, "f<int>", "demo", here, 3)])
        self.assertIn("f&lt;int&gt;", stack)
        self.assertIn("ttq_test RECORD_TEXT", stack)  # the line as it is on disk
        source = answer(["frame", "function", "file", "line", "current", "source"],
                        [(0, "f", here, 1, " ", "a < b"), (0, "f", here, 2, ">", "c")])
        self.assertIn("a &lt; b", source)
        self.assertEqual(source.count("class=now"), 1)

    def test_as_text(self):
        lines = repr(self.trace.query("writes to 0x10000")).splitlines()
        self.assertEqual(lines[0].split(), ["time", "thread", "where", "address", "size", "value", "previous", "actor"])
        self.assertEqual(len(lines), 3)
        self.assertIn("nothing wrote", repr(self.trace.query("writes to 0x50000")))


@needs("pandas")
class PandasTest(Base):
    def test_types(self):
        frame = self.trace.query("writes to 0x10000..0x10300").df()
        self.assertEqual(len(frame), 7)
        self.assertEqual(str(frame.time.dtype), "uint64")
        self.assertEqual(str(frame["size"].dtype), "int64")
        self.assertEqual(str(frame.value.dtype), "UInt64")  # one of them is too wide
        self.assertTrue(frame.value.isna()[3])
        self.assertEqual(frame.value_bytes[3], b"sixteen bytes in")
        self.assertIsNone(frame.value_bytes[0])
        self.assertEqual(frame.value[2], 0x8000000000000001)
        self.assertEqual(set(frame.actor), {"instruction"})
        self.assertEqual(frame.attrs["ttq.query"], "writes to 0x10000..0x10300")

    def test_hexadecimal(self):
        frame = self.trace.query("writes to 0x10020").df(hex=True)
        self.assertEqual(repr(frame.address[0]), "0x10020")
        self.assertIsNone(frame.value[0])
        self.assertIn("0x10020", str(frame[["address"]]))

    def test_reals(self):
        frame = self.trace.query("writes to 0x10000..0x10300 | select size / 16.0, value * 0.5").df()
        self.assertEqual(str(frame["size / 16.0"].dtype), "float64")
        self.assertEqual(frame["size / 16.0"][0], 0.25)
        self.assertEqual(str(frame["value * 0.5"].dtype), "Float64")  # one of them is too wide
        self.assertEqual((frame["value * 0.5"][0], frame["value * 0.5"].isna()[3]), (3.5, True))

    def test_the_same_as_rows(self):
        answer = self.trace.query("writes to 0x10000..0x10020")
        frame = answer.df()
        for name in ("time", "thread", "address", "size", "value", "actor"):
            self.assertEqual(list(frame[name]), answer[name], name)

    def test_no_rows(self):
        frame = self.trace.query("writes to 0x50000").df()
        self.assertEqual(len(frame), 0)
        self.assertIn("address", frame.columns)

    def test_lives_longer_than_all_else(self):
        import gc

        trace = ttq.open(PATH)
        frame = trace.query("writes to 0x10000..0x10300").df()
        trace.close()
        del trace
        gc.collect()
        self.assertEqual(list(frame.time), [0, 1, 2, 3, 5, 7, 9])


@needs("pyarrow")
class ArrowTest(Base):
    def test_table(self):
        import pyarrow

        answer = self.trace.query("writes to 0x10000..0x10300")
        table = answer.arrow()
        table.validate(full=True)
        self.assertEqual(table.column("time").to_pylist(), [0, 1, 2, 3, 5, 7, 9])
        self.assertEqual(table.column("actor").to_pylist(), ["instruction"] * 7)
        self.assertEqual(table.schema.field("address").metadata, {b"ttq.type": b"address"})
        answer.rows()
        self.assertEqual(answer.arrow(), table)  # also when rows were read before
        if hasattr(pyarrow.RecordBatchReader, "from_stream"):
            self.assertEqual(pyarrow.RecordBatchReader.from_stream(answer).read_all(), table)


class CapsuleTest(Base):
    def test_a_capsule_that_nobody_takes_is_released(self):
        from ttq import capsules

        capsule = self.trace.query("threads").__arrow_c_stream__()
        self.assertIn("arrow_array_stream", repr(capsule))
        self.assertEqual(len(capsules._alive), 1)
        del capsule
        self.assertEqual(len(capsules._alive), 0)


@needs("matplotlib")
class PlotTest(Base):
    def drawn(self, axes):
        """How many of the picture's pixels are not white."""
        axes.figure.canvas.draw()
        pixels = axes.figure.canvas.buffer_rgba()
        import numpy

        return (numpy.asarray(pixels)[..., :3].min(axis=2) < 230).sum()

    def test_writes(self):
        axes = self.trace.plot_writes(0x10000)
        self.assertEqual(axes.get_title("left").split("\n")[0], "writes to 0x10000")
        self.assertIn("last: 9 by ", axes.get_title("left"))
        points = [tuple(p) for c in axes.collections for p in c.get_offsets().tolist()]
        self.assertEqual(points, [(0, 7), (5, 9), (5, 9)])  # the last one is ringed
        legend = [text.get_text() for text in axes.get_legend().get_texts()]
        self.assertIn("the last write", legend)
        begin, end = axes.get_xlim()  # the data's, not the whole life
        self.assertGreaterEqual(begin, -1)
        self.assertLess(end, 11)
        self.assertGreater(self.drawn(axes), 500)
        empty = self.trace.plot_writes(0x50000)
        self.assertIn("nothing wrote", empty.texts[0].get_text())

    def test_failures(self):
        axes = self.trace.plot_failures("events signal", "writes to 0x10000..0x10300", window=1000)
        points = sorted(tuple(p) for c in axes.collections for p in c.get_offsets().tolist())
        crash = self.trace.crash
        self.assertEqual(points, [(t - crash, i) for i, t in enumerate([0, 1, 2, 3, 5, 7, 9])])
        self.assertIn("no failures", self.trace.plot_failures("events exit", "threads").texts[0].get_text())

    # Values that are addresses or doubles stand in their order, and are named in hexadecimal.
    def test_large_values(self):
        import matplotlib.pyplot as plt
        from ttq import plots

        axes = plt.subplots()[1]
        values = [0x4033000000000000, 0x4844160, 0, None, b"0123456789abcdef", 0x4844160]
        places = plots._value_axis(axes, values)
        self.assertEqual(places, [4, 3, 2, 1, 0, 3])
        self.assertEqual([t.get_text() for t in axes.get_yticklabels()],
                         ["16 bytes", "not known", "0", "0x4844160", "0x4033000000000000"])
        self.assertLess(axes.get_ylim()[1], 6)
        many = plt.subplots()[1]
        plots._value_axis(many, [1 << 30 | n for n in range(500)])
        self.assertEqual(len(many.get_yticklabels()), 12)
        small = plt.subplots()[1]
        self.assertEqual(plots._value_axis(small, [3, 5]), [3.0, 5.0])

    def test_groups(self):
        from ttq import plots

        groups = plots._groups([f"f{i % 12}" for i in range(100)])
        self.assertEqual(len(groups), 7)
        self.assertEqual(groups[-1][0], "6 others (48)")
        self.assertEqual(sorted(i for g in groups for i in g[3]), list(range(100)))
        self.assertEqual(len({g[1] for g in groups}), 7)  # colours
        # A label that begins with an underscore would not be in the legend.
        self.assertEqual(plots._groups(["_start"])[0][0], " _start (1)")

    # Counts that are not known, as of an object that was freed, are gaps.
    def test_refcounts(self):
        from unittest import mock

        from ttq import plots
        from ttq.result import Column, Row

        columns = [Column(n, "integer", True) for n in ("time", "after", "function")]
        rows = [Row(columns, r) for r in ((10, 1, "f"), (12, None, None), (20, 2, "g"), (30, None, "h"))]
        trace = mock.Mock(crash=None, end=100)
        trace.query.return_value = mock.Mock(rows=lambda: rows, note="")
        axes = plots.refcounts(trace, 0x1000)
        self.assertIn("last: 2 by g at 20", axes.get_title("left"))
        self.assertIn("no count (2)", [t.get_text() for t in axes.get_legend().get_texts()])
        self.assertGreater(self.drawn(axes), 500)
        trace.query.return_value = mock.Mock(rows=lambda: rows[1:2], note="")
        self.assertIn("no changes", plots.refcounts(trace, 0x1000).texts[0].get_text())

    def test_threads(self):
        axes = self.trace.plot_threads()
        self.assertEqual([t.get_text() for t in axes.get_yticklabels()], ["thread 1", "thread 2"])
        self.assertGreater(self.drawn(axes), 500)

    def test_flame(self):
        from ttq import plots
        from ttq.result import Column, Row

        columns = [Column(n, "integer", True) for n in ("time", "thread", "pc", "function", "return_time", "kind")]
        calls = [(0, 1, 1, "main", None, "call"), (10, 1, 2, "f", 50, "call"), (12, 1, 2, "in", None, "inlined"),
                 (20, 1, 3, "g", 30, "call"), (60, 1, 2, "f", 70, "call"), (15, 2, 9, "other", 25, "call")]
        spent = plots._tree([Row(columns, call) for call in calls], 100)
        self.assertEqual(spent, {("main",): 100, ("main", "f"): 50, ("main", "f", "g"): 10, ("other",): 10})
        # f jumps to g, which goes on after f's own end.
        jumps = [(0, 1, 1, "main", 80, "call"), (10, 1, 2, "f", 12, "call"), (11, 1, 3, "g", 40, "call")]
        spent = plots._tree([Row(columns, call) for call in jumps], 100)
        self.assertEqual(spent, {("main",): 80, ("main", "f"): 30, ("main", "f", "g"): 29})


@needs("IPython")
class MagicTest(Base):
    @classmethod
    def setUpClass(cls):
        os.environ["IPYTHONDIR"] = os.path.join(scratch.name, "ipython")
        from IPython.core.interactiveshell import InteractiveShell

        from traitlets.config import Config

        cls.shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
        cls.shell.run_cell("%load_ext ttq")

    def run_cell(self, code):
        import contextlib
        import io

        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            result = self.shell.run_cell(code)
        result.raise_error()
        return result.result, out.getvalue()

    def test_line_and_cell(self):
        self.run_cell(f"%ttq open {PATH}")
        answer, _ = self.run_cell("%ttq writes to 0x10000")
        self.assertEqual(len(answer), 2)
        self.run_cell("where = 0x10020\n")
        answer, _ = self.run_cell("answer = %ttq writes to :where\nlen(answer)")
        self.assertEqual(answer, 1)
        self.run_cell("%%ttq found\nwrites to 0x10000\n| first 1")
        self.assertEqual(len(self.shell.user_ns["found"]), 1)
        _, printed = self.run_cell("%ttq wirtes to 0x10000")
        self.assertIn("did you mean 'writes'?", printed)
        for wrong, said in (("open /nonexistent", "there is no recording /nonexistent"),
                            (f"open {PATH} -p 9", "there is no process 9"), (f"open {PATH} -p x", "-p takes the number of a process, not x")):
            self.assertIn("ttq: " + said, self.run_cell("%ttq " + wrong)[1])
        _, printed = self.run_cell("%ttq memory :nobody")
        self.assertIn("needs a value for :nobody", printed)

    def completions(self, code):
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [(c.text, code[c.start:c.end]) for c in self.shell.Completer.completions(code, len(code))]

    def test_completion(self):
        self.assertEqual(self.completions("%ttq last wri"), [("write", "wri"), ("writes", "wri")])
        self.assertEqual(self.completions("x = %ttq last write t"), [("to", "t")])
        self.assertEqual(self.completions("%%ttq\nthreads\n| sel"), [("select", "sel")])
        self.run_cell("address_of_it = 0x10020")
        self.assertIn(("address_of_it", "address_"), self.completions("%ttq memory :address_"))
        self.assertIn("import", [text for text, _ in self.completions("impor")])

    def test_unloading(self):
        self.run_cell("%unload_ext ttq")
        self.assertNotIn("ttq", self.shell.magics_manager.magics["line"])
        self.run_cell("%load_ext ttq")


if __name__ == "__main__":
    with scratch:
        unittest.main(argv=[sys.argv[0], *sys.argv[4:]])

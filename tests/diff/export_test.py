# SPDX-License-Identifier: MIT
"""`ttq export`: files are loaded by sqlite3, Python's json, DuckDB and Arrow's implementation in Rust.

    export_test.py TTQ RECORD_TEXT MODULES

What loads Parquet and Arrow are packages for node, installed in the directory MODULES, once. Where they cannot be,
those two are skipped.
"""

import csv
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

TTQ, RECORD_TEXT, MODULES = (os.path.abspath(p) for p in sys.argv[1:4])
sys.argv = sys.argv[:1] + sys.argv[4:]
HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = os.path.join(HERE, "package.json")
sys.path.insert(0, os.path.join(HERE, "../support"))
import npm  # noqa: E402

HISTORY = """map 0x10000 0x11000 rw
thread 1
0x401000 store 0x10000 4 = 7
0x401004 store 0x10004 4 = 8
0x401008 store 0x10000 4 = 9
"""
ROWS = 70000
QUERY = "writes to 0x10000 len 8 | select time, address, value, size"
EXPECTED = [(0, "0x10000", "0x7", 4), (1, "0x10004", "0x8", 4), (2, "0x10000", "0x9", 4)]
DUCKDB = """
const duckdb = require('@duckdb/node-api');
(async () => {
  const c = await (await duckdb.DuckDBInstance.create(':memory:')).connect();
  const file = process.argv[1];
  const r = await c.runAndReadAll(`SELECT * FROM '${file}' ORDER BY ALL`);
  console.log(JSON.stringify(r.getRowsJson()));
  const t = await c.runAndReadAll(`DESCRIBE SELECT * FROM '${file}'`);
  console.log(JSON.stringify(t.getRowsJson().map(row => row[1])));
})();
"""
STATISTICS = """
const duckdb = require('@duckdb/node-api');
(async () => {
  const c = await (await duckdb.DuckDBInstance.create(':memory:')).connect();
  const r = await c.runAndReadAll(
      `SELECT stats_min_value, stats_max_value, stats_null_count FROM parquet_metadata('${process.argv[1]}')`);
  console.log(JSON.stringify(r.getRowsJson()));
})();
"""
# An IPC file is a stream of messages between magic words, and a footer. Arrow's Rust reads the stream and
# writes it as Parquet, for DuckDB; apache-arrow reads by the footer.
ARROW = """
const fs = require('fs'), rust = require('parquet-wasm/node'), arrow = require('apache-arrow');
const bytes = fs.readFileSync(process.argv[1]);
fs.writeFileSync(process.argv[2], rust.writeParquet(rust.Table.fromIPCStream(bytes.subarray(8))));
const table = arrow.tableFromIPC(bytes);
console.log(JSON.stringify([table.numRows, table.batches.length, table.schema.fields.map(
    f => [f.name, String(f.type), f.metadata.get('ttq.type')])]));
"""


def export(to, name, query=QUERY, trace=None):
    """Without any program in reach."""
    path = os.path.join(PLACE, name)
    p = subprocess.run([TTQ, "export", "-t", trace or TRACE, "--to", to, "-o", path, query], cwd=PLACE,
                       env=dict(os.environ, PATH="/nowhere"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return p, path


def node(script, *arguments):
    """The lines that it prints, from JSON."""
    p = subprocess.run(["node", "-e", script, *arguments], cwd=MODULES, stdout=subprocess.PIPE, text=True,
                       check=True)
    return [json.loads(line) for line in p.stdout.splitlines()]


class Columns(unittest.TestCase):
    """Parquet and Arrow."""

    @classmethod
    def setUpClass(cls):
        reason = npm.install(PACKAGES, MODULES)
        if reason:
            raise unittest.SkipTest("no packages for node: " + reason)

    def export(self, to, name, *arguments):
        p, path = export(to, name, *arguments)
        self.assertEqual((p.returncode, p.stdout), (0, ""), p.stderr)
        self.assertEqual([n for n in os.listdir(PLACE) if n.endswith(".new")], [])
        return path

    def test_parquet(self):
        path = self.export("parquet", "rows.parquet")
        with open(path, "rb") as f:
            self.assertEqual(f.read(4), b"PAR1")
        rows, types = node(DUCKDB, path)
        self.assertEqual([(int(r[0]), r[1], r[2], int(r[3])) for r in rows], EXPECTED)
        self.assertEqual(types, ["UBIGINT", "VARCHAR", "VARCHAR", "BIGINT"])

    def test_arrow(self):
        path, parquet = self.export("arrow", "rows.arrow"), os.path.join(PLACE, "of-arrow.parquet")
        with open(path, "rb") as f:
            content = f.read()
        self.assertEqual((content[:8], content[-6:]), (b"ARROW1\0\0", b"ARROW1"))
        by_footer, = node(ARROW, path, parquet)
        self.assertEqual(by_footer, [3, 1, [["time", "Uint64", "time"], ["address", "Utf8", "address"],
                                            ["value", "Utf8", "value"], ["size", "Int64", "integer"]]])
        rows, types = node(DUCKDB, parquet)
        self.assertEqual([(int(r[0]), r[1], r[2], int(r[3])) for r in rows], EXPECTED)
        self.assertEqual(types, ["UBIGINT", "VARCHAR", "VARCHAR", "BIGINT"])

    def test_many_rows(self):
        """More than a batch, of numbers, nulls, texts that repeat and texts that do not."""
        query = "writes to 0x20000..0x28000 | select time, address, size, hex(time), value, 100 / (time % 3), " \
                "hex(value / (time % 3)), 0 - time"
        p, lines = export("jsonl", "many.jsonl", query, MANY)
        self.assertEqual(p.returncode, 0, p.stderr)
        with open(lines) as f:
            wanted = [tuple(None if v is None else str(v) for v in json.loads(line).values()) for line in f]
        self.assertEqual(len(wanted), ROWS)
        for to in ("parquet", "arrow"):
            path = self.export(to, "many." + to, query, MANY)
            if to == "arrow":
                by_footer, = node(ARROW, path, path + ".parquet")
                self.assertEqual(by_footer[:2], [ROWS, 2])
                path += ".parquet"
            rows, _ = node(DUCKDB, path)
            got = [tuple(None if v is None else str(v) for v in row) for row in rows]
            self.assertEqual(sorted(got), sorted(wanted))

    def test_parquet_of_nulls_and_objects(self):
        query = "writes to 0x10000 len 8 | backtrace | select time, function, backtrace, size / 8.0, " \
                "0x7fffffffffffffff - 2"
        rows, types = node(DUCKDB, self.export("parquet", "nulls.parquet", query))
        self.assertEqual([(row[1], row[3], row[4]) for row in rows], [(None, 0.5, "9223372036854775805")] * 3)
        self.assertEqual([json.loads(row[2])[0]["pc"] for row in rows], ["0x401000", "0x401004", "0x401008"])
        self.assertEqual(types, ["UBIGINT", "VARCHAR", "JSON", "DOUBLE", "BIGINT"])
        # DuckDB skips row groups by these.
        statistics, = node(STATISTICS, os.path.join(PLACE, "nulls.parquet"))
        self.assertEqual(statistics[0], ["0", "2", "0"])
        none = self.export("parquet", "none.parquet", "writes to 0x10800")
        self.assertEqual(node(DUCKDB, none)[0], [])

    def test_arrow_without_rows_has_columns(self):
        path = self.export("arrow", "none.arrow", "writes to 0x10800 | select time, address, value, size")
        by_footer, = node(ARROW, path, os.path.join(PLACE, "none.parquet"))
        self.assertEqual(by_footer[0], 0)
        self.assertEqual([f[0] for f in by_footer[2]], ["time", "address", "value", "size"])
        self.assertEqual(node(DUCKDB, os.path.join(PLACE, "none.parquet"))[0], [])

    def test_arrow_rounds_no_number_and_keeps_objects_as_json(self):
        query = "writes to 0x10000 | first 1 | backtrace | select 0x7fffffffffffffff - 2, python, backtrace, " \
                "size / 8.0, 1e308 * 10"
        path, parquet = self.export("arrow", "large.arrow", query), os.path.join(PLACE, "large.parquet")
        node(ARROW, path, parquet)
        rows, types = node(DUCKDB, parquet)
        (number, python, backtrace, real, infinite), = rows
        self.assertEqual((number, python), ("9223372036854775805", None))
        self.assertEqual((float(real), float(infinite), types[3:]), (0.5, float("inf"), ["DOUBLE", "DOUBLE"]))
        self.assertEqual([frame["pc"] for frame in json.loads(backtrace)], ["0x401000"])


class Export(unittest.TestCase):
    def test_json_lines(self):
        p, path = export("jsonl", "rows.jsonl")
        self.assertEqual((p.returncode, p.stdout, p.stderr), (0, "", ""))
        with open(path) as f:
            rows = [json.loads(line) for line in f]
        self.assertEqual([(r["time"], r["address"], r["value"], r["size"]) for r in rows], EXPECTED)

    def test_csv_into_sqlite(self):
        p, path = export("csv", "rows.csv")
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        db = sqlite3.connect(":memory:")
        with open(path) as f:
            reader = csv.reader(f)
            db.execute("CREATE TABLE rows (%s)" % ", ".join(next(reader)))
            db.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", reader)
        self.assertEqual(db.execute("SELECT value FROM rows WHERE address = '0x10000' ORDER BY time + 0").fetchall(),
                         [("0x7",), ("0x9",)])
        db.close()

    def test_bad_input_leaves_no_file(self):
        for query, trace, status in (("writes two 0x10000", None, 2), (QUERY, os.path.join(PLACE, "gone"), 3)):
            p, path = export("csv", "bad.csv", query, trace)
            self.assertEqual(p.returncode, status, p.stderr)
            self.assertTrue(p.stderr.startswith("ttq: "), p.stderr)
            self.assertFalse(os.path.exists(path) or os.path.exists(path + ".new"))


if __name__ == "__main__":
    PLACE = tempfile.mkdtemp(prefix="ttq-export-")
    TRACE = os.path.join(PLACE, "a.ttq")
    try:
        subprocess.run([RECORD_TEXT, TRACE], input=HISTORY, text=True, check=True)
        MANY = os.path.join(PLACE, "many.ttq")
        stores = "".join(f"0x401000 store {0x20000 + i % 4096 * 8:#x} 8 = {i % 100}\n" for i in range(ROWS))
        subprocess.run([RECORD_TEXT, MANY], input="map 0x20000 0x29000 rw\nthread 1\n" + stores, text=True, check=True)
        unittest.main(verbosity=2)  # which says why something was skipped
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)

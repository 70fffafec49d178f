# SPDX-License-Identifier: MIT
"""`ttq export`: files are loaded by sqlite3, Python's json and, where it is installed, DuckDB.

    export_test.py TTQ RECORD_TEXT
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

TTQ, RECORD_TEXT = (os.path.abspath(p) for p in sys.argv[1:3])
sys.argv = sys.argv[:1] + sys.argv[3:]
HISTORY = """map 0x10000 0x11000 rw
thread 1
0x401000 store 0x10000 4 = 7
0x401004 store 0x10004 4 = 8
0x401008 store 0x10000 4 = 9
"""
QUERY = "writes to 0x10000 len 8 | select time, address, value, size"
EXPECTED = [(0, "0x10000", "0x7", 4), (1, "0x10004", "0x8", 4), (2, "0x10000", "0x9", 4)]
READ_BACK = """
const duckdb = require(require.resolve('@duckdb/node-api', {paths: [process.env.NODE_PATH || '.', process.cwd()]}));
(async () => {
  const c = await (await duckdb.DuckDBInstance.create(':memory:')).connect();
  const r = await c.runAndReadAll(`SELECT time, address, value, size FROM '${process.argv[1]}' ORDER BY time`);
  console.log(JSON.stringify(r.getRowsJson()));
  const t = await c.runAndReadAll(`DESCRIBE SELECT * FROM '${process.argv[1]}'`);
  console.log(JSON.stringify(t.getRowsJson().map(row => row[1])));
})();
"""


def export(to, name, query=QUERY, trace=None):
    path = os.path.join(PLACE, name)
    p = subprocess.run([TTQ, "export", "-t", trace or TRACE, "--to", to, "-o", path, query],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return p, path


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

    def test_parquet(self):
        p, path = export("parquet", "rows.parquet")
        if "npm install" in p.stderr or "needs node" in p.stderr:
            self.assertEqual(p.returncode, 3)
            self.assertFalse(os.path.exists(path))
            self.skipTest("no DuckDB")
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        with open(path, "rb") as f:
            self.assertEqual(f.read(4), b"PAR1")
        out = subprocess.run(["node", "-e", READ_BACK, path], stdout=subprocess.PIPE, text=True, check=True).stdout
        rows, types = (json.loads(line) for line in out.splitlines())
        self.assertEqual([(int(r[0]), r[1], r[2], int(r[3])) for r in rows], EXPECTED)
        self.assertEqual(types, ["UBIGINT", "VARCHAR", "VARCHAR", "BIGINT"])

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
        unittest.main()
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)

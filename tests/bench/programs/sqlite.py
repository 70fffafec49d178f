# SPDX-License-Identifier: MIT
"""A load of sqlite3: inserts, an index, scans and joins, in memory."""

import sqlite3

db = sqlite3.connect(":memory:")
db.execute("create table t(a integer primary key, b text, c real)")
db.executemany("insert into t values(?, ?, ?)",
               ((i, str(i * 7919 % 100003), i / 7) for i in range(150000)))
db.execute("create index by_b on t(b)")
print(db.execute("select count(*), max(b), sum(c) from t where b like '%7%'").fetchall())
print(db.execute("select count(*) from t x join t y on x.b = y.b where x.a % 3 = 0").fetchall())
print(len(db.execute("select b from t order by b desc, c").fetchall()))

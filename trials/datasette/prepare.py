"""A database with 5,000 rows."""

import sqlite3
import sys

with sqlite3.connect(sys.argv[1]) as database:
    database.execute("create table places (id integer primary key, name text, height real)")
    rows = ((number, f"place é {number}", number / 7) for number in range(5_000))
    database.executemany("insert into places values (?, ?, ?)", rows)

"""Damage to SQLite files: to values, rows and tables by way of SQL, or to the bytes of the file."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from fuzz.mutations.documents import mutate_json
from fuzz.mutations.raw import mutate_bytes

_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"
_VALUES: tuple[Any, ...] = (
    0,
    -1,
    1,
    7,
    2**31,
    2**53,
    2**62 - 1,
    2**63 - 1,
    -(2**63),
    1.5,
    1e300,
    float("inf"),
    -1e-300,
    None,
    "",
    "x",
    "\x00",
    "\x1b[2J",
    "12",
    b"",
    b"\xff\xfe",
    "x" * 5000,
    "[]",
    "{}",
    "[1e999]",
    "null",
    "</script><script>alert(1)</script>",
    10**9,
    65536,
)
_STATEMENTS = (
    f"CREATE VIEW more AS {_ENDLESS} i FROM n",
    "CREATE TABLE more (a)",
    "CREATE INDEX more ON meta (value)",
    "CREATE TRIGGER more AFTER UPDATE ON meta BEGIN DELETE FROM meta; END",
    "CREATE VIRTUAL TABLE more USING fts5(text)",
    "PRAGMA user_version = {number}",
    "PRAGMA application_id = {number}",
    "PRAGMA journal_mode = WAL",
    "PRAGMA page_size = 512",
    "PRAGMA encoding = 'UTF-16'",
    "ANALYZE",
    "VACUUM",
)


def mutate_database(content: bytes, random: Random, scratch: Path) -> bytes:
    """One change; mostly of a value, so that what is read goes far."""
    if random.random() < 0.25:
        return mutate_bytes(content, random, scratch)
    path = scratch / "scratch.db"
    path.write_bytes(content)
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = MEMORY")
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("PRAGMA ignore_check_constraints = ON")
            _change(connection, random)
        return path.read_bytes()
    except (sqlite3.Error, UnicodeError, OverflowError):
        return mutate_bytes(content, random, scratch)
    finally:
        for beside in ("scratch.db", "scratch.db-wal", "scratch.db-shm"):
            (scratch / beside).unlink(missing_ok=True)


def _change(connection: sqlite3.Connection, random: Random) -> None:
    tables = [
        name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    ]
    table = random.choice(tables)
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    column = random.choice(columns)
    place = random.randrange(1 << 30)
    match random.choice(
        ("value", "value", "value", "value", "json", "blob", "rows", "copy", "statement", "view", "untyped")
    ):
        case "value":
            _set(connection, table, column, random.choice(_VALUES), place)
        case "json":
            targets = [(one, name) for one in tables for name in _list_json(connection, one)]
            one, name = random.choice(targets)
            found = connection.execute(f"SELECT {name} FROM {one}").fetchall()
            if found:
                text = str(found[place % len(found)][0]).encode()
                _set(connection, one, name, mutate_json(text, random, Path()).decode(errors="replace"), place)
        case "blob":
            _set(connection, table, column, zlib.compress(bytes(random.choice((8, 8000, 30 << 20)))), place)
        case "rows":
            connection.execute(
                f"DELETE FROM {table}" + (f" WHERE {_find_row(connection, table, place)}" if place % 3 else "")
            )
        case "copy":
            connection.execute(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}")
        case "statement":
            connection.execute(random.choice(_STATEMENTS).format(number=random.choice((0, 1, 2, 99, -1))))
        case "view":
            connection.execute(f"DROP TABLE {table}")
            listed = ", ".join(f"i AS {name}" for name in columns)
            connection.execute(f"CREATE VIEW {table} AS {_ENDLESS} {listed} FROM n")
        case "untyped":
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '') WHERE name = ?", (table,))


def _set(connection: sqlite3.Connection, table: str, column: str, value: Any, place: int) -> None:
    connection.execute(f"UPDATE {table} SET {column} = ? WHERE {_find_row(connection, table, place)}", (value,))


def _find_row(connection: sqlite3.Connection, table: str, place: int) -> str:
    (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    keys = [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[5]]
    order = ", ".join(keys) or "rowid"
    return f"({order}) = (SELECT {order} FROM {table} ORDER BY {order} LIMIT 1 OFFSET {place % max(1, count)})"


def _list_json(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[1].endswith("_json")]

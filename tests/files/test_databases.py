"""Databases are of one schema, read only, and cannot keep a reader busy."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from openipu.errors import TraceError
from openipu.files.databases import Database, DatabaseFormat, open_database
from openipu.files.origin import Origin
from openipu.files.values import Count, Text

SCHEMA = "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL); CREATE INDEX by_name ON people (name);"
FORMAT = DatabaseFormat("address book", 0x1234, 2, SCHEMA, most_rows=1000)
Person = tuple[Count, Text]


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.db"
    change(
        path, SCHEMA + "PRAGMA application_id = 0x1234; PRAGMA user_version = 2; INSERT INTO people VALUES (1, 'Ada')"
    )
    return path


def change(path: Path, statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(statements)


def read(path: Path, query: str = "SELECT * FROM people") -> list[Person]:
    with open_database(path, FORMAT, Origin(str(path), TraceError, "Write it again.")) as database:
        assert isinstance(database, Database)
        return database.read(query, Person)


def test_rows_have_their_types(book: Path) -> None:
    assert read(book) == [(1, "Ada")]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW more AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, 'x' FROM n",
        "DROP TABLE people; CREATE VIEW people AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT i AS id, 'x' AS name FROM n",
        "CREATE TRIGGER now AFTER INSERT ON people BEGIN DELETE FROM people; END",
        "CREATE TABLE more (id INTEGER)",
        "CREATE INDEX more ON people (id)",
        "DROP INDEX by_name",
        "ALTER TABLE people ADD COLUMN age INTEGER",
        "ALTER TABLE people ADD COLUMN twice TEXT GENERATED ALWAYS AS (name || name)",
        "CREATE VIRTUAL TABLE more USING fts5(text)",
        "ANALYZE",
    ],
)
def test_whatever_is_not_of_the_schema_is_refused(statement: str, book: Path) -> None:
    change(book, statement)
    with pytest.raises(TraceError, match=r"book\.db is damaged: .* is not as openipu makes it\. Write it again\."):
        read(book)


@pytest.mark.parametrize("value", ["x'00'", "CAST(1.5 AS BLOB)"])
def test_a_value_of_another_type_is_refused(value: str, book: Path) -> None:
    change(book, f"UPDATE people SET name = {value}")
    with pytest.raises(TraceError, match="Expected `str`"):
        read(book)


def test_a_query_that_does_not_end_is_stopped(book: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i), 'x' FROM n"
    with pytest.raises(TraceError, match="takes more steps than a file of its size can need"):
        read(book, endless)


def test_more_rows_than_expected_are_refused(book: Path) -> None:
    change(
        book,
        "WITH RECURSIVE n(i) AS (SELECT 2 UNION SELECT i + 1 FROM n LIMIT 1000) "
        "INSERT INTO people SELECT i, 'x' FROM n",
    )
    with pytest.raises(TraceError, match="more than 1,000 rows"):
        read(book)


def test_nothing_can_be_written(book: Path) -> None:
    with pytest.raises(TraceError, match=r"readonly|read-only"):
        read(book, "DELETE FROM people RETURNING *")


def test_a_write_ahead_log_is_not_made_beside_the_file(book: Path) -> None:
    change(book, "PRAGMA journal_mode = WAL; INSERT INTO people VALUES (2, 'Bob')")
    beside = sorted(book.parent.iterdir())
    with pytest.raises(TraceError, match="its way of writing"):
        read(book)
    assert sorted(book.parent.iterdir()) == beside


def test_every_truncation_and_every_flipped_byte_is_read_or_is_one_error(book: Path) -> None:
    whole = book.read_bytes()
    for length in range(0, len(whole), 97):
        book.write_bytes(whole[:length])
        with pytest.raises(TraceError, match="damaged"):
            read(book)
    found = 0
    for place in range(0, len(whole), 3):
        flipped = bytearray(whole)
        flipped[place] ^= 0xFF
        book.write_bytes(flipped)
        try:
            found += len(read(book))
        except TraceError:
            continue
    assert found  # most bytes of this small file are empty space

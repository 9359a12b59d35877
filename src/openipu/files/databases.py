"""SQLite databases of openipu's own formats.

In: a path, the format that the file must have, and queries with the types of their rows. Out: typed rows. The file is
opened for reading alone. Before a row is read its schema is compared, text by text, with the one that openipu writes:
views, triggers, virtual tables, generated columns and further indexes are not in it. The size of the file bounds the
work.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from openipu.files.origin import Origin
from openipu.files.plain import MIB, open_plain
from openipu.files.values import convert

_MAGIC = b"SQLite format 3\0"
_UNITS = 10_000  # instructions of SQLite's virtual machine between two looks at the budget
_FREE_UNITS = 2_000  # 20 million instructions for any file, about a second
_BYTES_PER_UNIT = 1_000  # and ten for each byte
_LONGEST_VALUE = 64 * MIB


@dataclass(frozen=True, slots=True)
class DatabaseFormat:
    """A file format on top of SQLite."""

    kind: str  # "profile"
    application_id: int
    version: int
    schema: str  # the statements that make its tables and indexes
    growing: bool = False  # a process may still be writing: locks are respected
    largest: int = 1024 * MIB
    most_rows: int = 5_000_000  # of one query


class Database:
    """An open file whose schema is known to be right."""

    def __init__(self, connection: sqlite3.Connection, format: DatabaseFormat, origin: Origin) -> None:
        self._connection = connection
        self._format = format
        self._origin = origin

    def read(self, query: str, row: Any, *parameters: object) -> list[Any]:
        """The rows of a query, each of this type, such as `tuple[Count, Text | None]`."""
        try:
            found = self._connection.execute(query, parameters).fetchmany(self._format.most_rows + 1)
        except (sqlite3.Error, UnicodeError, OverflowError) as error:
            raise self._origin.fail(f"is damaged: {_describe(error)}") from error
        if len(found) > self._format.most_rows:
            raise self._origin.fail(f"has a table of more than {self._format.most_rows:,} rows")
        return convert(found, list[row], self._origin)


@contextmanager
def open_database(path: Path, format: DatabaseFormat, origin: Origin) -> Iterator[Database]:
    """A database of this format, for as long as the block lasts."""
    with open_plain(path, origin, format.largest) as file:
        header = file.read(100)
        size = file.seek(0, 2)
    _check_header(header, format, origin)
    # Nobody changes a file that was moved into place whole: it needs no locks, and a journal beside it is not read.
    mode = "mode=ro" if format.growing else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.resolve()))}?{mode}", uri=True)) as connection:
            _harden(connection, size)
            _check_schema(connection, format, origin)
            yield Database(connection, format, origin)
    except (sqlite3.Error, UnicodeError, OverflowError) as error:
        raise origin.fail(f"is damaged: {_describe(error)}") from error


def _check_header(header: bytes, format: DatabaseFormat, origin: Origin) -> None:
    if len(header) < 100 or not header.startswith(_MAGIC):
        raise origin.fail(f"is damaged, or is no {format.kind}: it does not begin as a database does")
    if int.from_bytes(header[68:72], "big") != format.application_id:
        raise origin.fail(f"is a database, but not one that openipu wrote as a {format.kind}")
    version = int.from_bytes(header[60:64], "big", signed=True)
    if version != format.version:
        newer = ": upgrade openipu to read it" if version > format.version else ""
        raise origin.fail(
            f"has version {version} of the {format.kind} format; this openipu reads version {format.version}{newer}"
        )
    if header[18:20] != b"\x01\x01":  # a write-ahead log would be made beside the file
        raise origin.fail("is damaged: its way of writing is not that of openipu")


def _harden(connection: sqlite3.Connection, size: int) -> None:
    for statement in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {statement}")
    if hasattr(connection, "setconfig"):  # Python 3.12
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)  # type: ignore[attr-defined]
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_VIEW, False)  # type: ignore[attr-defined]
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_TRIGGER, False)  # type: ignore[attr-defined]
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    budget = iter(range(_FREE_UNITS + size // _BYTES_PER_UNIT))
    connection.set_progress_handler(lambda: next(budget, None) is None, _UNITS)


def _check_schema(connection: sqlite3.Connection, format: DatabaseFormat, origin: Origin) -> None:
    expected = _list_schema(format.schema)
    found = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchmany(len(expected) + 1)
    if len(found) > len(expected) or set(found) != expected:
        odd = sorted(str(name) for _, name, _, _ in expected.symmetric_difference(found))
        raise origin.fail(f"is damaged: {', '.join(odd) or 'a table'} is missing, or is not as openipu makes it")
    (finding,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if finding != "ok":
        raise origin.fail(f"is damaged: {finding}")


@lru_cache(maxsize=8)
def _list_schema(statements: str) -> frozenset[tuple[Any, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(statements)
        return frozenset(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))


def _describe(error: Exception) -> str:
    if getattr(error, "sqlite_errorname", None) == "SQLITE_INTERRUPT":
        return "reading it takes more steps than a file of its size can need"
    return str(error)

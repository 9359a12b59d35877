"""Rows of a file of published figures.

In: a CSV file with the columns of `COLUMNS`; `value` and `source` may be missing or empty (a workload without an
answer). Out: `FigureRow`s, checked. A file that cannot be read as such is a `FiguresError` that names line and column.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openipu.errors import FiguresError
from openipu.explore.validation.units import find_scale
from openipu.files.documents import parse_json
from openipu.files.origin import Origin, shorten
from openipu.files.plain import read_text

COLUMNS = ("id", "kind", "system", "ipus", "workload", "params", "metric", "unit")
KINDS = ("micro", "e2e")
FITS = "fits in memory"
_LARGEST = 16 << 20
_MOST_IPUS = 1 << 16


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One published figure, or a workload that waits for one."""

    id: str
    kind: str  # "micro" or "e2e"
    system: str  # as the source names it; `systems.find_system` finds the catalog's
    ipus: int
    workload: str
    params: Mapping[str, Any]
    metric: str
    unit: str
    value: float | None = None
    source: str = ""
    sdk: str = ""

    @property
    def group(self) -> str:
        """Rows of one source: the id without its number."""
        return self.id.rpartition("-")[0] or self.id

    @property
    def asks_fit(self) -> bool:
        return self.metric == FITS

    def from_si(self, value: float) -> float:
        """Seconds, bytes a second, operations or items a second in this row's unit."""
        return value / find_scale(self.unit)

    def read_number(self, name: str, default: float | None = None) -> float:
        """A parameter that must be a number."""
        given = self.params.get(name, default)
        if isinstance(given, bool) or not isinstance(given, int | float):
            raise FiguresError(f"Row {self.id}: the parameter {name!r} must be a number, not {shorten(given)}.")
        return given

    def read_size(self, name: str, default: int | None = None) -> int:
        """A parameter that must be a whole number above zero."""
        given = self.read_number(name, default)
        if given != int(given) or given < 1:
            raise FiguresError(
                f"Row {self.id}: the parameter {name!r} must be a whole number above 0, not {shorten(given)}."
            )
        return int(given)


def read_rows(path: Path) -> list[FigureRow]:
    """Every row of a file, in order."""
    origin = Origin(f"The file of figures {path}", FiguresError, "Check the path; the file is CSV in UTF-8.")
    text = read_text(path, origin, _LARGEST)
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        found = [(reader.line_num, record) for record in reader]
    except csv.Error as error:
        raise FiguresError(f"{path}, line {reader.line_num}: {error}. Correct the quotes of that line.") from error
    _check_header(path, reader.fieldnames)
    rows = [_read_row(f"{path}, line {line}", record) for line, record in found]
    if not rows:
        raise FiguresError(f"{path} has a header and no rows. Give a file with at least one figure.")
    _check_ids(path, rows)
    return rows


def _check_header(path: Path, names: Any) -> None:
    missing = [column for column in COLUMNS if column not in (names or ())]
    if missing:
        raise FiguresError(
            f"{path} has no column {', '.join(missing)}. "
            f"A file of figures has the columns {', '.join(COLUMNS)}, and value, source and sdk where they are known."
        )


def _check_ids(path: Path, rows: list[FigureRow]) -> None:
    seen: set[str] = set()
    for row in rows:
        if row.id in seen:
            raise FiguresError(f"{path}: the id {row.id[:100]} occurs twice. Give each row an id of its own.")
        seen.add(row.id)


def _read_row(where: str, record: Mapping[Any, Any]) -> FigureRow:
    if None in record or any(record[column] is None for column in COLUMNS):
        raise FiguresError(f"{where}: the row has more or fewer fields than the header. Check commas and quotes.")
    if not record["id"]:
        raise FiguresError(f"{where}: the id is empty. Give the row one, such as GROUP-001.")
    if record["kind"] not in KINDS:
        raise FiguresError(f"{where}: kind must be {' or '.join(KINDS)}, not {shorten(record['kind'])}.")
    return FigureRow(
        id=record["id"],
        kind=record["kind"],
        system=record["system"],
        ipus=_read_ipus(where, record["ipus"]),
        workload=record["workload"],
        params=_read_params(where, record["params"]),
        metric=record["metric"],
        unit=record["unit"],
        value=_read_value(where, record.get("value")),
        source=record.get("source") or "",
        sdk=record.get("sdk") or "",
    )


def _read_ipus(where: str, text: str) -> int:
    try:
        count = int(text or 1)
    except ValueError as error:
        raise FiguresError(f"{where}: ipus must be a whole number, not {shorten(text)}.") from error
    if not 1 <= count <= _MOST_IPUS:
        raise FiguresError(f"{where}: ipus must be at least 1 and at most {_MOST_IPUS}, not {shorten(text)}.")
    return count


def _read_params(where: str, text: str) -> Mapping[str, Any]:
    origin = Origin(f"{where}: params", FiguresError, 'Write a JSON object, such as {} or {"batch": 4}.')
    return parse_json(text or "{}", dict[str, Any], origin)


def _read_value(where: str, text: str | None) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError as error:
        raise FiguresError(f"{where}: value must be a number or empty, not {shorten(text)}.") from error
    if not math.isfinite(value) or value < 0:
        raise FiguresError(f"{where}: value must be a number that is not negative, not {shorten(text)}.")
    return value

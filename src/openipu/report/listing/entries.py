"""The reports below a folder, newest first: one line each, from the profile's own figures.

In: a folder. Out: an `Entry` for each `profile.pop` below it, read as far as a line needs; one that cannot be read says
why.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openipu.errors import ProfileError
from openipu.files.databases import open_database
from openipu.files.origin import Origin
from openipu.files.values import Text
from openipu.report import rows
from openipu.report.profile import TimingRecord
from openipu.report.read import FORMAT, WRITE_AGAIN
from openipu.report.schema import FILE_NAME

REPORT_NAME = "report.html"
DEEPEST = 5  # folders below the one that is listed
MOST_PROFILES = 1_000


@dataclass(frozen=True, slots=True)
class Headline:
    """What a line says of a program."""

    name: str
    created: str  # ISO 8601
    system: str
    fits: bool
    peak_bytes: int
    limit_bytes: int
    call_cycles: float
    call_seconds: float
    samples_per_second: float


@dataclass(frozen=True, slots=True)
class Entry:
    """One profile: its folder, as seen from the folder that is listed, and what it says, or why it says nothing."""

    folder: Path
    place: str
    headline: Headline | None
    problem: str = ""

    @property
    def has_page(self) -> bool:
        return (self.folder / REPORT_NAME).is_file()


def find_profiles(folder: Path) -> list[Path]:
    """The folders below that hold a profile, in order of their names; no more than a list can show."""
    found: list[Path] = []
    for place, inside, files in os.walk(folder):
        inside.sort()
        inside[:] = [name for name in inside if not name.startswith(".")]
        if len(Path(place).relative_to(folder).parts) >= DEEPEST:
            inside.clear()
        if FILE_NAME in files:
            found.append(Path(place))
            if len(found) >= MOST_PROFILES:
                break
    return found


def list_reports(folder: Path) -> list[Entry]:
    """All of them, newest first; those that cannot be read come last."""
    entries = [_read_entry(folder, place) for place in find_profiles(folder)]
    return sorted(entries, key=lambda entry: entry.headline.created if entry.headline else "", reverse=True)


def _read_entry(folder: Path, place: Path) -> Entry:
    shown = str(place.relative_to(folder))
    try:
        return Entry(place, shown, read_headline(place / FILE_NAME))
    except ProfileError as error:
        return Entry(place, shown, None, str(error))


def read_headline(path: Path) -> Headline:
    """The first figures of a profile, without its steps and variables."""
    origin = Origin(str(path), ProfileError, WRITE_AGAIN)
    with open_database(path, FORMAT, origin) as database:

        def read_one(query: str, row: Any) -> Any:
            found = database.read(f"SELECT {query} LIMIT 2", row)
            if len(found) != 1:
                raise origin.fail(f"is damaged: {query.split('FROM ')[1].split()[0]} has not one row")
            return found[0]

        (name,) = read_one("value FROM meta WHERE key = 'name'", tuple[Text])
        (created,) = read_one("value FROM meta WHERE key = 'created'", tuple[Text])
        (system,) = read_one("value FROM figures WHERE scope = 'system' AND name = 'name'", tuple[Text])
        timing = TimingRecord(*read_one("* FROM timing", rows.TimingRow))
        fits, limit, peak, *_ = read_one("* FROM fit", rows.FitRow)
    seconds = timing.call_cycles / timing.clock_hz if timing.clock_hz else 0.0
    rate = timing.samples_per_call / seconds if seconds else 0.0
    return Headline(name, created, system, bool(fits), peak, limit, timing.call_cycles, seconds, rate)


def describe_entries(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The list for programs."""
    return [
        {
            "directory": str(entry.folder),
            "report": str(entry.folder / REPORT_NAME) if entry.has_page else None,
            "problem": entry.problem or None,
            **(
                {}
                if entry.headline is None
                else {name: getattr(entry.headline, name) for name in entry.headline.__dataclass_fields__}
            ),
        }
        for entry in entries
    ]


def format_date(created: str) -> str:
    """`2026-01-31T12:34:56+00:00` -> "2026-01-31 12:34"; whatever a file has instead stays as it is, but short."""
    day, mark, rest = created.partition("T")
    return f"{day} {rest[:5]}" if mark and len(day) == 10 else created[:30]

"""What runs of applications came to, kept: the page is written from this, and from nothing else.

In: outcomes of runs. Out: `outcomes/CATALOGUE.json`, a line for each run that the catalogue describes, newest kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from applications.entries import Application

RECORD = Path(__file__).resolve().parent / "outcomes"


@dataclass(frozen=True)
class Outcome:
    """How one run of an application ended."""

    folder: str
    tag: str
    kind: str
    command: str
    passed: bool
    detail: str
    fault: str
    losses: tuple[float, ...]
    modelled: float | None  # samples per second of the program that this run is about
    fits: bool | None
    guessed: float | None
    published: float | None
    source: str
    seconds: float


def read_record(applications: Iterable[Application], place: Path = RECORD) -> list[Outcome]:
    """What is kept of runs that are still described as they were run, in the order of the catalogue."""
    known = list(applications)
    held = {}
    for catalogue in {application.catalogue for application in known}:
        path = place / f"{catalogue}.json"
        for entry in json.loads(path.read_text(encoding="utf-8")) if path.exists() else ():
            held[entry["folder"], entry["command"]] = Outcome(**{**entry, "losses": tuple(entry["losses"])})
    keys = [(application.folder, run.command) for application in known for run in application.runs]
    return [held[key] for key in keys if key in held]


def keep_outcomes(outcomes: Sequence[Outcome], applications: Iterable[Application], place: Path = RECORD) -> None:
    """Puts new outcomes in the place of older ones of the same commands. Only files that change are written."""
    known = list(applications)
    fresh = {(outcome.folder, outcome.command): outcome for outcome in outcomes}
    catalogue_of = {application.folder: application.catalogue for application in known}
    for catalogue in {catalogue_of[outcome.folder] for outcome in outcomes}:
        described = [application for application in known if application.catalogue == catalogue]
        held = {(outcome.folder, outcome.command): outcome for outcome in read_record(described, place)} | fresh
        keys = [(application.folder, run.command) for application in described for run in application.runs]
        lines = [json.dumps(asdict(held[key])) for key in keys if key in held]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{catalogue}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")

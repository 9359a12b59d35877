"""Names of the parts of a cache entry with native code: those of unit 0, unit 1, …

A unit is one library, or several and the schedule that says how they are called.
"""

from __future__ import annotations

from pathlib import Path

from openipu.run.native.schedule import Schedule
from openipu.store import Entry

LIBRARY = "unit{}.so"
STRETCH = "unit{}.{}.so"  # of a unit with a schedule
SCHEDULE = "unit{}.schedule"
SIGNATURE = "unit{}.json"
CONSTANTS = "unit{}.tensors"
UNITS = "units"  # in the description: how many there are


def find_libraries(entry: Entry | None, unit: int) -> tuple[list[Path], Schedule | None]:
    """The libraries of a unit, and their schedule where there is one; no libraries if the entry lacks any."""
    if entry is None:
        return [], None
    if LIBRARY.format(unit) in entry:
        return [entry.find(LIBRARY.format(unit))], None
    if SCHEDULE.format(unit) not in entry:
        return [], None
    schedule = Schedule.parse(entry.read(SCHEDULE.format(unit)))
    names = [STRETCH.format(unit, number) for number in range(schedule.parts)]
    if not all(name in entry for name in names):
        return [], None
    return [entry.find(name) for name in names], schedule

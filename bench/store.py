"""The results file: what was measured, raw, so that tables and aims can be computed again.

In: results of one section after another. Out: one JSON file, into which each result is merged as soon as it is there:
a long run can be stopped and continued.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results.json"
VERSION = 1


class Store:
    """Results by section and key."""

    def __init__(self, path: Path = RESULTS) -> None:
        self.path = path
        self.values: dict[str, Any] = {"version": VERSION}
        if path.exists():
            read = json.loads(path.read_text(encoding="utf-8"))
            if read.get("version") == VERSION:
                self.values = read

    def read(self, section: str) -> dict[str, Any]:
        """All results of a section by key."""
        found: dict[str, Any] = self.values.get(section, {})
        return found

    def merge(self, section: str, key: str, result: Any) -> None:
        """Put one result in the place of an older one, and write the file."""
        self.values.setdefault(section, {})[key] = result
        self.write()

    def write(self) -> None:
        """Write the file in one go: a run that is stopped leaves the old one or the new one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(self.values, indent=1) + "\n", encoding="utf-8")
        temporary.replace(self.path)

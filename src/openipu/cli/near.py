"""The file that a mistyped path was perhaps meant to be."""

from __future__ import annotations

from pathlib import Path

from openipu.errors import suggest


def suggest_file(path: Path) -> str:
    """The file or folder beside a path that is not there which it was perhaps meant to be, as a question."""
    folder = path.parent
    try:
        beside = [str(folder / entry.name) for entry in folder.iterdir()]
    except OSError:  # there is no such folder either, or it cannot be read
        return ""
    return suggest(str(path), beside)

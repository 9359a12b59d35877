"""Names and places of what is built: `DebugContext`, `DebugInfo`, and the file that they are written to.

In: names, values, and the line that each context was made on. Out: while a file is open, one entry for each `DebugInfo`
and each call of a builder, in the JSON that Poplar writes: contexts, the last one first, and a table of their texts.
Poplar's own layers add nothing: there are none.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openipu.files.documents import dump_json
from openipu.files.saving import save_bytes
from popart._exceptions import popart_exception

BUILDER = "popartbuilder"


@dataclass(frozen=True)
class _Place:
    file: str
    function: str
    line: int


@dataclass
class _Entry:
    number: int
    name: str
    place: _Place
    parent: int
    layer: str
    values: dict[str, str] = field(default_factory=dict)


class _Recorder:
    """Entries for one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[_Entry] = []

    def add(self, name: str, place: _Place, parent: int, layer: str) -> _Entry:
        entry = _Entry(len(self.entries) + 1, name, place, parent, layer)
        self.entries.append(entry)
        return entry

    def write(self) -> None:
        texts: dict[str, int] = {}

        def find(text: str) -> int:
            return texts.setdefault(text, len(texts))

        contexts = [
            {
                **entry.values,
                "id": entry.number,
                "name": find(entry.name),
                "parentId": entry.parent,
                "layer": entry.layer,
                "location": {
                    "fileName": find(entry.place.file),
                    "functionName": find(entry.place.function),
                    "lineNumber": entry.place.line,
                },
            }
            for entry in reversed(self.entries)
        ]
        save_bytes(self.path, dump_json({"contexts": contexts, "stringTable": list(texts)}).encode())


_open: _Recorder | None = None


class DebugContext(str):
    """A name for what is built, made on a line; perhaps inside another."""

    def __new__(cls, name: object = "", *details: object) -> DebugContext:
        parent = name if isinstance(name, DebugInfo) else None
        text = (str(details[0]) if details else "") if parent is not None else str(name)
        found = super().__new__(cls, text)
        found._place = _find_place()
        found._parent = 0 if parent is None or parent._entry is None else parent._entry.number
        return found

    _place: _Place
    _parent: int


class DebugInfo:
    """What a layer has to say about a context."""

    def __init__(self, debugContext: DebugContext | str, layer: str) -> None:
        context = debugContext if isinstance(debugContext, DebugContext) else DebugContext(debugContext)
        self._entry = None if _open is None else _open.add(str(context), context._place, context._parent, str(layer))

    def setValue(self, name: str, value: Any) -> bool:
        """Note a value. False where no file is open."""
        if self._entry is not None:
            self._entry.values[str(name)] = str(value)
        return self._entry is not None


def initializePoplarDebugInfo(fileName: str, format: str = "json") -> None:
    """Write entries to a file from now on."""
    global _open
    if str(format).lower() != "json":
        raise popart_exception(f"Debug information is written as json, not as {format!r}.")
    _open = _Recorder(Path(fileName))


def closePoplarDebugInfo() -> None:
    """Write the file, and no entries any more."""
    global _open
    if _open is not None:
        recorder, _open = _open, None
        recorder.write()


def note(context: object, made: str, layer: str = BUILDER) -> None:
    """An entry for a call of a builder, where a file is open."""
    if _open is not None:
        place = context._place if isinstance(context, DebugContext) else _find_place()
        parent = context._parent if isinstance(context, DebugContext) else 0
        _open.add(str(context) or made, place, parent, layer).values["output"] = made


def _find_place() -> _Place:
    """The innermost line outside of this package."""
    frame = sys._getframe(1)
    package = str(Path(__file__).parent)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame = frame.f_back
    return _Place(frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno)

"""Weights that lie in files beside a model.

In: the model's folder, and a location that the model names. Out: the bytes at that place, as a map. Only plain files in
the model's own folder or below it are opened, whatever the model says.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from openipu.errors import TranslationError
from openipu.translate.mapped_files import MANY_BYTES, map_file


def open_external(folder: Path | None, entries: Mapping[str, str], needed: int, what: str) -> memoryview:
    """The data of one tensor. `entries` are location, offset and length as the model has them."""
    location = entries.get("location", "")
    if folder is None:
        raise TranslationError(
            f"{what} has its data in the file {location!r}, and the model was given as bytes: there is no folder to "
            "look in. Give the path of the model."
        )
    offset = _read_number(entries.get("offset", "0"), what)
    length = _read_number(entries.get("length", str(needed)), what)
    if length != needed:
        raise TranslationError(f"{what} needs {needed} bytes, and the model says that {location!r} has {length}.")
    view = map_file(_locate(folder, location, what), what)
    if offset + length > len(view):
        raise TranslationError(
            f"{what} lies at bytes {offset} to {offset + length} of {location!r}, which has only {len(view)}: "
            "the file is cut short."
        )
    return view[offset : offset + length]


def _locate(folder: Path, location: str, what: str) -> Path:
    pure = PurePosixPath(location)
    if not location or "\0" in location or "\\" in location or pure.is_absolute() or ".." in pure.parts:
        raise TranslationError(
            f"{what} has its data in {location!r}, which is not a file in the model's own folder: it is not read."
        )
    home = folder.resolve()
    path = home.joinpath(*pure.parts).resolve()
    if not path.is_relative_to(home):
        raise TranslationError(
            f"{what} has its data in {location!r}, a link out of the model's folder: it is not read."
        )
    return path


def _read_number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20) or int(text) > MANY_BYTES:
        raise TranslationError(f"{what} has {text[:40]!r} as a place in its file, which is not a number of bytes.")
    return int(text)

"""Overrides of an IPUConfig as text: `gradient_accumulation_steps=4,layers_per_ipu=[1 2 -1]`.

In: the text. Out: the values by field, in the type that the field holds; a list is written with spaces or commas.
"""

from __future__ import annotations

import re
from typing import Any

from optimum.graphcore._config_fields import FIELDS, Field

_TRUE, _FALSE = ("true", "1", "y", "yes"), ("false", "0", "n", "no")
_COMMAS_OUTSIDE_LISTS = re.compile(r",(?![^\[\]]*\])")


def parse_overrides(text: str) -> dict[str, Any]:
    """The values that the text names."""
    values: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in _COMMAS_OUTSIDE_LISTS.split(text))):
        name, equals, written = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise ValueError(f'"{part}" is not of the form key=value, in the overrides "{text}".')
        if name not in FIELDS:
            raise ValueError(f"Key {name} isn't in the original config dict. Fields are: {', '.join(sorted(FIELDS))}.")
        values[name] = _parse_value(name, written, FIELDS[name])
    return values


def _parse_value(name: str, written: str, field: Field) -> Any:
    if written.lower() in ("none", "null") and field.optional:
        return None
    if field.kind is dict:
        raise ValueError(f"You can only update int, float, bool, list or string values in the config, not {name}.")
    if field.kind is bool:
        return _parse_flag(name, written)
    if field.kind is str or written in field.words:
        return written
    try:
        if written.startswith("[") and written.endswith("]"):
            return [field.kind(item) for item in re.split(r"[\s,]+", written[1:-1].strip()) if item]
        return field.kind(written)
    except ValueError as error:
        raise ValueError(f"Can't read {written!r} as {field.describe()} (key {name})") from error


def _parse_flag(name: str, written: str) -> bool:
    if written.lower() in _TRUE:
        return True
    if written.lower() in _FALSE:
        return False
    raise ValueError(f"Can't derive true or false from {written} (key {name})")

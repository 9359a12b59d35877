"""Damage to JSON: values of other types, wild numbers, nesting, keys that are missing, doubled or new."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from fuzz.mutations.raw import mutate_bytes

_MARK = "\u0001raw\u0001"  # stands for a text that is no JSON value of Python's
_RAW = (
    "NaN",
    "-Infinity",
    "1e999",
    "9" * 400,
    "9" * 5000,
    "[" * 100_000,
    '{"a":' * 3000,
    "[" * 70 + "]" * 70,
    "-0.0",
    '"\\ud800"',
)
_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    1.5,
    2**31,
    2**53 + 1,
    2**63,
    -(2**63),
    2**64,
    1e308,
    "",
    "x",
    "x" * 5000,
    "../../etc/passwd",
    "\x00",
    "\x1b[31m",
    [],
    [[]],
    {},
    {"a": 1},
    [0] * 5000,
    [1, "a", None],
    {"value": 1},
    [2**40, 2**40],
    "torch.load",
    10**12,
)


def mutate_json(content: bytes, random: Random, scratch: Path) -> bytes:
    """One change of the document, or of its bytes."""
    if random.random() < 0.15:
        return mutate_bytes(content, random, scratch)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return mutate_bytes(content, random, scratch)
    holder = [document]
    raw = _change(holder, random)
    try:
        text = json.dumps(holder[0])
    except RecursionError:
        return content
    return (text if raw is None else text.replace(json.dumps(_MARK), raw)).encode()


def _change(holder: list[Any], random: Random) -> str | None:
    """Change one place in a value. Returns what is to stand for the mark, if it was left."""
    parent, key = random.choice(_list_places(holder))
    value = parent[key]
    match random.choice(("value", "value", "value", "raw", "drop", "add", "graft", "scale", "grow")):
        case "raw":
            parent[key] = _MARK
            return random.choice(_RAW)
        case "drop" if isinstance(parent, dict) or len(parent) > 1:
            del parent[key]
        case "add" if isinstance(value, dict):
            value[random.choice(("extra", "", "__class__", "value"))] = random.choice(_VALUES)
        case "add" if isinstance(value, list):
            value.insert(random.randrange(len(value) + 1), random.choice(_VALUES))
        case "graft":
            other, place = random.choice(_list_places(holder))
            parent[key] = json.loads(json.dumps(other[place]))
        case "scale" if isinstance(value, int | float) and not isinstance(value, bool):
            parent[key] = value * random.choice((-1, 2, 10, 10**6, 10**12)) + random.choice((0, 1, -1))
        case "grow" if isinstance(value, list) and value:
            parent[key] = value * random.choice((2, 3, 1000 if len(value) < 50 else 2))
        case _:
            parent[key] = random.choice(_VALUES)
    return None


def _list_places(holder: list[Any]) -> list[tuple[Any, Any]]:
    places: list[tuple[Any, Any]] = []
    waiting: list[Any] = [holder]
    while waiting:
        parent = waiting.pop()
        for key in parent if isinstance(parent, dict) else range(len(parent)):
            places.append((parent, key))
            if isinstance(parent[key], dict | list):
                waiting.append(parent[key])
    return places

"""What the store tells about itself: entries in a list, what was removed, what was damaged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Summary:
    """What a list shows of an entry."""

    key: str
    description: Mapping[str, Any]
    parts: Mapping[str, int]  # name -> bytes
    size_bytes: int
    created_seconds: float  # since 1970, as `time.time`
    used_seconds: float
    in_use: bool


@dataclass(frozen=True, slots=True)
class Removal:
    """What `prune` and `clear` did."""

    entries: int
    size_bytes: int
    kept_in_use: int  # were to go, but a process uses them


@dataclass(frozen=True, slots=True)
class Finding:
    """A damaged entry."""

    key: str
    reason: str

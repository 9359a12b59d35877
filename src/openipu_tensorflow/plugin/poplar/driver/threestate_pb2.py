"""Off, on, or not said."""

from __future__ import annotations

from enum import IntEnum


class ThreeState(IntEnum):
    """By the names that attributes of ops have."""

    THREESTATE_OFF = 0
    THREESTATE_ON = 1
    THREESTATE_UNDEFINED = 2

    @classmethod
    def Name(cls, value: int) -> str:  # noqa: N802 (as message classes spell it)
        return cls(value).name


THREESTATE_OFF, THREESTATE_ON, THREESTATE_UNDEFINED = ThreeState

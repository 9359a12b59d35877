"""The base of PopART's enumerations.

In: nothing. Out: a class whose members are numbers, so that options take them as they are, and whose text is
"Type.Member", as that of the original's.
"""

from __future__ import annotations

import enum


class Enumeration(enum.IntEnum):
    """Named numbers that print their names."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __format__(self, specification: str) -> str:
        return format(str(self), specification)

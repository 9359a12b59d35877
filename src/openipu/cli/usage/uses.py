"""What was found: names of an SDK, where the user's code uses them, and how openipu stands to each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How openipu stands to a name."""

    HAS = "has it"
    NO_EFFECT = "without effect"
    LACKS = "lacks it"


class Kind(StrEnum):
    """What a name is."""

    CALL = "call"
    OPTION = "option"
    OP = "op"


@dataclass(frozen=True, slots=True)
class Use:
    """One name at one line of the user's code. `name` starts with the module: "poptorch.Options.deviceIterations"."""

    name: str
    file: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Finding:
    """One name with its verdict and all its places."""

    name: str
    kind: Kind
    state: State
    note: str
    places: tuple[str, ...]
    ran: bool  # seen while the script ran, not only read in its source


def list_places(uses: Iterable[Use]) -> tuple[str, ...]:
    """Each place once, in the order of first use."""
    return tuple(dict.fromkeys(use.place for use in uses if use.place))

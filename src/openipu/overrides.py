"""What the command line overrides in every program that a script compiles: an explicit value, free of torch.

`openipu run` sets it before the script starts, and must not import torch before the script does: scripts set
environment variables that torch reads once. `session` reads it where nobody gives it another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from openipu.errors import OptionError
from openipu.machine import System

VERIFY_VARIABLE = "OPENIPU_VERIFY"
VERIFIED_CALLS = 3  # of each program, where nobody says how many


@dataclass(frozen=True, slots=True)
class Overrides:
    """None: as the front end, the environment and the defaults have it."""

    system: System | None = None
    engine: str | None = None  # "auto", "operators", "kernels" or "reference"
    profile_root: Path | None = None  # where every program's profile goes


_current = Overrides()


def read_verified_calls(text: str | None) -> int:
    """How many calls of each program to compare with the reference engine: OPENIPU_VERIFY, or --verify. Unset: none."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise OptionError(
            f"{VERIFY_VARIABLE} (`openipu run --verify=CALLS`) is {text!r}, but must be a whole number of calls, for "
            f"example {VERIFIED_CALLS}; 0 compares nothing."
        )
    return int(text)


def read_overrides() -> Overrides:
    """Those of this process."""
    return _current


def set_overrides(overrides: Overrides) -> Overrides:
    """Override from now on; the value before comes back."""
    global _current
    before, _current = _current, overrides
    return before

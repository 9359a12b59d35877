"""What the command line overrides in every program that a script compiles: an explicit value, free of torch.

`openipu run` sets it before the script starts, and must not import torch before the script does: scripts set
environment variables that torch reads once. `session` reads it where nobody gives it another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from openipu.machine import System


@dataclass(frozen=True, slots=True)
class Overrides:
    """None: as the front end, the environment and the defaults have it."""

    system: System | None = None
    engine: str | None = None  # "auto", "operators" or "kernels"
    profile_root: Path | None = None  # where every program's profile goes


_current = Overrides()


def read_overrides() -> Overrides:
    """Those of this process."""
    return _current


def set_overrides(overrides: Overrides) -> Overrides:
    """Override from now on; the value before comes back."""
    global _current
    before, _current = _current, overrides
    return before

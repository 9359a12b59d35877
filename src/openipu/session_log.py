"""What this process compiles, and what the command line wishes for it: free of torch.

`openipu run` sets the wishes before the script starts, and must not import torch before the script does: scripts set
environment variables that torch reads once. `session` fills the list.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from openipu.machine import System

if TYPE_CHECKING:
    from openipu.plan.types import Plan


@dataclass(frozen=True, eq=False)
class CompiledProgram:
    """What the log tells of a program. It holds no weights, so that a destroyed model is really gone."""

    name: str
    plan: Plan
    profile_directory: Path | None


@dataclass
class SessionLog:
    """What this process compiled, in order: the summary at the end of `openipu run` reads it."""

    compiled: list[CompiledProgram] = field(default_factory=list)
    profile_root: Path | None = None  # where every program's profile goes, if anywhere
    system: System | None = None  # overrides the default system
    tier: str | None = None  # overrides how programs are executed: "instant" or "compiled"


log = SessionLog()

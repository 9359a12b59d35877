"""Program x System x RunOptions -> Plan: tiles, BSP steps, memory, cycles, fit."""

from openipu.ops import StepKind
from openipu.plan.lowering.known import KnownProgram
from openipu.plan.planner import PASSES, plan_program
from openipu.plan.types import (
    Culprit,
    Fit,
    IpuMemory,
    MemoryCategory,
    Plan,
    PlannedOp,
    PlannedStep,
    StepCode,
    TileMapping,
    Timing,
    Variable,
    VariableKind,
)

__all__ = [
    "PASSES",
    "Culprit",
    "Fit",
    "IpuMemory",
    "KnownProgram",
    "MemoryCategory",
    "Plan",
    "PlannedOp",
    "PlannedStep",
    "StepCode",
    "StepKind",
    "TileMapping",
    "Timing",
    "Variable",
    "VariableKind",
    "plan_program",
]

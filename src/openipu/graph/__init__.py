"""The one IR and the options it is run with."""

from openipu.graph.optimizer import OptimizerGroup, OptimizerKind, OptimizerSpec
from openipu.graph.options import OutputMode, Reduction, RunOptions, Tier
from openipu.graph.program import (
    NOTE,
    Graph,
    GraphInput,
    GraphOutput,
    HyperParameter,
    InputKind,
    Note,
    OutputKind,
    OutputTree,
    Phase,
    Program,
    SourceLine,
    StateSlot,
    note_of,
)

__all__ = [
    "NOTE",
    "Graph",
    "GraphInput",
    "GraphOutput",
    "HyperParameter",
    "InputKind",
    "Note",
    "OptimizerGroup",
    "OptimizerKind",
    "OptimizerSpec",
    "OutputKind",
    "OutputMode",
    "OutputTree",
    "Phase",
    "Program",
    "Reduction",
    "RunOptions",
    "SourceLine",
    "StateSlot",
    "Tier",
    "note_of",
]

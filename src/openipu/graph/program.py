"""The one IR: a `Program` is static FX graphs of functional ATen ops, with a typed signature.

`micro`:  weights, buffers, constants, one micro-batch -> outputs, loss, gradients, new buffers.
`update`: weights, gradients, optimizer state, hyper-parameters -> new weights and state (training only).

Both graphs are functional (no op mutates its arguments), hold device-free nodes that run on the CPU, and carry on each
node `meta["val"]`, a meta tensor with shape and dtype, and `meta["note"]`, a `Note`: where the node is from.
A program holds no weights: it can be made from a model on the meta device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

NOTE = "note"  # key of a node's meta
OWNERLESS = ""  # `StateSlot.parameter` of state that all parameters share: a count of steps, a learning rate


class Phase(StrEnum):
    """Which part of a training step a node belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's own code."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


@dataclass(frozen=True, slots=True)
class Note:
    """Where a node is from. A backward node has the module, block and line of the forward op that it differentiates."""

    phase: Phase = Phase.FORWARD
    module: str = ""  # "encoder.layer.0.attention"
    line: SourceLine | None = None
    block: str | None = None  # the user's block, for stages
    ipu: int = 0
    stage: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)  # what markers said, e.g. available memory


class InputKind(StrEnum):
    """What a graph's placeholder is."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"  # a tensor of the trace itself, in Program.constants
    INPUT = "input"  # one micro-batch of a user's input
    GRADIENT = "gradient"  # update only
    STATE = "state"  # update only: optimizer state of one parameter
    SEED = "seed"  # run only: the random seed of one micro-batch, int32
    DELAYED = "delayed"  # run only: a parameter as it was `index` updates ago
    HYPER = "hyper"  # a 0-dim tensor such as "lr.0"; in micro only "loss_scaling"


class OutputKind(StrEnum):
    """What a graph returns."""

    OUTPUT = "output"  # leaf `index` of the flattened return value of forward
    LOSS = "loss"
    GRADIENT = "gradient"  # of parameter `name`
    BUFFER = "buffer"  # new value of buffer `name`
    INPUT = "input"  # new value of input `name`, which forward changed in place
    PARAMETER = "parameter"  # update, or forward changed it in place: new value
    CARRIED = "carried"  # micro: new value of parameter `name`, written once all micro-batches of an update are over
    STATE = "state"  # update: new value
    TAP = "tap"  # run only: a tensor inside the graph that is read back
    STATISTIC = "statistic"  # run only: what automatic loss scaling counts in one micro-batch


WRITES_PARAMETER = frozenset({OutputKind.PARAMETER, OutputKind.CARRIED})


@dataclass(frozen=True, slots=True)
class GraphInput:
    """One placeholder: in the graph's order."""

    node: str  # the placeholder's name
    kind: InputKind
    name: str  # fully qualified for parameters and buffers; HyperParameter.key; StateSlot.key
    shape: tuple[int, ...]
    dtype: torch.dtype
    index: int = -1  # INPUT: leaf of the flattened (args, kwargs)

    @property
    def shape_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class GraphOutput:
    """One returned tensor: in the graph's order."""

    kind: OutputKind
    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    index: int = -1  # OUTPUT: leaf of the flattened return value


@dataclass(frozen=True, eq=False)
class Graph:
    """An FX graph with a typed signature. Treat the module as frozen: passes make new ones."""

    module: fx.GraphModule
    inputs: tuple[GraphInput, ...]
    outputs: tuple[GraphOutput, ...]

    def inputs_of(self, kind: InputKind) -> tuple[GraphInput, ...]:
        return tuple(entry for entry in self.inputs if entry.kind is kind)

    def outputs_of(self, kind: OutputKind) -> tuple[GraphOutput, ...]:
        return tuple(entry for entry in self.outputs if entry.kind is kind)


@dataclass(frozen=True, slots=True)
class HyperParameter:
    """One scalar of the optimizer that may change without recompiling: an input of `update`, a loss scale of both."""

    name: str  # "lr"
    group: int  # -1: one for all groups

    @property
    def key(self) -> str:
        return self.name if self.group < 0 else f"{self.name}.{self.group}"


@dataclass(frozen=True, slots=True)
class StateSlot:
    """One tensor of optimizer state, e.g. the momentum of one parameter."""

    name: str  # "exp_avg"
    parameter: str  # or OWNERLESS
    shape: tuple[int, ...]
    dtype: torch.dtype
    initial: float = 0.0

    @property
    def key(self) -> str:
        return f"{self.name}:{self.parameter}"

    @property
    def shape_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, eq=False)
class OutputTree:
    """How to rebuild what `forward` returned: a tree with tensors at `device` leaves and host values elsewhere."""

    spec: pytree.TreeSpec
    host_leaves: Mapping[int, Any]  # leaves that are not IPU tensors: returned as they were

    @property
    def leaves(self) -> int:
        return int(self.spec.num_leaves)


@dataclass(frozen=True, eq=False)
class Program:
    """One captured IPU program."""

    name: str
    micro: Graph
    update: Graph | None
    constants: Mapping[str, torch.Tensor]  # by GraphInput.name
    output_tree: OutputTree
    hyper_parameters: tuple[HyperParameter, ...] = ()
    state_slots: tuple[StateSlot, ...] = ()
    unused_parameters: tuple[str, ...] = ()  # no gradient reaches them
    warnings: tuple[str, ...] = ()  # what the user should know about the trace

    @property
    def training(self) -> bool:
        return self.update is not None


def note_of(node: fx.Node) -> Note:
    """The note of a node, or an empty one."""
    note = node.meta.get(NOTE)
    return note if isinstance(note, Note) else Note()

"""Functions of micro-batches, bound to the device: where arguments come from, and where results go.

In: an engine, its program and the memory of its replicas. Out: `Bindings`, which stay as long as the engine does: what
is the same tensor in every call is looked up once. What comes anew with each micro-batch has a number: an input that of
its leaf, the seed `SEED`, weights of earlier updates numbers below that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from openipu.graph import GraphInput, InputKind, OutputKind, Program
from openipu.run.engine.engine import Engine
from openipu.run.engine.micro import MicroFunction
from openipu.run.engine.replica_sets import ReplicaSets
from openipu.run.memory.device_memory import DeviceMemory

SEED = -1

Values = Sequence[torch.Tensor]


class BoundFunction:
    """The function of one replica."""

    def __init__(self, function: MicroFunction, program: Program, memory: DeviceMemory, replica: int) -> None:
        self.call = function.call
        self.entries = function.arguments
        self.memory, self.replica = memory, replica
        self.delayed: dict[int, tuple[str, int]] = {}  # number -> a parameter, and how many updates ago
        self._arguments = [self._find_source(entry) for entry in function.arguments]
        places = list(enumerate(function.results))
        leaf_of = {entry.name: entry.index for entry in program.micro.inputs_of(InputKind.INPUT)}
        self.outputs = [(index, entry) for index, entry in places if entry.kind is OutputKind.OUTPUT]
        whole = {entry.index: entry for entry in program.micro.outputs_of(OutputKind.OUTPUT)}
        self.scalar = [not whole[entry.index].shape for _, entry in self.outputs]  # in one micro-batch
        self.changed = [(index, leaf_of[entry.name]) for index, entry in places if entry.kind is OutputKind.INPUT]
        self.statistics = [index for index, entry in places if entry.kind is OutputKind.STATISTIC]
        self.tapped = [(index, entry.name) for index, entry in places if entry.kind is OutputKind.TAP]
        held = {OutputKind.BUFFER: memory.buffers[replica], OutputKind.PARAMETER: memory.parameters}
        self.written = [index for index, entry in places if entry.kind in held]
        self._targets = [held[entry.kind][entry.name] for entry in function.results if entry.kind in held]
        self.carried = [
            (memory.parameters[entry.name], index) for index, entry in places if entry.kind is OutputKind.CARRIED
        ]

    def list_arguments(self, given: Mapping[int, torch.Tensor]) -> list[torch.Tensor]:
        """All arguments, with what a micro-batch gives by number."""
        return [given[number] if held is None else held for number, held in self._arguments]

    def write_back(self, values: Values) -> None:
        """After each call: the buffers and parameters that forward writes to."""
        torch._foreach_copy_(self._targets, [values[index] for index in self.written])

    def write_carried(self, values: Values) -> None:
        """After an update: what its last micro-batch found for parameters that the optimizer does not touch."""
        for held, index in self.carried:
            held.copy_(values[index])

    def _find_source(self, entry: GraphInput) -> tuple[int, torch.Tensor | None]:
        if entry.kind is InputKind.INPUT:
            return entry.index, None
        if entry.kind is InputKind.SEED:
            return SEED, None
        if entry.kind is InputKind.DELAYED:
            number = SEED - 1 - len(self.delayed)
            self.delayed[number] = entry.name, entry.index
            return number, None
        return SEED, self.memory.buffers[self.replica][entry.name]


class Bindings:
    """The functions of an engine, by replica."""

    def __init__(self, engine: Engine, program: Program, sets: ReplicaSets) -> None:
        self.engine = engine
        function = engine.function_of(0)  # the functions of all replicas have the same arguments and results
        self.random = function.random
        self.seeded = any(entry.kind is InputKind.SEED for entry in function.arguments)
        self.functions = [
            BoundFunction(engine.function_of(replica), program, sets[replica].memory, replica)
            for replica in range(len(sets.of_replica))
        ]

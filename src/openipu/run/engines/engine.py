"""The two ways to execute a program's step on the same device memory.

In: a program, its lanes, options, how many micro-batches are folded into one call. Out: an `Engine`: one function for a
call's worth of micro-batches, and what goes before the first and after the last one of an update. The executable may
exchange its engine between two runs; weights and state stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch

from openipu.graph import EngineMode, OutputKind, Program, RunOptions
from openipu.run.drafts.draft import Draft
from openipu.run.engines.micro import MicroFunction
from openipu.run.engines.step_graph import draft_accumulation, draft_step, draft_update
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.memory.lanes import Lanes
from openipu.run.native import NativeFunction
from openipu.run.passes.float_exceptions import UpdateWatch
from openipu.run.update.rules import UpdatePlan


class Engine(Protocol):
    """Runs the micro-batches of one update, then the update."""

    mode: EngineMode
    fold: int  # micro-batches in one call

    def function_of(self, replica: int) -> MicroFunction:
        """What runs one call for a replica; with folding, for all of them."""
        ...

    def begin(self) -> None:
        """Before the first micro-batch of an update."""
        ...

    def take_gradients(self, replica: int, values: Sequence[torch.Tensor]) -> None:
        """After each call: what the function returned as gradients, if it did."""
        ...

    def list_gradients(self) -> Mapping[str, torch.Tensor]:
        """What an update has accumulated, for the other instances to add theirs; a lane's number follows the name."""
        ...

    def finish(self) -> None:
        """After the last micro-batch of an update."""
        ...


class InstantEngine:
    """Generated Python over PyTorch's operators, with the updater's buckets. Its tier is the compiled one where native
    functions of our own stand in the place of the operators that take most of the time."""

    def __init__(
        self,
        program: Program,
        lanes: Lanes,
        options: RunOptions,
        plan: UpdatePlan | None,
        make_draft: Callable[[], Draft],
        fold: int,
        mode: EngineMode = EngineMode.OPERATORS,
    ) -> None:
        self.mode, self.fold = mode, fold
        self._lanes = lanes
        # Gradients that go to other instances first must be kept, too.
        self._accumulates = options.gradient_accumulation * options.replicas > fold or options.instances > 1
        for lane in lanes.lanes:
            lane.build_updater(plan, program, self._accumulates)
            lane.bind(make_draft(), program, options, self._accumulates)
        self._updaters = [lane.updater for lane in lanes.lanes if lane.updater is not None]
        function = lanes.first.function
        assert function is not None
        self._returned = [
            (entry.name, index) for index, entry in enumerate(function.results) if entry.kind is OutputKind.GRADIENT
        ]
        self._gradients: dict[str, torch.Tensor] = {}
        watched = [lane.memory for lane in lanes.lanes if plan is not None and options.floating_point_exceptions]
        self._watches = [UpdateWatch(memory.parameters, memory.state) for memory in watched]

    def function_of(self, replica: int) -> MicroFunction:
        function = self._lanes[replica].function
        assert function is not None
        return function

    def begin(self) -> None:
        for watch in self._watches:
            watch.begin()
        for updater in self._updaters:
            updater.begin()

    def take_gradients(self, replica: int, values: Sequence[torch.Tensor]) -> None:
        if self._returned:  # only where the update waits for all gradients, and nothing accumulates
            self._gradients = {name: values[index] for name, index in self._returned}

    def list_gradients(self) -> Mapping[str, torch.Tensor]:
        return {
            name if number == 0 else f"{name}:{number}": tensor
            for number, updater in enumerate(self._updaters)
            for name, tensor in updater.accumulators.items()
        }

    def finish(self) -> None:
        if not self._updaters:
            return
        self._lanes.reduce_gradients()
        for updater in self._updaters:
            updater.finish(updater.accumulators if self._accumulates else self._gradients)
        self._gradients = {}
        for watch in self._watches:
            watch.finish()


class CompiledEngine:
    """Native code for the whole step; or for one call of several, with accumulators, and for the update."""

    mode = EngineMode.KERNELS

    def __init__(self, functions: Sequence[NativeFunction], memory: DeviceMemory, fold: int) -> None:
        self.fold = fold
        gradients = {
            entry.name: torch.zeros(entry.shape, dtype=entry.dtype)
            for function in functions[1:]
            for entry in function.gradients
        }
        self._gradients = gradients
        self._accumulators = list(gradients.values())
        self._function = functions[0].bind(memory, gradients)
        self._update = functions[1].bind(memory, gradients) if len(functions) > 1 else None

    def function_of(self, replica: int) -> MicroFunction:
        return self._function

    def begin(self) -> None:
        if self._accumulators:
            torch._foreach_zero_(self._accumulators)

    def take_gradients(self, replica: int, values: Sequence[torch.Tensor]) -> None:
        pass  # they never leave the graph

    def list_gradients(self) -> Mapping[str, torch.Tensor]:
        return self._gradients

    def finish(self) -> None:
        if self._update is not None:
            self._update.call()


def draft_units(program: Program, options: RunOptions, micro: Draft, scale: float, calls: int) -> list[Draft]:
    """The graphs that a compiled engine needs, for so many calls an update."""
    if program.update is None:
        return [micro]
    if calls == 1:
        return [draft_step(program, options, micro, scale)]
    return [draft_accumulation(micro, scale), draft_update(program, options)]

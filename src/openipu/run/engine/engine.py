"""How a program's step is executed on device memory.

In: a program, its sets of replicas, options, how many micro-batches one call takes. Out: an `Engine`: one function for
so many micro-batches, and what goes before the first and after the last one of an update. The executable may
exchange its engine between two runs; weights and state stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch

from openipu.graph import OutputKind, Program, RunOptions
from openipu.run.drafts.draft import Draft
from openipu.run.engine.micro import MicroFunction
from openipu.run.engine.replica_sets import ReplicaSets
from openipu.run.kernels import KernelLibrary
from openipu.run.rewrites.semantics.float_exceptions import UpdateWatch
from openipu.run.update.rules import UpdatePlan


class Engine(Protocol):
    """Runs the micro-batches of one update, then the update."""

    factor: int  # micro-batches in one call

    def function_of(self, replica: int) -> MicroFunction:
        """What runs one call for a replica; with several, for all of them."""
        ...

    def begin(self) -> None:
        """Before the first micro-batch of an update."""
        ...

    def take_gradients(self, replica: int, values: Sequence[torch.Tensor]) -> None:
        """After each call: what the function returned as gradients, if it did."""
        ...

    def list_gradients(self) -> Mapping[str, torch.Tensor]:
        """What an update has accumulated, for the other instances to add theirs; a set's number
        follows the name."""
        ...

    def finish(self) -> None:
        """After the last micro-batch of an update."""
        ...


class FastEngine:
    """Generated Python over PyTorch's operators and C++ kernels, with the updater's buckets."""

    def __init__(
        self,
        program: Program,
        sets: ReplicaSets,
        options: RunOptions,
        plan: UpdatePlan | None,
        make_draft: Callable[[], Draft],
        factor: int,
        library: KernelLibrary,
    ) -> None:
        self.factor = factor
        self._sets = sets
        # Gradients that go to other instances first must be kept, too.
        self._accumulates = options.gradient_accumulation * options.replicas > factor or options.instances > 1
        for replica_set in sets.sets:
            replica_set.build_updater(plan, program, self._accumulates, library)
            replica_set.bind(make_draft(), program, options, self._accumulates, library)
        self._updaters = [replica_set.updater for replica_set in sets.sets if replica_set.updater is not None]
        function = sets.first.function
        assert function is not None
        self._returned = [
            (entry.name, index) for index, entry in enumerate(function.results) if entry.kind is OutputKind.GRADIENT
        ]
        self._gradients: dict[str, torch.Tensor] = {}
        watched = [
            replica_set.memory for replica_set in sets.sets if plan is not None and options.floating_point_exceptions
        ]
        self._watches = [UpdateWatch(memory.parameters, memory.state) for memory in watched]

    def function_of(self, replica: int) -> MicroFunction:
        function = self._sets[replica].function
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
        self._sets.reduce_gradients([updater.accumulators for updater in self._updaters])
        for updater in self._updaters:
            updater.finish(updater.accumulators if self._accumulates else self._gradients)
        self._gradients = {}
        for watch in self._watches:
            watch.finish()

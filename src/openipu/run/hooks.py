"""What only some programs do in a call: taps, automatic loss scaling, late weights, rounded updates.

In: a program with its options, memory and random stream. Out: a `Hook` for each of these that the program has, made
anew for each call; the loop over micro-batches calls it at fixed points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from openipu.graph import Program, RunOptions
from openipu.run.bindings import BoundFunction, Values
from openipu.run.engine.replica_sets import ReplicaSets
from openipu.run.membership import Membership
from openipu.run.memory.weight_history import WeightHistory
from openipu.run.random_stream import RandomStream
from openipu.run.rewrites.semantics.loss_scale import LOSS_SCALING, LossScale
from openipu.run.taps import STATE, UPDATED, TapCollector
from openipu.run.update.rounded_rules import rounds_update


class Hook:
    """Does nothing. Iterations are those of the call, steps those of accumulation."""

    def begin_update(self, iteration: int) -> None:
        """Before the first micro-batch of an update."""

    def add_inputs(self, bound: BoundFunction, given: dict[int, torch.Tensor]) -> None:
        """Before a function is called: add to its arguments, by the numbers of its binding."""

    def take(self, bound: BoundFunction, values: Values, iteration: int, step: int) -> None:
        """After a function was called."""

    def finish_update(self, iteration: int) -> None:
        """After an update."""

    def combine_taps(self) -> Mapping[str, torch.Tensor]:
        """After the last update of the call: what goes into its result."""
        return {}


MakeHook = Callable[[Sequence[BoundFunction]], Hook]  # for one call of the bound functions


def list_hooks(
    program: Program,
    options: RunOptions,
    sets: ReplicaSets,
    stream: RandomStream,
    membership: Membership,
    loss_scale: LossScale | None,
) -> list[MakeHook]:
    """What makes the hooks of a call, in the order in which they are called."""
    found: list[MakeHook] = []
    if rounds_update(program, options):
        found.append(lambda functions: RoundedUpdates(sets, membership.draw_update_seeds(stream)))
    if loss_scale is not None:
        scale = loss_scale
        found.append(lambda functions: LossScaling(scale, sets, membership))
    if options.continuous:
        found.append(LateWeights)
    if options.taps:
        found.append(lambda functions: Taps(options, sets))
    return found


class RoundedUpdates(Hook):
    """Gives each update the seed of its stochastic rounding."""

    def __init__(self, sets: ReplicaSets, seeds: Sequence[int]) -> None:
        self._sets, self._seeds = sets, seeds

    def begin_update(self, iteration: int) -> None:
        """All replicas round an update alike, so that their weights stay the same."""
        for replica_set in self._sets.sets:
            replica_set.memory.update_seed.fill_(self._seeds[iteration])


class LossScaling(Hook):
    """Lets the loss scale follow the half gradients."""

    def __init__(self, loss_scale: LossScale, sets: ReplicaSets, membership: Membership) -> None:
        self._loss_scale, self._sets, self._membership = loss_scale, sets, membership
        loss_scale.begin()

    def take(self, bound: BoundFunction, values: Values, iteration: int, step: int) -> None:
        for index in bound.statistics:
            self._loss_scale.add(values[index])

    def finish_update(self, iteration: int) -> None:
        if self._membership.group is not None:
            self._loss_scale.gather(self._membership.group)
        if self._loss_scale.finish_update():
            for replica_set in self._sets.sets:
                replica_set.memory.hyper[LOSS_SCALING].fill_(self._loss_scale.value)


class LateWeights(Hook):
    """Keeps the weights that stages of a continuous pipeline read late."""

    def __init__(self, functions: Sequence[BoundFunction]) -> None:
        by_memory = {bound.memory: bound for bound in functions}
        self._histories = {
            memory: WeightHistory(memory.parameters, bound.entries) for memory, bound in by_memory.items()
        }
        for history in self._histories.values():
            history.begin()

    def add_inputs(self, bound: BoundFunction, given: dict[int, torch.Tensor]) -> None:
        for number, (name, delay) in bound.delayed.items():
            given[number] = self._histories[bound.memory].read(name, delay)

    def finish_update(self, iteration: int) -> None:
        for history in self._histories.values():
            history.keep()


class Taps(Hook):
    """Collects tensors inside the program, new weights and optimizer state."""

    def __init__(self, options: RunOptions, sets: ReplicaSets) -> None:
        self._options, self._sets = options, sets
        self._collector = TapCollector(options)

    def take(self, bound: BoundFunction, values: Values, iteration: int, step: int) -> None:
        for index, tensor in bound.tapped:
            self._collector.add(tensor, values[index], iteration, step, bound.replica)
        if self._options.gradient_accumulation > 1:  # an update comes after the last micro-batch, and is not yet seen
            self._take_state(iteration, step, bound.replica)

    def finish_update(self, iteration: int) -> None:
        steps, replicas = self._options.gradient_accumulation, range(self._options.replicas)
        for name in self._collector.updated_parameters:
            for replica in replicas:
                value = self._sets[replica].memory.parameters[name].clone()
                self._collector.add(UPDATED + name, value, iteration, steps - 1, replica)
        if steps == 1:
            for replica in replicas:
                self._take_state(iteration, 0, replica)

    def combine_taps(self) -> Mapping[str, torch.Tensor]:
        return self._collector.combine()

    def _take_state(self, iteration: int, step: int, replica: int) -> None:
        for name in self._collector.states:
            value = self._sets[replica].memory.state[name.removeprefix(STATE)].clone()
            self._collector.add(name, value, iteration, step, replica)

"""Runs prepared levels: stages on the engine, loops around them.

In: values by tensor name, for each replica. Out: values of a level's outputs. A loop whose body is one stage is one
program of so many device iterations; others go round on the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from openipu.graph import Reduction
from openipu_tensorflow.ipu.clusters.collectives import CollectiveItem
from openipu_tensorflow.ipu.clusters.preparing import Prepared, Stage
from openipu_tensorflow.ipu.clusters.providers import Runner
from openipu_tensorflow.ipu.clusters.tracing import Enqueue, LoopItem
from openipu_tensorflow.ipu.clusters.updates import UpdateItem
from openipu_tensorflow.ipu.configuration.devices import IpuDevice

Values = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Where a run takes place."""

    session: Any
    run: Runner  # TensorFlow's own
    device: IpuDevice
    replicas: int = 1


@dataclass(eq=False)
class Round:
    """Where a loop is: what has been added up since the last update."""

    number: int = 0
    length: int = 1  # rounds of an update
    gradients: list[Any] | None = None
    sums: dict[int, list[Any]] | None = None  # of enqueues that add up


class LevelRunner:
    """One run of a compiled computation."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    def run(self, prepared: Prepared, known: Sequence[Mapping[str, Any]], turn: Round) -> list[list[Any]]:
        """One round of a level, on all replicas in step; its outputs for each replica."""
        values: list[Values] = [dict(entry) for entry in known]
        for queue, made in prepared.level.infeeds:
            taken = queue.take(self._around.session, self._around.run, len(values))
            for replica, own in enumerate(values):
                own.update((tensor.name, value[replica]) for tensor, value in zip(made, taken, strict=True))
        for number, stage in enumerate(prepared.stages):
            self._run_stage(stage, values, turn)
            if number < len(prepared.items):
                self._run_item(prepared, prepared.items[number], values, turn)
        return [[own[tensor.name] for tensor in prepared.level.outputs] for own in values]

    def _run_stage(self, stage: Stage, values: list[Values], turn: Round) -> None:
        if not stage.ops:
            return
        for own in values:
            feeds = {tensor: own[tensor.name] for tensor in stage.inputs}
            found = self._around.run([stage.outputs, stage.targets], feeds)[0]
            own.update((tensor.name, value) for tensor, value in zip(stage.outputs, found, strict=True))
        for entry in stage.enqueues:
            self._enqueue(entry, values, turn)

    def _enqueue(self, entry: Enqueue, values: list[Values], turn: Round) -> None:
        each = [numpy.stack([numpy.asarray(own[tensor.name]) for own in values]) for tensor in entry.tensors]
        if len(values) == 1:
            each = [value[0] for value in each]
        if entry.accumulates:
            sums = turn.sums = turn.sums or {}
            held = sums.get(id(entry))
            sums[id(entry)] = each if held is None else [a + b for a, b in zip(held, each, strict=True)]
            if (turn.number + 1) % turn.length:
                return
            each = sums.pop(id(entry))
        entry.queue.put([value[None] for value in each], len(values))

    def _run_item(self, prepared: Prepared, item: Any, values: list[Values], turn: Round) -> None:
        if isinstance(item, CollectiveItem):
            given = item.exchange([numpy.asarray(own[item.initial[0].name]) for own in values])
            for own, value in zip(values, given, strict=True):
                own[item.results[0].name] = value
        elif isinstance(item, UpdateItem):
            self._update(prepared.inner[id(item)][0], item, values, turn)
        else:
            self._loop(prepared, item, values)

    def _loop(self, prepared: Prepared, item: LoopItem, values: list[Values]) -> None:
        body, *condition = prepared.inner[id(item)]
        carried = [[own[tensor.name] for tensor in item.initial] for own in values]
        count = int(values[0][item.count.name]) if hasattr(item.count, "name") else item.count
        turn = Round(length=find_length(body, item, count))
        limit = count * item.repeats if count is not None else item.limit
        check_rounds(limit, turn.length)
        while limit is None or turn.number < limit:
            if condition:
                known = _name(condition[0], carried, values)
                if not self.run(condition[0], known, Round())[0][0]:
                    break
            carried = self.run(body, _name(body, carried, values), turn)
            turn.number += 1
        for own, left in zip(values, carried, strict=True):
            own.update((tensor.name, value) for tensor, value in zip(item.results, left, strict=True))

    def _update(self, update: Prepared, item: UpdateItem, values: list[Values], turn: Round) -> None:
        options = item.options
        gradients = [
            reduce_replicas([own[tensor.name] for own in values], options.replica_reduction) for tensor in item.initial
        ]
        turn.gradients = accumulate(turn, gradients, options.reduction)
        if (turn.number + 1) % turn.length:
            return
        known = {tensor.name: value for tensor, value in zip(update.level.arguments, turn.gradients, strict=True)}
        turn.gradients = None
        self.run(update, [{**values[0], **known}], Round())


def reduce_replicas(values: list[Any], reduction: Reduction | None) -> Any:
    """One gradient of the replicas' own."""
    if len(values) == 1:
        return values[0]
    if reduction is None:
        raise NotImplementedError(
            f"The program has {len(values)} replicas, and its gradients are not reduced over them: each replica would "
            "have variables of its own, which does not run here. Use ipu.optimizers.CrossReplicaOptimizer around the "
            "optimizer, or as many shards as IPUs."
        )
    total = numpy.sum(values, axis=0, dtype=values[0].dtype)
    return total if reduction is Reduction.SUM else (total / len(values)).astype(total.dtype)


def accumulate(turn: Round, gradients: list[Any], reduction: Reduction) -> list[Any]:
    """What has been added up, this round included."""
    done = turn.number % turn.length
    if reduction is Reduction.MEAN:
        gradients = [(value / turn.length).astype(value.dtype) for value in gradients]
    if turn.gradients is None:
        return gradients
    if reduction is Reduction.RUNNING_MEAN:
        return [
            (held * (done / (done + 1)) + value / (done + 1)).astype(value.dtype)
            for held, value in zip(turn.gradients, gradients, strict=True)
        ]
    return [held + value for held, value in zip(turn.gradients, gradients, strict=True)]


def find_length(body: Prepared, item: LoopItem, count: int | None) -> int:
    """How many rounds of a loop belong to one update."""
    if "pipeline" in body.level.marks:
        return count or 1
    lengths = [entry.options.accumulation for entry in body.items if isinstance(entry, UpdateItem)]
    return max(lengths, default=1)


def check_rounds(rounds: int | None, length: int) -> None:
    """Raise where a loop ends between two updates."""
    if rounds is not None and rounds % length:
        from tensorflow.python.framework import errors

        raise errors.FailedPreconditionError(
            None,
            None,
            f"The loop runs {rounds} rounds, and gradients of {length} rounds become one update: the number of rounds "
            f"must be a multiple of {length}.",
        )


def _name(level: Prepared, carried: list[list[Any]], values: list[Values]) -> list[Values]:
    names = [tensor.name for tensor in level.level.arguments]
    return [{**own, **dict(zip(names, left, strict=True))} for own, left in zip(values, carried, strict=True)]

"""Runs prepared levels: stages and plain loops as programs of the engine, other loops around them.

In: values by tensor name, for each replica. Out: values of a level's outputs. A loop whose body is plain (ops, then
perhaps an update of variables) is one program of so many device iterations; others go round on the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from openipu.graph import Reduction
from openipu_tensorflow.ipu.clusters.counting import take_rounds
from openipu_tensorflow.ipu.clusters.loops import applies_updates, find_length, is_plain, run_plain_loop
from openipu_tensorflow.ipu.clusters.preparing import Prepared, Stage
from openipu_tensorflow.ipu.clusters.programs import Part, Surroundings, arrange, run_part
from openipu_tensorflow.ipu.clusters.tracing import Enqueue, LoopItem
from openipu_tensorflow.ipu.clusters.updates import UpdateItem, reduce_replicas
from openipu_tensorflow.ipu.configuration.run_options import count_instances

Values = dict[str, Any]
_TRIVIAL = ("Const", "Identity", "NoOp", "VarHandleOp")


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
            taken = take_rounds(self._around, queue, 1)
            for replica, own in enumerate(values):
                own.update((tensor.name, value[replica]) for tensor, value in zip(made, taken, strict=True))
        for number, stage in enumerate(prepared.stages):
            self._run_stage(prepared, stage, values, turn)
            if number < len(prepared.items):
                self._run_item(prepared, prepared.items[number], values, turn)
        return [[own[tensor.name] for tensor in prepared.level.outputs] for own in values]

    def _run_stage(self, prepared: Prepared, stage: Stage, values: list[Values], turn: Round) -> None:
        if not stage.ops:
            return
        if all(op.type in _TRIVIAL for op in stage.ops):
            for own in values:
                _evaluate(stage, own)
        elif stage.outputs or stage.targets:
            if stage.runner is None:
                stage.runner = Part(
                    graph=prepared.graph, inputs=stage.inputs, outputs=stage.outputs, targets=stage.targets
                )
            stage.runner.cuts = len(values) == 1 or not applies_updates(stage.ops)
            feeds = [numpy.stack([numpy.asarray(own[tensor.name]) for own in values]) for tensor in stage.inputs]
            how = arrange(replicas=len(values), seed=self._around.seed)
            found = run_part(stage.runner, self._around, how, feeds)
            for replica, own in enumerate(values):
                own.update((tensor.name, value[replica]) for tensor, value in zip(stage.outputs, found, strict=True))
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
        if isinstance(item, UpdateItem):
            self._update(prepared.inner[id(item)][0], item, values, turn)
        else:
            self._loop(prepared, item, values)

    def _gather(self, values: list[Any]) -> list[Any]:
        """Values of the replicas of all instances."""
        if count_instances(self._around.device.config) == 1:
            return values
        from openipu_tensorflow.ipu.distributed.exchange import find_exchange

        return [value for own in find_exchange().gather("replicas", numpy.stack(values)) for value in own]

    def _loop(self, prepared: Prepared, item: LoopItem, values: list[Values]) -> None:
        body, *condition = prepared.inner[id(item)]
        carried = [[own[tensor.name] for tensor in item.initial] for own in values]
        count = int(values[0][item.count.name]) if hasattr(item.count, "name") else item.count
        turn = Round(length=find_length(body, count))
        limit = count * item.repeats if count is not None else item.limit
        check_rounds(limit, turn.length, item.stages)
        if limit is not None and not condition and is_plain(body, carried, values):
            carried = run_plain_loop(self._around, body, limit, turn.length, carried, values)
        else:
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
        gradients = []
        for tensor in item.initial:
            each = [own[tensor.name] for own in values]
            if options.replica_reduction is not None:
                each = self._gather(each)
            gradients.append(reduce_replicas(each, options.replica_reduction))
        turn.gradients = accumulate(turn, gradients, options.reduction)
        if (turn.number + 1) % turn.length:
            return
        known = {tensor.name: value for tensor, value in zip(update.level.arguments, turn.gradients, strict=True)}
        turn.gradients = None
        self.run(update, [{**values[0], **known}], Round())


def _evaluate(stage: Stage, own: Values) -> None:
    """Ops that only hand on what is known need no program."""
    from tensorflow.python.framework import tensor_util

    for op in stage.ops:
        if op.type == "Const":
            own[op.outputs[0].name] = tensor_util.MakeNdarray(op.get_attr("value"))
        elif op.type == "Identity":
            own[op.outputs[0].name] = own[op.inputs[0].name]


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


def check_rounds(rounds: int | None, length: int, stages: int) -> None:
    """Raise where a loop ends between two updates, or a pipeline with stages that have nothing to do."""
    from tensorflow.python.framework import errors

    if stages and length % stages:
        raise errors.FailedPreconditionError(
            None,
            None,
            f"The number of iterations of the pipeline must be a multiple of {stages}, but it is {length}: it is the "
            "gradient_accumulation_count.",
        )
    if rounds is not None and rounds % length:
        raise errors.FailedPreconditionError(
            None,
            None,
            f"Detected a gradient accumulation operation with {length} micro-batches in a loop of {rounds} rounds: the "
            f"number of rounds must be a multiple of {length}.",
        )


def _name(level: Prepared, carried: list[list[Any]], values: list[Values]) -> list[Values]:
    names = [tensor.name for tensor in level.level.arguments]
    return [{**own, **dict(zip(names, left, strict=True))} for own, left in zip(values, carried, strict=True)]

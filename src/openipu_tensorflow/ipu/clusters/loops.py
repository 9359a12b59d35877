"""A loop whose body is plain, as one program.

In: a prepared body (ops, then perhaps one update of variables), the number of rounds. Out: what the loop carries after
the last round; outfeeds hold what was enqueued. Long loops go to the engine in equal parts, so that their data fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from openipu.graph import Reduction
from openipu_tensorflow.engine.describing import name_variables
from openipu_tensorflow.ipu.clusters.counting import take_rounds
from openipu_tensorflow.ipu.clusters.preparing import Prepared
from openipu_tensorflow.ipu.clusters.programs import LARGEST_RUN_BYTES, Part, Surroundings, arrange, run_part
from openipu_tensorflow.ipu.clusters.updates import UpdateItem, reduce_replicas


def find_length(body: Prepared, count: int | None) -> int:
    """How many rounds of a loop belong to one update."""
    if "pipeline" in body.level.marks:
        return count or 1
    return max((entry.options.accumulation for entry in body.items if isinstance(entry, UpdateItem)), default=1)


def is_plain(body: Prepared, carried: Sequence[Sequence[Any]], values: Sequence[Mapping[str, Any]]) -> bool:
    """Can the loop be one program? What does not change in it then is the same for all replicas."""
    if len(values) > 1:
        pairs = enumerate(zip(body.level.arguments, body.level.outputs, strict=True))
        constant = [[own[place] for own in carried] for place, (entry, left) in pairs if entry is left]
        constant += [[own[tensor.name] for own in values] for tensor in _list_fixed(body)]
        if not all(numpy.array_equal(first, other) for first, *rest in constant for other in rest):
            return False
    updates = [item for item in body.items if isinstance(item, UpdateItem)]
    if len(updates) != len(body.items) or len(updates) > 1:
        return False
    update = body.inner[id(updates[0])][0] if updates else None
    if update is not None and (update.items or any(stage.enqueues for stage in update.stages)):
        return False
    return not any(stage.ops for stage in body.stages[1:])


def run_plain_loop(
    around: Surroundings,
    body: Prepared,
    rounds: int,
    length: int,
    carried: list[list[Any]],
    values: Sequence[Mapping[str, Any]],
) -> list[list[Any]]:
    """All rounds of a loop."""
    if rounds == 0:
        return carried
    part = _find_part(body)
    update = next((item for item in body.items if isinstance(item, UpdateItem)), None)
    replicas = len(carried)
    own_variables = replicas > 1 and _updates_own(body, update, length)
    part.cuts = not own_variables
    names = [tensor.name for tensor in body.level.arguments]
    held = {name: [own[place] for own in carried] for place, name in enumerate(names)}
    known = {**values[0], **{name: own[0] for name, own in held.items()}}
    fixed = [numpy.asarray(known[entry.name]) for entry in part.fixed]
    moving = [_join_replicas(held[entry.name]) for entry, _ in part.carried]
    for queue in _list_queues(body):
        queue.begin()
    try:
        step = choose_part(rounds // length, part.bytes_per_round * length * replicas)
        how = arrange(
            rounds=step,
            accumulation=length if update is not None else 1,
            replicas=replicas,
            training=update is not None and not own_variables,
            reduction=update.options.reduction if update is not None else Reduction.SUM,
            replica_reduction=update.options.replica_reduction if update is not None else None,
            pipeline=body.level.marks.get("pipeline"),
            seed=around.seed,
            offload_state=update is not None and update.options.offload_state,
            shard_state=update is not None and update.options.shard_state,
        )
        if update is None and length > 1:  # a pipeline without training: micro-batches are rounds
            how = arrange(
                rounds=step * length, replicas=replicas, pipeline=body.level.marks.get("pipeline"), seed=around.seed
            )
        for _ in range(rounds // length // step):
            feeds = _take(around, body, step * length)
            found = run_part(part, around, how, feeds, moving, fixed)
            moving = found[len(part.outputs) :]
            _put(body, found[: len(part.outputs)], length, replicas)
    finally:
        for queue in _list_queues(body):
            queue.finish()
    for (entry, _), value in zip(part.carried, moving, strict=True):
        held[entry.name] = [value] if replicas == 1 else list(value)
    return [[held[name][replica] for name in names] for replica in range(replicas)]


def _join_replicas(values: Sequence[Any]) -> Any:
    return numpy.asarray(values[0]) if len(values) == 1 else numpy.stack([numpy.asarray(value) for value in values])


def choose_part(updates: int, size: int) -> int:
    """How many updates go to the engine at once: the most that fit and divide all evenly."""
    most = max(1, min(updates, LARGEST_RUN_BYTES // max(size, 1)))
    return next(count for count in range(most, 0, -1) if updates % count == 0)


def _find_part(body: Prepared) -> Part:
    stage = body.stages[0]
    if stage.runner is None:
        level = body.level
        targets, gradients = list(stage.targets), {}
        for item in body.items:
            update = body.inner[id(item)][0]
            targets += [op for entry in update.stages for op in entry.targets]
            for tensor, variable in zip(item.update.arguments, item.variables, strict=True):
                gradients[find_title(body.graph, variable)] = tensor
        pairs = list(zip(level.arguments, level.outputs, strict=True))
        same = [entry for entry, left in pairs if entry is left]
        stage.runner = Part(
            graph=body.graph,
            inputs=[tensor for _, made in level.infeeds for tensor in made],
            outputs=[tensor for entry in stage.enqueues for tensor in entry.tensors],
            targets=targets,
            carried=[(entry, left) for entry, left in pairs if entry is not left],
            fixed=[*same, *_list_fixed(body)],
            gradients=gradients,
        )
    part: Part = stage.runner
    return part


def find_title(graph: Any, variable: Any) -> str:
    """What the engine calls a variable, TensorFlow's own or one of Keras."""
    held = variable if hasattr(variable, "handle") else variable._value
    return name_variables(graph)[id(held.handle)][0]


def _list_fixed(body: Prepared) -> list[Any]:
    """Tensors from outside the loop: the same in every round."""
    inner = [tensor for levels in body.inner.values() for level in levels for tensor in level.captures]
    made = {tensor.name for stage in body.stages for op in stage.ops for tensor in op.outputs}
    own = {tensor.name for tensor in body.level.arguments}
    own |= {tensor.name for _, tensors in body.level.infeeds for tensor in tensors}
    found = {tensor.name: tensor for tensor in [*body.captures, *inner]}
    return [tensor for name, tensor in found.items() if name not in made and name not in own]


def _list_queues(body: Prepared) -> list[Any]:
    return [entry.queue for entry in body.stages[0].enqueues]


def applies_updates(ops: Sequence[Any]) -> bool:
    """Do ops of an optimizer write variables?"""
    return any(op.type.startswith("Resource") and "Apply" in op.type for op in ops)


def _updates_own(body: Prepared, update: UpdateItem | None, length: int) -> bool:
    """Does each replica update variables of its own, by gradients that are not reduced over replicas?"""
    if update is None or update.options.replica_reduction is not None:
        return applies_updates(body.stages[0].ops)
    if length > 1:
        reduce_replicas([0.0, 0.0], None)
    return True


def _take(around: Surroundings, body: Prepared, rounds: int) -> list[Any]:
    if not around.computes:
        return []
    return [value for queue, _ in body.level.infeeds for value in take_rounds(around, queue, rounds)]


def _put(body: Prepared, found: Sequence[Any], length: int, replicas: int) -> None:
    """Outputs are [rounds and replicas, ...]."""
    values = iter(found)
    for entry in body.stages[0].enqueues:
        each = []
        for _ in entry.tensors:
            value = next(values)
            value = numpy.reshape(value, (-1, replicas, *value.shape[1:])) if replicas > 1 else value
            if entry.accumulates:
                value = numpy.reshape(value, (-1, length, *value.shape[1:])).sum(axis=1, dtype=value.dtype)
            each.append(value)
        entry.queue.put(each, replicas)

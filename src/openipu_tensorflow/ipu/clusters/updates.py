"""Gradients that wait: the cut between what runs for each micro-batch and the update of the variables.

In: gradients of a traced level, and how to apply them. Out: an `UpdateItem` of that level, with the update as a level
of its own that gets the reduced gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from openipu.graph import Reduction
from openipu_tensorflow.functions.feeding import DeviceLoop, may_restart
from openipu_tensorflow.ipu.clusters.tracing import (
    Level,
    Trace,
    current_trace,
    make_marker,
    open_level,
)


@dataclass(slots=True)
class UpdateOptions:
    """When an update happens, and of what."""

    accumulation: int = 1  # 0: as many as the pipeline has
    reduction: Reduction = Reduction.SUM  # over micro-batches
    replica_reduction: Reduction | None = None  # over replicas; None: each replica's own gradient
    offload_state: bool = False
    shard_state: bool = False


@dataclass(eq=False)
class UpdateItem:
    """The update of variables by gradients that have been reduced."""

    update: Level
    initial: list[Any]  # gradients
    marker: Any
    options: UpdateOptions
    variables: list[Any]
    results: list[Any] = field(default_factory=list)
    count: Any = None

    @property
    def levels(self) -> list[Level]:
        return [self.update]


def find_trace(what: str) -> Trace:
    """The compilation under way; an error where there is none."""
    trace = current_trace()
    if trace is None and may_restart():
        raise DeviceLoop
    if trace is None:
        raise RuntimeError(
            f"{what} works on a program that is being compiled: use it in a function that ipu.ipu_compiler.compile "
            "gets."
        )
    return trace


def add_update(
    pairs: Sequence[tuple[Any, Any]], apply: Callable[[list[tuple[Any, Any]]], Any], options: UpdateOptions, what: str
) -> Any:
    """Cut the traced level at these gradients. `apply` gets reduced ones with their variables, and returns an op."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import array_ops

    trace = find_trace(what)
    kept = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
    if not kept:
        raise ValueError(f"{what}: no gradients provided for any variable.")
    outer: UpdateOptions | None = trace.level.marks.get("update")
    if outer is not None:  # an optimizer inside another one: its wishes join those of the one around it
        if options.accumulation > 1:
            raise ValueError(f"{what}: one optimizer that accumulates gradients cannot stand inside another.")
        outer.replica_reduction = outer.replica_reduction or options.replica_reduction
        return apply(kept)
    gradients = [ops.convert_to_tensor(gradient) for gradient, _ in kept]
    variables = [variable for _, variable in kept]
    with open_level(trace) as update:
        update.marks["update"] = options
        update.arguments = [array_ops.identity(entry, name="reduced_gradient") for entry in gradients]
        done = apply(list(zip(update.arguments, variables, strict=True)))
        own = getattr(done, "op", done)
        update.targets = [own] if isinstance(own, ops.Operation) and own.graph is trace.graph else []
        update.targets = update.targets or _list_writes(trace.graph, update.start)
    item = UpdateItem(update, gradients, make_marker("update/done"), options, variables)
    trace.level.items.append(item)
    return item.marker


def _list_writes(graph: Any, start: int) -> list[Any]:
    """What an optimizer does that hands back no op of the graph, as those of Keras do."""
    return [op for op in graph.get_operations()[start:] if op.op_def.is_stateful and not op.outputs]


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

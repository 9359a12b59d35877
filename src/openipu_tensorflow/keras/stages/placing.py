"""Puts the stage of each layer on the ops that it makes while a step is traced.

In: a model's assignments, or none. Out: the attribute `_ipu_stage` on ops of the traced graph; gradients get the stage
of what they differentiate, what comes after the model the last one.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
from keras.src.ops.function import Function

import tensorflow as tf
from openipu_tensorflow.graphs.places import SHARD, STAGE
from openipu_tensorflow.keras.stages.assigning import is_network, list_nodes
from openipu_tensorflow.keras.stages.pipeline_stage import current_stage, put_on_stage, stage_of_layer

_BACKWARD = re.compile(r"(?:^|.*/)gradient_tape/(.*)")


@contextlib.contextmanager
def follow_assignments(model: Any, assignments: Sequence[Any] | None) -> Iterator[None]:
    """Layers of the model, as Keras calls them one after the other, put their ops on their stages."""
    if not is_network(model):
        with _follow_calls(assignments or ()):
            yield
        return
    if assignments is None:
        yield
        return
    plans: dict[int, list[Any]] = {}
    _plan(model, assignments, plans)
    original = Function._run_through_graph

    def run_through_graph(
        self: Any, inputs: Any, operation_fn: Callable[[Any], Any] = lambda op: op, call_fn: Any = None
    ) -> Any:
        waiting = plans.get(id(self))
        if not waiting or call_fn is not None:
            return original(self, inputs, operation_fn, call_fn)
        order = iter(waiting.pop(0) if len(waiting) > 1 else waiting[0])

        def choose(operation: Any) -> Callable[..., Any]:
            entry = next(order)
            inner = operation_fn(operation)

            def call(*args: Any, **kwargs: Any) -> Any:
                with put_on_stage(None if entry.is_nested_model else entry.pipeline_stage):
                    return inner(*args, **kwargs)

            return call

        return original(self, inputs, choose, call_fn)

    Function._run_through_graph = run_through_graph
    try:
        yield
    finally:
        Function._run_through_graph = original


@contextlib.contextmanager
def _follow_calls(assignments: Sequence[Any]) -> Iterator[None]:
    """A subclassed model calls its layers itself: the n-th call of a layer is that of its n-th node."""
    said: dict[int, list[int | None]] = {}
    for entry in assignments:
        if not entry.is_nested_model:
            said.setdefault(id(entry.layer), []).append(entry.pipeline_stage)
    original = keras.layers.Layer.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        stage = None
        if current_stage() is None:  # what the code says where it calls the layer comes first
            waiting = said.get(id(self))
            stage = stage_of_layer(self) if not waiting else waiting.pop(0) if len(waiting) > 1 else waiting[0]
        with put_on_stage(stage):
            return original(self, *args, **kwargs)

    keras.layers.Layer.__call__ = call
    try:
        yield
    finally:
        keras.layers.Layer.__call__ = original


def _plan(model: Any, assignments: Sequence[Any], plans: dict[int, list[Any]]) -> None:
    """The assignments of each network in the order of its nodes, once for each time that it is called."""
    network = getattr(model, "_functional", None) or model
    nodes = list_nodes(model)
    if len(nodes) == len(assignments):
        plans.setdefault(id(network), []).append(list(assignments))
    for entry in assignments:
        if entry.is_nested_model:
            _plan(entry.nested_model, entry.pipeline_stage_assignments, plans)


def find_last_stage(graph: Any) -> int:
    """The highest stage of any op; 0 where there are none."""
    found = (node.attr[STAGE].i for node in graph.as_graph_def().node if STAGE in node.attr)
    return int(max(found, default=0))


def spread_stages(graph: Any, last: int, devices: Sequence[int] | None = None) -> None:
    """Ops without a stage get that of what they differentiate; others are of the last stage. All get their IPU."""
    where = range(last + 1) if devices is None else devices
    stage_of: dict[str, int] = {}
    open_ops = []
    for op in graph.get_operations():
        if STAGE in op.node_def.attr:
            stage_of[op.name] = op.get_attr(STAGE)
            op._set_attr(SHARD, tf.compat.v1.AttrValue(i=where[stage_of[op.name]]))
        else:
            open_ops.append(op)
    for op in open_ops:
        if op.type in ("Placeholder", "Const"):
            continue
        backward = _BACKWARD.match(op.name)
        stage = last
        if backward is not None:
            stage = _find_forward(backward.group(1), stage_of, last)
        op._set_attr(STAGE, tf.compat.v1.AttrValue(i=stage))
        op._set_attr(SHARD, tf.compat.v1.AttrValue(i=where[stage]))


def _find_forward(name: str, stage_of: dict[str, int], last: int) -> int:
    words = name.split("/")
    for length in range(len(words), 0, -1):
        found = stage_of.get("/".join(words[:length]))
        if found is not None:
            return found
    return last

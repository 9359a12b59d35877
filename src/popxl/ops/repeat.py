"""Repeats: a graph whose outputs are its first inputs in the next pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from popart import popart_exception
from popxl._ir.operation import add_op, make_place
from popxl._ir.sites import RepeatOp
from popxl.context import gcg
from popxl.graph import Graph
from popxl.ops.call import CallSiteInfo, find_by_ref, prepare_inputs
from popxl.tensor import Tensor


def repeat(
    graph: Graph, repeat_count: int, *inputs: Any, inputs_dict: Mapping[Tensor, Any] | None = None
) -> tuple[Tensor, ...]:
    """Run a graph `repeat_count` times; the results of the last pass."""
    return repeat_with_info(graph, repeat_count, *inputs, inputs_dict=inputs_dict).outputs


def repeat_with_info(
    graph: Graph,
    repeat_count: int,
    *inputs: Any,
    inputs_dict: Mapping[Tensor, Any] | None = None,
    check_inputs: bool = True,
) -> CallSiteInfo:
    """Run a graph `repeat_count` times; what is known of the repeat."""
    if repeat_count < 0:
        raise ValueError(f"Repeat count must be >= 0, and for {graph} it is {repeat_count}.")
    if len(graph.inputs) < len(graph.outputs):
        raise ValueError(
            f"What {graph.id} returns is given to its next pass, so a repeat needs an input for each output: it has "
            f"{len(graph.inputs)} for {len(graph.outputs)}."
        )
    parent = gcg()
    given = prepare_inputs(check_inputs, parent, graph, "called", inputs, inputs_dict)
    for inner, outer in zip(graph.outputs, graph.inputs, strict=False):
        if inner.shape != outer.shape or inner.dtype is not outer.dtype:
            raise popart_exception(
                f"{graph} is repeated: its output {inner} is its input {outer} in the next pass, and has to be alike."
            )
    outputs = [parent._add_tensor(t.name, t.shape, t.dtype, t.meta_shape) for t in graph.outputs]
    op = RepeatOp(
        parent, "Repeat", given, outputs, make_place(), target=graph, modified=find_by_ref(graph), count=repeat_count
    )
    add_op(op)
    return CallSiteInfo(op)

"""What flows back through a branch.

In: a branch, gradients of its outputs, the inputs whose gradients are wanted. Out: a branch over the two gradient
graphs; a graph returns zeros for what only the other one reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from popxl._ir.operation import add_op, make_place
from popxl._ir.sites import ConditionalOp
from popxl.graph import Graph
from popxl.ops.call import call
from popxl.tensor import Tensor, graph_input, graph_output
from popxl.transforms.autodiff import ExpectedConnectionType, GradGraphInfo

if TYPE_CHECKING:
    from popxl.transforms.differentiation import Differentiation


def take_back_branch(
    work: Differentiation, op: ConditionalOp, given: Sequence[Tensor | None], places: Sequence[int]
) -> None:
    """Add the gradient branch to the graph that is being made."""
    seeds = [place for place, gradient in enumerate(given) if gradient is not None]
    condition = work.find_value(op.inputs[0])
    sides = []
    inputs: list[Tensor] = [condition]
    first = 1
    for graph in op.called:
        info = work.find_info(graph, [graph.outputs[place] for place in seeds])
        side, read = _make_side(work, op, graph, info, first, seeds, given, places)
        sides.append(side)
        inputs += read
        first += len(graph._inputs)
    targets = [op.inputs[place] for place in places]
    outputs = [work.made._add_tensor(f"Gradient___{t.name}", t.shape, t.dtype) for t in targets]
    site = ConditionalOp(work.made, "If", inputs, outputs, make_place(), chosen=sides[0], otherwise=sides[1])
    add_op(site)
    for place, gradient in zip(places, outputs, strict=True):
        work.add_gradient(op.inputs[place], gradient)


def _make_side(
    work: Differentiation,
    op: ConditionalOp,
    graph: Graph,
    info: GradGraphInfo,
    first: int,
    seeds: Sequence[int],
    given: Sequence[Tensor | None],
    places: Sequence[int],
) -> tuple[Graph, list[Tensor]]:
    """The gradient of one graph with outputs for all inputs of the branch, and what it is given."""
    read = []
    for entry in info.expected_inputs:
        inner = entry.fwd_tensor
        if entry.connection_type is ExpectedConnectionType.FwdGrad:
            place = graph._outputs.index(inner)
            seed = given[place] if place in seeds else None
            read.append(seed if seed is not None else work.make_zeros(op.outputs[place]))
        elif inner in graph._inputs:
            read.append(work.find_value(op.inputs[first + graph._inputs.index(inner)]))
        else:
            read.append(work.find_value(op.outputs[graph._outputs.index(inner)]))
    side = graph.ir.create_empty_graph(f"{graph.name}_grad_side")
    with side:
        own = [graph_input(t.shape, t.dtype, t.name) for t in read]
        found = dict(zip(info.outputs, call(info.graph, *own), strict=True))
        last = first + len(graph._inputs)
        for place in places:
            mine = found.get(graph._inputs[place - first]) if first <= place < last else None
            graph_output(mine if mine is not None else work.make_zeros(op.inputs[place]))
    return side, read

"""Changes to graphs that exist: ops that move into another graph, inputs and outputs that come and go.

All that knows how PopXL keeps its graphs is in this file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import popxl
from popxl import Graph, Tensor
from popxl._ir.aliases import find_sharing
from popxl._ir.operation import Op
from popxl._ir.sites import CallOp
from popxl.transforms.autodiff import ExpectedConnection, ExpectedConnectionType, GradGraphInfo

__all__ = [
    "add_site_input",
    "list_ops",
    "make_grad_info",
    "move_ops",
    "remove_output",
    "stands_for",
    "stands_for_gradient",
]


def stands_for(tensor: Tensor) -> ExpectedConnection:
    """A tensor of a gradient graph that has the value of a tensor of the forward graph."""
    return ExpectedConnection._make(ExpectedConnectionType.Fwd, tensor)


def stands_for_gradient(tensor: Tensor) -> ExpectedConnection:
    """A tensor of a gradient graph that is the gradient of a tensor of the forward graph."""
    return ExpectedConnection._make(ExpectedConnectionType.FwdGrad, tensor)


def make_grad_info(
    forward: Graph, graph: Graph, inputs: Iterable[ExpectedConnection], outputs: Iterable[ExpectedConnection]
) -> GradGraphInfo:
    """The record of a gradient graph: what its inputs and outputs, in order, stand for."""
    return GradGraphInfo._make(graph, forward, list(inputs), list(outputs))


def list_ops(graph: Graph) -> list[Op]:
    """The ops of a graph in the order in which they run."""
    return list(graph._ops)


def remove_output(graph: Graph, position: int) -> None:
    """A graph that is not called yet returns one tensor less."""
    if graph._sites:
        raise ValueError(f"{graph} is called already, its outputs cannot be removed")
    del graph._outputs[position]


def move_ops(ops: Sequence[Op], target: Graph) -> dict[Tensor, Tensor]:
    """Move ops, which follow each other, to the end of another graph.

    What they read and do not make becomes an input there, by reference if they write to it.
    Out: these inputs to the tensors that they stand for.
    """
    inside = {id(output) for op in ops for output in op.outputs}
    inputs: dict[int, Tensor] = {}
    outer: dict[Tensor, Tensor] = {}
    for op in ops:
        for place, tensor in enumerate(op.inputs):
            if id(tensor) in inside:
                continue
            if id(tensor) not in inputs:
                with target:
                    inputs[id(tensor)] = _add_input_like(tensor)
                outer[inputs[id(tensor)]] = tensor
            op.inputs[place] = inputs[id(tensor)]
            tensor._consumers.remove(op)
            inputs[id(tensor)]._consumers.append(op)
        for output in op.outputs:
            del op.graph._tensors[output.id]
            output._graph = target
            target._tensors[output.id] = output
        op.graph._ops.remove(op)
        op.graph = target
        target._ops.append(op)
    sharing = find_sharing(target)
    target._by_ref_inputs.update(t for t in outer if sharing.is_written(t))
    return outer


def add_site_input(site: CallOp, inner: Tensor, outer: Tensor, modified: bool) -> None:
    """A call hands over one tensor more, for the input that its graph got last."""
    if inner in site.target._by_ref_inputs or modified:
        site.modified.add(len(site.inputs))
    site.inputs.append(outer)
    outer._consumers.append(site)


def _add_input_like(tensor: Tensor) -> Tensor:
    return popxl.graph_input(tensor.shape, tensor.dtype, tensor.name, meta_shape=tensor.meta_shape)

"""Gradient graphs that run forward again instead of keeping activations."""

from __future__ import annotations

import popxl
from popxl.transforms.autodiff import ExpectedConnection, ExpectedConnectionType, GradGraphInfo
from popxl_addons.graph import BoundGraph, GraphWithNamedArgs
from popxl_addons.graph_surgery import make_grad_info, stands_for
from popxl_addons.utils import suffix_graph_name

__all__ = ["recompute_graph"]


def recompute_graph(grad_graph: GraphWithNamedArgs) -> GraphWithNamedArgs:
    """A gradient graph that takes only the inputs of forward, calls forward, and then the gradient graph given."""
    info = grad_graph.grad_graph_info
    graph = grad_graph.graph.ir.create_empty_graph(suffix_graph_name(grad_graph.graph.name, "recomp"))
    with graph:
        fwd_inputs, grad_inputs, expected = _add_inputs(info)
        forward = BoundGraph(info.forward_graph, fwd_inputs).call_with_info()
        grad_inputs.update(info.inputs_dict(forward))
        # Inputs that autodiff did not make: accumulators.
        for tensor in grad_graph.graph.inputs:
            if tensor not in grad_inputs:
                by_ref = tensor in grad_graph.graph._by_ref_inputs
                grad_inputs[tensor] = popxl.graph_input(
                    tensor.shape, tensor.dtype, tensor.name, by_ref=by_ref, meta_shape=tensor.meta_shape
                )
        for output in BoundGraph(grad_graph.graph, grad_inputs).call_with_info().outputs:
            popxl.graph_output(output)
    new_info = make_grad_info(info.forward_graph, graph, expected, info.expected_outputs)
    return GraphWithNamedArgs(graph, grad_graph.args.remap(grad_inputs), new_info)


def _add_inputs(
    info: GradGraphInfo,
) -> tuple[dict[popxl.Tensor, popxl.Tensor], dict[popxl.Tensor, popxl.Tensor], list[ExpectedConnection]]:
    """Inputs of the current graph: what the gradient expects of gradients and forward's inputs, then forward's others.

    Out: forward's inputs to new ones, the gradient graph's inputs to new ones, and what the new ones are connected to.
    """
    fwd_inputs: dict[popxl.Tensor, popxl.Tensor] = {}
    grad_inputs: dict[popxl.Tensor, popxl.Tensor] = {}
    expected: list[ExpectedConnection] = []
    of_forward = list(info.forward_graph.inputs)
    for own, connection in zip(info.graph.inputs, info.expected_inputs, strict=False):
        if connection.connection_type == ExpectedConnectionType.FwdGrad:
            grad_inputs[own] = _like(own)
        elif connection.fwd_tensor in of_forward:
            fwd_inputs[connection.fwd_tensor] = _like(connection.fwd_tensor)
        else:
            continue  # an activation, which the call of forward makes
        expected.append(connection)
    for tensor in sorted((t for t in of_forward if t not in fwd_inputs), key=lambda t: t.name):
        fwd_inputs[tensor] = _like(tensor)
        expected.append(stands_for(tensor))
    return fwd_inputs, grad_inputs, expected


def _like(tensor: popxl.Tensor) -> popxl.Tensor:
    return popxl.graph_input(tensor.shape, tensor.dtype, tensor.name, meta_shape=tensor.meta_shape)

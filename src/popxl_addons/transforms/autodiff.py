"""Gradient graphs, and gradient graphs that add to accumulators instead of returning gradients."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

import popxl
from popxl import ops
from popxl.transforms.autodiff import ExpectedConnection, ExpectedConnectionType, GradGraphInfo
from popxl.transforms.autodiff import autodiff as differentiate
from popxl_addons.dot_tree import sanitise
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.graph_common import CalledGraphsGradInfoLike, plain_called_graphs
from popxl_addons.graph_surgery import make_grad_info, remove_output, stands_for, stands_for_gradient
from popxl_addons.hand_written_gradients import check_called
from popxl_addons.named_replica_grouping import NamedReplicaGrouping
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.variable_factory import NamedVariableFactories, VariableFactory, add_variable_input

__all__ = ["autodiff", "autodiff_with_accumulation", "remap_grad_info"]

COUNTER = "mean_accum_counter"


def _differentiate(
    graph: GraphWithNamedArgs,
    grads_provided: Iterable[popxl.Tensor] | None,
    grads_required: Iterable[popxl.Tensor] | None,
    called_graphs_grad_info: CalledGraphsGradInfoLike | None,
) -> GradGraphInfo:
    """The gradient of a graph, with the gradients of called graphs that modules or the user give."""
    called = {**graph.called_graphs_grad_info, **plain_called_graphs(called_graphs_grad_info)}
    check_called(graph.graph, called)
    info: GradGraphInfo = differentiate(
        graph.graph,
        grads_provided=grads_provided,
        grads_required=grads_required,
        called_graphs_grad_info=called,
    )
    return info


def autodiff(
    graph: GraphWithNamedArgs | popxl.Graph,
    grads_provided: Iterable[popxl.Tensor] | None = None,
    grads_required: Iterable[popxl.Tensor] | None = None,
    called_graphs_grad_info: CalledGraphsGradInfoLike | None = None,
) -> GraphWithNamedArgs:
    """The gradient graph: gradients of outputs (all of them, unless said) in, of inputs (all, unless said) out."""
    named = graph if isinstance(graph, GraphWithNamedArgs) else GraphWithNamedArgs(graph)
    info = _differentiate(named, grads_provided, grads_required, called_graphs_grad_info)
    return GraphWithNamedArgs.from_grad_graph(info)


def autodiff_with_accumulation(
    graph: GraphWithNamedArgs,
    tensors_to_accumulate_grads: Iterable[popxl.Tensor],
    grads_provided: Iterable[popxl.Tensor] | None = None,
    grads_required: Iterable[popxl.Tensor] | None = None,
    called_graphs_grad_info: CalledGraphsGradInfoLike | None = None,
    replica_groupings: NamedReplicaGrouping | None = None,
) -> tuple[NamedVariableFactories, GraphWithNamedArgs]:
    """A gradient graph that keeps running means of some gradients; it returns those of ``grads_required``.

    Its variables are an accumulator for each tensor, ``accum.`` and the tensor's name, and ``mean_accum_counter``,
    which counts the calls: to begin anew it is enough to set the counter to zero.
    """
    accumulated = list(tensors_to_accumulate_grads)
    info = _differentiate(graph, grads_provided, [*(grads_required or ()), *accumulated], called_graphs_grad_info)
    names = {tensor: name for name, tensor in graph.args.named_tensors.items()}
    groups = replica_groupings.to_dict() if replica_groupings is not None else {}
    gradients = dict(zip(info.outputs, info.graph.outputs, strict=True))
    inputs: dict[str, popxl.Tensor] = {}
    factories: dict[str, VariableFactory] = {}

    with info.graph, popxl.in_sequence(True):
        zero = partial(np.zeros, shape=())
        counter, factories[COUNTER] = add_variable_input(COUNTER, zero, popxl.float32, by_ref=True)
        inputs[COUNTER] = counter
        with popxl.in_sequence(False):
            for tensor in accumulated:
                name = names.get(tensor, sanitise(tensor.name))
                key = f"accum.{name}"
                inputs[key], factories[key] = add_variable_input(
                    key, partial(np.zeros, shape=tensor.shape), tensor.dtype, True, groups.get(name)
                )
                ops.var_updates.accumulate_mean_(inputs[key], gradients[tensor], counter)
        ops.var_updates.accumulate_(counter, popxl.constant(1, popxl.float32))

    info = _without_outputs(info, accumulated)
    named = GraphWithNamedArgs.from_grad_graph(info, NamedTensors.from_dict(inputs))
    return NamedVariableFactories.from_dict(factories), named


def _without_outputs(info: GradGraphInfo, accumulated: list[popxl.Tensor]) -> GradGraphInfo:
    """The record of a gradient graph once the gradients of these tensors are no outputs of it any more."""
    kept = list(info.expected_outputs)
    for position in reversed(range(len(kept))):
        if kept[position].fwd_tensor in accumulated:
            remove_output(info.graph, position)
            del kept[position]
    return make_grad_info(info.forward_graph, info.graph, info.expected_inputs, kept)


def remap_grad_info(grad_info: GradGraphInfo, forward_graph: popxl.Graph, backward_graph: popxl.Graph) -> GradGraphInfo:
    """The record of a gradient for another forward graph with the same inputs and outputs."""
    old = grad_info.forward_graph
    new = dict(zip([*old.outputs, *old.inputs], [*forward_graph.outputs, *forward_graph.inputs], strict=True))

    def move(connection: ExpectedConnection) -> ExpectedConnection:
        tensor = new[connection.fwd_tensor]
        own = connection.connection_type is ExpectedConnectionType.Fwd
        return stands_for(tensor) if own else stands_for_gradient(tensor)

    return make_grad_info(
        forward_graph, backward_graph, map(move, grad_info.expected_inputs), map(move, grad_info.expected_outputs)
    )

"""Gradients of graphs, as graphs.

In: a graph, the outputs whose gradients are given, the inputs whose gradients are wanted. Out: a `GradGraphInfo`: a new
graph, and which tensors of the differentiated graph each of its inputs and outputs stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from popxl.graph import Graph
from popxl.ops.call import CallSiteInfo
from popxl.tensor import Tensor


class ExpectedConnectionType(Enum):
    """What a tensor of a gradient graph stands for."""

    Fwd = "Fwd"  # a tensor of the differentiated graph
    FwdGrad = "FwdGrad"  # its gradient


class ExpectedConnection:
    """One input or output of a gradient graph."""

    _fwd_tensor: Tensor
    _type: ExpectedConnectionType

    def __init__(self) -> None:
        raise TypeError("Connections are made by autodiff, not by their class.")

    @classmethod
    def _make(cls, kind: ExpectedConnectionType, tensor: Tensor) -> ExpectedConnection:
        made = object.__new__(cls)
        made._type, made._fwd_tensor = kind, tensor
        return made

    def __repr__(self) -> str:
        return f"({self.connection_type}, {self.fwd_tensor})"

    @property
    def fwd_tensor(self) -> Tensor:
        """The tensor of the differentiated graph."""
        return self._fwd_tensor

    @property
    def connection_type(self) -> ExpectedConnectionType:
        """The tensor itself, or its gradient."""
        return self._type


class GradGraphInfo:
    """A gradient graph, and how it is connected."""

    _graph: Graph
    _forward: Graph
    _expected_inputs: list[ExpectedConnection]
    _expected_outputs: list[ExpectedConnection]

    def __init__(self) -> None:
        raise TypeError("Gradient graphs are described by autodiff, not by this class.")

    @classmethod
    def _make(
        cls, graph: Graph, forward: Graph, inputs: list[ExpectedConnection], outputs: list[ExpectedConnection]
    ) -> GradGraphInfo:
        made = object.__new__(cls)
        made._graph, made._forward = graph, forward
        made._expected_inputs, made._expected_outputs = inputs, outputs
        return made

    @property
    def graph(self) -> Graph:
        """The gradient graph."""
        return self._graph

    @property
    def forward_graph(self) -> Graph:
        """The graph that was differentiated."""
        return self._forward

    @property
    def expected_inputs(self) -> tuple[ExpectedConnection, ...]:
        """What each input of the gradient graph stands for."""
        return tuple(self._expected_inputs)

    @property
    def expected_outputs(self) -> tuple[ExpectedConnection, ...]:
        """What each output of the gradient graph stands for."""
        return tuple(self._expected_outputs)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors of the differentiated graph behind the inputs."""
        return tuple(entry.fwd_tensor for entry in self._expected_inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The tensors of the differentiated graph whose gradients the outputs are."""
        return tuple(entry.fwd_tensor for entry in self._expected_outputs)

    def __repr__(self) -> str:
        inputs = "".join(f"    {entry!r}\n" for entry in self._expected_inputs)
        outputs = "".join(f"    {entry!r}\n" for entry in self._expected_outputs)
        return (
            f"GradGraphInfo[\n  graph={self.graph.id}\n  expected_inputs=[\n{inputs}  ]\n"
            f"  expected_outputs=[\n{outputs}  ]\n]"
        )

    def inputs_dict(self, fwd_call_info: CallSiteInfo) -> dict[Tensor, Tensor]:
        """For a call of the gradient graph: all inputs that a call of the forward graph has the values of."""
        if fwd_call_info.called_graph is not self._forward:
            raise TypeError("This is a call of another graph than the one that was differentiated.")
        return {
            self._graph.inputs[place]: fwd_call_info.graph_to_parent(entry.fwd_tensor)
            for place, entry in enumerate(self._expected_inputs)
            if entry.connection_type is ExpectedConnectionType.Fwd
        }

    def fwd_graph_ins_to_grad_parent_outs(self, grad_call_info: CallSiteInfo) -> dict[Tensor, Tensor]:
        """Inputs of the forward graph -> their gradients at a call of the gradient graph."""
        return {
            tensor: grad_call_info.graph_to_parent(self._graph.outputs[place])
            for place, tensor in enumerate(self.outputs)
        }

    def fwd_parent_ins_to_grad_parent_outs(
        self, fwd_call_info: CallSiteInfo, grad_call_info: CallSiteInfo
    ) -> dict[Tensor, Tensor]:
        """What a call of the forward graph was given -> its gradients at a call of the gradient graph."""
        return {
            fwd_call_info.graph_to_parent(tensor): grad_call_info.parent_output(place)
            for place, tensor in enumerate(self.outputs)
        }


def autodiff(
    graph: Graph,
    grads_provided: Iterable[Tensor] | None = None,
    grads_required: Iterable[Tensor] | None = None,
    called_graphs_grad_info: Mapping[Graph, GradGraphInfo] | None = None,
    return_all_grad_graphs: bool = False,
) -> Any:
    """Differentiate a graph. What backward reads of it and is neither input nor output becomes a further output, of the
    graph and of all calls of it. With `return_all_grad_graphs`: those of the graphs that it calls, too, by graph."""
    from popxl.transforms.differentiation import Differentiation

    made: dict[Graph, GradGraphInfo] = dict(called_graphs_grad_info or {})
    given = list(graph.outputs if grads_provided is None else grads_provided)
    required = None if grads_required is None else list(grads_required)
    own: dict[tuple[Graph, frozenset[Tensor]], GradGraphInfo] = {}
    info = Differentiation(graph, given, required, made, own).run()
    if not return_all_grad_graphs:
        return info
    for (called, _), found in own.items():
        made.setdefault(called, found)
    return {**made, graph: info}

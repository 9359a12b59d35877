"""Calls of graphs, and what is known at a call site.

In: a graph and tensors for its inputs. Out: an op of the current graph; a `CallSiteInfo` that says which tensor of the
one graph stands for which of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from popxl._ir.operation import add_op, make_place
from popxl._ir.sites import CallOp
from popxl.context import gcg
from popxl.graph import Graph
from popxl.tensor import Tensor
from popxl.utils import table_to_string


class CallSiteInfo:
    """One call of a graph, or one repeat."""

    def __init__(self, subgraph_op: CallOp) -> None:
        self._op = subgraph_op

    @property
    def called_graph(self) -> Graph:
        """The graph that is called."""
        return self._op.target

    def graph_to_parent_input_index(self, idx: int) -> int:
        """The op's input for an input of the graph."""
        return idx

    def parent_to_graph_input_index(self, idx: int) -> int:
        """The graph's input for an input of the op."""
        return idx

    def graph_to_parent_output_index(self, idx: int) -> int:
        """The op's output for an output of the graph."""
        return idx

    def parent_to_graph_output_index(self, idx: int) -> int:
        """The graph's output for an output of the op."""
        return idx

    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """What stands for an input or an output of the graph."""
        graph = self.called_graph
        if graph_tensor in graph._inputs:
            return self._op.inputs[graph._inputs.index(graph_tensor)]
        if graph_tensor in graph._outputs:
            return self._op.outputs[graph._outputs.index(graph_tensor)]
        raise ValueError(f"{graph_tensor.name} is not an input or output of the graph that is called here.")

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """The input of the graph that a tensor is given to."""
        if parent_tensor not in self._op.inputs:
            raise ValueError(f"This call is not given {parent_tensor.name}.")
        return self.called_graph._inputs[self._op.inputs.index(parent_tensor)]

    def parent_input(self, idx: int) -> Tensor:
        """An input of the op."""
        return self._op.inputs[idx]

    def parent_output(self, idx: int) -> Tensor:
        """An output of the op."""
        return self._op.outputs[idx]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What is given to the graph."""
        return tuple(self._op.inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """What comes from it."""
        return tuple(self._op.outputs)

    def set_parent_input_modified(self, parent_tensor: Tensor, infer_modified_regions: bool = False) -> None:
        """What the graph writes to this input is seen by the caller."""
        self._op.modified |= {place for place, tensor in enumerate(self._op.inputs) if tensor is parent_tensor}


def call(graph: Graph, *inputs: Any, inputs_dict: Mapping[Tensor, Any] | None = None) -> tuple[Tensor, ...]:
    """Run a graph once; its results."""
    return call_with_info(graph, *inputs, inputs_dict=inputs_dict).outputs


def call_with_info(
    graph: Graph, *inputs: Any, inputs_dict: Mapping[Tensor, Any] | None = None, check_inputs: bool = True
) -> CallSiteInfo:
    """Run a graph once; what is known of the call."""
    parent = gcg()
    given = prepare_inputs(check_inputs, parent, graph, "called", inputs, inputs_dict)
    outputs = [parent._add_tensor(t.name, t.shape, t.dtype, t.meta_shape) for t in graph.outputs]
    op = CallOp(parent, "Call", given, outputs, make_place(), target=graph, modified=find_by_ref(graph))
    add_op(op)
    return CallSiteInfo(op)


def find_by_ref(graph: Graph) -> set[int]:
    """The inputs that a graph takes by reference."""
    return {place for place, tensor in enumerate(graph._inputs) if tensor in graph._by_ref_inputs}


def prepare_inputs(
    check: bool,
    parent: Graph,
    graph: Graph,
    what: str,
    inputs: Sequence[Any] | None,
    inputs_dict: Mapping[Tensor, Any] | None,
) -> list[Tensor]:
    """Tensors for all inputs of a graph, from a list and a dictionary; ValueError or TypeError if they do not fit."""
    flat: list[Any] = []
    for value in inputs or ():
        flat.extend(value) if isinstance(value, Iterable) and not isinstance(value, str | Tensor) else flat.append(
            value
        )
    named = dict(inputs_dict or {})
    if len(flat) > len(graph.inputs):
        raise ValueError(
            f"Too many inputs for the {what} graph {graph}: it has {len(graph.inputs)}, and {len(flat)} are given by "
            "position."
        )
    found: dict[int, Tensor] = {}
    for place, value in enumerate(flat):
        if isinstance(value, Tensor) and value not in parent:
            raise ValueError(f"{value} is not in parent graph {parent}, where the call is made.")
        title = f'Input at position "{place}"'
        found[place] = _make_tensor(graph.inputs[place], value, title, what)
    for inner, value in named.items():
        if inner not in graph._inputs:
            raise ValueError(f"`inputs_dict` names {inner}, which is no input of the {what} graph {graph}.")
        if isinstance(value, Tensor) and value not in parent:
            raise ValueError(
                f"`inputs_dict` gives {value}, which is not in parent graph {parent}, where the call is made."
            )
        place = graph._inputs.index(inner)
        if place in found:
            raise ValueError(f"{inner} of the {what} graph is specified twice: by position and in `inputs_dict`.")
        found[place] = _make_tensor(inner, value, f'Input "{inner}"', what)
    if check and len(found) < len(graph.inputs):
        raise ValueError(_describe_missing(graph, what, found))
    for place, tensor in found.items():
        _check_fit(graph, graph.inputs[place], tensor)
    return [found[place] for place in sorted(found)]


def _check_fit(graph: Graph, inner: Tensor, outer: Tensor) -> None:
    if inner.shape != outer.shape or inner.dtype is not outer.dtype:
        from popart import popart_exception

        raise popart_exception(
            f"The input {inner.id} of {graph} is {inner.dtype.name}{list(inner.shape)}, and is given {outer.id}, which "
            f"is {outer.dtype.name}{list(outer.shape)}."
        )


def _make_tensor(inner: Tensor, value: Any, title: str, what: str) -> Tensor:
    try:
        return inner._ensure_tensor(value)
    except ValueError:
        raise TypeError(
            f"{title} of the {what} graph cannot be made a tensor: {value!r} is a {type(value).__name__}."
        ) from None


def _describe_missing(graph: Graph, what: str, found: Mapping[int, Tensor]) -> str:
    missing = [(place, t.id) for place, t in enumerate(graph.inputs) if place not in found]
    connected = [(place, graph.inputs[place].id, found[place].id) for place in sorted(found)]
    return (
        f"Not enough inputs for the {what} graph {graph}. It still needs:\n"
        + table_to_string([("Index", "Graph Tensor"), *missing])
        + "\n\nConnected inputs:\n"
        + table_to_string([("Index", "Graph Tensor", "Parent Graph Tensor"), *connected])
    )


_prep_and_validate_inputs = prepare_inputs

"""Branches: one of two graphs runs, as a value of the run says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from popart import popart_exception
from popxl._ir.operation import add_op, make_place
from popxl._ir.sites import ConditionalOp
from popxl.context import gcg
from popxl.dtypes import bool as bool_dtype
from popxl.graph import Graph
from popxl.ops.call import prepare_inputs
from popxl.ops.utils import cast_if_needed, check_in_graph
from popxl.tensor import Tensor

Inputs = Iterable[Any] | None


class ConditionalSiteInfo:
    """One branch."""

    def __init__(self, if_op: ConditionalOp) -> None:
        self._op = if_op

    @property
    def then_graph(self) -> Graph:
        """The graph for a true condition."""
        return self._op.chosen

    @property
    def else_graph(self) -> Graph:
        """The graph for a false condition."""
        return self._op.otherwise

    @property
    def called_graph(self) -> tuple[Graph, Graph]:
        """Both graphs."""
        return (self._op.chosen, self._op.otherwise)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The condition, and what is given to both graphs."""
        return tuple(self._op.inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """What comes from the graph that ran."""
        return tuple(self._op.outputs)

    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """What stands for an input or an output of one of the graphs."""
        first = 1
        for graph in self._op.called:
            if graph_tensor in graph._inputs:
                return self._op.inputs[first + graph._inputs.index(graph_tensor)]
            if graph_tensor in graph._outputs:
                return self._op.outputs[graph._outputs.index(graph_tensor)]
            first += len(graph._inputs)
        raise ValueError(f"{graph_tensor.name} is not an input or output of either branch.")


def conditional(
    cond: Tensor,
    then_branch: Graph,
    else_branch: Graph,
    then_inputs: Inputs = None,
    else_inputs: Inputs = None,
    then_inputs_dict: Mapping[Tensor, Tensor] | None = None,
    else_inputs_dict: Mapping[Tensor, Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """The results of one of two graphs."""
    return conditional_with_info(
        cond, then_branch, else_branch, then_inputs, else_inputs, then_inputs_dict, else_inputs_dict
    ).outputs


def conditional_with_info(
    cond: Tensor,
    then_branch: Graph,
    else_branch: Graph,
    then_inputs: Inputs = None,
    else_inputs: Inputs = None,
    then_inputs_dict: Mapping[Tensor, Tensor] | None = None,
    else_inputs_dict: Mapping[Tensor, Tensor] | None = None,
    check_inputs: bool = True,
) -> ConditionalSiteInfo:
    """One of two graphs; what is known of the branch."""
    parent = gcg()
    check_in_graph(parent, cond=cond)
    first = prepare_inputs(check_inputs, parent, then_branch, "then_branch", list(then_inputs or ()), then_inputs_dict)
    second = prepare_inputs(check_inputs, parent, else_branch, "else_branch", list(else_inputs or ()), else_inputs_dict)
    if len(then_branch.outputs) != len(else_branch.outputs):
        raise ValueError(
            f"Both branches return as many tensors, but `then_branch` has {len(then_branch.outputs)} outputs and "
            f"`else_branch` {len(else_branch.outputs)}."
        )
    for title, graph in (("then_branch", then_branch), ("else_branch", else_branch)):
        for tensor in graph._by_ref_inputs:
            raise NotImplementedError(f"A branch gets copies, so {tensor} of the {title} graph can be no TensorByRef.")
    outputs = []
    for one, other in zip(then_branch.outputs, else_branch.outputs, strict=True):
        if one.shape != other.shape or one.dtype is not other.dtype:
            raise popart_exception(f"Both branches have to return the same shapes and types: {one} and {other}.")
        outputs.append(parent._add_tensor(f"{one.name}_or_{other.name}", one.shape, one.dtype, one.meta_shape))
    given = [cast_if_needed(cond, bool_dtype), *first, *second]
    op = ConditionalOp(parent, "If", given, outputs, make_place(), chosen=then_branch, otherwise=else_branch)
    add_op(op)
    return ConditionalSiteInfo(op)

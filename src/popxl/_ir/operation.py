"""Ops: what a graph is made of.

In: a function over torch tensors, the tensors it reads, how it is differentiated. Out: an `Op` in the current graph,
and the tensors that it makes, whose shapes are those the function returns for tensors without data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from openipu.graph import Phase, SourceLine
from popart import popart_exception
from popxl.context import get_current_context
from popxl.dtypes import dtype, find_dtype
from popxl.tensorlocation import ExecutionContext

if TYPE_CHECKING:
    from popxl.graph import Graph
    from popxl.tensor import Tensor

Values = Sequence[torch.Tensor]
Function = Callable[..., Any]  # torch tensors in, one or several out
# gradients of the outputs, inputs, outputs (None where a rule does not ask for them) -> gradients of the inputs
Formula = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Sequence[torch.Tensor | None]]


@dataclass(frozen=True, eq=False)
class Rule:
    """How an op is differentiated: which values backward reads, and what it makes of them."""

    inputs: tuple[int, ...] | None = None  # None: all
    outputs: tuple[int, ...] = ()
    formula: Formula | None = None  # None: as autograd differentiates the function


VALUES = Rule()  # backward reads all inputs
SHAPES = Rule(inputs=())  # the op is linear: backward reads nothing


@dataclass(frozen=True, slots=True)
class Place:
    """Where an op runs, and which line of the user's it is from."""

    ipu: int = 0
    io_tiles: bool = False
    scope: str = ""
    line: SourceLine | None = None
    phase: Phase = Phase.FORWARD
    context: ExecutionContext = ExecutionContext.Normal


@dataclass(eq=False)
class Op:
    """One op. `aliases`: output -> the input whose memory it shares; `writes`: inputs that it writes over."""

    graph: Graph
    kind: str
    inputs: list[Tensor]
    outputs: list[Tensor]
    place: Place
    function: Function | None = None
    rule: Rule | None = None
    aliases: Mapping[int, int] = field(default_factory=dict)
    writes: tuple[int, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)  # for plans and reports
    id: int = 0

    @property
    def ipu(self) -> int:
        """The IPU on which its results are."""
        return int(self.attributes.get("destination", self.place.ipu))

    @property
    def io_tiles(self) -> bool:
        """Are its results on I/O tiles?"""
        return bool(self.attributes.get("to_io_tiles", self.place.io_tiles))

    @property
    def called(self) -> tuple[Graph, ...]:
        """Graphs that it runs."""
        return ()

    def debugName(self) -> str:  # noqa: N802 (PopART's own name)
        return f"{self.kind} ({self.id})"

    def getGraph(self) -> Graph:  # noqa: N802
        return self.graph

    def __repr__(self) -> str:
        return f"{self.kind}({', '.join(t.id for t in self.inputs)}) -> {', '.join(t.id for t in self.outputs)}"


def make_place() -> Place:
    """Where an op that is made now belongs."""
    context = get_current_context()
    return Place(
        context.ipu_id,
        context.io_tile_set,
        "/".join(context.name_scopes),
        context.find_line(),
        context.phase,
        context._execution_context,
    )


def add_op(op: Op) -> Op:
    """Put an op behind the others of its graph, and tell who listens."""
    op.id = op.graph.ir._count()
    op.graph._ops.append(op)
    for tensor in op.inputs:
        tensor._consumers.append(op)
    for tensor in op.outputs:
        tensor._producer = op
    for graph in op.called:
        graph._sites.append(op)
    get_current_context()._op_created(op)
    return op


def make_op(
    kind: str,
    function: Function,
    inputs: Sequence[Tensor],
    *,
    rule: Rule | None = None,
    name: str = "",
    names: Sequence[str] = (),
    specs: Sequence[tuple[tuple[int, ...], dtype]] | None = None,
    dtypes: Sequence[dtype | None] | None = None,
    meta_shape: tuple[int, ...] = (),
    aliases: Mapping[int, int] | None = None,
    writes: tuple[int, ...] = (),
    attributes: Mapping[str, Any] | None = None,
) -> list[Tensor]:
    """Add an op to the current graph; its results.

    `specs`: shapes and formats of the results, where the function cannot say them. `dtypes`: formats that differ from
    what follows from the operands.
    """
    graph = get_current_context().graph
    check_inputs(graph, inputs)
    if specs is None:
        specs = infer(kind, function, inputs, dtypes)
    title = name or f"{kind.lower()}_out"
    titles = list(names) or [title if place == 0 else f"{title}_{place}" for place in range(len(specs))]
    outputs = [graph._add_tensor(titles[place], shape, form, meta_shape) for place, (shape, form) in enumerate(specs)]
    add_op(
        Op(
            graph,
            kind,
            list(inputs),
            outputs,
            make_place(),
            function,
            rule,
            dict(aliases or {}),
            writes,
            dict(attributes or {}),
        )
    )
    return outputs


def check_inputs(graph: Graph, inputs: Sequence[Tensor]) -> None:
    """Refuse what is no tensor, or one of another graph."""
    from popxl.tensor import Tensor

    for place, tensor in enumerate(inputs):
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"Operand {place} is {tensor!r}, not a Tensor. Make one of it by `popxl.constant` or `popxl.variable`."
            )
        if tensor not in graph:
            raise ValueError(
                f"`{tensor.id}` belongs to another graph than {graph.name}, which is being built. Pass it as an "
                "input of that graph."
            )


def make_blank(tensor: Tensor) -> torch.Tensor:
    """A tensor of the same shape and format, without data."""
    return torch.empty(tensor.shape, dtype=tensor.dtype._held, device="meta")


def infer(
    kind: str, function: Function, inputs: Sequence[Tensor], dtypes: Sequence[dtype | None] | None = None
) -> list[tuple[tuple[int, ...], dtype]]:
    """The shapes and formats that a function returns."""
    try:
        with torch.no_grad(), torch.device("meta"):  # what a function makes itself has no data either
            returned = function(*(make_blank(tensor) for tensor in inputs))
    except (RuntimeError, IndexError, TypeError) as error:
        shown = ", ".join(f"{tensor.id} {tensor.dtype.name}{list(tensor.shape)}" for tensor in inputs)
        raise popart_exception(f"{kind} cannot be computed from {shown}: {str(error).splitlines()[0]}") from error
    found = list(returned) if isinstance(returned, list | tuple) else [returned]
    like = tuple(tensor.dtype for tensor in inputs)
    wished = list(dtypes or [None] * len(found))
    return [
        (tuple(value.shape), wish or find_dtype(value.dtype, like)) for value, wish in zip(found, wished, strict=True)
    ]

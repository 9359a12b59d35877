"""Library functions: a function over PyTorch's tensors becomes ATen calls over views of a graph.

In: a function, the tensors that it reads, and where its results go. Out: one library op in a program. The function runs
once, on tensors without data, and what it calls is written down: the same calls that a model in PyTorch would make, so
they have the same results and the same price.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from openipu.graph.mapped import (
    BOOL,
    FLOAT,
    HALF,
    INT,
    SHORT,
    SIGNED_CHAR,
    UNSIGNED_CHAR,
    ElementType,
    LibraryCall,
    LibraryOp,
    Value,
    choose_format,
)
from poplar import program as programs
from poplar._errors import graph_connection_error, poplar_error
from poplar._graph import Graph
from poplar._linear import mapTensorLinearly
from poplar._lines import find_line, note_line
from poplar._tensor import Tensor
from poplar._vertices import ComputeSet

Traced = Callable[..., "torch.Tensor | tuple[torch.Tensor, ...]"]
Target = programs.Sequence | list[ComputeSet]

_TYPES: Mapping[torch.dtype, ElementType] = {
    torch.float32: FLOAT,
    torch.float64: FLOAT,
    torch.float16: HALF,
    torch.bool: BOOL,
    torch.int32: INT,
    torch.int64: INT,
    torch.int16: SHORT,
    torch.int8: SIGNED_CHAR,
    torch.uint8: UNSIGNED_CHAR,
}


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down every ATen call."""

    def __init__(self, inputs: Sequence[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._numbers = {id(tensor): number for number, tensor in enumerate(inputs)}
        self._kept: list[torch.Tensor] = list(inputs)  # so that no address is used twice
        self.calls: list[LibraryCall] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        made = func(*args, **named)
        results = [made] if isinstance(made, torch.Tensor) else list(made)
        numbers = tuple(-1 if tensor is None else self._keep(tensor) for tensor in results)
        named = {name: value for name, value in named.items() if name not in ("device", "pin_memory", "layout")}
        self.calls.append(
            LibraryCall(
                op=str(func),
                args=tuple(self._name(value) for value in args),
                kwargs={name: self._name(value) for name, value in named.items()},
                results=numbers,
                shapes=tuple(() if tensor is None else tuple(tensor.shape) for tensor in results),
                formats=tuple("" if tensor is None else str(tensor.dtype).removeprefix("torch.") for tensor in results),
            )
        )
        return made

    def find(self, tensor: torch.Tensor) -> int:
        return self._numbers[id(tensor)]

    def _keep(self, tensor: torch.Tensor) -> int:
        known = self._numbers.get(id(tensor))
        if known is None:
            known = self._numbers[id(tensor)] = len(self._kept)
            self._kept.append(tensor)
        return known

    def _name(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in self._numbers:
                raise poplar_error("A library function used a tensor that it did not get. Please report this.")
            return Value(self._numbers[id(value)])
        if isinstance(value, (list, tuple)):
            return type(value)(self._name(item) for item in value)
        return value


def call_library(
    graph: Graph,
    prog: Target,
    function: str,
    traced: Traced,
    inputs: Sequence[Tensor],
    *,
    outputs: Sequence[Tensor] | None = None,
    types: Sequence[ElementType | None] | None = None,
    name: str = "",
) -> list[Tensor]:
    """Add a library op to a program. Without `outputs`, new variables of the right shapes are made and mapped."""
    for tensor in inputs:
        if tensor.graph._store is not graph._store:
            raise graph_connection_error(f"{function}: a tensor is of another graph.")
    given = [torch.empty(t.shape(), dtype=choose_format(t.elementType()), device="meta") for t in inputs]
    try:
        with _Recorder(given) as recorder, torch.no_grad(), torch.device("meta"):
            made = traced(*given)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        if isinstance(error, poplar_error):
            raise
        shapes = ", ".join(f"{t.shape()} of {t.elementType()}" for t in inputs)
        raise poplar_error(f"{function} does not take tensors of {shapes}: {error}") from error
    results = (made,) if isinstance(made, torch.Tensor) else tuple(made)
    label = name or function
    if outputs is None:
        chosen = [None] * len(results) if types is None else list(types)
        outputs = [
            _make_output(graph, result, element, inputs, label) for result, element in zip(results, chosen, strict=True)
        ]
    for result, output in zip(results, outputs, strict=True):
        _check_output(function, result, output)
    returned = tuple(recorder.find(result) for result in results)
    _add(graph, prog, function, label, inputs, tuple(recorder.calls), returned, outputs)
    return list(outputs)


def call_kernel(
    graph: Graph,
    prog: Target,
    function: str,
    kernel: str,
    priced: str,
    arguments: Sequence[Any],
    output: Tensor,
    *,
    name: str = "",
    place: int = 0,
) -> Tensor:
    """Add one call of a function of our own, which costs what the operator `priced` costs. It writes `output`."""
    inputs = [argument for argument in arguments if isinstance(argument, Tensor)]
    numbers = iter(range(len(inputs)))
    call = LibraryCall(
        op=priced,
        args=tuple(Value(next(numbers)) if isinstance(one, Tensor) else one for one in arguments),
        kwargs={},
        results=(len(inputs),),
        shapes=(tuple(output.shape()),),
        formats=(str(choose_format(output.elementType())).removeprefix("torch."),),
        kernel=kernel,
        place=place,
    )
    _add(graph, prog, function, name or kernel, inputs, (call,), call.results, [output])
    return output


def _add(
    graph: Graph,
    prog: Target,
    function: str,
    name: str,
    inputs: Sequence[Tensor],
    calls: tuple[LibraryCall, ...],
    returned: tuple[int, ...],
    outputs: Sequence[Tensor],
) -> None:
    """To the end of a sequence; or as a compute set of its own, for the caller to execute."""
    number = len(graph.shared.library_ops)
    graph.shared.library_ops.append(
        LibraryOp(
            name=name,
            function=function,
            inputs=tuple(tensor.view() for tensor in inputs),
            calls=calls,
            returned=returned,
            outputs=tuple(tensor.view() for tensor in outputs),
            line=find_line(note_line()),
        )
    )
    if isinstance(prog, programs.Sequence):
        prog.add(programs.Library(number, name))
        return
    if not isinstance(prog, list):
        raise poplar_error(f"A library function adds to a Sequence or a list of compute sets, not to {prog!r}.")
    compute_set = graph.addComputeSet(name)
    compute_set.table.library = number
    prog.append(compute_set)


def _make_output(
    graph: Graph, result: torch.Tensor, element: ElementType | None, inputs: Sequence[Tensor], name: str
) -> Tensor:
    shape = list(result.shape)
    chosen = element or _choose_type(result, inputs)
    for like in inputs:
        if like.shape() == shape and not like.containsAliases():
            return graph.clone(chosen, like, f"{name}/out")
    made = graph.addVariable(chosen, shape, f"{name}/out")
    mapTensorLinearly(graph, made)
    return made


def _choose_type(result: torch.Tensor, inputs: Sequence[Tensor]) -> ElementType:
    for tensor in inputs:
        if choose_format(tensor.elementType()) is result.dtype:
            return tensor.elementType()
    return _TYPES[result.dtype]


def _check_output(function: str, result: torch.Tensor, output: Tensor) -> None:
    if list(result.shape) != output.shape() and result.numel() != output.numElements():
        raise poplar_error(
            f"{function} makes a tensor of shape {list(result.shape)}, and the output is {output.shape()}."
        )
    if output.containsConstant():
        raise graph_connection_error(f"{function} writes, and its output {output!r} is a constant.")

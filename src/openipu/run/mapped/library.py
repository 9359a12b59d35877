"""Library calls: ATen operators over views of the memory.

In: a `LibraryOp`. Out: a function without arguments. Results are PyTorch's; strided operands are used where they lie.
Numbers that PyTorch cannot calculate with, such as unsigned 32-bit ones, are widened on the way in.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import torch

from openipu.graph.mapped.codelets import Array
from openipu.graph.mapped.elements import ElementType
from openipu.graph.mapped.formats import FORMATS, WIDENED
from openipu.graph.mapped.program import MAX_POOL_GRADIENT, LibraryCall, LibraryOp, Value
from openipu.run.mapped.memory import Memory, Port
from openipu.run.mapped.pooling import max_pool_gradient
from openipu.run.mapped.random import KERNELS, make_generator


@cache
def find_operator(name: str) -> Callable[..., Any]:
    """ "aten.mm.default" -> the operator."""
    namespace, rest, overload = name.split(".")
    found: Callable[..., Any] = getattr(getattr(getattr(torch.ops, namespace), rest), overload)
    return found


def build_library_op(op: LibraryOp, memory: Memory) -> Callable[[], None]:
    """The function that runs a library op once."""
    doors = [memory.open(view, f"{op.function} {op.name}") for view in op.inputs]
    readers = [_make_reader(door, view.type) for door, view in zip(doors, op.inputs, strict=True)]
    targets = [(number, memory.open(view)) for number, view in zip(op.returned, op.outputs, strict=True)]
    calls = [(_choose_function(call), call.args, dict(call.kwargs), call.results) for call in op.calls]
    several = len(targets) > 1

    def execute() -> None:
        values: dict[int, Any] = {number: read() for number, read in enumerate(readers)}
        with torch.no_grad():
            for function, args, kwargs, results in calls:
                made = function(*_fill(args, values), **_fill_names(kwargs, values))
                if len(results) == 1 and isinstance(made, torch.Tensor):
                    values[results[0]] = made
                else:
                    for place, number in enumerate(results):
                        values[number] = operator.getitem(made, place)
        found = [values[number] for number, _ in targets]
        if several:  # one result may be a view of what another is written to
            found = [value.clone() for value in found]
        for value, (_, port) in zip(found, targets, strict=True):
            port.put(_convert(value, port))

    return execute


def _choose_function(call: LibraryCall) -> Callable[..., Any]:
    if not call.kernel:
        return find_operator(call.op)
    if call.kernel == MAX_POOL_GRADIENT:
        return max_pool_gradient
    draw, executions = KERNELS[call.kernel], itertools.count()

    def run(seed: torch.Tensor | None, modifier: int, shape: list[int], format_: str, *numbers: Any) -> Any:
        generator = make_generator(seed, modifier, call.place, next(executions))
        return draw(generator, shape, FORMATS[format_], *numbers)

    return run


def _make_reader(port: Port, element: ElementType) -> Callable[[], torch.Tensor]:
    widened = WIDENED.get(element.format)
    if widened is None and port.direct:
        array = port.get() if type(port) is Port else None
        if array is not None and all(stride >= 0 for stride in array.strides):
            tensor = torch.from_numpy(array)
            return lambda: tensor

    def read() -> torch.Tensor:
        values = port.get()
        if widened is not None:
            values = values.astype(np.int64 if widened is torch.int64 else np.int32)
        elif any(stride < 0 for stride in values.strides):
            values = values.copy()
        return torch.from_numpy(values)

    return read


def _convert(value: torch.Tensor, port: Port) -> Array:
    array: Array = value.detach().numpy()
    return array.reshape(port.shape)


def _fill(value: Any, values: Mapping[int, Any]) -> Any:
    if isinstance(value, Value):
        return values[value.number]
    if isinstance(value, tuple):
        return tuple(_fill(item, values) for item in value)
    if isinstance(value, list):
        return [_fill(item, values) for item in value]
    return value


def _fill_names(kwargs: Mapping[str, Any], values: Mapping[int, Any]) -> dict[str, Any]:
    return {name: _fill(value, values) for name, value in kwargs.items()}

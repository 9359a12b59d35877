"""One call of an ATen op as a rule sees it.

In: an op, with its arguments by the names of its schema, defaults filled in, tensors as `Value`s. Out: what rules ask:
arguments as attributes, results with shapes, values in another format.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from openipu.export.onnx_file.writer import GraphWriter, Value, code_of

Result = Value | tuple[Value | None, ...]


def broadcast(shapes: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that all of these broadcast to."""
    found: torch.Size = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Site:
    """`site.x`: the argument x. `site.out`: shape and format of the result, or of the first of them."""

    writer: GraphWriter
    arguments: Mapping[str, Any]
    results: tuple[torch.Tensor, ...]  # on the meta device
    used: frozenset[int]  # results that somebody reads

    def __getattr__(self, name: str) -> Any:
        try:
            return self.arguments[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def source(self) -> Value:
        """The argument that PyTorch calls `self`."""
        found: Value = self.arguments["self"]
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.results[0].shape)

    @property
    def dtype(self) -> torch.dtype:
        return self.results[0].dtype

    def emit(self, op: str, *inputs: Value | None, **attributes: Any) -> Value:
        """A node that makes the result."""
        return self.writer.one(op, inputs, self.shape, self.dtype, **attributes)

    def make(
        self, op: str, inputs: Sequence[Value | None], shape: Sequence[int], dtype: torch.dtype, **attributes: Any
    ) -> Value:
        """A node on the way to the result."""
        return self.writer.one(op, inputs, shape, dtype, **attributes)

    def like(self, op: str, *inputs: Value, **attributes: Any) -> Value:
        """A node whose result has the format of its first input, and the shape that all inputs broadcast to."""
        shape = broadcast(value.shape for value in inputs)
        return self.writer.one(op, inputs, shape, inputs[0].dtype, **attributes)

    def number(self, value: Any, dtype: torch.dtype) -> Value:
        """A number as a 0-dim tensor."""
        return self.writer.constant(torch.tensor(value, dtype=dtype))

    def whole(self, values: Sequence[int]) -> Value:
        """Whole numbers, such as a shape, as a tensor."""
        return self.writer.constant(torch.tensor(list(values), dtype=torch.int64))

    def cast(self, value: Any, dtype: torch.dtype) -> Value:
        """A tensor or number in a format."""
        if not isinstance(value, Value):
            return self.number(value, dtype)
        if value.dtype is dtype:
            return value
        return self.make("Cast", [value], value.shape, dtype, to=code_of(dtype))

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        if tuple(shape) == value.shape:
            return value
        wanted = self.whole(shape)
        zero = 1 if 0 in shape else None
        return self.make("Reshape", [value, wanted], shape, value.dtype, allowzero=zero)

    def transpose(self, value: Value, order: Sequence[int]) -> Value:
        if list(order) == list(range(len(order))):
            return value
        shape = [value.shape[axis] for axis in order]
        return self.make("Transpose", [value], shape, value.dtype, perm=list(order))

    def expand(self, value: Value, shape: Sequence[int]) -> Value:
        return (
            value
            if tuple(shape) == value.shape
            else self.make("Expand", [value, self.whole(shape)], shape, value.dtype)
        )

    def slice(self, value: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
        """Elements of one axis. `start` and `stop` lie within it."""
        axis %= value.rank
        count = max(0, math.ceil((stop - start) / step))
        shape = [*value.shape[:axis], count, *value.shape[axis + 1 :]]
        if shape == list(value.shape) and step == 1:
            return value
        words = [self.whole([number]) for number in (start, stop, axis, step)]
        return self.make("Slice", [value, *words], shape, value.dtype)

    def fill(self, value: Any) -> Value:
        """The result, each element of which is the same number."""
        return self.expand(self.number(value, self.dtype), self.shape)


Rule = Callable[[Site], Result]
Rules = dict[str, Rule]

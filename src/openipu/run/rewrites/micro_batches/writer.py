"""Writes the batched graph, one operator after the other.

In: nodes of a micro graph, and what their batched values need. Out: nodes of the new graph, each with the shape,
strides and number format of its value. A batched value of shape [...] is written as [F, ...]: F micro-batches, one
behind the other. An unbatched value, the same for all micro-batches, keeps its shape.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from openipu.run.rewrites.micro_batches.arguments import list_arguments, read_given

aten = torch.ops.aten

Value = fx.Node | tuple[fx.Node | None, ...]  # a tuple for operators with several results
_VIEWS = (aten.view.default, aten._unsafe_view.default)


class BatchWriter:
    """The new graph, and the new values of old nodes."""

    def __init__(self, factor: int, batched: Collection[fx.Node]) -> None:
        self.graph = fx.Graph()
        self.factor = factor
        self._batched = batched
        self._full: dict[fx.Node, Value] = {}
        self._totals: dict[fx.Node, fx.Node] = {}
        self._origin: dict[str, Any] = {}
        self._inferred: dict[Any, Any] = {}

    # Values of old nodes ------------------------------------------------------------------------------------------

    def begin(self, node: fx.Node) -> None:
        """What is written from here on stems from this old node."""
        self._origin = node.meta

    def is_batched(self, node: Any) -> bool:
        return isinstance(node, fx.Node) and node in self._batched

    def set_full(self, node: fx.Node, value: Value) -> None:
        self._full[node] = value

    def set_total(self, node: fx.Node, value: fx.Node) -> None:
        self._totals[node] = value

    def read_full(self, node: fx.Node) -> fx.Node:
        """The new value: [F, ...] if batched, else as it was."""
        value = self._full[node]
        assert isinstance(value, fx.Node)
        return value

    def read_items(self, node: fx.Node) -> Value:
        return self._full[node]

    def read_total(self, node: fx.Node) -> fx.Node:
        """The sum of the value over the micro-batches, in the old shape."""
        if node not in self._totals:
            full = self.read_full(node)
            if self.is_batched(node):
                self._totals[node] = self.call(aten.sum.dim_IntList, full, [0])
            else:
                self._totals[node] = self.call(aten.mul.Tensor, full, self.factor)
        return self._totals[node]

    def lift(self, node: fx.Node) -> fx.Node:
        """[F, ...] in any case: an unbatched value is repeated without a copy."""
        full = self.read_full(node)
        if self.is_batched(node):
            return full
        return self.call(aten.expand.default, full, [self.factor, *read_shape(full)])

    def align(self, node: fx.Node, rank: int) -> fx.Node:
        """A value that can be combined with others of a rank (without F), element by element."""
        full = self.read_full(node)
        if not self.is_batched(node):
            return full
        shape = read_shape(full)
        return self.view(full, [shape[0], *[1] * (rank + 1 - len(shape)), *shape[1:]])

    # Writing ------------------------------------------------------------------------------------------------------

    def call(self, target: Callable[..., Any], *args: Any, **kwargs: Any) -> fx.Node:
        """Write one operator; its meta value comes from running it on meta tensors."""
        value = self._infer(target, args, kwargs)
        node: fx.Node = self.graph.call_function(target, args, kwargs)
        node.meta = {**self._origin, "val": value}
        return node

    def fill(self, shape: Sequence[int], number: float, dtype: torch.dtype) -> fx.Node:
        """A new tensor that holds one number."""
        return self.call(aten.full.default, list(shape), number, dtype=dtype, device=torch.device("cpu"))

    def take_items(self, node: fx.Node) -> Value:
        """The results of an operator that has several; None where it gives none."""
        values = node.meta["val"]
        if isinstance(values, torch.Tensor):
            return node
        return tuple(
            self.call(operator.getitem, node, index) if isinstance(value, torch.Tensor) else None
            for index, value in enumerate(values)
        )

    def repeat(self, node: fx.Node, changes: Mapping[str, Any] | None = None) -> fx.Node:
        """Write an old operator again, with new values of its arguments, and some of them changed by name."""
        assert isinstance(node.target, torch._ops.OpOverload)
        given = {name: fx.map_arg(value, self.read_full) for name, value in read_given(node, changes or {}).items()}
        args, kwargs = list_arguments(node.target, {**given, **(changes or {})})
        return self.call(node.target, *args, **kwargs)

    def copy(self, node: fx.Node) -> None:
        """Write an unbatched node as it was."""
        if node.target is operator.getitem:
            source = self._full[node.args[0]]  # type: ignore[index]
            if isinstance(source, tuple):
                item = source[node.args[1]]  # type: ignore[index]
                assert item is not None
                self._full[node] = item
                return
        args, kwargs = fx.map_arg((node.args, node.kwargs), self.read_full)
        new: fx.Node = self.graph.call_function(node.target, args, kwargs)  # type: ignore[arg-type]
        new.meta = {**node.meta, "val": _take_to_meta(node.meta.get("val"))}
        self._full[node] = new

    def place(self, node: fx.Node, value: torch.Tensor) -> fx.Node:
        """Write a placeholder under its old name."""
        new: fx.Node = self.graph.create_node("placeholder", node.target, node.args, name=node.name)
        new.meta = {**node.meta, "val": value}
        return new

    # Shapes -------------------------------------------------------------------------------------------------------

    def view(self, node: fx.Node, shape: Sequence[int]) -> fx.Node:
        """The value in another shape: a view where its strides allow it, else a copy."""
        while node.target in _VIEWS and node.args[0].meta["val"].is_contiguous():  # type: ignore[union-attr]
            node = node.args[0]  # type: ignore[assignment]
        if read_shape(node) == tuple(shape):
            return node
        try:
            return self.call(aten.view.default, node, list(shape))
        except RuntimeError:  # what a meta tensor answers where a view would need a copy
            dense = self.call(aten.clone.default, node, memory_format=torch.contiguous_format)
            return self.call(aten.view.default, dense, list(shape))

    def merge(self, node: fx.Node) -> fx.Node:
        """[F, b, ...] as [F * b, ...]."""
        shape = read_shape(node)
        return self.view(node, [shape[0] * shape[1], *shape[2:]])

    def split(self, node: fx.Node) -> fx.Node:
        """[F * b, ...] as [F, b, ...]."""
        shape = read_shape(node)
        return self.view(node, [self.factor, shape[0] // self.factor, *shape[1:]])

    def flatten(self, node: fx.Node) -> fx.Node:
        """[F, ...] as [F, n]."""
        return self.view(node, [self.factor, node.meta["val"].numel() // self.factor])

    def _infer(self, target: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        key = (target, _freeze(args), _freeze(tuple(kwargs.items())))
        if key not in self._inferred:
            real_args, real_kwargs = fx.map_arg((tuple(args), dict(kwargs)), lambda source: source.meta["val"])
            if "device" in real_kwargs:
                real_kwargs = {**real_kwargs, "device": "meta"}
            with torch.no_grad():
                self._inferred[key] = target(*real_args, **real_kwargs)
        return self._inferred[key]


def _take_to_meta(value: Any) -> Any:
    """A value that stands for shapes and formats alone, whatever stood for them before."""
    if isinstance(value, list | tuple):
        return [_take_to_meta(item) for item in value]
    if not isinstance(value, torch.Tensor) or value.is_meta:
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")


def read_shape(node: fx.Node) -> tuple[int, ...]:
    """The shape of a node's value."""
    return tuple(node.meta["val"].shape)


def has_rows_in_line(value: fx.Node) -> bool:
    """Whether [F, m, k] is [F * m, k] without a copy."""
    tensor = value.meta["val"]
    return bool(tensor.shape[1] == 1 or tensor.stride(0) == tensor.shape[1] * tensor.stride(1))


def _freeze(value: Any) -> Any:
    """What the shape of a result depends on, as a key: equal layers are computed once."""
    if isinstance(value, fx.Node):
        return _freeze(value.meta["val"])
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), value.stride(), value.dtype)
    if isinstance(value, list | tuple):
        return (type(value).__name__, *map(_freeze, value))
    return (type(value).__name__, value)

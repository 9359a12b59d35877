"""Images as rows of pixels, and the calls around them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import fx

from openipu.run.drafts.random_numbers import set_value

aten = torch.ops.aten


class GraphWriter:
    """Adds calls in front of a node, with its meta data."""

    def __init__(self, graph: fx.Graph, node: fx.Node) -> None:
        self.graph, self._node = graph, node

    def call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        with self.graph.inserting_before(self._node):
            found = self.graph.call_function(target, args, kwargs)
        set_value(found, self._node.meta)
        return found

    def place(self, function: Any, node: fx.Node, *args: Any) -> fx.Node:
        """A function of ours, whose result is that of a node."""
        with self.graph.inserting_before(self._node):
            found = self.graph.call_function(function, args)
        found.meta = dict(node.meta)
        return found

    def read_rows(self, images: fx.Node, strides: Sequence[int] = ()) -> fx.Node:
        """[batch, channels, ...] -> [pixels, channels]; with strides, of every second pixel, or third."""
        rank = len(_shape_of(images))
        last = [0, *range(2, rank), 1]
        first: Any = images.args[1] if images.target is aten.permute.default else None
        turned = first is not None and [last[place] for place in first] == list(range(rank))
        source: Any = images.args[0] if turned else self.call(aten.permute.default, images, last)
        for dim, stride in enumerate(strides, start=1):
            if stride > 1:
                source = self.call(aten.slice.Tensor, source, dim, 0, _shape_of(source)[dim], stride)
        sizes = _shape_of(source)
        return self.call(aten.reshape.default, source, [prod(sizes[:-1]), sizes[-1]])

    def read_images(self, rows: fx.Node, shape: Sequence[int]) -> fx.Node:
        """[pixels, channels] -> [batch, channels, ...], with channels last."""
        batch, channels, *window = shape
        shaped = self.call(aten.view.default, rows, [batch, *window, channels])
        return self.call(aten.permute.default, shaped, [0, len(shape) - 1, *range(1, len(shape) - 1)])


def _shape_of(node: fx.Node) -> tuple[int, ...]:
    return tuple(node.meta["val"].shape)

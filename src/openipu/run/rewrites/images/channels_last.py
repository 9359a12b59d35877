"""Convolutions of images with channels last, whose filters lie as [window, in, out].

In: a draft. Out: the same draft, in which a convolution of single pixels and both its gradients are products of
matrices, which read images and filter as they lie, every pixel or every second one. Filters that lie as
[out, in, window] are left alone.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import fx

from openipu.run.drafts.random_numbers import set_value
from openipu.run.drafts.rules import Match, Rule, Search, Writer, matched

aten = torch.ops.aten

_CONVOLVE, _BACKWARD = aten.convolution.default, aten.convolution_backward.default
_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
_WIDE = (torch.float32, torch.float64)
_FILTER_GRADIENT = 1  # among the results of `convolution_backward`


def is_turned_filter(node: Any) -> bool:
    """A view [out, in, window] of a filter [window, in, out]."""
    if not isinstance(node, fx.Node) or node.target is not aten.permute.default:
        return False
    rank = len(_shape_of(node)) - 2
    dims: Any = node.args[1]
    return rank in (2, 3) and list(dims) == [rank + 1, rank, *range(rank)] and node.meta["val"].dtype in _WIDE


def _reads_pixels(node: fx.Node, first: int) -> bool:
    """Whether each result belongs to one pixel. `first`: where strides stand among the arguments, then paddings."""
    arguments: tuple[Any, ...] = node.args
    strides, pads, _, transposed, _, groups = arguments[first : first + 6]
    filled = arguments[2] if node.target is _BACKWARD else arguments[1]
    if node.kwargs or groups != 1 or any(pads):
        return False
    if transposed and arguments[2] is not None and any(stride != 1 for stride in strides):
        return False  # pixels between the others have the bias alone
    if any(size != 1 for size in _shape_of(filled)[2:]) or len(_shape_of(filled)) not in _FORMATS:
        return False
    if node.target is _CONVOLVE:
        return is_turned_filter(filled)
    # The gradient of a filter reads no filter: that it goes back to [window, in, out] says how the filter lies.
    users = [user for user in node.users if user.target is operator.getitem and user.args[1] == _FILTER_GRADIENT]
    return not transposed and len(users) == len(node.users) == 1 and all(map(_turns_back, users[0].users))


def _turns_back(node: fx.Node) -> bool:
    """A view [window, in, out] of the gradient of a filter."""
    if node.target is not aten.permute.default:
        return False
    rank = len(_shape_of(node)) - 2
    dims: Any = node.args[1]
    return list(dims) == [*range(2, rank + 2), 1, 0] and node.meta["val"].dtype in _WIDE


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


def _multiply_pixels(match: Match, rule_writer: Writer) -> fx.Node:
    """A convolution of single pixels as a product of matrices."""
    node = match.root
    images, turned, bias, strides, _, _, transposed, *_ = node.args
    assert isinstance(images, fx.Node)
    assert isinstance(turned, fx.Node)
    writer = GraphWriter(node.graph, node)
    rows = writer.read_rows(images, () if transposed else strides)  # type: ignore[arg-type]
    matrix = writer.call(aten.view.default, turned.args[0], [_shape_of(turned)[1], _shape_of(turned)[0]])
    if transposed:
        matrix = writer.call(aten.t.default, matrix)
    product = (
        writer.call(aten.mm.default, rows, matrix)
        if bias is None
        else writer.call(aten.addmm.default, bias, rows, matrix)
    )
    batch, channels, *window = _shape_of(node)
    rank = len(window)
    if transposed:
        shaped = _spread(writer, product, [batch, *_shape_of(images)[2:], channels], strides, window)
    else:
        shaped = writer.call(aten.view.default, product, [batch, *window, channels])
    return writer.call(aten.permute.default, shaped, [0, rank + 1, *range(1, rank + 1)])


def _spread(writer: GraphWriter, product: fx.Node, shape: list[int], strides: Any, window: list[int]) -> fx.Node:
    """Pixels of a shape [batch, ..., channels] that lie `strides` apart in a window, with zeros between them."""
    batch, *sizes, channels = shape
    apart = [place for size in sizes for place in (size, 1)]
    pads = [0, 0, *(value for stride in reversed(strides) for value in (0, stride - 1, 0, 0))]
    found = writer.call(aten.view.default, product, [batch, *apart, channels])
    if any(stride > 1 for stride in strides):
        found = writer.call(aten.constant_pad_nd.default, found, pads, 0.0)
    wide = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    found = writer.call(aten.view.default, found, [batch, *wide, channels])
    for dim, (size, wanted) in enumerate(zip(wide, window, strict=True), start=1):
        if wanted < size:
            found = writer.call(aten.slice.Tensor, found, dim, 0, wanted)
    return found


def _find_gradient(node: fx.Node) -> Match | None:
    """The gradient of a filter of single pixels."""
    if node.args[-1] != [False, True, False] or not _reads_pixels(node, 4):
        return None
    (found,) = node.users
    return matched(node, found, *found.users, found=found, readers=list(found.users))


def _multiply_gradients(match: Match, rule_writer: Writer) -> None:
    gradient, images, _, _, strides, *_ = match.root.args
    assert isinstance(gradient, fx.Node)
    assert isinstance(images, fx.Node)
    writer = GraphWriter(match.root.graph, match["found"])
    rows = writer.call(aten.t.default, writer.read_rows(images, strides))  # type: ignore[arg-type]
    product = writer.call(aten.mm.default, rows, writer.read_rows(gradient))
    rank = len(_shape_of(match["found"])) - 2
    whole = writer.call(aten.view.default, product, [*([1] * rank), *_shape_of(product)])
    for reader in match["readers"]:
        rule_writer.replace(reader, whole)


def _shape_of(node: fx.Node) -> tuple[int, ...]:
    return tuple(node.meta["val"].shape)


PRODUCTS = (
    Rule(
        "1 x 1 convolution",
        Search((_CONVOLVE,), lambda node: matched(node) if _reads_pixels(node, 3) else None),
        _multiply_pixels,
    ),
    Rule(
        "gradient of a 1 x 1 filter",
        Search((_BACKWARD,), _find_gradient),
        _multiply_gradients,
        shared=frozenset({"readers"}),
    ),
)

"""Images of a training program channel beside channel, from one convolution to the next.

In: a draft of forward and backward, whose images lie plane behind plane, as PyTorch's do. Out: the same draft, in which
convolutions and their gradients read and write images with channels last, and so does what lies between them. Those of
single pixels are products of matrices; those with 3 x 3 filters are a C++ kernel, where that is given. oneDNN reads
such images as they lie, where planes are rearranged in every call, and norms of channels have vector code. Whoever else
reads an image gets a copy with its planes. Where there would be many such copies, all is left as it was.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import fx

from openipu.run import thresholds
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.replacement import replace_value
from openipu.run.kernels.library import LoadedKernel
from openipu.run.rewrites.images.image_kernels import convolve, find_filter_gradient, find_image_gradient, turn_back
from openipu.run.rewrites.images.pixel_rows import GraphWriter
from openipu.run.rewrites.images.winograd import (
    convolve_images,
    find_winograd_filter_gradient,
    find_winograd_image_gradient,
    fits_winograd,
)
from openipu.run.rewrites.simplify import remove_dead_code

aten = torch.ops.aten

_CONVOLVE, _BACKWARD = aten.convolution.default, aten.convolution_backward.default
_POOL, _POOL_BACKWARD = aten.max_pool2d_with_indices.default, aten.max_pool2d_with_indices_backward.default

# The first result lies as the images that were given.
_NORMS = frozenset(
    {
        *(aten._native_batch_norm_legit_functional.default, aten._native_batch_norm_legit_no_training.default),
        *(aten.native_batch_norm.default, aten.native_batch_norm_backward.default),
        aten._native_batch_norm_legit.no_stats,
    }
)
_POINTWISE = frozenset(
    {
        *(aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.div.Scalar, aten.mul.Scalar),
        *(aten.relu.default, aten.threshold_backward.default, aten.neg.default),
        *(aten.sigmoid.default, aten.sigmoid_backward.default, aten.silu.default, aten.silu_backward.default),
        *(aten.hardtanh.default, aten.hardtanh_backward.default, aten.hardswish.default),
        *(aten.hardswish_backward.default, aten.leaky_relu.default, aten.leaky_relu_backward.default),
        *(aten.gelu.default, aten.gelu_backward.default, aten.tanh.default, aten.tanh_backward.default),
    }
)
_POOLS = frozenset({_POOL, _POOL_BACKWARD, aten.avg_pool2d.default, aten.avg_pool2d_backward.default})
_SUMS = frozenset({aten.mean.dim, aten.sum.dim_IntList})  # read images as they lie, and return none


@dataclass(frozen=True)
class _Window:
    """What a convolution is beside its operands."""

    strides: list[int]
    pads: list[int]
    dilations: list[int]
    groups: int

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.strides, self.pads, self.dilations, self.groups


def lay_out_images(draft: Draft, winograd: LoadedKernel | None) -> None:
    """Let convolutions, and what lies between them, work on images with channels last; `winograd`: by that kernel."""
    plans = {node: window for node in draft.graph.nodes if (window := _read_window(node)) is not None}
    if not _is_worth_it(plans):
        return
    turned = _find_turned(draft.graph, plans)
    if _count_copied(draft.graph, plans, turned) > thresholds.CHANNELS_LAST_COPIED * sum(
        _count(node) for node in plans
    ):
        return
    _turn_back(draft.graph, plans, turned)
    for node, window in plans.items():
        writer = GraphWriter(draft.graph, node)
        kernel = winograd if _fits_winograd(node, window) else None
        if node.target is _CONVOLVE:
            _replace_convolution(writer, node, window, kernel)
        else:
            _replace_gradients(writer, node, window, kernel)
    remove_dead_code(draft)


def find_winograd(graph: fx.Graph) -> bool:
    """Whether there are convolutions that are worth the kernel."""
    plans = {node: window for node in graph.nodes if (window := _read_window(node)) is not None}
    return _is_worth_it(plans) and any(_fits_winograd(node, window) for node, window in plans.items())


def _read_window(node: fx.Node) -> _Window | None:
    """Of a convolution of images in float32, or of its gradients, whose filter lies as PyTorch's do."""
    if node.target not in (_CONVOLVE, _BACKWARD) or node.kwargs:
        return None
    first = 3 if node.target is _CONVOLVE else 4
    given: list[Any] = list(node.args[first : first + 6])
    strides, pads, dilations, transposed, _, groups = given
    images, filters = _find_images(node), _find_filter(node)
    if transposed or groups != 1 or _is_turned_filter(filters):
        return None
    values = [operand.meta.get("val") for operand in (images, filters)]
    if any(value is None or value.dim() != 4 or value.dtype is not torch.float32 for value in values):
        return None
    if images.target is aten.permute.default:  # has channels last as it is
        return None
    return _Window(_pair(strides), _pair(pads), _pair(dilations), int(groups))


def _pair(sizes: Sequence[int]) -> list[int]:
    """One number for each of the two dimensions."""
    return list(sizes) * (2 // len(sizes))


def _list_operands(node: fx.Node) -> list[Any]:
    return list(node.args[:3])


def _find_images(node: fx.Node) -> Any:
    return node.args[0] if node.target is _CONVOLVE else node.args[1]


def _find_filter(node: fx.Node) -> Any:
    return node.args[1] if node.target is _CONVOLVE else node.args[2]


def _shape_of(node: Any) -> tuple[int, ...]:
    return tuple(node.meta["val"].shape)


def _count(node: fx.Node) -> int:
    """Elements of a convolution's result; none for its gradients, which are as many again."""
    return prod(_shape_of(node)) if node.target is _CONVOLVE else 0


def _is_worth_it(plans: dict[fx.Node, _Window]) -> bool:
    work = {node: _count(node) * prod(_shape_of(_find_filter(node))[1:]) for node in plans}
    even = sum(
        count for node, count in work.items() if _shape_of(_find_filter(node))[0] % thresholds.CONVOLUTION_VECTOR == 0
    )
    backward = any(node.target is _BACKWARD for node in plans)
    return backward and sum(work.values()) >= thresholds.CHANNELS_LAST_WORK and even >= 0.75 * sum(work.values())


def _find_turned(graph: fx.Graph, plans: dict[fx.Node, _Window]) -> set[fx.Node]:
    """Values that will have channels last."""
    turned: set[fx.Node] = set()
    for node in graph.nodes:
        if node.target is operator.getitem:
            source = node.args[0]
            if source in plans:
                found = node.args[1] == 0
            elif source.target in _NORMS:
                found = node.args[1] == 0 and any(value in turned for value in source.all_input_nodes[:2])
            else:
                found = source.target is _POOL and source.args[0] in turned
        elif node.target in _POOLS or _is_pointwise(node):
            value = node.meta.get("val")
            found = any(source in turned for source in node.all_input_nodes)
            found &= node.target is _POOL or (isinstance(value, torch.Tensor) and value.dim() == 4)
        else:
            found = node in plans and node.target is _CONVOLVE
        if found:
            turned.add(node)
    return turned


def _accepts(node: fx.Node, plans: dict[fx.Node, _Window]) -> bool:
    """Whether images may lie in any order for an operator."""
    if node.target is operator.getitem:
        return True
    return node in plans or node.target in _NORMS | _POOLS | _SUMS or _is_pointwise(node)


def _is_pointwise(node: fx.Node) -> bool:
    converts = node.target is aten._to_copy.default and set(node.kwargs) == {"dtype"}
    return converts or node.target in _POINTWISE


def _list_copied(graph: fx.Graph, plans: dict[fx.Node, _Window], turned: set[fx.Node]) -> set[fx.Node]:
    readers = [node for node in graph.nodes if not _accepts(node, plans)]
    return {source for node in readers for source in node.all_input_nodes if source in turned}


def _count_copied(graph: fx.Graph, plans: dict[fx.Node, _Window], turned: set[fx.Node]) -> int:
    """Elements that are copied from one order to the other."""
    given = {_find_images(node) for node in plans if _find_images(node) not in turned}
    return sum(prod(_shape_of(node)) for node in given | _list_copied(graph, plans, turned))


def _turn_back(graph: fx.Graph, plans: dict[fx.Node, _Window], turned: set[fx.Node]) -> None:
    """Copy images for those that need their planes."""
    for source in sorted(_list_copied(graph, plans, turned)):
        with graph.inserting_after(source):
            copy = graph.call_function(turn_back, (source,))
        copy.meta = dict(source.meta)
        for user in [user for user in source.users if user is not copy and not _accepts(user, plans)]:
            user.replace_input_with(source, copy)


def _fits_winograd(node: fx.Node, window: _Window, *, in_strips: bool = True) -> bool:
    shapes = _shape_of(_find_images(node)), _shape_of(_find_filter(node))
    return fits_winograd(*shapes, *window.arguments, in_strips=in_strips)


def _reads_pixels(node: fx.Node, window: _Window) -> bool:
    """Whether each result belongs to one pixel, and a product of matrices is as quick as the convolution."""
    if set(_shape_of(_find_filter(node))[2:]) != {1} or any(window.pads):
        return False
    return _count_pixels(node) < thresholds.PRODUCT_PIXELS


def _sums_pixels(node: fx.Node, window: _Window) -> bool:
    """The same for the gradient of the filter, for which oneDNN's code is the quicker one with more results than
    channels, if there are pixels enough."""
    results, channels = _shape_of(_find_filter(node))[:2]
    wide = results > channels and _count_pixels(node) >= thresholds.PRODUCT_GRADIENT_PIXELS
    return _reads_pixels(node, window) and not wide


def _count_pixels(node: fx.Node) -> int:
    """Of the result of a convolution."""
    count, _, *sizes = _shape_of(node if node.target is _CONVOLVE else node.args[0])
    return count * prod(sizes)


def _replace_convolution(writer: GraphWriter, node: fx.Node, window: _Window, kernel: LoadedKernel | None) -> None:
    images, filters, bias = _list_operands(node)
    if _reads_pixels(node, window):
        rows = writer.read_rows(images, window.strides)
        columns = writer.call(aten.t.default, _as_matrix(writer, filters))
        product = (
            writer.call(aten.mm.default, rows, columns)
            if bias is None
            else writer.call(aten.addmm.default, bias, rows, columns)
        )
        found = writer.read_images(product, _shape_of(node))
    elif kernel is not None:
        found = writer.place(convolve_images, node, images, filters, bias, window.pads[0], kernel)
    else:
        found = writer.place(convolve, node, images, filters, bias, *window.arguments)
    replace_value(writer.graph, node, found)


def _replace_gradients(writer: GraphWriter, node: fx.Node, window: _Window, kernel: LoadedKernel | None) -> None:
    """Those of images, filter and bias, each by itself."""
    gradient, images, filters = _list_operands(node)
    for user in list(node.users):
        match user.args[1]:
            case 0 if _reads_pixels(node, window) and set(window.strides) == {1}:
                matrix = _as_matrix(writer, filters)
                product = writer.call(aten.mm.default, writer.read_rows(gradient), matrix)
                found = writer.read_images(product, _shape_of(user))
            case 0 if kernel is not None:
                found = writer.place(find_winograd_image_gradient, user, gradient, filters, window.pads[0], kernel)
            case 0:
                found = writer.place(find_image_gradient, user, gradient, images, filters, *window.arguments)
            case 1 if _sums_pixels(node, window):
                turned = writer.call(aten.t.default, writer.read_rows(gradient))
                product = writer.call(aten.mm.default, turned, writer.read_rows(images, window.strides))
                found = writer.call(aten.view.default, product, list(_shape_of(user)))
            case 1 if kernel is not None and _fits_winograd(node, window, in_strips=False):
                found = writer.place(find_winograd_filter_gradient, user, gradient, images, window.pads[0], kernel)
            case 1:
                found = writer.place(find_filter_gradient, user, gradient, images, filters, *window.arguments)
            case _:
                found = writer.call(aten.sum.dim_IntList, gradient, [0, 2, 3])
        replace_value(writer.graph, user, found)


def _as_matrix(writer: GraphWriter, filters: Any) -> fx.Node:
    return writer.call(aten.reshape.default, filters, list(_shape_of(filters)[:2]))


def _is_turned_filter(node: Any) -> bool:
    """A view [out, in, window] of a filter [window, in, out]."""
    if not isinstance(node, fx.Node) or node.target is not aten.permute.default:
        return False
    rank = len(_shape_of(node)) - 2
    dims: Any = node.args[1]
    return (
        rank in (2, 3)
        and list(dims) == [rank + 1, rank, *range(rank)]
        and node.meta["val"].dtype in (torch.float32, torch.float64)
    )

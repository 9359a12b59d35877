"""Ops that ONNX has no counterpart for, as ops that it has.

In: an op. Out: a function over torch that computes the same, to be traced: ours for gradients of windows and products,
torch's own tables for the rest. Our recurrent layers in training are traced through their kernels, step by step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from openipu.graph import RECURRENT_OPS
from openipu.graph.recurrent import gru, lstm, rnn

aten = torch.ops.aten

Tensor = torch.Tensor
Decomposition = Callable[..., Any]


def find_decomposition(target: Any) -> Decomposition | None:
    """What computes the op, if there is something."""
    return _OWN.get(target) or _list_tables().get(target)


@cache
def _list_tables() -> dict[Any, Decomposition]:
    from torch._decomp import core_aten_decompositions, decomposition_table

    return {**decomposition_table, **core_aten_decompositions()}


def _differentiate_convolution(
    gradient: Tensor,
    source: Tensor,
    weight: Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    spatial = source.dim() - 2
    stride, padding, dilation = (_spread(values, spatial) for values in (stride, padding, dilation))
    of_source = of_weight = of_bias = None
    if wanted[0]:
        if transposed:
            of_source = aten.convolution(
                gradient, weight, None, stride, padding, dilation, False, [0] * spatial, groups
            )
        else:
            rest = _find_rest(source, gradient, weight, stride, padding, dilation)
            of_source = aten.convolution(gradient, weight, None, stride, padding, dilation, True, rest, groups)
    if wanted[1]:
        image, kernel = (gradient, source) if transposed else (source, gradient)
        of_weight = _differentiate_weight(image, kernel, weight, stride, padding, dilation, groups)
    if wanted[2]:
        of_bias = gradient.sum([axis for axis in range(gradient.dim()) if axis != 1])
    return of_source, of_weight, of_bias


def _differentiate_weight(
    image: Tensor,
    kernel: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """The image, convolved with the gradient: samples take the place of channels, and groups stay apart."""
    batch, plane = image.shape[0], image.shape[2:]
    inner = image.shape[1] // groups
    order = list(range(3, 3 + len(plane)))
    turned = image.reshape(batch, groups, inner, *plane).permute(2, 1, 0, *order).reshape(inner, groups * batch, *plane)
    filters = kernel.transpose(0, 1)  # [outer channels, batch, …]
    found: Tensor = aten.convolution(
        turned, filters, None, dilation, padding, stride, False, [0] * len(plane), groups
    )  # [inner, outer channels, …]
    for axis, size in enumerate(weight.shape[2:], start=2):
        found = found.narrow(axis, 0, size)  # strides may leave a rest behind the last window
    return found.transpose(0, 1)


def _find_rest(
    source: Tensor,
    gradient: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[int]:
    """How many elements at the end of each axis no window reached."""
    return [
        source.shape[axis + 2]
        - (
            (gradient.shape[axis + 2] - 1) * stride[axis]
            - 2 * padding[axis]
            + dilation[axis] * (weight.shape[axis + 2] - 1)
            + 1
        )
        for axis in range(source.dim() - 2)
    ]


def _spread(values: Sequence[int], count: int) -> list[int]:
    listed = list(values)
    return listed * count if len(listed) == 1 else listed


def _differentiate_max_pool(
    gradient: Tensor,
    source: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    spatial = len(kernel_size) if len(kernel_size) > 1 else source.dim() - 2
    front, plane = source.shape[: source.dim() - spatial], source.shape[source.dim() - spatial :]
    flat = torch.zeros((*front, plane.numel()), dtype=gradient.dtype, device=gradient.device)
    rows = gradient.reshape(*front, -1)
    return flat.scatter_add(-1, indices.reshape(*front, -1), rows).reshape(source.shape)


def _differentiate_average_pool(
    gradient: Tensor,
    source: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    if ceil_mode or (not count_include_pad and any(padding)):
        raise NotImplementedError
    kernel = _spread(kernel_size, 2)
    steps, edge = _spread(stride, 2) if stride else kernel, _spread(padding, 2)
    divisor = divisor_override or kernel[0] * kernel[1]
    plane, small = source.shape[-2:], gradient.shape[-2:]
    rest = [plane[axis] - ((small[axis] - 1) * steps[axis] - 2 * edge[axis] + kernel[axis]) for axis in range(2)]
    window = torch.ones((1, 1, *kernel), dtype=gradient.dtype, device=gradient.device)
    rows = (gradient / divisor).reshape(-1, 1, *small)
    spread: Tensor = aten.convolution(rows, window, None, steps, edge, [1, 1], True, rest, 1)
    return spread.reshape(source.shape)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    scores = _score(query, key, is_causal, attn_mask, scale)
    sums = torch.logsumexp(scores, -1)
    return torch.softmax(scores, -1) @ value, sums


def _score(query: Tensor, key: Tensor, is_causal: bool, mask: Tensor | None, scale: float | None) -> Tensor:
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query @ key.transpose(-2, -1)) * factor
    if is_causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = torch.where(allowed, scores, torch.full((), float("-inf"), dtype=scores.dtype, device=scores.device))
    return scores if mask is None else scores + mask


def _differentiate_attention(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    sums: Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    weights = torch.softmax(_score(query, key, is_causal, attn_mask, scale), -1)
    of_value = weights.transpose(-2, -1) @ gradient
    of_weights = gradient @ value.transpose(-2, -1)
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True)) * factor
    return of_scores @ key, of_scores.transpose(-2, -1) @ query, of_value


def _differentiate_embedding(
    gradient: Tensor, indices: Tensor, rows: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    if scale_grad_by_freq:
        raise NotImplementedError
    width, flat = gradient.shape[-1], indices.reshape(-1)
    given = gradient.reshape(-1, width)
    if padding_idx >= 0:
        given = torch.where((flat == padding_idx).unsqueeze(1), torch.zeros_like(given), given)
    total = torch.zeros((rows, width), dtype=gradient.dtype, device=gradient.device)
    return total.index_put((flat,), given, accumulate=True)


def _differentiate_adaptive_pool(gradient: Tensor, source: Tensor) -> Tensor:
    plane, small = source.shape[-2:], gradient.shape[-2:]
    if any(size % part for size, part in zip(plane, small, strict=True)):
        raise NotImplementedError
    kernel = [size // part for size, part in zip(plane, small, strict=True)]
    return _differentiate_average_pool(gradient, source, kernel, kernel, [0, 0], False, True, None)


def _adaptive_pool(source: Tensor, output_size: Sequence[int]) -> Tensor:
    plane = source.shape[-2:]
    if any(size % part for size, part in zip(plane, output_size, strict=True)):
        raise NotImplementedError
    kernel = [size // part for size, part in zip(plane, output_size, strict=True)]
    pooled: Tensor = aten.avg_pool2d(source, kernel, kernel)
    return pooled


def _find_angle(y: Tensor, x: Tensor) -> Tensor:
    """atan2 from atan: by quadrants, and upright where x is zero."""
    safe = torch.where(x == 0, torch.ones_like(x), x)
    turned = torch.atan(y / safe) + torch.where(x < 0, torch.where(y < 0, -math.pi, math.pi), 0.0)
    return torch.where(x == 0, torch.sign(y) * (math.pi / 2), turned)


_OWN: dict[Any, Decomposition] = {
    aten.atan2.default: _find_angle,
    aten.convolution_backward.default: _differentiate_convolution,
    aten.max_pool2d_with_indices_backward.default: _differentiate_max_pool,
    aten.max_pool3d_with_indices_backward.default: _differentiate_max_pool,
    aten.avg_pool2d_backward.default: _differentiate_average_pool,
    aten._scaled_dot_product_flash_attention_for_cpu.default: _attend,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _differentiate_attention,
    aten.embedding_dense_backward.default: _differentiate_embedding,
    aten._adaptive_avg_pool2d.default: _adaptive_pool,
    aten._adaptive_avg_pool2d_backward.default: _differentiate_adaptive_pool,
    RECURRENT_OPS["lstm_layer"]: lstm.run_lstm,
    RECURRENT_OPS["lstm_layer_backward"]: lstm.differentiate_lstm,
    RECURRENT_OPS["gru_layer"]: gru.run_gru,
    RECURRENT_OPS["gru_layer_backward"]: gru.differentiate_gru,
    RECURRENT_OPS["rnn_layer_backward"]: rnn.differentiate_rnn,
}

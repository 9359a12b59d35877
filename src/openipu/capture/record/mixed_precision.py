"""Operands with different float formats.

In: a call of a function. Out: for a layer, the same call with its weights in the format of the activations: that is the
format an IPU computes the layer in, and the format of its result. Gradients of the weights come back in the weights'
own format, so float32 weights can be trained through half-precision activations; so do running statistics. For a
matrix product, the same call with all operands in the widest format among them, as PyTorch has it for element-wise
operators.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

_NAMES = ("weight", "bias")
_WEIGHT_POSITIONS: dict[Callable[..., Any], int] = {  # the bias stands behind the weight
    **dict.fromkeys((F.linear, F.conv1d, F.conv2d, F.conv3d), 1),
    **dict.fromkeys((F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d), 1),
    F.bilinear: 2,
    F.prelu: 1,
    F.layer_norm: 2,
    F.group_norm: 2,
    F.batch_norm: 3,
    F.instance_norm: 3,
}
_MOVES_STATISTICS = 5  # the position of the argument that says so, of a batch norm and an instance norm
# Norms of half-precision activations take float32 weights as they are, and use all of their precision.
_NORMS = frozenset({F.layer_norm, F.group_norm, F.batch_norm, F.instance_norm})

_T = torch.Tensor
_PRODUCTS: frozenset[Any] = frozenset(
    {
        *(torch.addbmm, torch.addmm, torch.addmv, torch.addr, torch.baddbmm, torch.bmm, torch.chain_matmul),
        *(torch.dot, torch.einsum, torch.ger, torch.inner, torch.linalg.multi_dot, torch.linalg.vecdot, torch.matmul),
        *(torch.linalg.matmul, torch.mm, torch.mv, torch.outer, torch.tensordot, torch.vdot),
        *(F.scaled_dot_product_attention, _T.__matmul__, _T.__rmatmul__, _T.addbmm, _T.addmm, _T.addmv, _T.addr),
        *(_T.baddbmm, _T.bmm, _T.dot, _T.ger, _T.inner, _T.matmul, _T.mm, _T.mv, _T.outer, _T.vdot),
    }
)


def align_weights(func: Any, args: list[Any], keywords: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments with all weights in the dtype of the activations, or all operands of a product in one."""
    if func in _PRODUCTS:
        return _align_operands(args, keywords)
    first = _WEIGHT_POSITIONS.get(func)
    if first is None:
        return args, keywords
    activations = args[0] if args else keywords.get("input")
    if not isinstance(activations, torch.Tensor) or not activations.is_floating_point() or not activations.is_meta:
        return args, keywords
    dtype = activations.dtype
    if func in _NORMS and dtype is not torch.float32:
        return args, keywords
    aligned = [
        _align(value, dtype) if first <= position < first + len(_NAMES) else value
        for position, value in enumerate(args)
    ]
    return aligned, {name: _align(value, dtype) if name in _NAMES else value for name, value in keywords.items()}


def widen_statistics(
    func: Any, args: list[Any], keywords: dict[str, Any]
) -> tuple[list[Any], dict[str, Any], list[tuple[torch.Tensor, torch.Tensor]]]:
    """The call of a batch norm of float32 activations with running statistics in float32 as well, and which ones stand
    for narrower ones of the module: those get the new values in their own format, after the call."""
    activations = args[0] if args else keywords.get("input")
    if func not in (F.batch_norm, F.instance_norm) or getattr(activations, "dtype", None) is not torch.float32:
        return args, keywords, []
    narrow: list[tuple[torch.Tensor, torch.Tensor]] = []

    def widen(value: Any) -> Any:
        wide = _align(value, torch.float32)
        if wide is not value:
            narrow.append((value, wide))
        return wide

    widened = [widen(value) if position in (1, 2) else value for position, value in enumerate(args)]
    named = {
        name: widen(value) if name in ("running_mean", "running_var") else value for name, value in keywords.items()
    }
    by_name = keywords.get("training", keywords.get("use_input_stats", func is F.instance_norm))
    moves = args[_MOVES_STATISTICS] if len(args) > _MOVES_STATISTICS else by_name
    return widened, named, narrow if moves else []


def _align_operands(args: list[Any], keywords: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Operands in the widest format among them."""
    operands = [value for value in _list_tensors((*args, *keywords.values())) if value.is_floating_point()]
    formats = {value.dtype for value in operands}
    if len(formats) < 2:
        return args, keywords
    widest = functools.reduce(torch.promote_types, formats)
    return [_align_all(value, widest) for value in args], {
        name: _align_all(value, widest) for name, value in keywords.items()
    }


def _list_tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _list_tensors(value)


def _align_all(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, list | tuple):
        return [_align_all(item, dtype) for item in value]
    return _align(value, dtype)


def _align(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point() and value.is_meta and value.dtype != dtype:
        return value.to(dtype)
    return value

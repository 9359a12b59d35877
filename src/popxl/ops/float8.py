"""Ops with numbers of 8 bits, which carry no scale of their own: each op is given one, as a power of two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from popxl import dtypes
from popxl._ir.operation import Rule
from popxl.fp8_utils import decode, encode
from popxl.ops.linear import PadType, conv, conv_transpose
from popxl.ops.utils import check_tensor_ipu_and_tile_set, make_one, memory
from popxl.tensor import Tensor

FLOAT8 = (dtypes.float8_143, dtypes.float8_152)


def _check_scale(log2_scale: Tensor) -> None:
    if log2_scale.rank > 0:
        raise ValueError("The exponent `log2_scale` must be a scalar tensor.")
    if log2_scale.dtype is not dtypes.int32:
        raise TypeError("The exponent `log2_scale` must be of type popxl.int32.")


def _power(scale: Any) -> Any:
    return torch.exp2(scale.to(torch.float32))


def pow2scale_cast_to_fp8(t: Tensor, log2_scale: Tensor, data_type: dtypes.dtype) -> Tensor:
    """Numbers times 2 to the power of `log2_scale`, in 8 bits; what is too large becomes NaN."""
    if data_type not in FLOAT8:
        raise TypeError(f"Numbers of 8 bits are float8_143 or float8_152, not {data_type}.")
    _check_scale(log2_scale)
    return make_one(
        "CastThenPow2Scale",
        lambda x, scale: encode(x.to(torch.float32) * _power(scale), data_type.name),
        [t, log2_scale],
        specs=[(t.shape, data_type)],
    )


def pow2scale_cast_from_fp8(t: Tensor, log2_scale: Tensor, data_type: dtypes.dtype) -> Tensor:
    """Numbers of 8 bits times 2 to the power of `log2_scale`, as wider ones."""
    if data_type not in (dtypes.float16, dtypes.float32):
        raise TypeError(f"What 8 bits become is float16 or float32, not {data_type}.")
    _check_scale(log2_scale)
    return make_one(
        "Pow2ScaleThenCast",
        lambda x, scale: (decode(x, t.dtype.name) * _power(scale)).to(data_type._held),
        [t, log2_scale],
        specs=[(t.shape, data_type)],
    )


def matmul_pow2scaled(
    lhs: Tensor, rhs: Tensor, log2_scale: Tensor, available_memory_proportion: float | None = None
) -> Tensor:
    """The product of numbers of 8 bits times 2 to the power of `log2_scale`, in float16."""
    if lhs.dtype not in FLOAT8 or rhs.dtype not in FLOAT8:
        raise TypeError("Both operands of a scaled product have 8 bits: float8_143 or float8_152.")
    _check_scale(log2_scale)
    check_tensor_ipu_and_tile_set(lhs=lhs, rhs=rhs)

    def run(x: Any, y: Any, scale: Any) -> Any:
        return (torch.matmul(decode(x, lhs.dtype.name), decode(y, rhs.dtype.name)) * _power(scale)).half()

    shape = tuple(torch.matmul(torch.empty(lhs.shape, device="meta"), torch.empty(rhs.shape, device="meta")).shape)
    return make_one(
        "MatMul",
        run,
        [lhs, rhs, log2_scale],
        specs=[(shape, dtypes.float16)],
        attributes=memory(available_memory_proportion),
    )


def _widen(t: Tensor) -> Tensor:
    return make_one(
        "Decode", lambda x: decode(x, t.dtype.name), [t], specs=[(t.shape, dtypes.float32)], rule=Rule(inputs=())
    )


def _scale_result(t: Tensor, log2_scale: Tensor) -> Tensor:
    return make_one(
        "Scale", lambda x, scale: (x * _power(scale)).half(), [t, log2_scale], specs=[(t.shape, dtypes.float16)]
    )


def _check_convolution(t: Tensor, weight: Tensor, log2_scale: Tensor) -> None:
    if t.dtype not in FLOAT8 or weight.dtype not in FLOAT8:
        raise TypeError("Images and filters of a scaled convolution have 8 bits: float8_143 or float8_152.")
    _check_scale(log2_scale)


def conv_pow2scaled(
    t: Tensor,
    weight: Tensor,
    log2_scale: Tensor,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    pad_type: PadType = "not_set",
    available_memory_proportions: list[float] | None = None,
    enable_conv_dithering: list[int] | None = None,
) -> Tensor:
    """As `conv`, of numbers of 8 bits, times 2 to the power of `log2_scale`, in float16."""
    _check_convolution(t, weight, log2_scale)
    made = conv(_widen(t), _widen(weight), stride, padding, dilation, groups, pad_type, available_memory_proportions)
    return _scale_result(made, log2_scale)


def conv_transpose_pow2scaled(
    t: Tensor,
    weight: Tensor,
    log2_scale: Tensor,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    pad_type: PadType = "not_set",
    output_padding: Sequence[int] = (),
    output_shape: Sequence[int] = (),
    available_memory_proportions: list[float] | None = None,
    enable_conv_dithering: list[int] | None = None,
) -> Tensor:
    """As `conv_transpose`, of numbers of 8 bits, times 2 to the power of `log2_scale`, in float16."""
    _check_convolution(t, weight, log2_scale)
    made = conv_transpose(
        _widen(t),
        _widen(weight),
        stride,
        padding,
        dilation,
        groups,
        pad_type,
        output_padding,
        output_shape,
        available_memory_proportions,
    )
    return _scale_result(made, log2_scale)

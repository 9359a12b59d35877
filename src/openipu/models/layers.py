"""Layers of the models, in the number formats of an IPU.

In: sizes and a `Format`. Out: modules whose products run in that format, with PyTorch's own first weights; on the meta
device they have none, and only shapes are read. A float8 product takes float8 operands and gives half, as the vendor's
does: the weight is kept in float8, the other operand is cast on the way in. Float8 weights are for plans alone.
"""

from __future__ import annotations

import math
from enum import StrEnum

import torch
from torch import Tensor, nn

from openipu.graph.library import define_operator

FLOAT8 = torch.float8_e4m3fn
TABLE_DEVIATION = 0.02  # of the first vectors of a table


def _shape_linear(left: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.empty(*left.shape[:-1], weight.shape[0], dtype=torch.float16, device="meta")


def _shape_convolution(
    images: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Tensor:
    sizes = [
        (size + 2 * pad - spread * (taps - 1) - 1) // step + 1
        for size, taps, step, pad, spread in zip(
            images.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True
        )
    ]
    return torch.empty(images.shape[0], weight.shape[0], *sizes, dtype=torch.float16, device="meta")


define_operator("float8_linear(Tensor input, Tensor weight, Tensor? bias) -> Tensor", meta=_shape_linear)
define_operator(
    "float8_convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
    "bool transposed, int[] output_padding, int groups) -> Tensor",
    meta=_shape_convolution,
)


class Format(StrEnum):
    """What products are computed in; everything else is half beside float8."""

    FLOAT32 = "fp32"
    HALF = "fp16"
    FLOAT8 = "fp8"

    @property
    def dtype(self) -> torch.dtype:
        """Of activations."""
        return torch.float32 if self is Format.FLOAT32 else torch.float16


class Linear(nn.Module):
    """A linear layer with bias."""

    def __init__(self, inputs: int, outputs: int, form: Format, *, bias: bool = True) -> None:
        super().__init__()
        self.form = form
        dtype = FLOAT8 if form is Format.FLOAT8 else form.dtype
        self.weight = nn.Parameter(torch.empty(outputs, inputs, dtype=dtype), requires_grad=dtype is not FLOAT8)
        self.bias = nn.Parameter(torch.empty(outputs, dtype=form.dtype)) if bias else None
        _draw_weights(self.weight, self.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        if self.form is Format.FLOAT8:
            result: Tensor = torch.ops.openipu.float8_linear(inputs.to(FLOAT8), self.weight, self.bias)
            return result
        return nn.functional.linear(inputs, self.weight, self.bias)


class Convolution(nn.Module):
    """A convolution of one or two dimensions, padded to keep the size."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        size: int,
        form: Format,
        *,
        stride: int = 1,
        groups: int = 1,
        bias: bool = True,
        padding: int | None = None,
        dims: int = 2,
    ) -> None:
        super().__init__()
        self.form, self.stride, self.groups, self.dims = form, stride, groups, dims
        self.padding = size // 2 if padding is None else padding
        dtype = FLOAT8 if form is Format.FLOAT8 else form.dtype
        shape = (outputs, inputs // groups, *([size] * dims))
        self.weight = nn.Parameter(torch.empty(shape, dtype=dtype), requires_grad=dtype is not FLOAT8)
        self.bias = nn.Parameter(torch.empty(outputs, dtype=form.dtype)) if bias else None
        _draw_weights(self.weight, self.bias)

    def forward(self, images: Tensor) -> Tensor:
        if self.form is Format.FLOAT8:
            dims = self.dims
            return torch.ops.openipu.float8_convolution(  # type: ignore[no-any-return]
                images.to(FLOAT8),
                self.weight,
                self.bias,
                [self.stride] * dims,
                [self.padding] * dims,
                [1] * dims,
                False,
                [0] * dims,
                self.groups,
            )
        convolve = nn.functional.conv1d if self.dims == 1 else nn.functional.conv2d
        return convolve(images, self.weight, self.bias, self.stride, self.padding, groups=self.groups)


class CastNorm(nn.Module):
    """A layer norm in another format than what it takes and gives."""

    def __init__(self, size: int, form: Format) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size, dtype=form.dtype)

    def forward(self, hidden: Tensor) -> Tensor:
        result: Tensor = self.norm(hidden.to(self.norm.weight.dtype)).to(hidden.dtype)
        return result


def make_layer_norm(size: int, form: Format, inner: Format | None = None) -> nn.Module:
    """A layer norm in the format of activations, or in one of its own."""
    if inner is not None and inner.dtype is not form.dtype:
        return CastNorm(size, inner)
    return nn.LayerNorm(size, dtype=form.dtype)


def make_embedding(rows: int, width: int, form: Format) -> nn.Embedding:
    """A table whose vectors begin small, so that it can be the last layer's weight, too."""
    table = nn.Embedding(rows, width, dtype=form.dtype)
    nn.init.normal_(table.weight, std=TABLE_DEVIATION)
    return table


def make_vectors(*shape: int, form: Format) -> nn.Parameter:
    """Vectors of a model's own, such as places or a class token."""
    return nn.Parameter(nn.init.normal_(torch.empty(*shape, dtype=form.dtype), std=TABLE_DEVIATION))


def make_waves(length: int, width: int, form: Format) -> Tensor:
    """Sines and cosines of places, each pair slower than the one before (Vaswani et al. 2017)."""
    places = torch.arange(length, dtype=torch.float32)[:, None]
    rates = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10_000.0) / width))
    waves = torch.stack(((places * rates).sin(), (places * rates).cos()), -1)
    return waves.flatten(1)[:, :width].to(form.dtype)


def _draw_weights(weight: nn.Parameter, bias: nn.Parameter | None) -> None:
    """As PyTorch draws those of its own layers."""
    if weight.dtype == FLOAT8:
        return
    nn.init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        bound = 1 / math.sqrt(math.prod(weight.shape[1:]))
        nn.init.uniform_(bias, -bound, bound)

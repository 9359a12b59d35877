"""Matrix products and convolutions."""

from __future__ import annotations

import math

import torch

from openipu.translate.kit.padding import find_same_pads, pad_edges
from openipu.translate.paddle.calls import Answer, Call, translates


@translates("matmul", "matmul_v2")
def matmul(call: Call) -> Answer:
    x, y = call.tensor("X"), call.tensor("Y")
    old = call.op == "matmul"
    if call.flag("transpose_X" if old else "trans_x") and x.dim() > 1:
        x = x.transpose(-1, -2)
    if call.flag("transpose_Y" if old else "trans_y") and y.dim() > 1:
        y = y.transpose(-1, -2)
    alpha = call.number("alpha", 1.0)
    product = torch.matmul(x, y)
    return product if alpha == 1.0 else product * alpha


@translates("bmm")
def batched_matmul(call: Call) -> Answer:
    return torch.bmm(call.tensor("X"), call.tensor("Y"))


@translates("mv")
def matrix_vector(call: Call) -> Answer:
    return torch.mv(call.tensor("X"), call.tensor("Vec"))


@translates("mul")
def flat_matmul(call: Call) -> Answer:
    """Leading dimensions are rows, the others columns."""
    x, y = call.tensor("X"), call.tensor("Y")
    rows, columns = call.whole("x_num_col_dims", 1), call.whole("y_num_col_dims", 1)
    left = x.reshape(math.prod(x.shape[:rows]), -1)
    right = y.reshape(math.prod(y.shape[:columns]), -1)
    return torch.matmul(left, right).reshape(*x.shape[:rows], *y.shape[columns:])


@translates("fc")
def fully_connected(call: Call) -> Answer:
    x, weight, bias = call.tensor("Input"), call.tensor("W"), call.maybe("Bias")
    rows = call.whole("in_num_col_dims", 1)
    product = torch.matmul(x.reshape(math.prod(x.shape[:rows]), -1), weight)
    product = product if bias is None else product + bias.reshape(-1)
    product = torch.relu(product) if call.get("activation_type") == "relu" else product
    return product.reshape(*x.shape[:rows], -1)


@translates("addmm")
def add_product(call: Call) -> Answer:
    product = torch.matmul(call.tensor("X"), call.tensor("Y"))
    return call.tensor("Input") * call.number("Beta", 1.0) + product * call.number("Alpha", 1.0)


@translates("einsum")
def sum_products(call: Call) -> Answer:
    return torch.einsum(str(call.get("equation")), *call.tensors("Operands"))


def read_pads(call: Call, sizes: list[int], kernel: list[int], strides: list[int], dilations: list[int]) -> list[int]:
    """Pads in front of each dimension, then behind each."""
    way = str(call.get("padding_algorithm", "EXPLICIT"))
    pads, rank = call.numbers("paddings", default=[0] * len(sizes)), len(sizes)
    if way == "VALID":
        return [0] * (2 * rank)
    if way == "SAME":
        return find_same_pads(sizes, kernel, strides, [1] * rank if dilations is None else dilations, lower=False)
    if len(pads) == rank:
        return [*pads, *pads]
    if len(pads) != 2 * rank:
        call.fail(f"has {len(pads)} pads for {rank} dimensions")
    return [*pads[0::2], *pads[1::2]]


def is_channel_last(call: Call) -> bool:
    layout = str(call.get("data_format", call.get("data_layout", "NCHW")))
    return layout in ("NHWC", "NDHWC", "NLC")


def to_channel_first(call: Call, x: torch.Tensor) -> torch.Tensor:
    return x.movedim(-1, 1) if is_channel_last(call) else x


def from_channel_first(call: Call, x: torch.Tensor) -> torch.Tensor:
    return x.movedim(1, -1) if is_channel_last(call) else x


def _add_bias(x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return x if bias is None else x + bias.reshape(-1, *[1] * (x.dim() - 2))


@translates("conv2d", "depthwise_conv2d", "conv3d")
def convolve(call: Call) -> Answer:
    x, weight = to_channel_first(call, call.tensor("Input")), call.tensor("Filter")
    rank = x.dim() - 2
    strides = call.numbers("strides", default=[1] * rank)
    dilations = call.numbers("dilations", default=[1] * rank)
    pads = read_pads(call, list(x.shape[2:]), list(weight.shape[2:]), strides, dilations)
    inside = pads[:rank]
    if pads[rank:] != inside:
        x = pad_edges(x, [0, 0, *pads[:rank], 0, 0, *pads[rank:]], "constant", 0.0)
        inside = [0] * rank
    bias = call.maybe("Bias")
    result = torch.convolution(
        x, weight, bias, strides, inside, dilations, False, [0] * rank, max(call.whole("groups", 1), 1)
    )
    return {"Output": from_channel_first(call, result), "Out": from_channel_first(call, result)}


@translates("conv2d_transpose", "depthwise_conv2d_transpose", "conv3d_transpose")
def convolve_transposed(call: Call) -> Answer:
    x, weight = to_channel_first(call, call.tensor("Input")), call.tensor("Filter")
    rank = x.dim() - 2
    strides = call.numbers("strides", default=[1] * rank)
    dilations = call.numbers("dilations", default=[1] * rank)
    pads = read_pads(call, list(x.shape[2:]), list(weight.shape[2:]), strides, dilations)
    extra = call.numbers("output_padding") or [0] * rank
    wanted = call.numbers("output_size", "OutputSizeTensor")
    full = torch.convolution(
        x, weight, None, strides, [0] * rank, dilations, True, [0] * rank, max(call.whole("groups", 1), 1)
    )
    if wanted:
        extra = [
            size - (have - pads[axis] - pads[rank + axis])
            for axis, (size, have) in enumerate(zip(wanted, full.shape[2:], strict=True))
        ]
    before = [-pads[axis] for axis in range(rank)]
    behind = [extra[axis] - pads[rank + axis] for axis in range(rank)]
    result = pad_edges(full, [0, 0, *before, 0, 0, *behind], "constant", 0.0)
    return {"Output": from_channel_first(call, _add_bias(result, call.maybe("Bias")))}

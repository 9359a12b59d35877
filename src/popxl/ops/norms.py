"""Norms and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from popxl._ir.operation import Rule, make_op
from popxl.ops.utils import check_formats, check_tensor_ipu_and_tile_set, handle_negative_axis, make_one
from popxl.tensor import Tensor

aten = torch.ops.aten


def softmax(t: Tensor, axis: int) -> Tensor:
    """Shares that add up to 1 along an axis."""
    place = handle_negative_axis(t, axis)

    def differentiate(gradients: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Sequence[Any]:
        y = outputs[0]
        return [aten._softmax_backward_data(gradients[0], y, place, y.dtype)]

    return make_one(
        "Softmax",
        lambda x: torch.softmax(x, place),
        [t],
        rule=Rule(inputs=(), outputs=(0,), formula=differentiate),
    )


def batch_norm_inference(
    t: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, epsilon: float = 1e-5, momentum: float = 0.9
) -> Tensor:
    """A batch norm by statistics that are given."""
    check_tensor_ipu_and_tile_set(t=t, scale=scale, b=bias, mean=mean, var=var)

    def run(x: Any, weight: Any, offset: Any, middle: Any, spread: Any) -> Any:
        return F.batch_norm(x, middle, spread, weight, offset, False, 0.0, epsilon)

    return make_one("BatchNorm", run, [t, scale, bias, mean, var])


def group_norm(t: Tensor, weight: Tensor, bias: Tensor, num_groups: int, eps: float = 1e-5) -> Tensor:
    """Channels, on axis 1, normalised in groups; its mean and inverse deviation are kept for backward."""
    check_formats("GroupNorm", t, weight, bias)
    check_tensor_ipu_and_tile_set(t=t, weight=weight, bias=bias)
    samples, channels, rest = t.shape[0], t.shape[1], math.prod(t.shape[2:])
    plain = num_groups == 1 and t.rank == 2  # the same as a layer norm, which is planned and run as one

    def run(x: Any, scale: Any, offset: Any) -> Any:
        if plain:
            return torch.native_layer_norm(x, [channels], scale, offset, eps)
        return torch.native_group_norm(x, scale, offset, samples, channels, rest, num_groups, eps)

    def differentiate(gradients: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Sequence[Any]:
        x, scale, offset = inputs
        wanted = [True, True, True]
        if plain:
            found = aten.native_layer_norm_backward(
                gradients[0], x, [channels], outputs[1], outputs[2], scale, offset, wanted
            )
        else:
            found = aten.native_group_norm_backward(
                gradients[0], x, outputs[1], outputs[2], scale, samples, channels, rest, num_groups, wanted
            )
        return list(found)

    rule = Rule(inputs=(0, 1, 2), outputs=(1, 2), formula=differentiate)
    names = ("groupnorm_out", "groupnorm_mean", "groupnorm_inv_std_dev")
    return make_op("GroupNorm", run, [t, weight, bias], rule=rule, names=names)[0]


def layer_norm(t: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """All but the first axis normalised together."""
    return group_norm(t, weight, bias, 1, eps)

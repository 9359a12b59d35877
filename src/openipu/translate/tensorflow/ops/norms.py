"""Batch norms with their gradient, local response norms.

What a norm saves for its gradient (`reserve_space_…`) is ours: the mean and one over the deviation, as torch has them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812

from openipu.translate.rules import rule
from openipu.translate.site import Site
from openipu.translate.tensorflow.ops.layouts import channels_as_given, channels_first, has_channels_last

Tensor = torch.Tensor
aten = torch.ops.aten


@rule("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def normalise(site: Site) -> list[Tensor]:
    """(x, scale, offset, mean, variance) -> result, new mean and variance, and what the gradient needs."""
    last = has_channels_last(site)
    x, scale, offset = channels_first(site.input(0), last), site.input(1), site.input(2)
    epsilon, share = site.number("epsilon", 1e-4), site.number("exponential_avg_factor", 1.0)
    if not site.get("is_training", True):
        mean, variance = site.input(3), site.input(4)
        result = F.batch_norm(x, mean, variance, scale, offset, False, 0.0, epsilon)
        saved = [mean, torch.rsqrt(variance + epsilon)]
        return _finish(site, channels_as_given(result, last), mean, variance, saved)
    result, mean, inverse = aten.native_batch_norm(x, scale, offset, None, None, True, 0.0, epsilon)
    count = x.numel() // x.shape[1]
    variance = (torch.reciprocal(torch.square(inverse)) - epsilon) * (count / max(1, count - 1))
    new_mean, new_variance = mean, variance
    if share != 1.0:
        new_mean = site.input(3) * (1 - share) + mean * share
        new_variance = site.input(4) * (1 - share) + variance * share
    return _finish(site, channels_as_given(result, last), new_mean, new_variance, [mean, inverse])


def _finish(site: Site, result: Tensor, mean: Tensor, variance: Tensor, saved: list[Tensor]) -> list[Tensor]:
    found = [result, mean, variance, *saved]
    return [*found, saved[0]] if site.results > 5 else found


@rule("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def find_gradients(site: Site) -> list[Tensor]:
    """(gradient, x, scale, mean, one over the deviation) -> gradients of x, scale and offset."""
    last = has_channels_last(site)
    gradient, x = channels_first(site.input(0), last), channels_first(site.input(1), last)
    scale, mean, inverse = site.input(2), site.input(3), site.input(4)
    epsilon = site.number("epsilon", 1e-4)
    if site.get("is_training", True):
        found = aten.native_batch_norm_backward(
            gradient, x, scale, None, None, mean, inverse, True, epsilon, [True, True, True]
        )
        of_x, of_scale, of_offset = found
    else:
        sizes = [1, -1, *([1] * (x.dim() - 2))]
        axes = [axis for axis in range(x.dim()) if axis != 1]
        of_x = gradient * (scale * inverse).reshape(sizes)
        of_scale = (gradient * (x - mean.reshape(sizes))).sum(axes) * inverse
        of_offset = gradient.sum(axes)
    return [channels_as_given(of_x, last), of_scale, of_offset, mean, mean]


@rule("IpuLayerNorm")
def normalise_rows(site: Site) -> list[Tensor]:
    """(x, scale, offset) -> result, mean, one over the deviation, of each row. The front end makes this op."""
    x = site.input(0)
    found = aten.native_layer_norm(x, [x.shape[-1]], site.input(1), site.input(2), site.number("epsilon", 1e-3))
    return list(found)


@rule("IpuLayerNormGrad")
def find_row_gradients(site: Site) -> list[Tensor]:
    """(gradient, x, scale, offset, mean, one over the deviation) -> gradients of x, scale and offset."""
    gradient, x, scale, offset, mean, inverse = (site.input(place) for place in range(6))
    wanted = [True, True, True]
    found = aten.native_layer_norm_backward(gradient, x, [x.shape[-1]], mean, inverse, scale, offset, wanted)
    return list(found)


@rule("LRN")
def normalise_locally(site: Site) -> Tensor:
    x = site.input(0)
    radius, bias = int(site.get("depth_radius", 5)), site.number("bias", 1.0)
    alpha, beta = site.number("alpha", 1.0), site.number("beta", 0.5)
    squares = F.pad(torch.square(x), [radius, radius])
    total = torch.stack([squares.narrow(-1, step, x.shape[-1]) for step in range(2 * radius + 1)]).sum(0)
    return x / torch.pow(bias + alpha * total, beta)

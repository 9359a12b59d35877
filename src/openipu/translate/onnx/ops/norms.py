"""Normalisation and dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812

from openipu.translate.onnx.formats import find_dtype
from openipu.translate.rules import Results, rule
from openipu.translate.site import Site


@rule("BatchNormalization", until=6, writes=(3, 4))
def batch_norm_with_test_flag(site: Site) -> Results:
    return normalise_batch(site, training=not site.get("is_test", 0) and site.results > 1)


@rule("BatchNormalization", since=7, until=13, writes=(3, 4))
def batch_norm(site: Site) -> Results:
    return normalise_batch(site, training=site.results > 1)


@rule("BatchNormalization", since=14, writes=(3, 4))
def batch_norm_with_training_flag(site: Site) -> Results:
    return normalise_batch(site, training=bool(site.get("training_mode", 0)))


def normalise_batch(site: Site, *, training: bool) -> Results:
    """Over a batch, with the running statistics that a training run keeps.

    Before operator set 9 each element may have statistics of its own: it is then a channel.
    """
    x, *held = (site.input(place) for place in range(5))
    shape, kept = x.shape, held[0].shape
    single = site.version < 9 and not site.get("spatial", 1)
    if single:
        x, held = x.flatten(1), [one.flatten() for one in held]
    results = _normalise(site, x, held, training=training)
    if not single:
        return results
    return [one.reshape(shape if place == 0 else kept) for place, one in enumerate(results)]


def _normalise(site: Site, x: torch.Tensor, held: Sequence[torch.Tensor], *, training: bool) -> list[torch.Tensor]:
    scale, bias, mean, variance = held
    epsilon, momentum = site.get("epsilon", 1e-5), site.get("momentum", 0.9)
    if not training:
        return [F.batch_norm(x, mean, variance, scale, bias, False, 0.0, epsilon)]
    axes = (0, *range(2, x.dim()))
    now = x.mean(axes)
    spread = ((x - _spread(now, x)) ** 2).mean(axes)  # the biased one, as ONNX has it
    result = F.batch_norm(x, None, None, scale, bias, True, 0.0, epsilon)
    new_mean = mean * momentum + now * (1 - momentum)
    new_variance = variance * momentum + _estimate(site, spread, x) * (1 - momentum)
    if site.training:
        site.write(3, new_mean.reshape(site.input(3).shape))
        site.write(4, new_variance.reshape(site.input(4).shape))
    return [result, new_mean, new_variance, now, spread][: max(site.results, 1)]


def _estimate(site: Site, spread: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """What running statistics take of a variance: PopART's own op takes that of a sample, as PyTorch does."""
    if not site.node.domain:
        return spread
    count = x.numel() // x.shape[1]
    return spread * (count / max(count - 1, 1))


def _spread(values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return values.reshape(1, -1, *[1] * (x.dim() - 2))


@rule("InstanceNormalization")
def instance_norm(site: Site) -> torch.Tensor:
    return F.instance_norm(
        site.input(0), None, None, site.input(1), site.input(2), True, 0.0, site.get("epsilon", 1e-5)
    )


@rule("GroupNormalization", until=20)
def group_norm_by_group(site: Site) -> torch.Tensor:
    x, scale, bias, groups = site.input(0), site.input(1), site.input(2), site.get("num_groups")
    each = x.shape[1] // groups
    return F.group_norm(
        x, groups, scale.repeat_interleave(each), bias.repeat_interleave(each), site.get("epsilon", 1e-5)
    )


@rule("GroupNormalization", since=21)
def group_norm(site: Site) -> torch.Tensor:
    return F.group_norm(site.input(0), site.get("num_groups"), site.input(1), site.input(2), site.get("epsilon", 1e-5))


@rule("LayerNormalization")
def layer_norm(site: Site) -> Results:
    x, scale, bias = site.input(0), site.input(1), site.optional(2)
    axis = site.get("axis", -1) % x.dim()
    epsilon = site.get("epsilon", 1e-5)
    sizes = list(x.shape[axis:])
    if site.results == 1 and list(scale.shape) == sizes and (bias is None or list(bias.shape) == sizes):
        return F.layer_norm(x, sizes, scale, bias, epsilon)
    kept = find_dtype(site.get("stash_type", 1), f"the statistics of {site.node.title}")
    wide = x.to(kept)
    axes = tuple(range(axis, x.dim()))
    mean = wide.mean(axes, keepdim=True)
    inverse = torch.rsqrt(((wide - mean) ** 2).mean(axes, keepdim=True) + epsilon)
    result = ((wide - mean) * inverse).to(x.dtype) * scale
    return [result if bias is None else result + bias, mean, inverse]


@rule("RMSNormalization")
def rms_norm(site: Site) -> torch.Tensor:
    x, scale = site.input(0), site.input(1)
    axis = site.get("axis", -1) % x.dim()
    kept = find_dtype(site.get("stash_type", 1), f"the statistics of {site.node.title}")
    wide = x.to(kept)
    mean = (wide * wide).mean(tuple(range(axis, x.dim())), keepdim=True)
    return (wide * torch.rsqrt(mean + site.get("epsilon", 1e-5))).to(x.dtype) * scale


@rule("LRN")
def local_response_norm(site: Site) -> torch.Tensor:
    x, size = site.input(0), site.get("size")
    alpha, beta, bias = site.number("alpha", 1e-4), site.number("beta", 0.75), site.number("bias", 1.0)
    if not 1 <= size <= 2 * x.shape[1] + 1:
        site.fail(f"looks at {size} channels at once, and has {x.shape[1]}")
    before, behind = (size - 1) // 2, math.ceil((size - 1) / 2)
    pads = [0, 0] * (x.dim() - 2) + [before, behind]
    squares = F.pad(x * x, pads)
    total = squares.narrow(1, 0, x.shape[1])
    for step in range(1, size):
        total = total + squares.narrow(1, step, x.shape[1])
    return x / torch.pow(bias + alpha / size * total, beta)


@rule("Dropout", until=6, folds=False)
def dropout_with_test_flag(site: Site) -> Results:
    return _dropout(site, site.get("ratio", 0.5), not site.get("is_test", 0) and site.training)


@rule("Dropout", since=7, until=11, folds=False)
def dropout(site: Site) -> Results:
    return _dropout(site, site.get("ratio", 0.5), site.training)


@rule("Dropout", since=12, static=(1, 2), folds=False)
def dropout_by_tensors(site: Site) -> Results:
    ratio = float(site.value(1, "ratio")) if site.has(1) else 0.5
    training = bool(site.value(2, "training mode")) if site.has(2) else False
    return _dropout(site, ratio, training)


def _dropout(site: Site, ratio: float, training: bool) -> Results:
    x = site.input(0)
    if not training or ratio == 0:
        mask = torch.ones(x.shape, dtype=torch.bool) if site.wants(1) else None
        return [x, mask]
    if not site.wants(1):
        return F.dropout(x, ratio, True)
    return list(torch.native_dropout(x, ratio, True))

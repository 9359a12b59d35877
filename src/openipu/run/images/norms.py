"""Norms of images with channels last, in training: by native code, where that has been installed.

In: images, weights and running statistics, as PyTorch's operators have them; beside them, other images that are added,
and whether what is negative becomes zero. Out: what the operators return, one behind the other, with half the ways
through memory. Images that lie otherwise are left to the operators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from openipu.run.memory.host_memory import borrow_scratch

aten = torch.ops.aten

_LAST = torch.channels_last
_norm = aten._native_batch_norm_legit_functional.default
_norm_gradients = aten.native_batch_norm_backward.default

Results = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class NormCode:
    """Functions of a library."""

    # images, weight, bias, other images, result, mean, inverse of the deviation, old and new statistics; rows,
    # channels, momentum, epsilon, whether negative results are zero, scratch, threads
    normalize: Callable[..., None]
    # gradient, results, images, weight, mean, inverse, what counts of the gradient, result, gradients of weight and
    # bias; rows, channels, scratch, threads
    differentiate: Callable[..., None]


_installed: list[NormCode] = []  # one, or none


def has_norms() -> bool:
    """Whether native code is installed."""
    return bool(_installed)


def install_norms(code: NormCode | None) -> None:
    """Use native code in graphs that are generated from here on, or no longer."""
    _installed[:] = [] if code is None else [code]


def normalize(
    images: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    mean: torch.Tensor,
    variance: torch.Tensor,
    momentum: float,
    epsilon: float,
    other: torch.Tensor | None,
    rectifies: bool,
) -> Results:
    """Images by the norm of their own, plus others; their mean, the inverse of their deviation, new statistics."""
    if not _is_last(images):
        result, *rest = _norm(images, weight, bias, mean, variance, True, momentum, epsilon)
        result = result if other is None else result + other
        return (torch.relu_(result) if rectifies else result, *rest)
    rows, channels = _count_rows(images), images.shape[1]
    weight, bias, mean, variance = (value.contiguous() for value in (weight, bias, mean, variance))
    result = torch.empty_like(images)
    found = [torch.empty_like(weight) for _ in range(4)]
    if other is not None:
        other = other.contiguous(memory_format=_LAST)
    scratch, threads = _find_scratch(channels)
    _installed[0].normalize(
        *(images.data_ptr(), weight.data_ptr(), bias.data_ptr(), None if other is None else other.data_ptr()),
        *(result.data_ptr(), found[0].data_ptr(), found[1].data_ptr(), mean.data_ptr(), variance.data_ptr()),
        *(found[2].data_ptr(), found[3].data_ptr(), rows, channels, momentum, epsilon, rectifies),
        *(scratch.data_ptr(), threads),
    )
    return (result, found[0], found[1], found[2], found[3])


def differentiate(
    gradient: torch.Tensor,
    results: torch.Tensor | None,
    images: torch.Tensor,
    weight: torch.Tensor,
    mean: torch.Tensor,
    inverse: torch.Tensor,
    epsilon: float,
    keeps: bool,
    in_place: bool,
) -> tuple[torch.Tensor, ...]:
    """Gradients of images, weight and bias; if it is kept, what counts of the given one: where results are positive.

    `in_place`: in the memory of the gradient, which nobody reads again.
    """
    if not _is_last(images) or (results is not None and not _is_last(results)):
        if results is not None:
            gradient = aten.threshold_backward(gradient, results, 0)
        found = _norm_gradients(gradient, images, weight, None, None, mean, inverse, True, epsilon, [True, True, True])
        return (*found, gradient) if keeps else tuple(found)
    rows, channels = _count_rows(images), images.shape[1]
    weight, mean, inverse = (value.contiguous() for value in (weight, mean, inverse))
    held = gradient.contiguous(memory_format=_LAST)
    free = held if in_place or held is not gradient else torch.empty_like(images)
    result = torch.empty_like(images) if keeps else free
    of_weight, of_bias = torch.empty_like(weight), torch.empty_like(weight)
    scratch, threads = _find_scratch(channels)
    _installed[0].differentiate(
        *(held.data_ptr(), None if results is None else results.data_ptr(), images.data_ptr(), weight.data_ptr()),
        *(mean.data_ptr(), inverse.data_ptr(), free.data_ptr() if keeps else None, result.data_ptr()),
        *(of_weight.data_ptr(), of_bias.data_ptr(), rows, channels, scratch.data_ptr(), threads),
    )
    return (result, of_weight, of_bias, free) if keeps else (result, of_weight, of_bias)


def _is_last(images: torch.Tensor) -> bool:
    return images.is_contiguous(memory_format=_LAST)


def _count_rows(images: torch.Tensor) -> int:
    return images.shape[0] * images.shape[2] * images.shape[3]


def _find_scratch(channels: int) -> tuple[torch.Tensor, int]:
    threads = torch.get_num_threads()
    return borrow_scratch("norms", channels * (4 + 6 * threads)), threads

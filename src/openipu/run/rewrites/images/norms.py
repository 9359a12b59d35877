"""Norms of images with channels last, in training, by C++ kernels.

In: images, weights and running statistics, as PyTorch's operators have them; beside them, other images that are added,
and whether what is negative becomes zero. Out: what the operators return, one behind the other, with half the passes
over memory. Images that lie otherwise are left to the operators.
"""

from __future__ import annotations

import torch

from openipu.run.kernels import OperandError, Run, address_of, address_or_none
from openipu.run.kernels.catalog import NormArguments, NormGradientArguments
from openipu.run.memory.host_memory import borrow_scratch

aten = torch.ops.aten

CHANNEL_STEP = 16  # channels, of which there have to be multiples

_LAST = torch.channels_last
_norm = aten._native_batch_norm_legit_functional.default
_norm_gradients = aten.native_batch_norm_backward.default

Results = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


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
    run: Run,
) -> Results:
    """Images by the norm of their own, plus others; their mean, the inverse of their deviation, new statistics."""
    rows, channels = _count_rows(images), images.shape[1]
    size = rows * channels
    operands = [value.contiguous() for value in (weight, bias, mean, variance)]
    found = [torch.empty(channels, dtype=torch.float32) for _ in range(4)]
    added = None if other is None else other.contiguous(memory_format=_LAST)
    result = torch.empty_like(images, memory_format=_LAST)
    scratch, threads = _find_scratch(channels)
    try:
        _check_channels(rows, channels)
        arguments = NormArguments(
            images=address_of(images, size, order=_LAST),
            weight=address_of(operands[0], channels),
            bias=address_of(operands[1], channels),
            other=address_or_none(added, size, order=_LAST),
            result=address_of(result, size, order=_LAST),
            mean=address_of(found[0], channels),
            inverse=address_of(found[1], channels),
            old_mean=address_of(operands[2], channels),
            old_variance=address_of(operands[3], channels),
            new_mean=address_of(found[2], channels),
            new_variance=address_of(found[3], channels),
            scratch=address_of(scratch, scratch.numel()),
            rows=rows,
            channels=channels,
            momentum=momentum,
            epsilon=epsilon,
            rectifies=rectifies,
            threads=threads,
        )
    except OperandError:
        result, *rest = _norm(images, weight, bias, mean, variance, True, momentum, epsilon)
        result = result if other is None else result + other
        return (torch.relu_(result) if rectifies else result, *rest)
    run(arguments)
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
    run: Run,
) -> tuple[torch.Tensor, ...]:
    """Gradients of images, weight and bias; if it is kept, what counts of the given one: where results are positive.

    `in_place`: in the memory of the gradient, which nobody reads again.
    """
    rows, channels = _count_rows(images), images.shape[1]
    size = rows * channels
    operands = [value.contiguous() for value in (weight, mean, inverse)]
    held = gradient.contiguous(memory_format=_LAST)
    free = held if in_place or held is not gradient else torch.empty_like(held)
    result = torch.empty_like(held) if keeps else free
    of_weight, of_bias = (torch.empty(channels, dtype=torch.float32) for _ in range(2))
    scratch, threads = _find_scratch(channels)
    try:
        _check_channels(rows, channels)
        arguments = NormGradientArguments(
            gradient=address_of(held, size, order=_LAST),
            results=address_or_none(results, size, order=_LAST),
            images=address_of(images, size, order=_LAST),
            weight=address_of(operands[0], channels),
            mean=address_of(operands[1], channels),
            inverse=address_of(operands[2], channels),
            blocked=address_of(free, size, order=_LAST) if keeps else None,
            result=address_of(result, size, order=_LAST),
            weight_gradient=address_of(of_weight, channels),
            bias_gradient=address_of(of_bias, channels),
            scratch=address_of(scratch, scratch.numel()),
            rows=rows,
            channels=channels,
            threads=threads,
        )
    except OperandError:
        if results is not None:
            gradient = aten.threshold_backward(gradient, results, 0)
        found = _norm_gradients(gradient, images, weight, None, None, mean, inverse, True, epsilon, [True, True, True])
        return (*found, gradient) if keeps else tuple(found)
    run(arguments)
    return (result, of_weight, of_bias, free) if keeps else (result, of_weight, of_bias)


def _check_channels(rows: int, channels: int) -> None:
    """The kernel computes whole vectors of channels, and divides by rows - 1."""
    if rows < 2 or channels % CHANNEL_STEP:
        raise OperandError(f"{rows} rows of {channels} channels")


def _count_rows(images: torch.Tensor) -> int:
    return images.shape[0] * images.shape[2] * images.shape[3]


def _find_scratch(channels: int) -> tuple[torch.Tensor, int]:
    threads = torch.get_num_threads()
    return borrow_scratch("norms", channels * (4 + 6 * threads)), threads

"""How the inputs of one call become micro-batches.

In: one flattened input leaf of a call, with every micro-batch on dimension 0 in the order
[device iteration, accumulation step, replica, sample].
Out: views of it, one for each micro-batch, or an `InputError` that names the input and the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from openipu.errors import InputError, Term
from openipu.graph import GraphInput, RunOptions

# An IPU has no 64-bit numbers and no bfloat16: inputs are narrowed on the way in.
_NARROWED: dict[torch.dtype, torch.dtype] = {
    torch.int64: torch.int32,
    torch.float64: torch.float32,
    torch.bfloat16: torch.float32,
}


def split_micro_batch(leaf: Any, options: RunOptions) -> Any:
    """The first micro-batch of one input leaf: a view. Scalars and values that are not tensors pass unchanged."""
    if not isinstance(leaf, torch.Tensor) or leaf.dim() == 0 or options.micro_batches == 1:
        return leaf
    return leaf[: _measure_micro_batch(leaf, options, "an input")]


def split_call(leaf: Any, entry: GraphInput, options: RunOptions) -> Sequence[torch.Tensor]:
    """All micro-batches of one input leaf, in order, in the shape and number format the program was compiled for."""
    where = f"input {entry.name or entry.index}"
    if not isinstance(leaf, torch.Tensor):
        raise InputError(
            f"{where} must be a tensor of shape {_show_call_shape(entry, options)}, not {type(leaf).__name__}: "
            "pass what the program was compiled with, or compile it again."
        )
    batches = options.micro_batches
    if entry.shape:
        expected = (entry.shape[0] * batches, *entry.shape[1:])
    else:
        expected = ()
    if tuple(leaf.shape) != expected:
        if leaf.dim() > 0 and batches > 1:
            _measure_micro_batch(leaf, options, where)
        raise InputError(
            f"{where} has shape {tuple(leaf.shape)}, but the program was compiled for "
            f"{_show_call_shape(entry, options)}: pass inputs of that shape, or compile the program again."
        )
    if leaf.dtype is not entry.dtype:
        if _NARROWED.get(leaf.dtype) is not entry.dtype:
            raise InputError(
                f"{where} holds {leaf.dtype}, but the program was compiled for {entry.dtype}: "
                f"convert it with .to({entry.dtype}), or compile the program again."
            )
        leaf = leaf.to(entry.dtype)
    elif leaf.dtype is torch.int64:
        # Programs keep int64, which torch wants of an index, but the device gets no more than 32 bits of it.
        leaf = leaf.to(torch.int32).to(torch.int64)
    leaf = leaf.detach()
    if not entry.shape or batches == 1:
        return (leaf,) * batches
    return torch.split(leaf, entry.shape[0])


def _measure_micro_batch(leaf: torch.Tensor, options: RunOptions, where: str) -> int:
    size, batches = leaf.shape[0], options.micro_batches
    if size % batches or size == 0:
        raise InputError(
            f"{where} of shape {tuple(leaf.shape)} cannot be cut into micro-batches: its first dimension ({size}) must "
            f"be a multiple of {Term.DEVICE_ITERATIONS} ({options.device_iterations}) x {Term.GRADIENT_ACCUMULATION} "
            f"({options.gradient_accumulation}) x replicas ({options.replicas}) = {batches}. "
            "Change the batch size of the data or one of these options."
        )
    return size // batches


def _show_call_shape(entry: GraphInput, options: RunOptions) -> str:
    if not entry.shape:
        return "()"
    if options.micro_batches == 1:
        return str(entry.shape)
    whole = (entry.shape[0] * options.micro_batches, *entry.shape[1:])
    return f"{whole} ({options.micro_batches} micro-batches of {entry.shape})"

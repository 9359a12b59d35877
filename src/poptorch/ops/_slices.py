"""Slices whose start is data: `dynamic_slice` and `dynamic_update`.

In: a tensor, a start that is known only when the program runs, a size that is known before. Out: a tensor of a shape
that is known before. A start that leaves too few elements is an error of the run.
"""

from __future__ import annotations

from typing import Any

import torch

from openipu.capture import is_capturing
from poptorch.errors import createPoptorchError
from poptorch.ops._checks import require_tensor


def dynamic_slice(tensor: torch.Tensor, dim: int, start: torch.Tensor, size: int, step: int) -> torch.Tensor:
    """`tensor[start : start + size : step]` along `dim`."""
    require_tensor(tensor, "dynamic_slice must take a torch.tensor input.")
    _check_position("dynamic_slice", dim, start, size)
    _require_int("Step", step)
    if step < 1:
        raise createPoptorchError(f"The step of a slice must be at least 1, not {step}.")
    if tensor.shape[dim] % size:
        raise createPoptorchError(
            f"The size of the slice ({size}) must be a factor of the slicing dimension ({tensor.shape[dim]})."
        )
    return tensor.index_select(dim, _list_positions(start, size, step))


def dynamic_update(input: torch.Tensor, src: torch.Tensor, dim: int, start: torch.Tensor, size: int) -> torch.Tensor:
    """A copy of `input` with `src` in the place of `input[start : start + size]` along `dim`."""
    require_tensor(input, "dynamic_update must take a torch.tensor input.")
    _check_position("dynamic_update", dim, start, size)
    require_tensor(src, "Src argument to dynamic_update must be a torch.tensor.")
    if input.dim() != src.dim():
        raise createPoptorchError(
            f"input and src tensors must have same dimensionality. ({input.dim()}) vs ({src.dim()})"
        )
    if input.dtype != src.dtype:
        raise createPoptorchError(
            f"input and src tensor must have same dtype. ({_name_dtype(input)} vs {_name_dtype(src)})"
        )
    return input.index_copy(dim, _list_positions(start, size, 1), src)


def _check_position(name: str, dim: Any, start: Any, size: Any) -> None:
    _require_int("Dimension", dim)
    require_tensor(start, f"Slice start argument to {name} must be a torch.tensor.")
    _require_int("Size", size)
    if start.numel() != 1 or start.is_floating_point():
        raise createPoptorchError(
            f"The start of a slice is one whole number, not a tensor of {start.numel()} elements of {start.dtype}."
        )
    if size == 0:
        raise createPoptorchError("The start and end of a slice must be different.")
    if size < 0:
        raise createPoptorchError(
            "Taking a slice of a tensor with the end less than the start is not supported. Exchange the two."
        )


def _require_int(name: str, value: Any) -> None:
    if not isinstance(value, int):
        raise createPoptorchError(f"{name} must be an integer.")


def _list_positions(start: torch.Tensor, size: int, step: int) -> torch.Tensor:
    return start.reshape(1).to(torch.int64) + torch.arange(0, size, step, dtype=torch.int64, device=start.device)


def _name_dtype(tensor: torch.Tensor) -> torch.dtype:
    """An IPU holds whole numbers of 64 bits in 32."""
    return torch.int32 if is_capturing() and tensor.dtype is torch.int64 else tensor.dtype

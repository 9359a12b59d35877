"""Checked memory of tensors: the one way from a tensor to a pointer that a kernel gets.

In: a tensor, and what the kernel expects of it. Out: its address, or an `OperandError` before anything was written; the
caller then leaves the work to the operator. C++ checks nothing.
"""

from __future__ import annotations

import torch


class OperandError(Exception):
    """An operand has another type, layout or size than the kernel takes."""


def address_of(
    tensor: torch.Tensor,
    count: int,
    dtype: torch.dtype = torch.float32,
    order: torch.memory_format = torch.contiguous_format,
) -> int:
    """The memory of a dense tensor with so many elements of this type, in this order."""
    if (
        tensor.dtype is not dtype
        or tensor.numel() != count
        or not tensor.is_contiguous(memory_format=order)
        or tensor.device.type != "cpu"
    ):
        raise OperandError(f"{tensor.dtype}, {tuple(tensor.shape)}, strides {tensor.stride()}: not {count} of {dtype}")
    return tensor.data_ptr()


def address_or_none(
    tensor: torch.Tensor | None,
    count: int,
    dtype: torch.dtype = torch.float32,
    order: torch.memory_format = torch.contiguous_format,
) -> int | None:
    """The same for an operand that may be missing."""
    return None if tensor is None else address_of(tensor, count, dtype, order)


def address_of_lines(tensor: torch.Tensor, shape: tuple[int, ...]) -> int:
    """The memory of a float32 tensor of this shape whose last dimension is dense; the others have any strides."""
    if tensor.dtype is not torch.float32 or tuple(tensor.shape) != shape or tensor.device.type != "cpu":
        raise OperandError(f"{tensor.dtype}, {tuple(tensor.shape)}: not float32 of {shape}")
    if tensor.stride(-1) != 1 and shape[-1] > 1:
        raise OperandError(f"strides {tensor.stride()}: the last dimension is not dense")
    return tensor.data_ptr()


def address_of_rows(matrix: torch.Tensor, rows: int, columns: int) -> tuple[int, int]:
    """The memory of a float32 matrix whose rows are dense, and the distance from one row to the next."""
    if matrix.dtype is not torch.float32 or tuple(matrix.shape) != (rows, columns) or matrix.device.type != "cpu":
        raise OperandError(f"{matrix.dtype}, {tuple(matrix.shape)}: not a float32 matrix of {rows} x {columns}")
    stride, step = matrix.stride()
    if (columns > 1 and step != 1) or (rows > 1 and stride < columns):
        raise OperandError(f"strides {matrix.stride()}: rows are not dense")
    return matrix.data_ptr(), max(stride, columns)


def address_of_matrix(matrix: torch.Tensor, rows: int, columns: int) -> tuple[int, int, int, bool]:
    """The memory of a matrix in float32 or half, the steps between rows and columns, and whether it is half."""
    if matrix.dtype not in (torch.float32, torch.float16) or tuple(matrix.shape) != (rows, columns):
        raise OperandError(f"{matrix.dtype}, {tuple(matrix.shape)}: not a matrix of {rows} x {columns}")
    if matrix.device.type != "cpu":
        raise OperandError(f"a matrix on {matrix.device}")
    return matrix.data_ptr(), matrix.stride(0), matrix.stride(1), matrix.dtype is torch.float16

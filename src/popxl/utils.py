"""Values of the host as arrays that a program can hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from popxl.dtypes import dtype as Dtype  # noqa: N812
from popxl.dtypes import float8_143, float8_152
from popxl.fp8_utils import host_pow2scale_cast_to_fp8

if TYPE_CHECKING:
    from popxl.tensor import HostScalarTensor

downcast_np_dtypes = {
    np.dtype("int64"): np.dtype("int32"),
    np.dtype("uint64"): np.dtype("uint32"),
    np.dtype("float64"): np.dtype("float32"),
}


def to_numpy(
    x: HostScalarTensor,
    dtype: Dtype | None = None,
    downcast: bool = True,
    copy: bool = True,
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> np.ndarray[Any, Any]:
    """An array of `dtype`, or of the value's own format, in which 64 bits become 32 if `downcast`."""
    if isinstance(x, np.memmap):
        _check_memmap(x, dtype)
        return x
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu().numpy()
    if dtype in (float8_143, float8_152):
        array = np.asarray(x)
        if array.dtype == dtype.as_numpy():
            return array.copy() if copy else array
        if array.dtype not in (np.float16, np.float32, np.float64):
            raise TypeError(f"Numbers of 8 bits are made of float16, float32 or float64, not of {array.dtype}.")
        return host_pow2scale_cast_to_fp8(
            array, dtype, log2_scale or 0, True if nan_on_overflow is None else nan_on_overflow
        )
    for name, value in (("log2scale", log2_scale), ("nan_on_overflow", nan_on_overflow)):
        if value is not None:
            raise RuntimeError(f"`{name}` is for float8_143 and float8_152 alone.")
    array = np.asarray(x, dtype=dtype.as_numpy() if dtype is not None else None, order="C")
    if dtype is None and downcast and array.dtype in downcast_np_dtypes:
        return array.astype(downcast_np_dtypes[array.dtype])
    return array.copy() if copy else array


def _check_memmap(x: np.memmap[Any, Any], dtype: Dtype | None) -> None:
    if dtype is not None and dtype.as_numpy() != x.dtype:
        raise ValueError(
            "When passing a memory-mapped NumPy array, the `dtype` parameter is left out, or that of the file."
        )
    if not (x.flags.c_contiguous and x.flags.aligned):
        raise ValueError(
            "When passing a memory-mapped NumPy array, it must already be in C-ordered memory, with aligned numbers."
        )
    if x.dtype in downcast_np_dtypes:
        raise ValueError(
            f"When passing a memory-mapped NumPy array, the dtype {dtype} is not supported, as it requires "
            "downcasting, "
            "and the file would not follow."
        )


def table_to_string(rows: Sequence[Sequence[Any]], delimiter: str = " | ", header: bool = True) -> str:
    """Rows as lines with columns of one width; the first is a head."""
    widths = [max(len(str(entry)) for entry in column) for column in zip(*rows, strict=True)]
    lines = [delimiter.join(f"{entry!s: <{width}}" for entry, width in zip(row, widths, strict=True)) for row in rows]
    if header and len(lines) > 1:
        lines.insert(1, "-" * (len(lines[0]) + 1))
    return "".join(f"{line}\n" for line in lines)

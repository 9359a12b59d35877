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

downcast_np_dtypes = {np.dtype(f"{kind}64"): np.dtype(f"{kind}32") for kind in ("int", "uint", "float")}


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
    """A file is used where it lies, so nothing about its numbers may have to change."""
    passing = "When passing a memory-mapped NumPy array,"
    if x.dtype != (x.dtype if dtype is None else dtype.as_numpy()):
        raise ValueError(f"{passing} the `dtype` parameter is left out, or that of the file, {x.dtype}.")
    layout = x.flags
    if not layout.c_contiguous or not layout.aligned:
        raise ValueError(f"{passing} it must already be in C-ordered memory, with aligned numbers.")
    if x.dtype in downcast_np_dtypes:
        raise ValueError(
            f"{passing} the dtype {dtype} is not supported, as it requires downcasting, and the file would not follow."
        )


def table_to_string(rows: Sequence[Sequence[Any]], delimiter: str = " | ", header: bool = True) -> str:
    """Rows as lines with columns of one width; the first is a head."""
    widths = [max(len(str(entry)) for entry in column) for column in zip(*rows, strict=True)]
    lines = [delimiter.join(f"{entry!s: <{width}}" for entry, width in zip(row, widths, strict=True)) for row in rows]
    if header and len(lines) > 1:
        lines.insert(1, "-" * (len(lines[0]) + 1))
    return "".join(f"{line}\n" for line in lines)

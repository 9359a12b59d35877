"""Numbers of 8 bits on the host: arrays of bytes with a format's name.

In: arrays, and a power of two by which they are scaled. Out: the nearest numbers of the format, and back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from popxl.dtypes import dtype, float8_143, float8_152

Array = np.ndarray[Any, Any]
FORMATS = {"float8_143": torch.float8_e4m3fnuz, "float8_152": torch.float8_e5m2fnuz}  # bias 8 and 16, one zero
_NAN = 0x80


def _convert_popxl_float8_dtype_to_numpy(data_type: dtype) -> np.dtype[Any]:
    return data_type.as_numpy()


def encode(values: torch.Tensor, form: str, nan_on_overflow: bool = True) -> torch.Tensor:
    """The nearest numbers of a format, as bytes. What is too large becomes NaN, or the largest number."""
    target = FORMATS[form]
    largest = torch.finfo(target).max
    wide = values.to(torch.float32)
    bytes_ = wide.clamp(-largest, largest).to(target).view(torch.uint8)
    lost = wide.isnan()
    if nan_on_overflow:
        lost = lost | (wide.abs() > largest)
    return torch.where(lost, torch.full_like(bytes_, _NAN), bytes_)


def decode(bytes_: torch.Tensor, form: str) -> torch.Tensor:
    """The numbers that bytes of a format stand for."""
    return bytes_.view(FORMATS[form]).to(torch.float32)


def host_pow2scale_cast_to_fp8(
    src: Array, dtype: dtype = float8_143, log2_scale: int = 0, nan_on_overflow: bool = True
) -> Array:
    """`src` times 2 to the power of `log2_scale`, in 8 bits."""
    if dtype not in (float8_143, float8_152):
        raise TypeError(f"{dtype} is no format of 8 bits: use popxl.float8_143 or popxl.float8_152.")
    values = torch.from_numpy(np.ascontiguousarray(src, dtype=np.float32)) * 2.0**log2_scale
    bytes_ = encode(values, dtype.name, nan_on_overflow).numpy()
    return bytes_.view(dtype.as_numpy()).reshape(np.shape(src))


def host_fp8_mult_pow2scale(src: Array, dtype: dtype, log2_scale: int = 0) -> Array:
    """Numbers of 8 bits times 2 to the power of `log2_scale`, in the same format."""
    return host_pow2scale_cast_to_fp8(host_pow2scale_cast_from_fp8(src, np.float32), dtype, log2_scale)


def host_pow2scale_cast_from_fp8(src: Array, dtype: Any = np.float32, log2_scale: int = 0) -> Array:
    """Numbers of 8 bits times 2 to the power of `log2_scale`, as wide numbers."""
    names = src.dtype.names
    if names is None or names[0] not in FORMATS:
        raise TypeError(f"An array of {src.dtype} holds no numbers of 8 bits.")
    bytes_ = torch.from_numpy(np.ascontiguousarray(src).view(np.uint8).copy())
    wanted = dtype.as_numpy() if hasattr(dtype, "as_numpy") else dtype
    return (decode(bytes_, names[0]) * 2.0**log2_scale).numpy().astype(wanted).reshape(np.shape(src))

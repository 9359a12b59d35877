"""Number formats that an IPU has not, and what takes their place.

In: a dtype of the user's. Out: the format that the device holds it in. Floats of 64 bits and bfloat16 become float32 as
soon as they enter a program: as parameter, buffer, constant, or as the result of a cast. Whole numbers of 64 bits stay
int64 inside a program, because torch takes no other index; they are narrowed on the way in and out.
"""

from __future__ import annotations

from typing import Any

import torch

_HELD_AS: dict[Any, torch.dtype] = {
    torch.float64: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex128: torch.complex64,
}


def find_device_dtype(dtype: torch.dtype) -> torch.dtype:
    """The format in which a tensor of this dtype is held."""
    return _HELD_AS.get(dtype, dtype)


def narrow_arguments(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of an op, asking for a format that there is."""
    wanted = kwargs.get("dtype")
    return {**kwargs, "dtype": _HELD_AS[wanted]} if wanted in _HELD_AS else kwargs
